//! What every storage promises, asked of each kind.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use refloat_store::storage::{
    Existing, LocalFolder, Object, Patience, Storage, StorageError, StorageErrorKind, Upload,
    read_whole, reader, write_whole,
};

const SMALL: u64 = 1 << 20;

/// Bytes that differ at every place, so that none can stand for another.
fn bytes(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as u8
        })
        .collect()
}

fn read_range(storage: &Arc<dyn Storage>, name: &str, range: Range<u64>) -> Vec<u8> {
    let mut found = Vec::new();
    reader(storage, name, range, Patience::default())
        .read_to_end(&mut found)
        .unwrap();
    found
}

fn names(storage: &Arc<dyn Storage>, prefix: &str) -> Vec<String> {
    let objects = storage.list(prefix).unwrap();
    objects.into_iter().map(|object| object.name).collect()
}

/// All of it, for a storage that holds nothing yet.
fn keeps_its_promises(storage: &Arc<dyn Storage>) {
    holds_what_was_written(storage);
    shows_only_what_is_complete(storage);
    replaces_only_when_told(storage);
    takes_large_objects_in_pieces(storage);
    serves_threads(storage);
    refuses_names(storage);
    assert_eq!(names(storage, ""), Vec::<String>::new());
}

fn holds_what_was_written(storage: &Arc<dyn Storage>) {
    assert_eq!(storage.list("").unwrap(), Vec::new());
    let content = bytes(100_000, 1);
    write_whole(&**storage, "a/b/one", &content, Existing::Keep).unwrap();
    write_whole(&**storage, "a/two", b"", Existing::Keep).unwrap();
    write_whole(&**storage, "a-b", b"three", Existing::Keep).unwrap();
    let listed = storage.list("").unwrap();
    let expected = [("a-b", 5), ("a/b/one", 100_000), ("a/two", 0)].map(|(name, size)| Object {
        name: name.to_owned(),
        size,
    });
    assert_eq!(listed, expected);
    assert_eq!(names(storage, "a/"), ["a/b/one", "a/two"]);
    assert_eq!(names(storage, "a/t"), ["a/two"]);
    assert_eq!(storage.size("a/b/one").unwrap(), 100_000);
    assert_eq!(read_whole(storage, "a/b/one", SMALL).unwrap(), content);
    assert_eq!(read_whole(storage, "a/two", SMALL).unwrap(), b"");
    for range in [0..1, 99_999..100_000, 5_000..70_000, 30..30] {
        let found = read_range(storage, "a/b/one", range.clone());
        assert_eq!(found, content[range.start as usize..range.end as usize]);
    }
    for missing in ["a", "a/b", "a/three"] {
        let error = storage.size(missing).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::NotFound, "{error}");
    }
    let beyond = reader(storage, "a-b", 0..6, QUICK).read_to_end(&mut Vec::new());
    beyond.unwrap_err();
    for name in ["a/b/one", "a/two", "a-b", "a/three"] {
        storage.delete(name).unwrap();
    }
}

fn shows_only_what_is_complete(storage: &Arc<dyn Storage>) {
    let mut upload = storage.create("half", Existing::Keep).unwrap();
    upload.write_all(&bytes(300_000, 2)).unwrap();
    assert_eq!(names(storage, ""), Vec::<String>::new());
    drop(upload);
    assert_eq!(names(storage, ""), Vec::<String>::new());
    let error = storage.size("half").unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::NotFound);
    // What was begun just now may belong to a running process.
    let upload = storage.create("begun", Existing::Keep).unwrap();
    assert_eq!(storage.sweep().unwrap(), 0);
    upload.finish().unwrap();
    storage.delete("begun").unwrap();
}

fn replaces_only_when_told(storage: &Arc<dyn Storage>) {
    write_whole(&**storage, "x", b"first", Existing::Keep).unwrap();
    let error = write_whole(&**storage, "x", b"second", Existing::Keep).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Exists, "{error}");
    let mut upload = storage.create("x", Existing::Replace).unwrap();
    upload.write_all(b"third").unwrap();
    assert_eq!(read_whole(storage, "x", SMALL).unwrap(), b"first");
    upload.finish().unwrap();
    assert_eq!(read_whole(storage, "x", SMALL).unwrap(), b"third");
    storage.delete("x").unwrap();
    // Of two that begin while nothing is there, one succeeds.
    let uploads = [b"one", b"two"].map(|content| {
        let mut upload = storage.create("x", Existing::Keep).unwrap();
        upload.write_all(content).unwrap();
        upload
    });
    let [first, second] = uploads.map(Upload::finish);
    first.unwrap();
    assert_eq!(second.unwrap_err().kind(), StorageErrorKind::Exists);
    assert_eq!(read_whole(storage, "x", SMALL).unwrap(), b"one");
    storage.delete("x").unwrap();
}

fn takes_large_objects_in_pieces(storage: &Arc<dyn Storage>) {
    let content = bytes(40 << 20, 3);
    let mut upload = storage.create("large", Existing::Keep).unwrap();
    for piece in content.chunks(1_234_567) {
        upload.write_all(piece).unwrap();
    }
    upload.finish().unwrap();
    assert!(read_range(storage, "large", 0..40 << 20) == content);
    storage.delete("large").unwrap();
}

fn serves_threads(storage: &Arc<dyn Storage>) {
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            scope.spawn(move || {
                for number in 0..20 {
                    let name = format!("threads/{thread}/{number}");
                    let content = bytes(1_000 + number as usize, thread * 100 + number);
                    write_whole(&**storage, &name, &content, Existing::Keep).unwrap();
                    assert_eq!(read_whole(storage, &name, SMALL).unwrap(), content);
                }
            });
        }
    });
    assert_eq!(names(storage, "threads/").len(), 80);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for name in names(storage, &format!("threads/{thread}/")) {
                    storage.delete(&name).unwrap();
                }
            });
        }
    });
}

fn refuses_names(storage: &Arc<dyn Storage>) {
    for name in ["../x", "/etc/x", "a//b", ".hidden", ""] {
        let kind = |error: StorageError| error.kind();
        assert_eq!(
            storage.create(name, Existing::Keep).map(drop).map_err(kind),
            Err(StorageErrorKind::Name)
        );
        assert_eq!(
            storage.size(name).map_err(kind),
            Err(StorageErrorKind::Name)
        );
        assert_eq!(
            storage.read(name, 0..1).map(drop).map_err(kind),
            Err(StorageErrorKind::Name)
        );
        assert_eq!(
            storage.delete(name).map_err(kind),
            Err(StorageErrorKind::Name)
        );
    }
}

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

const QUICK: Patience = Patience {
    attempts: 3,
    wait: Duration::from_millis(1),
};

/// A storage whose connections bring few bytes each.
struct Unsteady {
    inner: LocalFolder,
    /// Bytes of each connection.
    bytes: u64,
    /// Whether a connection ends as if all was there.
    clean: bool,
    opened: AtomicU64,
}

impl Storage for Unsteady {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        self.inner.list(prefix)
    }

    fn size(&self, name: &str) -> Result<u64, StorageError> {
        self.inner.size(name)
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
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
                opened: AtomicU64::new(0),
            })
        };
        let some = unsteady(999);
        write_whole(&*some, "x", &content, Existing::Replace).unwrap();
        let storage: Arc<dyn Storage> = Arc::clone(&some) as Arc<dyn Storage>;
        let mut found = Vec::new();
        let mut whole = reader(&storage, "x", 0..10_000, QUICK);
        whole.read_to_end(&mut found).unwrap();
        assert!(found == content, "clean: {clean}");
        assert_eq!(some.opened.load(Ordering::Relaxed), 11);
        // Connections that bring nothing are not tried for ever, and are no end.
        let storage: Arc<dyn Storage> = unsteady(0);
        let mut whole = reader(&storage, "x", 0..10_000, QUICK);
        let error = whole.read_to_end(&mut found).unwrap_err();
        assert!(error.to_string().contains("reading \"x\""), "{error}");
    }
}
