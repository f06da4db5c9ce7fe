//! What an open snapshot costs the server: old row versions that it must keep, and Galera flow
//! control.
//!
//! InnoDB keeps every row version that is newer than the oldest snapshot. The length of its history
//! list is the number of transactions it could not purge yet. A watcher samples the server once a
//! second while rows are read, and gives up the snapshot when a limit is passed.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use refloat_run::{Cancel, CancelReason, Progress};
use refloat_wire::{Connection, Error, ShutdownHandle, Vendor};

use super::error::DumpError;
use super::options::DumpOptions;
use super::outcome::{FlowControl, HistoryLength, SnapshotCost};

/// Interval between two samples.
const LOOK: Duration = Duration::from_secs(1);
/// Galera's flow control, and the history list on MariaDB.
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_history_list_length', 'wsrep_flow_control_sent', \
     'wsrep_flow_control_recv', 'wsrep_flow_control_paused_ns', 'wsrep_ready')";
/// The history list where the status does not include it. Requires `PROCESS`.
const METRIC: &str =
    "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'";

/// One reading of the server's counters.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    history: Option<u64>,
    flow: Option<FlowControl>,
}

/// Samples the server while rows are read.
pub struct Watcher<'a> {
    conn: Connection,
    opened: Instant,
    max_age: Option<Duration>,
    max_history: Option<u64>,
    progress: &'a Progress,
    first: Sample,
    cost: SnapshotCost,
}

/// Stops the watcher when dropped, so that it also stops when this thread panics.
pub struct Ending(#[expect(dead_code, reason = "its end is what counts")] Sender<()>);

/// A handle that stops the watcher, and the receiver the watcher waits on.
pub fn ending() -> (Ending, Receiver<()>) {
    let (sender, receiver) = channel();
    (Ending(sender), receiver)
}

impl<'a> Watcher<'a> {
    /// Takes the first sample. `opened` is when the snapshot was opened.
    pub fn begin(
        mut conn: Connection,
        options: &DumpOptions,
        opened: Instant,
        progress: &'a Progress,
    ) -> Result<Self, DumpError> {
        let first = look(&mut conn)
            .map_err(|error| DumpError::server("asking what the snapshot costs", error))?;
        let mut watcher = Self {
            conn,
            opened,
            max_age: options.max_age,
            max_history: options.max_history,
            progress,
            first,
            cost: SnapshotCost::default(),
        };
        watcher.note(first);
        Ok(watcher)
    }

    /// Handle to shut down the watcher's connection, so that nothing waits for an unresponsive
    /// server.
    pub fn hang_up(&self) -> ShutdownHandle {
        self.conn.shutdown_handle()
    }

    /// Samples until `end` is dropped. When a limit is passed, cancels the readers through `stop`
    /// and returns the limit as the second value.
    pub fn run(mut self, end: &Receiver<()>, stop: &Cancel) -> (SnapshotCost, Option<DumpError>) {
        let mut beyond = self.beyond();
        loop {
            if let Some(reason) = &beyond {
                stop.cancel(CancelReason::Failed(reason.clone()));
                break;
            }
            let wait = self.max_age.map_or(LOOK, |max| {
                LOOK.min(max.saturating_sub(self.opened.elapsed()))
            });
            let ended = end.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
            // A failed sample must not fail the dump.
            if let Ok(sample) = look(&mut self.conn) {
                self.note(sample);
            }
            if ended {
                break;
            }
            beyond = self.beyond();
        }
        self.cost.seconds = self.opened.elapsed().as_secs_f64();
        (self.cost, beyond.map(|reason| DumpError::Given { reason }))
    }

    fn note(&mut self, sample: Sample) {
        self.cost.seconds = self.opened.elapsed().as_secs_f64();
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
    fn beyond(&self) -> Option<String> {
        let age = self.opened.elapsed();
        if let Some(max) = self.max_age.filter(|max| age >= *max) {
            return Some(format!(
                "it has been open for {:.0} s, and may be for {} s",
                age.as_secs_f64(),
                max.as_secs()
            ));
        }
        let now = self.cost.history?.last;
        let max = self.max_history.filter(|max| now > *max)?;
        Some(format!(
            "the server's history list has {now} entries, and may have {max}"
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
            "the length of the server's history list is to be watched, and the account may not see it",
            "Grant PROCESS, or leave --max-history out.",
        )),
    }
}

fn look(conn: &mut Connection) -> Result<Sample, Error> {
    let status = conn.query(STATUS)?;
    let number = |name: &str| status.named(name).and_then(|text| text.parse::<u64>().ok());
    let flow = status
        .named("wsrep_ready")
        .filter(|ready| *ready == "ON")
        .map(|_| FlowControl {
            sent: number("wsrep_flow_control_sent").unwrap_or(0),
            received: number("wsrep_flow_control_recv").unwrap_or(0),
            paused_seconds: number("wsrep_flow_control_paused_ns").unwrap_or(0) as f64 / 1e9,
        });
    let mut history = number("Innodb_history_list_length");
    if history.is_none() || conn.server().vendor == Vendor::MySql {
        history = match conn.query(METRIC) {
            Ok(metric) => metric.u64(0, 0),
            Err(error) if error.server_code().is_some() => history,
            Err(error) => return Err(error),
        };
    }
    Ok(Sample { history, flow })
}
