//! Rows that are inserted through a view.

// Hazard of faults: Rows through a view: kept apart from what can be compared, by a load that is
//   resumed, on a node of a cluster | ; `galera`

use std::path::Path;
use std::time::Duration;

use refloat_sandbox::Instance;
use refloat_testkit::wait_until;

use crate::support::{BOTH, Desk, Gate, Running, ask, dump, finish, shared, table};

/// What [`text`] leaves in `low`, as `id:n`.
const LOW: &str = "1:1,2:2,3:3,11:1,12:2,13:3,21:1,22:2,23:3,31:1,32:2,33:3";

/// A statement that waits for this desk's gate and changes nothing.
fn waits(desk: &Desk) -> String {
    format!(
        "UPDATE low SET n = n WHERE GET_LOCK('{}', 60) <> 1;\n",
        desk.db
    )
}

/// Rows through a view among those of tables, with statements before and among them. The view is
/// redefined before the last rows.
pub fn text(before: &str, among: &str) -> String {
    dump(&format!(
        "{}CREATE TABLE low (id INT NOT NULL PRIMARY KEY, n INT, KEY n (n));\n\
         CREATE VIEW v AS SELECT id, n FROM low;\n\
         INSERT INTO low VALUES (1,1),(2,2),(3,3);\n\
         {before}\
         INSERT INTO v VALUES (11,1),(12,2),(13,3);\n\
         {among}\
         INSERT INTO v VALUES (21,1),(22,2),(23,3);\n\
         CREATE OR REPLACE VIEW v AS SELECT n, id FROM low;\n\
         INSERT INTO v VALUES (1,31),(2,32),(3,33);\n{}",
        table("items", 2000),
        table("more", 2000)
    ))
}

/// Asserts that everything from [`text`] is there, each row once.
#[track_caller]
pub fn all_is_in(desk: &Desk, server: &Instance) {
    let low = "SELECT GROUP_CONCAT(id, ':', n ORDER BY id) FROM @db.low";
    assert_eq!(desk.ask(server, low), LOW);
    for table in ["items", "more"] {
        assert_eq!(desk.rows(server, table), Some(2000), "{table}");
    }
}

#[test]
fn they_are_compared_with_nothing_and_are_no_difference() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let file = desk.file("dump.sql", text("", ""));
        finish(desk.load_command(&file, &server.url(), &["--verify", "digest"]))
            .exits(4)
            .says("rows NOT compared")
            .says("what this does to rows is not followed: INSERT INTO v");
        all_is_in(&desk, server);
        // The same if only the table is selected.
        let (url, table) = (server.url(), format!("{}.low", desk.db));
        let file = file.to_str().unwrap();
        finish(desk.refloat(["verify", file, &url, "-D", &desk.db, "--tables", &table]))
            .says("rows of table")
            .says("INSERT INTO v")
            .never_says("DIFFERENT");
    }
}

/// Loads until the dump's `UPDATE` waits, and kills the load there.
fn killed(desk: &Desk, file: &Path, server: &Instance) {
    let gate = Gate::closed(server, &desk.db);
    let running = Running::start(desk.load_command(file, &server.url(), &[]));
    let update = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE low%' AND db = '{}'",
        desk.db
    );
    wait_until("the statement runs", || ask(server, &update) == "1");
    let id = ask(server, &update.replace("COUNT(*)", "id"));
    running.signal("KILL");
    let _ = running.ends_within(Duration::from_secs(10));
    // End it with its connection, unless the server notices by itself that the client is gone.
    let _ = server.query(&format!("KILL {id}"));
    wait_until("it is over", || ask(server, &update) == "0");
    gate.opens();
}

#[test]
fn a_load_that_was_killed_before_them_goes_on() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let file = desk.file("dump.sql", text(&waits(&desk), ""));
        killed(&desk, &file, server);
        let more = ["--resume", "--uncertain-statement", "again"];
        finish(desk.load_command(&file, &server.url(), &more))
            .exits(0)
            .says("of them were already loaded");
        all_is_in(&desk, server);
    }
}

#[test]
fn a_load_that_was_killed_behind_them_begins_anew() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let file = desk.file("dump.sql", text("", &waits(&desk)));
        killed(&desk, &file, server);
        let low = "SELECT COUNT(*), SUM(n) FROM @db.low";
        let before = desk.ask(server, low);
        let more = ["--resume", "--uncertain-statement", "again"];
        finish(desk.load_command(&file, &server.url(), &more))
            .exits(1)
            .says("rows of view")
            .says("it is not known which of them are loaded")
            .says("--restart");
        assert_eq!(desk.ask(server, low), before, "nothing was written");
        finish(desk.load_command(&file, &server.url(), &["--restart", "--replace"])).exits(0);
        all_is_in(&desk, server);
    }
}
