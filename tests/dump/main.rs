//! A dump holds what the server held: the source of each case is dumped, restored by hand with
//! nothing but the stock client, and compared with the original.

// Hazard of dumps: L-09, L-22, L-120 borders of chunks for every kind of key | , case `ranges`

mod accounts;
mod runner;

use refloat_sandbox::ServerKind;

#[test]
fn sources_of_cases_on_mariadb_10_11() {
    runner::all_sources(ServerKind::MariaDb1011);
}

#[test]
fn sources_of_cases_on_mariadb_11_8() {
    runner::all_sources(ServerKind::MariaDb118);
}

#[test]
fn sources_of_cases_on_mysql_9_7() {
    runner::all_sources(ServerKind::MySql97);
}
