//! Reads the write-sets that a node keeps, with a script on the node's machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use refloat_host::{Host, plain};

use super::BACK;

/// Finds write-sets in a ring. Perl is installed wherever MariaDB's server package is.
const RING: &str = include_str!("ring.pl");
/// How long scanning a ring may take: it can have many GiB.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a ring holds at one seqno.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    /// A write-set: its identity, its tables, and when its statements began, in seconds since 1970.
    WriteSet(String, BTreeSet<String>, Option<i64>),
    /// A membership change, by its identity. It carries no rows.
    Change(String),
    /// It was sent but applied nowhere.
    Skipped,
    /// More than one entry, at least one of them a leftover.
    Several,
}

impl Kept {
    /// What identifies the entry across nodes. `None`: nothing does.
    pub fn identity(&self) -> Option<&str> {
        match self {
            Self::WriteSet(identity, ..) | Self::Change(identity) => Some(identity),
            Self::Skipped | Self::Several => None,
        }
    }
}

/// The entries that a node keeps, by seqno.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub history: String,
    pub kept: BTreeMap<u64, Kept>,
}

impl Ring {
    /// Parses the script's output.
    pub fn parse(output: &str) -> Self {
        let mut ring = Self::default();
        for line in output.lines() {
            let mut words = line.split(' ');
            let (first, second) = (words.next(), words.next());
            if first == Some("history") {
                second.unwrap_or_default().clone_into(&mut ring.history);
                continue;
            }
            let Some(seqno) = first.and_then(|seqno| seqno.parse().ok()) else {
                continue;
            };
            let kept = match (second, words.next()) {
                (Some("w"), Some(identity)) => {
                    let tables = words.next().unwrap_or_default().split(',');
                    let tables = tables.filter(|table| !table.is_empty()).map(plain);
                    let tables = tables.collect();
                    let time = words.next().and_then(|time| time.parse().ok());
                    Kept::WriteSet(identity.to_owned(), tables, time)
                }
                (Some("c"), Some(identity)) => Kept::Change(identity.to_owned()),
                _ => Kept::Skipped,
            };
            let before = ring.kept.get(&seqno);
            let kept = if before.is_some_and(|before| *before != kept) {
                Kept::Several
            } else {
                kept
            };
            ring.kept.insert(seqno, kept);
        }
        ring
    }

    pub fn read(host: &Host, path: &Path, seqno: u64) -> Result<Self, String> {
        let word = |text: &str| Host::word(text);
        let script = format!(
            "exec perl -e {} -- {} {} {seqno}",
            word(RING),
            word(&path.to_string_lossy()),
            seqno.saturating_sub(BACK).max(1)
        );
        let output = host
            .run_for(&script, PATIENCE)
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(Self::parse(&String::from_utf8_lossy(&output.stdout)));
        }
        Err(plain(&String::from_utf8_lossy(&output.stderr)))
    }
}
