//! A proof that fails: what others do to a table while it is loaded is found, named, and exits with
//! 4.

use std::collections::BTreeSet;

use crate::cutting_proxy::Cutter;
use crate::held_load::{Held, ROWS};
use crate::support::{BOTH, Desk, ask, dump, finish, shared, table};
use refloat_sandbox::ServerKind;
use refloat_testkit::servers;

/// How a proxy changes one text into another.
type Changing = fn(&refloat_sandbox::Instance, &[u8], &[u8]) -> Cutter;
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

/// How a text looks on its way by each write path of a server, what it becomes, and the path's flag
/// and name.
fn a_text_on_its_way(
    kind: ServerKind,
    text: &str,
    becomes: &str,
) -> Vec<(Vec<u8>, Vec<u8>, &'static str, &'static str)> {
    assert_eq!(text.len(), 9, "the length stands before a bound text");
    let after = |byte: u8, text: &str| [&[byte], text.as_bytes()].concat();
    let way = |byte, path, name| (after(byte, text), after(byte, becomes), path, name);
    let mut ways = vec![way(b'\t', "load-data", "LOAD DATA")];
    if kind.is_mariadb() {
        ways.push(way(9, "bulk", "array-bound insert"));
    }
    ways
}

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

/// The sample has no other kind of value than row 3,000, but the rows of the first chunk are all
/// read back. If only this row changes when it is tried again, the two ways of writing it are
/// shown; if not, it must still be noticed that the table does not hold it.
#[test]
fn a_value_like_all_others_that_becomes_another_one_on_its_way_ends_the_load() {
    let rows: Vec<String> = (1..=4_000)
        .map(|id| format!("({id},'text {id:04}')"))
        .collect();
    let text = dump(&format!(
        "CREATE TABLE t (id INT, v VARCHAR(20));\nINSERT INTO t VALUES {};\n",
        rows.join(",\n")
    ));
    let row = text.find("(3000,").unwrap();
    let line = text[..row].matches('\n').count() + 1;
    let place = format!("line {line}, byte {row}: ");
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        for (words, becomes, path, name) in a_text_on_its_way(kind, "text 3000", "text 3001") {
            let always = format!(
                "would hold 'text 3001' by {name}, but holds 'text 3000' by the dump's own INSERT"
            );
            let once = format!("{place}after its rows were written by {name}, table ");
            let ways: [(Changing, &str); 2] =
                [(Cutter::changing, &always), (Cutter::changing_once, &once)];
            for (changing, says) in ways {
                let desk = Desk::new();
                let cutter = changing(server, &words, &becomes);
                let file = desk.file("dump.sql", &text);
                let more = ["--threads", "1", "--write-path", path];
                let run = finish(desk.load_command(&file, &cutter.url(), &more));
                run.exits(4)
                    .says(says)
                    .says(&place)
                    .says("--write-path insert");
                assert!(cutter.has_cut(), "{kind}, {path}: nothing was changed");
                assert_eq!(desk.rows(server, "t"), Some(0), "{kind}, {path}");
                desk.ask(server, "DROP DATABASE @db");
            }
        }
    }
}

/// The first chunk of a table ends after 256 KiB of rows, within a statement, so that all of it is
/// read back: a row that the server refuses later does not undo it, and its last row is noticed.
#[test]
fn first_rows_are_a_chunk_of_their_own() {
    const READ_BACK: usize = 256 << 10;
    let row = |id: usize| format!("({id},'text {id:04}','{id:0100}')");
    let mut rows: Vec<String> = (1..=4_000).map(row).collect();
    let mut room = READ_BACK;
    let first = rows.iter().take_while(|row| {
        let fits = row.len() <= room;
        room = room.saturating_sub(row.len() + ",\n".len());
        fits
    });
    let first = first.count();
    let text = |rows: &[String]| {
        dump(&format!(
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), w CHAR(100));\n\
             INSERT INTO t VALUES {};\n",
            rows.join(",\n")
        ))
    };
    let good = text(&rows);
    rows.push(row(1));
    let refused = text(&rows);
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let last = format!("text {first:04}");
        for (words, becomes, path, _) in a_text_on_its_way(kind, &last, "text 9999") {
            let desk = Desk::new();
            let file = desk.file("dump.sql", &refused);
            let more = ["--threads", "1", "--write-path", path];
            desk.load(&file, server, &more)
                .exits(1)
                .says("Duplicate entry '1'");
            assert_eq!(desk.rows(server, "t"), Some(first as u64), "{kind}, {path}");
            desk.ask(server, "DROP DATABASE @db");
            let desk = Desk::new();
            let cutter = Cutter::changing_once(server, &words, &becomes);
            let file = desk.file("dump.sql", &good);
            let run = finish(desk.load_command(&file, &cutter.url(), &more));
            run.exits(4).says("after its rows were written by");
            assert!(cutter.has_cut(), "{kind}, {path}: nothing was changed");
            assert_eq!(desk.rows(server, "t"), Some(0), "{kind}, {path}");
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

/// Rows that could not be told apart from others in the table, or not be rolled back, are not read
/// back; all the first ones are written both ways instead.
#[test]
fn a_value_that_becomes_another_one_in_a_later_session_ends_the_load() {
    let insert = |ids: std::ops::RangeInclusive<u32>| {
        let rows: Vec<String> = ids.map(|id| format!("({id},'text {id:04}')")).collect();
        format!("INSERT INTO t VALUES {};\n", rows.join(",\n"))
    };
    let table = |engine| format!("CREATE TABLE t (id INT, v VARCHAR(20)) ENGINE={engine};\n");
    let later = "SET SESSION sql_mode = 'ANSI_QUOTES';\n";
    let cases = [
        table("InnoDB") + &insert(1..=4_000) + later + &insert(5_000..=9_000),
        table("MyISAM") + &insert(5_000..=9_000),
    ];
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        for (words, becomes, path, name) in a_text_on_its_way(kind, "text 8000", "text 8001") {
            for (case, text) in cases.iter().enumerate() {
                let text = dump(text);
                let row = text.find("(8000,").unwrap();
                let line = text[..row].matches('\n').count() + 1;
                let desk = Desk::new();
                let cutter = Cutter::changing(server, &words, &becomes);
                let file = desk.file("dump.sql", &text);
                let more = ["--threads", "1", "--durability", "relaxed", "--write-path"];
                let mut command = desk.load_command(&file, &cutter.url(), &more);
                command.arg(path);
                finish(command).exits(4).says(&format!(
                    "line {line}, byte {row}: column v of table {}.t would hold 'text 8001' by \
                     {name}, but holds 'text 8000' by the dump's own INSERT",
                    desk.db,
                ));
                assert!(cutter.has_cut(), "{kind}, {path}: nothing was changed");
                let there = desk.ask(server, "SELECT COUNT(*) FROM @db.t WHERE id >= 5000");
                assert_eq!(there, "0", "{kind}, {path}, {case}");
                desk.ask(server, "DROP DATABASE @db");
            }
        }
    }
}

/// What the dump's own `INSERT` stores counts, not how a literal is spelled: here the server rounds
/// or cuts off times.
#[test]
fn rows_that_are_stored_in_another_spelling_are_read_back() {
    let row = |at: u32| {
        let member = ["'one'", "'two'", "NULL"][at as usize % 3];
        let time = format!("'2024-01-02 03:04:{:02}.6'", at % 59);
        format!("({at},'{at:06}','\u{e9}{at}  ',{member},NULL,{at}e-3,{time})")
    };
    let rows: Vec<String> = (1..=3_000).map(row).collect();
    let text = dump(&format!(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, z INT, s CHAR(20), \
         e ENUM('one','two'), ts TIMESTAMP NULL, f FLOAT, dt DATETIME) DEFAULT CHARSET=latin1;\n\
         INSERT INTO t VALUES {};\n",
        rows.join(",\n"),
    ));
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let mut sums = Vec::new();
        for path in ["insert", "load-data", "auto"] {
            let desk = Desk::new();
            let file = desk.file("dump.sql", &text);
            desk.load(
                &file,
                server,
                &["--durability", "relaxed", "--write-path", path],
            )
            .exits(0)
            .says("done and proven");
            let columns = ["id", "z", "HEX(s)", "HEX(e)", "f", "dt"];
            let sum = columns.map(|column| format!("SUM(CRC32({column}))"));
            sums.push(desk.ask(server, &format!("SELECT {} FROM @db.t", sum.join(", "))));
            desk.ask(server, "DROP DATABASE @db");
        }
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{kind}: {sums:?}");
    }
}

/// Whatever the type, what a dump's text stands for is what the server returns.
#[test]
fn first_rows_of_every_type_are_read_back() {
    let common = [
        ("b BIT(9)", "b'100000001'"),
        ("t TINYINT", "-7"),
        ("z INT ZEROFILL", "0000000042"),
        ("big BIGINT UNSIGNED", "18446744073709551615"),
        ("d DECIMAL(20,4)", "-0.5000"),
        ("f FLOAT", "1.25e-7"),
        ("g DOUBLE", "123456.789"),
        ("day DATE", "'2024-02-29'"),
        ("t3 TIME(3)", "'-10:00:00.500'"),
        ("dt DATETIME(6)", "'2024-01-02 03:04:05.000006'"),
        ("ts TIMESTAMP NULL", "'2024-01-02 03:04:05'"),
        ("none TIMESTAMP NULL", "NULL"),
        ("y YEAR", "2024"),
        ("c CHAR(9)", "'a  '"),
        ("l VARCHAR(9) CHARACTER SET latin1", "'\u{e9}\\n'"),
        ("u TEXT CHARACTER SET utf16", "'\u{e9}'"),
        ("bin BINARY(4)", "0x0A00"),
        ("vb VARBINARY(9)", "_binary 'a\\0'"),
        ("bl BLOB", "'\\Z'"),
        ("e ENUM('one','two')", "'two'"),
        ("s SET('a','b')", "'a,b'"),
        ("j JSON", "'{\"a\": [1, 2.5]}'"),
        (
            "p POINT",
            "0x00000000010100000000000000000008400000000000001040",
        ),
    ];
    let mariadb = [
        ("id UUID", "'123e4567-e89b-12d3-a456-426655440000'"),
        ("i6 INET6", "'2001:db8::1'"),
        ("i4 INET4", "'192.0.2.1'"),
    ];
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let of_vendor: &[_] = if kind.is_mariadb() { &mariadb } else { &[] };
        let columns: Vec<_> = common.iter().chain(of_vendor).collect();
        let list = |part: fn(&(&'static str, &'static str)) -> &'static str| {
            let parts: Vec<_> = columns.iter().map(|column| part(column)).collect();
            parts.join(", ")
        };
        let row = format!("({})", list(|column| column.1));
        let text = dump(&format!(
            "SET NAMES utf8mb4;\nCREATE TABLE t ({});\nINSERT INTO t VALUES {};\n",
            list(|column| column.0),
            vec![row; 1_000].join(",")
        ));
        for path in ["load-data", "auto"] {
            let desk = Desk::new();
            let file = desk.file("dump.sql", &text);
            let more = ["--durability", "relaxed", "--write-path", path];
            desk.load(&file, server, &more)
                .exits(0)
                .says("first rows of 1 compared and of 1 read back");
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
        // What a session without backslashes once made of the NULL.
        desk.ask(server, r"UPDATE @db.t SET v = '\\N' WHERE id = 1");
        let mut verify = desk.refloat(["verify", "--database", &desk.db]);
        verify.arg(&file).arg(server.url());
        finish(verify).exits(4).says("DIFFERENT").says("NULL");
        desk.ask(server, "DROP DATABASE @db");
    }
}

/// The server notes each product that has more decimals than its generated column, and keeps no
/// more than 65,535 notes. What it cuts off a value of the dump is noted in the same words.
#[test]
fn what_the_server_rounds_for_itself_says_nothing_about_rows() {
    let text = |last: &str| {
        let row = |id| format!("({id},{}.99)", id % 1_000);
        let rows: Vec<String> = (1..70_000).map(row).collect();
        dump(&format!(
            "CREATE TABLE t (id INT PRIMARY KEY, total DECIMAL(12,2), \
             tax DECIMAL(12,2) GENERATED ALWAYS AS (total * 0.19) VIRTUAL, \
             gross DECIMAL(12,2) GENERATED ALWAYS AS (total * 1.19) STORED);\n\
             INSERT INTO t (id, total) VALUES {},(0,{last});\n",
            rows.join(",")
        ))
    };
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let fastest = if kind.is_mariadb() {
            "bulk"
        } else {
            "load-data"
        };
        let paths = BTreeSet::from(["insert", "load-data", fastest]);
        for path in paths {
            let desk = Desk::new();
            let load = |text: &str, more: &[&str]| {
                let file = desk.file("dump.sql", text);
                let args = ["--durability", "relaxed", "--write-path", path];
                desk.load(&file, server, &[&args, more].concat())
            };
            load(&text("1.99"), &[])
                .exits(0)
                .says("done and proven")
                .says("  warnings    0\n");
            assert_eq!(desk.rows(server, "t"), Some(70_000), "{kind} {path}");
            let run = load(&text("1.999"), &["--replace"]);
            assert_ne!(run.code, Some(0), "{kind} {path}: {}", run.stdout);
            run.says("column 'total'").never_says("column 'gross'");
            // A refused row beside as many notes. It is found in the same way on every path.
            if path == fastest {
                let more = ["--replace", "--restart", "--on-error", "continue"];
                load(&text("1.99),(7,1.99"), &more)
                    .exits(1)
                    .says("1 statement or row was refused");
                assert_eq!(desk.rows(server, "t"), Some(70_000), "{kind} {path}");
            }
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

/// An empty table lacks nothing: no row leaves out its invisible columns.
#[test]
fn a_digest_of_an_empty_table_has_all_columns() {
    let text = dump(
        "CREATE TABLE t (id INT PRIMARY KEY, x INT INVISIBLE, g INT AS (id + 1));\n\
         CREATE TABLE u (id INT PRIMARY KEY);\nINSERT INTO u VALUES (1);\n",
    );
    for &kind in crate::support::kinds() {
        let desk = Desk::new();
        let file = desk.file("dump.sql", &text);
        desk.load(&file, shared(kind), &["--verify", "digest"])
            .exits(0)
            .says("done and proven");
        desk.ask(shared(kind), "DROP DATABASE @db");
    }
}

/// The server makes up the times of rows that are loaded without them, and what the dump's session
/// sees of the past is not what is loaded.
#[test]
fn a_digest_leaves_out_the_times_of_versioned_tables() {
    let server = shared(ServerKind::MariaDb1011);
    let text = dump(
        "SET SESSION long_query_time = 0.5, SESSION system_versioning_asof = '2020-01-01';\n\
         CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)) WITH SYSTEM VERSIONING;\n\
         INSERT INTO t VALUES (1,'a'),(2,'b');\n",
    );
    for path in ["auto", "load-data"] {
        let desk = Desk::new();
        let file = desk.file("dump.sql", &text);
        let more = ["--verify", "digest", "--write-path", path];
        desk.load(&file, server, &more)
            .exits(0)
            .says("column row_start of table ")
            .says("done and proven");
        assert_eq!(desk.rows(server, "t"), Some(2), "{path}");
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
        let url = server.url();
        let out = desk.path("again");
        let folder = out.to_str().unwrap();
        let dump = [
            "dump",
            "--from",
            &url,
            "--out",
            folder,
            "--databases",
            &desk.db,
        ];
        finish(desk.refloat(dump)).exits(0);
        finish(desk.refloat(["verify", folder, &url]))
            .exits(0)
            .says("the SAME");
    }
}
