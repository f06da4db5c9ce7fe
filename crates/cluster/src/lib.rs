//! Galera clusters and their nodes.
//!
//! Every node is queried directly, and never trusted about another one: a disagreement between
//! nodes is a finding, not an average. Servers are reached through the wire crate, and files of
//! nodes through [`refloat_host::Host`]. The crate must not print, read the environment, or access
//! a server that it was not given.
//!
//! Read first: [`ClusterFile`] (which nodes exist), [`NodeState`] (what one node reports) and
//! [`ClusterView`] (all nodes combined, with the problems found).

mod address;
pub mod advise;
mod bootstrap;
mod claim;
mod compare;
mod config;
mod ddl;
mod discover;
mod entrance;
mod error;
mod findings;
#[cfg(test)]
mod fixtures;
mod forecast;
pub mod fuzzing;
pub mod healthd;
mod history;
mod hold;
mod in_step;
mod join;
mod journal;
mod keep;
mod maintain;
mod member;
mod memory;
mod node;
mod observe;
mod proof;
mod reasons;
mod rejoin;
mod restore;
mod sst_donor;
mod verify;
mod view;
mod work;

pub use bootstrap::{
    Begun, BootstrapError, BootstrapPlan, BootstrapWish, Bootstrapping, Standing, plan_bootstrap,
};
pub use claim::{maintenances_elsewhere, open_work, restores_elsewhere};
pub use config::{ClusterFile, NodeConfig};
pub use discover::{Discovered, discover};
pub use entrance::{Entrance, Landed};
pub use error::{ConfigError, DiscoverError};
pub use history::{History, Parting, Side};
pub use hold::{HoldPlan, HoldWish, Holder, Way, plan_hold, rolling_order};
pub use maintain::{
    MaintainError, MaintainLimits, MaintainPhase, MaintainState, Maintained, Maintenance, Work,
    open_maintenance,
};
pub use member::{Member, Observation, WantedTables};
pub use node::{FlowControl, Gcache, Limits, LongDdl, NodeState, Queue, Role, Sst};
pub use observe::observe;
pub use proof::{CameBy, Proof};
pub use refloat_host::Copying;
pub use rejoin::{
    DonorChoice, Leave, OnlyCopy, RejoinError, RejoinPlan, Rejoined, Rejoining, copy_donors,
    plan_hold_for_start, plan_rejoin,
};
pub use restore::{
    Driving, Estimates, Loaded, NodeProgress, OldData, PlannedNode, RESTORE_STATE, Rate, RateFrom,
    Rates, Restore, RestoreError, RestorePlan, RestoreState, RestoreStep, RestoreWay, RestoreWish,
    Restored, RestoredNode, asked_for, differing, plan_restore, recorded_restore,
};
pub use verify::{NodeVerdict, Verified, VerifyNodesError, Verifying};
pub use view::{
    ClusterView, Donor, Finding, NodeView, Quorum, Rejoin, RejoinKind, Severity, Tables,
};
pub use work::{OpenWork, WorkKind};
