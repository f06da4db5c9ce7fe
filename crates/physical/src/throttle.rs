//! Limits the rate of a stream, unless that would endanger the backup.
//!
//! mariadb-backup sends the redo log through the same pipe as the files. A pipe that nobody reads
//! also stops the copying of the redo log: the server overwrites what was not copied, and the tool
//! gives up after five seconds without progress. So the rate is kept only while files of `InnoDB`
//! are copied, and only while less than half of the redo log waits to be copied.

use std::sync::Arc;
use std::time::{Duration, Instant};

use refloat_run::Cancel;
use refloat_wire::Connection;

use crate::pace::Pacer;
use crate::tool_log::{Stage, ToolLog};

/// The longest wait at a time.
const STEP: Duration = Duration::from_millis(50);
/// How much unused rate may be made up for later.
const BURST: Duration = Duration::from_secs(1);

/// Limits the rate of a stream.
pub struct Throttle {
    pacer: Pacer,
    log: Arc<ToolLog>,
    /// When the bytes so far would have passed at that rate.
    due: Instant,
}

impl Throttle {
    /// Limits the stream of the tool with this log to the rate.
    pub fn new(pacer: Pacer, log: Arc<ToolLog>) -> Self {
        Self {
            pacer,
            log,
            due: Instant::now(),
        }
    }

    /// Takes the next bytes of the stream, and waits until they may have passed.
    pub fn pass(&mut self, bytes: usize, cancel: &Cancel) {
        self.pacer.count(bytes);
        let now = Instant::now();
        let Some(rate) = self.pacer.rate() else {
            self.due = now;
            return;
        };
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        while Instant::now() < self.due && !cancel.is_cancelled() {
            if self.log.stage() > Stage::Start || self.pacer.rate().is_none() {
                self.due = Instant::now();
                return;
            }
            cancel.sleep(STEP.min(self.due.saturating_duration_since(Instant::now())));
        }
    }
}

/// Whether half of the redo log is waiting to be copied. If the server cannot be queried, it is
/// treated as late, so that nothing is overwritten.
pub fn is_late(
    redo_bytes: Option<u64>,
    log: Arc<ToolLog>,
) -> impl FnMut(&mut Connection) -> bool + Send + 'static {
    let mut begun = None;
    move |conn| {
        let current = conn
            .query("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")
            .ok()
            .and_then(|answer| answer.u64(0, 1));
        let (Some(current), Some(size)) = (current, redo_bytes) else {
            return true;
        };
        // Until the tool reports its position, it is assumed to be where the server was at the
        // beginning.
        let scanned = log.scanned().max(*begun.get_or_insert(current));
        current.saturating_sub(scanned) > size / 2
    }
}
