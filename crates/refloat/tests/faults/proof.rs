//! A proof that fails: what others do to a table while it is loaded is found, named, and exits with
//! 4.

use crate::cutting_proxy::Cutter;
use crate::held_load::{Held, ROWS};
use crate::support::{BOTH, Desk, ask, dump, finish, shared, table};
use refloat_testkit::servers;

/// What becomes what on its way by a write path, and what the load says of it.
type Change = (&'static [u8], &'static [u8], &'static str, &'static str);
const LOAD_DATA: Change = (
    b"ESCAPED BY X'5C'",
    b"ESCAPED BY X'7C'",
    "load-data",
    "would hold '\\\\N' by LOAD DATA, but holds NULL by the dump's own INSERT",
);
const BULK: Change = (
    b"\x08one text",
    b"\x08two text",
    "bulk",
    "would hold 'two text' by array-bound insert, but holds 'one text' by the dump's own INSERT",
);

/// Tolerance for the expression of a generated column does not extend to other errors in the row.
#[test]
fn rows_of_tables_that_compute_are_refused_for_everything_else() {
    for kind in BOTH {
        let server = shared(kind);
        let load = |text: &str| {
            let desk = Desk::new();
            let run = desk.load_text(dump(text), server, &[]);
            (desk, run)
        };
        let (desk, run) = load(
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9), n TINYINT, g INT AS (CAST(s AS SIGNED)) STORED);\n\
             INSERT INTO t (id, s, n) VALUES (1,'1x',1),(2,'2x',1000),(3,'3x',3);\n",
        );
        run.exits(1).says("Out of range value for column 'n'");
        assert_eq!(desk.rows(server, "t"), Some(0));
        let (desk, run) = load(
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9), m INT NOT NULL, g INT AS (CAST(s AS SIGNED)) STORED);\n\
             INSERT INTO t (id, s) VALUES (1,'1'),(2,'2');\n",
        );
        // The dump's own session is not strict: it stores 0 in the column, as with the stock
        // client.
        run.exits(0);
        assert_eq!(desk.rows(server, "t"), Some(2));
        // Nothing can be rolled back here, so nothing is tried twice.
        let (desk, run) = load(
            "CREATE TABLE t (id INT, s VARCHAR(9), g INT AS (CAST(s AS SIGNED)) STORED, CHECK (id < 3)) ENGINE=MyISAM;\n\
             INSERT INTO t (id, s) VALUES (1,'1x'),(2,'2x'),(3,'3x');\n",
        );
        run.exits(1)
            .says("t")
            .says("its engine has no transactions");
        assert_eq!(desk.rows(server, "t"), Some(2));
    }
}

#[test]
fn rows_and_definitions_that_are_others_at_the_end_are_a_failed_proof() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let held = Held::start(&desk, server, &[]);
        // Some of the rows that are committed by now.
        desk.ask(server, "DELETE FROM @db.items WHERE id <= 3");
        desk.ask(
            server,
            "ALTER TABLE @db.items MODIFY `name` varchar(81) NOT NULL",
        );
        let run = held
            .goes_on()
            .exits(4)
            .says("loaded, but the proof FAILED")
            .says("2 DIFFERENCES")
            .says(&format!(
                "table {}.items: expected {ROWS} rows, found {} rows",
                desk.db,
                ROWS - 3
            ))
            .says(&format!(
                "table {}.items: expected the definition that it was created with, found CREATE TABLE",
                desk.db
            ))
            .never_says("done and proven");
        assert_eq!(
            desk.rows(server, "items"),
            Some(ROWS - 3),
            "{kind}: what was found is what is there\n{}",
            run.stdout
        );
        desk.ask(server, "DROP DATABASE @db");
    }
}

/// No count shows that a value has changed between the program and the server. Here `NULL` becomes
/// the text `\N`, as it once did in a session with `NO_BACKSLASH_ESCAPES`, and a text becomes
/// another of the same length.
#[test]
fn a_value_that_becomes_another_one_on_its_way_ends_the_load() {
    // No table has a key, and the last one has no transactions either.
    let tables = ["", "", " ENGINE=MyISAM"].iter().zip(["a", "b", "c"]);
    let tables = tables.map(|(engine, name)| {
        let row = match name {
            "a" => "(1,'text')",
            _ => "(1,'other'),\n(2,NULL),\n(3,'one text')",
        };
        format!("CREATE TABLE {name} (id INT, v VARCHAR(20)){engine};\nINSERT INTO {name} VALUES {row};\n")
    });
    let text = dump(&tables.collect::<String>());
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let bulk = kind.is_mariadb().then_some(BULK);
        for (words, becomes, path, says) in [LOAD_DATA].into_iter().chain(bulk) {
            let desk = Desk::new();
            let cutter = Cutter::changing(server, words, becomes);
            let file = desk.file("dump.sql", &text);
            let more = ["--threads", "1", "--durability", "relaxed", "--write-path"];
            let load = |path| {
                let mut command = desk.load_command(&file, &cutter.url(), &more);
                command.arg(path);
                finish(command)
            };
            load(path).exits(4).says(says).says("--write-path insert");
            assert!(cutter.has_cut(), "{kind}, {path}: nothing was changed");
            assert_eq!(desk.rows(server, "b"), Some(0), "{kind}, {path}");
            // It continues with the dump's own statements.
            load("insert").exits(0);
            let sum = "SELECT GROUP_CONCAT(id, IFNULL(v, ' NULL') ORDER BY id) FROM @db.";
            assert_eq!(desk.rows(server, "a"), Some(1), "{kind}, {path}");
            for table in ["b", "c"] {
                let found = desk.ask(server, &format!("{sum}{table}"));
                assert_eq!(found, "1other,2 NULL,3one text", "{kind}, {path}, {table}");
            }
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

/// A kind of value that the first rows lack is compared as well: the first `NULL` stands in row
/// 3,000, or the first text.
#[test]
fn a_later_value_that_becomes_another_one_on_its_way_ends_the_load() {
    const LATER: usize = 3_000;
    let table = |usual: &str, later: &str| {
        let row = |id| format!("({id},{})", if id == LATER { later } else { usual });
        let rows: Vec<String> = (1..=LATER + 1_000).map(row).collect();
        let rows = rows.join(",\n");
        dump(&format!(
            "CREATE TABLE t (id INT, v VARCHAR(20));\nINSERT INTO t VALUES {rows};\n"
        ))
    };
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let bulk = kind.is_mariadb().then_some((BULK, "NULL", "'one text'"));
        let ways = [(LOAD_DATA, "'text'", "NULL")].into_iter().chain(bulk);
        for ((words, becomes, path, says), usual, later) in ways {
            let desk = Desk::new();
            let cutter = Cutter::changing(server, words, becomes);
            let text = table(usual, later);
            let file = desk.file("dump.sql", &text);
            let more = ["--threads", "1", "--write-path", path];
            let run = finish(desk.load_command(&file, &cutter.url(), &more));
            let row = text.find(&format!("({LATER},")).unwrap();
            let line = text[..row].matches('\n').count() + 1;
            run.exits(4)
                .says(says)
                .says(&format!("line {line}, byte {row}: column v of table"));
            assert!(cutter.has_cut(), "{kind}, {path}: nothing was changed");
            assert_eq!(desk.rows(server, "t"), Some(0), "{kind}, {path}");
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

/// A comparison by digest reads the dump's text in the dump's session, where a backslash is a plain
/// character.
#[test]
fn a_digest_reads_texts_in_the_modes_of_the_dump() {
    let table = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), w VARCHAR(20));\n";
    let rows = "INSERT INTO t VALUES (1, NULL, 'a\\'), (2, '\\N', 'a\tb'), (3, 'it''s', '\\\\');\n";
    let text = dump(&format!(
        "SET sql_mode='NO_BACKSLASH_ESCAPES';\n{table}{rows}"
    ));
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let desk = Desk::new();
        let file = desk.file("dump.sql", &text);
        for path in ["auto", "load-data", "insert"] {
            let more = ["--verify", "digest", "--replace", "--write-path", path];
            desk.load(&file, server, &more)
                .exits(0)
                .says("done and proven");
            let hex = desk.ask(server, "SELECT HEX(v), HEX(w) FROM @db.t ORDER BY id");
            assert_eq!(
                hex, "NULL\t615C\n5C4E\t610962\n69742773\t5C5C",
                "{kind} {path}"
            );
        }
        desk.ask(server, "DROP DATABASE @db");
    }
}

/// The server's limits on what statements may read apply to the sessions of others.
#[test]
fn limits_on_joins_do_not_hold_for_a_load() {
    for &kind in crate::support::kinds() {
        let options = servers::quick(kind).option("max_join_size", "10");
        let server = servers::start(&options);
        assert_eq!(ask(&server, "SELECT @@GLOBAL.max_join_size"), "10");
        let desk = Desk::new();
        let file = desk.file("dump.sql", dump(&table("items", 1_000)));
        for more in [&[][..], &["--replace", "--verify", "digest"]] {
            desk.load(&file, &server, more)
                .exits(0)
                .says("done and proven");
        }
    }
}
