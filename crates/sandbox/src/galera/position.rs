//! Where a node stands in the history of its cluster.

use std::fmt;
use std::str::FromStr;

/// A position in a cluster's history: which history, and the number of write-sets applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The UUID of the history. All zeros: none.
    pub uuid: String,
    /// The sequence number of the last write-set. -1: unknown.
    pub seqno: i64,
}

impl Position {
    /// Is it a real position: a history and a sequence number?
    pub fn is_known(&self) -> bool {
        self.seqno >= 0 && self.uuid.chars().any(|c| c.is_ascii_hexdigit() && c != '0')
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uuid, self.seqno)
    }
}

impl FromStr for Position {
    type Err = ();

    /// Parses `UUID:SEQNO`. `MariaDB` may append a comma and a GTID.
    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.split(',').next().unwrap_or_default().trim();
        let (uuid, seqno) = text.split_once(':').ok_or(())?;
        let dashes = uuid.bytes().filter(|&byte| byte == b'-').count();
        if uuid.len() != 36 || dashes != 4 {
            return Err(());
        }
        Ok(Self {
            uuid: uuid.to_owned(),
            seqno: seqno.parse().map_err(|_| ())?,
        })
    }
}

/// The contents of `grastate.dat`, as the provider wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GaleraState {
    /// The position. Unknown while the server runs and after a crash.
    pub position: Position,
    /// May this node bootstrap a new group?
    pub safe_to_bootstrap: bool,
}

impl GaleraState {
    /// Parses the text of the file. `None` if it is not a `grastate.dat`.
    pub fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            text.lines()
                .find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim()))
        };
        Some(Self {
            position: Position {
                uuid: value("uuid")?.to_owned(),
                seqno: value("seqno")?.parse().ok()?,
            },
            safe_to_bootstrap: value("safe_to_bootstrap") == Some("1"),
        })
    }
}

/// Finds the position in the log of a server that was started with `--wsrep-recover`.
pub fn find_recovered(log: &str) -> Option<Position> {
    log.lines()
        .filter_map(|line| line.split("Recovered position:").nth(1)?.parse().ok())
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6b8cd6ba-1c5e-11ef-9a5b-4f6a5f3d7a11";

    #[test]
    fn the_state_file_is_read() {
        let text = format!(
            "# GALERA saved state\nversion: 2.1\nuuid:    {UUID}\nseqno:   -1\nsafe_to_bootstrap: 0\n"
        );
        let state = GaleraState::parse(&text).unwrap();
        assert_eq!(state.position.to_string(), format!("{UUID}:-1"));
        assert!(!state.position.is_known() && !state.safe_to_bootstrap);
        assert_eq!(GaleraState::parse(""), None);
    }

    #[test]
    fn the_recovered_position_is_found_in_a_log() {
        let log =
            format!("2026 0 [Note] WSREP: Recovered position: {UUID}:12,0-1-7\n2026 0 [Note] x\n");
        let position = find_recovered(&log).unwrap();
        assert_eq!((position.uuid.as_str(), position.seqno), (UUID, 12));
        assert!(position.is_known());
        assert_eq!(find_recovered("[Note] WSREP: Recovered position: x"), None);
        let none: Position = "00000000-0000-0000-0000-000000000000:-1".parse().unwrap();
        assert!(!none.is_known());
    }
}
