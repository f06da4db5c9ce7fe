//! Objects of a storage as mounted files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::{Patience, Stamp, Storage, StorageError, StorageErrorKind, reader};
use crate::files::{self, Files};

/// Mounts all objects of a storage at `root`, as a folder of files.
///
/// # Errors
/// It cannot be listed, or holds nothing.
pub fn mount_all(storage: &Arc<dyn Storage>, root: &Path) -> Result<(), StorageError> {
    let objects = storage.list_whole()?;
    if objects.is_empty() {
        let kind = StorageErrorKind::NotFound;
        return Err(StorageError::new(storage.url(), "", "listing", kind));
    }
    let stamps = objects.into_iter().map(|one| {
        let stamp = Stamp {
            size: one.size,
            mark: one.mark,
        };
        (one.name, stamp)
    });
    mount(storage, root, None, stamps.collect());
    Ok(())
}

/// Mounts one object at `path`. `false`: there is no such object.
///
/// # Errors
/// It cannot be looked at.
pub fn mount_one(
    storage: &Arc<dyn Storage>,
    name: &str,
    path: &Path,
) -> Result<bool, StorageError> {
    match storage.stamp(name) {
        Ok(stamp) => {
            let stamps = BTreeMap::from([(String::new(), stamp)]);
            mount(storage, path, Some(name.to_owned()), stamps);
            Ok(true)
        }
        Err(error)
            if matches!(
                error.kind(),
                StorageErrorKind::NotFound | StorageErrorKind::Name
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn mount(
    storage: &Arc<dyn Storage>,
    root: &Path,
    single: Option<String>,
    stamps: BTreeMap<String, Stamp>,
) {
    let sizes = stamps
        .iter()
        .map(|(name, stamp)| (name.clone(), stamp.size))
        .collect();
    let objects = Objects {
        storage: Arc::clone(storage),
        stamps,
        single,
    };
    files::mount(root, sizes, Arc::new(objects));
}

struct Objects {
    storage: Arc<dyn Storage>,
    /// What they were when they were listed. An empty mark is not known.
    stamps: BTreeMap<String, Stamp>,
    /// The only object, which is a file of no name.
    single: Option<String>,
}

impl Files for Objects {
    fn open(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let known = self.stamps.get(name);
        let name = self.single.as_deref().unwrap_or(name);
        let stamp = self.storage.stamp(name).map_err(StorageError::into_io)?;
        let is_same = known.is_some_and(|known| {
            known.size == stamp.size && (known.mark.is_empty() || known.mark == stamp.mark)
        });
        if !is_same {
            return Err(replaced(&*self.storage, name));
        }
        let range = from.min(stamp.size)..stamp.size;
        Ok(Box::new(Whole {
            inner: reader(&self.storage, name, range, Patience::default()),
            storage: Arc::clone(&self.storage),
            name: name.to_owned(),
            stamp: Some(stamp),
        }))
    }
}

fn replaced(storage: &dyn Storage, name: &str) -> io::Error {
    let words = io::Error::other("it was replaced while it was in use");
    StorageError::from_io(storage.url(), name, "reading", words).into_io()
}

/// Reads an object, and looks at its end whether it still is the one that was opened: a connection
/// that was made again may have gone on in another.
struct Whole<R> {
    inner: R,
    storage: Arc<dyn Storage>,
    name: String,
    /// `None` once it was compared.
    stamp: Option<Stamp>,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0
            && !buffer.is_empty()
            && let Some(stamp) = self.stamp.take()
        {
            let now = self.storage.stamp(&self.name);
            if now.map_err(StorageError::into_io)? != stamp {
                return Err(replaced(&*self.storage, &self.name));
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::LocalFolder;
    use super::*;

    #[test]
    fn an_object_that_changes_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a b/%20.tsv", "same", "longer"];
        fs::create_dir(folder.path().join("a b")).unwrap();
        for name in names {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let storage: Arc<dyn Storage> = Arc::new(LocalFolder::new(folder.path()));
        let root = Path::new("test://changing/dump");
        mount_all(&storage, root).unwrap();
        let read = |mut file: files::OpenFile| {
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        };
        let open = |name: &str, from| files::open(&root.join(name), from);
        assert_eq!(read(open(names[0], 0).unwrap()).unwrap(), names[0]);
        assert_eq!(read(open(names[0], 4).unwrap()).unwrap(), "%20.tsv");
        let reader = open("same", 0).unwrap();
        fs::remove_file(folder.path().join("same")).unwrap();
        fs::write(folder.path().join("same"), "else").unwrap();
        let error = read(reader).unwrap_err();
        assert!(error.to_string().contains("was replaced"), "{error}");
        fs::write(folder.path().join("longer"), "longer than before").unwrap();
        let error = open("same", 0).map(drop).unwrap_err();
        assert!(error.to_string().contains("was replaced"), "{error}");
        let error = open("longer", 0).map(drop).unwrap_err();
        assert!(error.to_string().contains("was replaced"), "{error}");
        let one = Path::new("test://changing/one");
        assert!(mount_one(&storage, "same", one).unwrap());
        assert_eq!(read(files::open(one, 1).unwrap()).unwrap(), "lse");
        assert!(!mount_one(&storage, "none", one).unwrap());
    }
}
