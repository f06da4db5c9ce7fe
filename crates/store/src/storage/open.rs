//! Storages by their URLs.

use std::path::Path;
use std::sync::Arc;

use super::{Bucket, BucketKind, BucketOptions, LocalFolder};
use super::{Storage, StorageError, StorageErrorKind};

/// Opens the storage that a URL names: `s3://bucket/prefix`, `azure://container/prefix`,
/// `gs://bucket/prefix`, `file:///path`, or the path of a folder. Looks for nothing yet: a place
/// that is not there shows in the first use.
///
/// # Errors
/// [`StorageErrorKind::Scheme`] for other URLs; an option of a bucket that is missing or wrong.
pub fn open(url: &str, options: &BucketOptions) -> Result<Arc<dyn Storage>, StorageError> {
    // What is not understood may hold a password.
    let refused = |kind, reason: &str| {
        let shown = url.split_once(':').map_or("it", |(scheme, _)| scheme);
        Err(StorageError::saying(
            &format!("{shown}:…"),
            "",
            "opening",
            kind,
            reason.to_owned(),
        ))
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        let begins = |scheme: &str| url.starts_with(&format!("{scheme}:/"));
        if ["s3", "azure", "az", "gs", "file", "ssh"]
            .iter()
            .any(|s| begins(s))
        {
            return refused(StorageErrorKind::Scheme, "after the colon come two slashes");
        }
        return Ok(Arc::new(LocalFolder::new(Path::new(url))));
    };
    let kind = match scheme {
        "file" => {
            let path = rest.strip_prefix("localhost").unwrap_or(rest);
            return match decoded(path) {
                Some(path) if path.starts_with('/') => {
                    Ok(Arc::new(LocalFolder::new(Path::new(&path))))
                }
                _ => refused(
                    StorageErrorKind::Other,
                    "a file URL has three slashes and a path, as in file:///backups",
                ),
            };
        }
        "s3" => BucketKind::S3,
        #[cfg(feature = "azure")]
        "azure" | "az" => BucketKind::Azure,
        #[cfg(feature = "gcs")]
        "gs" => BucketKind::Gcs,
        _ => {
            return refused(
                StorageErrorKind::Scheme,
                "no storage has a URL of this kind",
            );
        }
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if rest.contains(['@', '?', '#']) {
        return refused(
            StorageErrorKind::Other,
            "the URL of a bucket has no user, password or options; they come from the environment",
        );
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if bucket.is_empty() || !bucket.bytes().all(plain) {
        return refused(
            StorageErrorKind::Other,
            "a bucket has a name of letters, digits, dots and dashes",
        );
    }
    Ok(Arc::new(Bucket::new(kind, url, bucket, prefix, options)?))
}

/// A path of a URL, with `%20` and the like as what they stand for.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{BucketOptions, StorageErrorKind, decoded, open};

    #[test]
    fn urls_name_storages() {
        let options = BucketOptions::default()
            .with("aws_access_key_id", "me")
            .with("aws_secret_access_key", "hush");
        for url in [
            "s3://bucket/a/b",
            "s3://bucket",
            "file:///a/b",
            "/a/b",
            "a/b",
            "a:b",
        ] {
            let storage = open(url, &options).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(storage.url(), url.trim_start_matches("file://"));
        }
        // Nothing is asked of these yet.
        let others = BucketOptions::default()
            .with("azure_storage_account_name", "me")
            .with("azure_storage_account_key", "aHVzaA==")
            .with("google_skip_signature", "true");
        for url in ["az://container/a/b", "gs://bucket/a"] {
            let storage = open(url, &others).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(storage.url(), url);
        }
        let error = open("az://container", &options).map(drop).unwrap_err();
        assert!(error.to_string().contains("no storage account"), "{error}");
        for (url, kind) in [
            ("ssh://host/path", StorageErrorKind::Scheme),
            ("ftp://host/path", StorageErrorKind::Scheme),
            ("s3:/bucket", StorageErrorKind::Scheme),
            ("s3://", StorageErrorKind::Other),
            ("s3://me:hush@bucket/a", StorageErrorKind::Other),
            ("s3://bucket/a//b", StorageErrorKind::Other),
            ("s3://bucket/../b", StorageErrorKind::Other),
            ("file://host/path", StorageErrorKind::Other),
        ] {
            let error = open(url, &options).map(drop).unwrap_err();
            assert_eq!(error.kind(), kind, "{url}: {error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        assert_eq!(decoded("/a%20b").unwrap(), "/a b");
        assert_eq!(decoded("/a%2"), None);
    }

    #[test]
    fn a_bucket_says_what_it_lacks() {
        let message = |options: &BucketOptions| {
            let error = open("s3://b/p", options).map(drop).unwrap_err();
            error.to_string()
        };
        let none = BucketOptions::default();
        let alone = none.clone().with("aws_ec2_metadata_disabled", "true");
        assert!(message(&alone).ends_with("no access key is given"));
        let profile = none.clone().with("aws_profile", "backup");
        assert!(message(&profile).contains("profiles are not read"));
        let half = none.clone().with("aws_access_key_id", "me");
        assert!(message(&half).contains("Missing SecretAccessKey"));
        let unknown = none.with("aws_acces_key_id", "me");
        assert!(message(&unknown).contains("no option aws_acces_key_id"));
    }
}
