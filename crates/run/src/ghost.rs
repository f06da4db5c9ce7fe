//! Ghost tables: the server has a definition, but the engine knows no such table.
//!
//! A power cut can bring back the definition file of a table that was already dropped. MariaDB
//! notices, and refuses every statement on such a table except DROP.

use refloat_wire::{Connection, Error, Vendor};

use crate::own_tables::{SETTLED, holds_programs, is_namesake};

/// `ER_NO_SUCH_TABLE_IN_ENGINE`.
pub const GHOST: u16 = 1932;

/// Whether this is the server's error for a ghost table.
pub fn is_ghost(error: &Error) -> bool {
    error.server_code() == Some(GHOST)
}

/// Drops the table with this quoted name if it is a ghost. Whether it exists and can be read is not
/// checked here.
///
/// # Errors
/// The table cannot be dropped, or the connection is lost.
pub fn drop_ghost(conn: &mut Connection, table: &str) -> Result<(), Error> {
    match conn.query(format!("SELECT 1 FROM {table} LIMIT 0")) {
        Err(error) if is_ghost(&error) => {
            conn.exec(format!("DROP TABLE IF EXISTS {table}"))?;
            Ok(())
        }
        Ok(_) | Err(Error::Server { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the names of definition files durable after tables were altered, renamed or dropped, and
/// after views or triggers were created or dropped. `schema` must be one of Refloat's own.
///
/// MariaDB syncs its logs and the file of a new definition. Then it renames that file into place or
/// removes one, and logs that the statement is done, but nothing syncs the directory. A power cut
/// undoes the rename or removal: an altered table has its old definition again (no added index can
/// be used), a renamed table has no rows, a trigger or view is missing. A data file that comes back
/// unknown to the engine is worse than a definition: no table of its name can be created, and the
/// database cannot be dropped, until someone removes the file by hand.
///
/// A definition is synced while it is written (`sync_frm`), and its directory with it. File systems
/// with a single journal (ext4, XFS) then also bring to disk every earlier rename and removal, in
/// any directory. So this creates a table that has no other file, and drops it again. It is best
/// effort: a refusal by the server does not undo what was done before. MySQL keeps definitions in
/// its engine, whose log covers them.
///
/// Returns whether the definitions are on disk.
///
/// # Errors
/// The connection is lost.
pub fn sync_definitions(conn: &mut Connection, schema: &str) -> Result<bool, Error> {
    if conn.server().vendor != Vendor::MariaDb {
        return Ok(true);
    }
    if is_somebodys(conn, schema)? {
        return Ok(false);
    }
    let synced = create_settled(conn, schema)?;
    done(
        conn,
        &format!("DROP TABLE IF EXISTS `{schema}`.`{SETTLED}`"),
    )?;
    Ok(synced)
}

/// Makes it durable that Refloat's own tables were dropped from `schema`, one of Refloat's own, and
/// drops the schema if nothing else is in it. Without the first part, files of dropped tables that
/// a power cut brings back would keep the schema from being dropped ([`sync_definitions`]).
///
/// Returns the server's refusal to drop the empty schema, which means that its directory holds a
/// file that the server does not know.
///
/// # Errors
/// A query fails, or the connection is lost.
pub fn drop_emptied(conn: &mut Connection, schema: &str) -> Result<Option<Error>, Error> {
    if is_somebodys(conn, schema)? {
        return Ok(None);
    }
    if conn.server().vendor == Vendor::MariaDb {
        create_settled(conn, schema)?;
    }
    if !is_empty(conn, schema)? {
        drop_settled(conn, schema)?;
        return Ok(None);
    }
    // The table is dropped with it.
    match conn.exec(format!("DROP DATABASE IF EXISTS `{schema}`")) {
        Ok(_) => Ok(None),
        Err(error @ Error::Server { .. }) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// Whether one of Refloat's own schemas holds nothing, apart from the table that
/// [`sync_definitions`] creates.
pub(crate) fn is_empty(conn: &mut Connection, schema: &str) -> Result<bool, Error> {
    let tables = conn.query_value(format!(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA='{schema}' AND TABLE_NAME<>'{SETTLED}'"
    ))?;
    Ok(tables.as_deref() == Some("0") && !holds_programs(conn, schema)?)
}

/// Creates the table whose creation brings earlier definitions to disk. Returns whether they are on
/// disk.
fn create_settled(conn: &mut Connection, schema: &str) -> Result<bool, Error> {
    let table = format!("`{schema}`.`{SETTLED}`");
    let create = |engine| format!("CREATE OR REPLACE TABLE {table} (a INT) ENGINE={engine}");
    // If only one engine is allowed (`enforce_storage_engine`), it is InnoDB.
    Ok(done(conn, &create("MEMORY"))? || done(conn, &create("InnoDB"))?)
}

fn done(conn: &mut Connection, sql: &str) -> Result<bool, Error> {
    match conn.exec(sql) {
        Ok(_) => Ok(true),
        Err(Error::Server { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Drops the table that [`sync_definitions`] created, if a power cut left it behind. This looks for
/// the table first, because a DDL statement would wait for any session that blocks DDL.
///
/// # Errors
/// The connection is lost.
pub fn drop_settled(conn: &mut Connection, schema: &str) -> Result<(), Error> {
    if is_somebodys(conn, schema)? {
        return Ok(());
    }
    let there = format!(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA='{schema}' AND TABLE_NAME='{SETTLED}'"
    );
    let dropped = match conn.query(there) {
        Ok(rows) if rows.is_empty() => return Ok(()),
        Ok(_) => conn.exec(format!("DROP TABLE IF EXISTS `{schema}`.`{SETTLED}`")),
        Err(error) => Err(error),
    };
    match dropped {
        Ok(_) | Err(Error::Server { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a user's table has the name that [`sync_definitions`] uses. Such a table is left alone.
fn is_somebodys(conn: &mut Connection, schema: &str) -> Result<bool, Error> {
    match is_namesake(conn, schema, SETTLED) {
        Ok(is_theirs) => Ok(is_theirs),
        // In case of doubt, drop nothing.
        Err(Error::Server { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}
