//! Tables without transactions: what they have stored cannot be rolled back, so nothing is tried
//! twice.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::{servers, wait_until};

use crate::support::{
    BOTH, Desk, Run, Running, ask, dump, finish_with_input, place, shared, table,
};

/// A refused row stops the load, which says where and which rows may be in. With
/// `--on-error continue` only that row is left out.
#[test]
fn a_refused_row_of_a_table_without_transactions_is_reported() {
    let mut desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        for (engine, path) in [
            ("MyISAM", "load-data"),
            ("MyISAM", "insert"),
            ("Aria", "auto"),
        ] {
            if engine == "Aria" && !kind.is_mariadb() {
                continue;
            }
            desk.next();
            // It may become such a table later.
            let made = if path == "insert" {
                format!("ENGINE=InnoDB;\nALTER TABLE `plain` ENGINE={engine};\n")
            } else {
                format!("ENGINE={engine};\n")
            };
            let text = dump(&format!(
                "{}CREATE TABLE `plain` (`id` int NOT NULL, PRIMARY KEY (`id`)) {made}\
                 INSERT INTO `plain` VALUES (1),(2);\nINSERT INTO `plain` VALUES (3),(2),(4);\n",
                table("items", 100)
            ));
            let file = desk.file("dump.sql", &text);
            let ids = "SELECT GROUP_CONCAT(id ORDER BY id) FROM @db.plain";
            let going_on = ["--write-path", path, "--on-error", "continue"];
            desk.load(&file, server, &going_on)
                .exits(1)
                .says("1 statement or row was refused and left out")
                .says(&place(&text, "(2),(4)"))
                .never_says("done and proven");
            assert_eq!(desk.ask(server, ids), "1,2,3,4", "{kind} {engine} {path}");
            desk.load(&file, server, &["--write-path", path, "--replace"])
                .exits(1)
                .says("dump.sql: ")
                .says(&place(&text, "(1),(2);"))
                .says("its engine has no transactions")
                .says(&format!("{}.plain", desk.db))
                .says("NOT complete")
                .says("plain: 0 rows counted, and whatever it took of the chunk that failed")
                .never_says("done and proven");
            // LOAD DATA skips the row, goes on, and is checked afterwards; inserts stop before it.
            let stored = if path == "load-data" {
                "1,2,3,4"
            } else {
                "1,2,3"
            };
            assert_eq!(desk.ask(server, ids), stored, "{kind} {engine} {path}");
            assert_eq!(desk.rows(server, "items"), Some(100), "{kind} {engine}");
        }
    }
}

/// Text of a row, long enough that a few thousand rows exceed what a load reads ahead.
const LONG: &str = "some text of a row that is not short and a little more of it so that it fills a buffer of those who read it sooner or later";

/// Feeds a load the first part of its input, kills it once some of its rows are in the table, and
/// waits until the server has dropped its sessions.
fn killed_in_the_middle(desk: &Desk, server: &Instance, args: &[&str], first: &str) {
    let mut args = args.to_vec();
    args.extend(["--chunk-rows", "500"]);
    let command = desk.load_command(Path::new("-"), &server.url(), &args);
    let (mut running, mut stdin) = Running::start_with_stdin(command);
    // If it has already ended, its messages are shown below.
    let _ = stdin.write_all(first.as_bytes());
    wait_until("rows are in, or it has ended", || {
        running.has_ended()
            || desk.ask(server, "SELECT MAX(id) FROM @db.plain WHERE id > 1000") != "NULL"
    });
    let ended = running.has_ended();
    running.signal("KILL");
    let run = running.ends_within(Duration::from_secs(10));
    assert!(!ended, "{run:?}");
    // Its last statement may still run for a moment.
    let rest = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND info LIKE '%{}%'",
        desk.db
    );
    wait_until("nothing of it runs", || ask(server, &rest) == "0");
}

fn again(desk: &Desk, server: &Instance, args: &[&str], text: &str) -> Run {
    let command = desk.load_command(Path::new("-"), &server.url(), args);
    let text = text.to_owned();
    finish_with_input(command, move |pipe| {
        let _ = pipe.write_all(text.as_bytes());
    })
}

/// A load of rows only, into an existing table without transactions, killed midway.
struct RowsAlone<'a> {
    desk: Desk,
    server: &'a Instance,
    more: &'static [&'static str],
}

impl<'a> RowsAlone<'a> {
    /// `rows` is a statement that fills the table beforehand.
    fn killed(server: &'a Instance, rows: &str, more: &'static [&'static str]) -> Self {
        let desk = Desk::new();
        let create = "CREATE TABLE plain (id INT, v VARCHAR(200)) ENGINE=MyISAM";
        desk.ask(
            server,
            &format!("CREATE DATABASE @db; USE @db; {create}; {rows}"),
        );
        let it = Self { desk, server, more };
        it.with_args(|args| killed_in_the_middle(&it.desk, server, args, &lines(60_000)));
        it
    }

    fn with_args<T>(&self, run: impl FnOnce(&[&str]) -> T) -> T {
        let table = format!("{}.plain", self.desk.db);
        let args = ["--table", &table, "--source-format", "csv"];
        run(&[&args[..], self.more].concat())
    }

    fn again(&self) -> Run {
        self.with_args(|args| again(&self.desk, self.server, args, &lines(90_000)))
    }

    #[track_caller]
    fn is_whole(&self) {
        self.again().exits(0).says("done and proven");
        let numbers = "SELECT COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id) FROM @db.plain";
        let numbers = self.desk.ask(self.server, numbers);
        assert_eq!(numbers, "90000\t90000\t1\t90000");
    }
}

fn lines(rows: u32) -> String {
    (1..=rows).fold(String::new(), |mut text, id| {
        let _ = writeln!(text, "{id},{LONG}");
        text
    })
}

/// The source does not create the table, which was empty: its rows are loaded again if they can
/// only be the load's own.
#[test]
fn a_killed_load_of_rows_alone_begins_their_table_again() {
    for kind in BOTH {
        let server = shared(kind);
        RowsAlone::killed(server, "", &[]).is_whole();

        // More rows than were sent: some of them are not the load's.
        let load = RowsAlone::killed(server, "", &[]);
        let sent = load.desk.rows(server, "plain").unwrap();
        let twice = "INSERT INTO @db.plain SELECT id + 100000, v FROM @db.plain";
        load.desk.ask(server, &format!("{twice}; {twice}"));
        load.again()
            .exits(1)
            .says("has an engine without transactions: it is not known which of its ")
            .says(&format!(
                "TRUNCATE TABLE `{}`.`plain` if none of its rows is needed",
                load.desk.db
            ));
        assert_eq!(load.desk.rows(server, "plain"), Some(sent * 4), "{kind}");
        load.desk.ask(server, "TRUNCATE TABLE @db.plain");
        load.is_whole();

        // With --append there may be other rows, so the user is asked first. Rows that were there
        // before are never removed.
        let load = RowsAlone::killed(server, "", &["--append"]);
        load.again().exits(1).says("It was empty before");
        let mine = "INSERT INTO plain VALUES (0, 'mine')";
        let load = RowsAlone::killed(server, mine, &["--append"]);
        load.again()
            .exits(1)
            .says("rows were added to those that it had");
        let mine = load
            .desk
            .ask(server, "SELECT v FROM @db.plain WHERE id = 0");
        assert_eq!(mine, "mine", "{kind}");
    }
}

/// Rows after a statement that has changed earlier ones: the table cannot be emptied, and its marks
/// prove nothing.
#[test]
fn rows_behind_a_statement_that_is_done_are_not_believed_to_be_in() {
    let mut desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        desk.next();
        let rows = |ids: std::ops::RangeInclusive<u32>| {
            let statement = |id: u32| format!("INSERT INTO `plain` VALUES ({id},{id},'{LONG}');\n");
            ids.map(statement).collect::<String>()
        };
        let begin = format!(
            "CREATE TABLE `plain` (`id` int, `n` int, `v` varchar(200)) ENGINE=MyISAM;\n{}UPDATE plain SET n = n + 1;\n",
            rows(1..=100)
        );
        let text = dump(&format!("{begin}{}", rows(101..=90_000)));
        let half = &text[..text.find("VALUES (80000,").unwrap()];
        killed_in_the_middle(&desk, server, &[], half);
        again(&desk, server, &[], &text)
            .exits(1)
            .says("it is not known which of its rows from here on are loaded")
            .says("--restart");
        again(&desk, server, &["--restart", "--replace"], &text).exits(0);
        let sum = desk.ask(server, "SELECT COUNT(*), SUM(n - id) FROM @db.plain");
        assert_eq!(sum, "90000\t100", "{kind}");
    }
}

/// What cannot be rolled back would be logged as a statement, and an array cannot.
#[test]
fn tables_without_transactions_load_beside_a_log_of_statements() {
    let options = servers::quick(ServerKind::MariaDb1011)
        .option("log_bin", "binlog")
        .option("binlog_format", "STATEMENT");
    let server = servers::start(&options);
    let rows: Vec<String> = (1..3_000).map(|id| format!("({id},'row {id}')")).collect();
    let text = dump(&format!(
        "CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(20)) ENGINE=MyISAM;\n\
         CREATE TABLE u (id INT PRIMARY KEY, b VARCHAR(20)) ENGINE=InnoDB;\n\
         INSERT INTO t VALUES {rows};\nINSERT INTO u VALUES {rows};\n",
        rows = rows.join(",")
    ));
    let desk = Desk::new();
    desk.load_text(&text, &server, &[])
        .exits(0)
        .says("done and proven");
    assert_eq!(desk.rows(&server, "t"), Some(2_999));
    assert_eq!(desk.rows(&server, "u"), Some(2_999));
}
