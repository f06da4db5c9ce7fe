//! Loading a dump with all its tables and views named must leave what loading it whole leaves,
//! except stored programs and events, which no table brings along.

use refloat_testkit::oracle::{Difference, Snapshot};

/// What no choice of tables brings.
const PROGRAMS: [&str; 7] = [
    "procedure ",
    "function ",
    "package ",
    "event ",
    "information_schema.ROUTINES ",
    "information_schema.PARAMETERS ",
    "information_schema.EVENTS ",
];
/// The error of a load that cannot attribute a statement to the chosen tables.
const UNCLEAR: &str = "it is not clear whether it changes only tables that are chosen";

/// Every table and view of a snapshot, as patterns of `--tables`. A database with stored functions
/// is chosen as a whole: its views and columns may need them.
pub fn names(snapshot: &Snapshot) -> Vec<String> {
    let of_kind = |kind: &'static str| {
        let keys = snapshot.definitions.keys();
        keys.filter_map(move |(one, name)| (one == kind).then_some(name.as_str()))
    };
    let mut names = Vec::new();
    for database in of_kind("database") {
        let prefix = format!("{database}.");
        let within: Vec<&str> = of_kind("kind of")
            .filter_map(|name| name.strip_prefix(&prefix))
            .collect();
        // The first dot of a pattern ends the database.
        let database = database.replace('.', "?");
        if of_kind("function").any(|name| name.starts_with(&prefix)) {
            names.push(format!("{database}.*"));
        } else {
            names.extend(within.iter().map(|table| format!("{database}.{table}")));
        }
    }
    names
}

/// Whether a load was refused because a statement may change what was not chosen.
pub fn is_unclear(error: &str) -> bool {
    error.contains(UNCLEAR)
}

/// Whether a difference is only about what no choice of tables brings.
pub fn is_of_program(difference: &Difference) -> bool {
    PROGRAMS
        .iter()
        .any(|kind| difference.about.starts_with(kind))
}
