//! Random schemas survive dumps and loads unchanged.
//!
//! `REFLOAT_RANDOM_ROUNDS` sets how many schemas each server gets, `REFLOAT_RANDOM_SEED` the seed
//! of the first, and `REFLOAT_KEEP` where the scripts of failed schemas are put.

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
