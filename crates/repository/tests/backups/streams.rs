//! Backups that leave a repository as a stream, and come into one.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use refloat_repository::{
    Access, Identity, Imported, Key, Repository, RepositoryError, StreamStorage, export, import,
};
use refloat_run::{Cancel, CancelReason};

use super::of_recipients::AGE;
use super::{back_up, files, restored, storage};

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

fn imported(stream: &[u8], into: &Path) -> Result<Imported, RepositoryError> {
    import(stream, &storage(into), &Cancel::default(), |_| {})
}

fn exported(repository: &Repository, label: &str) -> Vec<u8> {
    let out = Memory::default();
    let manifest = repository.backup(label).unwrap();
    export(repository, &manifest, Box::new(out.clone())).unwrap();
    out.bytes()
}

#[test]
fn backups_go_from_repository_to_repository() {
    let here = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(here.path()), None).unwrap();
    let one = back_up(&repository, "one", &[], &files()).unwrap();
    let mut more = files();
    more.insert("more".to_owned(), b"more".to_vec());
    back_up(&repository, "two", &[one], &more).unwrap();

    let (first, second) = (exported(&repository, "one"), exported(&repository, "two"));
    let done = imported(&first, there.path()).unwrap();
    assert!(done.is_new && done.known == 0 && done.added > 0, "{done:?}");
    // What they share is not written again.
    let done = imported(&second, there.path()).unwrap();
    assert!(!done.is_new && done.known > 0 && done.added > 0, "{done:?}");
    let other = Repository::open(storage(there.path()), &Access::Plain).unwrap();
    assert_eq!(restored(&other, "one").unwrap(), files());
    assert_eq!(restored(&other, "two").unwrap(), more);
    let before = storage(there.path()).list("").unwrap();
    let error = imported(&second, there.path()).unwrap_err();
    assert!(
        matches!(error, RepositoryError::LabelTaken { .. }),
        "{error}"
    );
    assert_eq!(storage(there.path()).list("").unwrap(), before);
    // Blocks are shared with what was imported, as with any other backup.
    let parents = [other.backup("two").unwrap()];
    back_up(&other, "three", &parents, &more).unwrap();
    assert_eq!(restored(&other, "three").unwrap(), more);
}

#[test]
fn a_cut_or_damaged_stream_leaves_nothing() {
    let here = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(here.path()), None).unwrap();
    let mut small = files();
    small.retain(|_, content| content.len() < 100);
    back_up(&repository, "small", &[], &small).unwrap();
    let stream = exported(&repository, "small");
    let holder = tempfile::tempdir().unwrap();
    let there = holder.path().join("there");
    let refused = |stream: &[u8]| {
        let error = imported(stream, &there).unwrap_err();
        assert!(matches!(error, RepositoryError::Stream { .. }), "{error}");
        assert_eq!(storage(&there).list("").unwrap(), []);
    };
    for at in (0..stream.len()).step_by(7) {
        refused(&stream[..at]);
        let mut other = stream.clone();
        other[at] ^= 0x40;
        let error = imported(&other, &there).unwrap_err();
        assert_eq!(storage(&there).list("").unwrap(), [], "{error}");
    }
    refused(&stream[..stream.len() - 1]);
    refused(b"");
    refused(b"something else altogether");
    let cancel = Cancel::default();
    cancel.cancel(CancelReason::Failed("enough".to_owned()));
    let error = import(&stream[..], &storage(&there), &cancel, |_| {}).unwrap_err();
    assert!(matches!(error, RepositoryError::Cancelled(_)), "{error}");
    assert_eq!(storage(&there).list("").unwrap(), []);
    std::fs::create_dir_all(there.join("x")).unwrap();
    std::fs::write(there.join("x/file"), "").unwrap();
    let error = imported(&stream, &there).unwrap_err();
    assert!(matches!(error, RepositoryError::Occupied { .. }), "{error}");
    std::fs::remove_file(there.join("x/file")).unwrap();
    imported(&stream, &there).unwrap();
    let other = Repository::open(storage(&there), &Access::Plain).unwrap();
    assert_eq!(restored(&other, "small").unwrap(), small);
}

#[test]
fn an_encrypted_stream_is_read_by_its_recipients_alone() {
    let out = Memory::default();
    let stream = Arc::new(StreamStorage::begin(Box::new(out.clone())).unwrap());
    let recipient = AGE[0].1.parse().unwrap();
    let key = Some(Key::random());
    let repository = Repository::init_for(stream.clone(), key.clone(), &[recipient]).unwrap();
    back_up(&repository, "b", &[], &files()).unwrap();
    stream.finish().unwrap();

    let there = tempfile::tempdir().unwrap();
    imported(&out.bytes(), there.path()).unwrap();
    let identities = Identity::parse_file(AGE[0].0).unwrap();
    let access = Access::Identities(identities);
    let other = Repository::open(storage(there.path()), &access).unwrap();
    assert_eq!(restored(&other, "b").unwrap(), files());

    // Blocks are copied as they are, so the key has to be the same.
    for (own, words) in [
        (None, "is not encrypted, and what comes is"),
        (Some(Key::random()), "with another key"),
        (key, ""),
    ] {
        let there = tempfile::tempdir().unwrap();
        Repository::init(storage(there.path()), own.clone()).unwrap();
        match imported(&out.bytes(), there.path()) {
            Ok(_) => assert_eq!(words, ""),
            Err(error) => {
                assert!(
                    !words.is_empty() && error.to_string().contains(words),
                    "{error}"
                );
                assert_eq!(storage(there.path()).list("").unwrap().len(), 1);
                continue;
            }
        }
        let other = Repository::open(storage(there.path()), &own.into()).unwrap();
        assert_eq!(restored(&other, "b").unwrap(), files());
    }
}
