//! Storages by their addresses, and the storage in a folder of a machine that `ssh` reaches.
//!
//! The other machine needs nothing but an account with SFTP, as OpenSSH has it.

mod folder;
pub(crate) mod fuzzing;
mod packet;
mod pool;
mod process;
mod publish;
mod session;
mod transfer;
mod url;
mod walk;

use std::sync::Arc;

use refloat_store::storage::{BucketOptions, Storage, StorageError};

pub use folder::SshFolder;
pub use url::SshUrl;

/// Opens the storage with this address: `ssh://HOST/FOLDER` or `sftp://HOST/FOLDER` for a folder of
/// another machine ([`SshUrl`]); a path, `file:///FOLDER` or the URL of a bucket as
/// [`refloat_store::storage::open`] takes them.
///
/// # Errors
/// It is no address, or an option of a bucket is missing or wrong. Nothing is connected yet.
pub fn open(address: &str, buckets: &BucketOptions) -> Result<Arc<dyn Storage>, StorageError> {
    let scheme = address
        .split_once(':')
        .map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    match scheme {
        Some((scheme, _)) if scheme == "ssh" || scheme == "sftp" => {
            Ok(Arc::new(SshFolder::new(&address.parse()?)))
        }
        // As `scp` takes it, and hardly the name of a folder.
        Some((host, rest)) if !host.contains('/') && !rest.starts_with('/') => Err(url::refused(
            address,
            "a folder of another machine is ssh://HOST/FOLDER, and ./NAME one with such a name",
        )),
        Some((host, rest)) if !host.contains('/') && !rest.starts_with("//") => Err(url::refused(
            address,
            "a folder of another machine is ssh://HOST/FOLDER, and a bucket s3://BUCKET/PREFIX",
        )),
        _ => refloat_store::storage::open(address, buckets),
    }
}

#[cfg(test)]
mod tests {
    use super::{BucketOptions, open};

    #[test]
    fn addresses_open_what_they_name() {
        let none = BucketOptions::default();
        let url = |address| open(address, &none).map(|storage| storage.url().to_owned());
        for (address, expected) in [
            ("/srv/a", "/srv/a"),
            ("backups", "backups"),
            ("./h:x", "./h:x"),
            ("file:///srv/a%20b", "/srv/a b"),
            ("ssh://h/a", "ssh://h/a"),
            ("sftp://u@h:2/a", "sftp://u@h:2/a"),
        ] {
            assert_eq!(url(address).unwrap(), expected);
        }
        for address in [
            "h:/srv",
            "u@h:srv",
            "file://h/srv",
            "file:srv",
            "file:/srv",
            "ftp://h/a",
            "ssh://h",
        ] {
            url(address).unwrap_err();
        }
    }
}
