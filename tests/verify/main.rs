//! Equal data compare as equal, and every difference is found and named.

mod cases;
mod damage;
mod json_types;
mod mutations;
mod numbers;
mod others;
mod own_tables;
mod support;
mod vendors;

use refloat_sandbox::ServerKind;

#[test]
fn sources_of_cases_on_mariadb_10_11() {
    cases::all_sources(ServerKind::MariaDb1011);
}

#[test]
fn sources_of_cases_on_mariadb_11_8() {
    cases::all_sources(ServerKind::MariaDb118);
}

#[test]
fn sources_of_cases_on_mysql_9_7() {
    cases::all_sources(ServerKind::MySql97);
}

#[test]
fn mutations_on_mariadb_10_11() {
    mutations::all(ServerKind::MariaDb1011);
}

#[test]
fn mutations_on_mariadb_11_8() {
    mutations::all(ServerKind::MariaDb118);
}

#[test]
fn mutations_on_mysql_9_7() {
    mutations::all(ServerKind::MySql97);
}
