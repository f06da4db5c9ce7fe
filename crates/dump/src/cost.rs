//! What an open snapshot costs the server: old row versions that it must keep, and Galera flow
//! control.
//!
//! InnoDB keeps every row version that is newer than the oldest snapshot. The length of its history
//! list is the number of transactions it could not purge yet. A watcher samples the server once a
//! second while rows are read, and gives up the snapshot when a limit is passed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use refloat_read::session;
use refloat_run::{Cancel, CancelReason, Progress, Sampler};
use refloat_wire::{Connection, Error, Vendor};

use super::error::DumpError;
use super::options::DumpOptions;
use super::outcome::{FlowControl, HistoryLength, SnapshotCost};

/// Interval between two samples.
const LOOK: Duration = Duration::from_secs(1);
/// Running statements, Galera's flow control, and the history list on MariaDB.
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Innodb_history_list_length', 'wsrep_flow_control_sent', \
     'wsrep_flow_control_recv', 'wsrep_flow_control_paused_ns', 'wsrep_ready')";
/// The history list where the status does not include it. Requires `PROCESS`.
const METRIC: &str =
    "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'";

/// One reading of the server's counters.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    history: Option<u64>,
    flow: Option<FlowControl>,
    /// Statements that run on the server.
    running: u64,
}

/// Samples the server while rows are read.
pub struct Watcher {
    seen: Arc<Mutex<Seen>>,
    sampler: Sampler,
}

/// What the samples show.
struct Seen {
    opened_at: Instant,
    max_age: Option<Duration>,
    max_history: Option<u64>,
    progress: Progress,
    first: Sample,
    cost: SnapshotCost,
    /// The limit that was passed, in words.
    passed_limit: Option<String>,
}

impl Watcher {
    /// Takes the first sample, and goes on sampling. `opened_at` is when the snapshot was opened;
    /// `running` becomes the number of statements that run on the server.
    /// When a limit is passed, the readers are cancelled through `stop`.
    pub fn begin(
        control: &Connection,
        options: &DumpOptions,
        opened_at: Instant,
        progress: &Progress,
        running: &Arc<AtomicU64>,
        stop: &Cancel,
    ) -> Result<Self, DumpError> {
        let first = session::another(control, &options.read)
            .and_then(|mut conn| look(&mut conn))
            .map_err(|error| DumpError::server("asking what the snapshot costs", error))?;
        let mut seen = Seen {
            opened_at,
            max_age: options.max_age,
            max_history: options.max_history,
            progress: progress.clone(),
            first,
            cost: SnapshotCost::default(),
            passed_limit: None,
        };
        seen.note(first);
        let seen = Arc::new(Mutex::new(seen));
        running.store(first.running, Ordering::Relaxed);
        let identity = control.identity().clone();
        let look = move |conn: &mut Connection| {
            conn.expect_identity(&identity)?;
            look(conn)
        };
        let (shared, running, stop) = (Arc::clone(&seen), Arc::clone(running), stop.clone());
        let note = move |sample: Result<Sample, Error>| {
            let mut seen = lock(&shared);
            // A failed sample must not fail the dump. Until the next one, the last one counts.
            if let Ok(sample) = sample {
                running.store(sample.running, Ordering::Relaxed);
                seen.note(sample);
            }
            if let (None, Some(reason)) = (&seen.passed_limit, seen.limit_passed()) {
                stop.cancel(CancelReason::Failed(reason.clone()));
                seen.passed_limit = Some(reason);
            }
        };
        let sampler = Sampler::start(control.options(), LOOK, look, note);
        Ok(Self { seen, sampler })
    }

    /// Ends sampling, with one more sample if all rows `are_read`. The second value is the limit
    /// that was passed.
    pub fn end(self, are_read: bool) -> (SnapshotCost, Option<DumpError>) {
        if are_read {
            self.sampler.finish();
        } else {
            drop(self.sampler);
        }
        let mut seen = lock(&self.seen);
        seen.cost.seconds = seen.opened_at.elapsed().as_secs_f64();
        let passed_limit = seen.passed_limit.take();
        (
            seen.cost,
            passed_limit.map(|reason| DumpError::Given { reason }),
        )
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn note(&mut self, sample: Sample) {
        self.cost.seconds = self.opened_at.elapsed().as_secs_f64();
        if let Some(now) = sample.history {
            let history = self.cost.history.get_or_insert(HistoryLength {
                first: now,
                ..HistoryLength::default()
            });
            history.highest = history.highest.max(now);
            history.last = now;
        }
        if let (Some(now), Some(first)) = (sample.flow, self.first.flow) {
            self.cost.flow_control = Some(FlowControl {
                sent: now.sent.saturating_sub(first.sent),
                received: now.received.saturating_sub(first.received),
                paused_seconds: (now.paused_seconds - first.paused_seconds).max(0.0),
            });
        }
        let flow = self.cost.flow_control.map(|flow| flow.received);
        self.progress.set_snapshot_cost(sample.history, flow);
    }

    /// The limit that was passed, in words.
    fn limit_passed(&self) -> Option<String> {
        let age = self.opened_at.elapsed();
        if let Some(max) = self.max_age.filter(|max| age >= *max) {
            return Some(format!(
                "it has been open for {:.0} s, and the limit is {} s",
                age.as_secs_f64(),
                max.as_secs()
            ));
        }
        let now = self.cost.history?.last;
        let max = self.max_history.filter(|max| now > *max)?;
        Some(format!(
            "the server's history list has {now} entries, and the limit is {max}"
        ))
    }
}

/// Checks that the server reveals what `--max-history` needs.
pub fn can_be_watched(control: &mut Connection, options: &DumpOptions) -> Result<(), DumpError> {
    if options.max_history.is_none() {
        return Ok(());
    }
    let sample = look(control)
        .map_err(|error| DumpError::server("asking for the length of the history list", error))?;
    match sample.history {
        Some(_) => Ok(()),
        None => Err(DumpError::refused(
            "--max-history: the account may not see the length of the server's history list",
            "Grant PROCESS, or leave --max-history out.",
        )),
    }
}

fn look(conn: &mut Connection) -> Result<Sample, Error> {
    let status = conn.query(STATUS)?;
    let number = |name| status.count(name).unwrap_or(0);
    let flow = status
        .named("wsrep_ready")
        .filter(|ready| *ready == "ON")
        .map(|_| FlowControl {
            sent: number("wsrep_flow_control_sent"),
            received: number("wsrep_flow_control_recv"),
            paused_seconds: number("wsrep_flow_control_paused_ns") as f64 / 1e9,
        });
    let mut history = status.count("Innodb_history_list_length");
    if history.is_none() || conn.server().vendor == Vendor::MySql {
        history = match conn.query(METRIC) {
            Ok(metric) => metric.u64(0, 0),
            Err(error) if error.server_code().is_some() => history,
            Err(error) => return Err(error),
        };
    }
    Ok(Sample {
        history,
        flow,
        running: number("Threads_running"),
    })
}
