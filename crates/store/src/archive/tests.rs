use std::sync::Arc;

use super::*;

/// A file in an archive: name, kind, content.
type File<'a> = (&'a str, EntryType, &'a [u8]);

/// An archive with exactly these names, invalid ones included.
fn archive(files: &[File<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, kind, content) in files {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o777);
        header.set_cksum();
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn taken(bytes: &[u8]) -> Result<Unpacked, ArchiveError> {
    let scratch = tempfile::tempdir().unwrap();
    let input = Input::from_text("a.tar", Arc::from(bytes));
    let result = unpack(input, scratch.path());
    if result.is_err() {
        let left = std::fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(left, 0, "something is left of a refused archive");
    } else {
        // The folder must outlive this function: the unpacked files are in it.
        let _ = scratch.keep();
    }
    result
}

#[track_caller]
fn refused(bytes: &[u8], words: &str) {
    let error = taken(bytes).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

const FILE: EntryType = EntryType::Regular;

#[test]
fn files_are_where_they_were_and_go_away() {
    let bytes = archive(&[
        ("dump/", EntryType::Directory, b""),
        ("dump/a.sql", FILE, b"SELECT 1"),
        ("dump/db/t.tsv", FILE, &[0; 5000]),
    ]);
    let unpacked = taken(&bytes).unwrap();
    let root = unpacked.root().to_owned();
    assert!(root.ends_with("dump"));
    assert_eq!(std::fs::read(root.join("a.sql")).unwrap(), b"SELECT 1");
    assert_eq!(std::fs::read(root.join("db/t.tsv")).unwrap(), [0; 5000]);
    let above = root.parent().unwrap().parent().unwrap().to_owned();
    unpacked.remove().unwrap();
    assert!(!root.exists());
    std::fs::remove_dir(above).unwrap();
}

#[test]
fn the_source_is_the_one_folder_or_all_of_it() {
    for (names, one) in [
        (["d/a", "d/b"], true),
        (["./d/a", "./d/b"], false),
        (["d/a", "e/b"], false),
        (["d/a", "b"], false),
    ] {
        let files = names.map(|name| (name, FILE, b"x".as_slice()));
        let unpacked = taken(&archive(&files)).unwrap();
        assert_eq!(unpacked.root().ends_with("d"), one, "{names:?}");
    }
}

#[test]
fn names_do_not_lead_out() {
    for name in ["../x", "/x", "a/../../x", "a/.."] {
        refused(&archive(&[(name, FILE, b"x")]), "its name");
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::GNUSparse,
    ] {
        refused(&archive(&[("a", kind, b"")]), "neither a file nor a folder");
    }
    refused(&archive(&[("a", FILE, b"1"), ("./a", FILE, b"2")]), "twice");
    refused(
        &archive(&[
            ("././@LongLink", EntryType::GNULongName, b"b/../../x\0"),
            ("a", FILE, b"1"),
        ]),
        "its name leads out",
    );
    refused(
        &archive(&[
            ("pax", EntryType::XHeader, b"13 path=../x\n"),
            ("a", FILE, b"1"),
        ]),
        "its name leads out",
    );
}

#[test]
fn an_archive_that_is_cut_anywhere_is_refused() {
    // The zeros look like an end mark.
    let bytes = archive(&[("a", FILE, &[0; 3000]), ("b", FILE, b"text")]);
    taken(&bytes).unwrap();
    for end in 0..bytes.len() {
        if end % 97 != 0 && end % 512 != 0 {
            continue;
        }
        let error = taken(&bytes[..end]).unwrap_err();
        assert!(
            matches!(error, ArchiveError::Cut { .. }),
            "cut at {end} of {}: {error}",
            bytes.len()
        );
    }
}

#[test]
fn damage_and_what_follows_are_noticed() {
    let good = archive(&[("a", FILE, b"text")]);
    let mut bytes = good.clone();
    bytes[3] ^= 1;
    refused(&bytes, "damaged");
    let mut bytes = good.clone();
    bytes.extend_from_slice(&good);
    refused(&bytes, "something follows its end mark");
}

#[test]
fn more_than_the_disk_has_is_not_begun() {
    let mut header = tar::Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_entry_type(FILE);
    header.set_size(1 << 60);
    header.set_cksum();
    refused(header.as_bytes(), "MiB free");
    let mut header = tar::Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_cksum();
    refused(header.as_bytes(), "more than a MiB");
}

/// A stream of these files as `mydumper --stream` writes it.
fn stream(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in files {
        out.extend_from_slice(format!("\n-- {name} {}\n", content.len()).as_bytes());
        out.extend_from_slice(content);
    }
    out
}

#[test]
fn streams_of_mydumper_are_unpacked() {
    let bytes = stream(&[
        ("metadata.partial.0", b""),
        ("db.t.00000.sql", b"INSERT INTO t VALUES ('\n-- x 3\n')"),
        ("db.a b.00000.dat.zst", &[0; 9000]),
        ("metadata", b"[t]\n"),
    ]);
    let unpacked = taken(&bytes).unwrap();
    let read = |name: &str| std::fs::read(unpacked.root().join(name)).unwrap();
    assert_eq!(read("metadata.partial.0"), b"");
    assert_eq!(
        read("db.t.00000.sql"),
        b"INSERT INTO t VALUES ('\n-- x 3\n')"
    );
    assert_eq!(read("db.a b.00000.dat.zst"), [0; 9000]);
    assert_eq!(read("metadata"), b"[t]\n");
}

#[test]
fn streams_that_are_cut_are_refused() {
    let first: &[(&str, &[u8])] = &[("metadata.header", b"12345")];
    let both: &[(&str, &[u8])] = &[("metadata.header", b"12345"), ("metadata", b"abc")];
    let (first, bytes) = (stream(first), stream(both));
    for end in first.len() + 1..bytes.len() {
        refused(&bytes[..end], &format!("it ends at byte {end},"));
    }
}

#[test]
fn streams_that_are_none_are_refused() {
    let begin: &[(&str, &[u8])] = &[("metadata.header", b"12345")];
    let with = |more: &[u8]| [stream(begin).as_slice(), more].concat();
    refused(
        b"\n-- metadata.partial.0\n[config]\n",
        "old versions of mydumper",
    );
    refused(&with(b"more"), "damaged at byte 27");
    refused(&with(b"\n-- name\n"), "old versions of mydumper");
    refused(&with(b"\n-- name x\n"), "old versions of mydumper");
    refused(&with(b"\n-- ../name 1\nx"), "leads out");
    refused(&with(b"\n-- /name 1\nx"), "absolute");
    refused(&with(b"\n-- a/name 1\nx"), "no folders");
    refused(&with(b"\n-- metadata.header 1\nx"), "twice");
    refused(
        &with(&[b"\n-- ".as_slice(), &[b'a'; 5000]].concat()),
        "no end",
    );
    refused(&with(b"\n-- name 99999999999999999\nx"), "MiB free");
}
