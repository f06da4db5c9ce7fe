//! The guarantees of every storage, tested on each kind.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use refloat_store::storage::{
    Existing, Object, Patience, Storage, StorageError, StorageErrorKind, Upload, read_whole,
    reader, write_whole,
};

/// Retry limits for operations that should fail soon.
pub const QUICK: Patience = Patience {
    attempts: 3,
    wait: Duration::from_millis(1),
};
const SMALL: u64 = 1 << 20;

/// Bytes that differ at every offset, so that swapped ranges are detected.
pub fn bytes(count: usize, seed: u32) -> Vec<u8> {
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

/// Reads some bytes of an object.
///
/// # Panics
/// If they cannot be read.
pub fn read_range(storage: &Arc<dyn Storage>, name: &str, range: Range<u64>) -> Vec<u8> {
    let mut found = Vec::new();
    reader(storage, name, range, Patience::default())
        .read_to_end(&mut found)
        .unwrap();
    found
}

/// Names of the objects that begin with `prefix`.
///
/// # Panics
/// If they cannot be listed.
pub fn names(storage: &Arc<dyn Storage>, prefix: &str) -> Vec<String> {
    let objects = storage.list(prefix).unwrap();
    objects.into_iter().map(|object| object.name).collect()
}

/// Tests all guarantees on an empty storage, and leaves it empty.
///
/// # Panics
/// If a guarantee does not hold.
pub fn keeps_its_promises(storage: &Arc<dyn Storage>) {
    holds_what_was_written(storage);
    shows_only_what_is_complete(storage);
    replaces_only_when_told(storage);
    takes_large_objects_in_pieces(storage);
    serves_threads(storage);
    writes_beside_removals(storage);
    refuses_names(storage);
    assert_ne!(storage.room(), Some(0));
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
        mark: storage.stamp(name).unwrap().mark,
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
    let past_end = reader(storage, "a-b", 0..6, QUICK).read_to_end(&mut Vec::new());
    past_end.unwrap_err();
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
    // An upload that began just now may belong to a running process.
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
    let before = storage.stamp("x").unwrap();
    assert_eq!(storage.stamp("x").unwrap(), before);
    upload.finish().unwrap();
    assert_eq!(read_whole(storage, "x", SMALL).unwrap(), b"third");
    // The server's timestamps may not change within a second, and the size has not changed.
    assert_eq!(storage.stamp("x").unwrap().size, before.size);
    storage.delete("x").unwrap();
    // Of two uploads that begin while the object is missing, one succeeds.
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

/// Folders exist only for objects: a deletion of the last object in a folder removes a folder that
/// another writer has just created.
fn writes_beside_removals(storage: &Arc<dyn Storage>) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let name = format!("in/a/folder/{thread}");
                for _ in 0..100 {
                    write_whole(&**storage, &name, b"x", Existing::Replace).unwrap();
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
