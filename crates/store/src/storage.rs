//! Places that keep objects: a local folder, another machine, a bucket.
//!
//! An object is a run of bytes with a name. It appears whole or not at all, and is never changed:
//! it is written once, read from any byte, replaced or deleted. A [`Storage`] makes these promises
//! and no others; what the objects hold is its caller's business. One suite of tests runs over
//! every kind of storage (`tests/storage/`).
//!
//! Names are paths with `/` between their parts. A part has letters, digits, `.`, `_` and `-`, and
//! does not begin with a dot ([`check_name`]). So every storage can hold every name, and none leads
//! out of it. What others have put there is read by other names, too ([`check_readable`]).

mod bucket;
mod error;
mod local;
mod mounted;
mod open;
mod resumed;

use std::io::{Read, Write};
use std::ops::Range;
use std::time::Duration;

pub use bucket::{Bucket, BucketKind, BucketOptions};
pub use error::{StorageError, StorageErrorKind};
pub use local::LocalFolder;
pub use mounted::{mount_all, mount_one};
pub use open::open;
pub use resumed::{Patience, read_whole, reader};

/// Longest name of an object, in bytes. S3 takes 1024 with the prefix.
pub const NAME_MAX: usize = 512;
/// How the names of files begin that are not complete, in storages that are folders. No object has
/// such a name.
pub const UNFINISHED: &str = ".unfinished-";
/// Unfinished files that are older belong to no running process.
pub const UNFINISHED_FOR: Duration = Duration::from_secs(24 * 3600);

/// An object that a storage holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name below the root of the storage, with `/` between parts.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The mark of its [`Stamp`]; empty: the storage's list does not tell it.
    pub mark: String,
}

/// What an object is at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Its size in bytes.
    pub size: u64,
    /// What the storage tells an object by from the one that replaces it: a version or a time.
    pub mark: String,
}

/// What to do if an object of that name is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave it and fail. Of several writers at the same time, one succeeds; where a storage cannot
    /// decide that, its own type says so.
    Keep,
    /// Replace it when the new one is complete.
    Replace,
}

/// A place that keeps objects.
///
/// Threads share it: every call may run beside every other.
pub trait Storage: Send + Sync {
    /// The place as the user wrote it, without secrets. It names the place in messages.
    fn url(&self) -> &str;

    /// Lists the complete objects whose names begin with `prefix`, sorted by name. Those whose
    /// names are not [readable](check_readable) are left out.
    ///
    /// # Errors
    /// [`StorageErrorKind`]; a prefix that nothing begins with is an empty list.
    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError>;

    /// Lists all objects, for a place that holds what people put there.
    ///
    /// # Errors
    /// As [`Storage::list`]; [`StorageErrorKind::Name`] names something that lies there and is no
    /// object, such as a link, because whoever reads the rest would not notice that it is missing.
    fn list_whole(&self) -> Result<Vec<Object>, StorageError> {
        self.list("")
    }

    /// Looks at an object. What replaces it has another stamp.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`] and others.
    fn stamp(&self, name: &str) -> Result<Stamp, StorageError>;

    /// Size of an object in bytes.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`] and others.
    fn size(&self, name: &str) -> Result<u64, StorageError> {
        Ok(self.stamp(name)?.size)
    }

    /// Opens an object to read these bytes of it once, in order.
    ///
    /// The reader may end early without an error, because connections do: [`reader`] notices and
    /// goes on.
    ///
    /// # Errors
    /// [`StorageErrorKind::NotFound`] and others.
    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError>;

    /// Begins an object. It appears with [`Upload::finish`] and not before.
    ///
    /// # Errors
    /// [`StorageErrorKind::Exists`] at once where the storage knows it, and others.
    fn create(&self, name: &str, existing: Existing) -> Result<Box<dyn Upload>, StorageError>;

    /// Deletes an object. A missing object is not an error.
    ///
    /// # Errors
    /// Those of [`StorageErrorKind`] but `NotFound`.
    fn delete(&self, name: &str) -> Result<(), StorageError>;

    /// Removes what writers left behind that ended without finishing, if it is older than a day.
    /// Returns how many objects were begun and removed.
    ///
    /// # Errors
    /// [`StorageErrorKind`].
    fn sweep(&self) -> Result<u64, StorageError>;

    /// Bytes that may still be written. `None`: unknown, or there is no limit.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Whether nobody else works on it, so that nobody has to be told of a writer.
    fn is_alone(&self) -> bool {
        false
    }

    /// How many transfers at the same time make good use of it.
    fn transfers(&self) -> usize;
}

/// An object that is being written. Dropped before it is finished, nothing of it remains.
pub trait Upload: Write + Send {
    /// Makes the object appear, once all of it is where a power failure does not reach it.
    ///
    /// # Errors
    /// [`StorageErrorKind`]. The object is not there then, unless the connection was lost in this
    /// very call.
    fn finish(self: Box<Self>) -> Result<(), StorageError>;
}

/// Writes a small object.
///
/// # Errors
/// See [`Storage::create`] and [`Upload::finish`].
pub fn write_whole(
    storage: &dyn Storage,
    name: &str,
    content: &[u8],
    existing: Existing,
) -> Result<(), StorageError> {
    let mut upload = storage.create(name, existing)?;
    upload
        .write_all(content)
        .map_err(|source| StorageError::from_io(storage.url(), name, "writing", source))?;
    upload.finish()
}

/// Checks that a name fits every storage.
///
/// # Errors
/// [`StorageErrorKind::Name`].
pub fn check_name(url: &str, name: &str) -> Result<(), StorageError> {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if name.len() <= NAME_MAX && name.split('/').all(part) {
        Ok(())
    } else {
        Err(StorageError::new(
            url,
            name,
            "naming an object",
            StorageErrorKind::Name,
        ))
    }
}

/// Checks that a name stays within its storage, whoever gave it.
///
/// # Errors
/// [`StorageErrorKind::Name`].
pub fn check_readable(url: &str, name: &str) -> Result<(), StorageError> {
    let part = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.contains(|c: char| c.is_control())
    };
    if name.len() <= NAME_MAX && name.split('/').all(part) {
        return Ok(());
    }
    let kind = StorageErrorKind::Name;
    Err(StorageError::new(url, name, "reading an object", kind))
}

#[cfg(test)]
mod tests {
    use super::{check_name, check_readable};

    #[test]
    fn names_stay_within_the_storage() {
        for name in ["a", "a/b-c_d.e", "backups/2026/x.json"] {
            check_name("here", name).unwrap();
        }
        let long = "a".repeat(513);
        for name in [
            "", "/a", "a/", "a//b", "..", "a/../b", "a/.b", "ä", "a b", "a\\b", "a\0", &long,
        ] {
            check_name("here", name).unwrap_err();
        }
        for name in ["ä b/%20@x~2", "a\\b", "a"] {
            check_readable("here", name).unwrap();
        }
        for name in ["", "/a", "a/", "a//b", "..", "a/../b", "a/.b", "a\0", &long] {
            check_readable("here", name).unwrap_err();
        }
    }
}
