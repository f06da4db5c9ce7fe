//! Rates over the last few seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far back a rate looks: long enough that the commit of one chunk does not show, short enough
/// to follow changes.
const WINDOW: Duration = Duration::from_secs(8);
/// Samples closer together than this replace each other.
const STEP: Duration = Duration::from_millis(200);

/// A sliding window of samples of three growing counters.
#[derive(Default)]
pub struct Rates(VecDeque<(Instant, [u64; 3])>);

impl Rates {
    pub fn push(&mut self, now: Instant, a: u64, b: u64, c: u64) {
        let samples = &mut self.0;
        // The newest sample is always current; those before it are at least a step apart.
        let n = samples.len();
        if n >= 2 && samples[n - 1].0.saturating_duration_since(samples[n - 2].0) < STEP {
            samples.pop_back();
        }
        samples.push_back((now, [a, b, c]));
        while samples.len() > 2 && now.saturating_duration_since(samples[1].0) >= WINDOW {
            samples.pop_front();
        }
    }

    pub fn per_second(&self) -> [f64; 3] {
        let (Some((from, old)), Some((to, new))) = (self.0.front(), self.0.back()) else {
            return [0.0; 3];
        };
        let seconds = to.saturating_duration_since(*from).as_secs_f64();
        if seconds < STEP.as_secs_f64() {
            return [0.0; 3];
        }
        std::array::from_fn(|i| new[i].saturating_sub(old[i]) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_forgets() {
        let start = Instant::now();
        let mut rates = Rates::default();
        let mut count = 0;
        for tick in 0..600_u64 {
            // 100 per second for 30 seconds, then 1000 per second for 30 seconds.
            count += if tick < 300 { 10 } else { 100 };
            rates.push(start + Duration::from_millis(tick * 100), count, count, 0);
            if tick == 299 {
                assert!((rates.per_second()[0] - 100.0).abs() < 2.0);
            }
        }
        assert!((rates.per_second()[1] - 1000.0).abs() < 20.0);
        assert!(rates.0.len() < 50);
    }
}
