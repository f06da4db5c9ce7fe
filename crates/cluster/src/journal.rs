//! What a node writes to its log from some moment on, whether to a file on its machine or to
//! systemd's journal.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use refloat_host::Host;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::member::Member;
use crate::node::NodeState;

/// How many bytes of a log are read at most, from the mark on.
const MOST: u64 = 16 << 20;
/// Pattern for units of servers whose names are not known, as `journalctl` takes it:
/// `mariadb.service`, `mariadb@.service`.
const UNITS: &str = "mariadb*";

/// A place in a node's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogMark {
    /// An offset in a file.
    File {
        /// Path on the node's machine.
        path: PathBuf,
        /// Length of the file at the mark, in bytes.
        length: u64,
    },
    /// A moment in a unit's journal.
    Unit {
        unit: String,
        /// Seconds since 1970, by the clock of the node's machine.
        since: u64,
    },
}

impl LogMark {
    /// The current end of the node's log. `None`: it is not known where the log is, or it cannot be
    /// read.
    pub fn now(control: &Control, member: &Member, state: &NodeState) -> Option<Self> {
        let said = Path::new(&state.datadir).join(&state.log_error);
        Self::at(
            control,
            member,
            Some(said).filter(|_| !state.log_error.is_empty()),
        )
    }

    /// The same for a node that cannot be asked where its log is. Its option files say so, or the
    /// log is where its starter puts its output.
    pub fn of_node_that_is_down(control: &Control, member: &Member) -> Option<Self> {
        member
            .log_by_options()
            .and_then(|path| Self::at(control, member, Some(path)))
            .or_else(|| Self::at(control, member, None))
    }

    /// The last part of the log of a node that answers. `None`: its output goes to whoever started
    /// it.
    pub fn last_part(host: &Host, state: &NodeState) -> Option<String> {
        if state.log_error.is_empty() {
            return None;
        }
        let path = Path::new(&state.datadir).join(&state.log_error);
        let word = Host::word(&path.to_string_lossy());
        said(host, &format!("tail -c {MOST} -- {word}"))
    }

    /// The last part of this log, wherever the mark is.
    pub fn tail(&self, host: &Host) -> Option<String> {
        match self {
            Self::File { path, .. } => {
                let word = Host::word(&path.to_string_lossy());
                said(host, &format!("tail -c {MOST} -- {word}"))
            }
            Self::Unit { unit, .. } => {
                let unit = Host::word(unit);
                said(
                    host,
                    &format!("journalctl --unit={unit} --output=cat --no-pager | tail -c {MOST}"),
                )
            }
        }
    }

    fn at(control: &Control, member: &Member, named: Option<PathBuf>) -> Option<Self> {
        let host = member.host.as_ref()?;
        let path = match (control, member.log.clone().or(named)) {
            (_, Some(path)) => path,
            (Control::Systemd { unit, .. }, None) => {
                return Self::journal(host, unit);
            }
            (Control::Commands { .. }, None) => return None,
        };
        Self::end_of(host, path)
    }

    /// The end of the log of a node that answers, if it is not known what starts it. A server that
    /// names no file writes to the journal of its unit, and the names of those units begin alike in
    /// all distributions. `None`: it cannot be read.
    pub fn of_node_that_answers(member: &Member, state: &NodeState) -> Option<Self> {
        let host = member.host.as_ref()?;
        let said = Path::new(&state.datadir).join(&state.log_error);
        let said = Some(said).filter(|_| !state.log_error.is_empty());
        match member.log.clone().or(said) {
            Some(path) => Self::end_of(host, path),
            None => Self::journal(host, UNITS),
        }
    }

    /// The current end of the same log.
    pub fn moved_to_the_end(&self, host: &Host) -> Option<Self> {
        match self {
            Self::File { path, .. } => Self::end_of(host, path.clone()),
            Self::Unit { unit, .. } => Self::journal(host, unit),
        }
    }

    fn journal(host: &Host, unit: &str) -> Option<Self> {
        let since = said(host, "date +%s")?.trim().parse().ok()?;
        Some(Self::Unit {
            unit: unit.to_owned(),
            since,
        })
    }

    fn end_of(host: &Host, path: PathBuf) -> Option<Self> {
        let length = match host {
            Host::Local => std::fs::metadata(&path).ok()?.len(),
            Host::Ssh(_) => {
                let word = Host::word(&path.to_string_lossy());
                said(host, &format!("stat -c %s -- {word}"))?
                    .trim()
                    .parse()
                    .ok()?
            }
        };
        Some(Self::File { path, length })
    }

    /// What was written since. `None`: it cannot be read any more.
    pub fn since(&self, host: &Host) -> Option<String> {
        match (self, host) {
            (Self::File { path, length }, Host::Local) => {
                let mut file = File::open(path).ok()?;
                let from = Some(*length)
                    .filter(|length| *length <= file.metadata().map_or(0, |m| m.len()));
                // A log that is shorter now was started over.
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
                said(host, &script)
            }
            (Self::Unit { unit, since }, _) => {
                let unit = Host::word(unit);
                said(
                    host,
                    &format!(
                        "journalctl --unit={unit} --since=@{since} --output=cat --no-pager | head -c {MOST}"
                    ),
                )
            }
        }
    }
}

fn said(host: &Host, script: &str) -> Option<String> {
    let output = host.run(script).ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
