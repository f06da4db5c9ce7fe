//! Bootstraps a cluster from the right node when all nodes are down.
//!
//! The right node is one that holds everything the others hold, and maybe more. Positions alone do
//! not identify it: if a cluster was bootstrapped from one node while another one held more, both
//! follow a history with the same UUID. So the write-sets that the nodes keep are compared as well.

mod plan;

use std::time::{Duration, Instant};

use refloat_host::{Control, ControlError, HostError, StartAs, datadir, place};
use refloat_run::{Refusal, Run};
use serde::{Deserialize, Serialize};

use crate::join::{Joining, Seen, late, look};
use crate::journal;
use crate::member::Member;
pub use plan::plan_bootstrap;

/// How often the bootstrapping node is checked.
const POLL: Duration = Duration::from_millis(200);

/// Which node bootstraps the cluster, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapPlan {
    /// As the list of nodes or the servers name it.
    pub cluster: String,
    /// Name of the node that bootstraps the cluster.
    pub node: String,
    /// Its index among the nodes.
    pub at: usize,
    /// UUID of the history that continues.
    pub uuid: String,
    /// The node's last write-set.
    pub seqno: u64,
    /// The positions of all nodes.
    pub nodes: Vec<Standing>,
    /// What the user should know before the bootstrap begins.
    pub warnings: Vec<String>,
}

/// The position of a node that is down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// As the list of nodes names it.
    pub name: String,
    /// History and seqno. `None`: the node holds nothing, or its position is unknown.
    pub place: Option<(String, u64)>,
    /// Whether the position was recovered from the tables, rather than read from `grastate.dat`.
    pub recovered: bool,
    /// Whether its `grastate.dat` has lost the position: the node stopped in the middle of DDL or
    /// of a state transfer.
    pub forgotten: bool,
    /// Whether it was the last node to leave.
    pub last: bool,
    /// Why its position is unknown, or a note that the node is left out.
    pub unknown: Option<String>,
}

/// What the user requested.
#[derive(Debug, Clone, Default)]
pub struct BootstrapWish {
    /// The node to bootstrap from, whatever the others hold. `None`: the most advanced one, if that
    /// is clear.
    pub node: Option<String>,
    /// Nodes to leave out, whatever they hold.
    pub without: Vec<String>,
}

/// The result of a bootstrap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Name of the node that bootstrapped the cluster.
    pub node: String,
    /// UUID of the history that continues.
    pub uuid: String,
    /// The seqno at which it began.
    pub seqno: u64,
}

/// Why the cluster was not bootstrapped.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// No node may bootstrap it now.
    #[error("{}", Refusal::reasons(.0))]
    Refused(Vec<Refusal>),
    /// More than one node might be the right one.
    #[error("it is not clear which node to bootstrap from: {}", .0.join("; "))]
    Unclear(Vec<String>),
    /// The chosen node did not bootstrap the cluster.
    #[error("{node} has not bootstrapped the cluster: {wrong}")]
    NotBegun {
        /// The node that was to bootstrap it.
        node: String,
        /// What is known about it, and what to do.
        wrong: Refusal,
    },
    /// The node could not be started or checked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Its files could not be changed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The user stopped it.
    #[error("stopped on request; {node} continues by itself if it was started")]
    Interrupted {
        /// The node that was being bootstrapped.
        node: String,
    },
}

/// A bootstrap in progress.
#[derive(Debug)]
pub struct Bootstrapping<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How each node is started and stopped. `None`: not configured.
    pub controls: &'a [Option<&'a Control>],
    /// This run: its folder, events and cancellation.
    pub run: &'a Run,
    /// Limit on the time from the start of the node until it serves.
    pub start_limit: Duration,
}

impl Bootstrapping<'_> {
    /// Bootstraps the cluster from the chosen node, or waits for it if it is already starting.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub fn begin(&self, plan: &BootstrapPlan) -> Result<Begun, BootstrapError> {
        let member = &self.members[plan.at];
        let node = plan.node.clone();
        let not_begun = |wrong: Refusal| BootstrapError::NotBegun {
            node: node.clone(),
            wrong,
        };
        let (Some(control), Some(host)) = (self.controls[plan.at], &member.host) else {
            return Err(not_begun(
                "the list does not say how it is started (control), or where its files are (ssh)"
                    .into(),
            ));
        };
        if matches!(
            control,
            Control::Commands {
                bootstrap: None,
                ..
            }
        ) {
            return Err(not_begun(
                "no command is given that bootstraps a cluster (bootstrap)".into(),
            ));
        }
        let serves = look(member).is_ok_and(|now| now.primary);
        let log = journal::of_node_that_is_down(control, member);
        let process = datadir::server_in(host, &member.folder())?;
        // If no command can tell, a server on its data directory counts as already starting.
        let runs = control.is_running()?.unwrap_or(process.is_some());
        if !serves && !runs {
            for (at, other) in self.members.iter().enumerate() {
                if at != plan.at && look(other).is_ok() {
                    let reason = format!("{} is running now: nothing was started", other.name);
                    return Err(not_begun(reason.into()));
                }
            }
            // The server was not started by this control.
            if let Some(process) = process {
                let wrong = Refusal::new(format!(
                    "process {process} is a server that works in its data directory"
                ));
                return Err(not_begun(
                    wrong.hint(format!("Stop process {process} first.")),
                ));
            }
            let id = self.run.dir.id().as_str();
            let place = (plan.uuid.as_str(), plan.seqno);
            place::give_place_back(host, &member.folder(), id, place, true)?;
            self.run.events.note(format!(
                "{node} bootstraps the cluster at {}:{} (safe_to_bootstrap: 1; its grastate.dat is \
                kept as grastate.dat.refloat-{id})",
                plan.uuid, plan.seqno
            ));
            control.end_standalone()?;
            control.start(StartAs::First, &[])?;
        }
        let uuid = self.wait(plan, &mut Joining::new(member, control, log.as_ref()))?;
        if uuid != plan.uuid {
            let wrong = Refusal::new(format!(
                "it has begun the history {uuid}, but its data are of {}",
                plan.uuid
            ));
            return Err(not_begun(
                wrong.hint(format!("Stop {node}, and let nobody join.")),
            ));
        }
        Ok(Begun {
            node,
            uuid,
            seqno: plan.seqno,
        })
    }

    /// Waits until the node serves. Returns the UUID of the history that it follows.
    fn wait(
        &self,
        plan: &BootstrapPlan,
        joining: &mut Joining<'_>,
    ) -> Result<String, BootstrapError> {
        let begun = Instant::now();
        let not_begun = |wrong: Refusal| BootstrapError::NotBegun {
            node: plan.node.clone(),
            wrong,
        };
        loop {
            match joining.look() {
                Seen::There(now) => return Ok(now.cluster_uuid),
                Seen::Ended => {
                    let reason = format!("it has ended while it started{}", joining.last_words());
                    return Err(not_begun(reason.into()));
                }
                Seen::Failed(line) => return Err(not_begun(line.into())),
                Seen::Coming if begun.elapsed() > self.start_limit => {
                    return Err(not_begun(late(self.start_limit, &joining.last_words())));
                }
                Seen::Coming => {}
            }
            if self.run.cancel.is_cancelled() {
                return Err(BootstrapError::Interrupted {
                    node: plan.node.clone(),
                });
            }
            joining.report(&self.run.events);
            std::thread::sleep(POLL);
        }
    }
}
