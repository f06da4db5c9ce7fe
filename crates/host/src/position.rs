//! A node's position in the history of its cluster.

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
    /// The position in the log of a server that was started with `--wsrep-recover`.
    pub fn in_log(log: &str) -> Option<Self> {
        log.lines()
            .filter_map(|line| line.split("Recovered position:").nth(1)?.parse().ok())
            .next_back()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "6b8cd6ba-1c5e-11ef-9a5b-4f6a5f3d7a11";

    #[test]
    fn the_recovered_position_is_found_in_a_log() {
        let log =
            format!("2026 0 [Note] WSREP: Recovered position: {UUID}:12,0-1-7\n2026 0 [Note] x\n");
        let position = Position::in_log(&log).unwrap();
        assert_eq!((position.uuid.as_str(), position.seqno), (UUID, 12));
        assert!(position.is_known());
        assert_eq!(
            Position::in_log("[Note] WSREP: Recovered position: x"),
            None
        );
        let none: Position = "00000000-0000-0000-0000-000000000000:-1".parse().unwrap();
        assert!(!none.is_known());
    }
}
