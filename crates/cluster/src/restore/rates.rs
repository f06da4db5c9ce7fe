//! By which rates the time of a restore is estimated: those that earlier restores of the cluster have shown, where there were any, else
//! those that other work in the same cluster has shown, as far as the state directory tells of it.

use serde::{Deserialize, Serialize};

pub(super) const MIB: f64 = 1_048_576.0;

/// A rate, and who says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Where it is from.
    pub from: RateFrom,
}

/// Where a rate is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum RateFrom {
    /// Somebody has said so.
    Given,
    /// An earlier restore of this cluster has shown it.
    Measured {
        /// Its run.
        run: String,
    },
    /// A run of another command has shown it in this cluster.
    Shown {
        /// That run.
        run: String,
        /// The command, and what it worked on.
        by: String,
    },
    /// It was measured on this cluster just now, for a second.
    Tried,
    /// Nobody has measured it: of the order of what a local disk and a few cores do. It is shown to nobody, and decides nothing.
    Assumed,
}

/// Rates by which the time of both ways is estimated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Text into one server.
    pub load: Rate,
    /// The same with all nodes applying it too.
    pub replicate: Rate,
    /// A full copy, without what a node takes to start and join.
    pub copy: Rate,
    /// Seconds for a node to stop, start and join.
    pub restart_seconds: f64,
    /// Whether small copies have shown that; else it is assumed.
    #[serde(default)]
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
    /// Whether somebody has given or measured it.
    pub fn is_known(&self) -> bool {
        self.from != RateFrom::Assumed
    }

    /// One that somebody has given.
    pub const fn given(bytes_per_second: f64) -> Self {
        Self {
            bytes_per_second,
            from: RateFrom::Given,
        }
    }
}
