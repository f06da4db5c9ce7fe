//! Global variables of a server: reading and writing one.

use std::time::Duration;

use refloat_wire::Connection;

use super::facts::REDO_LOG;
use super::{SettingsError, provider, redo, value};
use crate::RunId;

/// The server resizes the buffer pool in the background, after the statement has returned.
pub(super) const POOL: &str = "innodb_buffer_pool_size";
/// How long a resize of the buffer pool may take before the run continues without it, and how long
/// to wait for one that is already under way.
const RESIZE_WAIT: Duration = Duration::from_secs(5);
/// How often to check a resize.
pub(super) const RESIZE_POLL: Duration = Duration::from_millis(50);

/// Current value of a setting; `None` if the server has no such setting.
pub(super) fn read(conn: &mut Connection, name: &str) -> Result<Option<String>, SettingsError> {
    if provider::is_provider_option(name) {
        return provider::read(conn, name);
    }
    // WHERE, not LIKE: `_` would match any character, and escaping it depends on the sql_mode.
    let (show, switch) = if name == REDO_LOG {
        (
            "SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_redo_log_enabled'".to_owned(),
            true,
        )
    } else {
        // Names come from the catalog of settings or were checked against it.
        (
            format!("SHOW GLOBAL VARIABLES WHERE Variable_name = '{name}'"),
            false,
        )
    };
    let result = conn.query(show)?;
    Ok(result.str(0, 1).map(|v| match (switch, v) {
        (true, v) if value::same(v, "ON") => "ON".to_owned(),
        (true, _) => "OFF".to_owned(),
        (false, v) => v.to_owned(),
    }))
}

/// Reads until the value is the new one: the buffer pool resizes in the background.
pub(super) fn read_settled(
    conn: &mut Connection,
    name: &str,
    before: &str,
    asked: &str,
) -> Result<String, SettingsError> {
    let begun = std::time::Instant::now();
    loop {
        let got = read(conn, name)?.unwrap_or_default();
        let settled = value::accepted(name, asked, &got);
        let waits = name == POOL && begun.elapsed() < RESIZE_WAIT;
        if settled || !waits || !value::same(&got, before) {
            return Ok(got);
        }
        std::thread::sleep(RESIZE_POLL);
    }
}

/// Waits for a resize of the buffer pool that is under way, typically the shrink at the end of an
/// earlier run. Until it ends, MySQL accepts a new size and then drops it (9.7.4). MariaDB has no
/// such status code: it resizes before its statement returns, or refuses.
pub(super) fn await_resize(conn: &mut Connection) -> Result<(), SettingsError> {
    let begun = std::time::Instant::now();
    while begun.elapsed() < RESIZE_WAIT {
        let code = conn
            .query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status_code'")?
            .u64(0, 1);
        if code.unwrap_or(0) == 0 {
            break;
        }
        std::thread::sleep(RESIZE_POLL);
    }
    Ok(())
}

/// Sets a setting, for a run whose journal lists it.
pub(super) fn write(
    conn: &mut Connection,
    run: &RunId,
    name: &str,
    new: &str,
) -> Result<(), SettingsError> {
    let statement = if name == REDO_LOG {
        let verb = if value::same(new, "ON") {
            "ENABLE"
        } else {
            "DISABLE"
        };
        format!("ALTER INSTANCE {verb} INNODB REDO_LOG")
    } else {
        let literal = value::literal(new).ok_or_else(|| SettingsError::BadRow {
            run: String::new(),
            reason: format!("{name} has the value {new:?}"),
        })?;
        if provider::is_provider_option(name) {
            provider::statement(conn, name, new)?
        } else {
            format!("SET GLOBAL `{name}` = {literal}")
        }
    };
    if name == redo::LOG_FILE_SIZE {
        return redo::resize(conn, run, &statement);
    }
    conn.exec(statement)?;
    Ok(())
}
