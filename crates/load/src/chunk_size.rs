//! The search for a good chunk size.
//!
//! Larger chunks mean fewer commits; smaller ones mean less undo, less memory and less to redo
//! after a deadlock. Which matters more depends on the server, its disks and the rows, so the
//! search runs during the load: it doubles the size while throughput grows, and halves it once
//! throughput falls.

use std::sync::{Mutex, PoisonError};

use super::options::{CHUNK_BYTES_MIN, CHUNK_BYTES_START};

/// Finished chunks of one size that are averaged before the size is judged.
const SAMPLES: u32 = 4;
/// A size is better only if its rate is higher by this factor; anything less is noise.
const BETTER: f64 = 1.03;
/// A size is worse if its rate is lower by this factor.
const WORSE: f64 = 0.92;

/// Finds the bytes of dump text per transaction from the rate of finished chunks.
#[derive(Debug)]
pub struct ChunkSize {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    current: usize,
    max: usize,
    min: usize,
    ceiling: usize,
    fixed: bool,
    bytes: u64,
    seconds: f64,
    samples: u32,
    best: Option<(usize, f64)>,
    settled: bool,
}

impl ChunkSize {
    /// Searches between [`CHUNK_BYTES_MIN`] and `max`, or keeps to `fixed` bytes; a `max` below the
    /// minimum is the only size.
    pub fn new(fixed: Option<usize>, max: usize) -> Self {
        let max = max.max(1);
        let current = fixed.unwrap_or(CHUNK_BYTES_START.min(max));
        Self {
            state: Mutex::new(State {
                current,
                max,
                min: CHUNK_BYTES_MIN.min(max),
                ceiling: usize::MAX,
                fixed: fixed.is_some() || max <= CHUNK_BYTES_MIN,
                bytes: 0,
                seconds: 0.0,
                samples: 0,
                best: None,
                settled: false,
            }),
        }
    }

    /// Bytes of dump text that the next chunk should have.
    pub fn current(&self) -> usize {
        let state = self.lock();
        state.current.min(state.ceiling)
    }

    /// Caps the chunk size for now, whatever the search finds.
    pub fn stay_below(&self, bytes: usize) {
        self.lock().ceiling = bytes;
    }

    /// Reports a committed chunk; returns the new size if the search moved.
    ///
    /// Chunks well below the current size (ends of tables) say nothing about it and are ignored.
    pub fn finished(&self, bytes: usize, seconds: f64) -> Option<usize> {
        let mut state = self.lock();
        if state.fixed || state.settled || bytes < state.current / 2 || seconds <= 0.0 {
            return None;
        }
        state.bytes += bytes as u64;
        state.seconds += seconds;
        state.samples += 1;
        if state.samples < SAMPLES {
            return None;
        }
        let rate = state.bytes as f64 / state.seconds;
        (state.bytes, state.seconds, state.samples) = (0, 0.0, 0);
        let before = state.current;
        match state.best {
            None => {
                state.best = Some((before, rate));
                state.current = (before * 2).min(state.max);
                if state.current == before {
                    state.current = (before / 2).max(state.min);
                }
            }
            Some((size, best)) if rate > best * BETTER => {
                state.best = Some((before, rate));
                let next = if before > size {
                    before * 2
                } else {
                    before / 2
                };
                state.current = next.clamp(state.min, state.max);
                state.settled = state.current == before;
            }
            Some((size, best)) if rate < best * WORSE && before > size && size / 2 >= state.min => {
                // Growing made it worse: try one size below the start.
                state.current = size / 2;
            }
            Some((size, _)) => {
                state.current = size;
                state.settled = true;
            }
        }
        (state.current != before).then_some(state.current)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search against a rate curve until it settles; returns the size it settled on.
    fn search(rate: impl Fn(usize) -> f64) -> usize {
        let size = ChunkSize::new(None, 64 << 20);
        for _ in 0..200 {
            let current = size.current();
            size.finished(current, current as f64 / rate(current));
        }
        size.current()
    }

    #[test]
    fn stays_where_it_started_when_size_does_not_matter() {
        assert_eq!(search(|_| 100e6), CHUNK_BYTES_START);
    }

    #[test]
    fn climbs_to_the_ceiling_when_larger_is_better() {
        assert_eq!(search(|bytes| 10e6 * (bytes as f64).log2()), 64 << 20);
    }

    #[test]
    fn backs_off_when_smaller_is_better() {
        assert!(search(|bytes| 1e15 / bytes as f64) < CHUNK_BYTES_START);
    }

    #[test]
    fn fixed_size_never_moves() {
        let size = ChunkSize::new(Some(3 << 20), 64 << 20);
        for _ in 0..20 {
            assert_eq!(size.finished(3 << 20, 0.001), None);
        }
        assert_eq!(size.current(), 3 << 20);
    }

    #[test]
    fn small_last_chunks_are_ignored() {
        let size = ChunkSize::new(None, 64 << 20);
        for _ in 0..20 {
            assert_eq!(size.finished(1000, 10.0), None);
        }
        assert_eq!(size.current(), CHUNK_BYTES_START);
    }
}
