//! Seeds of fuzz targets, replayed by plain tests.

use std::path::Path;

/// Changed copies of each seed that are tried.
const COPIES: usize = 60;
/// Bytes of a copy that are changed, at most.
const CHANGES: u64 = 5;

/// The seeds of a target, by name.
///
/// # Panics
/// When there is no such corpus.
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

/// Hands over each seed, and copies of it in which some bytes are others or that end earlier: the same ones every time.
///
/// # Panics
/// When there are fewer seeds than `least`, so that a corpus that was lost is noticed.
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

/// Marsaglia's xorshift: enough to change bytes.
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
