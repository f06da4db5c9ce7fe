//! By which rates the time of a restore is estimated: those that earlier restores of the cluster have shown, where there were any.

use std::path::Path;

use refloat_run::RunDir;
use serde::{Deserialize, Serialize};

use super::state::{RestoreState, RestoreWay, STATE};

const MIB: f64 = 1_048_576.0;
/// What takes less time than this says nothing of a rate.
const SECONDS_LEAST: f64 = 2.0;

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
    /// Nobody knows: of the order of what a local disk and a few cores do.
    Assumed,
}

/// Rates by which the time of both ways is estimated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Text into one server.
    pub load: Rate,
    /// The same with all nodes applying it too.
    pub replicate: Rate,
    /// A full copy, a node's start included where it was measured.
    pub copy: Rate,
    /// Seconds for a node to stop, start and join.
    pub restart_seconds: f64,
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
        }
    }
}

impl Rate {
    /// One that somebody has given.
    pub const fn given(bytes_per_second: f64) -> Self {
        Self {
            bytes_per_second,
            from: RateFrom::Given,
        }
    }
}

impl Rates {
    /// The newest that restores of this cluster have shown, as far as their runs are still in the state directory; others are assumed.
    pub fn measured(state_dir: &Path, cluster: &str) -> Self {
        let states = RunDir::list(state_dir)
            .unwrap_or_default()
            .into_iter()
            .rev();
        let states = states.filter_map(|dir| {
            let state: RestoreState = dir.has(STATE).then(|| dir.read(STATE).ok()).flatten()?;
            (state.cluster == cluster).then(|| (dir.id().to_string(), state))
        });
        let mut rates = Self::default();
        for (run, state) in states {
            rates.learn(&run, &state);
        }
        rates
    }

    /// What a restore has shown of rates that are not known yet.
    fn learn(&mut self, run: &str, state: &RestoreState) {
        let text = match state.plan.way {
            RestoreWay::Rebuild => &mut self.load,
            RestoreWay::Replicate => &mut self.replicate,
        };
        if let Some(loaded) = state.loaded.as_ref().filter(|loaded| !loaded.resumed) {
            text.learn(run, loaded.bytes as f64, loaded.seconds);
        }
        let joined = state.nodes.iter().filter_map(|node| node.joined.as_ref());
        let (bytes, seconds) = joined
            .filter_map(|joined| Some((joined.copied?, joined.join_seconds)))
            .fold((0.0, 0.0), |(bytes, seconds), (more, took)| {
                (bytes + more as f64, seconds + took)
            });
        self.copy.learn(run, bytes, seconds);
    }
}

impl Rate {
    fn learn(&mut self, run: &str, bytes: f64, seconds: f64) {
        if self.from == RateFrom::Assumed && seconds >= SECONDS_LEAST && bytes > 0.0 {
            *self = Self {
                bytes_per_second: bytes / seconds,
                from: RateFrom::Measured {
                    run: run.to_owned(),
                },
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::plan::{Estimates, RestorePlan};
    use super::super::state::{Loaded, NodeProgress, RestoreStep};
    use super::*;
    use crate::proof::{CameBy, Proof};
    use crate::rejoin::Rejoined;

    fn ended(way: RestoreWay, bytes: u64, seconds: f64, copied: Option<u64>) -> RestoreState {
        let joined = copied.map(|bytes| Rejoined {
            node: "n2".to_owned(),
            proof: Proof {
                by: CameBy::Sst,
                evidence: String::new(),
            },
            left: None,
            back: 1,
            join_seconds: 10.0,
            copied: Some(bytes),
            not_released: Vec::new(),
        });
        RestoreState {
            format: 1,
            cluster: "shop".to_owned(),
            asked: String::new(),
            plan: RestorePlan {
                source: String::new(),
                text_bytes: None,
                way,
                why: String::new(),
                estimates: Estimates {
                    rebuild: None,
                    replicate: None,
                },
                rates: Rates::default(),
                at: 0,
                nodes: Vec::new(),
                options: Vec::new(),
                port: 0,
                socket: None,
                warnings: Vec::new(),
            },
            step: RestoreStep::Ended,
            nodes: vec![
                NodeProgress::default(),
                NodeProgress {
                    joined,
                    ..NodeProgress::default()
                },
            ],
            was_last: false,
            marks: None,
            before: BTreeMap::new(),
            loaded: Some(Loaded {
                bytes,
                seconds,
                ..Loaded::default()
            }),
            uuid: None,
            given_up: false,
        }
    }

    #[test]
    fn the_newest_restore_that_shows_a_rate_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |state: &RestoreState| {
            let dir = RunDir::create(folder.path(), "cluster restore").unwrap();
            dir.write(STATE, state).unwrap();
            // Runs of one second have no order.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            dir.id().to_string()
        };
        write(&ended(RestoreWay::Rebuild, 1, 100.0, None));
        let newer = write(&ended(RestoreWay::Rebuild, 1000, 10.0, Some(500)));
        let mut of_another = ended(RestoreWay::Replicate, 7, 10.0, None);
        of_another.cluster = "other".to_owned();
        write(&of_another);
        // What was begun before an interruption, and what took no time, says nothing.
        let mut resumed = ended(RestoreWay::Rebuild, 5, 10.0, None);
        resumed.loaded.as_mut().unwrap().resumed = true;
        write(&resumed);
        write(&ended(RestoreWay::Rebuild, 5, 1.0, None));
        let rates = Rates::measured(folder.path(), "shop");
        let shown = |bytes_per_second| Rate {
            bytes_per_second,
            from: RateFrom::Measured { run: newer.clone() },
        };
        assert_eq!(rates.load, shown(100.0));
        assert_eq!(rates.copy, shown(50.0));
        assert_eq!(rates.replicate, Rates::default().replicate);
    }
}
