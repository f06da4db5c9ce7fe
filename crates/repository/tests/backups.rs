//! Backups on a folder: what goes in comes out, what is damaged is noticed, what is known is
//! shared.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use refloat_repository::{
    Access, BLOCK, BackupWriter, FileEntry, FolderWriter, Key, LEVEL, Manifest, Repository,
    RepositoryError, Sink, Swept, fetch, mount, sweep,
};
use refloat_run::Cancel;
use refloat_store::storage::{
    Existing, LocalFolder, Object, Stamp, Storage, StorageError, Upload, write_whole,
};
use refloat_store::{Folder, FolderSink, files};

#[path = "backups/keys.rs"]
mod of_recipients;
#[path = "backups/streams.rs"]
mod streams;

type Files = BTreeMap<String, Vec<u8>>;

/// Bytes that do not compress.
fn noise(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Files of every shape: empty, small, of exactly one block, with holes at every place, repetitive.
fn files() -> Files {
    let mut holes = vec![0; 5 * BLOCK + 77];
    holes[2 * BLOCK..3 * BLOCK].copy_from_slice(&noise(BLOCK, 5));
    let mut tail = vec![0; 3 * BLOCK];
    tail[0] = 1;
    let files = [
        ("empty", Vec::new()),
        ("small", b"small".to_vec()),
        ("db/one block", noise(BLOCK, 1)),
        ("db/one more", noise(BLOCK + 1, 2)),
        ("db/many", noise(9 * BLOCK + 12_345, 3)),
        ("db/again", noise(BLOCK, 1)),
        ("holes", holes),
        ("a hole at the end", tail),
        ("only a hole", vec![0; 2 * BLOCK + 5]),
        ("text", b"the same again and again, ".repeat(200_000)),
    ];
    files
        .into_iter()
        .map(|(name, content)| (name.to_owned(), content))
        .collect()
}

fn storage(folder: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalFolder::new(folder))
}

fn back_up(
    repository: &Repository,
    label: &str,
    parents: &[Manifest],
    files: &Files,
) -> Result<Manifest, RepositoryError> {
    let writer = BackupWriter::begin(repository, label, parents, (3, LEVEL))?;
    let mut written = Vec::new();
    for (path, content) in files {
        let id = writer.file();
        for (number, block) in content.chunks(BLOCK).enumerate() {
            let mut bytes = writer.buffer();
            bytes.extend_from_slice(block);
            writer.put(id, (number * BLOCK) as u64, bytes)?;
        }
        written.push((id, path.clone(), content.len() as u64));
    }
    let about = BTreeMap::from([("server".to_owned(), "one".into())]);
    writer.finish(written, about)
}

struct Memory(Vec<Mutex<Vec<u8>>>);

impl Sink for Memory {
    fn write(&self, file: usize, begins: u64, bytes: &[u8]) -> std::io::Result<()> {
        let begins = begins as usize;
        self.0[file].lock().unwrap()[begins..begins + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

fn restored(repository: &Repository, label: &str) -> Result<Files, RepositoryError> {
    let manifest = repository.backup(label)?;
    let entries = repository.files(&manifest)?;
    let entries: Vec<&FileEntry> = entries.iter().collect();
    let memory = entries
        .iter()
        .map(|entry| Mutex::new(vec![0; entry.size as usize]));
    let memory = Memory(memory.collect());
    fetch(
        repository,
        &manifest,
        &entries,
        3,
        &memory,
        &Cancel::default(),
    )?;
    let contents = memory
        .0
        .into_iter()
        .map(|content| content.into_inner().unwrap());
    Ok(entries
        .iter()
        .map(|entry| entry.path.clone())
        .zip(contents)
        .collect())
}

fn keys() -> [Option<Key>; 2] {
    [None, Some(Key::new([9; 32]))]
}

#[test]
fn what_goes_in_comes_out() {
    for key in keys() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(storage(folder.path()), key.clone()).unwrap();
        let files = files();
        let manifest = back_up(&repository, "first", &[], &files).unwrap();
        assert_eq!(manifest.files, files.len() as u64);
        assert_eq!(
            manifest.bytes,
            files.values().map(Vec::len).sum::<usize>() as u64
        );
        // One block stands twice, and holes are not stored.
        assert!(manifest.added < 16 * BLOCK as u64, "{}", manifest.added);
        let again = Repository::open(storage(folder.path()), &key.into()).unwrap();
        assert_eq!(again.id(), repository.id());
        assert_eq!(again.labels().unwrap(), ["first"]);
        assert_eq!(again.backup("first").unwrap(), manifest);
        assert!(restored(&again, "first").unwrap() == files);
    }
}

#[test]
fn a_second_backup_shares_what_did_not_change() {
    for key in keys() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(storage(folder.path()), key).unwrap();
        let mut files = files();
        let first = back_up(&repository, "first", &[], &files).unwrap();
        let before = files.clone();
        files.get_mut("db/many").unwrap()[3 * BLOCK + 5] ^= 1;
        files.remove("small");
        let parents = std::slice::from_ref(&first);
        let second = back_up(&repository, "second", parents, &files).unwrap();
        assert!(second.added < 2 * BLOCK as u64, "{}", second.added);
        assert!(restored(&repository, "second").unwrap() == files);
        // Without the first one's manifest the second is as whole as before.
        assert!(restored(&repository, "first").unwrap() == before);
        repository.forget("first").unwrap();
        assert!(restored(&repository, "second").unwrap() == files);
        let error = restored(&repository, "first").unwrap_err();
        assert!(matches!(error, RepositoryError::NoBackup { .. }), "{error}");
    }
}

#[test]
fn a_label_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    let files = Files::from([("x".to_owned(), b"x".to_vec())]);
    // Two begin at the same time; one of them completes.
    let writers =
        [(); 2].map(|()| BackupWriter::begin(&repository, "one", &[], (1, LEVEL)).unwrap());
    let [first, second] = writers.map(|writer| writer.finish(Vec::new(), BTreeMap::new()));
    first.unwrap();
    let error = second.unwrap_err();
    assert!(
        matches!(error, RepositoryError::LabelTaken { .. }),
        "{error}"
    );
    let error = back_up(&repository, "one", &[], &files).unwrap_err();
    assert!(
        matches!(error, RepositoryError::LabelTaken { .. }),
        "{error}"
    );
    for label in ["", "a/b", "..", "a b"] {
        let error = back_up(&repository, label, &[], &files).unwrap_err();
        assert!(matches!(error, RepositoryError::Label { .. }), "{error}");
    }
}

#[test]
fn files_are_written_as_a_folder_and_read_where_they_lie() {
    for (key, root) in keys().into_iter().zip(["test://plain", "test://sealed"]) {
        let place = tempfile::tempdir().unwrap();
        let repository = Repository::init(storage(place.path()), key).unwrap();
        let writer = BackupWriter::begin(&repository, "one", &[], (3, LEVEL)).unwrap();
        let writer = Arc::new(FolderWriter::new(writer));
        let root = Path::new(root);
        let folder = Folder::into_sink(root, Arc::clone(&writer) as Arc<dyn FolderSink>);
        let files = files();
        for (path, content) in &files {
            let mut file = folder.file(path).unwrap();
            for part in content.chunks(700_001) {
                file.write(part).unwrap();
            }
            file.finish().unwrap();
        }
        folder.seal("last", b"{}").unwrap();
        let writer = Arc::into_inner(writer).unwrap();
        let about = BTreeMap::from([("kind".to_owned(), "logical".into())]);
        let manifest = writer.finish(about).unwrap();
        assert_eq!(
            repository.find("latest", Some("logical")).unwrap(),
            manifest
        );
        let error = repository.find("one", Some("physical")).unwrap_err();
        assert!(
            matches!(error, RepositoryError::AnotherKind { .. }),
            "{error}"
        );

        mount(&repository, &manifest, root).unwrap();
        let read = |path: &Path, from: usize| {
            let mut found = Vec::new();
            let mut file = files::open(path, from as u64).unwrap();
            file.read_to_end(&mut found).map(|_| found)
        };
        for (path, content) in &files {
            let path = root.join(path);
            assert_eq!(files::stat(&path).unwrap().bytes, content.len() as u64);
            for from in [0, 1, BLOCK, 8 * BLOCK + 3] {
                let from = from.min(content.len());
                assert!(
                    read(&path, from).unwrap() == content[from..],
                    "{path:?} {from}"
                );
            }
        }
        assert_eq!(read(&root.join("last"), 0).unwrap(), b"{}");
        for pack in repository.storage().list("packs/").unwrap() {
            let path = place.path().join(pack.name);
            let mut bytes = std::fs::read(&path).unwrap();
            for byte in bytes.iter_mut().skip(16) {
                *byte ^= 1;
            }
            std::fs::write(path, bytes).unwrap();
        }
        let error = read(&root.join("small"), 0).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
    }
}

#[test]
fn blocks_are_compressed_as_hard_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let text: Vec<u8> = (0..200_000)
        .flat_map(|number: u32| format!("{},", number.wrapping_mul(2_654_435_761)).into_bytes())
        .take(BLOCK)
        .collect();
    let sizes = [-7, LEVEL, 19].map(|level| {
        let storage = storage(&folder.path().join(level.to_string()));
        let repository = Repository::init(storage, None).unwrap();
        let writer = BackupWriter::begin(&repository, "one", &[], (1, level)).unwrap();
        let id = writer.file();
        writer.put(id, 0, text.clone()).unwrap();
        let file = (id, "t".to_owned(), text.len() as u64);
        let manifest = writer.finish(vec![file], BTreeMap::new()).unwrap();
        let found = restored(&repository, "one").unwrap();
        assert!(found["t"] == text, "{level}");
        manifest.packs[0].size
    });
    assert!(sizes.is_sorted_by(|one, next| one > next), "{sizes:?}");
}

#[test]
fn the_newest_backup_is_asked_for_by_server_and_kind() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    let add = |label: &str, kind: &str, port: u16| {
        let writer = BackupWriter::begin(&repository, label, &[], (1, LEVEL)).unwrap();
        let server = serde_json::json!({"hostname": "db1", "port": port, "datadir": "/d"});
        let about = [
            ("kind".to_owned(), kind.into()),
            ("server".to_owned(), server),
        ];
        writer.finish(Vec::new(), about.into()).unwrap();
    };
    let find = |kind| repository.find("latest", kind).map(|found| found.label);
    let error = find(None).unwrap_err();
    assert!(matches!(error, RepositoryError::NoBackup { .. }), "{error}");
    add("a", "physical", 1);
    add("b", "logical", 1);
    assert_eq!(find(None).unwrap(), "b");
    assert_eq!(find(Some("physical")).unwrap(), "a");
    add("c", "logical", 2);
    assert_eq!(find(Some("physical")).unwrap(), "a");
    let error = find(Some("logical")).unwrap_err();
    assert!(
        matches!(&error, RepositoryError::SeveralServers { labels, .. } if *labels == ["b", "c"]),
        "{error}"
    );
}

#[test]
fn backups_of_the_same_second_are_in_the_order_in_which_they_began() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    // Few seconds, if any, end between them.
    let labels: Vec<String> = (0..20)
        .map(|number| format!("b{:02}", 20 - number))
        .collect();
    for label in &labels {
        let writer = BackupWriter::begin(&repository, label, &[], (1, LEVEL)).unwrap();
        writer.finish(Vec::new(), BTreeMap::new()).unwrap();
    }
    let all = repository.backups().unwrap();
    let found: Vec<&str> = all.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(found, labels);
}

#[test]
fn a_backup_that_is_not_finished_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    let writer = BackupWriter::begin(&repository, "one", &[], (2, LEVEL)).unwrap();
    let id = writer.file();
    for number in 0..10 {
        let bytes = noise(BLOCK, number);
        writer
            .put(id, u64::from(number) * BLOCK as u64, bytes)
            .unwrap();
    }
    drop(writer);
    let left: Vec<String> = repository
        .storage()
        .list("")
        .unwrap()
        .into_iter()
        .map(|o| o.name)
        .collect();
    assert_eq!(left, ["repository.json"]);
    // Bytes of a file that were given twice are not a backup either.
    let writer = BackupWriter::begin(&repository, "one", &[], (2, LEVEL)).unwrap();
    let id = writer.file();
    for seed in [1, 2] {
        writer.put(id, 0, noise(100, seed)).unwrap();
    }
    let error = writer
        .finish(vec![(id, "x".to_owned(), 100)], BTreeMap::new())
        .unwrap_err();
    assert!(error.to_string().contains("impossible block"), "{error}");
    assert_eq!(repository.storage().list("").unwrap().len(), 1);
}

#[test]
fn keys_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let [_, key] = keys();
    Repository::init(storage(folder.path()), key).unwrap();
    for (key, says) in [
        (None, "no key was given"),
        (Some(Key::new([8; 32])), "another key"),
    ] {
        let error = Repository::open(storage(folder.path()), &key.into()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = Repository::init(storage(folder.path()), None).unwrap_err();
    assert!(matches!(error, RepositoryError::Occupied { .. }), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Repository::open(storage(empty.path()), &Access::Plain).unwrap_err();
    assert!(matches!(error, RepositoryError::Missing { .. }), "{error}");
    std::fs::write(empty.path().join("repository.json"), "{\"format\":2}").unwrap();
    let error = Repository::open(storage(empty.path()), &Access::Plain).unwrap_err();
    assert!(matches!(error, RepositoryError::Format { .. }), "{error}");
}

/// No byte of a repository can change, vanish or move without an error that names the object.
#[test]
fn damage_is_never_restored() {
    for key in keys() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(storage(folder.path()), key.clone()).unwrap();
        let files = Files::from([
            ("a".to_owned(), noise(50_000, 1)),
            ("b".to_owned(), b"text ".repeat(5_000)),
        ]);
        back_up(&repository, "one", &[], &files).unwrap();
        let objects = repository.storage().list("").unwrap();
        for object in objects
            .iter()
            .filter(|object| object.name != "repository.json")
        {
            let path = folder.path().join(&object.name);
            let whole = std::fs::read(&path).unwrap();
            let tries = |bytes: &[u8], what: String| {
                std::fs::write(&path, bytes).unwrap();
                let open = Repository::open(storage(folder.path()), &key.clone().into());
                let found = open.and_then(|repository| restored(&repository, "one"));
                match found {
                    // The first bytes of a pack are nobody's block.
                    Ok(found) => assert!(found == files && what.contains("packs/"), "{what}"),
                    Err(error) => {
                        let words = error.to_string();
                        assert!(words.contains("one") || words.contains("packs/"), "{words}");
                    }
                }
            };
            let step = (whole.len() / 150).max(1);
            for at in (0..whole.len()).step_by(step) {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << (at % 8);
                tries(&damaged, format!("{} changed at {at}", object.name));
                if object.name.starts_with("backups/") || at > 16 {
                    std::fs::write(&path, &whole[..at]).unwrap();
                    let open = Repository::open(storage(folder.path()), &key.clone().into());
                    open.and_then(|repository| restored(&repository, "one"))
                        .unwrap_err();
                }
            }
            std::fs::write(&path, &whole).unwrap();
        }
        // A pack is gone, or another one has its name.
        back_up(
            &repository,
            "two",
            &[],
            &Files::from([("a".to_owned(), noise(50_000, 2))]),
        )
        .unwrap();
        let packs = repository.storage().list("packs/").unwrap();
        let (needed, other): (Vec<_>, Vec<_>) = packs
            .iter()
            .partition(|pack| objects.iter().any(|object| object.name == pack.name));
        let other = std::fs::read(folder.path().join(&other[0].name)).unwrap();
        assert!(!needed.is_empty());
        for pack in needed {
            let path = folder.path().join(&pack.name);
            let whole = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            restored(&repository, "one").unwrap_err();
            std::fs::write(&path, &other).unwrap();
            restored(&repository, "one").unwrap_err();
            std::fs::write(&path, &whole).unwrap();
        }
        assert!(restored(&repository, "one").unwrap() == files);
    }
}

#[test]
fn only_what_no_backup_needs_is_swept() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    let kept = Files::from([("a".to_owned(), noise(BLOCK, 1))]);
    let mut both = kept.clone();
    both.insert("b".to_owned(), noise(BLOCK, 2));
    let first = back_up(&repository, "first", &[], &both).unwrap();
    back_up(&repository, "second", &[first], &kept).unwrap();
    let packs = || repository.storage().list("packs/").unwrap();
    let before = packs();
    let nothing = Swept::default();
    assert_eq!(sweep(&repository, Duration::ZERO).unwrap(), nothing);
    assert_eq!(packs(), before);
    repository.forget("first").unwrap();
    // Young packs may belong to a backup that is being written.
    let hour = Duration::from_secs(3600);
    assert_eq!(sweep(&repository, hour).unwrap(), nothing);
    // What others have put there is left alone, and named.
    let strangers = [
        "packs/00/00000000000000000000000000000000 (copy)",
        "packs/0000000000000000",
        "packs/xx/00000000000000000000000000000000",
    ];
    for name in strangers {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let swept = sweep(&repository, Duration::ZERO).unwrap();
    assert!(swept.bytes > 0 && swept.spared == 0, "{swept:?}");
    assert_eq!(swept.strangers, strangers);
    for name in strangers {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    assert!(packs().len() < before.len());
    assert!(restored(&repository, "second").unwrap() == kept);
    // Nobody knows what a damaged manifest needs.
    let manifest = folder.path().join("backups/second.json");
    let text = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &text[1..]).unwrap();
    let left = packs();
    sweep(&repository, Duration::ZERO).unwrap_err();
    assert_eq!(packs(), left);
}

/// However long it takes: its packs are not taken for left over, nor those that it shares.
#[test]
fn nothing_is_swept_that_a_running_backup_needs() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    let files = Files::from([("a".to_owned(), noise(BLOCK, 1))]);
    let first = back_up(&repository, "first", &[], &files).unwrap();
    let count = |prefix: &str| repository.storage().list(prefix).unwrap().len();
    let left = count("packs/");
    let write = |label: &str| {
        let parents = std::slice::from_ref(&first);
        let mut writer = BackupWriter::begin(&repository, label, parents, (1, LEVEL)).unwrap();
        let ids = [1, 2].map(|seed| {
            let id = writer.file();
            writer.put(id, 0, noise(BLOCK, seed)).unwrap();
            id
        });
        writer.wait().unwrap();
        (writer, ids)
    };
    let (writer, [shared, new]) = write("second");
    repository.forget("first").unwrap();
    assert_eq!(count("packs/"), left + 1);
    let swept = sweep(&repository, Duration::ZERO).unwrap();
    assert_eq!((swept.bytes, swept.spared), (0, left as u64 + 1));
    let list = [(shared, "shared"), (new, "new")];
    let list = list.map(|(id, name)| (id, name.to_owned(), BLOCK as u64));
    writer.finish(list.into(), BTreeMap::new()).unwrap();
    assert_eq!(restored(&repository, "second").unwrap().len(), 2);
    assert_eq!(count("writers/"), 0);

    // One that was killed is waited for no longer than a week.
    let (writer, _) = write("killed");
    let [mark] = &repository.storage().list("writers/").unwrap()[..] else {
        panic!("it does not say that it is at work");
    };
    let path = folder.path().join(&mark.name);
    let (stale, young) = (std::fs::read(&path).unwrap(), count("packs/"));
    std::mem::forget(writer);
    let text = String::from_utf8(stale).unwrap();
    let (renewed, rest) = text.split_once('\n').unwrap();
    let renewed: u64 = renewed.parse().unwrap();
    for (days, is_kept) in [(6, true), (8, false)] {
        let then = renewed - days * 24 * 3600;
        std::fs::write(&path, format!("{then}\n{rest}")).unwrap();
        let swept = sweep(&repository, Duration::ZERO).unwrap();
        assert_eq!(swept.spared > 0, is_kept, "{days} {swept:?}");
        assert_eq!(count("writers/"), usize::from(is_kept));
    }
    assert!(count("packs/") < young);
}

/// What is lost or damaged has nothing to share, and keeps no new backup from being made.
#[test]
fn a_backup_shares_nothing_that_is_gone() {
    for is_gone in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init(storage(folder.path()), None).unwrap();
        let files = Files::from([("a".to_owned(), noise(BLOCK, 1))]);
        let first = back_up(&repository, "first", &[], &files).unwrap();
        for pack in repository.storage().list("packs/").unwrap() {
            let path = folder.path().join(&pack.name);
            if is_gone {
                std::fs::remove_file(path).unwrap();
            } else {
                std::fs::write(path, vec![0; pack.size as usize]).unwrap();
            }
        }
        let parents = std::slice::from_ref(&first);
        let writer = BackupWriter::begin(&repository, "none", parents, (1, LEVEL)).unwrap();
        assert!(writer.unshared()[0].starts_with("first: "));
        drop(writer);
        back_up(&repository, "second", parents, &files).unwrap();
        assert!(restored(&repository, "second").unwrap() == files);
    }
}

/// A sweep, and a backup that shares the blocks of a backup which was just forgotten: whichever
/// comes second sees the other one.
#[test]
fn a_backup_and_a_sweep_at_the_same_time_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    let files = Files::from([("a".to_owned(), noise(BLOCK, 1))]);
    let first = back_up(&repository, "first", &[], &files).unwrap();
    let objects = |prefix: &str| repository.storage().list(prefix).unwrap();
    let packs = objects("packs/");
    let names: Vec<&str> = packs.iter().map(|pack| pack.name.as_str()).collect();
    let names = names.join("\n");
    let mark = "sweeps/006900000000000000000000000000ff";
    let marks = || {
        let storage = &**repository.storage();
        write_whole(storage, mark, names.as_bytes(), Existing::Keep).unwrap();
    };

    // The sweep has looked for backups before this one is there.
    let parents = std::slice::from_ref(&first);
    let writer = BackupWriter::begin(&repository, "second", parents, (1, LEVEL)).unwrap();
    let id = writer.file();
    writer.put(id, 0, noise(BLOCK, 1)).unwrap();
    marks();
    let list = vec![(id, "a".to_owned(), BLOCK as u64)];
    let error = writer.finish(list, BTreeMap::new()).unwrap_err();
    assert!(matches!(error, RepositoryError::Swept { .. }), "{error}");
    assert_eq!(repository.labels().unwrap(), ["first"]);
    assert_eq!(objects("packs/"), packs);

    // A backup that begins after the sweep shares nothing that is removed.
    back_up(&repository, "third", parents, &files).unwrap();
    assert!(objects("packs/").len() > packs.len());
    for pack in &packs {
        repository.storage().delete(&pack.name).unwrap();
    }
    assert!(restored(&repository, "third").unwrap() == files);

    // A backup is complete just as the sweep has looked for backups. What is left of the other
    // sweep is removed.
    let manifest = folder.path().join("backups/third.json");
    let text = std::fs::read(&manifest).unwrap();
    repository.forget("third").unwrap();
    repository.forget("first").unwrap();
    let meanwhile = Meanwhile {
        folder: LocalFolder::new(folder.path()),
        before: "sweeps/",
        happens: Box::new(move || {
            // A folder goes with its last object.
            std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
            std::fs::write(&manifest, &text).unwrap();
        }),
    };
    let other = Repository::open(Arc::new(meanwhile), &Access::Plain).unwrap();
    let swept = sweep(&other, Duration::ZERO).unwrap();
    assert_eq!(swept, Swept::default());
    assert!(restored(&repository, "third").unwrap() == files);
    assert_eq!(objects("sweeps/"), []);
}

/// A folder where something happens before each object with this prefix is written.
struct Meanwhile {
    folder: LocalFolder,
    before: &'static str,
    happens: Box<dyn Fn() + Send + Sync>,
}

impl Storage for Meanwhile {
    fn url(&self) -> &str {
        self.folder.url()
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>, StorageError> {
        self.folder.list(prefix)
    }

    fn size(&self, name: &str) -> Result<u64, StorageError> {
        self.folder.size(name)
    }

    fn stamp(&self, name: &str) -> Result<Stamp, StorageError> {
        self.folder.stamp(name)
    }

    fn read(&self, name: &str, range: Range<u64>) -> Result<Box<dyn Read + Send>, StorageError> {
        self.folder.read(name, range)
    }

    fn create(&self, name: &str, existing: Existing) -> Result<Box<dyn Upload>, StorageError> {
        if name.starts_with(self.before) {
            (self.happens)();
        }
        self.folder.create(name, existing)
    }

    fn delete(&self, name: &str) -> Result<(), StorageError> {
        self.folder.delete(name)
    }

    fn sweep(&self) -> Result<u64, StorageError> {
        self.folder.sweep()
    }

    fn transfers(&self) -> usize {
        self.folder.transfers()
    }
}

/// Whoever writes to a repository can make its manifests say anything, if it is not encrypted.
#[test]
fn a_manifest_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::init(storage(folder.path()), None).unwrap();
    let files = Files::from([("a".to_owned(), noise(1000, 1))]);
    let manifest = back_up(&repository, "one", &[], &files).unwrap();
    let path = folder.path().join("backups/one.json");
    let tries = |manifest: &Manifest, says: &str| {
        let json = serde_json::to_string(manifest).unwrap();
        let sum = blake3::hash(json.as_bytes()).to_hex();
        std::fs::write(&path, format!("{json}\n{sum}\n")).unwrap();
        let error = restored(&repository, "one").unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    for id in ["../../etc", "ä", ""] {
        let mut other = manifest.clone();
        other.packs[0].id = id.to_owned();
        tries(&other, "is not the id of a pack");
    }
    let mut large = manifest.clone();
    large.list_bytes = 1 << 50;
    tries(&large, "too few blocks");
    let mut stored = manifest.clone();
    stored.packs[0].size = u64::MAX;
    stored.list[0].stored = u32::MAX;
    tries(&stored, "impossible block");
}
