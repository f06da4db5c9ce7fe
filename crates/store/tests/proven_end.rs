//! The end of a source is proven: truncation, bit flips and trailing garbage are detected in every
//! format.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use refloat_store::{Compression, Input, InputError, LooksLike, OpenOptions, tail};

const FORMATS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Zstd,
    Compression::Xz,
    Compression::Bzip2,
];

/// About `bytes` bytes of dump-like text that does not compress away.
fn dump(bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 100);
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    while out.len() < bytes {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        writeln!(
            out,
            "INSERT INTO `t` VALUES ({x},'{:x}',NULL);",
            x.rotate_left(17)
        )
        .unwrap();
    }
    out
}

/// Compresses with the encoders of the crates.
fn encode(how: Compression, data: &[u8]) -> Vec<u8> {
    match how {
        Compression::None => data.to_vec(),
        Compression::Gzip => {
            let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            e.write_all(data).unwrap();
            e.finish().unwrap()
        }
        Compression::Zstd => {
            let mut e = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
            e.include_checksum(true).unwrap();
            e.write_all(data).unwrap();
            e.finish().unwrap()
        }
        Compression::Xz => {
            let mut e = liblzma::write::XzEncoder::new(Vec::new(), 6);
            e.write_all(data).unwrap();
            e.finish().unwrap()
        }
        Compression::Bzip2 => {
            let mut e = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
            e.write_all(data).unwrap();
            e.finish().unwrap()
        }
    }
}

/// Compresses with a real program. If it is missing, the test fails and names the package to
/// install.
fn program(argv: &[&str], data: &[u8]) -> Vec<u8> {
    let mut child = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| {
            panic!(
                "{}: {e} (apt install gzip pigz zstd xz-utils bzip2)",
                argv[0]
            )
        });
    let mut stdin = child.stdin.take().unwrap();
    let data = data.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&data).unwrap());
    let out = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(out.status.success(), "{argv:?}");
    out.stdout
}

fn read_all(path: &Path, want: usize) -> Result<Vec<u8>, InputError> {
    let mut input = Input::open(path)?;
    let mut out = Vec::new();
    while input.read_block(&mut out, want)? > 0 {}
    // The end is final.
    assert_eq!(input.read_block(&mut out, want)?, 0);
    Ok(out)
}

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

#[test]
fn whole_files_read_back() {
    let dir = Dir::new();
    for size in [1, 100, 1 << 20, (3 << 20) + 7] {
        let data = dump(size);
        for how in [Compression::None].iter().chain(&FORMATS) {
            let path = dir.file("f", &encode(*how, &data));
            for want in [1 << 12, 300_001, 16 << 20] {
                assert!(
                    read_all(&path, want).unwrap() == data,
                    "{how} {size} {want}"
                );
            }
            let mut input = Input::open(&path).unwrap();
            assert_eq!(input.compression(), *how);
            assert_eq!(input.content().unwrap(), LooksLike::Sql);
            let mut out = Vec::new();
            while input.read_block(&mut out, 1 << 20).unwrap() > 0 {}
            assert!(out == data, "a look takes nothing away");
            let raw = input.raw_position().load(Ordering::Relaxed);
            assert_eq!(
                Some(raw),
                input.total_bytes(),
                "{how}: all raw bytes are accounted for"
            );
            let mut again = input.reopen().unwrap().unwrap();
            assert_eq!(again.peek(5).unwrap(), &data[..5.min(data.len())]);
        }
    }
}

#[test]
fn several_streams_in_one_file() {
    let dir = Dir::new();
    let (a, b) = (dump(200_000), dump(777));
    for how in FORMATS {
        let mut bytes = encode(how, &a);
        if how == Compression::Zstd {
            bytes.extend_from_slice(&[0x5a, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1, 2, 3, 4, 5]);
        }
        if how == Compression::Xz {
            bytes.extend_from_slice(&[0; 8]);
        }
        bytes.extend(encode(how, &b));
        let path = dir.file("two", &bytes);
        assert!(
            read_all(&path, 1 << 16).unwrap() == [a.as_slice(), &b].concat(),
            "{how}"
        );
        // Cut at every byte of the second stream, its magic included. A cut between the streams is
        // not one.
        let first = encode(how, &a).len();
        for cut in first + 1..bytes.len() {
            let padding = cut - first;
            if how == Compression::Xz && matches!(padding, 4 | 8)
                || how == Compression::Zstd && padding == 13
            {
                continue;
            }
            let path = dir.file("cut", &bytes[..cut]);
            let error = read_all(&path, 1 << 16).expect_err("a cut second stream");
            let known = matches!(
                error,
                InputError::Truncated { .. } | InputError::TrailingGarbage { .. }
            );
            assert!(known, "{how} cut at {cut}: {error}");
        }
    }
}

#[test]
fn every_cut_is_found() {
    let dir = Dir::new();
    let data = dump(6_000);
    for how in FORMATS {
        let bytes = encode(how, &data);
        for cut in 1..bytes.len() {
            let path = dir.file("cut", &bytes[..cut]);
            match read_all(&path, 1 << 16) {
                Err(InputError::Truncated { at, .. }) => assert_eq!(at, cut as u64, "{how}"),
                // Cut inside the magic: a handful of bytes of no recognisable kind.
                Ok(_) if cut < 6 => {
                    assert_eq!(Input::open(&path).unwrap().compression(), Compression::None);
                }
                other => panic!("{how} cut at {cut} of {}: {other:?}", bytes.len()),
            }
        }
        let error = Input::open(&dir.file("cut", b"")).err().unwrap();
        assert!(matches!(error, InputError::Empty { .. }), "{error}");
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let dir = Dir::new();
    let data = dump(3_000);
    for how in FORMATS {
        let bytes = encode(how, &data);
        let mut harmless = 0;
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let path = dir.file(&format!("flip.{}", extension(how)), &bad);
            // Only a flip in a header field that carries no data (gzip's time) may pass, with
            // unchanged data.
            if let Ok(read) = read_all(&path, 1 << 16) {
                assert!(
                    read == data,
                    "{how}: bit {bit} changed the data and nobody noticed"
                );
                harmless += 1;
            }
        }
        assert!(harmless <= 8 * 8, "{how}: {harmless} flips passed");
    }
}

fn extension(how: Compression) -> &'static str {
    match how {
        Compression::Gzip => "gz",
        Compression::Zstd => "zst",
        Compression::Xz => "xz",
        _ => "bz2",
    }
}

#[test]
fn garbage_behind_the_end_is_found() {
    let dir = Dir::new();
    for how in FORMATS {
        for garbage in [
            &b"\n"[..],
            b"x",
            b"some more text behind the end",
            &[0; 512],
            &[0xff; 3],
        ] {
            let mut bytes = encode(how, &dump(5_000));
            // The xz format allows zero words between and after streams as padding.
            if how == Compression::Xz && garbage.len() == 512 {
                continue;
            }
            bytes.extend_from_slice(garbage);
            let error = read_all(&dir.file("g", &bytes), 1 << 16).unwrap_err();
            let known = matches!(
                error,
                InputError::Truncated { .. } | InputError::TrailingGarbage { .. }
            );
            assert!(known, "{how}: {error}");
            if garbage.len() > 6 {
                assert!(
                    matches!(error, InputError::TrailingGarbage { .. }),
                    "{how}: {error}"
                );
            }
        }
    }
}

#[test]
fn real_programs() {
    let dir = Dir::new();
    let data = dump(2 << 20);
    let tools: [(&[&str], Compression); 9] = [
        (&["gzip", "-c"], Compression::Gzip),
        (&["pigz", "-c", "-p", "2"], Compression::Gzip),
        (&["pigz", "-c", "-i", "-p", "2"], Compression::Gzip),
        (&["zstd", "-c", "-q"], Compression::Zstd),
        (&["zstd", "-c", "-q", "--long=27", "-T2"], Compression::Zstd),
        (&["xz", "-c", "-3"], Compression::Xz),
        (
            &["xz", "-c", "-0", "-T2", "--block-size=262144"],
            Compression::Xz,
        ),
        (&["xz", "-c", "-0", "--check=sha256"], Compression::Xz),
        (&["bzip2", "-c"], Compression::Bzip2),
    ];
    for (argv, how) in tools {
        let bytes = program(argv, &data);
        let path = dir.file("f", &bytes);
        let input = Input::open(&path).unwrap();
        assert_eq!(input.compression(), how, "{argv:?}");
        assert!(read_all(&path, 1 << 20).unwrap() == data, "{argv:?}");
        let step = bytes.len() / 40;
        for cut in (step..bytes.len())
            .step_by(step)
            .chain(bytes.len() - 12..bytes.len())
        {
            let error = read_all(&dir.file("cut", &bytes[..cut]), 1 << 20).expect_err("cut");
            assert!(
                matches!(error, InputError::Truncated { .. }),
                "{argv:?} at {cut}: {error}"
            );
        }
        for at in (0..bytes.len()).step_by(step).skip(1) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            let error = read_all(&dir.file("bad", &bad), 1 << 20).expect_err("flip");
            assert!(
                !matches!(error, InputError::Read { .. }),
                "{argv:?} at {at}: {error}"
            );
        }
    }
}

#[test]
fn memory_is_bounded() {
    let dir = Dir::new();
    // A frame that requests a 256 MiB window. zstd keeps the window only if the data is larger.
    let big = program(
        &[
            "sh",
            "-c",
            "head -c 300000000 /dev/zero | zstd -q -c --long=28 --ultra",
        ],
        b"",
    );
    let path = dir.file("long.zst", &big);
    let error = read_all(&path, 1 << 20).unwrap_err();
    assert!(
        matches!(
            error,
            InputError::TooMuchMemory {
                limit: 134_217_728,
                ..
            }
        ),
        "{error}"
    );
    let mut options = OpenOptions::default();
    options.memory_limit = 256 << 20;
    let mut input = Input::open_with(&path, &options).unwrap();
    let (mut block, mut total) = (Vec::new(), 0);
    loop {
        block.clear();
        match input.read_block(&mut block, 1 << 20).unwrap() {
            0 => break,
            n => total += n,
        }
        assert!(block.capacity() <= 2 << 20);
    }
    assert_eq!(total, 300_000_000);

    let xz = encode(Compression::Xz, &dump(100_000));
    options.memory_limit = 1 << 20;
    let mut input = Input::open_with(&dir.file("x.xz", &xz), &options).unwrap();
    let error = input.read_block(&mut block, 1 << 20).unwrap_err();
    assert!(matches!(error, InputError::TooMuchMemory { .. }), "{error}");
}

#[test]
fn what_cannot_be_opened() {
    let dir = Dir::new();
    let at = |name: &str| dir.0.path().join(name);
    let error = |path: &Path| Input::open(path).err().unwrap();
    assert!(matches!(error(&at("nothing")), InputError::NotFound { .. }));
    assert!(matches!(
        error(dir.0.path()),
        InputError::IsDirectory { .. }
    ));
    let junk = dir.file("dump.sql.zst", &[7, 0, 9, 0, 1, 2, 3, 4]);
    assert!(matches!(
        error(&junk),
        InputError::NotWhatItsNameSays {
            expected: Compression::Zstd,
            ..
        }
    ));
    // A misleading name is reported, nothing more.
    let gz = dir.file("dump.sql.xz", &encode(Compression::Gzip, b"SELECT 1;"));
    assert_eq!(
        Input::open(&gz).unwrap().name_mismatch(),
        Some(Compression::Xz)
    );
    let plain = dir.file("dump.sql.gz", b"-- dump\nSELECT 1;");
    assert_eq!(
        Input::open(&plain).unwrap().name_mismatch(),
        Some(Compression::Gzip)
    );
    assert_eq!(
        Input::open(&dir.file("a.sql", b"SELECT 1;"))
            .unwrap()
            .name_mismatch(),
        None
    );
}

#[test]
fn tails() {
    let dir = Dir::new();
    let plain = dir.file("a.sql", b"SELECT 1;\n-- Dump completed\n");
    assert_eq!(tail(&plain, 8).unwrap().unwrap(), b"mpleted\n");
    assert_eq!(tail(&plain, 9999).unwrap().unwrap().len(), 28);
    assert_eq!(
        tail(&dir.file("a.gz", &encode(Compression::Gzip, b"x")), 8).unwrap(),
        None
    );
    assert_eq!(tail(Path::new("-"), 8).unwrap(), None);
    assert!(matches!(
        tail(&dir.0.path().join("b"), 8),
        Err(InputError::NotFound { .. })
    ));
}

#[test]
fn a_file_that_shrinks_is_truncated() {
    let dir = Dir::new();
    let path = dir.file("a.sql", &dump(1 << 20));
    let mut input = Input::open(&path).unwrap();
    let mut out = Vec::new();
    input.read_block(&mut out, 1000).unwrap();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(5000)
        .unwrap();
    let error = loop {
        match input.read_block(&mut out, 1000) {
            Ok(0) => panic!("an end that is none"),
            Ok(_) => {}
            Err(e) => break e,
        }
    };
    assert!(matches!(error, InputError::Truncated { .. }), "{error}");
}

#[test]
fn a_silent_pipe_can_be_cancelled_and_dropped() {
    let dir = Dir::new();
    let fifo = dir.0.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || {
            let mut f = std::fs::File::options().write(true).open(fifo).unwrap();
            f.write_all(b"SELECT 1;\n").unwrap();
            f
        }
    });
    let mut input = Input::open(&fifo).unwrap();
    let held_open = writer.join().unwrap();
    assert!(!input.rewindable());
    assert_eq!(input.total_bytes(), None);
    let flag = Arc::new(AtomicBool::new(false));
    input.cancel_flag(flag.clone());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        flag.store(true, Ordering::Relaxed);
    });
    let started = Instant::now();
    let mut out = Vec::new();
    let error = loop {
        match input.read_block(&mut out, 1 << 20) {
            Ok(0) => panic!("the pipe is still open"),
            Ok(_) => {}
            Err(e) => break e,
        }
    };
    assert!(matches!(error, InputError::Cancelled { .. }), "{error}");
    drop(input);
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(held_open);
}
