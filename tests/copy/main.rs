//! A copy holds what its source holds: the source of each case is copied to another server and
//! compared.

mod runner;

use refloat_sandbox::ServerKind::{MariaDb118, MariaDb1011, MySql97};

#[test]
fn sources_of_cases_from_mariadb_10_11_to_another() {
    runner::all_sources(MariaDb1011, MariaDb1011);
}

#[test]
fn sources_of_cases_from_mariadb_10_11_to_11_8() {
    runner::all_sources(MariaDb1011, MariaDb118);
}

#[test]
fn sources_of_cases_from_mariadb_11_8_to_another() {
    runner::all_sources(MariaDb118, MariaDb118);
}

#[test]
fn sources_of_cases_from_mysql_9_7_to_another() {
    runner::all_sources(MySql97, MySql97);
}
