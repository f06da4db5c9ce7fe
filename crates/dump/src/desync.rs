//! Galera desync: lets a node fall behind the cluster while it is read.
//!
//! Reading a whole server makes a node fall behind, and flow control then pauses the whole cluster.
//! With `wsrep_desync` the node may fall behind, and catches up afterwards. As with the settings of
//! a load, the change is journalled before it is made, and put back whatever happens.

use std::time::{Duration, Instant};

use refloat_read::session;
use refloat_run::Run;
use refloat_run::settings::{
    AppliedSettings, Durability, PlannedChange, SettingsPlan, WSREP_DESYNC,
};
use refloat_wire::{Connection, Error};

use super::error::DumpError;
use super::options::DumpOptions;

/// Write-sets that may be queued when desync ends. Below the point where flow control starts
/// (`gcs.fc_limit`, 16).
const CAUGHT_UP: u64 = 8;
/// Interval between two looks at the queue.
const POLL: Duration = Duration::from_millis(200);
/// Stop waiting after the queue has not shrunk for this long.
const NO_PROGRESS: Duration = Duration::from_secs(60);
/// Connection attempts through a load balancer before giving up on reaching the right node.
const NODES_MAX: u32 = 20;

/// The changed setting, until it is put back.
pub struct Desync {
    applied: AppliedSettings,
}

impl Desync {
    /// Changes nothing yet.
    pub fn new(run: &Run) -> Self {
        Self {
            applied: AppliedSettings::new(&run.dir),
        }
    }

    /// Sets `wsrep_desync` if the options ask for it. After an error the setting may have changed
    /// anyway, so [`Desync::end`] must always follow.
    pub fn begin(
        &mut self,
        options: &DumpOptions,
        run: &Run,
        control: &mut Connection,
    ) -> Result<(), DumpError> {
        if !options.desync {
            return Ok(());
        }
        // A value that a killed dump left behind must not pass for the administrator's.
        self.applied.clear(control, &run.events)?;
        let now = control
            .query(format!(
                "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{WSREP_DESYNC}', 'wsrep_on')"
            ))
            .map_err(|error| DumpError::server("asking for the settings of the cluster", error))?;
        let (Some(old), Some("ON")) = (now.named(WSREP_DESYNC), now.named("wsrep_on")) else {
            return Err(DumpError::refused(
                "the server is not a node of a Galera cluster, so --desync has no meaning here",
                "Leave --desync out.",
            ));
        };
        if old == "ON" {
            run.events.note(format!(
                "{WSREP_DESYNC} is ON already: somebody else lets the node fall behind, and may end that before this dump ends"
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
        match self.applied.apply(control, &plan, &run.events) {
            Ok(()) => {}
            Err(_) if run.cancel.is_cancelled() => return Err(DumpError::interrupted(&run.cancel)),
            Err(error) => return Err(error.into()),
        }
        let Some(skipped) = self.applied.skipped().first() else {
            return Ok(());
        };
        let hint = match self.applied.blocked_by() {
            Some(_) => "Wait until it has ended, or dump another node.",
            None => {
                "The account needs SUPER for it; without --desync the dump is made at the pace of the cluster."
            }
        };
        Err(DumpError::refused(
            format!("{WSREP_DESYNC} cannot be changed: {}", skipped.reason),
            hint.to_owned(),
        ))
    }

    /// Waits until the node has caught up, as long as it makes progress. Until the setting is put
    /// back, the node's queue holds up nobody. Ctrl-C ends the wait.
    pub fn catch_up(&self, run: &Run, control: &mut Connection) {
        if !self.applied.is_open() {
            return;
        }
        let (mut least, mut since) = (u64::MAX, Instant::now());
        let mut is_said = false;
        while let Some(queue) = queue(control).filter(|queue| *queue > CAUGHT_UP) {
            if !is_said {
                run.events.note(format!(
                    "the node has {queue} write-sets of the cluster to apply until it has caught \
                    up"
                ));
                is_said = true;
            }
            if queue < least {
                (least, since) = (queue, Instant::now());
            }
            if since.elapsed() > NO_PROGRESS {
                run.events.warn(format!(
                    "the node does not catch up: {queue} write-sets of the cluster are waiting, \
                    and the other nodes may now have to wait for it"
                ));
                return;
            }
            run.cancel.sleep(POLL);
            if run.cancel.is_cancelled() {
                return;
            }
        }
    }

    /// Puts the setting back on a new connection to the node that `control` reached, because Ctrl-C
    /// may have killed the others. Returns the settings that could not be put back.
    pub fn end(
        &mut self,
        options: &DumpOptions,
        run: &Run,
        control: &Connection,
    ) -> (Vec<String>, Result<(), DumpError>) {
        self.applied.put_back(run, || {
            let mut tries = 0;
            loop {
                tries += 1;
                match session::another(control, &options.read) {
                    // A load balancer may lead to another node.
                    Err(Error::WrongServer { .. }) if tries < NODES_MAX => {}
                    other => {
                        return other
                            .map_err(|error| DumpError::server("connecting to the node", error));
                    }
                }
            }
        })
    }
}

/// Length of the queue of write-sets waiting to be applied.
fn queue(control: &mut Connection) -> Option<u64> {
    control
        .query("SHOW GLOBAL STATUS LIKE 'wsrep_local_recv_queue'")
        .ok()?
        .u64(0, 1)
}
