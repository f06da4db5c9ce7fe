//! A load leaves the same on a server as the stock client does: one directory under `cases/` per
//! case, each on every server.

mod runner;

use refloat_sandbox::ServerKind;

#[test]
fn cases_on_mariadb_10_11() {
    runner::all_cases(ServerKind::MariaDb1011);
}

#[test]
fn cases_on_mariadb_11_8() {
    runner::all_cases(ServerKind::MariaDb118);
}

#[test]
fn cases_on_mysql_9_7() {
    runner::all_cases(ServerKind::MySql97);
}
