//! Estimates how long a run will still take, over all its phases.
//!
//! The data phase is estimated from the raw bytes of the source: rest ÷ rate, where the rate is the
//! mean of two rates, over the whole phase (steady) and over the last few seconds (sees changes).
//! Builds of indexes and foreign keys are estimated from the bytes of table text they read: rest ÷
//! rate, where the rate is what the builds of this run have reached so far or, before the first has
//! finished, a ratio to the rate of the data phase.
//! A redo log is estimated from its size, and catching up from how much of the source's log has
//! been replicated per second.

use super::Phase;

/// Before the first build has finished: builds read table text this many times as fast as loading
/// brings it in. (604 MB: loading took 4.4 to 5.7 s, one secondary index on each table 1.8 to 3.5
/// s.)
const DEFAULT_BUILD_RATIO: f64 = 2.0;
/// Weight of that guess against measurements: as if it were this part of all builds.
const GUESS_WEIGHT: f64 = 0.05;
/// Bytes of redo log that are applied per second, and the seconds that it takes to begin and end.
/// (mariadb-backup 10.11 with 1 GiB of memory, files in memory: 116 MB of inserts took 1.8 seconds
/// of a processor, 150 MB of updates of random rows 2.9.)
const REDO_RATE: f64 = 50e6;
const REDO_LEAST: f64 = 1.0;
/// Seconds of data phase before an estimate is worth giving.
const MIN_DATA_SECONDS: f64 = 1.0;

/// What an estimate is based on.
#[derive(Debug, Clone, PartialEq)]
pub struct EtaInput {
    /// Current phase.
    pub phase: Phase,
    /// Size of the raw source in bytes, if known.
    pub source_total: Option<u64>,
    /// Raw bytes read so far.
    pub source_done: u64,
    /// Bytes of dump text that are in the server.
    pub bytes_done: u64,
    /// Duration of the data phase so far.
    pub data_seconds: f64,
    /// Raw bytes per second over the last few seconds.
    pub recent_source_rate: f64,
    /// Bytes that all builds known so far read.
    pub build_bytes_planned: u64,
    /// Bytes that finished builds have read.
    pub build_bytes_done: u64,
    /// Total seconds of finished builds.
    pub build_seconds: f64,
    /// Running builds: bytes, and seconds so far.
    pub running_builds: Vec<(u64, f64)>,
    /// Seconds since the first build started.
    pub builds_wall_seconds: f64,
    /// Bytes of redo log that will be applied to the files, if known.
    pub redo_bytes: Option<u64>,
    /// Duration of the prepare phase so far.
    pub prepare_seconds: f64,
    /// Catching up: bytes of the source's log to replicate, and how many of them are.
    pub behind: Option<(u64, u64)>,
    /// Duration of the catch-up phase so far.
    pub catch_up_seconds: f64,
}

/// Estimated seconds left over all phases; `None` if no estimate is possible (the size is unknown,
/// or it is too early).
pub fn estimate(input: &EtaInput) -> Option<f64> {
    match input.phase {
        Phase::Preflight | Phase::Settings => None,
        Phase::Data => {
            let data = data_left(input)?;
            let redo = redo_left(input).unwrap_or(0.0);
            Some(data + redo + builds_left(input).unwrap_or(0.0))
        }
        Phase::Prepare => redo_left(input),
        Phase::CatchUp => catch_up_left(input),
        Phase::Indexes | Phase::ForeignKeys => builds_left(input),
        Phase::Programs | Phase::Proof | Phase::Revert => Some(builds_left(input).unwrap_or(0.0)),
        Phase::Done => Some(0.0),
    }
}

fn data_left(input: &EtaInput) -> Option<f64> {
    let left = input.source_total?.saturating_sub(input.source_done) as f64;
    if input.data_seconds < MIN_DATA_SECONDS || input.source_done == 0 {
        return None;
    }
    let whole = input.source_done as f64 / input.data_seconds;
    let rate = if input.recent_source_rate > 0.0 {
        f64::midpoint(whole, input.recent_source_rate)
    } else {
        whole
    };
    Some(left / rate)
}

fn redo_left(input: &EtaInput) -> Option<f64> {
    let whole = REDO_LEAST + input.redo_bytes? as f64 / REDO_RATE;
    // One that takes longer than expected gets another tenth of its time so far.
    let so_far = input.prepare_seconds;
    Some((whole - so_far).max(so_far * 0.1))
}

fn catch_up_left(input: &EtaInput) -> Option<f64> {
    let (total, done) = input.behind?;
    let left = total.saturating_sub(done) as f64;
    if left > 0.0 && (done == 0 || input.catch_up_seconds < MIN_DATA_SECONDS) {
        return None;
    }
    Some(left / done.max(1) as f64 * input.catch_up_seconds)
}

fn builds_left(input: &EtaInput) -> Option<f64> {
    let planned = expected_build_bytes(input);
    if planned <= 0.0 {
        return Some(0.0);
    }
    let done = input.build_bytes_done as f64;
    // How many builds ran in parallel: seconds of work per second of wall time.
    let running_seconds: f64 = input.running_builds.iter().map(|b| b.1).sum();
    let work = input.build_seconds + running_seconds;
    let lanes = if input.builds_wall_seconds > 0.0 {
        (work / input.builds_wall_seconds).max(1.0)
    } else {
        1.0
    };
    // Seconds of work per byte: what finished builds took, and the guess weighted like a small
    // build of its own.
    let guess = (input.data_seconds > 0.0 && input.bytes_done > 0)
        .then(|| input.data_seconds / (input.bytes_done as f64 * DEFAULT_BUILD_RATIO) * lanes);
    let per_byte = match (done > 0.0, guess) {
        (true, Some(guess)) => {
            let weight = planned * GUESS_WEIGHT;
            (input.build_seconds + guess * weight) / (done + weight)
        }
        (true, None) => input.build_seconds / done,
        (false, guess) => guess?,
    };
    // A running build has done what its elapsed time suggests, but never all of it. One that takes
    // longer than expected shows that the rate is too high for it, and gets another tenth of its
    // elapsed time.
    let mut left = 0.0;
    let mut longest: f64 = 0.0;
    let mut started = done;
    for (bytes, seconds) in &input.running_builds {
        let whole = *bytes as f64 * per_byte;
        let rest = (whole - seconds).max(seconds * 0.1);
        left += rest;
        longest = longest.max(rest);
        started += *bytes as f64;
    }
    left += (planned - started).max(0.0) * per_byte;
    Some((left / lanes).max(longest))
}

/// While data is still coming in, tables not seen yet will add builds too: as many per byte as
/// those seen.
fn expected_build_bytes(input: &EtaInput) -> f64 {
    let planned = input.build_bytes_planned as f64;
    match (input.phase, input.source_total) {
        (Phase::Data, Some(total)) if input.source_done > 0 && total > input.source_done => {
            planned * total as f64 / input.source_done as f64
        }
        _ => planned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> EtaInput {
        EtaInput {
            phase: Phase::Data,
            source_total: Some(1000),
            source_done: 250,
            bytes_done: 500,
            data_seconds: 10.0,
            recent_source_rate: 25.0,
            build_bytes_planned: 0,
            build_bytes_done: 0,
            build_seconds: 0.0,
            running_builds: vec![],
            builds_wall_seconds: 0.0,
            redo_bytes: None,
            prepare_seconds: 0.0,
            behind: None,
            catch_up_seconds: 0.0,
        }
    }

    fn near(a: Option<f64>, b: f64) {
        let a = a.expect("an estimate");
        assert!((a - b).abs() < b * 0.02 + 0.01, "{a} is not {b}");
    }

    #[test]
    fn data_by_bytes() {
        near(estimate(&data()), 30.0);
        // Half as fast lately: the estimate uses the mean of both rates.
        near(
            estimate(&EtaInput {
                recent_source_rate: 12.5,
                ..data()
            }),
            40.0,
        );
        assert_eq!(
            estimate(&EtaInput {
                source_total: None,
                ..data()
            }),
            None
        );
        assert_eq!(
            estimate(&EtaInput {
                data_seconds: 0.1,
                ..data()
            }),
            None
        );
        assert_eq!(
            estimate(&EtaInput {
                phase: Phase::Preflight,
                ..data()
            }),
            None
        );
        // A source that is longer than announced does not give a negative time.
        near(
            estimate(&EtaInput {
                source_done: 2000,
                ..data()
            }),
            0.0,
        );
    }

    #[test]
    fn builds_to_come_are_counted_in_the_data_phase() {
        // 500 bytes of text in 10 s, one index per table, a quarter of the source seen: 2000 bytes
        // of builds at 100 bytes per second add 20 s.
        near(
            estimate(&EtaInput {
                build_bytes_planned: 500,
                ..data()
            }),
            30.0 + 20.0,
        );
    }

    #[test]
    fn finished_builds_teach_the_rate() {
        let index = EtaInput {
            phase: Phase::Indexes,
            source_done: 1000,
            bytes_done: 2000,
            data_seconds: 40.0,
            build_bytes_planned: 2000,
            ..data()
        };
        // Nothing built yet: 2000 bytes at twice the 50 bytes per second.
        near(estimate(&index), 20.0);
        // Half is built, at 20 bytes per second: 50 s more, slightly less because of the guess.
        let half = EtaInput {
            build_bytes_done: 1000,
            build_seconds: 50.0,
            builds_wall_seconds: 50.0,
            ..index.clone()
        };
        let eta = estimate(&half).unwrap();
        assert!((44.0..50.0).contains(&eta), "{eta}");
        // Two in parallel take half as long.
        let two = estimate(&EtaInput {
            builds_wall_seconds: 25.0,
            ..half.clone()
        })
        .unwrap();
        assert!((22.0..25.5).contains(&two), "{two}");
        // One build left, running for 10 s of its 50 s: never less than that one build.
        let last = EtaInput {
            running_builds: vec![(1000, 10.0)],
            builds_wall_seconds: 60.0,
            ..half.clone()
        };
        let eta = estimate(&last).unwrap();
        assert!((33.0..41.0).contains(&eta), "{eta}");
        // It overruns: the estimate stays above zero.
        let late = EtaInput {
            running_builds: vec![(1000, 500.0)],
            builds_wall_seconds: 550.0,
            ..half
        };
        assert!(estimate(&late).unwrap() >= 45.0);
        assert_eq!(
            estimate(&EtaInput {
                phase: Phase::Done,
                ..index
            }),
            Some(0.0)
        );
    }

    #[test]
    fn a_redo_log_by_its_size() {
        let with_redo = EtaInput {
            redo_bytes: Some(500_000_000),
            ..data()
        };
        near(estimate(&with_redo), 30.0 + 11.0);
        let prepares = EtaInput {
            phase: Phase::Prepare,
            prepare_seconds: 4.0,
            ..with_redo
        };
        near(estimate(&prepares), 7.0);
        let late = EtaInput {
            prepare_seconds: 20.0,
            ..prepares.clone()
        };
        near(estimate(&late), 2.0);
        let unknown = EtaInput {
            redo_bytes: None,
            ..prepares
        };
        assert_eq!(estimate(&unknown), None);
    }

    #[test]
    fn catching_up_by_the_log_of_the_source() {
        let behind = |behind| EtaInput {
            phase: Phase::CatchUp,
            behind,
            catch_up_seconds: 10.0,
            ..data()
        };
        near(estimate(&behind(Some((1000, 250)))), 30.0);
        near(estimate(&behind(Some((0, 0)))), 0.0);
        assert_eq!(estimate(&behind(Some((1000, 0)))), None);
        assert_eq!(estimate(&behind(None)), None);
    }

    #[test]
    fn no_builds_no_time() {
        near(
            estimate(&EtaInput {
                phase: Phase::Indexes,
                ..data()
            }),
            0.0,
        );
        near(
            estimate(&EtaInput {
                phase: Phase::Proof,
                ..data()
            }),
            0.0,
        );
    }
}
