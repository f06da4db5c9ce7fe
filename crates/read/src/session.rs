//! Sessions that read: they inherit no setting that would change what is read.

use std::time::Duration;

use refloat_run::Cancel;
use refloat_run::cancel::abandonable;
use refloat_wire::codes::UNKNOWN_VARIABLE;
use refloat_wire::{Connection, Error, Vendor};

use super::error::ReadError;
use super::options::ReadOptions;

/// What every connection sets first. `DEFAULT` would mean the server's global value, so limits are
/// explicit numbers: with a global `sql_select_limit` of 1000, every table would end after 1000
/// rows.
const COMMON: &str = "SET NAMES utf8mb4, SESSION autocommit = 1, SESSION sql_mode = 'ALLOW_INVALID_DATES', SESSION time_zone = '+00:00', \
     SESSION wait_timeout = 86400, SESSION net_read_timeout = 3600, SESSION net_write_timeout = 3600, \
     SESSION sql_select_limit = 18446744073709551615, SESSION sql_quote_show_create = 1, SESSION big_tables = 0, \
     SESSION sql_safe_updates = 0, SESSION group_concat_max_len = 1048576";
/// Longest time, in seconds, that a statement waits for a table that another session has locked.
const LOCK_WAIT_MAX: u64 = 60;
/// Variables that not every version has.
const MYSQL: &[&str] = &[
    "max_execution_time = 0",
    "information_schema_stats_expiry = 0",
    // Otherwise a generated invisible primary key stays hidden, and its values are lost.
    "show_gipk_in_create_table_and_information_schema = ON",
    "explain_format = 'TRADITIONAL'",
    "explain_json_format_version = 1",
    "show_create_table_skip_secondary_engine = OFF",
];
const MARIADB: &[&str] = &[
    "max_statement_time = 0",
    "query_cache_type = OFF",
    // A snapshot may have to wait for a slow target, or one that is building indexes.
    "idle_transaction_timeout = 0",
    "idle_readonly_transaction_timeout = 0",
];
/// Seconds that the server waits for a reader that does not fetch its rows.
const WRITE_TIMEOUT: u32 = 7 * 86_400;

/// Opens the first connection to the server; [`another`] opens more.
pub fn connect(options: &ReadOptions, cancel: &Cancel) -> Result<Connection, ReadError> {
    let (source, patience) = (options.source.clone(), options.lock_patience);
    let connected = abandonable(cancel, move || {
        let mut conn = Connection::connect(&source)?;
        prepare(&mut conn, patience)?;
        Ok(conn)
    });
    match connected {
        Some(connected) => connected.map_err(|error: Error| {
            ReadError::server(
                format!("connecting to {}", options.source.describe()),
                error,
            )
        }),
        None => Err(ReadError::interrupted(cancel)),
    }
}

/// Opens another connection to the server that `first` reached.
pub fn another(first: &Connection, options: &ReadOptions) -> Result<Connection, Error> {
    let mut conn = first.reconnect()?;
    prepare(&mut conn, options.lock_patience)?;
    Ok(conn)
}

fn prepare(conn: &mut Connection, patience: Duration) -> Result<(), Error> {
    conn.exec(format!(
        "{COMMON}, SESSION lock_wait_timeout = {}",
        lock_wait(patience)
    ))?;
    let assignments = match conn.server().vendor {
        Vendor::MySql => MYSQL,
        Vendor::MariaDb => MARIADB,
    };
    for assignment in assignments {
        match conn.exec(format!("SET SESSION {assignment}")) {
            Err(error) if error.server_code() == Some(UNKNOWN_VARIABLE) => {}
            // If the query cache was off at startup, a session cannot set it, and need not.
            Err(error)
                if assignment.starts_with("query_cache") && error.server_code().is_some() => {}
            other => {
                other?;
            }
        }
    }
    Ok(())
}

/// Seconds of the user's patience that one statement may spend waiting for a lock.
fn lock_wait(patience: Duration) -> u64 {
    patience.as_secs().clamp(1, LOCK_WAIT_MAX)
}

/// Prepares a connection for reading rows: column bytes arrive as they are stored, in a transaction
/// that sees one moment.
///
/// The isolation level comes first: below `REPEATABLE READ` the server would ignore the snapshot
/// with only a warning.
pub fn prepare_reader(conn: &mut Connection) -> Result<(), Error> {
    conn.exec("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
    conn.exec("SET SESSION character_set_results = NULL")?;
    // The consumer of the rows may be busy for a long time, with the indexes of a large table for
    // example.
    conn.exec(format!("SET SESSION net_write_timeout = {WRITE_TIMEOUT}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_waits_longer_than_the_user_does() {
        for (patience, waits) in [(0, 1), (3, 3), (120, 60)] {
            assert_eq!(lock_wait(Duration::from_secs(patience)), waits);
        }
    }
}
