//! The storage in a folder of another machine, against a real sshd.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use refloat_host::storage::{SshFolder, SshUrl};
use refloat_store::storage::{
    Existing, Patience, Storage, StorageError, StorageErrorKind, read_whole, reader, write_whole,
};
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::ssh::SshServer;
use refloat_testkit::storages::{QUICK, bytes, keeps_its_promises, names, read_range};
use refloat_testkit::wait_until;
use rustix::process::Signal;

/// A file that no buffer on its way holds: `ssh`, TCP and what is read ahead have some 10 MiB.
const LARGE: usize = 96 << 20;
/// The user id of [`SshServer::SFTP_ONLY`].
const NOBODY: u32 = 65_534;

fn storage(ssh: &SshServer, url: &str) -> Arc<dyn Storage> {
    let url: SshUrl = url.parse().unwrap();
    Arc::new(SshFolder::by(&url, &ssh.bin().join("ssh")))
}

/// A folder of this machine, reached by ssh.
struct Place {
    ssh: SshServer,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            ssh: SshServer::start(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How often somebody has logged in.
    fn logins(&self) -> usize {
        self.ssh.log().matches("Accepted publickey").count()
    }

    fn storage(&self) -> Arc<dyn Storage> {
        self.storage_in(self.folder.path())
    }

    fn storage_in(&self, folder: &Path) -> Arc<dyn Storage> {
        storage(
            &self.ssh,
            &format!("ssh://root@machine{}", folder.display()),
        )
    }
}

/// The SFTP server without an sshd, with these options. Its log is the file `log` of the folder,
/// the storage is the folder `place` in it.
fn without_ssh(options: &str) -> (tempfile::TempDir, Arc<dyn Storage>) {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let script = format!("exec /usr/lib/openssh/sftp-server -e {options} 2>>{at}/log");
    let program = program(folder.path(), &script);
    let url: SshUrl = format!("ssh://machine{at}/place").parse().unwrap();
    (folder, Arc::new(SshFolder::by(&url, &program)))
}

/// A script that runs in place of `ssh`.
fn program(folder: &Path, script: &str) -> PathBuf {
    let program = folder.join("ssh");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// The files in a folder and its folders, unfinished ones too.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What a first use of a place says that cannot be used.
fn complaint(storage: &Arc<dyn Storage>) -> StorageError {
    let listed = storage.list("").unwrap_err();
    let created = storage.create("x", Existing::Keep).map(drop).unwrap_err();
    assert_eq!(listed.kind(), created.kind(), "{listed}: {created}");
    created
}

#[test]
fn a_folder_of_another_machine_keeps_its_promises() {
    let place = Place::new();
    let root = place.path("not/there/yet");
    let storage = place.storage_in(&root);
    keeps_its_promises(&storage);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    // Only their owner comes to what is in it.
    write_whole(&*storage, "a/b", b"x", Existing::Keep).unwrap();
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode(""), mode("a"), mode("a/b")), (0o700, 0o700, 0o600));
}

#[test]
fn an_account_without_a_shell_is_enough() {
    let ssh = SshServer::start();
    chown(ssh.home(), Some(NOBODY), None).unwrap();
    let url = format!(
        "sftp://{}@machine:{}/~/backups",
        SshServer::SFTP_ONLY,
        ssh.port()
    );
    let storage = storage(&ssh, &url);
    keeps_its_promises(&storage);
    write_whole(&*storage, "x", b"x", Existing::Keep).unwrap();
    assert_eq!(
        fs::metadata(ssh.home().join("backups/x")).unwrap().uid(),
        NOBODY
    );
    // It may write nowhere else.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let url = format!(
        "ssh://{}@machine{}",
        SshServer::SFTP_ONLY,
        elsewhere.path().display()
    );
    let storage = self::storage(&ssh, &url);
    assert_eq!(names(&storage, ""), Vec::<String>::new());
    for name in ["x", "folder/x"] {
        let error = storage.create(name, Existing::Keep).map(drop).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Denied, "{error}");
    }
    fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(complaint(&storage).kind(), StorageErrorKind::Denied);
}

#[test]
fn who_cannot_be_reached_says_why() {
    let ssh = SshServer::start();
    let at = |place: &str| complaint(&storage(&ssh, &format!("ssh://root@{place}/tmp/x")));
    let error = at(SshServer::STRANGER);
    assert_eq!(error.kind(), StorageErrorKind::Denied);
    assert!(
        error.to_string().contains("Host key verification failed"),
        "{error}"
    );
    let error = at(SshServer::NOT_LET_IN);
    assert_eq!(error.kind(), StorageErrorKind::Denied);
    assert!(
        error.to_string().contains("Permission denied (publickey)"),
        "{error}"
    );
    let error = at("machine:1");
    assert_eq!(error.kind(), StorageErrorKind::Lost);
    assert!(error.to_string().contains("Connection refused"), "{error}");
    let url: SshUrl = "ssh://machine/tmp/x".parse().unwrap();
    let error = complaint(&(Arc::new(SshFolder::by(&url, Path::new("no-ssh"))) as Arc<_>));
    assert!(error.to_string().contains("cannot run no-ssh"), "{error}");
}

#[test]
fn a_program_that_speaks_no_sftp_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let url: SshUrl = "ssh://machine/tmp/x".parse().unwrap();
    let says = |script: &str| {
        let program = program(folder.path(), script);
        complaint(&(Arc::new(SshFolder::by(&url, &program)) as Arc<_>))
    };
    let error = says("echo Welcome to this machine; sleep 1");
    assert_eq!(error.kind(), StorageErrorKind::Other);
    assert!(
        error.to_string().contains("shell print something"),
        "{error}"
    );
    let error = says("echo sorry >&2; exit 1");
    assert!(error.to_string().contains("status 1: sorry"), "{error}");
    let error = says("kill -9 $$");
    assert_eq!(error.kind(), StorageErrorKind::Lost);
    assert!(error.to_string().contains("ended by signal 9"), "{error}");
}

#[test]
fn a_server_that_cannot_keep_the_promise_is_not_written_to() {
    // The real server, without some of what it can do.
    let (folder, storage) = without_ssh("-P fsync,posix-rename,limits");
    fs::create_dir(folder.path().join("place")).unwrap();
    fs::write(folder.path().join("place/x"), bytes(5 << 20, 1)).unwrap();
    let error = storage.create("y", Existing::Keep).map(drop).unwrap_err();
    let words = "lacks fsync@openssh.com, posix-rename@openssh.com";
    assert!(error.to_string().contains(words), "{error}");
    // It can be read, in small pieces, and tidied.
    assert_eq!(names(&storage, ""), ["x"]);
    assert!(read_range(&storage, "x", 0..5 << 20) == bytes(5 << 20, 1));
    storage.delete("x").unwrap();
    assert_eq!(names(&storage, ""), Vec::<String>::new());
}

#[test]
fn what_appears_and_disappears_is_synced() {
    let (folder, storage) = without_ssh("-l VERBOSE");
    write_whole(&*storage, "a/x", b"x", Existing::Keep).unwrap();
    write_whole(&*storage, "a/x", b"x", Existing::Replace).unwrap();
    storage.delete("a/x").unwrap();
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let above = folder.path().display().to_string();
    let acts = [
        "fsync",
        "mkdir",
        "hardlink",
        "posix-rename",
        "remove",
        "rmdir",
    ];
    let extra = ["name", "old", "new", "mode", "0700"];
    let done: Vec<String> = log
        .lines()
        .map(|line| line.replace(&above, "").replace('"', ""))
        .filter(|line| acts.iter().any(|act| line.starts_with(act)))
        .map(|line| {
            let words = line.split(' ').filter(|word| !extra.contains(word));
            let words = words.map(|word| word.split_inclusive("unfinished").next().unwrap_or(""));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let expected = [
        "mkdir /place/a",
        "mkdir /place",
        "fsync ",
        "mkdir /place/a",
        "fsync /place",
        "fsync /place/a/.unfinished",
        // Whether folders can be synced is known before anything appears.
        "fsync /place/a",
        "hardlink /place/a/.unfinished /place/a/x",
        "remove /place/a/.unfinished",
        "fsync /place/a",
        "fsync /place/a/.unfinished",
        "fsync /place/a",
        "posix-rename /place/a/.unfinished /place/a/x",
        "fsync /place/a",
        "remove /place/a/x",
        "rmdir /place/a",
        "fsync /place",
    ];
    assert_eq!(done, expected);
}

/// A large object whose first bytes are read, so that the rest is on its way.
fn half_read(place: &Place, storage: &Arc<dyn Storage>) -> (Vec<u8>, impl Read + use<>) {
    let content = bytes(LARGE, 5);
    fs::write(place.path("large"), &content).unwrap();
    let patience = Patience::default();
    let mut half = reader(storage, "large", 0..LARGE as u64, patience);
    half.read_exact(&mut vec![0; 1 << 20]).unwrap();
    (content, half)
}

fn reads_the_rest(content: &[u8], mut half: impl Read) {
    let mut rest = Vec::new();
    half.read_to_end(&mut rest).unwrap();
    assert!(rest == content[1 << 20..]);
}

#[test]
fn a_read_goes_on_after_its_session_was_killed() {
    let place = Place::new();
    let storage = place.storage();
    let (content, half) = half_read(&place, &storage);
    place.ssh.signal_sessions(Signal::KILL);
    reads_the_rest(&content, half);
    assert_eq!(place.logins(), 2);
}

#[test]
fn a_read_goes_on_after_its_server_fell_silent() {
    let place = Place::new();
    let storage = place.storage();
    let (content, half) = half_read(&place, &storage);
    place.ssh.signal_sessions(Signal::STOP);
    reads_the_rest(&content, half);
    assert_eq!(place.logins(), 2);
}

#[test]
fn connections_that_died_while_idle_are_no_error() {
    let place = Place::new();
    let storage = place.storage();
    write_whole(&*storage, "x", b"x", Existing::Keep).unwrap();
    assert_eq!(read_whole(&storage, "x", 1).unwrap(), b"x");
    place.ssh.signal_sessions(Signal::KILL);
    assert_eq!(names(&storage, ""), ["x"]);
    place.ssh.signal_sessions(Signal::KILL);
    write_whole(&*storage, "y", b"y", Existing::Keep).unwrap();
    place.ssh.signal_sessions(Signal::KILL);
    storage.delete("y").unwrap();
}

#[test]
fn nothing_appears_of_a_write_whose_session_was_killed() {
    let place = Place::new();
    let storage = place.storage();
    let mut upload = storage.create("x", Existing::Keep).unwrap();
    upload.write_all(&bytes(10 << 20, 6)).unwrap();
    place.ssh.signal_sessions(Signal::KILL);
    let error = upload.finish().unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Lost, "{error}");
    assert_eq!(names(&storage, ""), Vec::<String>::new());
    // Also when it is noticed by a write, and the caller does not care.
    let mut upload = storage.create("y", Existing::Keep).unwrap();
    place.ssh.signal_sessions(Signal::KILL);
    upload.write_all(&vec![0; LARGE]).unwrap_err();
    upload.finish().unwrap_err();
    assert_eq!(names(&storage, ""), Vec::<String>::new());
    // What was begun stays until it is old.
    let remains = files(place.folder.path());
    assert_eq!(remains.len(), 2, "{remains:?}");
    assert_eq!(storage.sweep().unwrap(), 0);
    let then = SystemTime::now() - Duration::from_secs(25 * 3600);
    for file in remains {
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(then).unwrap();
    }
    assert_eq!(storage.sweep().unwrap(), 2);
    assert_eq!(files(place.folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn of_writers_at_the_same_time_one_succeeds() {
    let place = Place::new();
    let storages = [place.storage(), place.storage()];
    for round in 0..10 {
        let name = format!("folder/{round}");
        let written = std::thread::scope(|scope| {
            let writers = [0, 1, 2, 3].map(|number: usize| {
                let (storage, name) = (&storages[number % 2], &name);
                scope.spawn(move || {
                    let content = bytes(100_000, number as u32);
                    write_whole(&**storage, name, &content, Existing::Keep)
                })
            });
            writers.map(|writer| writer.join().unwrap())
        });
        let winners: Vec<usize> = (0..4).filter(|&number| written[number].is_ok()).collect();
        assert_eq!(winners.len(), 1, "{written:?}");
        for error in written.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), StorageErrorKind::Exists, "{error}");
        }
        let found = read_whole(&storages[0], &name, 1 << 20).unwrap();
        assert!(found == bytes(100_000, winners[0] as u32));
    }
    assert_eq!(files(place.folder.path()).len(), 10);
}

#[test]
fn many_objects_are_listed() {
    let place = Place::new();
    let mut expected = Vec::new();
    for folder in 0..50 {
        fs::create_dir_all(place.path(&format!("packs/{folder:02x}"))).unwrap();
        for file in 0..30 {
            let name = format!("packs/{folder:02x}/{file}");
            fs::write(place.path(&name), vec![0; file]).unwrap();
            expected.push(name);
        }
    }
    // Nothing here writes such a name, but others do.
    fs::write(place.path("packs/with space"), "x").unwrap();
    expected.push("packs/with space".to_owned());
    expected.sort();
    // None of these is an object.
    fs::write(place.path("packs/.unfinished-1-1"), "x").unwrap();
    fs::write(place.path("packs/.hidden"), "x").unwrap();
    fs::write(place.path("packs/with\ttab"), "x").unwrap();
    std::os::unix::fs::symlink("/etc", place.path("packs/link")).unwrap();
    let storage = place.storage();
    assert_eq!(names(&storage, ""), expected);
    assert_eq!(names(&storage, "packs/0a/1").len(), 11);
    assert_eq!(names(&storage, "packs/2"), expected[32 * 30..48 * 30]);
    for nothing in ["packs/00/1/", "nothing/", "../", "/etc/", "packs/00/5x"] {
        assert_eq!(names(&storage, nothing), Vec::<String>::new());
    }
    let listed = storage.list("packs/00/29").unwrap();
    assert_eq!(listed[0].size, 29);
}

#[test]
fn a_full_disk_is_called_full() {
    let place = Place::new();
    let disk = SmallDisk::mount(8);
    let storage = place.storage_in(disk.path());
    let error = write_whole(&*storage, "x", &bytes(20 << 20, 7), Existing::Keep).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Full, "{error}");
    assert_eq!(files(disk.path()), Vec::<PathBuf>::new());
    write_whole(&*storage, "x", &bytes(1 << 20, 7), Existing::Keep).unwrap();
}

#[test]
fn transfers_run_side_by_side_and_connections_are_used_again() {
    let place = Place::new();
    let storage = place.storage();
    let content = bytes(3 << 20, 8);
    // More than there are connections to keep, all open in this thread.
    let many = 2 * storage.transfers();
    let uploads: Vec<_> = (0..many)
        .map(|number| {
            let mut upload = storage.create(&number.to_string(), Existing::Keep).unwrap();
            upload.write_all(&content).unwrap();
            upload
        })
        .collect();
    for upload in uploads {
        upload.finish().unwrap();
    }
    assert_eq!(place.logins(), many);
    let kept = storage.transfers();
    for round in 0..3 {
        let mut readers: Vec<_> = (0..kept)
            .map(|number| {
                let mut half = reader(&storage, &number.to_string(), 0..3 << 20, QUICK);
                half.read_exact(&mut vec![0; 1 << round]).unwrap();
                half
            })
            .collect();
        // Some are given up while answers are on their way, and their connections stay of use.
        readers.truncate(2);
        for half in &mut readers {
            let mut rest = Vec::new();
            half.read_to_end(&mut rest).unwrap();
            assert!(rest == content[1 << round..]);
        }
    }
    assert_eq!(place.logins(), many);
    drop(storage);
    wait_until("sessions end", || place.ssh.sessions().is_empty());
}
