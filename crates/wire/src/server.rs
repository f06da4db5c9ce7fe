//! Facts about the server: vendor, version, identity.

use std::fmt;

/// The vendor of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// MariaDB, its enterprise build included.
    MariaDb,
    /// MySQL and Percona Server.
    MySql,
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
        })
    }
}

/// Facts about the server and the connection, known since login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The vendor, from the version text.
    pub vendor: Vendor,
    /// Major, minor, patch. Tuples compare like versions.
    pub version: (u16, u16, u16),
    /// The version text, as returned by `SELECT VERSION()`.
    pub version_string: String,
    /// The server's own `CONNECTION_ID()`, which `KILL` takes.
    pub connection_id: u64,
    /// The id in the greeting. It differs behind a proxy that keeps its own connections to the
    /// server.
    pub greeted_id: u64,
    /// `MARIADB_CLIENT_STMT_BULK_OPERATIONS` was negotiated: [`crate::Connection::bulk_send`]
    /// works.
    pub has_bulk: bool,
    /// The connection goes through a unix socket.
    pub is_unix_socket: bool,
    /// The connection is encrypted.
    pub is_tls: bool,
    /// TLS version and cipher suite, if encrypted.
    pub tls: Option<String>,
    /// User and address, as in [`crate::ConnectOptions::describe`].
    pub peer: String,
    /// The authentication plugin that the login succeeded with.
    pub auth_plugin: String,
}

impl ServerInfo {
    /// Whether this is MariaDB, at least in this version.
    pub fn is_mariadb_since(&self, version: (u16, u16, u16)) -> bool {
        self.vendor == Vendor::MariaDb && self.version >= version
    }

    /// Whether this is MySQL, at least in this version.
    pub fn is_mysql_since(&self, version: (u16, u16, u16)) -> bool {
        self.vendor == Vendor::MySql && self.version >= version
    }
}

/// Parses a server's version text. MariaDB before 11 prefixes it with `5.5.5-` for the sake of old
/// replicas.
pub(crate) fn parse_version(text: &str) -> (Vendor, (u16, u16, u16)) {
    let vendor = if text.to_ascii_lowercase().contains("mariadb") {
        Vendor::MariaDb
    } else {
        Vendor::MySql
    };
    let text = if vendor == Vendor::MariaDb {
        text.strip_prefix("5.5.5-").unwrap_or(text)
    } else {
        text
    };
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (vendor, (next(), next(), next()))
}

/// Distinguishes server instances. Two connections reached the same server if their identities are
/// equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `@@server_uuid` (MySQL) or `@@server_uid` (MariaDB); `None` on servers without one.
    pub uuid: Option<String>,
    /// `@@hostname`.
    pub hostname: String,
    /// `@@port`.
    pub port: u16,
    /// `@@datadir`.
    pub datadir: String,
    /// `@@version`.
    pub version: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{} {} ({})",
            self.hostname, self.port, self.version, self.datadir
        )?;
        match &self.uuid {
            Some(uuid) => write!(f, " {uuid}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_texts_of_all_vendors() {
        use Vendor::{MariaDb, MySql};
        for (text, vendor, version) in [
            ("5.5.5-10.11.19-MariaDB-0+deb12u1", MariaDb, (10, 11, 19)),
            ("11.8.6-MariaDB-0+deb13u1 from Debian", MariaDb, (11, 8, 6)),
            ("9.7.4", MySql, (9, 7, 4)),
            ("8.0.36-28", MySql, (8, 0, 36)),
            ("5.5.5", MySql, (5, 5, 5)),
            ("5.7.44-log", MySql, (5, 7, 44)),
            ("", MySql, (0, 0, 0)),
            ("99999999.1.x", MySql, (0, 1, 0)),
        ] {
            assert_eq!(parse_version(text), (vendor, version), "{text}");
        }
    }
}
