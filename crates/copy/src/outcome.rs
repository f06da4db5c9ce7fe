//! The result of a copy, and the plan of one.

use refloat_source::manifest::SnapshotInfo;
use serde::{Serialize, Serializer};

use refloat_dump::SnapshotCost;
use refloat_load::{LoadOutcome, LoadPlan};
use refloat_verify::VerifyOutcome;

/// The result of a copy.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct CopyOutcome {
    /// Vendor and version of the source.
    pub source_server: String,
    /// The moment that the rows are from.
    pub snapshot: SnapshotInfo,
    /// What is not copied, and other things to know.
    pub notes: Vec<String>,
    /// Seconds for which throttling held readers back, summed over all readers. Waiting for the
    /// target does not count.
    pub held_seconds: f64,
    /// What the snapshot cost the source while rows were read.
    pub snapshot_cost: SnapshotCost,
    /// What was done on the target.
    #[serde(flatten, serialize_with = "as_of_a_load")]
    pub load: LoadOutcome,
    /// Result of comparing every row; `None` if that was not asked for.
    pub verified: Option<VerifyOutcome>,
}

/// The fields that a load has, as [`LoadOutcome::to_json`] reports them.
fn as_of_a_load<S: Serializer>(load: &LoadOutcome, to: S) -> Result<S::Ok, S::Error> {
    load.to_json().serialize(to)
}

/// What a copy would do; nothing was touched.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CopyPlan {
    /// Vendor and version of the source.
    pub source_server: String,
    /// What would not be copied, and other things to know.
    pub notes: Vec<String>,
    /// What would be done on the target. Rows and bytes are the source's estimates.
    #[serde(flatten)]
    pub load: LoadPlan,
}
