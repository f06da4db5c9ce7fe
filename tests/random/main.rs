//! Random schemas go through dumps and loads unchanged.
//!
//! `REFLOAT_RANDOM_ROUNDS` says how many schemas each server gets, `REFLOAT_RANDOM_SEED` with which the first is built, and
//! `REFLOAT_KEEP` where the script of a schema that failed is put.

mod runner;

use refloat_sandbox::ServerKind;

#[test]
fn schemas_on_mariadb_10_11() {
    runner::rounds(ServerKind::MariaDb1011);
}

#[test]
fn schemas_on_mariadb_11_8() {
    runner::rounds(ServerKind::MariaDb118);
}

#[test]
fn schemas_on_mysql_9_7() {
    runner::rounds(ServerKind::MySql97);
}
