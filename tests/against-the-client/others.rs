//! The session variables of a server that [`crate::sessions`] does not list: a new version of a
//! server may bring one that changes what statements mean. It may also bring a word of `sql_mode`.

use std::collections::BTreeSet;

use refloat_sandbox::Instance;
use refloat_testkit::servers;

use crate::sessions::{Setting, settings};

/// Variables that are not tested with another value, and why.
const EXCEPTED: &[(&str, &str)] = &[
    ("default_master_connection", "names a replica's connection"),
    (
        "enforce_storage_engine",
        "is listed in docs/against-the-client.md",
    ),
    ("external_table_storage_engine", "needs another engine"),
    ("gtid_next", "is refused unless allowed"),
    ("innodb_ft_user_stopword_table", "needs a table"),
    ("innodb_tmpdir", "needs a folder"),
    ("query_cache_type", "needs a server with a query cache"),
    ("redirect_url", "needs another server"),
    ("require_row_format", "is for events of a binary log"),
    ("resultset_metadata", "needs a client that asks for it"),
    ("transaction_read_only", "nothing can be written"),
    ("tx_read_only", "nothing can be written"),
    ("wsrep_gtid_seq_no", "needs a cluster"),
    ("wsrep_on", "needs a cluster"),
    ("wsrep_trx_fragment_size", "needs a cluster"),
    ("wsrep_trx_fragment_unit", "needs a cluster"),
];
/// Values to try, in this order.
const VALUES: &[&str] = &["0", "1", "2", "''"];

/// Each of them with a value that is not its default.
///
/// # Panics
/// If a variable takes none of the values, and is not excepted.
pub fn other_settings(server: &Instance, mariadb: bool) -> Vec<Setting> {
    let listed = settings(mariadb).into_iter().filter_map(|one| match one {
        Setting::Variable(name, _) => Some(name),
        Setting::Mode(_) | Setting::Statement(_) => None,
    });
    let mut known: BTreeSet<&str> = listed.collect();
    known.extend(["sql_mode", "identity"]);
    known.extend(EXCEPTED.iter().map(|(name, _)| name));
    let all = servers::connect(server)
        .query("SHOW SESSION VARIABLES")
        .unwrap();
    let mut found = Vec::new();
    let mut without = Vec::new();
    for name in all.texts(0).filter(|name| !known.contains(name)) {
        match value(server, name) {
            Ok(Some(value)) => found.push(Setting::Variable(name.to_owned().leak(), value)),
            Ok(None) => without.push(name.to_owned()),
            Err(IsGlobal) => {}
        }
    }
    assert!(without.is_empty(), "no value changes {without:?}");
    found
}

/// Checks that each word of `sql_mode` that the server has is listed.
///
/// # Panics
/// If one is not.
pub fn all_modes_are_listed(server: &Instance, mariadb: bool) {
    let settings = settings(mariadb);
    let listed = |word: &str| {
        let is_it = |one: &Setting| matches!(one, Setting::Mode(mode) if *mode == word);
        settings.iter().any(is_it)
    };
    let mut conn = servers::connect(server);
    let mut words = BTreeSet::new();
    for bit in 0..63 {
        // MySQL has removed some.
        if conn
            .exec(format!("SET SESSION sql_mode = 1 << {bit}"))
            .is_ok()
        {
            let mode = conn.query_value("SELECT @@SESSION.sql_mode").unwrap();
            words.extend(mode.unwrap_or_default().split(',').map(str::to_owned));
        }
    }
    assert!(words.len() > 15, "{words:?}");
    words.retain(|word| !word.is_empty() && word != "NOT_USED" && !listed(word));
    assert!(words.is_empty(), "not listed: {words:?}");
}

/// A session has no value of its own.
struct IsGlobal;

/// A value that changes a variable.
fn value(server: &Instance, name: &str) -> Result<Option<&'static str>, IsGlobal> {
    // What was set must not affect the next one.
    let mut conn = servers::connect(server);
    let shown = format!("SELECT @@SESSION.{name}");
    let before = conn.query(&shown).map_err(|_| IsGlobal)?.rows;
    for value in VALUES {
        match conn.exec(format!("SET SESSION {name} = {value}")) {
            Ok(_) => match conn.query(&shown) {
                Ok(now) if now.rows == before => {}
                _ => return Ok(Some(value)),
            },
            // Global, or read-only.
            Err(error) if matches!(error.server_code(), Some(1229 | 1238 | 1621)) => {
                return Err(IsGlobal);
            }
            Err(_) => {}
        }
    }
    Ok(None)
}
