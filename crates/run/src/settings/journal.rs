//! The journal: what was changed where, so that anybody can put it back.
//!
//! It stands in two places with the same content: `settings.json` in the run's folder, and a row of
//! `refloat.settings_journal` on the server itself. Either alone is enough to put everything back.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use refloat_wire::Connection;
use serde::{Deserialize, Serialize};

use super::facts::REDO_LOG;
use super::{Durability, SettingsError};
use crate::ghost::{drop_ghost, drop_settled, is_ghost, sync_definitions};
use crate::own::namesakes;
use crate::probe;
use crate::{Owner, RunDir, RunDirError, RunId};

/// Schema of our own on a target server.
pub const JOURNAL_SCHEMA: &str = "refloat";
/// Table of the journals of runs that have not put everything back yet.
pub const JOURNAL_TABLE: &str = "settings_journal";
/// Comment of the journal table when the schema was made along with it and may go with it.
const OUR_SCHEMA: &str = "refloat: this schema goes when it is empty";
/// A row is not larger than this; what is larger was not written by us.
const ROW_MAX: usize = 1 << 20;
/// Two starts of a server closer together than this are one: the figure is made of two clocks in whole seconds.
const START_TOLERANCE: i64 = 2;

/// A server, and the start of it that the settings live in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMark {
    /// `host:port` or socket, and user, as the run connected.
    pub peer: String,
    /// The server's own id, where it has one.
    pub uuid: Option<String>,
    /// `@@hostname`.
    pub hostname: String,
    /// `@@port`.
    pub port: u16,
    /// `@@datadir`.
    pub datadir: String,
    /// `@@version`.
    pub version: String,
    /// When the server started: seconds since 1970, by the server's clock.
    pub started: i64,
}

impl ServerMark {
    /// The server at the other side.
    pub(super) fn of(conn: &mut Connection) -> Result<Self, SettingsError> {
        let started = probe::server_started(conn)?.unwrap_or(0);
        let identity = conn.identity();
        Ok(Self {
            peer: conn.server().peer.clone(),
            uuid: identity.uuid.clone(),
            hostname: identity.hostname.clone(),
            port: identity.port,
            datadir: identity.datadir.clone(),
            version: identity.version.clone(),
            started,
        })
    }

    /// Whether this is the same installation (it may have been restarted or upgraded meanwhile).
    pub fn same_server(&self, other: &Self) -> bool {
        self.hostname == other.hostname
            && self.port == other.port
            && self.datadir == other.datadir
            && (self.uuid == other.uuid || self.uuid.is_none() || other.uuid.is_none())
    }

    /// Whether it is also the same start of it.
    pub fn same_start(&self, other: &Self) -> bool {
        (self.started - other.started).abs() <= START_TOLERANCE
    }
}

/// One changed setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The setting.
    pub name: String,
    /// Its value before.
    pub old: String,
    /// The value that was asked for.
    pub new: String,
    /// The value that was read back; `None`: the change had not been made, or not been confirmed, when the journal
    /// was written last.
    pub applied: Option<String>,
    /// Why it was changed.
    pub reason: String,
}

/// What a run changed on one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Number of this format.
    pub format: u32,
    /// The run.
    pub run: RunId,
    /// Its process.
    pub owner: Owner,
    /// The server.
    pub server: ServerMark,
    /// The level that was asked for.
    pub durability: Durability,
    /// When it was written first, RFC 3339.
    pub created: String,
    /// The changes, in the order they were made.
    pub changes: Vec<JournalEntry>,
    /// Whether a row on the server says the same.
    pub row: bool,
    /// Everything is back, or known to be nobody's to put back.
    pub closed: bool,
}

impl Journal {
    /// Whether the redo log was switched off: a server that ends then cannot be started again.
    pub fn redo_log_off(&self) -> bool {
        self.changes.iter().any(|change| change.name == REDO_LOG)
    }
}

/// Number of the format written here.
pub(super) const FORMAT: u32 = 1;

/// A run whose settings are still to be put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRun {
    /// Its journal.
    pub journal: Journal,
    /// Whether its process still works; `None`: it ran where this cannot be seen.
    pub alive: Option<bool>,
}

impl OpenRun {
    fn of(journal: Journal) -> Self {
        let alive = journal.owner.alive();
        Self { journal, alive }
    }
}

/// Runs under a state directory whose settings are still to be put back, oldest first. A journal that cannot be read is an
/// error: it may be the only trace of a change.
pub fn list(state_dir: &Path) -> Result<Vec<OpenRun>, SettingsError> {
    let mut open = Vec::new();
    for dir in RunDir::list(state_dir)? {
        if dir.has(RunDir::SETTINGS) {
            let journal: Journal = dir.read(RunDir::SETTINGS)?;
            if !journal.closed {
                open.push(OpenRun::of(journal));
            }
        }
    }
    Ok(open)
}

/// Runs whose settings on this server are still to be put back, by the server's own rows, oldest first.
pub fn list_on_server(conn: &mut Connection) -> Result<Vec<OpenRun>, SettingsError> {
    let here = ServerMark::of(conn)?;
    let open = rows(conn)?.into_iter().map(OpenRun::of);
    // Rows may have been replicated or copied here from another server.
    Ok(open
        .filter(|o| o.journal.server.same_server(&here))
        .collect())
}

/// All rows, of this server or not.
fn rows(conn: &mut Connection) -> Result<Vec<Journal>, SettingsError> {
    let exists = format!(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA='{JOURNAL_SCHEMA}' AND TABLE_NAME='{JOURNAL_TABLE}'"
    );
    if conn.query(exists)?.u64(0, 0) != Some(1) {
        return Ok(Vec::new());
    }
    // Somebody's table of this name holds no journal.
    if is_taken(conn)? {
        return Ok(Vec::new());
    }
    let all = format!(
        "SELECT run, IF(LENGTH(journal) > {ROW_MAX}, '', journal) FROM `{JOURNAL_SCHEMA}`.`{JOURNAL_TABLE}` ORDER BY run LIMIT 1000"
    );
    let result = match conn.query(all) {
        Err(error) if is_ghost(&error) => return Ok(Vec::new()),
        result => result?,
    };
    let mut found = Vec::new();
    for row in 0..result.len() {
        let run = String::from_utf8_lossy(result.bytes(row, 0).unwrap_or_default()).into_owned();
        let journal: Journal = serde_json::from_slice(result.bytes(row, 1).unwrap_or_default())
            .map_err(|e| SettingsError::BadRow {
                run: run.clone(),
                reason: e.to_string(),
            })?;
        if journal.run.as_str() != run || journal.format != FORMAT {
            let reason = "it was written by another version or names another run".to_owned();
            return Err(SettingsError::BadRow { run, reason });
        }
        found.push(journal);
    }
    Ok(found)
}

/// Whether somebody's table has the name of the journal's.
fn is_taken(conn: &mut Connection) -> Result<bool, SettingsError> {
    Ok(namesakes(conn, JOURNAL_SCHEMA)?.contains(JOURNAL_TABLE))
}

/// Nodes of a cluster have one table for all of them, and a run that changes several at once makes and removes it one node after the other: a
/// table that one of them has just made is not left over, and it is the last one that removes it.
static ROWS: Mutex<()> = Mutex::new(());

fn one_at_a_time() -> MutexGuard<'static, ()> {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` with this session's binary log off where the account may do that: the journal is about this server and
/// no other.
fn unlogged<T>(
    conn: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T, SettingsError>,
) -> Result<T, SettingsError> {
    let before = conn.query_value("SELECT @@SESSION.sql_log_bin")?;
    let off = before.as_deref() == Some("1") && conn.exec("SET SESSION sql_log_bin=0").is_ok();
    let result = work(conn);
    if off {
        conn.exec("SET SESSION sql_log_bin=1")?;
    }
    result
}

/// Writes the row; the schema and the table are made when they are missing. Autocommit makes it durable before this
/// returns, because it happens before any durability is relaxed.
pub(super) fn write_row(conn: &mut Connection, journal: &Journal) -> Result<(), SettingsError> {
    let hex = hex(
        &serde_json::to_vec(journal).map_err(|source| RunDirError::Json {
            path: RunDir::SETTINGS.into(),
            source,
        })?,
    );
    if is_taken(conn)? {
        return Err(SettingsError::PlaceTaken);
    }
    let _one = one_at_a_time();
    unlogged(conn, |conn| {
        drop_ghost(conn, &format!("`{JOURNAL_SCHEMA}`.`{JOURNAL_TABLE}`"))?;
        drop_settled(conn, JOURNAL_SCHEMA)?;
        // An empty one was left by a run that ended between removing the table and the schema.
        let ours = !schema_exists(conn)? || objects(conn)? == Some(0);
        let comment = if ours {
            conn.exec(format!("CREATE DATABASE IF NOT EXISTS `{JOURNAL_SCHEMA}`"))?;
            OUR_SCHEMA
        } else {
            ""
        };
        conn.exec(format!(
            "CREATE TABLE IF NOT EXISTS `{JOURNAL_SCHEMA}`.`{JOURNAL_TABLE}` (run VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin \
             NOT NULL PRIMARY KEY, journal LONGBLOB NOT NULL) ENGINE=InnoDB COMMENT='{comment}'"
        ))?;
        conn.exec(format!(
            "REPLACE INTO `{JOURNAL_SCHEMA}`.`{JOURNAL_TABLE}` (run, journal) VALUES ('{}', x'{hex}')",
            journal.run
        ))?;
        Ok(())
    })
}

/// Changes something in the journal of a run that means nothing (a blank behind the text), so that the server has something to write.
pub(super) fn touch(conn: &mut Connection, run: &RunId) -> Result<(), SettingsError> {
    unlogged(conn, |conn| {
        conn.exec(format!(
            "UPDATE `{JOURNAL_SCHEMA}`.`{JOURNAL_TABLE}` SET journal = CONCAT(journal, ' ') WHERE run = '{run}'"
        ))?;
        Ok(())
    })
}

/// How many rows the table has on every node of a cluster, which has the journals of all its nodes; `None` when this node is too far behind
/// the others to know.
fn rows_everywhere(conn: &mut Connection, table: &str) -> Result<Option<u64>, SettingsError> {
    let galera = conn.query("SHOW VARIABLES LIKE 'wsrep_on'")?;
    let galera = galera.str(0, 1) == Some("ON");
    if galera {
        // A row that another node removed a moment ago may still be here.
        conn.exec("SET @refloat_waits = @@SESSION.wsrep_sync_wait, SESSION wsrep_sync_wait = 1")?;
    }
    let rows = conn.query(format!("SELECT COUNT(*) FROM {table}"));
    if galera {
        conn.exec("SET SESSION wsrep_sync_wait = @refloat_waits")?;
    }
    match rows {
        Err(refloat_wire::Error::Server { .. }) if galera => Ok(None),
        rows => Ok(rows?.u64(0, 0)),
    }
}

fn schema_exists(conn: &mut Connection) -> Result<bool, SettingsError> {
    let schemas = format!(
        "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME='{JOURNAL_SCHEMA}'"
    );
    Ok(conn.query(schemas)?.u64(0, 0) != Some(0))
}

/// How many objects the schema holds.
fn objects(conn: &mut Connection) -> Result<Option<u64>, SettingsError> {
    let result = conn.query(format!(
        "SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA='{JOURNAL_SCHEMA}') + \
         (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA='{JOURNAL_SCHEMA}') + \
         (SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA='{JOURNAL_SCHEMA}')"
    ))?;
    Ok(result.u64(0, 0))
}

/// Removes the row, the table when it holds no other, and the schema when it is ours and holds nothing else. What a run that ended in the
/// middle of this has removed already is no error, and neither is a schema that cannot be removed with nothing in it: a power cut may have left
/// a file there that the server does not know. Why it stays is returned.
pub(super) fn remove_row(
    conn: &mut Connection,
    run: &RunId,
) -> Result<Option<SettingsError>, SettingsError> {
    let _one = one_at_a_time();
    unlogged(conn, |conn| {
        let table = format!("`{JOURNAL_SCHEMA}`.`{JOURNAL_TABLE}`");
        drop_ghost(conn, &table)?;
        let comment = conn.query(format!(
            "SELECT TABLE_COMMENT FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA='{JOURNAL_SCHEMA}' AND TABLE_NAME='{JOURNAL_TABLE}'"
        ))?;
        let ours = if comment.is_empty() {
            drop_settled(conn, JOURNAL_SCHEMA)?;
            // An empty schema without the table is what was left between removing the two.
            schema_exists(conn)?
        } else {
            conn.exec(format!("DELETE FROM {table} WHERE run='{run}'"))?;
            if rows_everywhere(conn, &table)? != Some(0) {
                return Ok(None);
            }
            conn.exec(format!("DROP TABLE {table}"))?;
            sync_definitions(conn, JOURNAL_SCHEMA)?;
            comment.bytes(0, 0) == Some(OUR_SCHEMA.as_bytes())
        };
        if !ours || objects(conn)? != Some(0) {
            return Ok(None);
        }
        match conn.exec(format!("DROP DATABASE IF EXISTS `{JOURNAL_SCHEMA}`")) {
            Ok(_) => Ok(None),
            Err(error @ refloat_wire::Error::Server { .. }) => Ok(Some(error.into())),
            Err(error) => Err(error.into()),
        }
    })
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        out.push(char::from(DIGITS[usize::from(b >> 4)]));
        out.push(char::from(DIGITS[usize::from(b & 15)]));
    }
    out
}
