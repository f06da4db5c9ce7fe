//! Settings of the transfer itself: memory, threads, compression, rate, time.

use refloat_run::settings::size_in_bytes;

use super::facts::{ALL, BACKUP, NodeFacts, SST, size};
use super::inspect::Facts;
use super::suggestion::{GainSource, Suggestion};

/// Fraction of the available memory for preparing a copy. The rest is for the system and its
/// caches.
const PREPARE_PART: f64 = 0.7;
/// The least memory to suggest, if the machine has that much.
const PREPARE_LEAST: u64 = 256 << 20;
/// The default of mariadb-backup.
const PREPARE_USUAL: u64 = 100 << 20;
/// More threads than this do not copy faster from one storage device.
const THREADS_MOST: u64 = 16;
/// Fraction of the network bandwidth that a copy may use. The rest is left to clients.
const RATE_PART: f64 = 0.8;
/// Compressors: program, arguments to compress, arguments to decompress; bytes per second that one
/// core compresses, bytes per second that are decompressed and extracted, and the compression
/// ratio. Measured with 886 MB of MariaDB 10.11 data on two cores: see `docs/cluster.md`.
const COMPRESSORS: [(&str, &str, &str, f64, f64, f64); 2] = [
    ("zstd", "-1 -T", "-dc", 170e6, 369e6, 2.86),
    ("pigz", "--fast -p ", "-dc", 90e6, 185e6, 2.52),
];

/// Memory for preparing the copy on the joiner, whose server uses none for data until the copy is
/// complete.
pub(super) fn memory(to: &NodeFacts, donors: &[&NodeFacts]) -> Option<Suggestion> {
    let memory = to.machine.as_ref()?.memory;
    let free = memory
        .available?
        .saturating_add(memory.server.unwrap_or(0))
        .min(memory.total?);
    let now = to.option(BACKUP, "use-memory");
    // Without it, the script uses the size of the buffer pool. Older scripts leave it to the
    // program.
    let has_fallback = to
        .machine
        .as_ref()?
        .knows
        .contains(&("mariabackup".to_owned(), "use-memory".to_owned()));
    let usual = to
        .setting("innodb_buffer_pool_size")
        .filter(|_| has_fallback)
        .and_then(size_in_bytes);
    let taken = now
        .and_then(size_in_bytes)
        .or(usual)
        .unwrap_or(PREPARE_USUAL);
    let most = (free as f64 * PREPARE_PART) as u64;
    // More than the size of the data is useless.
    let data = donors.iter().filter_map(|from| from.data_bytes()).max()?;
    let better = most.min(data).max(PREPARE_LEAST.min(most)) >> 20 << 20;
    let new_size = format!("{}M", better >> 20);
    if better < 64 << 20 {
        return None;
    }
    let group = to.group(BACKUP, "use-memory", "mariabackup");
    let one = Suggestion::new(to, group, "use-memory", now, new_size);
    if taken > most {
        return Some(
            one.because(format!(
                "the preparation would take {}, and the machine has {} for it: the server receives nothing else meanwhile, but the system needs some",
                size(taken),
                size(free)
            ))
            .gains(GainSource::NotMeasured, "the preparation is not ended by the system for lack of memory"),
        );
    }
    (taken < data && better > taken.saturating_mul(5) / 4).then(|| {
        one.because(format!(
            "the preparation of the copy has {} now, and the machine has {} for it while the server waits",
            size(taken),
            size(free)
        ))
        .gains(
            GainSource::Documented,
            "changes made while the copy was taken are applied in fewer rounds; little where few were made",
        )
    })
}

/// Number of files to copy in parallel.
pub(super) fn threads(node: &NodeFacts, method: &str) -> Option<Suggestion> {
    let machine = node.machine.as_ref()?;
    let better = machine.cores?.min(THREADS_MOST);
    let options = node.option(BACKUP, "inno-backup-opts");
    let parallel = options.and_then(|options| {
        options
            .split_whitespace()
            .find_map(|word| word.strip_prefix("--parallel="))
            .and_then(|count| count.parse::<u64>().ok())
    });
    let now = node.option(ALL, "backup-threads");
    let taken = now
        .and_then(|count| count.parse().ok())
        .or(parallel)
        .unwrap_or(1);
    if better <= taken {
        return None;
    }
    let knows = |option: &str| {
        machine
            .knows
            .contains(&(method.to_owned(), option.to_owned()))
    };
    let one = if knows("backup-threads") {
        let group = node.group(ALL, "backup-threads", "sst");
        Suggestion::new(node, group, "backup-threads", now, better.to_string())
    } else {
        // Scripts from before that option pass on these options.
        let kept: Vec<&str> = options
            .unwrap_or_default()
            .split_whitespace()
            .filter(|word| !word.starts_with("--parallel"))
            .collect();
        let value = format!("{} --parallel={better}", kept.join(" "));
        let group = node.group(BACKUP, "inno-backup-opts", "sst");
        let one = Suggestion::new(node, group, "inno-backup-opts", options, value.trim());
        // The current value may hold a password that was left out here.
        if options.is_some_and(|options| options.contains('…')) {
            one.if_decided()
        } else {
            one
        }
    };
    Some(
        one.because(format!(
            "a donor copies {taken} of its files at a time, and has {better} processors; a joiner moves files by as many. Extraction stays one thread: the script calls mbstream without -p"
        ))
        .gains(GainSource::Documented, "up to as many files are read at the same time, where the storage allows it"),
    )
}

/// Compression, if the network is the bottleneck of a copy.
pub(super) fn compression(facts: &Facts, to: &NodeFacts, donors: &[&NodeFacts]) -> Vec<Suggestion> {
    let set = |node: &NodeFacts| {
        node.option(SST, "compressor").is_some() || node.option(SST, "decompressor").is_some()
    };
    let sides: Vec<&NodeFacts> = std::iter::once(to).chain(donors.iter().copied()).collect();
    if donors.is_empty() || sides.iter().any(|node| set(node) || node.machine.is_none()) {
        return Vec::new();
    }
    let ways: Vec<_> = facts
        .reaches
        .iter()
        .filter(|way| way.joiner == to.name)
        .collect();
    // On one machine there is no network.
    if !ways.is_empty() && ways.iter().all(|way| way.within) {
        return Vec::new();
    }
    let network = ways.iter().filter_map(|way| way.bytes_per_second).min();
    let cores = donors
        .iter()
        .filter_map(|node| node.machine.as_ref()?.cores)
        .min()
        .unwrap_or(1)
        .clamp(1, THREADS_MOST);
    let there = |program: &str| sides.iter().all(|node| node.has(program) == Some(true));
    let Some((program, pack, unpack, per_core, apart, ratio)) =
        COMPRESSORS.into_iter().find(|(program, ..)| there(program))
    else {
        return Vec::new();
    };
    let rate = (per_core * cores as f64).min(apart);
    let (gain, sure, reason) = match network {
        Some(network) => {
            let gain = rate.min(network as f64 * ratio) / network as f64;
            if gain < 1.2 {
                return Vec::new();
            }
            let reason = format!(
                "the network carries {} a second, {program} packs {} a second with {cores} threads, and both sides have it",
                size(network),
                size((per_core * cores as f64) as u64)
            );
            (
                format!(
                    "up to {gain:.1} times as fast where the network is what holds the copy up"
                ),
                true,
                reason,
            )
        }
        None => (
            format!(
                "{ratio:.1} times less over the network; slower where that is faster than {} a second",
                size(rate as u64)
            ),
            false,
            format!("both sides have {program}; how fast the network is could not be told"),
        ),
    };
    let mut all = Vec::new();
    for node in sides {
        for (option, value) in [
            ("compressor", format!("{program} {pack}{cores}")),
            ("decompressor", format!("{program} {unpack}")),
        ] {
            let mut one = Suggestion::new(node, "sst", option, None, value)
                .because(format!(
                    "{reason}. Set both on all nodes: with one side only no node comes by a copy, nor by IST"
                ))
                .gains(GainSource::Measured, gain.clone());
            one.sure = sure;
            all.push(one);
        }
    }
    all
}

/// A rate limit that leaves part of the donor's network bandwidth to clients.
pub(super) fn rate(facts: &Facts, from: &NodeFacts, to: &NodeFacts) -> Option<Suggestion> {
    let way = facts
        .reaches
        .iter()
        .find(|way| way.donor == from.name && way.joiner == to.name && !way.within)?;
    if from.option(SST, "rlimit").is_some() || from.has("pv") != Some(true) {
        return None;
    }
    let limit = (way.bytes_per_second? as f64 * RATE_PART) as u64 >> 20;
    (limit > 0).then(|| {
        Suggestion::new(from, "sst", "rlimit", None, format!("{limit}m"))
            .because(format!(
                "a copy takes all of the donor's network, {} a second; clients of the donor wait meanwhile",
                size(way.bytes_per_second.unwrap_or(0))
            ))
            .gains(GainSource::NotMeasured, "clients keep a fifth of the network; the copy takes a quarter longer at the most")
            .if_decided()
    })
}

/// How long the joiner waits, and a report on the duration of each part.
pub(super) fn time_limits(to: &NodeFacts) -> Vec<Suggestion> {
    /// The default of the script, in seconds.
    const USUAL: u64 = 300;
    if to.machine.is_none() {
        return Vec::new();
    }
    let mut all = Vec::new();
    let limit = to.option(SST, "sst-initial-timeout");
    if let Some(seconds) = limit
        .and_then(|text| text.parse::<u64>().ok())
        .filter(|seconds| (1..USUAL).contains(seconds))
    {
        all.push(
            Suggestion::new(to, "sst", "sst-initial-timeout", limit, USUAL.to_string())
                .because(format!("the joiner gives up after {seconds} s without data; a donor that waits for a long statement takes longer to begin"))
                .gains(GainSource::Documented, "copies do not fail because their donor is busy"),
        );
    }
    if to.option(SST, "time") != Some("1") {
        all.push(
            Suggestion::new(to, "sst", "time", to.option(SST, "time"), "1")
                .because("the error log then says how long each part of a copy took")
                .gains(
                    GainSource::NotMeasured,
                    "none by itself: it shows what to look at next",
                ),
        );
    }
    all
}
