//! What is the same is found to be the same, and what is not is found and named.

#[path = "dump/by_hand.rs"]
mod by_hand;
#[path = "load/case.rs"]
#[expect(dead_code, reason = "what a case says about loads")]
mod case;
#[path = "verify/cases.rs"]
mod cases;
#[path = "verify/damage.rs"]
mod damage;
#[path = "verify/json_types.rs"]
mod json_types;
#[path = "dump/lost.rs"]
mod lost;
#[path = "verify/mutations.rs"]
mod mutations;
#[path = "verify/numbers.rs"]
mod numbers;
#[path = "verify/others.rs"]
mod others;
#[path = "verify/own.rs"]
mod own;
#[path = "verify/support.rs"]
mod support;
#[path = "across/tools.rs"]
#[expect(dead_code, reason = "the tool that is this program")]
mod tools;
#[path = "verify/vendors.rs"]
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
