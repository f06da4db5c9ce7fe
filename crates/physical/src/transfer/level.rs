//! How hard blocks are compressed.
//!
//! Where the network is slow, it waits for bytes, and the smaller ones arrive earlier. Where it is
//! fast, everything waits for the compressor: on two cores that are both ends, a copy takes a
//! quarter less time at the fast level (`bench/physical/README.md`). Which of the two it is also
//! depends on what else both machines do, so it is measured: blocks that arrive in a second or two
//! at each level. The small level is used unless the fast one is clearly faster, and the other one
//! is tried again now and then.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The fastest of zstd's standard levels. The next ones make InnoDB's pages hardly smaller.
const SMALL: i32 = 1;
/// Three to five times as fast; InnoDB's pages are about twice as large as at [`SMALL`].
const FAST: i32 = -5;
/// How long a level is measured at least.
const PERIOD: Duration = Duration::from_secs(1);
/// How many times as fast the fast level has to be.
const WORTH: f64 = 1.1;
/// Periods from one trial of the other level to the next: at first, and after many in vain.
const WAIT: (u32, u32) = (8, 64);

/// Chooses the level of one transfer. Threads share it.
pub struct Level {
    level: AtomicI32,
    trials: Mutex<Trials>,
}

struct Trials {
    /// Blocks that may be in flight.
    window: u64,
    /// The level in use.
    now: i32,
    /// The level that was better the last time.
    chosen: i32,
    /// Blocks to arrive until those in flight are of the level in use.
    old: u64,
    /// When that was.
    since: Option<Instant>,
    /// Blocks that have arrived since.
    arrived: u64,
    /// Blocks per second in the last period of each level.
    small: f64,
    fast: f64,
    /// Periods until the other level is tried, and how many they were.
    left: u32,
    wait: u32,
}

impl Level {
    /// `window`: how many blocks may be sent and not yet acknowledged.
    pub fn new(window: u64) -> Self {
        Self {
            level: AtomicI32::new(SMALL),
            trials: Mutex::new(Trials::new(window)),
        }
    }

    /// The level of zstd for the next block.
    pub fn now(&self) -> i32 {
        self.level.load(Ordering::Relaxed)
    }

    /// So many blocks have arrived by `time`.
    pub fn arrived(&self, blocks: u64, time: Instant) {
        self.set(|trials| trials.arrived(blocks, time));
    }

    /// The receiver had a block already. A period with such blocks says nothing about levels, and
    /// where there are some, few have to be compressed.
    pub fn had_block(&self) {
        self.set(|trials| *trials = Trials::new(trials.window));
    }

    fn set(&self, change: impl FnOnce(&mut Trials)) {
        let mut trials = self.trials.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut trials);
        self.level.store(trials.now, Ordering::Relaxed);
    }
}

impl Trials {
    fn new(window: u64) -> Self {
        Self {
            window,
            now: SMALL,
            chosen: SMALL,
            old: 0,
            since: None,
            arrived: 0,
            small: 0.0,
            fast: 0.0,
            left: 0,
            wait: WAIT.0,
        }
    }

    fn arrived(&mut self, blocks: u64, time: Instant) {
        let Some(since) = self.since else {
            self.old = self.old.saturating_sub(blocks);
            if self.old == 0 {
                self.since = Some(time);
                self.arrived = 0;
            }
            return;
        };
        self.arrived += blocks;
        let took = time.saturating_duration_since(since);
        if took >= PERIOD && self.arrived >= self.window {
            let before = self.now;
            self.choose(self.arrived as f64 / took.as_secs_f64());
            self.since = (self.now == before).then_some(time);
            self.arrived = 0;
            self.old = self.window;
        }
    }

    /// Chooses the level of the next period by the speed of this one.
    fn choose(&mut self, speed: f64) {
        let other = if self.now == FAST { SMALL } else { FAST };
        let is_trial = self.now != self.chosen;
        if self.now == FAST {
            self.fast = speed;
        } else {
            self.small = speed;
        }
        if is_trial {
            let best = if self.fast > self.small * WORTH {
                FAST
            } else {
                SMALL
            };
            self.wait = if best == self.chosen {
                (self.wait * 2).min(WAIT.1)
            } else {
                WAIT.0
            };
            self.chosen = best;
            self.now = best;
            self.left = self.wait;
        } else if self.left == 0 {
            self.now = other;
        } else {
            self.left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 64;

    /// Sends blocks for so long, at speeds in blocks per second for each level. A block that is
    /// acknowledged left a window earlier. Returns for what part of the time blocks came fast.
    fn part_fast(level: &Level, seconds: f64, speed: impl Fn(f64) -> (f64, f64)) -> f64 {
        let begun = Instant::now();
        let mut flying: std::collections::VecDeque<i32> = (0..WINDOW).map(|_| SMALL).collect();
        let (mut clock, mut fast) = (0.0, 0.0);
        while clock < seconds {
            flying.push_back(level.now());
            let (small, quick) = speed(clock);
            let is_fast = flying.pop_front() == Some(FAST);
            let took = 1.0 / if is_fast { quick } else { small };
            clock += took;
            fast += if is_fast { took } else { 0.0 };
            level.arrived(1, begun + Duration::from_secs_f64(clock));
        }
        fast / seconds
    }

    #[test]
    fn a_fast_network_gets_the_fast_level_and_a_slow_one_the_small_level() {
        let fast = part_fast(&Level::new(WINDOW), 60.0, |_| (250.0, 400.0));
        assert!(fast > 0.85, "{fast}");
        // 100 MB/s, and half of that in bytes that are compressed well.
        let fast = part_fast(&Level::new(WINDOW), 60.0, |_| (240.0, 120.0));
        assert!(fast < 0.15, "{fast}");
        // 4 MB/s: a window takes seconds.
        let fast = part_fast(&Level::new(WINDOW), 600.0, |_| (10.0, 5.0));
        assert!(fast < 0.2, "{fast}");
        // Something else sets the speed.
        let fast = part_fast(&Level::new(WINDOW), 120.0, |_| (80.0, 81.0));
        assert!(fast < 0.1, "{fast}");
    }

    #[test]
    fn the_level_follows_a_network_that_changes() {
        let level = Level::new(WINDOW);
        let speed = |clock| {
            if clock < 60.0 {
                (250.0, 400.0)
            } else {
                (240.0, 120.0)
            }
        };
        part_fast(&level, 60.0, speed);
        let fast = part_fast(&level, 240.0, |clock| speed(clock + 60.0));
        assert!(fast < 0.3, "{fast}");
    }

    #[test]
    fn blocks_that_the_receiver_has_are_no_trial() {
        let level = Level::new(WINDOW);
        part_fast(&level, 20.0, |_| (250.0, 400.0));
        assert_eq!(level.now(), FAST);
        level.had_block();
        assert_eq!(level.now(), SMALL);
        let begun = Instant::now();
        for second in 0..100 {
            level.arrived(200, begun + Duration::from_secs(second));
            level.had_block();
            assert_eq!(level.now(), SMALL);
        }
    }
}
