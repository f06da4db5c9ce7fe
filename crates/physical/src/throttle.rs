//! Holds a stream to a rate, unless that would endanger the backup.
//!
//! mariadb-backup sends the redo log through the same pipe as the files. A pipe that nobody reads
//! also stops the copying of the redo log: the server overwrites what was not copied, and the tool
//! gives up after five seconds without progress. So the rate is kept only while files of `InnoDB`
//! are copied, and only while less than half of the redo log waits to be copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_run::Cancel;
use refloat_wire::{ConnectOptions, Connection};

use crate::producer::{Said, Stage};

/// The lowest rate, in bytes per second. A tool writes pieces of 10 MiB from several threads and
/// the redo log between them: at a lower rate its five seconds would pass.
pub const RATE_MIN: u64 = 8 << 20;
/// How often the server is asked how much of its redo log waits.
const LOOK: Duration = Duration::from_millis(500);
/// The longest wait at a time.
const STEP: Duration = Duration::from_millis(50);
/// Unused rate that may be caught up with.
const BURST: Duration = Duration::from_secs(1);

/// Holds a stream to a rate.
pub struct Throttle {
    rate: Option<u64>,
    said: Arc<Said>,
    hurries: Arc<AtomicBool>,
    ends: Cancel,
    /// When the bytes so far would have passed at the rate.
    due: Instant,
}

impl Throttle {
    /// Holds a stream to `rate` bytes per second; `None`: as fast as it goes. The server is asked
    /// for the state of its redo log by a connection of its own.
    pub fn new(
        rate: Option<u64>,
        said: Arc<Said>,
        connect: &ConnectOptions,
        redo_bytes: Option<u64>,
    ) -> Self {
        let hurries = Arc::new(AtomicBool::new(false));
        let ends = Cancel::new();
        if rate.is_some() {
            let (said, hurries, ends) = (Arc::clone(&said), Arc::clone(&hurries), ends.clone());
            let connect = connect.clone();
            std::thread::spawn(move || watch(&connect, redo_bytes, &said, &hurries, &ends));
        }
        Self {
            rate,
            said,
            hurries,
            ends,
            due: Instant::now(),
        }
    }

    /// Takes the next bytes of the stream, and waits until they may have passed.
    pub fn pass(&mut self, bytes: usize, cancel: &Cancel) {
        let Some(rate) = self.rate else { return };
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        while Instant::now() < self.due && !cancel.is_cancelled() {
            let is_free = self.said.stage() > Stage::Start || self.hurries.load(Ordering::Relaxed);
            if is_free {
                self.due = Instant::now();
                return;
            }
            cancel.sleep(STEP.min(self.due.saturating_duration_since(Instant::now())));
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.ends
            .cancel(refloat_run::CancelReason::Failed("ended".to_owned()));
    }
}

/// Looks again and again whether half of the redo log waits to be copied. A server that cannot be
/// asked gets no chance to overwrite it.
fn watch(
    connect: &ConnectOptions,
    redo_bytes: Option<u64>,
    said: &Said,
    hurries: &AtomicBool,
    ends: &Cancel,
) {
    let Ok(mut conn) = Connection::connect(connect) else {
        hurries.store(true, Ordering::Relaxed);
        return;
    };
    let begun = AtomicU64::new(0);
    while !ends.is_cancelled() {
        let current = conn
            .query("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")
            .ok()
            .and_then(|answer| answer.u64(0, 1));
        let (Some(current), Some(size)) = (current, redo_bytes) else {
            hurries.store(true, Ordering::Relaxed);
            return;
        };
        // Until the tool has said where it is, it is where the server was at the beginning.
        let _ = begun.compare_exchange(0, current, Ordering::Relaxed, Ordering::Relaxed);
        let scanned = said.scanned().max(begun.load(Ordering::Relaxed));
        let waits = current.saturating_sub(scanned);
        hurries.store(waits > size / 2, Ordering::Relaxed);
        ends.sleep(LOOK);
    }
}
