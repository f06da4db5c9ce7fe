//! The catalogue connection: the session that it is in, and the queries that run on it.

use std::sync::Arc;

use refloat_read::foreign;
use refloat_sqltext::literal;
use refloat_wire::codes::{NO_SUCH_TABLE, UNKNOWN_DATABASE};
use refloat_wire::{Connection, Error, ServerInfo};

use super::entry::Print;
use super::ledger::Database;
use super::name::{TableKey, quoted_name};
use crate::context::Context;
use crate::error::LoadError;
use crate::options::ExistingPolicy;
use crate::programs::Contents;
use crate::session::Session;
use crate::table::Table;

/// The session that the catalogue connection is in.
enum CatalogSession {
    /// Some other session, or one that is unknown.
    Unknown,
    /// That of [`SHOW_SESSION`], for showing definitions.
    Shows,
    /// The dump's, as far as it matters to definitions.
    Alters(Arc<Session>),
}

/// Run before reading a definition to compare it. The server shows `TIMESTAMP` defaults in the
/// session's time zone and names in the quotes of its `sql_mode`, and some modes leave options out.
pub const SHOW_SESSION: &str = "SET SESSION time_zone = _utf8mb4'+00:00', SESSION sql_mode = ''";

/// The catalogue connection, which queries the server and changes definitions without touching the
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

    /// Notes that the statements that follow change the session.
    pub fn leave_session(&mut self) {
        self.session = CatalogSession::Unknown;
    }

    /// The definition of a table with its foreign keys quoted correctly, and the print of what the
    /// server shows.
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

    /// Lists what a database holds. One that does not exist holds nothing; it is about to be
    /// created.
    pub fn look(&mut self, database: &str) -> Result<Database, LoadError> {
        let triggers = self.ctx.options.existing == ExistingPolicy::Append;
        let contents = Contents::read(&mut self.conn, database, triggers).map_err(|error| {
            LoadError::server(format!("listing what database {database} holds"), error)
        })?;
        Ok(Database {
            contents: contents.unwrap_or_default(),
            judged: false,
        })
    }

    /// Whether a table of this name exists now.
    pub fn is_there(&mut self, key: &TableKey) -> Result<bool, LoadError> {
        match self
            .conn
            .query(format!("SHOW COLUMNS FROM {}", quoted_name(key)))
        {
            Ok(_) => Ok(true),
            // ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR.
            Err(error) if matches!(error.server_code(), Some(NO_SUCH_TABLE | UNKNOWN_DATABASE)) => {
                Ok(false)
            }
            Err(error) => Err(LoadError::server(
                format!("looking for table {}.{}", key.0, key.1),
                error,
            )),
        }
    }

    pub fn count(&mut self, quoted: &str) -> Result<u64, LoadError> {
        let value = self
            .conn
            .query_value(format!("SELECT COUNT(*) FROM {quoted}"))
            .map_err(|error| LoadError::server(format!("counting the rows of {quoted}"), error))?;
        Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0))
    }

    /// Whether the server uses a unique key in place of the missing primary key.
    pub fn has_key_in_its_place(&mut self, table: &Table) -> Result<bool, Error> {
        let keys = self.conn.query(format!(
            "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} AND NON_UNIQUE = 0 \
             AND INDEX_TYPE <> 'HASH' GROUP BY INDEX_NAME HAVING SUM(NULLABLE = 'YES' OR SUB_PART IS NOT NULL) = 0 LIMIT 1",
            literal(&table.db),
            literal(&table.name)
        ))?;
        Ok(!keys.is_empty())
    }

    /// Whether a name is that of a view now.
    pub fn is_view(&mut self, key: &TableKey) -> Result<bool, LoadError> {
        let kind = self
            .conn
            .query_value(format!(
                "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
                literal(&key.0),
                literal(&key.1)
            ))
            .map_err(|error| {
                LoadError::server(format!("looking at table {}.{}", key.0, key.1), error)
            })?;
        Ok(kind.is_some_and(|kind| kind.contains("VIEW")))
    }
}

/// What the server shows as the definition of a table.
pub fn show(conn: &mut Connection, table: &Table) -> Result<String, Error> {
    let result = conn.query(format!("SHOW CREATE TABLE {}", table.quoted()))?;
    // Defaults of binary columns are raw bytes.
    Ok(String::from_utf8_lossy(result.bytes(0, 1).unwrap_or_default()).into_owned())
}

fn unread(table: &Table, error: Error) -> LoadError {
    let doing = format!("reading the definition of table {}", table.label());
    LoadError::server(doing, error)
}
