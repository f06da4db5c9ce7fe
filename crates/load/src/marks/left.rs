//! The marks that a proven load leaves until its result is recorded.

use refloat_wire::{Connection, Error};
use serde::{Deserialize, Serialize};

use refloat_run::ghost::drop_emptied;

use super::{ROWS, SCHEMA, STEPS, hex, is_absent, log, sync_definitions, takeover};

/// The marks of a proven load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftMarks {
    /// The id of the load that wrote them.
    pub run: String,
    /// Whether its rows were written to the binary log.
    pub rows_logged: bool,
    /// Whether the tables of marks were created by statements in the binary log.
    pub tables_logged: bool,
}

impl LeftMarks {
    /// Removes what is recorded about the load, and the schema if it holds nothing of another load.
    /// Where replicas may lack the rows, their removal is kept out of the binary log. What is
    /// already gone is not an error.
    ///
    /// # Errors
    /// Those of the server.
    pub fn remove(&self, conn: &mut Connection) -> Result<(), Error> {
        takeover::with_schema(conn, |conn| self.remove_all(conn))
    }

    fn remove_all(&self, conn: &mut Connection) -> Result<(), Error> {
        let (rows_logged, tables_logged) = (self.rows_logged, self.tables_logged);
        let run = hex(self.run.as_bytes());
        if !rows_logged {
            log(conn, false);
        }
        // A load without marks is never resumed: what it did must be on disk before they go.
        sync_definitions(conn, SCHEMA)?;
        // Steps first: one of them says what the load is, and marks without it belong to no load.
        for table in [STEPS, ROWS] {
            match conn.exec(format!("DELETE FROM {table} WHERE run = {run}")) {
                Err(error) if is_absent(&error) => return Ok(()),
                other => other?,
            };
        }
        let left = conn.query_value(format!("SELECT COUNT(*) FROM {STEPS}"))?;
        if left.as_deref() != Some("0") {
            return Ok(());
        }
        if tables_logged && !rows_logged {
            log(conn, true);
        }
        conn.exec(format!("DROP TABLE IF EXISTS {STEPS}, {ROWS}"))?;
        drop_emptied(conn, SCHEMA)?.map_or(Ok(()), Err)
    }
}
