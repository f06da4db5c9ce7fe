//! What the writer writes the reader reads; and damage is seen.

use proptest::prelude::*;
use refloat_xbstream::{Dialect, Operation, Problem, Reader, Run, Writer};

use crate::common;

/// Files of a stream: what is written to them, mixed.
#[derive(Debug, Clone)]
struct Plan {
    dialect: Dialect,
    /// File, length and first byte of what is written.
    writes: Vec<(usize, usize, u8)>,
    files: usize,
}

fn plans() -> impl Strategy<Value = Plan> {
    let dialect = prop_oneof![Just(Dialect::MariaDb), Just(Dialect::Percona)];
    (dialect, 1..6_usize).prop_flat_map(|(dialect, files)| {
        prop::collection::vec((0..files, 0..300_usize, any::<u8>()), 0..20).prop_map(
            move |writes| Plan {
                dialect,
                writes,
                files,
            },
        )
    })
}

fn name(file: usize) -> String {
    format!("db/t{file}.ibd")
}

fn content(length: usize, first: u8) -> Vec<u8> {
    (0..length).map(|at| first.wrapping_add(at as u8)).collect()
}

/// The stream, and what its files hold. A byte of each file at least, so that each chunk counts.
fn written(plan: &Plan) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut writer = Writer::new(Vec::new(), plan.dialect);
    let mut files = vec![vec![b'x']; plan.files];
    for file in 0..plan.files {
        writer.create(name(file)).unwrap();
        writer.write(name(file), b"x").unwrap();
    }
    for (file, length, first) in &plan.writes {
        let bytes = content(*length, *first);
        if plan.dialect == Dialect::Percona && first % 3 == 0 {
            let skip = u32::from(*first);
            let map = [
                Run {
                    skip,
                    length: bytes.len() as u32,
                },
                Run { skip: 9, length: 0 },
            ];
            writer.sparse(name(*file), &map, &bytes).unwrap();
            let holes = files[*file].len() + skip as usize;
            files[*file].resize(holes, 0);
            files[*file].extend(&bytes);
            let end = files[*file].len() + 9;
            files[*file].resize(end, 0);
        } else if plan.dialect == Dialect::MariaDb && first % 3 == 0 {
            // A piece follows each, as in the tools' streams: a seek has no checksum of its own.
            for (at, byte) in [(files[*file].len() / 2, b'S'), (files[*file].len(), b'T')] {
                writer.seek(name(*file), at as u64).unwrap();
                writer.write(name(*file), &[byte]).unwrap();
                if at == files[*file].len() {
                    files[*file].push(byte);
                } else {
                    files[*file][at] = byte;
                }
            }
        } else {
            writer.write(name(*file), &bytes).unwrap();
            files[*file].extend(&bytes);
        }
    }
    for file in (0..plan.files).rev() {
        writer.end(name(file)).unwrap();
    }
    (writer.finish().unwrap(), files)
}

/// A source that brings less than is asked for, is interrupted by signals, and fails at a byte.
struct Halting<'a> {
    stream: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    /// Bytes until it fails.
    left: usize,
}

impl std::io::Read for Halting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = *self.sizes.next().unwrap();
        if size == 0 {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        if self.left == 0 {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        let size = size.min(self.left);
        self.left -= size;
        let length = buffer.len().min(size);
        self.stream.read(&mut buffer[..length])
    }
}

/// What the files of a stream hold.
fn read(
    stream: impl std::io::Read,
    dialect: Dialect,
) -> Result<Vec<Vec<u8>>, refloat_xbstream::Error> {
    let folder = tempfile::tempdir().unwrap();
    common::extract(stream, dialect, folder.path(), |_| ())?;
    let mut found = common::files(folder.path());
    let files = (0..found.len()).map(|file| found.remove(name(file).as_ref() as &std::path::Path));
    Ok(files.map(Option::unwrap_or_default).collect())
}

/// Where chunks begin, and the end.
fn borders(stream: &[u8]) -> Vec<usize> {
    let magic = b"XBSTCK01";
    let starts = stream
        .windows(8)
        .enumerate()
        .filter(|(_, bytes)| bytes == magic);
    starts.map(|(at, _)| at).chain([stream.len()]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(plan in plans()) {
        let (stream, files) = written(&plan);
        prop_assert_eq!(read(&stream[..], plan.dialect).unwrap(), files);
    }

    // Hazard of files: P-17 short reads, reads that a signal interrupts, and a read that fails
    #[test]
    fn short_reads_bring_all_and_a_failed_one_is_seen(
        plan in plans(),
        mut sizes in prop::collection::vec(0..9_usize, 1..9),
        at in any::<prop::sample::Index>(),
    ) {
        let (stream, files) = written(&plan);
        sizes.push(1);
        let halting = |left| Halting { stream: &stream, sizes: sizes.iter().cycle(), left };
        prop_assert_eq!(read(halting(usize::MAX), plan.dialect).unwrap(), files);
        let failed = read(halting(at.index(stream.len())), plan.dialect).unwrap_err();
        prop_assert!(matches!(failed.problem, Problem::Io(_)), "{}", failed);
    }

    /// Of a file that was not begun nobody knows.
    #[test]
    fn a_cut_is_seen(plan in plans(), at in any::<prop::sample::Index>()) {
        let (stream, files) = written(&plan);
        let borders = borders(&stream);
        for at in borders.iter().copied().chain([at.index(stream.len())]) {
            let border = borders.contains(&at);
            match common::operations(&stream[..at], plan.dialect) {
                Ok(seen) => {
                    prop_assert!(border && seen.last().unwrap().starts_with("End"));
                    let begun = seen.iter().filter(|event| event.starts_with("Open")).count();
                    prop_assert_eq!(begun == files.len(), at == stream.len());
                }
                Err(error) => prop_assert!(
                    match error.problem {
                        Problem::Empty => at == 0,
                        Problem::NotEnded { .. } => border,
                        Problem::Cut => !border,
                        _ => false,
                    },
                    "{} of {}: {}", at, stream.len(), error
                ),
            }
        }
    }

    /// Flags have no checksum, and neither have ends: what they can change without being seen is
    /// nothing that a file holds.
    #[test]
    fn a_changed_byte_is_seen(
        plan in plans(),
        at in any::<prop::sample::Index>(),
        change in 1..=255_u8,
    ) {
        let (mut stream, files) = written(&plan);
        let at = at.index(stream.len());
        stream[at] ^= change;
        if let Ok(found) = read(&stream[..], plan.dialect) {
            let begin = borders(&stream).into_iter().rfind(|border| *border <= at).unwrap();
            prop_assert_eq!(found, files);
            prop_assert_eq!(at - begin, 8, "it is a flag");
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = common::operations(&bytes, Dialect::MariaDb);
        let _ = common::operations(&[b"XBSTCK01".to_vec(), bytes].concat(), Dialect::Percona);
    }
}

#[test]
fn writes_are_gathered_as_the_tools_gather_them() {
    const MIB: usize = 1 << 20;
    // Sizes of writes, and of the pieces that become of them.
    for (writes, pieces) in [
        (&[1][..], &[1][..]),
        (&[4 * MIB, 5 * MIB], &[9 * MIB]),
        (&[6 * MIB, 5 * MIB, 1], &[6 * MIB, 5 * MIB, 1]),
        (&[5 * MIB, 5 * MIB], &[5 * MIB, 5 * MIB]),
        (&[10 * MIB, 3], &[10 * MIB, 3]),
        (&[25 * MIB], &[10 * MIB, 10 * MIB, 5 * MIB]),
        (&[], &[]),
    ] {
        let mut writer = Writer::new(Vec::new(), Dialect::Percona);
        writer.create("a").unwrap();
        for length in writes {
            writer.write("a", &vec![7; *length]).unwrap();
        }
        writer.end("a").unwrap();
        let stream = writer.finish().unwrap();
        let mut reader = Reader::new(&stream[..], Dialect::Percona);
        let mut found = Vec::new();
        while let Some(operation) = reader.read().unwrap() {
            if let Operation::Data { bytes, .. } = operation {
                found.push(bytes.len());
            }
        }
        assert_eq!(found, pieces);
    }
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut writer = Writer::new(Vec::new(), Dialect::MariaDb);
    let problem = |done: Result<(), refloat_xbstream::Error>| done.unwrap_err().problem;
    assert!(matches!(
        problem(writer.write("a", b"x")),
        Problem::NotBegun
    ));
    assert!(matches!(problem(writer.create("../a")), Problem::Path(_)));
    assert!(matches!(
        problem(writer.sparse("a", &[], b"")),
        Problem::Dialect(_)
    ));
    writer.create("a").unwrap();
    assert!(matches!(problem(writer.create("a")), Problem::Twice));
    assert!(matches!(problem(writer.rename("a", "b")), Problem::NotYet));
    assert!(matches!(problem(writer.remove("a")), Problem::NotYet));
    writer.end("a").unwrap();
    assert!(matches!(problem(writer.create("a")), Problem::Twice));
    assert!(matches!(
        problem(writer.rename("a", "/b")),
        Problem::Path(_)
    ));
    writer.rename("a", "b").unwrap();
    writer.create("a").unwrap();
    let error = writer.finish().unwrap_err();
    assert!(
        matches!(error.problem, Problem::NotEnded { count: 1 }),
        "{error}"
    );
    let mut writer = Writer::new(Vec::new(), Dialect::Percona);
    for done in [
        writer.rewrite("a"),
        writer.seek("a", 0),
        writer.rename("a", "b"),
        writer.remove("a"),
    ] {
        assert!(matches!(problem(done), Problem::Dialect(Dialect::Percona)));
    }
    let error = writer.finish().unwrap_err();
    assert!(matches!(error.problem, Problem::Empty), "{error}");
}
