//! The kinds of server that a sandbox can start.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A server family and series, under the name that people type and `scripts/install-servers` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServerKind {
    /// `mariadb-10.11`: the long-term series in Debian 12; installed from the host's packages.
    #[serde(rename = "mariadb-10.11")]
    MariaDb1011,
    /// `mariadb-11.8`: the long-term series in Debian 13; run from an unpacked package tree.
    #[serde(rename = "mariadb-11.8")]
    MariaDb118,
    /// `mysql-9.7`: the `MySQL` in Debian's rolling suite, which may be newer than 9.7; run from an
    /// unpacked package tree.
    #[serde(rename = "mysql-9.7")]
    MySql97,
}

impl ServerKind {
    /// Every kind, in the order that lists use.
    pub const ALL: [Self; 3] = [Self::MariaDb1011, Self::MariaDb118, Self::MySql97];

    /// The name as typed: `mariadb-10.11`, `mariadb-11.8` or `mysql-9.7`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MariaDb1011 => "mariadb-10.11",
            Self::MariaDb118 => "mariadb-11.8",
            Self::MySql97 => "mysql-9.7",
        }
    }

    /// Is it `MariaDB`? If not, it is `MySQL`.
    pub const fn is_mariadb(self) -> bool {
        matches!(self, Self::MariaDb1011 | Self::MariaDb118)
    }

    /// Does a server binary of this version belong to this kind?
    ///
    /// Each `MariaDB` kind is one series. `MySQL` is rolling: 9.7 or anything newer.
    pub(crate) fn accepts(self, version: &str) -> bool {
        let mut numbers = version
            .split(|c: char| !c.is_ascii_digit())
            .map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return false;
        };
        let mariadb = version.to_ascii_lowercase().contains("mariadb");
        match self {
            Self::MariaDb1011 => mariadb && (major, minor) == (10, 11),
            Self::MariaDb118 => mariadb && (major, minor) == (11, 8),
            Self::MySql97 => !mariadb && (major, minor) >= (9, 7),
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text does not name a server kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown server {0:?}: known are mariadb-10.11, mariadb-11.8 and mysql-9.7")]
pub struct UnknownServerKind(pub String);

impl FromStr for ServerKind {
    type Err = UnknownServerKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| UnknownServerKind(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for kind in ServerKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("mysql-5.7".parse::<ServerKind>().is_err());
    }

    #[test]
    fn a_version_belongs_to_its_series_only() {
        assert!(ServerKind::MariaDb1011.accepts("10.11.19-MariaDB-0+deb12u1"));
        assert!(!ServerKind::MariaDb1011.accepts("11.4.2-MariaDB"));
        assert!(!ServerKind::MariaDb1011.accepts("10.11.19"));
        assert!(ServerKind::MariaDb118.accepts("11.8.6-MariaDB-0+deb13u1"));
        assert!(ServerKind::MySql97.accepts("9.7.4-2"));
        assert!(ServerKind::MySql97.accepts("10.0.1"));
        assert!(!ServerKind::MySql97.accepts("8.4.3"));
        assert!(!ServerKind::MySql97.accepts("11.8.6-MariaDB"));
        assert!(!ServerKind::MySql97.accepts("nonsense"));
    }
}
