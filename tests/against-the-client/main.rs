//! A load leaves the same behind as the stock client does: for dumps of many tools, and for random
//! combinations of sessions, tables and statements, on every write path and every server.
//!
//! `REFLOAT_COMBINATIONS` sets how many combinations each server gets, `REFLOAT_RANDOM_SEED` the
//! number of the first, and `REFLOAT_KEEP` where failed dumps are put. Intended differences are
//! listed in `docs/against-the-client.md`.

mod corpus;
mod generator;
mod others;
mod runner;
mod sessions;

use refloat_sandbox::ServerKind;

#[test]
fn on_mariadb_10_11() {
    runner::all(ServerKind::MariaDb1011);
}

#[test]
fn on_mariadb_11_8() {
    runner::all(ServerKind::MariaDb118);
}

#[test]
fn on_mysql_9_7() {
    runner::all(ServerKind::MySql97);
}
