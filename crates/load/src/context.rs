//! State shared by the threads of one load.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use refloat_run::cancel::{HookGuard, abandonable};
use refloat_run::outcome::Bounded;
use refloat_run::phases::Phases;
use refloat_run::{Cancel, Event, Events, Progress, probe};
use refloat_schema::Difference;
use refloat_sqltext::InsertVerb;
use refloat_wire::codes::{DUPLICATE_ENTRY, UNKNOWN_VARIABLE};
use refloat_wire::{Connection, Identity, OkInfo, Vendor, Warning};

use super::chunk::Chunk;
use super::chunk_size::ChunkSize;
use super::error::LoadError;
use super::galera::Replicated;
use super::marks::{self, Marks};
use super::options::{IndexMode, LoadOptions, OnError, WritePath};
use super::outcome::{LoadWarning, StatementFailure};
use super::table::Table;
use super::writer::Written;

/// Warnings reported per statement.
const WARNINGS_FETCHED: usize = 20;
/// Warnings about the notation of a value, not about the value: `ER_WARN_DEPRECATED_SYNTAX`,
/// `ER_DEPRECATED_UTF8_ALIAS`, `ER_DEPRECATED_NATIONAL`, `ER_WARN_DEPRECATED_DATETIME_DELIMITER`,
/// `ER_WARN_DEPRECATED_SUPERFLUOUS_DELIMITER`; and MySQL's about engines that are combined in a
/// transaction, such as a `MyISAM` table and a mark.
pub const NOT_ABOUT_VALUES: &[u16] = &[1287, 3719, 3720, 4095, 4096, 6414];
/// `ER_INVALID_CHARACTER_STRING`: MySQL's warning about a literal whose bytes are not valid text.
/// In a strict session a text column refuses such a literal with an error; a binary column stores
/// it unchanged. Dump tools before 5.7 do not write `_binary` before binary literals. The server
/// gives the same warning about values that it computes from such bytes, and there the warning
/// means a changed value.
const NO_TEXT: u16 = 1300;
/// The first statement of every connection of a load, so that it inherits nothing from the server's
/// defaults.
const SESSION_INIT: &str = "SET NAMES utf8mb4, SESSION autocommit = 1, SESSION sql_mode = '', SESSION wait_timeout = 86400, \
     SESSION net_read_timeout = 3600, SESSION net_write_timeout = 3600, SESSION sql_select_limit = 18446744073709551615, \
     SESSION sql_big_selects = 1, SESSION sql_safe_updates = 0, SESSION sql_auto_is_null = 0, SESSION completion_type = 0";

/// For a connection that first only inspects the server, and becomes a session of the load later.
const PATIENT: &str = "SET SESSION wait_timeout = 86400, SESSION net_read_timeout = 3600, SESSION net_write_timeout = 3600";

/// Waits before reads, definitions and writes of any kind (the bits of `wsrep_sync_wait`).
const WAIT_FOR_NODE: &str = "SET SESSION wsrep_sync_wait = 15";

/// Why one part of a load ends when another one has failed.
pub const OTHER_FAILED: &str = "another part of the load failed";
/// Most seconds by which two answers about the server's start time may differ.
const RESTART_TOLERANCE: i64 = 3;

/// What stays the same for all threads from the beginning of a load to its end.
pub struct Setup {
    /// The options of this load.
    pub options: LoadOptions,
    /// Name of the source, for messages.
    pub source: String,
    /// Ends the load early.
    pub cancel: Cancel,
    /// How far the run is, for the progress display.
    pub progress: Progress,
    /// Notes, warnings and other events of the run.
    pub events: Events,
    /// The current phase of the run, and the time spent in each.
    pub phases: Arc<Phases>,
    /// Identity of the server that the first connection reached; all others must reach the same
    /// one.
    pub identity: Identity,
    /// Whether the server runs on this machine, so that its folders and its process can be
    /// examined.
    pub server_is_local: bool,
    /// The path that rows take unless something about them rules it out.
    pub write_path: WritePath,
    /// The search for a good chunk size.
    pub chunk_size: Arc<ChunkSize>,
    /// Bytes of the dump that are finished: statements run, rows committed.
    pub done_bytes: Arc<AtomicU64>,
    /// Every session sets `sql_log_bin=0`.
    pub binlog_off: bool,
    /// Bytes of memory that all index builds together may sort in, on servers where that can be
    /// set.
    pub index_memory: u64,
    /// The marks on the target that record which rows are committed; `None` if the account may not
    /// keep them.
    pub marks: Option<Marks>,
    /// When the server started, in seconds since 1970 by its own clock.
    pub server_started: Option<i64>,
    /// Connection id that the server gave the first connection.
    pub first_connection: u64,
    /// The cluster that the rows are replicated in, if any.
    pub cluster: Option<Replicated>,
}

/// What the threads of one load share.
pub struct Context {
    setup: Setup,
    counts: Counts,
    lists: Mutex<Lists>,
    /// Whether a part of the load has failed, so that the others must not wait for it.
    failed: AtomicBool,
    /// See [`Self::binlog_format`]. The server is asked only once.
    binlog_format: OnceLock<String>,
}

impl std::ops::Deref for Context {
    type Target = Setup;
    fn deref(&self) -> &Setup {
        &self.setup
    }
}

#[derive(Default)]
struct Counts {
    source_wait_micros: AtomicU64,
    server_wait_micros: AtomicU64,
    retries: AtomicU64,
    slots: AtomicUsize,
    newest_connection: AtomicU64,
    chunks: AtomicU64,
    rows: AtomicU64,
    as_it_stands: AtomicU64,
}

#[derive(Default)]
struct Lists {
    warnings: Bounded<LoadWarning>,
    failures: Bounded<StatementFailure>,
    differences: Bounded<Difference>,
    paths: BTreeMap<&'static str, (WritePath, u64)>,
    /// For each reason why first rows were not compared: those tables.
    not_compared: BTreeMap<String, BTreeSet<String>>,
    /// Codes of warnings that change nothing.
    harmless: BTreeSet<u16>,
}

/// Totals over all threads.
pub struct Tally {
    /// Chunks that were retried.
    pub retries: u64,
    /// Chunks committed.
    pub chunks: u64,
    /// Rows committed.
    pub rows: u64,
    /// Warnings of the server.
    pub warnings: Bounded<LoadWarning>,
    /// Failures after which the load continued.
    pub failures: Bounded<StatementFailure>,
    /// Definitions that differ from what the dump asked for.
    pub differences: Bounded<Difference>,
    /// Committed rows whose text was sent exactly as in the source.
    pub as_it_stands: u64,
    /// Rows by write path.
    pub paths: Vec<(WritePath, u64)>,
    /// First rows that were not compared, with the reason, as sentences.
    pub not_compared: Vec<String>,
}

impl Context {
    pub fn new(setup: Setup) -> Self {
        let counts = Counts::default();
        counts
            .newest_connection
            .store(setup.first_connection, Ordering::Relaxed);
        Self {
            setup,
            counts,
            lists: Mutex::default(),
            failed: AtomicBool::new(false),
            binlog_format: OnceLock::new(),
        }
    }

    /// A number for another connection, counting from 1.
    pub fn next_slot(&self) -> usize {
        self.counts.slots.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes the lock for this connection of the load; waits until its previous holder has ended.
    pub fn hold(&self, conn: &mut Connection, slot: usize) -> Result<(), LoadError> {
        let Some(marks) = &self.marks else {
            return Ok(());
        };
        let failed = |error| LoadError::server("taking the lock of a connection", error);
        marks::hold_or_end(conn, marks.run(), slot).map_err(failed)
    }

    /// Opens a session of its own on the server that the load began with.
    pub fn connect(&self, what: &str) -> Result<Connection, LoadError> {
        let failed = |error| {
            LoadError::server(
                format!("connecting {what} to {}", self.options.target.describe()),
                error,
            )
        };
        let newest = self.counts.newest_connection.load(Ordering::SeqCst);
        let target = self.options.target.clone();
        let connected = abandonable(&self.cancel, move || Connection::connect(&target));
        let mut conn = connected
            .ok_or_else(|| self.interrupted())?
            .map_err(failed)?;
        match &self.cluster {
            Some(cluster) if self.options.galera.through_proxy => {
                cluster.expect_member(&mut conn)?;
            }
            _ => {
                conn.expect_identity(&self.identity).map_err(failed)?;
                self.expect_newer(&conn, newest)?;
            }
        }
        init_session(&mut conn, self.binlog_off).map_err(failed)?;
        self.read_what_others_wrote(&mut conn)?;
        Ok(conn)
    }

    /// Behind a load balancer, a connection may reach another node than the previous one did. Makes
    /// that node apply what was committed elsewhere before it answers.
    pub fn read_what_others_wrote(&self, conn: &mut Connection) -> Result<(), LoadError> {
        if self.cluster.is_none() || !self.options.galera.through_proxy {
            return Ok(());
        }
        conn.exec(WAIT_FOR_NODE)
            .map(drop)
            .map_err(|error| LoadError::server("asking the node to wait for the others", error))
    }

    /// Whether a table that starts now gets its indexes after its rows.
    pub fn defers_indexes(&self) -> bool {
        match self.options.indexes {
            IndexMode::Deferred => true,
            IndexMode::Inline => false,
            IndexMode::Auto => {
                let cluster = self.cluster.as_ref();
                cluster.is_none_or(|cluster| !cluster.pace.is_on())
            }
        }
    }

    /// Waits until the other nodes of the cluster have caught up.
    pub fn keep_pace(&self, is_over: impl Fn() -> bool) {
        if let Some(cluster) = &self.cluster {
            cluster.pace.wait(&self.cancel, is_over);
            self.chunk_size.stay_below(cluster.pace.bytes());
        }
    }

    /// Kills the connection's current statement when the run is cancelled.
    pub fn kill_on_cancel(&self, conn: &Connection) -> HookGuard {
        refloat_run::kill_on_cancel(&self.cancel, conn)
    }

    /// The error of a cancelled run.
    pub fn interrupted(&self) -> LoadError {
        LoadError::interrupted(&self.cancel)
    }

    /// Notes that a part of the load has failed.
    pub fn note_failed(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Stops whoever waits for another part of the load, if that was cancelled or has failed.
    pub fn check_others(&self) -> Result<(), LoadError> {
        self.check_cancel()?;
        if self.failed.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted(OTHER_FAILED.to_owned()));
        }
        Ok(())
    }

    /// Stops a cancelled run.
    pub fn check_cancel(&self) -> Result<(), LoadError> {
        if self.cancel.is_cancelled() {
            return Err(self.interrupted());
        }
        Ok(())
    }

    /// Whether each row of a table gets a statement of its own. That is needed when the load
    /// continues after a refused row and the engine has no transactions: the rows of a longer
    /// statement that were stored before the refused one could not be rolled back.
    pub fn writes_one_by_one(&self, table: &Table) -> bool {
        self.options.on_error == OnError::Continue && !table.is_transactional() && !table.is_view()
    }

    /// The write path for this chunk.
    pub fn path_for(&self, chunk: &Chunk) -> WritePath {
        if self.goes_as_text(chunk) {
            WritePath::Insert
        } else {
            self.write_path
        }
    }

    /// Whether only the server can read the values of this chunk.
    pub fn goes_as_text(&self, chunk: &Chunk) -> bool {
        let session = &chunk.session;
        chunk.table.is_plain()
            || self.writes_one_by_one(&chunk.table)
            || session.lex_mode().charset_family != refloat_sqltext::CharsetFamily::Plain
            || (!session.keeps_literals() && chunk.form.delimited().is_none())
            // This mode acts in the parser: an empty field of a file stays empty, and MariaDB takes
            // any empty parameter for NULL, even that of x''.
            || session.has_mode("EMPTY_STRING_IS_NULL")
            // What a faster path has written could not be taken back.
            || (chunk.table.is_judged_by_text(chunk.header.verb)
                && !chunk.table.is_transactional())
    }

    /// Reads the warnings of the last statement on `conn`, and returns those that may mean changed
    /// values. `None` if there may be others behind notes about computed values and the statement
    /// can be rolled back.
    pub fn warnings_of(
        &self,
        conn: &mut Connection,
        table: &Table,
        ok: &OkInfo,
    ) -> Result<Option<Vec<Warning>>, refloat_wire::Error> {
        if ok.warnings == 0 || table.is_trial() {
            return Ok(Some(Vec::new()));
        }
        // Deprecated notation says nothing about a row: MySQL warns about each value that names an
        // old character set.
        let bytes = table.takes_bytes_only_as_given();
        let expected = |code| NOT_ABOUT_VALUES.contains(&code) || (code == NO_TEXT && bytes);
        let mut warnings = conn.warnings()?;
        let all = warnings.len();
        let of_computed = table.remove_notes_about_computed(&mut warnings);
        // The server counts no further.
        let hidden = of_computed && (ok.warnings == u16::MAX || all < usize::from(ok.warnings));
        if hidden && table.is_transactional() {
            return Ok(None);
        }
        if hidden || all < usize::from(ok.warnings) {
            self.warn(LoadWarning {
                about: table.label(),
                code: 0,
                message: format!("of {} warnings or more the server kept {all}", ok.warnings),
            });
        }
        warnings.retain(|warning| !expected(warning.code));
        Ok(Some(warnings))
    }

    /// Records warnings about the rows of a table, except those for which its verb is there.
    pub fn warn_of(&self, table: &Table, verb: InsertVerb, mut warnings: Vec<Warning>) {
        if verb == InsertVerb::InsertIgnore {
            remove_duplicates(&mut warnings);
        }
        for warning in warnings.into_iter().take(WARNINGS_FETCHED) {
            self.warn(LoadWarning {
                about: table.label(),
                code: warning.code,
                message: warning.message,
            });
        }
    }

    /// Records a warning.
    pub fn warn(&self, warning: LoadWarning) {
        self.progress.add_warnings(1);
        self.events.emit(Event::Warning {
            code: (warning.code != 0).then_some(warning.code),
            message: warning.message.clone(),
            table: Some(warning.about.clone()),
        });
        self.lists().warnings.push(warning);
    }

    /// Failures after which the load continued.
    pub fn failures(&self) -> u64 {
        self.lists().failures.total
    }

    /// Records a failure after which the load continues.
    pub fn note_failure(&self, failure: StatementFailure) {
        self.events.emit(Event::StatementFailed {
            file: failure.file.clone(),
            line: failure.line,
            offset: failure.offset,
            head: failure.head.clone(),
            code: failure.code,
            message: failure.message.clone(),
        });
        self.lists().failures.push(failure);
    }

    /// Stops the load, or records the failure and continues, depending on `--on-error`.
    pub fn fail(&self, failure: StatementFailure) -> Result<(), LoadError> {
        if self.options.on_error == OnError::Continue {
            self.note_failure(failure);
            return Ok(());
        }
        Err(LoadError::Statement {
            file: failure.file.clone(),
            failure: Box::new(failure),
        })
    }

    /// Records a difference between what the dump asked for and what the server has.
    pub fn differ(&self, difference: Difference) {
        self.lists().differences.push(difference);
    }

    /// Whether the server logs statements on temporary tables in its binary log, unless the session
    /// has binary logging off.
    pub fn logs_temporary_tables(
        &self,
        conn: &mut Connection,
    ) -> Result<bool, refloat_wire::Error> {
        let mixed = conn.server().vendor == Vendor::MariaDb;
        let format = self.binlog_format(conn)?;
        Ok(format == "STATEMENT" || (mixed && format == "MIXED"))
    }

    /// The format of the server's binary log; empty if there is none.
    pub fn binlog_format(&self, conn: &mut Connection) -> Result<&str, refloat_wire::Error> {
        if let Some(known) = self.binlog_format.get() {
            return Ok(known);
        }
        let found = match conn.query("SELECT @@log_bin, @@session.binlog_format") {
            Ok(found) if matches!(found.str(0, 0), Some("1" | "ON")) => {
                found.str(0, 1).unwrap_or("STATEMENT").to_owned()
            }
            Ok(_) => String::new(),
            // A server that no longer has the variable logs rows.
            Err(error) if error.server_code() == Some(UNKNOWN_VARIABLE) => "ROW".to_owned(),
            Err(error) => return Err(error),
        };
        Ok(self.binlog_format.get_or_init(|| found))
    }

    /// Whether no warning of this code was met before, of those that change nothing.
    pub fn is_first_of_its_kind(&self, code: u16) -> bool {
        self.lists().harmless.insert(code)
    }

    /// Records why the first rows of a table were not compared.
    pub fn note_not_compared(&self, table: &Table, reason: String) {
        let mut lists = self.lists();
        let tables = lists.not_compared.entry(reason).or_default();
        tables.insert(table.label());
    }

    /// Adds time that a worker was idle.
    pub fn note_source_wait(&self, since: Instant) {
        add_micros(&self.counts.source_wait_micros, since);
    }

    /// Adds time that a worker waited for the server.
    pub fn note_server_wait(&self, since: Instant) {
        add_micros(&self.counts.server_wait_micros, since);
    }

    /// Seconds that all workers together were idle, and seconds that they waited for the server.
    pub fn waits(&self) -> (f64, f64) {
        let seconds = |micros: &AtomicU64| micros.load(Ordering::Relaxed) as f64 / 1e6;
        (
            seconds(&self.counts.source_wait_micros),
            seconds(&self.counts.server_wait_micros),
        )
    }

    /// Counts a retry.
    pub fn note_retry(&self) {
        self.counts.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a committed chunk.
    pub fn note_chunk(&self, path: WritePath, written: Written, bytes: u64) {
        let rows = written.rows;
        self.counts.chunks.fetch_add(1, Ordering::Relaxed);
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counts.rows.fetch_add(rows, Ordering::Relaxed);
        self.counts
            .as_it_stands
            .fetch_add(written.as_it_stands, Ordering::Relaxed);
        self.lists().paths.entry(path.word()).or_insert((path, 0)).1 += rows;
    }

    /// Counts bytes of the dump whose rows are already in the table.
    pub fn note_passed(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Makes sure that the server has not restarted since the load began: it would have lost the
    /// settings that the load made.
    pub fn expect_no_restart(&self, conn: &mut Connection) -> Result<(), LoadError> {
        let now = probe::server_started(conn)
            .map_err(|error| LoadError::server("asking how long the server has been up", error))?;
        match (self.server_started, now) {
            (Some(before), Some(now)) if now > before + RESTART_TOLERANCE => {
                Err(LoadError::Restarted {
                    server: self.identity.to_string(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Makes sure that a connection has a higher id than all that existed before it was opened. Ids
    /// only grow until the server restarts, so this also catches a restart that
    /// [`Self::expect_no_restart`] cannot see because its clock counts in seconds.
    fn expect_newer(&self, conn: &Connection, newest: u64) -> Result<(), LoadError> {
        let server = conn.server();
        if server.greeted_id != server.connection_id {
            // A proxy assigned one of its own server connections, which may be old.
            return Ok(());
        }
        if server.connection_id <= newest {
            return Err(LoadError::Restarted {
                server: self.identity.to_string(),
            });
        }
        self.counts
            .newest_connection
            .fetch_max(server.connection_id, Ordering::SeqCst);
        Ok(())
    }

    /// Reports that chunks have another size from now on.
    pub fn note_chunk_size(&self, bytes: usize) {
        let reason = "found by the rate of finished chunks".to_owned();
        self.events.emit(Event::ChunkSizeChanged {
            rows: None,
            bytes: bytes as u64,
            reason,
        });
    }

    /// The totals so far.
    pub fn tally(&self) -> Tally {
        let lists = self.lists();
        Tally {
            retries: self.counts.retries.load(Ordering::Relaxed),
            chunks: self.counts.chunks.load(Ordering::Relaxed),
            rows: self.counts.rows.load(Ordering::Relaxed),
            as_it_stands: self.counts.as_it_stands.load(Ordering::Relaxed),
            warnings: lists.warnings.clone(),
            failures: lists.failures.clone(),
            differences: lists.differences.clone(),
            paths: lists.paths.values().copied().collect(),
            not_compared: lists
                .not_compared
                .iter()
                .filter_map(|(reason, tables)| {
                    let table = tables.first()?;
                    Some(match tables.len() {
                        1 => format!("table {table}: {reason}"),
                        count => format!("table {table} and {} more: {reason}", count - 1),
                    })
                })
                .collect(),
        }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the warnings of an `INSERT IGNORE` about rows that a unique key has already, and returns
/// how many there were.
pub fn remove_duplicates(warnings: &mut Vec<Warning>) -> u64 {
    let all = warnings.len();
    warnings.retain(|one| one.code != DUPLICATE_ENTRY);
    (all - warnings.len()) as u64
}

fn add_micros(counter: &AtomicU64, since: Instant) {
    counter.fetch_add(
        u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX),
        Ordering::Relaxed,
    );
}

/// Keeps the server from closing a connection that is idle for a while, or whose owner was stopped
/// (`SIGSTOP`).
pub fn be_patient(conn: &mut Connection) -> Result<(), refloat_wire::Error> {
    conn.exec(PATIENT).map(drop)
}

/// Sets up the session of a new connection so that it inherits nothing.
pub fn init_session(conn: &mut Connection, binlog_off: bool) -> Result<(), refloat_wire::Error> {
    conn.exec(SESSION_INIT)?;
    let no_limit = match conn.server().vendor {
        Vendor::MariaDb => "SET SESSION max_statement_time = 0",
        Vendor::MySql => "SET SESSION max_execution_time = 0",
    };
    conn.exec(no_limit)?;
    // MySQL requires a privilege for this. Without it the server keeps fewer warnings, which
    // `Context::judge` reports.
    let _ = conn.exec("SET SESSION max_error_count = 65535");
    if binlog_off {
        conn.exec("SET SESSION sql_log_bin = 0")?;
    }
    Ok(())
}
