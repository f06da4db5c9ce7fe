//! A setting passed on the command line when a server is started, to be reset to its configured
//! value once the server is up. A command-line option stays in force until the next restart.
//!
//! It is journalled before the start, when there is no server to query. The journal then identifies
//! the server by what is known from elsewhere, and there is no row on the server: the run's folder
//! is the only record.

use std::path::Path;

use refloat_wire::Connection;

use super::journal::{self, DAMAGED, FORMAT, Journal, JournalEntry, OpenRun, ServerMark};
use super::revert::{self, RevertReport, RevertResult};
use super::variable::read;
use super::{Durability, SettingsError, value};
use crate::{Events, Owner, RunDir};

/// Journals that a server is about to be started with a setting. `entry.old` is the value that it
/// would have otherwise.
///
/// # Errors
/// The journal cannot be written, or the setting has a value that could not be put back.
pub fn write_down_start(
    dir: &RunDir,
    server: ServerMark,
    entry: JournalEntry,
) -> Result<(), SettingsError> {
    if let Some(value) = [&entry.old, &entry.new]
        .into_iter()
        .find(|value| value::literal(value).is_none())
    {
        return Err(SettingsError::BadRow {
            run: dir.id().to_string(),
            reason: format!("{} cannot be put back from {value:?}", entry.name),
        });
    }
    let journal = Journal {
        format: FORMAT,
        run: dir.id().clone(),
        owner: Owner::this(),
        server,
        durability: Durability::Keep,
        created: jiff::Timestamp::now().to_string(),
        changes: vec![entry],
        row: false,
        closed: false,
    };
    Ok(dir.write(RunDir::SETTINGS, &journal)?)
}

/// Puts back the setting with which a server, now up, was started by this process or by one that
/// has ended. `configured` is the value that the setting would have otherwise, if that is better
/// known by now.
///
/// # Errors
/// The journals cannot be read or written, or the connection is lost. Refusals by the server are in
/// the reports.
pub fn put_back_start(
    state_dir: &Path,
    conn: &mut Connection,
    (name, configured): (&str, Option<&str>),
    events: &Events,
) -> Result<Vec<RevertReport>, SettingsError> {
    let here = ServerMark::of(conn)?;
    let mut reports = Vec::new();
    let (starts, damaged) = of_starts(state_dir, name)?;
    for error in damaged {
        events.warn(format!("{error}. {DAMAGED}"));
    }
    for open in starts {
        let mut journal = open.journal;
        if !is_here(&journal.server, &here) {
            continue;
        }
        // The server is up, so what it reports replaces what was known from elsewhere.
        journal.server = here.clone();
        let now = read(conn, name)?;
        let Some(entry) = journal.changes.first_mut() else {
            continue;
        };
        if let Some(configured) = configured {
            configured.clone_into(&mut entry.old);
        }
        entry.applied = now.filter(|now| value::same(now, &entry.new));
        let report = revert::revert_journal(conn, &mut journal, events);
        let dir = RunDir::open(state_dir, &journal.run)?;
        dir.write(RunDir::SETTINGS, &journal)?;
        let report = report?;
        for setting in &report.settings {
            if let RevertResult::Failed { reason } = &setting.result {
                events.warn(format!("{name} is still {}: {reason}", setting.now));
            }
        }
        reports.push(report);
    }
    Ok(reports)
}

/// Closes the journals of the starts of a server that has stopped: the option on its command line
/// no longer applies.
///
/// # Errors
/// The journals cannot be read or written.
pub fn forget_start(state_dir: &Path, name: &str, peer: &str) -> Result<(), SettingsError> {
    for open in of_starts(state_dir, name)?.0 {
        let mut journal = open.journal;
        if journal.server.peer == peer {
            journal.closed = true;
            RunDir::open(state_dir, &journal.run)?.write(RunDir::SETTINGS, &journal)?;
        }
    }
    Ok(())
}

/// Whether a server may have been started with this setting, by this process or by one that has
/// ended. An unreadable journal counts as yes.
pub fn was_started(state_dir: &Path, name: &str) -> bool {
    of_starts(state_dir, name)
        .is_ok_and(|(starts, damaged)| !starts.is_empty() || !damaged.is_empty())
}

/// Journals of starts by this process, and by processes that have ended, and the errors of journals
/// that cannot be read.
fn of_starts(
    state_dir: &Path,
    name: &str,
) -> Result<(Vec<OpenRun>, Vec<SettingsError>), SettingsError> {
    let (mut open, damaged) = journal::list_readable(state_dir)?;
    open.retain(|open| {
        let is_start = matches!(&open.journal.changes[..], [one] if one.name == name);
        let is_ours = open.alive == Some(false) || open.journal.owner == Owner::this();
        is_start && is_ours && !open.journal.row
    });
    Ok((open, damaged))
}

/// Whether a server that was down is this one. The data directory may be spelled differently in the
/// journal, so the peer is enough.
fn is_here(then: &ServerMark, here: &ServerMark) -> bool {
    then.same_server(here) || (then.started == 0 && then.peer == here.peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_cannot_be_read_may_be_of_a_start() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!was_started(folder.path(), "wsrep_sst_donor"));
        let dir = RunDir::create(folder.path(), "cluster start").unwrap();
        dir.write(RunDir::SETTINGS, &"no journal").unwrap();
        assert!(was_started(folder.path(), "wsrep_sst_donor"));
    }
}
