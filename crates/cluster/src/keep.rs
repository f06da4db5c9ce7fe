//! Holds write-sets: tells other nodes to keep them for a node that is away or starting, watches
//! those nodes meanwhile, and releases them afterwards.
//!
//! Each change is journalled before it is made. Every node has a run of its own for that, because a
//! settings journal belongs to one server. So after a kill -9, `refloat settings revert` finds
//! every change, whichever process made it.

mod start;
mod watch;

use std::path::Path;
use std::time::Duration;

use refloat_host::chain;
use refloat_run::settings::{self, AppliedSettings, SettingsError, SettingsPlan};
use refloat_run::{Run, RunDir, RunDirError, RunId};
use refloat_wire::Connection;

use crate::hold::Holder;
use crate::member::{Member, impatient};
pub(crate) use start::{StartWay, Unallowed, kept, way_now};
pub(crate) use watch::Watched;

/// Name of the runs that hold write-sets, one per node.
const HOLD: &str = "cluster hold";
/// How long to wait after nodes were told to keep write-sets, before the oldest one that they keep
/// is certain. When a write-set that Galera stored in a page has been applied everywhere, Galera
/// frees everything before it (`GCache::free_common`).
pub(crate) const SETTLED: Duration = Duration::from_secs(2);

/// How long a node that holds write-sets may be silent, whether it is watched or queried. It still
/// keeps them meanwhile.
pub(crate) const SILENCE: Duration = Duration::from_secs(120);

/// The runs whose journals record what nodes were told, with the indexes of those nodes.
pub(crate) type Holds = Vec<(usize, RunId)>;

/// Why a node does not keep write-sets.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// It did not do what it was told, or was not reachable.
    #[error("{node} does not keep write-sets: {reason}")]
    NotHeld {
        /// The node that should keep them.
        node: String,
        /// The reason, as a fragment of text.
        reason: String,
    },
    /// Another run has changed its settings, and must not be disturbed.
    #[error("{node} does not keep write-sets: {reason}")]
    Taken {
        /// The node that should keep them.
        node: String,
        /// The other run, in words.
        reason: String,
    },
    /// A run's folder cannot be used.
    #[error(transparent)]
    Folder(#[from] RunDirError),
    /// Settings could not be changed.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// Tells other nodes what to keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keeper<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// Where runs keep their folders.
    pub state_dir: &'a Path,
    pub run: &'a Run,
}

impl Keeper<'_> {
    /// Connects to a node, with short timeouts.
    ///
    /// # Errors
    /// [`KeepError::NotHeld`].
    pub fn connect(&self, at: usize) -> Result<Connection, KeepError> {
        let member = &self.members[at];
        Connection::connect(&impatient(&member.connect)).map_err(|error| KeepError::NotHeld {
            node: member.name.clone(),
            reason: chain(&error),
        })
    }

    /// Tells a node to keep what `node` misses, and starts to count. Calls `written` with the run
    /// before anything is changed.
    ///
    /// # Errors
    /// [`KeepError`]. After a call of `written`, the setting may have been changed.
    pub fn begin_to_keep(
        &self,
        node: &str,
        holder: &Holder,
        written: impl FnOnce(RunId) -> Result<(), RunDirError>,
    ) -> Result<Watched, KeepError> {
        let mut conn = self.connect(holder.at)?;
        if let Some(change) = holder.change(node) {
            let dir = RunDir::create(self.state_dir, HOLD)?;
            written(dir.id().clone())?;
            let mut applied = AppliedSettings::new(&dir);
            let plan = SettingsPlan {
                changes: vec![change],
                ..SettingsPlan::default()
            };
            applied.apply(&mut conn, &plan, &self.run.events)?;
            if let Some(skipped) = applied.skipped().first() {
                let (node, reason) = (holder.name.clone(), skipped.reason.clone());
                return Err(match applied.blocked_by() {
                    Some(_) => KeepError::Taken { node, reason },
                    None => KeepError::NotHeld { node, reason },
                });
            }
        }
        Watched::begin(&self.members[holder.at], holder, conn)
    }

    /// Counts the write-sets of a node that was told earlier, or that needs no change.
    ///
    /// # Errors
    /// [`KeepError::NotHeld`]: the node cannot be asked.
    pub fn watch(&self, holder: &Holder) -> Result<Watched, KeepError> {
        let conn = self.connect(holder.at)?;
        Watched::begin(&self.members[holder.at], holder, conn)
    }

    /// Releases all holds. Nodes that could not be told stay in `holds`, and are reported and
    /// returned with the reason.
    pub fn release(&self, holds: &mut Holds) -> Vec<(String, String)> {
        let mut failed = Vec::new();
        if !holds.is_empty() {
            self.run
                .events
                .note("the others no longer need to keep write-sets");
        }
        for (at, run) in std::mem::take(holds) {
            if let Err(reason) = self.release_one(at, &run) {
                let name = self.members[at].name.clone();
                self.run.events.warn(format!(
                    "{name} may still keep write-sets: {reason}. `refloat settings revert` puts its setting back"
                ));
                failed.push((name, reason));
                holds.push((at, run));
            }
        }
        failed
    }

    /// Waits until a node has applied what the others have written so far, above all the removal of
    /// their journals. That removal is DDL: a node that dies in the middle of it loses its position
    /// (`SavedState::mark_unsafe` in the provider) and needs a full copy. Whoever learns that the
    /// node is back may stop it again at once. Does not wait for a node that does not answer.
    pub fn settle(&self, at: usize) {
        if let Ok(mut conn) = self.connect(at)
            && conn.exec("SET SESSION wsrep_sync_wait = 1").is_ok()
        {
            let _ = conn.query("SELECT 1");
        }
    }

    fn release_one(&self, at: usize, run: &RunId) -> Result<(), String> {
        let dir = RunDir::open(self.state_dir, run).map_err(|error| chain(&error))?;
        // A run that ended before it changed anything has no journal.
        if !dir.has(RunDir::SETTINGS) {
            return Ok(());
        }
        let mut conn = self.connect(at).map_err(|error| chain(&error))?;
        let report = settings::revert_run(&dir, &mut conn, &self.run.events, false)
            .map_err(|error| chain(&error))?;
        match report {
            Some(report) if !report.complete => Err("the server refuses".to_owned()),
            _ => Ok(()),
        }
    }

    /// Whether what a node was told in this run is still in force. If the folder cannot be read,
    /// the answer is yes, so that no node is told twice.
    pub fn is_in_force(&self, run: &RunId) -> bool {
        let open = RunDir::open(self.state_dir, run).and_then(|dir| {
            if !dir.has(RunDir::SETTINGS) {
                return Ok(false);
            }
            let journal: settings::Journal = dir.read(RunDir::SETTINGS)?;
            Ok(!journal.closed)
        });
        open.unwrap_or(true)
    }
}
