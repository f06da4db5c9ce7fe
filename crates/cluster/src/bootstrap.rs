//! All nodes are down: which one begins the cluster again.
//!
//! The one that holds what all others hold, and maybe more. Positions alone do not tell it: a history keeps its UUID when somebody has begun the
//! cluster with one node while another one held more, so what nodes keep of write-sets is compared as well.

mod plan;

use std::time::{Duration, Instant};

use refloat_run::Run;
use serde::{Deserialize, Serialize};

use crate::control::{Control, StartAs};
use crate::error::{ControlError, HostError};
use crate::files;
use crate::join::{Joining, Seen, look};
use crate::journal::LogMark;
use crate::member::Member;
pub use plan::plan_bootstrap;

/// How often the node that begins is looked at.
const POLL: Duration = Duration::from_millis(200);

/// Who begins the cluster, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapPlan {
    /// The cluster.
    pub cluster: String,
    /// The node that begins.
    pub node: String,
    /// Its place among the nodes.
    pub at: usize,
    /// The history that it goes on with.
    pub uuid: String,
    /// Where it stands.
    pub seqno: u64,
    /// Where all nodes stand.
    pub nodes: Vec<Standing>,
    /// What should be known before.
    pub warnings: Vec<String>,
}

/// Where a node that is down stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The node.
    pub name: String,
    /// History and seqno; `None`: it holds nothing, or nobody can tell.
    pub place: Option<(String, u64)>,
    /// Whether it was recovered from its tables; else it stands in its `grastate.dat`.
    pub recovered: bool,
    /// Whether its `grastate.dat` has forgotten its place: it ended in the middle of a definition or of a state transfer.
    pub forgotten: bool,
    /// Whether it was the last one to leave.
    pub last: bool,
    /// Why its place is not known, or that it is left out.
    pub unknown: Option<String>,
}

/// What somebody has said of it.
#[derive(Debug, Clone, Default)]
pub struct BootstrapWish {
    /// The node that begins, whatever others hold.
    pub node: Option<String>,
    /// Nodes that may hold anything.
    pub without: Vec<String>,
}

/// The cluster has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// The node.
    pub node: String,
    /// The history.
    pub uuid: String,
    /// Where it stood.
    pub seqno: u64,
}

/// Why the cluster has not begun.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// As things are no node may begin it.
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
    /// More than one might.
    #[error("which node is to begin the cluster is not clear: {}", .0.join("; "))]
    Unclear(Vec<String>),
    /// The node that was to begin has not.
    #[error("{node} has not begun the cluster: {reason}")]
    NotBegun {
        /// The node.
        node: String,
        /// What is known.
        reason: String,
    },
    /// It could not be started or looked at.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Its files could not be changed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Somebody stopped it.
    #[error("stopped on request; {node} goes on by itself if it was started")]
    Interrupted {
        /// The node.
        node: String,
    },
}

/// A cluster that begins again.
#[derive(Debug)]
pub struct Bootstrapping<'a> {
    /// All nodes, in the order of the plan.
    pub members: &'a [Member],
    /// How each is started and stopped.
    pub controls: &'a [Option<&'a Control>],
    /// This run.
    pub run: &'a Run,
    /// So long the node may take from its start until it serves.
    pub start_limit: Duration,
}

impl Bootstrapping<'_> {
    /// Has the chosen node begin the cluster, or waits for one that is on its way to.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub fn begin(&self, plan: &BootstrapPlan) -> Result<Begun, BootstrapError> {
        let member = &self.members[plan.at];
        let node = plan.node.clone();
        let not_begun = |reason: String| BootstrapError::NotBegun {
            node: node.clone(),
            reason,
        };
        let (Some(control), Some(host)) = (self.controls[plan.at], &member.host) else {
            return Err(not_begun(
                "nothing is said about how it is started (control), or where its files are (ssh)"
                    .to_owned(),
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
                "no command is given that begins a cluster (bootstrap)".to_owned(),
            ));
        }
        let serves = look(member).is_ok_and(|now| now.primary);
        let log = LogMark::of_node_that_is_down(control, member);
        if !serves && control.is_running()? != Some(true) {
            for (at, other) in self.members.iter().enumerate() {
                if at != plan.at && look(other).is_ok() {
                    return Err(not_begun(format!(
                        "{} runs by now: nothing was started",
                        other.name
                    )));
                }
            }
            let id = self.run.dir.id().as_str();
            let place = (plan.uuid.as_str(), plan.seqno);
            files::give_place_back(host, &member.folder(), id, place, true)?;
            self.run.events.note(format!(
                "{node} begins the cluster at {}:{} (safe_to_bootstrap: 1; its grastate.dat is kept as grastate.dat.refloat-{id})",
                plan.uuid, plan.seqno
            ));
            control.end_standalone()?;
            control.start(StartAs::First, &[])?;
        }
        let uuid = self.wait(plan, &mut Joining::new(member, control, log.as_ref()))?;
        if uuid != plan.uuid {
            return Err(not_begun(format!(
                "it has begun the history {uuid}, and its data are of {}: stop it, and let nobody join",
                plan.uuid
            )));
        }
        Ok(Begun {
            node,
            uuid,
            seqno: plan.seqno,
        })
    }

    /// Waits until the node serves; the history that it has begun with.
    fn wait(
        &self,
        plan: &BootstrapPlan,
        joining: &mut Joining<'_>,
    ) -> Result<String, BootstrapError> {
        let begun = Instant::now();
        let not_begun = |reason: String| BootstrapError::NotBegun {
            node: plan.node.clone(),
            reason,
        };
        loop {
            match joining.look() {
                Seen::There(now) => return Ok(now.cluster_uuid),
                Seen::Ended => {
                    return Err(not_begun(format!(
                        "it has ended while it started{}",
                        joining.last_words()
                    )));
                }
                Seen::Failed(line) => return Err(not_begun(line)),
                Seen::Coming if begun.elapsed() > self.start_limit => {
                    return Err(not_begun(format!(
                        "it does not serve after {} s (--start-limit), and goes on by itself; the same command waits again",
                        self.start_limit.as_secs()
                    )));
                }
                Seen::Coming => {}
            }
            if self.run.cancel.is_cancelled() {
                return Err(BootstrapError::Interrupted {
                    node: plan.node.clone(),
                });
            }
            joining.tell(&self.run.events);
            std::thread::sleep(POLL);
        }
    }
}
