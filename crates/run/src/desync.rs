//! Galera desync: lets a node fall behind the cluster while it is read.
//!
//! Reading a whole server makes a node fall behind, and flow control then pauses the whole cluster.
//! With `wsrep_desync` the node may fall behind, and catches up afterwards. As with the settings of
//! a load, the change is journalled before it is made, and put back whatever happens.

use std::time::{Duration, Instant};

use refloat_wire::{Connection, Error};

use crate::settings::{
    AppliedSettings, Durability, PlannedChange, SettingsError, SettingsPlan, WSREP_DESYNC,
};
use crate::{CancelReason, Refusal, Run};

/// Write-sets that may be queued on a node that does not delay the cluster. Below the point where
/// flow control starts (`gcs.fc_limit`, 16).
pub const CAUGHT_UP: u64 = 8;
/// Interval between two checks of the queue.
const POLL: Duration = Duration::from_millis(200);
/// Interval between two notes about the queue.
const NOTE: Duration = Duration::from_secs(10);
/// Stop waiting after the queue has not shrunk for this long.
const NO_PROGRESS: Duration = Duration::from_secs(60);
/// Connection attempts through a load balancer before giving up on reaching the right node.
const NODES_MAX: u32 = 20;
/// `wsrep_local_state` of a synced node.
const SYNCED: u64 = 4;

/// Why a node was not desynced, or not synced again.
#[derive(Debug, thiserror::Error)]
pub enum DesyncError {
    /// Desync is not allowed or not possible.
    #[error("{}", .0.reason)]
    Refused(Refusal),
    /// The node did not answer as expected.
    #[error("{doing}")]
    Server {
        /// The operation.
        doing: &'static str,
        /// The cause.
        source: Error,
    },
    /// The setting could not be journalled, changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The run was cancelled meanwhile.
    #[error("{0}")]
    Cancelled(CancelReason),
}

/// The refusal for a server that is not a node of a cluster.
pub fn no_node() -> Refusal {
    Refusal::new("the server is not a node of a Galera cluster, so --desync has no meaning here")
        .hint("Leave --desync out.")
}

/// The changed setting, until it is put back.
pub struct Desync {
    applied: AppliedSettings,
}

impl Desync {
    /// Does not change anything yet.
    pub fn new(run: &Run) -> Self {
        Self {
            applied: AppliedSettings::new(&run.dir),
        }
    }

    /// Sets `wsrep_desync` ON. If it is already ON, it is left alone, also at the end. After an
    /// error the setting may have changed anyway, so [`Desync::end`] must always follow.
    ///
    /// # Errors
    /// [`DesyncError`].
    pub fn begin(&mut self, run: &Run, control: &mut Connection) -> Result<(), DesyncError> {
        // A value that a killed run left behind must not pass for the administrator's.
        self.applied.clear(control, &run.events)?;
        let now = control
            .query(format!(
                "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{WSREP_DESYNC}', 'wsrep_on')"
            ))
            .map_err(|source| DesyncError::Server {
                doing: "asking for the settings of the cluster",
                source,
            })?;
        let (Some(old), Some("ON")) = (now.named(WSREP_DESYNC), now.named("wsrep_on")) else {
            return Err(DesyncError::Refused(no_node()));
        };
        if old == "ON" {
            run.events.note(format!(
                "{WSREP_DESYNC} is already ON: somebody else lets the node fall behind, and may end that before this run ends"
            ));
            return Ok(());
        }
        let plan = SettingsPlan {
            durability: Durability::Keep,
            changes: vec![PlannedChange {
                name: WSREP_DESYNC.to_owned(),
                old: old.to_owned(),
                new: "ON".to_owned(),
                reason: "the cluster does not wait for this node while it is read".to_owned(),
                gain: "no flow control because of this node".to_owned(),
            }],
            ..SettingsPlan::default()
        };
        let applied = self.applied.apply(control, &plan, &run.events);
        if let (Err(_), Some(reason)) = (&applied, run.cancel.reason()) {
            return Err(DesyncError::Cancelled(reason));
        }
        applied?;
        let Some(skipped) = self.applied.skipped().first() else {
            return Ok(());
        };
        let hint = match self.applied.blocked_by() {
            Some(_) => "Wait until it has ended, or choose another node.",
            None => {
                "The account needs SUPER for it; without --desync, the cluster waits for the node if it falls behind."
            }
        };
        let reason = format!("{WSREP_DESYNC} cannot be changed: {}", skipped.reason);
        Err(DesyncError::Refused(Refusal::new(reason).hint(hint)))
    }

    /// Whether the setting was changed and has not been put back yet.
    pub fn is_open(&self) -> bool {
        self.applied.is_open()
    }

    /// Waits until the node has caught up, as long as it makes progress. Until the setting is put
    /// back, the node's queue does not delay the cluster. Ctrl-C ends the wait.
    pub fn catch_up(&self, run: &Run, control: &mut Connection) {
        if self.is_open() {
            await_queue(run, || {
                let queue = number(control, "wsrep_local_recv_queue")?;
                (queue > CAUGHT_UP).then_some(queue)
            });
        }
    }

    /// Puts the setting back on a new connection to the node, because Ctrl-C may have killed the
    /// others. Returns the settings that could not be put back.
    pub fn end(
        &mut self,
        run: &Run,
        another: impl FnMut() -> Result<Connection, Error>,
    ) -> (Vec<String>, Result<(), DesyncError>) {
        self.applied.put_back(run, || {
            same_node(another).map_err(|source| DesyncError::Server {
                doing: "connecting to the node",
                source,
            })
        })
    }
}

/// Opens another connection to the same node: a load balancer may choose a different one.
///
/// # Errors
/// No connection reached that node.
pub fn same_node(
    mut another: impl FnMut() -> Result<Connection, Error>,
) -> Result<Connection, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match another() {
            Err(Error::WrongServer { .. }) if tries < NODES_MAX => {}
            other => return other,
        }
    }
}

/// Waits until a node is synced again after [`Desync::end`], as long as it makes progress.
pub fn await_synced(run: &Run, control: &mut Connection) {
    await_queue(run, || {
        let state = number(control, "wsrep_local_state")?;
        (state != SYNCED)
            .then(|| number(control, "wsrep_local_recv_queue"))
            .flatten()
    });
}

/// Waits while there is a queue, and reports its length.
fn await_queue(run: &Run, mut queue: impl FnMut() -> Option<u64>) {
    let (mut least, mut since) = (u64::MAX, Instant::now());
    let mut last_note: Option<Instant> = None;
    while let Some(queue) = queue() {
        if last_note.is_none_or(|last_note| last_note.elapsed() > NOTE) {
            run.events.note(format!(
                "the node has to apply {queue} write-sets of the cluster before it has caught up"
            ));
            last_note = Some(Instant::now());
        }
        if queue < least {
            (least, since) = (queue, Instant::now());
        }
        if since.elapsed() > NO_PROGRESS {
            run.events.warn(format!(
                "the node does not catch up: {queue} write-sets of the cluster are waiting, and \
                the other nodes may now have to wait for it"
            ));
            return;
        }
        run.cancel.sleep(POLL);
        if run.cancel.is_cancelled() {
            return;
        }
    }
}

/// A numeric status value of the node.
fn number(control: &mut Connection, name: &str) -> Option<u64> {
    control
        .query(format!("SHOW GLOBAL STATUS LIKE '{name}'"))
        .ok()?
        .u64(0, 1)
}
