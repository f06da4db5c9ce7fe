//! The catalogue connection: in which session it is, and the definitions that it reads.

use std::sync::Arc;

use refloat_read::foreign;
use refloat_wire::{Connection, Error};

use super::Conductor;
use super::entry::Print;
use crate::error::LoadError;
use crate::session::Session;
use crate::table::Table;

/// In which session the catalogue connection is.
pub enum CatalogSession {
    /// One that somebody else has changed.
    Unknown,
    /// That of [`SHOW_SESSION`].
    Shows,
    /// One of the dump, as far as it matters to definitions.
    Alters(Arc<Session>),
}

/// Run before reading a definition to compare it. The server shows `TIMESTAMP` defaults in the
/// session's time zone and names in the quotes of its `sql_mode`, and some modes leave options out.
pub const SHOW_SESSION: &str = "SET SESSION time_zone = _utf8mb4'+00:00', SESSION sql_mode = ''";

impl Conductor<'_> {
    /// The definition of a table as anybody can read it, and the print of what the server shows.
    pub(crate) fn show_create(&mut self, table: &Table) -> Result<(String, Print), LoadError> {
        let shown = self.show_as_is(table)?;
        let print = Print::shown(&shown);
        let name = (table.db.as_str(), table.name.as_str());
        let text = foreign::corrected(&mut self.catalog, name, shown)
            .map_err(|error| unread(table, error))?;
        Ok((text, print))
    }

    /// The text of `SHOW CREATE TABLE`, whose foreign keys may be quoted wrongly.
    pub(crate) fn show_as_is(&mut self, table: &Table) -> Result<String, LoadError> {
        if !matches!(self.catalog_session, CatalogSession::Shows) {
            self.catalog_session = CatalogSession::Unknown;
            self.catalog
                .exec(SHOW_SESSION)
                .map_err(|error| unread(table, error))?;
            self.catalog_session = CatalogSession::Shows;
        }
        show(&mut self.catalog, table).map_err(|error| unread(table, error))
    }
}

/// What the server shows of a table.
pub fn show(conn: &mut Connection, table: &Table) -> Result<String, Error> {
    let result = conn.query(format!("SHOW CREATE TABLE {}", table.quoted()))?;
    // Defaults of binary columns are raw bytes.
    Ok(String::from_utf8_lossy(result.bytes(0, 1).unwrap_or_default()).into_owned())
}

fn unread(table: &Table, error: Error) -> LoadError {
    let doing = format!("reading the definition of table {}", table.label());
    LoadError::server(doing, error)
}
