//! What went wrong with a bucket, for decisions and in words.

use std::error::Error;
use std::fmt::Write as _;

use object_store::client::{HttpError, HttpErrorKind};
use object_store::path;

use super::super::{StorageError, StorageErrorKind as Kind};
use super::service::{NoCredentials, Refusal, deepest};

/// What is said of a bucket in messages.
#[derive(Debug)]
pub struct Names {
    /// The URL as the user wrote it.
    pub url: String,
    pub bucket: String,
    /// Host and port of the service.
    pub authority: String,
}

impl Names {
    /// The error of a call. `doing` is what failed, such as `reading`.
    pub fn failed(
        &self,
        name: &str,
        doing: &'static str,
        error: &(dyn Error + 'static),
    ) -> StorageError {
        let (kind, reason) = self.reason(error);
        StorageError::saying(&self.url, name, doing, kind, reason)
    }

    fn reason(&self, error: &(dyn Error + 'static)) -> (Kind, String) {
        if let Some(refusal) = find::<Refusal>(error) {
            return self.refusal(refusal);
        }
        if let Some(none) = find::<NoCredentials>(error) {
            let words = format!("no credentials were given, and {none}");
            return (Kind::Denied, words);
        }
        if let Some(key) = find::<path::Error>(error).and_then(key_of) {
            let words = format!(
                "the bucket {} has an object with the key {key:?}, of which a part is empty or leads elsewhere: rename or remove it",
                self.bucket
            );
            return (Kind::Name, words);
        }
        let place = &self.authority;
        let cause = deepest(error);
        if cause.to_string().contains("certificate") {
            let words = format!("the certificate of {place} is not trusted: {cause}");
            return (Kind::Other, words);
        }
        match find::<HttpError>(error).map(HttpError::kind) {
            Some(HttpErrorKind::Connect) => {
                (Kind::Lost, format!("{place} cannot be reached: {cause}"))
            }
            Some(HttpErrorKind::Timeout) => (Kind::Lost, format!("{place} does not answer")),
            Some(_) => (
                Kind::Lost,
                format!("the connection to {place} was lost: {cause}"),
            ),
            None => (Kind::Other, cause.to_string()),
        }
    }

    fn refusal(&self, refusal: &Refusal) -> (Kind, String) {
        let bucket = &self.bucket;
        let place = &self.authority;
        let other_region = || match &refusal.region {
            Some(region) => format!("the bucket {bucket} is in the region {region}, not in this"),
            None => format!("the bucket {bucket} is in another region"),
        };
        let (kind, words) = match (refusal.status, refusal.code.as_str()) {
            (_, "NoSuchBucket" | "ContainerNotFound") => {
                (Kind::NotFound, format!("{place} has no bucket {bucket}"))
            }
            (_, "PermanentRedirect" | "AuthorizationHeaderMalformed" | "TemporaryRedirect")
            | (301 | 302 | 307, _) => (Kind::Other, other_region()),
            (_, "InvalidAccessKeyId" | "NotSignedUp") => (
                Kind::Denied,
                format!("{place} does not know the access key"),
            ),
            (_, "SignatureDoesNotMatch" | "AuthenticationFailed") => (
                Kind::Denied,
                format!("{place} does not accept the secret key: it is not the access key's"),
            ),
            (_, "ExpiredToken" | "TokenRefreshRequired") => {
                (Kind::Denied, "the session token has expired".to_owned())
            }
            (_, "InvalidToken") => (Kind::Denied, "the session token is not valid".to_owned()),
            (_, "RequestTimeTooSkewed") => (
                Kind::Denied,
                format!("the clocks of this machine and of {place} differ too much"),
            ),
            (_, "QuotaExceeded" | "XMinioStorageFull") | (507, _) => {
                (Kind::Full, format!("the bucket {bucket} is full"))
            }
            (_, "NoSuchUpload") => (
                Kind::Other,
                "its unfinished upload was removed meanwhile".to_owned(),
            ),
            (401 | 403, _) => (
                Kind::Denied,
                format!("the credentials do not permit this on the bucket {bucket}"),
            ),
            (404, _) => (Kind::NotFound, "it is not there".to_owned()),
            // Not that the content changed meanwhile: nothing asks for that.
            (409, "ConditionalRequestConflict" | "OperationAborted") => (
                Kind::Lost,
                "another writer is at the same object".to_owned(),
            ),
            (409 | 412, _) => (Kind::Exists, "it is there already".to_owned()),
            (416, _) => (Kind::Short, "it is too short".to_owned()),
            (501, _) => (Kind::Other, format!("{place} cannot do this")),
            (408 | 429 | 500.., _) | (400, "RequestTimeout") => {
                (Kind::Lost, format!("{place} is out of order or overloaded"))
            }
            _ => (Kind::Other, format!("{place} refused it")),
        };
        let mut words = words;
        // What is plain needs no code.
        if !matches!(kind, Kind::NotFound | Kind::Exists) {
            let _ = write!(words, " ({}", refusal.status);
            for part in [&refusal.code, &refusal.message] {
                if !part.is_empty() {
                    words.push(' ');
                    words.push_str(part);
                }
            }
            words.push(')');
        }
        (kind, words)
    }
}

/// A key in a list that the crate does not take.
fn key_of(error: &path::Error) -> Option<&str> {
    match error {
        path::Error::EmptySegment { path } | path::Error::BadSegment { path, .. } => Some(path),
        _ => None,
    }
}

/// The last error of this type among an error and its causes.
pub fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut found = None;
    let mut next = Some(error);
    while let Some(error) = next {
        found = error.downcast_ref::<E>().or(found);
        next = error.source();
    }
    found
}

#[cfg(test)]
mod tests {
    use object_store::client::{HttpError, HttpErrorKind};

    use super::super::super::StorageErrorKind as Kind;
    use super::Names;
    use crate::storage::bucket::service::Refusal;

    #[test]
    fn refusals_are_understood() {
        let names = Names {
            url: "s3://b/p".to_owned(),
            bucket: "b".to_owned(),
            authority: "s3.example".to_owned(),
        };
        for (status, code, kind, words) in [
            (
                404,
                "NoSuchBucket",
                Kind::NotFound,
                "s3.example has no bucket b",
            ),
            (404, "", Kind::NotFound, "it is not there"),
            (
                412,
                "PreconditionFailed",
                Kind::Exists,
                "it is there already",
            ),
            (
                400,
                "AuthorizationHeaderMalformed",
                Kind::Other,
                "in the region eu-west-1, not in this",
            ),
            (400, "ExpiredToken", Kind::Denied, "has expired"),
            (
                403,
                "RequestTimeTooSkewed",
                Kind::Denied,
                "clocks of this machine",
            ),
            (
                403,
                "AccessDenied",
                Kind::Denied,
                "(403 AccessDenied Words)",
            ),
            (507, "", Kind::Full, "the bucket b is full"),
            (
                503,
                "SlowDown",
                Kind::Lost,
                "out of order or overloaded (503",
            ),
            (
                409,
                "ConditionalRequestConflict",
                Kind::Lost,
                "another writer",
            ),
            (416, "InvalidRange", Kind::Short, "too short"),
            (418, "Teapot", Kind::Other, "refused it (418 Teapot Words)"),
        ] {
            let refusal = Refusal {
                status,
                code: code.to_owned(),
                message: "Words".to_owned(),
                region: Some("eu-west-1".to_owned()),
            };
            let error = object_store::Error::Generic {
                store: "S3",
                source: Box::new(HttpError::new(HttpErrorKind::Unknown, refusal)),
            };
            let error = names.failed("x", "reading", &error);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
