//! What an open snapshot costs the server: old versions of rows that it may not throw away, and a cluster that is held up.
//!
//! InnoDB keeps every version of a row that is newer than the oldest snapshot; the length of its history list says how many transactions
//! it could not clean up after. A watcher looks once a second while rows are read, and gives the snapshot up beyond a limit.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use refloat_run::{Cancel, CancelReason, Progress};
use refloat_wire::{Connection, Error, ShutdownHandle, Vendor};
use serde::Serialize;

use super::error::DumpError;
use super::options::DumpOptions;

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Where Galera's flow control is told, and on MariaDB the history list too.
const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_history_list_length', 'wsrep_flow_control_sent', \
     'wsrep_flow_control_recv', 'wsrep_flow_control_paused_ns', 'wsrep_ready')";
/// The history list where the status does not have it; it needs `PROCESS`.
const METRIC: &str =
    "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'";

/// What the snapshot of a dump or a copy has cost the server while rows were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SnapshotCost {
    /// Seconds for which it was open.
    pub seconds: f64,
    /// The length of InnoDB's history list; `None` where the account may not see it.
    pub history: Option<HistoryLength>,
    /// Flow control of a Galera cluster meanwhile; `None` elsewhere.
    pub flow_control: Option<FlowControl>,
}

/// The length of InnoDB's history list: transactions whose old row versions are still kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HistoryLength {
    /// When the first rows were read.
    pub first: u64,
    /// The highest that was seen.
    pub highest: u64,
    /// When the last rows were read.
    pub last: u64,
}

/// Flow control of a Galera cluster, as this node counts it, since the first rows were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FlowControl {
    /// Pauses that this node has asked the others for.
    pub sent: u64,
    /// Pauses that any node has asked for.
    pub received: u64,
    /// Seconds for which the cluster was paused.
    pub paused_seconds: f64,
}

/// What the server says at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    history: Option<u64>,
    flow: Option<FlowControl>,
}

/// Looks at the server while rows are read.
pub struct Watcher<'a> {
    conn: Connection,
    opened: Instant,
    max_age: Option<Duration>,
    max_history: Option<u64>,
    progress: &'a Progress,
    first: Sample,
    cost: SnapshotCost,
}

/// Ends the watcher, also when this thread panics.
pub struct Ending(#[expect(dead_code, reason = "its end is what counts")] Sender<()>);

/// What ends a watcher, and what it waits on.
pub fn ending() -> (Ending, Receiver<()>) {
    let (sender, receiver) = channel();
    (Ending(sender), receiver)
}

impl<'a> Watcher<'a> {
    /// Takes the first look; `opened` is when the snapshot was.
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

    /// Ends its connection: a server that does not answer need not be waited for.
    pub fn hang_up(&self) -> ShutdownHandle {
        self.conn.shutdown_handle()
    }

    /// Looks until `end` is dropped. Beyond a limit `stop` ends the readers; then the second value says which.
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
            // Whether it can be asked is no business of the rows.
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

    /// Which limit is passed.
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

/// Makes sure that a limit can be watched.
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

/// Asks the server.
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
