//! Applies planned settings: journal first, then change, then read back.

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_wire::Connection;

use super::journal::{self, FORMAT, Journal, JournalEntry, OpenRun, ServerMark};
use super::revert::{self, RevertReport, RevertResult};
use super::variable::{POOL, RESIZE_POLL, await_resize, read, read_settled, write};
use super::{SettingsError, SettingsPlan, Skipped, value};
use crate::{Event, Events, Owner, Run, RunDir, RunId};

/// Name of the server-side lock that keeps two runs from changing settings at once.
const LOCK: &str = "refloat.settings";
/// How long a run waits for another that is changing settings, in seconds.
const LOCK_WAIT: u32 = 10;
/// How long an abandoned session may take to end before settings are put back anyway.
const SESSION_END: Duration = Duration::from_secs(10);

/// Settings that were changed for a run, and the means to put them back.
///
/// Dropping this puts nothing back: call [`AppliedSettings::revert`]. After a crash, use the
/// journal.
#[derive(Debug)]
pub struct AppliedSettings {
    dir: RunDir,
    journal: Option<Journal>,
    skipped: Vec<Skipped>,
    left_to: Option<RunId>,
    /// A process that is declared ended, although it ran where that cannot be seen.
    ended: Option<Owner>,
    /// The session in which changing settings failed: the server may still be executing its last
    /// statement.
    unfinished: Option<u64>,
}

impl AppliedSettings {
    /// No changes yet, for the run of this folder.
    pub fn new(dir: &RunDir) -> Self {
        Self {
            dir: dir.clone(),
            journal: None,
            skipped: Vec::new(),
            left_to: None,
            ended: None,
            unfinished: None,
        }
    }

    /// Declares that a process has ended, although it ran where that cannot be seen from here: what
    /// it left is put back too.
    pub fn declare_ended(&mut self, owner: Owner) {
        self.ended = Some(owner);
    }

    /// Puts back what dead runs left on this server, so that the server has its own settings again.
    ///
    /// # Errors
    /// Same as [`AppliedSettings::apply`].
    pub fn clear(&mut self, conn: &mut Connection, events: &Events) -> Result<(), SettingsError> {
        self.apply(conn, &SettingsPlan::default(), events)
    }

    fn is_dead(&self, other: &OpenRun) -> bool {
        other.journal.run != *self.dir.id()
            && (other.alive == Some(false) || self.ended.as_ref() == Some(&other.journal.owner))
    }

    /// Carries out a plan.
    ///
    /// What a killed run left on this server is put back first. While another run that is (or may
    /// be) alive has settings changed on this server, nothing is changed: its tuned values must
    /// never be taken for originals. A change that the server refuses is skipped and reported.
    /// Errors are a lost connection, a statement ended by Ctrl-C, or a journal that cannot be
    /// written. After an error some changes may have been made: [`AppliedSettings::revert`] puts
    /// those back too.
    pub fn apply(
        &mut self,
        conn: &mut Connection,
        plan: &SettingsPlan,
        events: &Events,
    ) -> Result<(), SettingsError> {
        // Even a run that changes nothing puts back what a dead one left.
        if plan.changes.is_empty() && !self.something_left(conn) {
            return Ok(());
        }
        let locked = conn.query_value(format!("SELECT GET_LOCK('{LOCK}', {LOCK_WAIT})"))?;
        if locked.as_deref() != Some("1") {
            self.leave(
                plan,
                "another run is changing settings on this server right now",
                events,
            );
            return Ok(());
        }
        let result = self.apply_locked(conn, plan, events);
        if result.is_err() {
            self.unfinished = Some(conn.server().connection_id);
        }
        // A lost connection releases the lock by itself.
        drop(conn.query_value(format!("SELECT RELEASE_LOCK('{LOCK}')")));
        result
    }

    fn apply_locked(
        &mut self,
        conn: &mut Connection,
        plan: &SettingsPlan,
        events: &Events,
    ) -> Result<(), SettingsError> {
        let server = ServerMark::of(conn)?;
        let in_the_way = self.make_way(conn, &server, events)?;
        if plan.changes.is_empty() {
            return Ok(());
        }
        if let Some(other) = in_the_way {
            let run = &other.journal.run;
            let why = if self.is_dead(&other) {
                format!("not everything that run {run} changed on this server could be put back")
            } else {
                format!("run {run} has changed settings on this server and may still be working")
            };
            self.left_to = Some(other.journal.run);
            self.leave(plan, &why, events);
            return Ok(());
        }
        let mut changes = Vec::new();
        for change in &plan.changes {
            // The value may have changed since the plan was made, and anything put back above
            // certainly has.
            let now = read(conn, &change.name)?;
            match now {
                Some(now) if !value::same(&now, &change.new) => changes.push(JournalEntry {
                    name: change.name.clone(),
                    old: now,
                    new: change.new.clone(),
                    applied: None,
                    reason: change.reason.clone(),
                }),
                _ => {}
            }
        }
        let mut journal = Journal {
            format: FORMAT,
            run: self.dir.id().clone(),
            owner: Owner::this(),
            server,
            durability: plan.durability,
            created: jiff::Timestamp::now().to_string(),
            changes,
            row: true,
            closed: false,
        };
        self.dir.write(RunDir::SETTINGS, &journal)?;
        if let Err(e) = journal::write_row(conn, &journal) {
            if was_stopped(conn, &e) {
                // Nothing is changed yet, but the row may have been written anyway. Putting back
                // closes both.
                journal.changes.clear();
                journal.row = false;
                self.journal = Some(journal);
                return Err(e);
            }
            events.note(format!(
                "the journal of settings is only in {}: {e}",
                self.dir.path().display()
            ));
            journal.row = false;
            self.dir.write(RunDir::SETTINGS, &journal)?;
        }
        let result = self.change_all(conn, &mut journal, events);
        // A change that the server accepted but did not show stays in the journal: it may take
        // effect late, or as a side effect of another change, as when MariaDB raises
        // `innodb_io_capacity_max` with `innodb_io_capacity`.
        // Changed settings must be put back even if the journal can no longer be written.
        let journal = &*self.journal.insert(journal);
        self.dir.write(RunDir::SETTINGS, journal)?;
        if result.is_ok() && journal.row {
            journal::write_row(conn, journal)?;
        }
        result
    }

    fn change_all(
        &mut self,
        conn: &mut Connection,
        journal: &mut Journal,
        events: &Events,
    ) -> Result<(), SettingsError> {
        let peer = journal.server.peer.clone();
        let mut refused = Vec::new();
        for entry in &mut journal.changes {
            if entry.name == POOL {
                await_resize(conn)?;
            }
            if let Err(e) = write(conn, &journal.run, &entry.name, &entry.new) {
                if was_stopped(conn, &e) {
                    return Err(e);
                }
                self.skip(&entry.name, format!("the server refused: {e}"), events);
                refused.push(entry.name.clone());
                continue;
            }
            let got = read_settled(conn, &entry.name, &entry.old, &entry.new)?;
            if value::same(&got, &entry.old) {
                self.skip(
                    &entry.name,
                    "the server accepted the new value, but kept the old one",
                    events,
                );
                continue;
            }
            if !value::accepted(&entry.name, &entry.new, &got) {
                events.warn(format!(
                    "{} was set to {} and reads {got}",
                    entry.name, entry.new
                ));
            }
            events.emit(Event::SettingChanged {
                server: peer.clone(),
                name: entry.name.clone(),
                old: entry.old.clone(),
                new: got.clone(),
                reason: entry.reason.clone(),
            });
            entry.applied = Some(got);
        }
        // Whatever others make of these settings is not ours, unless another change brought one
        // along.
        for name in refused {
            let now = read(conn, &name)?;
            let is_made = |new: &str| {
                now.as_ref()
                    .is_some_and(|now| value::accepted(&name, new, now))
            };
            journal
                .changes
                .retain(|change| change.name != name || is_made(&change.new));
        }
        Ok(())
    }

    /// Whether a dead run left changes on this server, as far as this account can see.
    fn something_left(&self, conn: &mut Connection) -> bool {
        is_left(conn, self.dir.state_dir(), |other| self.is_dead(other))
    }

    /// Puts back what dead runs left. Returns a run that is in the way, if there is one.
    fn make_way(
        &self,
        conn: &mut Connection,
        server: &ServerMark,
        events: &Events,
    ) -> Result<Option<OpenRun>, SettingsError> {
        let mut open = journal::list_on_server(conn)?;
        // Without a row (if it could not be written), the folder next to ours is the only record.
        if let Some(state) = self.dir.state_dir() {
            for other in journal::list(state)? {
                let known = open.iter().any(|o| o.journal.run == other.journal.run);
                if !known && other.journal.server.same_server(server) {
                    open.push(other);
                }
            }
        }
        // A run puts back leftovers before it makes its own changes, so undo the newest changes
        // first.
        open.sort_by(|a, b| b.journal.run.cmp(&a.journal.run));
        for other in open {
            if !self.is_dead(&other) {
                return Ok(Some(other));
            }
            events.note(format!(
                "run {} ended without putting settings back: doing that first",
                other.journal.run
            ));
            let mut journal = other.journal.clone();
            let report = revert::revert_journal(conn, &mut journal, events)?;
            self.close_folder(&journal)?;
            if !report.complete {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    fn close_folder(&self, journal: &Journal) -> Result<(), SettingsError> {
        if let Some(state) = self.dir.state_dir()
            && let Ok(dir) = RunDir::open(state, &journal.run)
        {
            dir.write(RunDir::SETTINGS, journal)?;
        }
        Ok(())
    }

    fn leave(&mut self, plan: &SettingsPlan, why: &str, events: &Events) {
        events.warn(format!("settings are left as they are: {why}"));
        self.skipped.extend(plan.changes.iter().map(|c| Skipped {
            name: c.name.clone(),
            reason: why.to_owned(),
            missing_privilege: None,
        }));
    }

    fn skip(&mut self, name: &str, reason: impl Into<String>, events: &Events) {
        let reason = reason.into();
        events.warn(format!("{name} stays as it is: {reason}"));
        self.skipped.push(Skipped {
            name: name.to_owned(),
            reason,
            missing_privilege: None,
        });
    }

    /// Changes that the server showed when they were made, with the values read back.
    pub fn changes(&self) -> impl Iterator<Item = &JournalEntry> {
        let all = self.journal.iter().flat_map(|journal| &journal.changes);
        all.filter(|change| change.applied.is_some())
    }

    /// Planned changes that were not made, and why.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The run that kept this one from changing anything.
    pub fn blocked_by(&self) -> Option<&RunId> {
        self.left_to.as_ref()
    }

    /// Whether something must still be put back.
    pub fn is_open(&self) -> bool {
        self.journal.as_ref().is_some_and(|j| !j.closed)
    }

    /// Same as [`AppliedSettings::revert`] but on a new connection, for the end of a run: the other
    /// connections may be gone or busy. Also returns a description of each setting that is not
    /// back.
    pub fn put_back<E: From<SettingsError>>(
        &mut self,
        run: &Run,
        connect: impl FnOnce() -> Result<Connection, E>,
    ) -> (Vec<String>, Result<(), E>) {
        if !self.is_open() {
            return (Vec::new(), Ok(()));
        }
        let result = connect().and_then(|mut conn| {
            // Someone who asks a second time does not want to wait for this either; what is left is
            // reported.
            let shutdown = conn.shutdown_handle();
            let _hard = run.cancel.on_hard(move || shutdown.shutdown());
            Ok(self.revert(&mut conn, &run.events)?)
        });
        let all_back = |report: &RevertReport| {
            report
                .settings
                .iter()
                .all(|setting| !matches!(setting.result, RevertResult::Failed { .. }))
        };
        // A journal also stays open if only its row on the server could not be removed, for example
        // because the disk is full.
        let is_left = self.is_open() && !matches!(&result, Ok(Some(report)) if all_back(report));
        let left = self
            .journal
            .iter()
            .flat_map(|journal| &journal.changes)
            .filter(|_| is_left)
            .map(|change| format!("{} (was {})", change.name, change.old))
            .collect();
        (left, result.map(drop))
    }

    /// Puts everything back, in reverse order. May be called again after an error, with a new
    /// connection.
    pub fn revert(
        &mut self,
        conn: &mut Connection,
        events: &Events,
    ) -> Result<Option<RevertReport>, SettingsError> {
        let Some(journal) = self.journal.as_mut().filter(|j| !j.closed) else {
            return Ok(None);
        };
        if let Some(session) = self.unfinished.take() {
            await_end(conn, session)?;
        }
        let report = revert::revert_journal(conn, journal, events);
        self.dir.write(RunDir::SETTINGS, journal)?;
        report.map(Some)
    }
}

/// Whether a run whose process has ended left changes on this server, as far as this account can
/// see, according to the server's own rows or the folders under a state directory. `ended` is a
/// process known to have ended, although it ran where that cannot be seen.
pub fn left_by_dead_runs(conn: &mut Connection, state_dir: &Path, ended: Option<&Owner>) -> bool {
    is_left(conn, Some(state_dir), |other| {
        other.alive == Some(false) || ended == Some(&other.journal.owner)
    })
}

fn is_left(
    conn: &mut Connection,
    state_dir: Option<&Path>,
    dead: impl Fn(&OpenRun) -> bool,
) -> bool {
    if journal::list_on_server(conn).is_ok_and(|open| open.iter().any(&dead)) {
        return true;
    }
    let Some(Ok(open)) = state_dir.map(journal::list) else {
        return false;
    };
    open.iter().any(&dead)
        && ServerMark::of(conn).is_ok_and(|here| {
            open.iter()
                .any(|other| dead(other) && other.journal.server.same_server(&here))
        })
}

/// Whether an error means that the run is being stopped, and not that the server refused: the
/// connection is lost, or Ctrl-C ended its statement.
fn was_stopped(conn: &Connection, error: &SettingsError) -> bool {
    conn.is_closed() || matches!(error, SettingsError::Server(error) if error.is_interrupted())
}

/// Waits for an abandoned session of ours to end: a change that the server is still making would
/// take effect after it was put back (seen on MySQL 9.7.4 with `innodb_redo_log_capacity`).
fn await_end(conn: &mut Connection, session: u64) -> Result<(), SettingsError> {
    if session == conn.server().connection_id {
        return Ok(());
    }
    let sql = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {session}");
    let until = Instant::now() + SESSION_END;
    while conn.query(&sql)?.u64(0, 0) != Some(0) && Instant::now() < until {
        std::thread::sleep(RESIZE_POLL);
    }
    Ok(())
}
