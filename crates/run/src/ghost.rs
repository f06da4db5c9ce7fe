//! Tables that are only names: the server has a definition, and the engine knows no such table.
//!
//! A power cut brings back the file of a definition after its table was dropped. MariaDB knows such tables, and refuses everything with
//! them but to drop them.

use refloat_wire::{Connection, Error};

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
