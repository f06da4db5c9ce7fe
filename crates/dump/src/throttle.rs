//! Throttling, which leaves the server capacity for other work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use refloat_run::Cancel;

/// Longest single pause, so that Ctrl-C and a change of load are noticed.
const PAUSE: Duration = Duration::from_millis(200);

/// How much lost time readers may make up for. The time they need between two pauses must not push
/// the rate below the limit. After a longer stop, the cap keeps them from reading at full speed for
/// long.
const MADE_UP: Duration = Duration::from_secs(1);

/// Limits readers by rate and by the server's load.
pub struct Throttle {
    max_rate: Option<u64>,
    max_running: Option<u64>,
    readers: u64,
    /// Statements that run on the server, as last seen.
    running: Arc<AtomicU64>,
    state: Mutex<State>,
}

struct State {
    /// When the bytes taken so far are paid off at the maximum rate.
    free_at: Instant,
    held: Duration,
}

impl Throttle {
    /// A throttle for this many readers. `running` tells how many statements run on the server.
    pub fn new(
        max_rate: Option<u64>,
        max_running: Option<u64>,
        readers: usize,
        running: Arc<AtomicU64>,
    ) -> Self {
        Self {
            max_rate,
            max_running,
            readers: readers as u64,
            running,
            state: Mutex::new(State {
                free_at: Instant::now(),
                held: Duration::ZERO,
            }),
        }
    }

    /// Counts bytes of row text, and waits until the limits allow them.
    pub fn take(&self, bytes: u64, cancel: &Cancel) {
        if self.max_rate.is_none() && self.max_running.is_none() {
            return;
        }
        let until = self.max_rate.map(|rate| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let time = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            state.free_at = through(state.free_at, now, time);
            state.free_at
        });
        let began = Instant::now();
        while !cancel.is_cancelled() {
            let early = until.map_or(Duration::ZERO, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if early.is_zero() && !self.server_is_busy() {
                break;
            }
            cancel.sleep(if early.is_zero() {
                PAUSE
            } else {
                early.min(PAUSE)
            });
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held += began.elapsed();
    }

    /// Time for which readers were held back, summed over all readers.
    pub fn held(&self) -> Duration {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .held
    }

    /// Whether more statements run than allowed, not counting our own.
    fn server_is_busy(&self) -> bool {
        let running = self.running.load(Ordering::Relaxed);
        // Our readers are running, and so is the query that counts.
        (self.max_running).is_some_and(|max| running > max + self.readers + 1)
    }
}

/// When bytes that take `time` at the maximum rate are paid off, if earlier bytes are at `free_at`.
fn through(free_at: Instant, now: Instant, time: Duration) -> Instant {
    let earliest = now.checked_sub(MADE_UP).unwrap_or(now);
    free_at.max(earliest) + time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_two_pauses_is_made_up_for_and_a_long_stop_is_not() {
        let begin = Instant::now() + Duration::from_secs(3600);
        let (mut free_at, mut now) = (begin, begin);
        let (time, work) = (Duration::from_millis(200), Duration::from_millis(50));
        for _ in 0..10 {
            free_at = through(free_at, now, time);
            now = now.max(free_at) + work;
        }
        assert_eq!(free_at, begin + time * 10);
        // After a minute in which the server was busy, for example.
        let later = now + Duration::from_secs(60);
        assert_eq!(through(free_at, later, time) + MADE_UP, later + time);
    }
}
