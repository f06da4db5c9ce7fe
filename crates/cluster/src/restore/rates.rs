//! The rates from which the duration of a restore is estimated.
//!
//! They come from earlier restores of the cluster, or else from other work in the same cluster that
//! the state directory records.

use serde::{Deserialize, Serialize};

pub(super) const MIB: f64 = 1_048_576.0;

/// A rate and its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Of dump text for loads, of files for copies.
    pub bytes_per_second: f64,
    /// Where the rate comes from.
    pub from: RateFrom,
}

/// Where a rate comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum RateFrom {
    /// The user gave it.
    Given,
    /// Measured by an earlier restore of this cluster.
    Measured {
        /// Id of that run.
        run: String,
    },
    /// Measured by a run of another command in this cluster.
    Shown {
        /// Id of that run.
        run: String,
        /// The command, and what it worked on.
        by: String,
    },
    /// Measured on this cluster now, for a second.
    Tried,
    /// Assumed, in the order of magnitude of a local disk and a few cores. It is never shown and
    /// decides nothing.
    Assumed,
}

/// The rates for estimating the duration of both ways.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Loading dump text into one server.
    pub load: Rate,
    /// Loading dump text into a cluster whose nodes all apply it.
    pub replicate: Rate,
    /// A full copy, without the time that a node takes to start and join.
    pub copy: Rate,
    /// Seconds for a node to stop, start and join.
    pub restart_seconds: f64,
    /// Whether `restart_seconds` was measured with small copies; otherwise it is assumed.
    pub restart_measured: bool,
}

impl Default for Rates {
    fn default() -> Self {
        let assumed = |mib: f64| Rate {
            bytes_per_second: mib * MIB,
            from: RateFrom::Assumed,
        };
        Self {
            load: assumed(80.0),
            replicate: assumed(40.0),
            copy: assumed(100.0),
            restart_seconds: 4.0,
            restart_measured: false,
        }
    }
}

impl Rate {
    /// Whether the rate was given or measured, rather than assumed.
    pub fn is_known(&self) -> bool {
        self.from != RateFrom::Assumed
    }

    /// A rate that the user gave.
    pub const fn given(bytes_per_second: f64) -> Self {
        Self {
            bytes_per_second,
            from: RateFrom::Given,
        }
    }
}
