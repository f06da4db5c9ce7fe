//! Finds free TCP ports for servers.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::{Error, Result};

/// Servers listen below the range that the system uses for outgoing connections. An outgoing
/// connection could otherwise hold a stopped server's port when the server is started again.
const LOW: u16 = 20_000;
const HIGH: u16 = 32_000;

/// The system's range for outgoing connections, lowest and highest port: see `ip_local_port_range`
/// in ip(7).
const SYSTEM_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// How often to retry a port that is in use.
const POLL: Duration = Duration::from_millis(20);

/// How long a port may still be in use: the kernel releases a killed process's port shortly after
/// the process ends.
pub const PATIENCE: Duration = Duration::from_secs(3);

const ATTEMPTS: u64 = 400;

/// A port of 127.0.0.1 that is free now and not in `taken`. Another program may take it before the
/// server does; the caller must then try again.
///
/// # Errors
/// [`Error::NoFreePort`].
pub fn free_port<S: BuildHasher>(taken: &HashSet<u16, S>) -> Result<u16> {
    hold_port(taken).map(|(port, _)| port)
}

/// Like [`free_port`], but nobody can take the port while the listener exists.
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

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Waits up to `patience` for the port to become free.
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
