//! Free TCP ports for servers.

use std::collections::HashSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Servers listen below the ports that the system hands out to outgoing connections: those come and go, and one
/// could be in use at the moment that a stopped server is started again.
const LOW: u16 = 20_000;
const HIGH: u16 = 32_000;

/// What the system hands out: lowest and highest, see `ip_local_port_range` in ip(7).
const SYSTEM_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// How often a port that is in use is tried again.
const POLL: Duration = Duration::from_millis(20);

/// How long a port may be in use still: what a killed process had is given back a moment after its end.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How many ports are tried.
const ATTEMPTS: u64 = 400;

/// A port of 127.0.0.1 that nothing uses now, and none of `taken`. Another program may take it before the
/// server does: then try again.
///
/// # Errors
/// [`Error::NoFreePort`].
pub fn free_port<S: BuildHasher>(taken: &HashSet<u16, S>) -> Result<u16> {
    hold_port(taken).map(|(port, _)| port)
}

/// The same, and nobody can take it while the listener lasts.
pub fn hold_port<S: BuildHasher>(taken: &HashSet<u16, S>) -> Result<(u16, TcpListener)> {
    let (low, high) = range();
    let random = RandomState::new();
    for attempt in 0..ATTEMPTS {
        let port = low + (random.hash_one(attempt) % u64::from(high - low + 1)) as u16;
        if !taken.contains(&port)
            && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        {
            return Ok((port, listener));
        }
    }
    Err(Error::NoFreePort { low, high })
}

/// Can something listen there now?
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Can something listen there within this time?
pub fn becomes_free(port: u16, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while !is_free(port) {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

fn range() -> (u16, u16) {
    let lowest_of_system = fs::read_to_string(SYSTEM_RANGE)
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<u16>().ok())
        .unwrap_or(HIGH + 1);
    if lowest_of_system > LOW + 1_000 {
        (LOW, HIGH.min(lowest_of_system - 1))
    } else {
        (LOW, HIGH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }

    #[test]
    fn taken_ports_are_left_out() {
        let (low, high) = range();
        let all: HashSet<u16> = (low..=high).collect();
        assert!(matches!(free_port(&all), Err(Error::NoFreePort { .. })));
        let port = free_port(&HashSet::new()).unwrap();
        assert!((low..=high).contains(&port));
    }
}
