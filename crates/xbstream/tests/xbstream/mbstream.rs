//! Streams of mbstream, and streams for it. It comes with mariadb-backup: `scripts/install-servers
//! mariadb-10.11` installs it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use refloat_xbstream::{Dialect, Writer};

use crate::common;

/// What mbstream reads at a time, in bytes.
const BLOCK: usize = 10 << 20;

pub fn mbstream(arguments: &[&str], folder: &Path, input: &[u8]) -> (Vec<u8>, String) {
    let mut child = Command::new("mbstream")
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mbstream starts; scripts/install-servers mariadb-10.11 installs it");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        // It may end before it has read all.
        scope.spawn(move || drop(stdin.write_all(input)));
        let output = child.wait_with_output().expect("mbstream ends");
        assert!(output.status.success(), "mbstream: {output:?}");
        (
            output.stdout,
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    })
}

/// What mbstream extracts, and what it wrote to standard error.
pub fn extracted(stream: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let (_, stderr) = mbstream(&["-x"], folder.path(), stream);
    (folder, stderr)
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}

/// A folder like a data directory.
fn sample() -> (tempfile::TempDir, Vec<&'static str>) {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("ibdata1", 2 * BLOCK + 12_345),
        ("empty", 0),
        ("block", BLOCK),
        ("db/t.ibd", 98_304),
        ("db/db.opt", 65),
        ("db/t#P#p0.MAD", 1),
    ];
    fs::create_dir(folder.path().join("db")).unwrap();
    for (name, length) in files {
        fs::write(folder.path().join(name), noise(length)).unwrap();
    }
    (folder, files.map(|(name, _)| name).to_vec())
}

#[test]
fn what_mbstream_writes_is_read() {
    let (folder, names) = sample();
    let (stream, _) = mbstream(&[&["-c"], &names[..]].concat(), folder.path(), b"");
    for dialect in [Dialect::MariaDb, Dialect::Percona] {
        let target = tempfile::tempdir().unwrap();
        common::extract(&stream[..], dialect, target.path(), |_| ()).unwrap();
        assert!(common::files(target.path()) == common::files(folder.path()));
    }
}

#[test]
fn the_writer_writes_the_same_bytes_as_mbstream() {
    let (folder, names) = sample();
    let (stream, _) = mbstream(&[&["-c"], &names[..]].concat(), folder.path(), b"");
    let mut writer = Writer::new(Vec::new(), Dialect::MariaDb);
    for name in names {
        writer.create(name).unwrap();
        for block in fs::read(folder.path().join(name)).unwrap().chunks(BLOCK) {
            writer.write(name, block).unwrap();
        }
        writer.end(name).unwrap();
    }
    assert!(writer.finish().unwrap() == stream);
}

#[test]
fn what_the_writer_writes_mbstream_extracts() {
    let mut writer = Writer::new(Vec::new(), Dialect::MariaDb);
    for name in ["db/a", "db/b", "db/c", "db/d", "log", "other/f", "other/g"] {
        writer.create(name).unwrap();
    }
    for part in noise(3 * BLOCK).chunks(1_000_000) {
        writer.write("db/a", part).unwrap();
        writer.write("db/b", &part[..part.len() / 2]).unwrap();
        writer.write("log", &part[..7]).unwrap();
    }
    writer.seek("log", 20).unwrap();
    writer.write("log", b"seven..").unwrap();
    for name in ["db/a", "db/b", "db/c", "db/d", "log", "other/f", "other/g"] {
        writer.end(name).unwrap();
    }
    writer.rename("db/a", "db/A").unwrap();
    // Onto one that is there.
    writer.rename("db/b", "db/c").unwrap();
    writer.remove("db/d").unwrap();
    writer.remove("other").unwrap();
    // Onto one with contents: mbstream takes a file that is empty only if a piece says so.
    writer.rewrite("db/A").unwrap();
    writer.end("db/A").unwrap();
    writer.rewrite("log2").unwrap();
    writer.write("log2", b"new").unwrap();
    writer.end("log2").unwrap();
    writer.remove("never/was").unwrap();
    writer.create("last").unwrap();
    writer.write("last", b"here").unwrap();
    writer.end("last").unwrap();
    let stream = writer.finish().unwrap();

    let (theirs, stderr) = extracted(&stream);
    assert_eq!(stderr, "");
    let ours = tempfile::tempdir().unwrap();
    common::extract(&stream[..], Dialect::MariaDb, ours.path(), |_| ()).unwrap();
    let files = common::files(ours.path());
    assert!(files == common::files(theirs.path()));
    let names: Vec<_> = files.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(names, ["db/A", "db/c", "last", "log", "log2"]);
    assert!(!ours.path().join("other").exists() && !theirs.path().join("other").exists());
}

/// What the reader refuses or reads otherwise is what mbstream does and calls a success. When this
/// fails, it has learned something: look at what the crate says about it.
#[test]
fn what_mbstream_calls_a_success() {
    let first = common::file("a", b"aa");
    let last = common::file("z", b"zz");
    let names = |stream: &[&[u8]]| {
        let (folder, _) = extracted(&stream.concat());
        let files = common::files(folder.path());
        files
            .into_keys()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
    };
    assert!(names(&[]).is_empty());
    assert_eq!(names(&[&first, &common::piece("z", 0, b"z")]), ["a", "z"]);
    // What comes later is not extracted.
    for wrong in [first.clone(), common::end("a"), common::seek("a", 0)] {
        assert_eq!(names(&[&first, &wrong, &last]), ["a"]);
    }
    let open = common::piece("a", 0, b"aa");
    for wrong in [common::rename("a", "b"), common::remove("a")] {
        assert_eq!(names(&[&open, &wrong, &common::end("a"), &last]), ["a"]);
    }
    assert!(names(&[&common::file("../a", b"x"), &last]).is_empty());
    let unknown = common::piece_of(1, b'X', "u", 0, b"hh");
    assert_eq!(names(&[&unknown, &last]), ["u", "z"]);
    // No pattern for it.
    let partition = common::file("db/t#P#p0.MAD", b"1");
    let left = ["db/t#P#p0.MAD", "z"];
    assert_eq!(
        names(&[&partition, &common::remove("db/t#P#*"), &last]),
        left
    );
}
