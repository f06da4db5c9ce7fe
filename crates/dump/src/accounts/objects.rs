//! Finds grants on dropped tables and columns. Servers keep such grants, but refuse to grant them
//! again.

use std::collections::{HashMap, HashSet};

use refloat_schema::accounts::{Granted, granted};
use refloat_sqltext::quote_ident;
use refloat_wire::codes::{NO_SUCH_TABLE, UNKNOWN_DATABASE};
use refloat_wire::{Connection, Error};

use crate::error::DumpError;

/// Columns of the tables that grants name, looked up on demand.
#[derive(Default)]
pub struct Objects(HashMap<(String, String), Columns>);

/// Lookup result for one table.
enum Columns {
    /// Column names in lower case.
    These(HashSet<String>),
    /// The table does not exist.
    NoTable,
    /// Unknown: the view is invalid, or this account may not see it.
    Unknown,
}

impl Objects {
    /// The table or column that a grant names and that no longer exists; `None` if the grant can be
    /// restored.
    ///
    /// # Errors
    /// The connection was lost.
    pub fn missing(
        &mut self,
        conn: &mut Connection,
        grant: &str,
    ) -> Result<Option<String>, DumpError> {
        let Some(granted) = granted(grant) else {
            return Ok(None);
        };
        let Granted {
            database,
            table,
            columns,
            creates,
        } = granted;
        let key = (database, table);
        if !self.0.contains_key(&key) {
            let found = ask(conn, &key)
                .map_err(|error| DumpError::server("looking for tables of grants", error))?;
            self.0.insert(key.clone(), found);
        }
        let label = format!("{}.{}", key.0, key.1);
        Ok(match self.0.get(&key) {
            // `CREATE` may be granted on a table that does not exist yet.
            Some(Columns::NoTable) if !creates => Some(format!("table {label}")),
            Some(Columns::These(there)) => {
                let gone = columns
                    .iter()
                    .find(|name| !there.contains(&name.to_lowercase()));
                gone.map(|name| format!("column {name} of table {label}"))
            }
            _ => None,
        })
    }
}

fn ask(conn: &mut Connection, (database, table): &(String, String)) -> Result<Columns, Error> {
    let query = format!(
        "SHOW COLUMNS FROM {}.{}",
        quote_ident(database),
        quote_ident(table)
    );
    match conn.query(query) {
        Ok(found) => Ok(Columns::These(
            found.texts(0).map(str::to_lowercase).collect(),
        )),
        Err(error) if matches!(error.server_code(), Some(NO_SUCH_TABLE | UNKNOWN_DATABASE)) => {
            Ok(Columns::NoTable)
        }
        Err(error) if error.server_code().is_some() && !error.is_lost_connection() => {
            Ok(Columns::Unknown)
        }
        Err(error) => Err(error),
    }
}
