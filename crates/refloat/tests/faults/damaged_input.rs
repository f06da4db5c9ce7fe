//! Sources that are truncated, damaged, or not dumps at all.

// Hazard of faults: L-70 cut anywhere, flipped bytes, bytes behind the end, plain and in each
//   compression; something that is not a dump at all

use std::path::Path;

use refloat_sandbox::ServerKind;

use crate::support::{
    BOTH, Desk, Running, ask, assert_same_settings, dump, finish, finish_with_input, place,
    settings, shared, table,
};

/// Rows of the dump that is cut: three statements.
const ROWS: u64 = 1200;

/// Takes the servers in turn: errors in the text do not depend on the server, but what is left
/// behind does.
fn in_turn(index: usize) -> ServerKind {
    ServerKind::ALL[index % ServerKind::ALL.len()]
}

/// Asserts that every table holds only whole statements of the dump.
#[track_caller]
fn no_half_chunk(desk: &Desk, kind: ServerKind, about: &str) {
    let rows = desk.rows(shared(kind), "items").unwrap_or(0);
    assert!(rows <= ROWS, "{about}: {rows} rows");
    let distinct = if rows == 0 {
        0
    } else {
        desk.ask(shared(kind), "SELECT MAX(id) FROM @db.items")
            .parse::<u64>()
            .unwrap()
    };
    assert_eq!(rows, distinct, "{about}: rows are missing in the middle");
}

#[test]
fn a_plain_dump_cut_anywhere_is_never_taken_for_whole() {
    let text = dump(&table("items", ROWS));
    let places = [
        "MariaDB dump",
        "NAMES",
        "\nDROP",
        "IF EXISTS",
        "CREATE TABLE",
        "varchar",
        "KEY `name`",
        "ENGINE=",
        ";\nLOCK",
        "LOCK TABLES",
        "INSERT",
        "VALUES",
        "(1,",
        "it\\'s; number 1 ",
        "'s; number 2",
        "\\\\ some",
        ",\n(250",
        ";\nINSERT",
        "INSERT INTO `items` VALUES\n(501",
        "\n(700,",
        "(1200,'",
        ");\nUNLOCK",
        "UNLOCK",
        "\n/*!40101 SET SQL_MODE=@OLD",
        "@OLD_SQL_MODE */",
        "FOREIGN_KEY_CHECKS=@OLD",
        "-- Dump completed",
        "mp completed on",
    ];
    let mut desk = Desk::new();
    for (index, needle) in places.iter().enumerate() {
        let at = text
            .find(needle)
            .unwrap_or_else(|| panic!("{needle} is in the dump"));
        let kind = in_turn(index);
        // A pipe cannot be scanned in advance, so the load itself must find the end.
        let run = if index % 4 == 0 {
            desk.load_text(&text[..at], shared(kind), &[])
        } else {
            let command = desk.load_command(Path::new("-"), &shared(kind).url(), &[]);
            finish_with_input(command, |stdin| {
                stdin.write_all(&text.as_bytes()[..at]).unwrap_or_default();
            })
        };
        let run = run.exits(1);
        assert!(
            ["truncated", "is empty", "closing line"]
                .iter()
                .any(|word| run.stderr.contains(word))
                && run.stderr.contains("hint: "),
            "cut at {needle}: {}",
            run.stderr
        );
        no_half_chunk(&desk, kind, needle);
        desk.next();
    }
}

#[test]
fn cut_or_flipped_bytes_in_compressed_dumps_are_found() {
    let text = dump(&table("items", ROWS));
    let mut desk = Desk::new();
    let plain = desk.file("whole.sql", &text);
    let formats = [
        ("gzip", "gz"),
        ("zstd", "zst"),
        ("xz", "xz"),
        ("bzip2", "bz2"),
    ];
    for (index, (program, suffix)) in formats.into_iter().enumerate() {
        let kind = in_turn(index);
        let whole = Desk::compressed(program, &plain);
        let file = desk.file(&format!("whole.sql.{suffix}"), &whole);
        desk.load(&file, shared(kind), &[]).exits(0);
        for part in [whole.len() / 3, whole.len() * 2 / 3, whole.len() - 3] {
            desk.next();
            let file = desk.file(&format!("cut.sql.{suffix}"), &whole[..part]);
            desk.load(&file, shared(kind), &[])
                .exits(1)
                .says(&format!("cut.sql.{suffix}"))
                .says("byte")
                .says("hint: ");
            no_half_chunk(&desk, kind, suffix);
        }
        for part in [whole.len() / 2, whole.len() - 6] {
            desk.next();
            let mut flipped = whole.clone();
            flipped[part] ^= 0x10;
            let file = desk.file(&format!("flipped.sql.{suffix}"), &flipped);
            desk.load(&file, shared(kind), &[])
                .exits(1)
                .says(&format!("flipped.sql.{suffix}"));
            no_half_chunk(&desk, kind, suffix);
        }
        desk.next();
        let mut garbage = whole.clone();
        garbage.extend_from_slice(b"and something else");
        let file = desk.file(&format!("garbage.sql.{suffix}"), &garbage);
        desk.load(&file, shared(kind), &[])
            .exits(1)
            .says("garbage.sql")
            .says("compare checksums");
        no_half_chunk(&desk, kind, suffix);
        desk.next();
        // A complete stream around a dump that was cut before it was compressed.
        let cut = desk.file("cut-before.sql", &text[..text.len() / 2]);
        let file = desk.file(
            &format!("cut-before.sql.{suffix}"),
            Desk::compressed(program, &cut),
        );
        desk.load(&file, shared(kind), &[])
            .exits(1)
            .says("may be truncated: its closing line");
        assert_eq!(desk.tables(shared(kind)), 0, "it is seen beforehand");
        desk.next();
    }
}

/// What `--skip-comments` leaves: settings are kept at the beginning, and put back at the end.
#[test]
fn a_dump_without_comments_that_was_cut_is_noticed() {
    let whole = format!(
        "/*!40101 SET NAMES utf8mb4 */;\n/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;\n{}{}/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;\n",
        table("one", 30),
        table("two", 30)
    );
    let cut = whole
        .find("DROP TABLE IF EXISTS `two`")
        .or_else(|| whole.find("CREATE TABLE `two`"));
    let cut = &whole[..cut.expect("the second table")];
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        let named =
            |text: &str, desk: &Desk| format!("CREATE DATABASE {0};\nUSE {0};\n{text}", desk.db);
        desk.load_text(named(cut, &desk), server, &[])
            .exits(1)
            .says("does not restore the settings");
        assert_eq!(desk.tables(server), 0, "it is seen beforehand");
        let piped = desk.file("piped.sql", cut);
        ask(server, &format!("CREATE DATABASE {}", desk.db));
        desk.load_stream(&piped, server, &desk.db)
            .exits(1)
            .says("does not restore the settings");
        desk.next();
        let more = ["--accept-missing-trailer"];
        desk.load_text(named(cut, &desk), server, &more).exits(0);
        desk.next();
        desk.load_text(named(&whole, &desk), server, &[]).exits(0);
    }
}

#[test]
fn what_is_no_dump_is_refused_before_the_server_is_touched() {
    let desk = Desk::new();
    let before = ServerKind::ALL.map(|kind| settings(shared(kind)));
    let mut tar = vec![0; 1024];
    tar[..5].copy_from_slice(b"a.sql");
    tar[257..262].copy_from_slice(b"ustar");
    let utf16: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(dump("").encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    let utf16_no_mark = utf16[2..].to_vec();
    let junk: Vec<u8> = (0..4096u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let postgres = b"--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nCOPY public.x (id) FROM stdin;\n1\n\\.\n".to_vec();
    let cases: [(&str, Vec<u8>, &str); 10] = [
        (
            "a.png",
            b"\x89PNG\r\n\x1a\n0000000000000000".to_vec(),
            "a picture",
        ),
        (
            "a.elf",
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
            "a program",
        ),
        ("a.tar", tar, "the archive is damaged"),
        (
            "a.sqlite",
            b"SQLite format 3\0\x10\0\x01\x01".to_vec(),
            "an SQLite database",
        ),
        ("junk", junk, "binary data"),
        ("pg.sql", postgres, "a PostgreSQL dump"),
        (
            "pg.dump",
            b"PGDMP\x01\x0e\0\x04\x08".to_vec(),
            "a PostgreSQL custom-format dump",
        ),
        ("u16.sql", utf16, "text in UTF-16"),
        ("u16-no-mark.sql", utf16_no_mark, "text in UTF-16"),
        (
            "page.sql",
            b"<!DOCTYPE html><html><h1>404</h1>".to_vec(),
            "a web page",
        ),
    ];
    for (index, (name, content, what)) in cases.into_iter().enumerate() {
        let server = shared(in_turn(index));
        let file = desk.file(name, &content);
        desk.load(&file, server, &[])
            .exits(3)
            .says("nothing was touched")
            .says(name)
            .says(what)
            .says(if name.starts_with("u16") {
                "iconv -f UTF-16"
            } else {
                "hint: "
            });
        let gz = desk.file(&format!("{name}.gz"), Desk::compressed("gzip", &file));
        desk.load(&gz, server, &[]).exits(3).says(what);
    }
    let server = shared(ServerKind::MariaDb1011);
    desk.load(&desk.file("empty.sql", ""), server, &[])
        .exits(1)
        .says("empty.sql: is empty");
    desk.load(&desk.path("missing.sql"), server, &[])
        .exits(1)
        .says("missing.sql: no such file");
    let folder = desk.path("folder");
    std::fs::create_dir(&folder).unwrap();
    desk.load(&folder, server, &[])
        .exits(3)
        .says("folder: not a known kind of dump");
    for (kind, before) in ServerKind::ALL.into_iter().zip(&before) {
        assert_same_settings(before, shared(kind));
        let there = desk.ask(
            shared(kind),
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '@db'",
        );
        assert_eq!(there, "0", "{kind}: the database was made for nothing");
    }
}

/// Edits by a person or an editor are distinguished from truncation.
#[test]
fn what_editors_and_tools_leave_in_a_dump_is_named() {
    let accept = &["--accept-missing-trailer"][..];
    let items = table("items", 3);
    let whole = dump(&items);
    let tail = "CREATE TABLE late (a int);\nINSERT INTO late VALUES (1),(2)";
    for kind in BOTH {
        let server = shared(kind);
        let mut desk = Desk::new();
        // Old Windows tools end a file with Ctrl-Z; the stock clients take it for white space.
        for end in ["\x1a", "\x1a\n", "\n\x0c\x1a"] {
            desk.load_text(format!("{whole}{end}"), server, &[])
                .exits(0);
            desk.next();
        }
        // A last statement without a delimiter.
        let text = format!("{items}{tail}");
        let plain = desk.file("tail.sql", &text);
        let packed = desk.file("tail.sql.gz", Desk::compressed("gzip", &plain));
        for source in [&plain, &packed] {
            let foreseen = desk.load(source, server, &["--plan"]);
            for run in [foreseen, desk.load(source, server, &[])] {
                run.exits(1)
                    .says(&place(&text, "INSERT INTO late"))
                    .says("no delimiter follows it")
                    .says("--accept-missing-trailer runs that statement");
            }
            assert_eq!(desk.tables(server), 0, "it is seen beforehand");
            desk.load(source, server, accept).exits(0);
            assert_eq!(desk.rows(server, "late"), Some(2));
            desk.next();
        }
        desk.load_text(format!("{items}CREATE TABLE late (a int)"), server, accept)
            .exits(0);
        assert_eq!(desk.rows(server, "late"), Some(0));
        desk.next();
        // A statement cut within a value is not run at all: no client could.
        for cut in [
            "INSERT INTO items VALUES (9,'cut",
            "INSERT INTO items VALUES (9",
        ] {
            desk.load_text(format!("{items}{cut}"), server, accept)
                .exits(1)
                .says("truncated");
            desk.next();
        }
        let joined = format!("{whole}\u{feff}{}", dump(&table("other", 2)));
        let messages = "mysqldump: [Warning] Using a password on the command line interface can be insecure.\n";
        let partial = "Warning: A partial dump from a server that has GTIDs will by default include the GTIDs of all transactions.\n";
        for (text, line, says) in [
            (joined, "\u{feff}", "byte order mark"),
            (
                format!("{messages}{whole}"),
                messages,
                "message of the program",
            ),
            (
                whole.replacen("CREATE", &format!("{partial}CREATE"), 1),
                partial,
                "2>&1",
            ),
        ] {
            let number = text[..text.find(line).unwrap()].matches('\n').count() + 1;
            let line = format!("line {number}");
            desk.load_text(&text, server, &["--plan"])
                .exits(3)
                .says(&line)
                .says(says);
            desk.load_text(&text, server, accept)
                .exits(3)
                .says(&line)
                .says(says);
            assert_eq!(desk.tables(server), 0, "{says}");
            let piped = desk.load_command(Path::new("-"), &server.url(), &[]);
            finish_with_input(piped, |stdin| {
                stdin.write_all(text.as_bytes()).unwrap_or_default();
            })
            .exits(1)
            .says(&line)
            .says(says);
            desk.next();
        }
        // MariaDB's client parses this itself, MySQL's leaves it to the server.
        desk.ask(server, "CREATE DATABASE IF NOT EXISTS `@db-x`");
        let used = dump(&format!("USE {}-x;\n{items}", desk.db));
        let file = desk.file("used.sql", used);
        let url = server.url();
        let run = finish(desk.refloat(["load", file.to_str().unwrap(), "--to", &url]));
        if kind == ServerKind::MySql97 {
            run.exits(1).says("1064");
        } else {
            run.exits(0);
            assert_eq!(desk.ask(server, "SELECT COUNT(*) FROM `@db-x`.items"), "3");
        }
        desk.ask(server, "DROP DATABASE `@db-x`");
    }
    let desk = Desk::new();
    let generated = dump(
        "CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a + 1) VIRTUAL);\nINSERT INTO t VALUES (1,2);\n",
    );
    desk.load_text(generated, shared(ServerKind::MySql97), &[])
        .exits(1)
        .says("refloat copy");
}

#[test]
fn binary_junk_within_a_dump_stops_it_where_it_stands() {
    let mut desk = Desk::new();
    for kind in BOTH {
        let good = dump(&table("items", ROWS));
        let at = good.find("UNLOCK").unwrap();
        let mut bad = good.as_bytes()[..at].to_vec();
        bad.extend_from_slice(b"\x00\x01\x02\xff\xfe junk \x00\n");
        bad.extend_from_slice(&good.as_bytes()[at..]);
        let line = good[..at].matches('\n').count() + 1;
        desk.load_text(&bad, shared(kind), &[])
            .exits(1)
            .says("dump.sql")
            .says(&format!("byte {at}, line {line}"))
            .says("hint: ");
        no_half_chunk(&desk, kind, "junk");
        desk.next();
        // After the last line.
        let mut bad = good.clone();
        bad.push_str("this is not SQL;\n");
        desk.load_text(&bad, shared(kind), &[])
            .exits(1)
            .says(&place(&bad, "this is not SQL"))
            .says("1064")
            .says("this is not SQL");
        desk.next();
    }
}

#[test]
fn a_producer_that_fails_does_not_look_like_a_dump() {
    let mut desk = Desk::new();
    for &kind in crate::support::kinds() {
        let url = shared(kind).url();
        let run = finish(desk.load_command(Path::new("-"), &url, &[]));
        run.exits(1).says("standard input: is empty").says("hint: ");
        let text = dump(&table("items", ROWS));
        let half = &text.as_bytes()[..text.len() / 2];
        let run = finish_with_input(desk.load_command(Path::new("-"), &url, &[]), |stdin| {
            stdin.write_all(half).unwrap_or_default();
        });
        run.exits(1)
            .says("standard input")
            .says("The dump is truncated");
        no_half_chunk(&desk, kind, "half a pipe");
        desk.next();
    }
}

#[test]
fn a_pipe_that_says_nothing_can_be_interrupted() {
    let desk = Desk::new();
    let mut command =
        desk.load_command(Path::new("-"), &shared(ServerKind::MariaDb1011).url(), &[]);
    command.stdin(std::process::Stdio::piped());
    let mut running = Running::start(command);
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(!running.has_ended(), "it must wait for its input");
    running.signal("INT");
    running.stops().exits(5);
}

/// The first line of newer MariaDB dumps, at which older clients and all of MySQL's fail: it must
/// not hide the dump's header.
#[test]
fn the_sandbox_line_is_no_part_of_the_first_statement() {
    for kind in BOTH {
        let mut desk = Desk::new();
        for line in [
            "/*!999999\\- enable the sandbox mode */ ",
            "/*M!999999\\- enable the sandbox mode */ ",
        ] {
            desk.next();
            let text = format!("{line}\n{}", dump(&table("items", 30)));
            let cut = text[..text.len() / 2].to_owned();
            // Truncation is found before anything is touched, as without the line.
            desk.load_text(&cut, shared(kind), &[])
                .exits(1)
                .says("may be truncated");
            assert_eq!(desk.tables(shared(kind)), 0, "{kind}");
            desk.load_text(&text, shared(kind), &[])
                .exits(0)
                .says("done and proven");
            assert_eq!(desk.rows(shared(kind), "items"), Some(30));
        }
    }
}
