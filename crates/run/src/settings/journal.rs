//! The journal of settings: what a run changed where, so that anyone can put it back.
//!
//! It is kept in two places with the same content: `settings.json` in the run's folder, and a row
//! of `refloat.settings_journal` on the server itself. Either one is enough to put everything back.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use refloat_wire::Connection;
use serde::{Deserialize, Serialize};

use super::facts::REDO_LOG;
use super::{Durability, SettingsError};
use crate::ghost::{drop_emptied, drop_ghost, drop_settled, is_empty, is_ghost, sync_definitions};
use crate::own_tables::{JOURNAL_SCHEMA, JOURNAL_TABLE, is_namesake};
use crate::probe;
use crate::{Owner, RunDir, RunDirError, RunId};

/// Comment on the journal table if Refloat created the schema along with it and may drop both.
const OUR_SCHEMA: &str = "refloat: this schema goes when it is empty";
/// Largest row that is read, in bytes. Refloat writes no larger ones.
const ROW_MAX: usize = 1 << 20;
/// Start times of a server that differ by no more seconds than this are the same start: they are
/// computed from two clocks that count whole seconds.
const START_TOLERANCE: i64 = 2;

/// Identifies a server, and the start of it since which the settings are in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMark {
    /// `host:port` or socket, and user, as the run connected.
    pub peer: String,
    /// The server's own UUID, if it has one.
    pub uuid: Option<String>,
    /// `@@hostname`.
    pub hostname: String,
    /// `@@port`.
    pub port: u16,
    /// `@@datadir`.
    pub datadir: String,
    /// `@@version`.
    pub version: String,
    /// When the server started, in seconds since 1970 by its own clock; 0 if unknown.
    pub started: i64,
}

impl ServerMark {
    /// The server that `conn` is connected to.
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

    /// Whether both are the same installation, which may have been restarted or upgraded in
    /// between.
    pub fn same_server(&self, other: &Self) -> bool {
        self.hostname == other.hostname
            && self.port == other.port
            && self.datadir == other.datadir
            && (self.uuid == other.uuid || self.uuid.is_none() || other.uuid.is_none())
    }

    /// Whether both are also the same start of that installation.
    pub fn same_start(&self, other: &Self) -> bool {
        (self.started - other.started).abs() <= START_TOLERANCE
    }
}

/// One changed setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The global variable, or `redo_log`.
    pub name: String,
    /// Value before the change.
    pub old: String,
    /// Value that was asked for.
    pub new: String,
    /// Value that was read back. `None` if the change had not been made, or not been confirmed,
    /// when the journal was last written.
    pub applied: Option<String>,
    /// Why it was changed.
    pub reason: String,
}

/// What a run changed on one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Version of the journal format.
    pub format: u32,
    /// The run that made the changes.
    pub run: RunId,
    /// The process that executes the run.
    pub owner: Owner,
    /// The server that was changed.
    pub server: ServerMark,
    /// The durability level that was asked for.
    pub durability: Durability,
    /// When the journal was first written, RFC 3339.
    pub created: String,
    /// The changes, in the order they were made.
    pub changes: Vec<JournalEntry>,
    /// Whether a row on the server holds the same content.
    pub row: bool,
    /// Whether everything is back, or known not to need putting back.
    pub closed: bool,
}

impl Journal {
    /// Whether the redo log was disabled: a server that crashes in that state cannot be started
    /// again.
    pub fn redo_log_off(&self) -> bool {
        self.changes.iter().any(|change| change.name == REDO_LOG)
    }
}

pub(super) const FORMAT: u32 = 1;

/// A run whose settings are not back yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRun {
    /// The run's journal.
    pub journal: Journal,
    /// Whether the run's process is still running; `None` if it ran where that cannot be seen.
    pub alive: Option<bool>,
}

impl OpenRun {
    fn of(journal: Journal) -> Self {
        let alive = journal.owner.alive();
        Self { journal, alive }
    }
}

/// Runs under a state directory whose settings are not back yet, oldest first. A journal that
/// cannot be read is an error: it may be the only trace of a change.
pub fn list(state_dir: &Path) -> Result<Vec<OpenRun>, SettingsError> {
    let (open, damaged) = list_readable(state_dir)?;
    damaged.into_iter().next().map_or(Ok(open), Err)
}

/// Hint for a journal that cannot be read.
pub const DAMAGED: &str =
    "Look in that file for what was changed, put it back by hand, and remove the file.";

/// Like [`list`], but returns readable journals and the errors of the others.
pub fn list_readable(
    state_dir: &Path,
) -> Result<(Vec<OpenRun>, Vec<SettingsError>), SettingsError> {
    let (mut open, mut damaged) = (Vec::new(), Vec::new());
    for dir in RunDir::list_with(state_dir, RunDir::SETTINGS)? {
        match dir.read::<Journal>(RunDir::SETTINGS) {
            Ok(journal) if journal.closed => {}
            Ok(journal) => open.push(OpenRun::of(journal)),
            Err(error) => damaged.push(error.into()),
        }
    }
    Ok((open, damaged))
}

/// Runs whose settings on this server are not back yet, according to the server's own rows, oldest
/// first.
pub fn list_on_server(conn: &mut Connection) -> Result<Vec<OpenRun>, SettingsError> {
    let here = ServerMark::of(conn)?;
    let open = rows(conn)?.into_iter().map(OpenRun::of);
    // Rows may have been replicated or copied here from another server.
    Ok(open
        .filter(|o| o.journal.server.same_server(&here))
        .collect())
}

/// All rows, whether they are about this server or another.
fn rows(conn: &mut Connection) -> Result<Vec<Journal>, SettingsError> {
    let exists = format!(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA='{JOURNAL_SCHEMA}' AND TABLE_NAME='{JOURNAL_TABLE}'"
    );
    if conn.query(exists)?.u64(0, 0) != Some(1) {
        return Ok(Vec::new());
    }
    // A table of this name that is not Refloat's holds no journal.
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

/// Whether a table that is not Refloat's has the name of the journal table.
fn is_taken(conn: &mut Connection) -> Result<bool, SettingsError> {
    Ok(is_namesake(conn, JOURNAL_SCHEMA, JOURNAL_TABLE)?)
}

/// The nodes of a cluster share one journal table, and a run that changes several nodes at once
/// must create and drop it for one node at a time. Otherwise one node takes the table that another
/// has just created for a leftover, or drops it although it is not the last.
static ROWS: Mutex<()> = Mutex::new(());

fn one_at_a_time() -> MutexGuard<'static, ()> {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` with this session's binary log off, if the account may do that: the journal concerns
/// this server and no other.
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

/// Writes the row; creates the schema and the table if they are missing. Autocommit makes the row
/// durable before this returns, because this runs before any durability is relaxed.
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
        // An empty schema was left by a run that ended between dropping the table and the schema.
        let ours = !schema_exists(conn)? || is_empty(conn, JOURNAL_SCHEMA)?;
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

/// Makes a meaningless change to a run's journal (a trailing blank), so that the server has
/// something to write.
pub(super) fn touch(conn: &mut Connection, run: &RunId) -> Result<(), SettingsError> {
    unlogged(conn, |conn| {
        conn.exec(format!(
            "UPDATE `{JOURNAL_SCHEMA}`.`{JOURNAL_TABLE}` SET journal = CONCAT(journal, ' ') WHERE run = '{run}'"
        ))?;
        Ok(())
    })
}

/// Number of rows of the table on all nodes of a cluster, which holds the journals of all its
/// nodes. `None` if this node is too far behind the others to know.
fn rows_everywhere(conn: &mut Connection, table: &str) -> Result<Option<u64>, SettingsError> {
    let galera = conn.query("SHOW VARIABLES LIKE 'wsrep_on'")?;
    let galera = galera.str(0, 1) == Some("ON");
    if galera {
        // A row that another node removed a moment ago may still be visible here.
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

/// Removes the row; drops the table if it holds no other, and the schema if it is ours and empty.
/// It is not an error if a run that ended halfway has already removed some of this. Nor is it an
/// error if the empty schema cannot be dropped, because a power cut may have left a file there that
/// the server does not know; the server's error is then returned as `Ok`.
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
            // An empty schema without the table was left between dropping the two.
            schema_exists(conn)? && is_empty(conn, JOURNAL_SCHEMA)?
        } else {
            conn.exec(format!("DELETE FROM {table} WHERE run='{run}'"))?;
            if rows_everywhere(conn, &table)? != Some(0) {
                return Ok(None);
            }
            conn.exec(format!("DROP TABLE {table}"))?;
            let ours = comment.bytes(0, 0) == Some(OUR_SCHEMA.as_bytes());
            if !ours {
                sync_definitions(conn, JOURNAL_SCHEMA)?;
            }
            ours
        };
        if !ours {
            return Ok(None);
        }
        Ok(drop_emptied(conn, JOURNAL_SCHEMA)?.map(SettingsError::from))
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
