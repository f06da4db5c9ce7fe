//! Checks how long systemd waits for a node that receives a copy: if the server is not up by then,
//! systemd kills it with half of the data.
//!
//! The server of a `Type=notify` unit may ask for more time (`EXTEND_TIMEOUT_USEC`, systemd 236 and
//! later). MariaDB does so during a copy: 60 s more, every 30 s (`sql/wsrep_sst.cc`; MDEV-17571).
//! `systemd.service(5)` lists other reasons why systemd does not wait for a start.

use std::time::Duration;

use super::facts::{NodeFacts, Unit, size};
use super::inspect::Facts;
use super::mistake::{Effect, Found, MistakeKind};

/// Unit types whose start ends only when the server reports it, or has gone to the background.
const WAITED_FOR: [&str; 4] = ["notify", "notify-reload", "forking", "dbus"];
/// The first version of systemd that accepts requests for more time.
const TAKES_REQUESTS: u64 = 236;
/// The first version of systemd that accepts `infinity`.
const TAKES_INFINITY: u64 = 229;
/// For each series, the first version of MariaDB that asks for more time during a copy
/// (MDEV-17571). All later series do.
const ASKS_SINCE: [(u64, u64, u64); 5] = [
    (10, 1, 44),
    (10, 2, 31),
    (10, 3, 22),
    (10, 4, 12),
    (10, 5, 1),
];
/// Enough for a server that asks for more time: it first asks after 30 s, and has joined its
/// cluster before that.
const BEFORE_FIRST: Duration = Duration::from_secs(60);
/// When it asks for the first time. A start must be allowed at least this long.
const FIRST_REQUEST: Duration = Duration::from_secs(35);
/// The limit in MariaDB's own units. A shorter one was not chosen with copies in mind.
const LEAST: Duration = Duration::from_secs(900);
/// Usual and highest rate of a copy, in bytes per second: one thread extracts the stream.
const USUAL_RATE: u64 = 100 << 20;
const HIGHEST_RATE: u64 = 1 << 30;

/// Reports a time limit with which systemd would not wait long enough.
pub(super) fn start_timeout(
    facts: &Facts,
    to: &NodeFacts,
    donors: &[&NodeFacts],
    found: &mut Found,
) {
    let Some(unit) = to
        .machine
        .as_ref()
        .and_then(|machine| machine.unit.as_ref())
    else {
        return;
    };
    let Some(limit) = span(&unit.start_timeout) else {
        return;
    };
    if !WAITED_FOR.contains(&unit.kind.as_str()) {
        return;
    }
    let data = donors.iter().filter_map(|from| from.data_bytes()).max();
    let network = facts
        .reaches
        .iter()
        .filter(|way| way.joiner == to.name && !way.within)
        .filter_map(|way| way.bytes_per_second)
        .min()
        .unwrap_or(u64::MAX);
    let takes = |rate: u64| {
        let bytes = data.unwrap_or(0) as f64;
        Duration::from_secs_f64(bytes / rate.min(network).max(1) as f64)
    };
    let why = no_requests(unit, to, donors);
    let enough = match why {
        None => BEFORE_FIRST,
        Some(_) => LEAST.max(takes(USUAL_RATE) * 2),
    };
    if limit >= enough {
        return;
    }
    // Whether a limit beyond the first request is enough is unknown.
    let is_in_time = why.is_none() && limit >= FIRST_REQUEST;
    let effect = if takes(HIGHEST_RATE) > limit && !is_in_time {
        Effect::Fails
    } else {
        Effect::Unsafe
    };
    let why = why.unwrap_or_else(|| {
        "the server asks for more time when a copy has taken 30 s, which may be too late".to_owned()
    });
    let copy = data.map_or_else(String::new, |data| {
        format!(
            ", and a copy of {} takes about {} s",
            size(data),
            takes(USUAL_RATE).as_secs().max(1)
        )
    });
    let endless = match unit.manager {
        Some(version) if version < TAKES_INFINITY => "0",
        _ => "infinity",
    };
    found.add(
        MistakeKind::StartTimeout,
        effect,
        &[&to.name],
        format!(
            "systemd gives its start up after {} (TimeoutStartUSec of unit {}){copy}: it ends the server then, whose data are half there; {why}",
            unit.start_timeout, unit.name
        ),
        format!(
            "write the lines [Service] and TimeoutStartSec={endless} into /etc/systemd/system/{}.d/zz-sst.conf on its machine, then systemctl daemon-reload",
            unit.file()
        ),
    );
}

/// Why the server gets no more time during a copy. `None`: it does.
fn no_requests(unit: &Unit, to: &NodeFacts, donors: &[&NodeFacts]) -> Option<String> {
    if !unit.kind.starts_with("notify") {
        return Some(format!(
            "a unit of Type={} cannot ask for more time",
            unit.kind
        ));
    }
    if unit.notify_access == "none" {
        return Some("with NotifyAccess=none it cannot ask for more time".to_owned());
    }
    if let Some(version) = unit.manager.filter(|version| *version < TAKES_REQUESTS) {
        return Some(format!("systemd {version} gives no server more time"));
    }
    let version = version(to).or_else(|| donors.iter().find_map(|from| version(from)));
    match version {
        Some(version) if asks(&version) => None,
        Some(version) => Some(format!("a server {version} asks for no more time")),
        // No obstacle is known.
        None => None,
    }
}

/// Version of a node's server or, while it is down, of the backup program beside it.
fn version(node: &NodeFacts) -> Option<String> {
    if let Some(state) = &node.state {
        return Some(state.version.clone());
    }
    let machine = node
        .machine
        .as_ref()
        .filter(|one| !one.programs_elsewhere)?;
    let text = machine.versions.get("mariadb-backup")?;
    let (_, version) = text.split_once("MariaDB server ")?;
    version.split_whitespace().next().map(str::to_owned)
}

/// Whether a server asks for more time during a copy.
fn asks(version: &str) -> bool {
    if !version.to_ascii_lowercase().contains("mariadb") {
        return false;
    }
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse::<u64>().ok());
    let mut next = || numbers.next().unwrap_or(0);
    let parsed = (next(), next(), next());
    let of_series = ASKS_SINCE
        .iter()
        .find(|first| (first.0, first.1) == (parsed.0, parsed.1));
    parsed >= *of_series.unwrap_or(&ASKS_SINCE[ASKS_SINCE.len() - 1])
}

/// A time as systemd writes it: `1min 30s`, `15min`, `500ms`. `None`: no limit, or an unknown form.
fn span(text: &str) -> Option<Duration> {
    let mut all = Duration::ZERO;
    let mut words = text.split_whitespace().peekable();
    words.peek()?;
    for word in words {
        let at = word.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = word.split_at(at);
        let seconds = match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            "w" => 604_800.0,
            "month" => 2_629_800.0,
            "y" => 31_557_600.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        all += Duration::try_from_secs_f64(number * seconds).ok()?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_versions() {
        let seconds = |text: &str| span(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("1min 30s"), Some(90.0));
        assert_eq!(seconds("15min"), Some(900.0));
        assert_eq!(seconds("1h 5min 500ms"), Some(3900.5));
        assert_eq!(seconds("infinity"), None);
        assert_eq!(seconds(""), None);
        assert_eq!(seconds("90"), None);
        for (version, does) in [
            ("10.11.19-MariaDB-log", true),
            ("11.8.9-MariaDB-0+deb13u1", true),
            ("10.4.11-MariaDB", false),
            ("10.4.12-MariaDB", true),
            ("10.3.22-MariaDB", true),
            ("10.1.43-MariaDB", false),
            ("8.0.36-28.1", false),
        ] {
            assert_eq!(asks(version), does, "{version}");
        }
    }
}
