//! Folders of this machine, and readers of storages whose connections fail.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use refloat_store::storage::{
    Existing, LocalFolder, Object, Stamp, Storage, StorageError, Upload, reader, write_whole,
};

use refloat_testkit::storages::{QUICK, bytes, keeps_its_promises};

#[test]
fn a_folder_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("not/there/yet");
    let storage: Arc<dyn Storage> = Arc::new(LocalFolder::new(&root));
    keeps_its_promises(&storage);
    // Nothing is left, not even unfinished.
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn a_folder_is_swept_of_old_remains_only() {
    let folder = tempfile::tempdir().unwrap();
    let storage = LocalFolder::new(folder.path());
    write_whole(&storage, "kept", b"kept", Existing::Keep).unwrap();
    let old = folder.path().join(".unfinished-1-0");
    std::fs::write(&old, b"half").unwrap();
    let then = std::time::SystemTime::now() - Duration::from_secs(25 * 3600);
    for file in [&old, &folder.path().join("kept")] {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(then).unwrap();
    }
    std::fs::write(folder.path().join(".unfinished-1-1"), b"half").unwrap();
    assert_eq!(storage.sweep().unwrap(), 1);
    assert!(!old.exists());
    assert!(folder.path().join(".unfinished-1-1").exists());
    assert_eq!(storage.list("").unwrap().len(), 1);
}

/// A storage whose connections bring few bytes each.
struct Unsteady {
    inner: LocalFolder,
    /// Bytes of each connection.
    bytes: u64,
    /// Whether a connection ends as if all was there.
    clean: bool,
    connections: AtomicU64,
}

impl Storage for Unsteady {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        self.inner.list(prefix)
    }

    fn stamp(&self, name: &str) -> Result<Stamp, StorageError> {
        self.inner.stamp(name)
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let whole = self.inner.read(name, range)?;
        let some = whole.take(self.bytes);
        if self.clean {
            return Ok(Box::new(some));
        }
        Ok(Box::new(some.chain(Broken)))
    }

    fn create(&self, name: &str, existing: Existing) -> Result<Box<dyn Upload>, StorageError> {
        self.inner.create(name, existing)
    }

    fn delete(&self, name: &str) -> Result<(), StorageError> {
        self.inner.delete(name)
    }

    fn sweep(&self) -> Result<u64, StorageError> {
        self.inner.sweep()
    }

    fn transfers(&self) -> usize {
        self.inner.transfers()
    }
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::ConnectionReset.into())
    }
}

#[test]
fn a_read_goes_on_where_a_connection_ended() {
    let folder = tempfile::tempdir().unwrap();
    let content = bytes(10_000, 4);
    for clean in [true, false] {
        let unsteady = |bytes| {
            Arc::new(Unsteady {
                inner: LocalFolder::new(folder.path()),
                bytes,
                clean,
                connections: AtomicU64::new(0),
            })
        };
        let some = unsteady(999);
        write_whole(&*some, "x", &content, Existing::Replace).unwrap();
        let storage: Arc<dyn Storage> = Arc::clone(&some) as Arc<dyn Storage>;
        let mut found = Vec::new();
        let mut whole = reader(&storage, "x", 0..10_000, QUICK);
        whole.read_to_end(&mut found).unwrap();
        assert!(found == content, "clean: {clean}");
        assert_eq!(some.connections.load(Ordering::Relaxed), 11);
        // Connections that bring nothing are not tried for ever, and are no end.
        let storage: Arc<dyn Storage> = unsteady(0);
        let mut whole = reader(&storage, "x", 0..10_000, QUICK);
        let error = whole.read_to_end(&mut found).unwrap_err();
        assert!(error.to_string().contains("reading \"x\""), "{error}");
    }
}
