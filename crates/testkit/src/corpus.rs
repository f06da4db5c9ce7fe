//! Replays the seeds of fuzz targets in plain tests.

use std::path::Path;

/// Number of mutated copies tried per seed.
const COPIES: usize = 60;
/// Maximum number of bytes changed per copy.
const CHANGES: u64 = 5;

/// The seeds of a fuzz target with their names, sorted.
///
/// # Panics
/// If there is no such corpus.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let entries = std::fs::read_dir(&folder).expect("a corpus");
    let mut seeds: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            (
                name.into_owned(),
                std::fs::read(&path).expect("a seed can be read"),
            )
        })
        .collect();
    seeds.sort();
    seeds
}

/// Runs `body` on each seed and on mutated or truncated copies of it. The copies are the same on
/// every run.
///
/// # Panics
/// If there are fewer than `least` seeds, so that a lost corpus is noticed.
pub fn replay(target: &str, least: usize, body: impl Fn(&[u8])) {
    let seeds = seeds(target);
    assert!(seeds.len() >= least, "{target} has {} seeds", seeds.len());
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for (_, seed) in &seeds {
        body(seed);
        for _ in 0..COPIES {
            let mut copy = seed.clone();
            for _ in 0..random.below(CHANGES + 1) {
                let at = random.index(copy.len());
                if let Some(byte) = copy.get_mut(at) {
                    *byte = random.next().to_le_bytes()[7];
                }
            }
            if random.below(3) == 0 {
                copy.truncate(random.index(copy.len()));
            }
            body(&copy);
        }
    }
}

/// Marsaglia's xorshift, good enough to mutate bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }
}
