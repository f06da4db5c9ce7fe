//! Servers with `local_infile` off: what replaces LOAD DATA, what is said about it, and what is
//! refused.

use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::servers;

use crate::support::{Desk, assert_same_settings, dump, finish, settings, table};

/// The message when rows load more slowly because of it.
const ADVICE: &str = "rows go as INSERT text because local_infile is off on the server";

fn server(kind: ServerKind) -> Ephemeral {
    servers::start(&servers::quick(kind).option("local_infile", "0"))
}

/// Nobody is advised how to make a load faster that had no rows; `keep` leads to advice with rows.
fn no_rows_no_advice(desk: &mut Desk, server: &Ephemeral) {
    desk.next();
    let keep = ["--durability", "keep"];
    let some = desk.load_text(dump(&table("items", 1)), server, &keep);
    some.exits(0).says("rows        1 in").says("advice:");
    desk.next();
    let none = desk.load_text(dump(&table("items", 0)), server, &keep);
    none.exits(0)
        .says("rows        0 in")
        .never_says("advice")
        .never_says("would be better");
}

/// LOAD DATA is requested, but not allowed, and must not be enabled.
fn load_data_is_refused(desk: &mut Desk, server: &Ephemeral) {
    desk.next();
    let file = desk.file("dump.sql", dump(&table("items", 100)));
    let refused = ["--write-path", "load-data", "--durability", "keep"];
    desk.load(&file, server, &refused)
        .exits(3)
        .says("nothing was touched")
        .says("local_infile is off on the server, so it refuses LOAD DATA LOCAL")
        .says("hint: SET GLOBAL local_infile = ON allows it");
    let there = desk.ask(
        server,
        "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '@db'",
    );
    assert_eq!(there, "0", "the database was made for nothing");
}

/// LOAD DATA is requested, and the load may enable it.
fn load_data_is_allowed_for_the_load(desk: &mut Desk, server: &Ephemeral) {
    desk.next();
    let file = desk.file("dump.sql", dump(&table("items", 100)));
    let relaxed = ["--write-path", "load-data", "--durability", "relaxed"];
    let mut plan = desk.load_command(&file, &server.url(), &relaxed);
    plan.arg("--plan");
    finish(plan).exits(0).says("local_infile: OFF -> ON");
    desk.load(&file, server, &relaxed)
        .exits(0)
        .says("write path  LOAD DATA (100 rows)")
        .says("local_infile: OFF -> ON")
        .says("all put back");
    assert_eq!(desk.rows(server, "items"), Some(100));
}

#[test]
fn mysql_gets_inserts_with_the_reason_or_allows_it_for_the_load() {
    let server = server(ServerKind::MySql97);
    let before = settings(&server);
    let mut desk = Desk::new();
    let file = desk.file("dump.sql", dump(&table("items", 1000)));
    let keep = ["--durability", "keep"];
    let mut plan = desk.load_command(&file, &server.url(), &keep);
    plan.arg("--plan");
    finish(plan).exits(0).says(ADVICE).says("INSERT, ");
    desk.load(&file, &server, &keep)
        .exits(0)
        .says("write path  INSERT (1,000 rows)")
        .says(ADVICE)
        .says("nothing was changed on the server");
    assert_eq!(desk.rows(&server, "items"), Some(1000));

    desk.next();
    let relaxed = ["--durability", "relaxed"];
    let mut plan = desk.load_command(&file, &server.url(), &relaxed);
    plan.arg("--plan");
    finish(plan)
        .exits(0)
        .says("LOAD DATA, ")
        .says("local_infile: OFF -> ON")
        .never_says(ADVICE);
    desk.load(&file, &server, &relaxed)
        .exits(0)
        .says("write path  LOAD DATA (1,000 rows)")
        .says("local_infile: OFF -> ON")
        .says("all put back")
        .never_says(ADVICE);
    assert_eq!(desk.rows(&server, "items"), Some(1000));

    no_rows_no_advice(&mut desk, &server);
    load_data_is_refused(&mut desk, &server);
    load_data_is_allowed_for_the_load(&mut desk, &server);
    desk.next();
    // A write path that the server lacks is refused wherever it is requested.
    desk.load(&file, &server, &["--write-path", "bulk"])
        .exits(3)
        .says("nothing was touched")
        .says("the server has no array-bound insert")
        .says("hint: Use --write-path auto.");
    assert_eq!(desk.tables(&server), 0);
    assert_same_settings(&before, &server);
}

#[test]
fn mariadb_needs_no_load_data() {
    let server = server(ServerKind::MariaDb1011);
    let before = settings(&server);
    let mut desk = Desk::new();
    desk.load_text(
        dump(&table("items", 1000)),
        &server,
        &["--durability", "keep"],
    )
    .exits(0)
    .says("write path  array-bound insert (1,000 rows)")
    .never_says(ADVICE);
    assert_eq!(desk.rows(&server, "items"), Some(1000));
    desk.next();
    desk.load_text(
        dump(&table("items", 1000)),
        &server,
        &["--durability", "relaxed"],
    )
    .exits(0)
    .says("write path  array-bound insert (1,000 rows)")
    .never_says("local_infile");
    no_rows_no_advice(&mut desk, &server);
    load_data_is_refused(&mut desk, &server);
    load_data_is_allowed_for_the_load(&mut desk, &server);
    assert_same_settings(&before, &server);
}
