//! Puts settings back, from a run's folder or from the rows on the server.

use std::path::Path;

use refloat_wire::Connection;
use serde::{Deserialize, Serialize};

use super::durable::bring_to_disk;
use super::facts::REDO_LOG;
use super::journal::{self, Journal, JournalEntry, ServerMark};
use super::provider::{GCACHE_MEMORY, GCACHE_PURGE};
use super::redo::LOG_FILE_SIZE;
use super::variable::{POOL, await_resize, read, read_settled, write};
use super::{SettingsError, pool, value};
use crate::own_tables::JOURNAL_SCHEMA;
use crate::{Event, Events, RunDir, RunId};

/// The only settings that a run changes: a journal is read from a server and must not be trusted
/// with others.
const KNOWN: &[&str] = &[
    GCACHE_PURGE,
    GCACHE_MEMORY,
    "innodb_adaptive_hash_index",
    "innodb_buffer_pool_size",
    "innodb_data_file_buffering",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    LOG_FILE_SIZE,
    "innodb_redo_log_capacity",
    "local_infile",
    "max_allowed_packet",
    REDO_LOG,
    "sync_binlog",
    WSREP_DESYNC,
    SST_DONOR,
];
/// Whether a Galera node may fall behind without holding up the others.
pub const WSREP_DESYNC: &str = "wsrep_desync";
/// Which nodes a Galera node prefers as donors.
pub const SST_DONOR: &str = "wsrep_sst_donor";
/// How often to try to set a setting: MariaDB gives up shrinking the buffer pool while pages are in
/// use.
const TRIES: u32 = 3;

/// What happened to one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum RevertResult {
    /// Put back and confirmed by reading it.
    Reverted,
    /// It already had its old value.
    AlreadyBack,
    /// The server was restarted in between: our value is gone, and the current one is what its
    /// configuration says.
    GoneWithRestart,
    /// Someone else has changed it since, so it was left alone.
    ChangedBySomeoneElse,
    /// It could not be put back.
    Failed {
        /// Why not, in the server's words or ours.
        reason: String,
    },
}

/// One setting in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertedSetting {
    /// The global variable, or `redo_log`.
    pub name: String,
    /// Value before the run.
    pub original: String,
    /// Value now.
    pub now: String,
    /// What happened to it.
    #[serde(flatten)]
    pub result: RevertResult,
}

/// The result of putting back the settings of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertReport {
    /// The run that had changed the settings.
    pub run: RunId,
    /// The server, as it was connected to.
    pub server: String,
    /// Whether the server was restarted after the settings were changed.
    pub restarted: bool,
    /// The settings in the order they were put back.
    pub settings: Vec<RevertedSetting>,
    /// Why the run's row stays on the server, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_left: Option<String>,
    /// Whether nothing is left to do, so that the journal is closed.
    pub complete: bool,
}

/// Puts back the settings of a run from its folder alone.
///
/// A run whose process is still running is refused. So is one whose process cannot be seen from
/// here, unless `force` says that it is known to be dead.
pub fn revert_run(
    dir: &RunDir,
    conn: &mut Connection,
    events: &Events,
    force: bool,
) -> Result<Option<RevertReport>, SettingsError> {
    if !dir.has(RunDir::SETTINGS) {
        return Ok(None);
    }
    let mut journal: Journal = dir.read(RunDir::SETTINGS)?;
    if journal.closed {
        return Ok(None);
    }
    dead(&journal, force)?;
    let report = revert_journal(conn, &mut journal, events);
    dir.write(RunDir::SETTINGS, &journal)?;
    report.map(Some)
}

/// Puts back what the server's own rows list, newest run first. Rows of living runs, and without
/// `force` those of runs that cannot be seen, are returned as errors next to the reports. The runs'
/// folders under `state_dir` are closed as well.
pub fn revert_on_server(
    conn: &mut Connection,
    state_dir: Option<&Path>,
    events: &Events,
    force: bool,
) -> Result<(Vec<RevertReport>, Vec<SettingsError>), SettingsError> {
    let (mut reports, mut refused) = (Vec::new(), Vec::new());
    let mut open = journal::list_on_server(conn)?;
    open.reverse();
    for mut run in open {
        if let Err(e) = dead(&run.journal, force) {
            refused.push(e);
            continue;
        }
        reports.push(revert_journal(conn, &mut run.journal, events)?);
        if let Some(dir) = state_dir.and_then(|s| RunDir::open(s, &run.journal.run).ok()) {
            dir.write(RunDir::SETTINGS, &run.journal)?;
        }
    }
    Ok((reports, refused))
}

fn dead(journal: &Journal, force: bool) -> Result<(), SettingsError> {
    let owner = &journal.owner;
    let ours = *owner == crate::Owner::this();
    match owner.alive() {
        _ if ours => Ok(()),
        Some(false) => Ok(()),
        Some(true) => Err(SettingsError::StillRunning {
            run: journal.run.clone(),
            pid: owner.pid,
            host: owner.host.clone(),
        }),
        None if force => Ok(()),
        None => Err(SettingsError::OwnerUnknown {
            run: journal.run.clone(),
            pid: owner.pid,
            host: owner.host.clone(),
        }),
    }
}

/// Puts a journal's changes back in reverse order, and closes the journal if nothing is left.
pub(super) fn revert_journal(
    conn: &mut Connection,
    journal: &mut Journal,
    events: &Events,
) -> Result<RevertReport, SettingsError> {
    let here = ServerMark::of(conn)?;
    if !here.same_server(&journal.server) {
        let text = |m: &ServerMark| format!("{}:{} ({})", m.hostname, m.port, m.datadir);
        return Err(SettingsError::WrongServer {
            run: journal.run.clone(),
            expected: text(&journal.server),
            found: text(&here),
        });
    }
    let restarted = !here.same_start(&journal.server);
    if restarted {
        events.note("the server was restarted since its settings were changed");
    }
    let mut report = RevertReport {
        run: journal.run.clone(),
        server: here.peer.clone(),
        restarted,
        settings: Vec::new(),
        row_left: None,
        complete: true,
    };
    for entry in journal.changes.iter().rev() {
        let (before, setting) = revert_one(conn, &journal.run, entry, restarted)?;
        if matches!(setting.result, RevertResult::Failed { .. }) {
            report.complete = false;
        }
        if entry.applied.is_none() && setting.result == RevertResult::AlreadyBack {
            continue;
        }
        events.emit(Event::SettingReverted {
            server: here.peer.clone(),
            name: entry.name.clone(),
            old: before,
            new: setting.now.clone(),
            reason: words(&setting.result),
        });
        report.settings.push(setting);
    }
    bring_to_disk(conn, journal, events);
    if report.complete {
        // Even if the journal says there is no row: it may have been written before that was known.
        match journal::remove_row(conn, &journal.run) {
            Ok(None) => {}
            Err(_) if !journal.row => {}
            Ok(Some(e)) => events.warn(format!(
                "database {JOURNAL_SCHEMA}, in which nothing is left, cannot be removed: {e}"
            )),
            Err(e) => {
                events.warn(format!(
                    "the settings are back, but their row on the server stays: {e}"
                ));
                report.row_left = Some(e.to_string());
                report.complete = false;
            }
        }
    }
    journal.closed = report.complete;
    Ok(report)
}

/// Puts one setting back; returns its value before, and what happened.
fn revert_one(
    conn: &mut Connection,
    run: &RunId,
    entry: &JournalEntry,
    restarted: bool,
) -> Result<(String, RevertedSetting), SettingsError> {
    let setting = |now: String, result| RevertedSetting {
        name: entry.name.clone(),
        original: entry.old.clone(),
        now,
        result,
    };
    if !KNOWN.contains(&entry.name.as_str()) {
        let reason = "no run changes such a setting: the journal is not ours".to_owned();
        return Ok((
            String::new(),
            setting(String::new(), RevertResult::Failed { reason }),
        ));
    }
    if entry.name == POOL {
        // Until its resize has ended, the value it shows is not final.
        await_resize(conn)?;
    }
    let Some(before) = read(conn, &entry.name)? else {
        let reason = "the server has no such setting any more".to_owned();
        return Ok((
            String::new(),
            setting(String::new(), RevertResult::Failed { reason }),
        ));
    };
    if value::same(&before, &entry.old) {
        return Ok((before.clone(), setting(before, RevertResult::AlreadyBack)));
    }
    let is = |value: &String| value::accepted(&entry.name, value, &before);
    let ours = match &entry.applied {
        // A value that was read on the way to the one that was asked for may have got there since.
        Some(applied) => {
            is(applied) || !value::accepted(&entry.name, &entry.new, applied) && is(&entry.new)
        }
        // The run was killed between the change and its confirmation.
        None => is(&entry.new),
    };
    if !ours && !is_on_its_way_back(conn, entry, &before)? {
        let result = if restarted {
            RevertResult::GoneWithRestart
        } else {
            RevertResult::ChangedBySomeoneElse
        };
        return Ok((before.clone(), setting(before, result)));
    }
    let mut now = before.clone();
    for value in way_back(conn, entry, &before)? {
        match put(conn, run, &entry.name, &now, &value)? {
            Ok(read) => now = read,
            Err(reason) => {
                let now = read(conn, &entry.name)?.unwrap_or_default();
                return Ok((before, setting(now, RevertResult::Failed { reason })));
            }
        }
    }
    Ok((before, setting(now, RevertResult::Reverted)))
}

/// The values to set one after the other, starting at `from`, until the setting is back.
fn way_back(
    conn: &mut Connection,
    entry: &JournalEntry,
    from: &str,
) -> Result<Vec<String>, SettingsError> {
    Ok(match (from.parse(), entry.old.parse()) {
        (Ok(from), Ok(to)) if entry.name == POOL => {
            let steps = pool::steps(from, to, pool::unit(conn)?);
            steps.iter().map(u64::to_string).collect()
        }
        _ => vec![entry.old.clone()],
    })
}

/// Whether a value was left by a run that was killed while putting the setting back.
fn is_on_its_way_back(
    conn: &mut Connection,
    entry: &JournalEntry,
    now: &str,
) -> Result<bool, SettingsError> {
    let begun = entry.applied.as_ref().unwrap_or(&entry.new);
    let steps = way_back(conn, entry, begun)?;
    Ok(steps
        .iter()
        .any(|step| value::accepted(&entry.name, step, now)))
}

/// Sets a setting; returns what it reads then, or why it could not be set.
fn put(
    conn: &mut Connection,
    run: &RunId,
    name: &str,
    before: &str,
    new: &str,
) -> Result<Result<String, String>, SettingsError> {
    let mut failure = String::new();
    for _ in 0..TRIES {
        match write(conn, run, name, new) {
            Ok(()) => {
                let now = read_settled(conn, name, before, new)?;
                if name == POOL {
                    await_resize(conn)?;
                }
                if value::accepted(name, new, &now) {
                    return Ok(Ok(now));
                }
                failure = format!("set to {new} and reads {now}");
            }
            Err(e) if conn.is_closed() => return Err(e),
            Err(e) => failure = e.to_string(),
        }
    }
    Ok(Err(failure))
}

fn words(result: &RevertResult) -> String {
    match result {
        RevertResult::Reverted => "reverted".into(),
        RevertResult::AlreadyBack => "had its old value already".into(),
        RevertResult::GoneWithRestart => "gone with the restart of the server".into(),
        RevertResult::ChangedBySomeoneElse => "changed by someone else since: left alone".into(),
        RevertResult::Failed { reason } => reason.clone(),
    }
}
