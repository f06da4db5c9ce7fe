//! Randomness that can be reproduced.

/// Pseudo-random numbers (xorshift): the same seed gives the same sequence. The seed must not be 0.
pub struct Dice(pub u64);

impl Dice {
    /// A number in `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

/// A number from an environment variable, for the long form of a test.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
