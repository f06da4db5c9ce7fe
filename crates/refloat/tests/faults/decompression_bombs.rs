//! Sources of a few kilobytes that expand to gigabytes: endless rows and statements, endless
//! metadata, frames that ask for a giant window. Each is refused with its file and the limit, in
//! bounded memory.

// Hazard of faults: S-13 some kilobytes that stand for gigabytes: a row, statement, program or
//   delimited row that does not end (1 GiB is the most), metadata without end (256 MiB), frames
//   with a window of 2 GiB (128 MiB), in loads, plans, `inspect` and `verify`; the memory that
//   each takes

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use refloat_sandbox::{Instance, ServerKind};

use crate::folders::folder;
use crate::large_dumps::peak_kib;
use crate::support::{Desk, Run, Running, dump, edit_manifest, finish, shared, slow};

/// Bytes of one part of a bomb. A compressed file may consist of several streams, so a bomb is one
/// small stream many times over.
const PART: usize = 64 << 20;
/// Number of parts that exceeds the largest row or statement, 1 GiB.
const PARTS_ROW: usize = 17;
/// Number of parts that exceeds the limit for metadata, 256 MiB.
const PARTS_METADATA: usize = 5;
/// Number of parts below that limit, so that the text is parsed. The least that a value takes in
/// memory is 24 bytes, so one part would take 500 MB.
const PARTS_VALUES: usize = 1;
/// Memory limit for a row or statement that is too long, in KiB: one copy, plus what was read
/// ahead. 1050 MiB were measured.
const ROW_PEAK_KIB: u64 = 1280 << 10;
/// Memory limit for metadata that is too long, in KiB. 290 MiB were measured.
const METADATA_PEAK_KIB: u64 = 400 << 10;
/// The limit as the message for a row or statement gives it.
const ROW_LIMIT: &str = "1073741824 bytes";
/// The message for metadata.
const METADATA_LIMIT: &str = "it has more than 268435456 bytes, and describes a dump";
/// A frame whose header asks for a window of 2 GiB, with one block of two bytes in it (RFC 8878,
/// 3.1.1).
const GIANT_WINDOW: [u8; 11] = [
    0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x11, 0x00, 0x00, b'-', b'-',
];
/// How long a refusal may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compresses bytes with a program.
fn packed(program: &str, bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the compressor runs");
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut out = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(bytes).expect("the compressor reads"));
        stdout.read_to_end(&mut out).expect("the compressor writes");
    });
    assert!(child.wait().expect("the compressor ends").success());
    out
}

/// `head`, then `parts` parts filled with `filler`, compressed.
fn bomb(program: &str, head: &str, filler: u8, parts: usize) -> Vec<u8> {
    bomb_of(program, head, &[filler], parts)
}

/// `head`, then `parts` parts of repeated `filler`, compressed.
fn bomb_of(program: &str, head: &str, filler: &[u8], parts: usize) -> Vec<u8> {
    let mut out = packed(program, head.as_bytes());
    let part = packed(program, &filler.repeat(PART / filler.len()));
    for _ in 0..parts {
        out.extend_from_slice(&part);
    }
    assert!(out.len() < 2 << 20, "{} bytes are no bomb", out.len());
    out
}

/// Runs the program to its end; also returns its peak memory in KiB.
#[track_caller]
fn measured(command: Command) -> (Run, u64) {
    let mut running = Running::start(command);
    let mut peak = 0;
    let started = std::time::Instant::now();
    while !running.has_ended() && started.elapsed() < PATIENCE {
        peak = peak_kib(running.pid()).unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(5));
    }
    (running.ends_within(Duration::from_secs(1)), peak)
}

/// Asserts that a run ends by itself, with these words, within this memory.
#[track_caller]
fn refused(command: Command, code: i32, words: &[&str], most: u64) {
    let (run, peak) = measured(command);
    let run = run.exits(code);
    words.iter().fold(run, |run, words| run.says(words));
    assert!(peak <= most, "{} MiB for {words:?}", peak >> 10);
}

#[track_caller]
fn load_fails(desk: &Desk, source: &Path, more: &[&str], words: &[&str], most: u64) {
    let server: &Instance = shared(ServerKind::MariaDb1011);
    refused(
        desk.load_command(source, &server.url(), more),
        1,
        words,
        most,
    );
}

#[test]
fn a_row_without_end_is_given_up() {
    let desk = Desk::new();
    let head = dump("CREATE TABLE t (id int, s longtext);\n");
    let head = format!("{head}INSERT INTO t VALUES (1,'a'),(2,'");
    let file = desk.file("rows.sql.gz", bomb("gzip", &head, b'x', PARTS_ROW));
    let row = head.rfind("INSERT").unwrap();
    let place = format!(
        "rows.sql.gz: a statement or row of more than {ROW_LIMIT} begins at byte {row}, line {}",
        head.lines().count()
    );
    // Without this flag it would be refused for its missing last line before it is read.
    load_fails(
        &desk,
        &file,
        &["--accept-missing-trailer"],
        &[&place],
        ROW_PEAK_KIB,
    );
    // A plan reads the file with the same scanner.
    if slow() {
        let more = ["--plan", "--accept-missing-trailer"];
        load_fails(&desk, &file, &more, &[&place], ROW_PEAK_KIB);
    }
}

#[test]
fn a_statement_without_end_is_given_up() {
    let desk = Desk::new();
    let head = dump("CREATE TABLE t (id int);\n-- ");
    let (head, _) = head.split_once("-- \n").expect("the comment is there");
    let text = format!("{head}CREATE PROCEDURE p() SELECT '");
    let file = desk.file("program.sql.zst", bomb("zstd", &text, b'x', PARTS_ROW));
    let place = format!(
        "program.sql.zst: a statement or row of more than {ROW_LIMIT} begins at byte {}",
        head.len()
    );
    // Without this flag it would be refused for its missing last line before it is read.
    load_fails(
        &desk,
        &file,
        &["--accept-missing-trailer"],
        &[&place],
        ROW_PEAK_KIB,
    );
    refused(
        desk.refloat(["inspect".as_ref(), file.as_os_str()]),
        3,
        &["program.sql.zst", ROW_LIMIT],
        ROW_PEAK_KIB,
    );
}

#[test]
fn a_delimited_row_without_end_is_given_up() {
    let desk = Desk::new();
    desk.ask(shared(ServerKind::MariaDb1011), "CREATE DATABASE @db");
    desk.ask(
        shared(ServerKind::MariaDb1011),
        "CREATE TABLE @db.t (id int, s longtext)",
    );
    let file = desk.file("t.tsv.gz", bomb("gzip", "1\ta\n2\t", b'x', PARTS_ROW));
    let place = format!("t.tsv.gz: line 2, byte 4: no row ends within {ROW_LIMIT} from here on");
    load_fails(&desk, &file, &["--table", "t"], &[&place], ROW_PEAK_KIB);
    if slow() {
        let more = ["--table", "t", "--plan"];
        load_fails(&desk, &file, &more, &[&place], ROW_PEAK_KIB);
    }
    assert_eq!(desk.rows(shared(ServerKind::MariaDb1011), "t"), Some(0));
}

#[test]
fn a_program_of_mydumper_without_end_is_given_up() {
    let desk = Desk::new();
    let source = folder(&desk, 10);
    let head = "SELECT 1;\nCREATE PROCEDURE p() SELECT '";
    let name = format!("{}-schema-post.sql.gz", desk.db);
    std::fs::write(source.join(&name), bomb("gzip", head, b'x', PARTS_ROW)).unwrap();
    let place =
        format!("{name}: a statement or row of more than {ROW_LIMIT} begins at byte 10, line 2");
    load_fails(&desk, &source, &[], &[&place], ROW_PEAK_KIB);
}

#[test]
fn metadata_without_end_is_given_up() {
    let desk = Desk::new();
    let bomb = bomb("gzip", "{", b' ', PARTS_METADATA);
    for name in ["manifest.json", "metadata", "@.json", "@.done.json"] {
        let source = folder(&desk, 10);
        if name.starts_with('@') {
            std::fs::remove_file(source.join("metadata")).unwrap();
            std::fs::write(source.join("@.json"), "{}").unwrap();
        }
        std::fs::write(source.join(name), &bomb).unwrap();
        let message = format!("{name}: {METADATA_LIMIT}");
        let load = desk.load_command(&source, &shared(ServerKind::MariaDb1011).url(), &[]);
        refused(load, 3, &[&message], METADATA_PEAK_KIB);
        let inspect = desk.refloat(["inspect".as_ref(), source.as_os_str()]);
        refused(inspect, 3, &[&message], METADATA_PEAK_KIB);
    }
}

#[test]
fn metadata_of_tiny_values_takes_little_memory() {
    let desk = Desk::new();
    let url = shared(ServerKind::MariaDb1011).url();
    let names = [
        ("manifest.json", "notes"),
        ("@.json", "schemas"),
        ("@.done.json", "chunkFileBytes"),
    ];
    for (name, list) in names {
        // An unknown key, and a known list of names.
        for (key, filler) in [("x", "0,"), ("x", "[],"), (list, "\"\",")] {
            let source = folder(&desk, 10);
            if name.starts_with('@') {
                std::fs::remove_file(source.join("metadata")).unwrap();
                std::fs::write(source.join("@.json"), "{}").unwrap();
            }
            let head = format!("{{\"format\":1,\"{key}\":[");
            let bytes = bomb_of("gzip", &head, filler.as_bytes(), PARTS_VALUES);
            std::fs::write(source.join(name), &bytes).unwrap();
            let source = source.as_os_str();
            let words = [name, " values in "];
            let inspect = desk.refloat(["inspect".as_ref(), source]);
            refused(inspect, 3, &words, METADATA_PEAK_KIB);
            let verify = desk.refloat(["verify".as_ref(), source, url.as_ref()]);
            refused(verify, 1, &words, METADATA_PEAK_KIB);
        }
    }
}

#[test]
fn metadata_of_any_size_is_not_read_whole_by_verify() {
    let desk = Desk::new();
    let source = folder(&desk, 10);
    let file = std::fs::File::create(source.join("manifest.json")).unwrap();
    // A sparse file takes no space on disk.
    file.set_len(4 << 30).unwrap();
    let url = shared(ServerKind::MariaDb1011).url();
    let verify = desk.refloat(["verify".as_ref(), source.as_os_str(), url.as_ref()]);
    refused(
        verify,
        1,
        &["manifest.json", METADATA_LIMIT],
        METADATA_PEAK_KIB,
    );
}

#[test]
fn a_frame_that_asks_for_a_giant_window_gets_none() {
    let desk = Desk::new();
    let message =
        "the zstd stream needs more memory to decompress than the 134217728 bytes that are allowed";
    let file = desk.file("dump.sql.zst", GIANT_WINDOW);
    load_fails(
        &desk,
        &file,
        &[],
        &["dump.sql.zst: ", message],
        METADATA_PEAK_KIB,
    );
    let db = desk.db.clone();
    for name in [
        format!("{db}.one.00001.sql.zst"),
        format!("{db}-schema-create.sql.zst"),
        "metadata".to_owned(),
    ] {
        let source = folder(&desk, 10);
        std::fs::write(source.join(&name), GIANT_WINDOW).unwrap();
        load_fails(
            &desk,
            &source,
            &["--replace"],
            &[&name, message],
            METADATA_PEAK_KIB,
        );
    }
}

#[test]
fn a_chunk_that_is_compared_is_no_bomb() {
    let desk = Desk::new();
    let server = shared(ServerKind::MariaDb1011);
    desk.ask(server, "CREATE DATABASE @db");
    desk.ask(
        server,
        "CREATE TABLE @db.t (id int PRIMARY KEY, s longtext)",
    );
    desk.ask(server, "INSERT INTO @db.t VALUES (1, 'a')");
    let out = desk.path("out");
    let out = out.to_str().unwrap();
    let url = server.url();
    finish(desk.refloat([
        "dump",
        "--from",
        &url,
        "--out",
        out,
        "--databases",
        &desk.db,
    ]))
    .exits(0);
    let folder = Path::new(out).join(&desk.db);
    let chunk = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(".tsv.zst"))
        .expect("there is a chunk");
    let before = std::fs::metadata(&chunk).unwrap().len();
    let manifest = Path::new(out).join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    for (bytes, message) in [
        (
            bomb("zstd", "1\t", b'x', PARTS_ROW),
            "row 1 has more than 1073741824 bytes",
        ),
        (GIANT_WINDOW.to_vec(), "too much memory"),
    ] {
        std::fs::write(&chunk, &bytes).unwrap();
        let from = format!("\"bytes\": {before}");
        assert_eq!(text.matches(&from).count(), 1, "{from} in {text}");
        std::fs::write(&manifest, &text).unwrap();
        let to = format!("\"bytes\": {}", bytes.len());
        edit_manifest(Path::new(out), |text| text.replace(&from, &to));
        let name = chunk.file_name().unwrap().to_str().unwrap();
        refused(
            desk.refloat(["verify", out, &url]),
            1,
            &[name, message],
            ROW_PEAK_KIB,
        );
    }
}
