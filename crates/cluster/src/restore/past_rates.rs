//! Learns rates from earlier runs.

use std::path::Path;

use refloat_run::RunDir;
use refloat_run::events::{Outcome, RunResult};

use super::planned::RestoreWay;
use super::rates::{MIB, Rate, RateFrom, Rates};
use super::state::{RestoreState, STATE};

/// Work that took less time gives no rate.
const SECONDS_LEAST: f64 = 2.0;
/// A load of less text spends its time on other things, and does not show the rate of a large load.
const TEXT_LEAST: f64 = 256.0 * MIB;
/// A smaller full copy spends its time on starting servers and finding donors. That time is not a
/// rate, and is recorded separately.
const COPY_LEAST: f64 = 256.0 * MIB;
// Commands whose runs also show rates.
const REJOIN: &str = "cluster rejoin";
const LOAD: &str = "load";

impl Rates {
    /// The newest rates from restores of this cluster whose runs are still in the state directory.
    /// Rates that no restore measured come from the newest `load` into this cluster, and from the
    /// newest full copy for a `rejoin` in it.
    pub fn measured(state_dir: &Path, cluster: &str) -> Self {
        let runs = RunDir::list(state_dir).unwrap_or_default();
        let mut rates = Self::default();
        for dir in runs.iter().rev().filter(|dir| dir.has(STATE)) {
            let state: Option<RestoreState> = dir.read(STATE).ok();
            if let Some(state) = state.filter(|state| state.cluster == cluster) {
                rates.learn(dir.id().as_str(), &state);
            }
        }
        for dir in runs.iter().rev() {
            if rates.are_known() {
                break;
            }
            let ended: Option<Outcome> = dir
                .has(RunDir::OUTCOME)
                .then(|| dir.read(RunDir::OUTCOME).ok())
                .flatten();
            if let Some(ended) = ended.filter(|ended| ended.result == RunResult::Done) {
                let command = dir.info().command.as_str();
                rates.learn_of_others(dir.id().as_str(), command, &ended.summary, cluster);
            }
        }
        rates
    }

    fn are_known(&self) -> bool {
        let all = [&self.load, &self.replicate, &self.copy];
        all.iter().all(|rate| rate.is_known())
    }

    /// Learns rates that are still unknown from a run of another command. Another version of this
    /// program may have recorded it, so missing fields are ignored.
    fn learn_of_others(
        &mut self,
        run: &str,
        command: &str,
        summary: &serde_json::Value,
        cluster: &str,
    ) {
        let number = |name: &str| summary[name].as_f64().unwrap_or(0.0);
        let shown = |by: String| RateFrom::Shown {
            run: run.to_owned(),
            by,
        };
        match command {
            // The time spent before an interruption is not recorded.
            LOAD if summary["resumed"].is_null() => {
                let from = shown(format!(
                    "load into {}",
                    summary["target"].as_str().unwrap_or("?")
                ));
                // A load into a standalone server says nothing about these machines.
                if summary["galera"]["cluster"] == cluster {
                    self.replicate
                        .learn_text(from, number("bytes"), number("seconds"));
                }
            }
            REJOIN if summary["cluster"] == cluster => {
                let from = shown(format!(
                    "{command} {}",
                    summary["node"].as_str().unwrap_or("?")
                ));
                self.learn_copies(from, 1.0, (number("copied"), number("join_seconds")));
            }
            _ => {}
        }
    }

    /// Learns rates that are still unknown from a restore.
    fn learn(&mut self, run: &str, state: &RestoreState) {
        let measured = || RateFrom::Measured {
            run: run.to_owned(),
        };
        let text = match state.plan.way {
            RestoreWay::Rebuild => &mut self.load,
            RestoreWay::Replicate => &mut self.replicate,
        };
        if let Some(loaded) = state.loaded.as_ref().filter(|loaded| !loaded.resumed) {
            text.learn_text(measured(), loaded.bytes as f64, loaded.seconds);
        }
        let joined = state.nodes.iter().filter_map(|node| node.joined.as_ref());
        let (copies, bytes, seconds) = joined
            .filter_map(|joined| Some((joined.copied?, joined.join_seconds)))
            .fold((0.0, 0.0, 0.0), |(copies, bytes, seconds), (more, took)| {
                (copies + 1.0, bytes + more as f64, seconds + took)
            });
        self.learn_copies(measured(), copies, (bytes, seconds));
    }

    /// Large copies show a rate; small ones show how long a node takes to start and join.
    fn learn_copies(&mut self, from: RateFrom, copies: f64, (bytes, seconds): (f64, f64)) {
        if copies < 1.0 || bytes <= 0.0 {
            return;
        }
        if bytes / copies >= COPY_LEAST {
            // The assumed start time may exceed the whole time that was measured.
            let starts = (copies * self.restart_seconds).min(seconds / 2.0);
            self.copy.learn(from, bytes, seconds - starts);
        } else if !self.restart_measured && seconds > 0.0 {
            (self.restart_seconds, self.restart_measured) = (seconds / copies, true);
        }
    }
}

impl Rate {
    fn learn_text(&mut self, from: RateFrom, bytes: f64, seconds: f64) {
        if bytes >= TEXT_LEAST {
            self.learn(from, bytes, seconds);
        }
    }

    fn learn(&mut self, from: RateFrom, bytes: f64, seconds: f64) {
        if !self.is_known() && seconds >= SECONDS_LEAST && bytes > 0.0 {
            *self = Self {
                bytes_per_second: bytes / seconds,
                from,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::planned::{Estimates, RestorePlan};
    use super::super::state::{Loaded, NodeProgress, RestoreStep};
    use super::*;
    use crate::proof::{CameBy, Proof};
    use crate::rejoin::Rejoined;

    const GIB: u64 = 1 << 30;

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
            history: None,
        });
        RestoreState {
            format: 1,
            cluster: "shop".to_owned(),
            asked: String::new(),
            command: String::new(),
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
            // Runs started within the same second have no order.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            dir.id().to_string()
        };
        write(&ended(RestoreWay::Rebuild, GIB, 100.0, None));
        let newer = write(&ended(RestoreWay::Rebuild, 2 * GIB, 10.0, Some(3 * GIB)));
        // A small copy spends its time on other things and shows no rate.
        write(&ended(RestoreWay::Rebuild, 1000, 10.0, Some(500)));
        let mut of_another = ended(RestoreWay::Replicate, GIB, 10.0, None);
        of_another.cluster = "other".to_owned();
        write(&of_another);
        // A resumed load, and one that took no time, show nothing.
        let mut resumed = ended(RestoreWay::Rebuild, GIB, 10.0, None);
        resumed.loaded.as_mut().unwrap().resumed = true;
        write(&resumed);
        write(&ended(RestoreWay::Rebuild, GIB, 1.0, None));
        let rates = Rates::measured(folder.path(), "shop");
        let shown = |bytes_per_second| Rate {
            bytes_per_second,
            from: RateFrom::Measured { run: newer.clone() },
        };
        assert_eq!(rates.load, shown(2.0 * GIB as f64 / 10.0));
        // On this cluster, ten seconds are what a start takes, but not all of what a copy took.
        assert!(rates.restart_measured && (rates.restart_seconds - 10.0).abs() < 1e-9);
        assert_eq!(rates.copy, shown(3.0 * GIB as f64 / 5.0));
        assert_eq!(rates.replicate, Rates::default().replicate);
    }

    #[test]
    fn what_no_restore_has_shown_is_of_other_runs() {
        let folder = tempfile::tempdir().unwrap();
        let write = |command: &str, result: RunResult, summary: serde_json::Value| {
            let dir = RunDir::create(folder.path(), command).unwrap();
            let outcome = Outcome {
                result,
                seconds: 1.0,
                message: None,
                hints: Vec::new(),
                summary,
            };
            dir.write(RunDir::OUTCOME, &outcome).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1100));
            dir.id().to_string()
        };
        let load = |bytes: u64, more: serde_json::Value| {
            let mut summary = serde_json::json!({"bytes": bytes << 20, "seconds": 10.0, "resumed": null, "target": "db1:3306", "galera": null});
            let more = more.as_object().unwrap();
            summary.as_object_mut().unwrap().extend(more.clone());
            summary
        };
        // Into a standalone server, on an unknown machine.
        write(LOAD, RunResult::Done, load(1000, serde_json::json!({})));
        // A small load spends its time on things other than text.
        write(LOAD, RunResult::Done, load(9, serde_json::json!({})));
        let many = serde_json::json!({"galera": {"cluster": "shop"}});
        let many = write(LOAD, RunResult::Done, load(500, many));
        let of_another = serde_json::json!({"galera": {"cluster": "other"}});
        write(LOAD, RunResult::Done, load(1, of_another));
        write(LOAD, RunResult::Failed, load(2, serde_json::json!({})));
        write(
            LOAD,
            RunResult::Done,
            load(3, serde_json::json!({"resumed": {}})),
        );
        let copied = |cluster: &str| serde_json::json!({"cluster": cluster, "node": "n2", "copied": 700_u64 << 20, "join_seconds": 11.0});
        let copy = write(REJOIN, RunResult::Done, copied("shop"));
        write(REJOIN, RunResult::Done, copied("other"));
        let rates = Rates::measured(folder.path(), "shop");
        let shown = |bytes_per_second, run: &str, by: &str| Rate {
            bytes_per_second,
            from: RateFrom::Shown {
                run: run.to_owned(),
                by: by.to_owned(),
            },
        };
        assert_eq!(rates.load, Rates::default().load);
        assert_eq!(
            rates.replicate,
            shown(50.0 * MIB, &many, "load into db1:3306")
        );
        assert_eq!(rates.copy, shown(100.0 * MIB, &copy, "cluster rejoin n2"));
        // A restore of this cluster takes precedence over runs of other commands.
        let dir = RunDir::create(folder.path(), "cluster restore").unwrap();
        dir.write(STATE, &ended(RestoreWay::Rebuild, 900 << 20, 10.0, None))
            .unwrap();
        let again = Rates::measured(folder.path(), "shop");
        assert!((again.load.bytes_per_second - 90.0 * MIB).abs() < 1e-6);
        assert_eq!(again.copy, rates.copy);
    }
}
