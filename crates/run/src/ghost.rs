//! Tables that are only names: the server has a definition, and the engine knows no such table.
//!
//! A power cut brings back the file of a definition after its table was dropped. MariaDB knows such tables, and refuses everything with
//! them but to drop them.

use refloat_wire::{Connection, Error, Vendor};

use crate::own::namesakes;

/// `ER_NO_SUCH_TABLE_IN_ENGINE`.
pub const GHOST: u16 = 1932;

/// Whether this is what a server says of such a table.
pub fn is_ghost(error: &Error) -> bool {
    error.server_code() == Some(GHOST)
}

/// Drops the table with this quoted name where it is only a name. Whether it is there at all, and may be read, is found out by those who
/// want something of it.
///
/// # Errors
/// It cannot be dropped, or the connection is lost.
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

/// The table that [`sync_definitions`] makes for a moment.
pub(crate) const SETTLED: &str = "removal_settled";

/// Brings to the disk which files of definitions there are, and under which names: of tables that were altered, renamed or dropped, of
/// views and triggers. `schema` is one of Refloat's own.
///
/// MariaDB syncs its logs and the file of a new definition; then it gives the file its name, or removes one, says in its log that the
/// statement is done, and nobody syncs the folder. A power cut takes that back. A table that was altered has its old definition
/// again then (no index that was added can be used), one that was renamed no rows, a trigger or view is not there. A file of rows that comes
/// back without the engine knowing it is worse than a definition: no table of its name can be made again, nor the database dropped, until a
/// person removes it.
///
/// A definition is synced while it is written (`sync_frm`), its folder with it, and file systems with one journal (ext4, XFS) bring with it to
/// the disk all that was renamed and removed before, wherever. So one is written of a table that has no other file, and goes again. It is
/// best effort: what the server refuses here changes nothing about what was done. MySQL keeps definitions in its engine, whose log has
/// them.
///
/// Returns whether they are there.
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
    let table = format!("`{schema}`.`{SETTLED}`");
    let create = |engine| format!("CREATE OR REPLACE TABLE {table} (a INT) ENGINE={engine}");
    // Where only one engine is allowed (`enforce_storage_engine`) it is InnoDB.
    let synced = done(conn, &create("MEMORY"))? || done(conn, &create("InnoDB"))?;
    done(conn, &format!("DROP TABLE IF EXISTS {table}"))?;
    Ok(synced)
}

/// Whether the server has done this.
fn done(conn: &mut Connection, sql: &str) -> Result<bool, Error> {
    match conn.exec(sql) {
        Ok(_) => Ok(true),
        Err(Error::Server { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the table that [`sync_definitions`] made, when a power cut left it. It is looked for first: a statement that changes definitions
/// would wait for whoever keeps everybody from that.
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

/// Whether the name of the table that [`sync_definitions`] makes is taken by somebody's, which stays.
fn is_somebodys(conn: &mut Connection, schema: &str) -> Result<bool, Error> {
    match namesakes(conn, schema) {
        Ok(names) => Ok(names.contains(SETTLED)),
        // What cannot be told is not dropped.
        Err(Error::Server { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}
