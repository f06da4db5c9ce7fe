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
fn a_cut_or_damaged_stream_is_no_backup_and_the_next_import_goes_on() {
    let here = tempfile::tempdir().unwrap();
    let recipient = AGE[0].1.parse().unwrap();
    let key = Key::random();
    let repository =
        Repository::init_for(storage(here.path()), Some(key.clone()), &[recipient]).unwrap();
    let mut small = files();
    small.retain(|_, content| content.len() < 100);
    back_up(&repository, "small", &[], &small).unwrap();
    let stream = exported(&repository, "small");
    let list = |folder: &Path| {
        let listed = storage(folder).list("").unwrap().into_iter();
        listed.map(|one| (one.name, one.size)).collect::<Vec<_>>()
    };
    let whole = list(here.path());
    let holder = tempfile::tempdir().unwrap();
    let there = holder.path().join("there");
    // What is left is part of what belongs there, and never a backup.
    let left = || {
        let left = list(&there);
        for object in &left {
            assert!(whole.contains(object), "{object:?}");
            assert!(!object.0.starts_with("backups/"), "{object:?}");
        }
        left.len()
    };
    let mut most = 0;
    for at in (0..stream.len()).step_by(29).chain([stream.len() - 1]) {
        // Nothing is removed in between: each import meets what the others have left.
        let error = imported(&stream[..at], &there).unwrap_err();
        assert!(matches!(error, RepositoryError::Stream { .. }), "{error}");
        let mut other = stream.clone();
        other[at] ^= 0x40;
        imported(&other, &there).unwrap_err();
        most = most.max(left());
    }
    assert_eq!(most, whole.len() - 1);
    for nonsense in [&b""[..], b"something else altogether"] {
        let error = imported(nonsense, &there).unwrap_err();
        assert!(matches!(error, RepositoryError::Stream { .. }), "{error}");
    }
    let cancel = Cancel::default();
    cancel.cancel(CancelReason::Failed("enough".to_owned()));
    let error = import(&stream[..], &storage(&there), &cancel, |_| {}).unwrap_err();
    assert!(matches!(error, RepositoryError::Cancelled(_)), "{error}");
    let done = imported(&stream, &there).unwrap();
    assert!(
        !done.is_new && done.known > 0 && done.added == 0,
        "{done:?}"
    );
    let other = Repository::open(storage(&there), &Some(key).into()).unwrap();
    assert_eq!(restored(&other, "small").unwrap(), small);
    assert_eq!(list(&there), whole);
}

#[test]
fn an_import_that_was_killed_between_two_objects_is_made_again() {
    let here = tempfile::tempdir().unwrap();
    let recipient = AGE[0].1.parse().unwrap();
    let key = Some(Key::random());
    let repository = Repository::init_for(storage(here.path()), key, &[recipient]).unwrap();
    back_up(&repository, "b", &[], &files()).unwrap();
    let stream = exported(&repository, "b");
    let named = |prefix: &str| {
        let found = storage(here.path()).list(prefix).unwrap();
        found.into_iter().map(|object| object.name)
    };
    let order: Vec<String> = (named("keys/").chain(named("repository.json")))
        .chain(named("packs/"))
        .collect();
    assert!(order.len() > 3, "{order:?}");
    for killed_at in 0..=order.len() {
        let there = tempfile::tempdir().unwrap();
        for name in &order[..killed_at] {
            let to = there.path().join(name);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(here.path().join(name), to).unwrap();
        }
        imported(&stream, there.path()).unwrap();
    }
    // What belongs to somebody else is left alone.
    for other in ["x/file".to_owned(), order[0].clone()] {
        let there = tempfile::tempdir().unwrap();
        let file = there.path().join(other);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "theirs").unwrap();
        let error = imported(&stream, there.path()).unwrap_err();
        assert!(matches!(error, RepositoryError::Occupied { .. }), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"theirs");
        assert_eq!(storage(there.path()).list("").unwrap().len(), 1);
    }
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
    for (key_there, words) in [
        (None, "is not encrypted, but what comes is"),
        (Some(Key::random()), "with another key"),
        (key, ""),
    ] {
        let there = tempfile::tempdir().unwrap();
        Repository::init(storage(there.path()), key_there.clone()).unwrap();
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
        let other = Repository::open(storage(there.path()), &key_there.into()).unwrap();
        assert_eq!(restored(&other, "b").unwrap(), files());
    }
}
