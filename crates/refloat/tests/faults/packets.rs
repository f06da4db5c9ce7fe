//! Rows and statements around `max_allowed_packet`, and the search for refused rows in multi-row
//! statements.

// Hazard of faults: L-30 rows and statements larger than `max_allowed_packet`; L-137
//   `max_binlog_cache_size` at its minimum

use std::fmt::Write as _;

use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::servers;

use crate::support::{BOTH, Desk, ask, dump, place, shared};

/// The servers' limit in these tests, in bytes.
const LIMIT: usize = 1 << 20;
/// A table whose rows may be large.
const LARGE: &str =
    "CREATE TABLE `large` (`id` int NOT NULL, `s` longtext, PRIMARY KEY (`id`)) ENGINE=InnoDB;\n";

fn server(kind: ServerKind) -> Ephemeral {
    servers::start(&servers::quick(kind).option("max_allowed_packet", LIMIT.to_string()))
}

#[test]
fn a_row_larger_than_a_packet_is_named_and_nothing_is_half() {
    let text = dump(&format!(
        "{LARGE}INSERT INTO `large` VALUES\n(1,'a'),\n(2,'b'),\n(3,'{}'),\n(4,'d');\n",
        "x".repeat(3 * LIMIT / 2)
    ));
    for kind in BOTH {
        let server = server(kind);
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", &text);
        let paths: &[&str] = if kind.is_mariadb() {
            &["bulk", "insert"]
        } else {
            &["insert"]
        };
        for path in paths {
            desk.next();
            let run = desk
                .load(&file, &server, &["--write-path", path])
                .exits(1)
                .says("dump.sql: ")
                .says(&place(&text, "(3,'xxx"))
                .says(&format!(
                    "a row of table {}.large needs a packet of 15",
                    desk.db
                ))
                .says(&format!("max_allowed_packet is {LIMIT}"))
                .says("NOT complete");
            // The rows before it fit into a first chunk, which is compared and committed.
            let before = if *path == "bulk" { 2 } else { 0 };
            assert_eq!(desk.rows(&server, "large"), Some(before), "{kind} {path}");
            // It is left out like any other refused row.
            desk.next();
            desk.load(
                &file,
                &server,
                &["--write-path", path, "--on-error", "continue"],
            )
            .exits(1)
            .says("refused: 1")
            .says(&place(&text, "(3,'xxx"))
            .says("the row needs a packet of 15");
            let ids = "SELECT GROUP_CONCAT(id ORDER BY id) FROM @db.large";
            assert_eq!(desk.ask(&server, ids), "1,2,4", "{kind} {path}");
            // The hint is a statement that can be pasted, and it helps.
            desk.next();
            let change = run
                .stderr
                .split('`')
                .find(|part| part.starts_with("SET GLOBAL max_allowed_packet = "))
                .unwrap_or_else(|| panic!("no statement in {}", run.stderr));
            ask(&server, change);
            desk.load(&file, &server, &["--write-path", path])
                .exits(0)
                .says("done and proven");
            assert_eq!(desk.ask(&server, ids), "1,2,3,4", "{kind} {path}");
            ask(&server, &format!("SET GLOBAL max_allowed_packet = {LIMIT}"));
        }
        // LOAD DATA is sent in packets of any size.
        desk.next();
        desk.load(&file, &server, &["--write-path", "load-data"])
            .exits(0)
            .says("done and proven");
        assert_eq!(
            desk.ask(&server, "SELECT MAX(LENGTH(s)) FROM @db.large"),
            (3 * LIMIT / 2).to_string(),
            "{kind}"
        );
    }
}

/// Inserts of two rows that together are as large as a packet, slightly larger, and slightly
/// smaller.
#[test]
fn inserts_as_large_as_a_packet_are_loaded() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        // MariaDB's dumps contain values for generated columns: then more is sent than the dump's
        // own text.
        let (column, value) = if kind.is_mariadb() {
            (", `g` int GENERATED ALWAYS AS (`id` + 1)", ",0")
        } else {
            ("", "")
        };
        let mut text = String::new();
        let mut tables = 0;
        for less in [0, 1, 2, 3, 4, 60, 120, 180, 240] {
            tables += 1;
            let head = format!("INSERT INTO `t{tables}` VALUES ");
            let rows = |one: &str, two: &str| format!("(1,'{one}'{value}),(2,'{two}'{value})");
            let room = LIMIT + 1 - less - head.len() - rows("", "").len();
            let rows = rows(&"x".repeat(room / 2), &"y".repeat(room - room / 2));
            let _ = writeln!(
                text,
                "CREATE TABLE `t{tables}` (`id` int NOT NULL, `s` longtext{column}, PRIMARY KEY (`id`)) ENGINE=InnoDB;\n{head}{rows};"
            );
        }
        desk.load_text(dump(&text), &server, &["--write-path", "insert"])
            .exits(0)
            .says("done and proven");
        for number in 1..=tables {
            assert_eq!(
                desk.rows(&server, &format!("t{number}")),
                Some(2),
                "{kind}: table {number}"
            );
        }
    }
}

/// The search for a refused row among rows that do not fit into one statement, in a table without a
/// key that would catch a duplicate row.
#[test]
fn a_row_refused_among_large_ones_costs_no_other_and_doubles_none() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        let large = "x".repeat(LIMIT * 2 / 5);
        let text = dump(&format!(
            "CREATE TABLE `t` (`id` int NOT NULL, `n` tinyint NOT NULL, `s` longtext) ENGINE=InnoDB;\n\
             INSERT INTO `t` VALUES (1,1,'{large}'),\n(2,1,'{large}'),\n(3,1000,'{large}'),\n(4,1,'{large}'),\n(5,1,'e');\n"
        ));
        desk.load_text(&text, &server, &["--on-error", "continue"])
            .exits(1)
            .says("refused: 1")
            .says(&place(&text, "(3,1000"))
            .says("Out of range");
        assert_eq!(
            desk.ask(&server, "SELECT GROUP_CONCAT(id ORDER BY id) FROM @db.t"),
            "1,2,4,5",
            "{kind}"
        );
    }
}

/// The same for a table with a generated column, for which the dump contains values.
#[test]
fn a_row_refused_beside_computed_columns_is_the_one_that_is_named() {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let text = dump(
        "CREATE TABLE `t` (`id` int NOT NULL, `s` varchar(3), `g` int GENERATED ALWAYS AS (`id` + 1), PRIMARY KEY (`id`)) ENGINE=InnoDB;\n\
         INSERT INTO `t` VALUES\n(1,'a',2),\n(2,'b',3),\n(3,'too long',4),\n(4,'d',5);\n",
    );
    desk.load_text(&text, server, &["--on-error", "continue"])
        .exits(1)
        .says("refused: 1")
        .says(&place(&text, "(3,'too"))
        .says("Data truncated for column 's'")
        .never_says("Duplicate");
    assert_eq!(
        desk.ask(
            server,
            "SELECT GROUP_CONCAT(id, s, g ORDER BY id) FROM @db.t"
        ),
        "1a2,2b3,4d5"
    );
    desk.ask(server, "DROP DATABASE @db");
}

/// A binary log that accepts no large transactions: the load writes smaller ones, or names the
/// variable.
#[test]
fn a_transaction_larger_than_the_binary_log_takes_is_named() {
    for kind in BOTH {
        let options = servers::quick(kind)
            .option("max_binlog_cache_size", "4096")
            .option("binlog_cache_size", "4096");
        let options = if kind.is_mariadb() {
            options.option("log_bin", "binlog").option("server_id", "1")
        } else {
            options
        };
        let server = servers::start(&options);
        let mut desk = Desk::new();
        let text = dump(&crate::support::table("items", 3000));
        let run = desk.load_text(&text, &server, &[]);
        assert!(
            run.code == Some(0) || run.stderr.contains("max_binlog_cache_size"),
            "{kind}: {run:?}"
        );
        assert_eq!(
            run.code == Some(0),
            desk.rows(&server, "items") == Some(3000),
            "{kind}"
        );
        desk.next();
        let few = dump(&crate::support::table("items", 200));
        desk.load_text(&few, &server, &["--chunk-rows", "10"])
            .exits(0)
            .says("done and proven");
    }
}
