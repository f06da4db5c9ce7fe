//! What a server has logged since a given moment, in a file on its machine or in systemd's journal.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::Host;

/// Maximum number of bytes read from a log, from the mark on.
const MOST: u64 = 16 << 20;

/// A position in a server's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogMark {
    /// An offset in a file.
    File {
        /// Path of the log on its machine.
        path: PathBuf,
        /// Length of the file at the mark, in bytes.
        length: u64,
    },
    /// A moment in a unit's journal.
    Unit {
        /// Name of the systemd unit.
        unit: String,
        /// Seconds since 1970, by the clock of its machine.
        since: u64,
    },
}

impl LogMark {
    /// The last part of a log file. `None`: it cannot be read.
    pub fn tail_of(host: &Host, path: &Path) -> Option<String> {
        let word = Host::word(&path.to_string_lossy());
        output_of(host, &format!("tail -c {MOST} -- {word}"))
    }

    /// The last part of this log, wherever the mark is.
    pub fn tail(&self, host: &Host) -> Option<String> {
        match self {
            Self::File { path, .. } => Self::tail_of(host, path),
            Self::Unit { unit, .. } => {
                let unit = Host::word(unit);
                output_of(
                    host,
                    &format!("journalctl --unit={unit} --output=cat --no-pager | tail -c {MOST}"),
                )
            }
        }
    }

    /// The current end of the same log.
    pub fn moved_to_the_end(&self, host: &Host) -> Option<Self> {
        match self {
            Self::File { path, .. } => Self::end_of(host, path.clone()),
            Self::Unit { unit, .. } => Self::journal(host, unit),
        }
    }

    /// The current end of the journal of a unit, or of the units that a pattern of `journalctl`
    /// matches. `None`: it cannot be read.
    pub fn journal(host: &Host, unit: &str) -> Option<Self> {
        let since = output_of(host, "date +%s")?.trim().parse().ok()?;
        Some(Self::Unit {
            unit: unit.to_owned(),
            since,
        })
    }

    /// The current end of a file. `None`: it cannot be read.
    pub fn end_of(host: &Host, path: PathBuf) -> Option<Self> {
        let length = match host {
            Host::Local => std::fs::metadata(&path).ok()?.len(),
            Host::Ssh(_) => {
                let word = Host::word(&path.to_string_lossy());
                output_of(host, &format!("stat -c %s -- {word}"))?
                    .trim()
                    .parse()
                    .ok()?
            }
        };
        Some(Self::File { path, length })
    }

    /// What was logged since. `None`: it can no longer be read.
    pub fn since(&self, host: &Host) -> Option<String> {
        match (self, host) {
            (Self::File { path, length }, Host::Local) => {
                let mut file = File::open(path).ok()?;
                let from = Some(*length)
                    .filter(|length| *length <= file.metadata().map_or(0, |m| m.len()));
                // The log is shorter than before, so it was started over.
                let from = from.unwrap_or(0);
                file.seek(SeekFrom::Start(from)).ok()?;
                let mut bytes = Vec::new();
                file.take(MOST).read_to_end(&mut bytes).ok()?;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            (Self::File { path, length }, Host::Ssh(_)) => {
                let word = Host::word(&path.to_string_lossy());
                let script = format!(
                    "from={length}; [ \"$(stat -c %s -- {word})\" -ge \"$from\" ] || from=0; \
                     tail -c +$((from + 1)) -- {word} | head -c {MOST}"
                );
                output_of(host, &script)
            }
            (Self::Unit { unit, since }, _) => {
                let unit = Host::word(unit);
                output_of(
                    host,
                    &format!(
                        "journalctl --unit={unit} --since=@{since} --output=cat --no-pager | head -c {MOST}"
                    ),
                )
            }
        }
    }
}

fn output_of(host: &Host, script: &str) -> Option<String> {
    let output = host.run(script).ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
