//! Long-running DDL statements.
//!
//! With `wsrep_OSU_method=TOI`, a DDL statement has a place in the total order of write-sets. Until
//! a node has applied it, nothing after it is applied there, and on the node that issued it,
//! nothing else commits.

use refloat_wire::{Connection, Error};

use crate::node::LongDdl;

/// In seconds. A shorter statement ends before anybody has read about it.
const LONG: f64 = 1.0;
/// How many characters of a statement are shown: enough to see what it does, and to which table.
const WORDS: usize = 80;

/// DDL only: a statement about accounts may hold a password. An applier is shown as sleeping while
/// it works.
const LOOK: &str = "SELECT LEFT(INFO, 400), TIME_MS / 1000, USER = 'system user', STATE FROM information_schema.PROCESSLIST \
    WHERE INFO REGEXP '^[[:space:]]*((/[*].*[*]/|CREATE|ALTER|DROP|TRUNCATE|RENAME|OPTIMIZE|REPAIR|OR|REPLACE|UNIQUE|FULLTEXT|SPATIAL|TEMPORARY|ONLINE|IGNORE)[[:space:]]+)+(TABLE|TABLES|INDEX|SEQUENCE|VIEW|DATABASE|SCHEMA)' \
    AND (COMMAND <> 'Sleep' OR USER = 'system user') AND TIME_MS >= 1000 ORDER BY TIME_MS DESC LIMIT 1";
/// Client sessions that wait to commit or for their place in the total order.
const WAITING: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER <> 'system user' AND COMMAND <> 'Sleep' \
    AND TIME_MS >= 500 AND (STATE LIKE '%wsrep%' OR STATE LIKE '%TOI%' OR STATE LIKE '%certif%' OR STATE IN ('Commit', 'starting'))";

/// The DDL statement that has run longest on this node, if one has run for a while.
pub(crate) fn long_ddl(server: &mut Connection) -> Result<Option<LongDdl>, Error> {
    let rows = server.query(LOOK)?;
    let Some(text) = rows.bytes(0, 0).filter(|_| !rows.is_empty()) else {
        return Ok(None);
    };
    let statement = shown(&String::from_utf8_lossy(text));
    let seconds = rows
        .str(0, 1)
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(LONG);
    let applied = rows.u64(0, 2) == Some(1);
    let waiting = server.query(WAITING)?.u64(0, 0).unwrap_or(0);
    Ok(Some(LongDdl {
        statement,
        seconds,
        applied,
        waiting,
    }))
}

/// The start of a statement, on one line.
fn shown(statement: &str) -> String {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let line: String = words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    let mut short: String = line.chars().take(WORDS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_shown_on_one_line() {
        assert_eq!(
            shown(" ALTER TABLE t\n  ADD x INT"),
            "ALTER TABLE t ADD x INT"
        );
        let long = format!("ALTER TABLE {}", "ä".repeat(200));
        assert_eq!(shown(&long).chars().count(), WORDS + 1);
    }
}
