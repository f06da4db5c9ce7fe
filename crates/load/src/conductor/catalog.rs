//! The catalogue connection: in which session it is, and the definitions that it reads.

use std::sync::Arc;

use refloat_read::foreign;
use refloat_wire::{Connection, Error, ServerInfo};

use super::entry::Print;
use crate::context::Context;
use crate::error::LoadError;
use crate::session::Session;
use crate::table::Table;

/// In which session the catalogue connection is.
enum CatalogSession {
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

/// The catalogue connection, which looks at the server and changes definitions without touching the
/// dump's session.
pub struct Catalog {
    pub ctx: Arc<Context>,
    pub conn: Connection,
    session: CatalogSession,
}

impl Catalog {
    /// A catalogue on a connection whose session is not known.
    pub fn new(ctx: &Arc<Context>, conn: Connection) -> Self {
        Self {
            ctx: Arc::clone(ctx),
            conn,
            session: CatalogSession::Unknown,
        }
    }

    /// The server it is connected to.
    pub fn server(&self) -> &ServerInfo {
        self.conn.server()
    }

    /// Gives the connection the parts of the dump's session that matter to definitions.
    pub fn enter(&mut self, session: &Arc<Session>) -> Result<(), LoadError> {
        let is_there = matches!(&self.session,
            CatalogSession::Alters(current) if Arc::ptr_eq(current, session));
        if !is_there {
            let failed = |error| LoadError::server("preparing the session for definitions", error);
            self.session = CatalogSession::Unknown;
            self.conn.exec(session.altering_set()).map_err(failed)?;
            self.session = CatalogSession::Alters(Arc::clone(session));
        }
        Ok(())
    }

    /// Notes that what follows changes the session.
    pub fn leave_session(&mut self) {
        self.session = CatalogSession::Unknown;
    }

    /// The definition of a table as anybody can read it, and the print of what the server shows.
    pub fn show_create(&mut self, table: &Table) -> Result<(String, Print), LoadError> {
        let shown = self.show_as_is(table)?;
        let print = Print::shown(&shown);
        let name = (table.db.as_str(), table.name.as_str());
        let text = foreign::corrected(&mut self.conn, name, shown)
            .map_err(|error| unread(table, error))?;
        Ok((text, print))
    }

    /// The text of `SHOW CREATE TABLE`, whose foreign keys may be quoted wrongly.
    pub fn show_as_is(&mut self, table: &Table) -> Result<String, LoadError> {
        if !matches!(self.session, CatalogSession::Shows) {
            self.session = CatalogSession::Unknown;
            self.conn
                .exec(SHOW_SESSION)
                .map_err(|error| unread(table, error))?;
            self.session = CatalogSession::Shows;
        }
        show(&mut self.conn, table).map_err(|error| unread(table, error))
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
