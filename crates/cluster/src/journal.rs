//! Locates a node's log.

use std::path::{Path, PathBuf};

use refloat_host::{Control, Host, LogMark};

use crate::member::Member;
use crate::node::NodeState;

/// Pattern for the units of servers with unknown names, as `journalctl` takes it:
/// `mariadb.service`, `mariadb@.service`.
const UNITS: &str = "mariadb*";

/// The current end of the node's log. `None`: its location is unknown, or it cannot be read.
pub fn now(control: &Control, member: &Member, state: &NodeState) -> Option<LogMark> {
    let log = Path::new(&state.datadir).join(&state.log_error);
    at(
        control,
        member,
        Some(log).filter(|_| !state.log_error.is_empty()),
    )
}

/// The same for a node that cannot be asked for the location of its log. Its option files give it,
/// or the log is where its service manager puts the output.
pub fn of_node_that_is_down(control: &Control, member: &Member) -> Option<LogMark> {
    member
        .log_by_options()
        .and_then(|path| at(control, member, Some(path)))
        .or_else(|| at(control, member, None))
}

/// The last part of the log of a node that answers. `None`: its output goes to whatever started it.
pub fn last_part(host: &Host, state: &NodeState) -> Option<String> {
    if state.log_error.is_empty() {
        return None;
    }
    let path = Path::new(&state.datadir).join(&state.log_error);
    LogMark::tail_of(host, &path)
}

fn at(control: &Control, member: &Member, named: Option<PathBuf>) -> Option<LogMark> {
    let host = member.host.as_ref()?;
    let path = match (control, member.log.clone().or(named)) {
        (_, Some(path)) => path,
        (Control::Systemd { unit, .. }, None) => {
            return LogMark::journal(host, unit);
        }
        (Control::Commands { .. }, None) => return None,
    };
    LogMark::end_of(host, path)
}

/// The end of the log of a node that answers, if it is unknown what starts it. A server without a
/// log file writes to the journal of its unit, and the names of those units begin alike in all
/// distributions. `None`: it cannot be read.
pub fn of_node_that_answers(member: &Member, state: &NodeState) -> Option<LogMark> {
    let host = member.host.as_ref()?;
    let log = Path::new(&state.datadir).join(&state.log_error);
    let log = Some(log).filter(|_| !state.log_error.is_empty());
    match member.log.clone().or(log) {
        Some(path) => LogMark::end_of(host, path),
        None => LogMark::journal(host, UNITS),
    }
}
