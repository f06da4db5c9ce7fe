//! What a copy did, or would do.

use refloat_source::manifest::SnapshotInfo;
use serde::Serialize;

use refloat_dump::SnapshotCost;
use refloat_load::{LoadOutcome, LoadPlan};
use refloat_verify::VerifyOutcome;

/// What a copy did.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct CopyOutcome {
    /// Vendor and version of the source.
    pub source_server: String,
    /// Of which moment the rows are.
    pub snapshot: SnapshotInfo,
    /// What is not copied, and what somebody should know.
    pub notes: Vec<String>,
    /// Seconds for which readers were held back on request, all together; waiting for the target is not among them.
    pub held_seconds: f64,
    /// What the snapshot has cost the source while rows were read.
    pub snapshot_cost: SnapshotCost,
    /// What was done on the target.
    #[serde(flatten)]
    pub load: LoadOutcome,
    /// What the comparison of every row has found, where it was asked for.
    pub verified: Option<VerifyOutcome>,
}

/// What a copy would do.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CopyPlan {
    /// Vendor and version of the source.
    pub source_server: String,
    /// What is not copied, and what somebody should know.
    pub notes: Vec<String>,
    /// What would be done on the target; rows and bytes are what the source estimates.
    #[serde(flatten)]
    pub load: LoadPlan,
}
