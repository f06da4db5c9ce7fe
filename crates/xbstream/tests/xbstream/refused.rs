//! What is wrong with a stream is an error that says where.
//!
//! The first tests are cases in which `mbstream -x` (10.11.19) extracts less than was sent, or
//! damaged files, or files elsewhere, and reports success. `tests/xbstream/mbstream.rs` shows some.

use refloat_xbstream::{CHUNK_LIMIT, Dialect, Error, Problem};

use crate::common::{
    end, file, head, operations, piece, piece_of, remove, rename, rewrite, seek, sparse,
};

fn refused(stream: &[u8]) -> Error {
    refused_of(stream, Dialect::MariaDb)
}

fn refused_of(stream: &[u8], dialect: Dialect) -> Error {
    operations(stream, dialect).expect_err("the stream is refused")
}

macro_rules! assert_refused {
    ($stream:expr, $at:expr, $path:expr, $problem:pat) => {
        let error = refused(&$stream);
        assert!(matches!(error.problem, $problem), "{error}");
        assert_eq!((error.at, error.path.as_deref()), ($at, $path), "{error}");
    };
}

fn len(chunk: &[u8]) -> u64 {
    chunk.len() as u64
}

// Hazard of streams: an empty stream is taken for a backup
#[test]
fn an_empty_stream() {
    assert_refused!([], 0, None, Problem::Empty);
}

// Hazard of streams: P-04 a stream that was cut between two chunks of a file is taken for a whole
//   one
#[test]
fn a_file_without_end() {
    let stream = [file("a", b"aa"), piece("b", 0, b"bb")].concat();
    assert_refused!(
        stream,
        len(&stream),
        Some("b"),
        Problem::NotEnded { count: 1 }
    );
    let stream = [stream, piece("c", 0, b"cc")].concat();
    assert_refused!(
        stream,
        len(&stream),
        Some("b"),
        Problem::NotEnded { count: 2 }
    );
}

// Hazard of streams: a file that occurs a second time ends the extraction, and it reports success
#[test]
fn a_file_twice() {
    let first = file("a", b"aa");
    let stream = [&first[..], &first].concat();
    assert_refused!(stream, len(&first), Some("a"), Problem::Twice);
    // An end alone is an empty file.
    let stream = [&first[..], &end("a")].concat();
    assert_refused!(stream, len(&first), Some("a"), Problem::Twice);
    // The flag means another thing there.
    let again = piece_of(2, b'P', "a", 0, b"A");
    let error = refused_of(&[&first[..], &again].concat(), Dialect::Percona);
    assert!(matches!(error.problem, Problem::Twice), "{error}");
}

// Hazard of streams: an open file that is renamed or removed ends the extraction, and it reports
//   success
#[test]
fn an_open_file_renamed_or_removed() {
    let open = piece("d/a", 0, b"aa");
    for chunk in [rename("d/a", "b"), remove("d/a"), remove("d")] {
        let error = refused(&[&open[..], &chunk, &end("d/a")].concat());
        assert!(matches!(error.problem, Problem::NotYet), "{error}");
        assert_eq!(error.at, len(&open));
    }
    let onto = [file("b", b"bb"), open, rename("b", "d/a"), end("d/a")].concat();
    assert!(matches!(refused(&onto).problem, Problem::NotYet));
    let partition = [piece("t#P#p0.MAD", 0, b"1"), remove("t#P#*")].concat();
    assert!(matches!(refused(&partition).problem, Problem::NotYet));
}

// Hazard of streams: P-26 paths with `..` or from the root leave the folder that a stream is
//   extracted into
#[test]
fn paths_that_leave_the_folder() {
    for path in ["../a", "/a", "a/../../b", ".", "a\\b", "", "a//b"] {
        for chunk in [
            file(path, b"x"),
            remove(path),
            rename(path, "b"),
            rename("b", path),
        ] {
            let error = refused(&[file("b", b"x"), chunk].concat());
            assert!(matches!(error.problem, Problem::Path(_)), "{path}: {error}");
        }
    }
    let long = "a".repeat(512);
    for chunk in [file(&long, b"x"), rename("b", &long)] {
        assert!(matches!(refused(&chunk).problem, Problem::Path(_)));
    }
}

#[test]
fn a_file_in_place_of_a_folder() {
    for (first, second) in [
        ("d", "d/e/f"),
        ("d/e", "d/e/f"),
        ("d/e/f", "d"),
        ("d/e/f", "d/e"),
    ] {
        for wrong in [
            file(second, b"x"),
            [file("a", b"x"), rename("a", second)].concat(),
        ] {
            let error = refused(&[file(first, b"x"), wrong].concat());
            assert!(matches!(error.problem, Problem::FileAndFolder), "{error}");
        }
    }
    let names = ["d", "d.e", "d#", "d0/e"];
    let stream: Vec<u8> = names.iter().flat_map(|name| file(name, b"x")).collect();
    assert!(operations(&stream, Dialect::MariaDb).is_ok());
}

#[test]
fn what_is_unknown() {
    let stream = [file("a", b"aa"), piece_of(0, b'X', "u", 0, b"hh")].concat();
    assert_refused!(
        stream,
        len(&file("a", b"aa")),
        Some("u"),
        Problem::UnknownType { kind: b'X' }
    );
    assert_refused!(
        piece_of(4, b'P', "a", 0, b"a"),
        0,
        Some("a"),
        Problem::UnknownFlags { flags: 4 }
    );
    // What may be ignored has bounds and a checksum all the same.
    let mut damaged = piece_of(1, b'X', "u", 0, b"hh");
    *damaged.last_mut().unwrap() ^= 1;
    assert!(matches!(
        refused(&damaged).problem,
        Problem::Checksum { .. }
    ));
    // Percona's tools neither rename nor remove.
    for chunk in [rename("a", "b"), remove("a")] {
        let stream = [file("a", b"aa"), chunk].concat();
        let error = refused_of(&stream, Dialect::Percona);
        assert!(
            matches!(error.problem, Problem::UnknownType { .. }),
            "{error}"
        );
    }
}

// Hazard of streams: unknown chunks that may be ignored become files
#[test]
fn what_may_be_ignored_is_reported() {
    let stream = [piece_of(1, b'X', "u", 0, b"hh"), file("a", b"aa")].concat();
    let seen = operations(&stream, Dialect::MariaDb).unwrap();
    let expected = r#"Ignored { path: "u", why: UnknownType { kind: 88, length: 2 } }"#;
    assert_eq!(seen[0], expected);
    assert_eq!(seen.len(), 4);
}

#[test]
fn pieces_that_do_not_follow() {
    let first = piece("a", 0, b"aa");
    for offset in [0, 1, 3, u64::MAX] {
        let stream = [&first[..], &piece("a", offset, b"bb"), &end("a")].concat();
        assert!(
            matches!(
                refused(&stream).problem,
                Problem::Offset { expected: 2, .. } | Problem::TooFar { .. }
            ),
            "{offset}"
        );
    }
    assert_refused!(
        piece("a", 7, b"aa"),
        0,
        Some("a"),
        Problem::Offset {
            expected: 0,
            found: 7
        }
    );
    let far = [first.clone(), seek("a", 1 << 63)].concat();
    assert!(matches!(refused(&far).problem, Problem::TooFar { .. }));
    let after = [file("a", b"aa"), seek("a", 0)].concat();
    assert!(matches!(refused(&after).problem, Problem::Twice));
    let mixed = [first, rewrite("a", 2, b"bb"), end("a")].concat();
    assert!(matches!(refused(&mixed).problem, Problem::Mixed));
}

#[test]
fn lengths_without_bounds() {
    let mut chunk = head(0, b'P', "a");
    chunk.extend((CHUNK_LIMIT + 1).to_le_bytes());
    chunk.extend([0; 12]);
    assert_refused!(chunk, 0, Some("a"), Problem::TooLong { .. });
    for (pairs, length) in [(u32::MAX, 0), (1, u64::MAX), (1, CHUNK_LIMIT)] {
        let mut chunk = head(0, b'S', "a");
        chunk.extend(pairs.to_le_bytes());
        chunk.extend(length.to_le_bytes());
        chunk.extend([0; 12]);
        let error = refused_of(&chunk, Dialect::Percona);
        assert!(matches!(error.problem, Problem::TooLong { .. }), "{error}");
    }
}

#[test]
fn maps_of_holes_that_do_not_fit() {
    for map in [
        &[(0, 1)][..],
        &[(0, 3)],
        &[(1, 1), (1, 2)],
        &[(0, u32::MAX)],
        &[],
    ] {
        let stream = [sparse("a", 0, map, b"xy"), end("a")].concat();
        let error = refused_of(&stream, Dialect::Percona);
        assert!(
            matches!(error.problem, Problem::Map { length: 2, .. }),
            "{error}"
        );
    }
    let holes = sparse("a", 0, &[(10, 2), (5, 0)], b"xy");
    let stream = [holes, piece("a", 17, b"z"), end("a")].concat();
    assert_eq!(operations(&stream, Dialect::Percona).unwrap().len(), 4);
    // The other dialect reads the same bytes as another chunk, and finds none behind it.
    assert!(matches!(refused(&stream).problem, Problem::Magic));
}

#[test]
fn a_stream_of_something_else() {
    assert_refused!(*b"XBSTCK02 and more bytes", 0, None, Problem::Magic);
    assert_refused!(*b"XBS", 0, None, Problem::Cut);
    let error = refused(&[file("a", b"a"), b"no chunk begins here".to_vec()].concat());
    assert_eq!(
        error.to_string(),
        "xbstream, byte 51: no chunk begins here: magic bytes are missing"
    );
    let error = refused(&piece("a\n\u{e9}", 1, b"x"));
    assert_eq!(
        error.to_string(),
        "xbstream, byte 0, file a\\n\\xc3\\xa9: a piece is for offset 1, and 0 is next"
    );
}

#[test]
fn after_an_error_there_is_nothing() {
    let stream = [piece("a", 1, b"x"), file("b", b"b")].concat();
    let mut reader = refloat_xbstream::Reader::new(&stream[..], Dialect::MariaDb);
    let error = reader.read().unwrap_err();
    assert!(matches!(error.problem, Problem::Offset { .. }), "{error}");
    assert!(matches!(
        reader.read().unwrap_err().problem,
        Problem::Failed
    ));
}

// Not refused: a database is dropped, and another file may have its name.
#[test]
fn folders_go_with_all_in_them() {
    let names = ["d/a", "d/e/f", "d/e/g/h", "d-e/a", "d.x"];
    let mut stream: Vec<u8> = names.iter().flat_map(|name| file(name, b"x")).collect();
    stream.extend([remove("d/a"), remove("d"), remove("d"), file("d", b"x")].concat());
    let seen = operations(&stream, Dialect::MariaDb).unwrap();
    let tail: Vec<_> = seen
        .iter()
        .skip(3 * names.len())
        .map(String::as_str)
        .collect();
    assert_eq!(
        tail[..8],
        [
            r#"Remove { path: "d/a" }"#,
            r#"Remove { path: "d/e/g/h" }"#,
            r#"Remove { path: "d/e/f" }"#,
            r#"RemoveFolder { path: "d/e/g" }"#,
            r#"RemoveFolder { path: "d/e" }"#,
            r#"RemoveFolder { path: "d" }"#,
            r#"Ignored { path: "d", why: NothingToRemove }"#,
            r#"Open { path: "d" }"#,
        ]
    );
}
