//! Compares the options of a table.

use refloat_sqltext::shown;

use super::Found;
use super::collation::Collated;
use super::words::{Side, agree};

/// Options that change what is stored or how. Not compared: hints (`MAX_ROWS`, `STATS_*`),
/// `PAGE_CHECKSUM`, which MariaDB adds, and options that name places and servers, which are
/// different now (`TABLESPACE`, `CONNECTION`, `UNION`).
const COMPARED: &[&str] = &[
    "ROW_FORMAT",
    "KEY_BLOCK_SIZE",
    "COMPRESSION",
    "ENCRYPTION",
    "ENCRYPTED",
    "ENCRYPTION_KEY_ID",
    "PAGE_COMPRESSED",
    "CHECKSUM",
    "DELAY_KEY_WRITE",
    "PACK_KEYS",
    "INSERT_METHOD",
    "TRANSACTIONAL",
    "WITH SYSTEM VERSIONING",
    "DATA DIRECTORY",
    "INDEX DIRECTORY",
];

/// Compares engine, character set, comment and the other options that matter.
pub fn compare(dump: &Side<'_>, server: &Side<'_>, found: &mut Found<'_>) {
    // A session in the mode of another vendor gets no options at all.
    if server.table.option("ENGINE").is_none() {
        return;
    }
    let engine = |side: &Side<'_>| {
        side.table
            .option("ENGINE")
            .or(side.table.option("TYPE"))
            .map(engine_name)
    };
    if let (Some(expected), Some(present)) = (engine(dump), engine(server))
        && expected != present
    {
        found.differ("engine", expected, present);
    }
    let text =
        |side: &Side<'_>| Collated::new(side.table.option("CHARSET"), side.table.option("COLLATE"));
    let (asked, there) = (text(dump), text(server));
    if !asked.is_met_by(&there) {
        found.differ("collation", asked.shown(), there.shown());
    }
    let comment = |side: &Side<'_>| side.table.option("COMMENT").unwrap_or_default().to_vec();
    let (asked, there) = (comment(dump), comment(server));
    if !agree(&asked, dump.mode, &there) {
        found.differ("comment", shown(&asked), shown(&there));
    }
    for name in COMPARED {
        let value_of = |side: &Side<'_>| side.table.option(name).map(|value| normal(name, value));
        let Some(asked) = value_of(dump).filter(|value| !is_default(name, value)) else {
            continue;
        };
        let there = value_of(server);
        if there.as_ref() != Some(&asked) {
            let or = |value: Option<String>| match value {
                None => "none".to_owned(),
                Some(value) if value.is_empty() => "yes".to_owned(),
                Some(value) => value,
            };
            found.differ(name, or(Some(asked)), or(there));
        }
    }
}

/// The default collation of a table that names a character set without one: there and here, if they
/// differ.
pub fn other_default(dump: &Side<'_>, server: &Side<'_>) -> Option<(String, String)> {
    let text =
        |side: &Side<'_>| Collated::new(side.table.option("CHARSET"), side.table.option("COLLATE"));
    text(dump).other_default(&text(server))
}

/// The engine's name in lower case. For aliases, the name that servers print.
fn engine_name(name: &[u8]) -> String {
    let name = shown(name).to_ascii_lowercase();
    match name.as_str() {
        "innobase" => "innodb".to_owned(),
        "heap" => "memory".to_owned(),
        "merge" => "mrg_myisam".to_owned(),
        "maria" => "aria".to_owned(),
        "ndb" => "ndbcluster".to_owned(),
        _ => name,
    }
}

fn normal(name: &str, value: &[u8]) -> String {
    let value = shown(value).to_ascii_lowercase();
    if name.ends_with("DIRECTORY") {
        return value.trim_end_matches('/').to_owned();
    }
    match value.as_str() {
        "on" => "1".to_owned(),
        "off" => "0".to_owned(),
        _ => value,
    }
}

/// Whether this asks for nothing: `0` and `no` are the default anyway.
fn is_default(name: &str, value: &str) -> bool {
    match value {
        // TRANSACTIONAL=0 and PACK_KEYS=0 do ask for something.
        "0" => !matches!(name, "TRANSACTIONAL" | "PACK_KEYS"),
        "default" | "n" | "no" | "none" => true,
        "" => name != "WITH SYSTEM VERSIONING",
        _ => false,
    }
}
