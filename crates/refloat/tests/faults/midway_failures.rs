//! Problems that occur, or are discovered, when part of the dump is already loaded.

// Hazard of faults: A file that is written to while it is loaded; a refusal in the middle; a lock
//   met while a refused row is searched

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::support::{
    BOTH, Desk, Running, ask, assert_same_settings, dump, finish_with_input, settings, shared,
    table,
};
use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::wait_until;

/// How long a load may take once nothing holds it up.
const SOON: Duration = Duration::from_secs(120);

/// A session of the stock client that keeps a transaction open, with its locks.
pub struct Holder(std::process::Child);

impl Holder {
    /// Runs `sql` in a transaction, and waits until it has run: the session then takes the named
    /// lock `name`.
    pub fn start(server: &Instance, name: &str, sql: &str) -> Self {
        let mut child = server
            .client_command()
            .expect("the client is installed")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("the client runs");
        let stdin = child.stdin.as_mut().expect("stdin is a pipe");
        writeln!(
            stdin,
            "START TRANSACTION; {sql}; SELECT GET_LOCK('{name}', 0);"
        )
        .and_then(|()| stdin.flush())
        .expect("the client reads");
        wait_until("the transaction is open", || {
            ask(
                server,
                &format!("SELECT IS_USED_LOCK('{name}') IS NOT NULL"),
            ) == "1"
        });
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// After part of the dump has been loaded, a refusal must not say "before anything was touched".
#[test]
fn a_late_refusal_says_what_is_loaded_and_is_no_preflight() {
    let (first, mut second) = (Desk::new(), Desk::new());
    second.next();
    for kind in BOTH {
        let server = shared(kind);
        ask(
            server,
            &format!(
                "CREATE DATABASE `{0}`; CREATE TABLE `{0}`.kept (id int)",
                second.db
            ),
        );
        let text = dump(&format!(
            "CREATE DATABASE `{0}`; USE `{0}`;\n{1}CREATE DATABASE IF NOT EXISTS `{2}`; USE `{2}`;\n{1}",
            first.db,
            table("items", 50),
            second.db
        ));
        let before = settings(server);
        let mut command = first.refloat(["load", "-", "--to", &server.url()]);
        command.stdin(std::process::Stdio::piped());
        finish_with_input(command, |stdin| {
            let _ = stdin.write_all(text.as_bytes());
        })
        .exits(1)
        .says("stopped, with parts of the dump loaded already")
        .says(&format!("database {} is not empty", second.db))
        .never_says("before anything was touched")
        .never_says("done and proven");
        // The rows may have been in flight when the refusal came: either all of them are there, or
        // none.
        let rows = first.rows(server, "items");
        assert!(matches!(rows, Some(0 | 50)), "{kind}: {rows:?}");
        assert_eq!(second.rows(server, "kept"), Some(0), "{kind}");
        assert_same_settings(&before, server);
    }
}

/// A dump that is still being written, or is overwritten, while it is loaded.
#[test]
fn a_file_that_changes_while_it_is_loaded_proves_nothing() {
    let desk = Desk::new();
    let server = shared(ServerKind::MariaDb1011);
    ask(
        server,
        &format!(
            "CREATE DATABASE `{0}`; CREATE TABLE `{0}`.items (id int PRIMARY KEY, name varchar(80), n int) ENGINE=InnoDB",
            desk.db
        ),
    );
    let body = table("items", 200);
    let rows = &body[body.find("INSERT").expect("there are rows")..];
    let path = desk.file("dump.sql", dump(&rows.replace("UNLOCK TABLES;\n", "")));
    // Holds up the rows.
    let holder = Holder::start(
        server,
        &desk.db,
        &format!("INSERT INTO `{}`.items VALUES (7, 'x', 1)", desk.db),
    );
    let load = Running::start(desk.load_command(&path, &server.url(), &["--append"]));
    // Not innodb_trx: if queried more than ten times a second, the server does not refresh it.
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}' AND command <> 'Sleep' AND time_ms > 500",
        desk.db
    );
    wait_until("the load waits for the row", || {
        ask(server, &waiting) != "0"
    });
    std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(b"-- more\n"))
        .expect("the file can be written");
    drop(holder);
    load.ends_within(SOON)
        .exits(1)
        .says("the file was changed while it was being loaded")
        .never_says("done and proven");
}

/// A lock of another transaction, met during the search for a refused row, does not refuse any row,
/// and nothing of the chunk is lost.
#[test]
fn a_lock_met_in_the_search_for_a_refused_row_costs_no_row() {
    let desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        ask(
            server,
            &format!(
                "CREATE DATABASE `{0}`; CREATE TABLE `{0}`.t (id int PRIMARY KEY, n int NOT NULL) ENGINE=InnoDB; INSERT INTO `{0}`.t VALUES (3, 0)",
                desk.db
            ),
        );
        let holder = Holder::start(
            server,
            &desk.db,
            &format!("INSERT INTO `{}`.t VALUES (7, 0)", desk.db),
        );
        let text = dump(
            "SET innodb_lock_wait_timeout = 1;\nINSERT INTO t VALUES (1,1),(2,2),(3,3),(4,4),(5,5),(6,6),(7,7),(8,8);\n",
        );
        let path = desk.file("dump.sql", text);
        let load = Running::start(desk.load_command(
            &path,
            &server.url(),
            &["--append", "--on-error", "continue"],
        ));
        // Long enough for a lock wait of one second to time out at least once.
        wait_until("the load has waited for the row", || {
            let age = ask(
                server,
                "SELECT COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0) FROM information_schema.innodb_trx",
            );
            age.parse::<u64>().is_ok_and(|seconds| seconds >= 2)
        });
        std::thread::sleep(Duration::from_secs(1));
        drop(holder);
        let run = load.ends_within(SOON);
        run.exits(1).says("refused: 1").says("Duplicate entry '3'");
        assert_eq!(
            desk.ask(
                server,
                "SELECT GROUP_CONCAT(id, '=', n ORDER BY id) FROM @db.t"
            ),
            "1=1,2=2,3=0,4=4,5=5,6=6,7=7,8=8",
            "{kind}"
        );
        ask(server, &format!("DROP DATABASE `{}`", desk.db));
    }
}

/// Rows are counted again after a statement that may have changed any.
#[test]
fn counting_goes_on_behind_statements_that_change_rows() {
    let desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        let text = dump(
            "CREATE TABLE a (id int PRIMARY KEY) ENGINE=InnoDB;\nINSERT INTO a VALUES (1),(2),(3);\nDELETE FROM a WHERE id = 2;\n\
             CREATE TABLE b (id int PRIMARY KEY) ENGINE=InnoDB;\nINSERT INTO b SELECT id FROM a;\nINSERT INTO a VALUES (4);\nINSERT INTO b VALUES (9);\n",
        );
        let path = desk.file("dump.sql", &text);
        let run = desk.load(Path::new(&path), server, &["--json"]).exits(0);
        let last = run.stdout.lines().last().unwrap_or_default();
        let finished: serde_json::Value =
            serde_json::from_str(last).expect("the last line is JSON");
        let proof = &finished["outcome"]["summary"]["proof"];
        assert_eq!(proof["tables_counted"], 2, "{kind}: {proof}");
        assert_eq!(proof["tables_not_counted"], 0, "{kind}: {proof}");
        assert_eq!(
            desk.ask(server, "SELECT GROUP_CONCAT(id ORDER BY id) FROM @db.b"),
            "1,3,9"
        );
        ask(server, &format!("DROP DATABASE `{}`", desk.db));
    }
}

/// Hand-written inserts that can be run repeatedly, larger than what a writer gets at a time.
#[test]
fn a_large_insert_that_updates_duplicates_is_run_whole() {
    const ROWS: u64 = 30_000;
    let desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        let mut text = String::from(
            "CREATE TABLE t (id int PRIMARY KEY, n int, s varchar(80)) ENGINE=InnoDB;\nINSERT INTO t VALUES (1, 0, 'old'), (2, 0, 'old');\nINSERT INTO t VALUES\n",
        );
        for id in 2..=ROWS {
            let end = if id == ROWS { "\n" } else { ",\n" };
            let _ = write!(
                text,
                "({id}, 1, 'a row that is long enough to make a megabyte together'){end}"
            );
        }
        text.push_str(
            " ON DUPLICATE KEY UPDATE n = n + 5;\nINSERT INTO t VALUES (90001, 7, 'last');\n",
        );
        assert!(text.len() > 3 << 19, "{}", text.len());
        desk.load_text(dump(&text), server, &[])
            .exits(0)
            .says("done and proven");
        assert_eq!(
            desk.ask(
                server,
                "SELECT CONCAT_WS(' ', COUNT(*), SUM(n), MAX(id)) FROM @db.t"
            ),
            format!("{} {} 90001", ROWS + 1, 5 + (ROWS - 2) + 7),
            "{kind}"
        );
        ask(server, &format!("DROP DATABASE `{}`", desk.db));
    }
}

/// Statements that remove rows affect only what the dump itself has brought.
#[test]
fn rows_that_were_there_are_not_taken_away_unasked() {
    let desk = Desk::new();
    for kind in BOTH {
        let server = shared(kind);
        ask(
            server,
            &format!(
                "CREATE DATABASE `{0}`; CREATE TABLE `{0}`.customers (id int PRIMARY KEY) ENGINE=InnoDB; INSERT INTO `{0}`.customers VALUES (1),(2)",
                desk.db
            ),
        );
        for change in [
            "TRUNCATE TABLE customers",
            "DELETE FROM customers",
            "UPDATE customers SET id = id + 10",
            "ALTER TABLE customers ADD COLUMN n int",
            "RENAME TABLE customers TO others",
            "CREATE TABLE others LIKE customers",
        ] {
            let text = dump(&format!(
                "{change};\nINSERT INTO customers (id) VALUES (3);\n"
            ));
            desk.load_text(&text, server, &[])
                .exits(3)
                .says("is not empty")
                .says("nothing was touched");
            desk.load_text(&text, server, &["--append"])
                .exits(1)
                .says("refused with --append");
            assert_eq!(
                desk.ask(
                    server,
                    "SELECT GROUP_CONCAT(id ORDER BY id) FROM @db.customers"
                ),
                "1,2",
                "{kind}: {change}"
            );
        }
        let text = dump("TRUNCATE TABLE customers;\nINSERT INTO customers (id) VALUES (3);\n");
        desk.load_text(&text, server, &["--replace"]).exits(0);
        assert_eq!(
            desk.ask(server, "SELECT GROUP_CONCAT(id) FROM @db.customers"),
            "3"
        );
        ask(server, &format!("DROP DATABASE `{}`", desk.db));
    }
}
