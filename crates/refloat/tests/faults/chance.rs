//! Chance that can be repeated.

/// Numbers that look random, and are the same for the same seed (xorshift; the seed must not be 0).
pub struct Dice(pub u64);

impl Dice {
    /// One of `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}

/// The number in a variable of the environment, for the long form of a test.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
