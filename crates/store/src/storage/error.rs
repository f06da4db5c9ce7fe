//! Errors of storages.

use std::io;

use serde::{Deserialize, Serialize};

/// What went wrong, for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StorageErrorKind {
    /// There is no such object, or the place itself is missing.
    NotFound,
    /// An object of that name is there already.
    Exists,
    /// No permission, or no valid credentials.
    Denied,
    /// The disk, a quota or a bucket is full.
    Full,
    /// The name fits no storage.
    Name,
    /// The object is shorter than what was asked of it.
    Short,
    /// The connection or the service failed; another attempt may succeed.
    Lost,
    /// The process that serves it has ended; another attempt would fail as well.
    Ended,
    /// No storage is known that has a URL of this kind.
    Scheme,
    /// Anything else; another attempt would fail as well.
    Other,
}

/// Why a storage did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {doing}{}: {}", object(name), reason(*.kind, .source.as_deref()))]
pub struct StorageError {
    url: String,
    name: String,
    doing: &'static str,
    kind: StorageErrorKind,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StorageError {
    /// An error that has no other behind it. `doing` is what failed, such as `reading`.
    pub fn new(url: &str, name: &str, doing: &'static str, kind: StorageErrorKind) -> Self {
        Self {
            url: url.to_owned(),
            name: name.to_owned(),
            doing,
            kind,
            source: None,
        }
    }

    /// An error in words of its own.
    pub fn saying(
        url: &str,
        name: &str,
        doing: &'static str,
        kind: StorageErrorKind,
        reason: String,
    ) -> Self {
        Self {
            source: Some(reason.into()),
            ..Self::new(url, name, doing, kind)
        }
    }

    /// An error of the operating system, or the one that [`StorageError::into_io`] has packed.
    pub fn from_io(url: &str, name: &str, doing: &'static str, source: io::Error) -> Self {
        let kind = kind_of(&source);
        match source.downcast::<Self>() {
            Ok(inner) => inner,
            Err(source) => Self {
                source: Some(Box::new(source)),
                ..Self::new(url, name, doing, kind)
            },
        }
    }

    /// Packs it into an error of `Read` or `Write`.
    pub fn into_io(self) -> io::Error {
        let kind = match self.kind {
            StorageErrorKind::NotFound => io::ErrorKind::NotFound,
            StorageErrorKind::Exists => io::ErrorKind::AlreadyExists,
            StorageErrorKind::Denied => io::ErrorKind::PermissionDenied,
            StorageErrorKind::Full => io::ErrorKind::StorageFull,
            StorageErrorKind::Name => io::ErrorKind::InvalidFilename,
            StorageErrorKind::Short => io::ErrorKind::UnexpectedEof,
            StorageErrorKind::Lost | StorageErrorKind::Ended => io::ErrorKind::ConnectionAborted,
            StorageErrorKind::Scheme => io::ErrorKind::Unsupported,
            StorageErrorKind::Other => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }

    /// Why it failed, without the place and the object.
    pub fn reason(&self) -> String {
        reason(self.kind, self.source.as_deref())
    }

    /// The class of the error, which decides what can be done about it.
    pub fn kind(&self) -> StorageErrorKind {
        self.kind
    }

    /// Whether the same call may succeed if it is made again.
    pub fn may_pass(&self) -> bool {
        self.kind == StorageErrorKind::Lost
    }
}

fn kind_of(error: &io::Error) -> StorageErrorKind {
    use io::ErrorKind as K;
    match error.kind() {
        K::NotFound => StorageErrorKind::NotFound,
        K::AlreadyExists => StorageErrorKind::Exists,
        K::PermissionDenied | K::ReadOnlyFilesystem => StorageErrorKind::Denied,
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => StorageErrorKind::Full,
        K::UnexpectedEof => StorageErrorKind::Short,
        K::ConnectionRefused
        | K::ConnectionReset
        | K::ConnectionAborted
        | K::NotConnected
        | K::BrokenPipe
        | K::TimedOut
        | K::HostUnreachable
        | K::NetworkUnreachable
        | K::NetworkDown => StorageErrorKind::Lost,
        _ => StorageErrorKind::Other,
    }
}

/// An object in a message. What concerns all of a storage names none.
fn object(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    format!(" {name:?}")
}

fn reason(
    kind: StorageErrorKind,
    source: Option<&(dyn std::error::Error + Send + Sync + 'static)>,
) -> String {
    if let Some(source) = source {
        return source.to_string();
    }
    match kind {
        StorageErrorKind::NotFound => "it is not there",
        StorageErrorKind::Exists => "it is there already",
        StorageErrorKind::Denied => "permission denied",
        StorageErrorKind::Full => "no space is left",
        StorageErrorKind::Name => "no storage can hold an object of this name",
        StorageErrorKind::Short => "it is too short",
        StorageErrorKind::Lost => "the connection was lost",
        StorageErrorKind::Ended => "the process that serves it has ended",
        StorageErrorKind::Scheme => "no storage has a URL of this kind",
        StorageErrorKind::Other => "it failed",
    }
    .to_owned()
}
