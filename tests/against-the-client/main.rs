//! What a load leaves behind is what the stock client leaves behind: for dumps of many tools, and for sessions, tables and statements that
//! are combined at random, by every write path into every server.
//!
//! `REFLOAT_COMBINATIONS` says how many combinations each server gets, `REFLOAT_RANDOM_SEED` with which the first is made, and
//! `REFLOAT_KEEP` where dumps that failed are put. Differences that are meant stand in `docs/against-the-client.md`.

mod corpus;
mod generator;
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
