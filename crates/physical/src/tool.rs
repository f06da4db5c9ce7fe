//! The programs that copy the files of a running server and prepare the copy.

use std::path::PathBuf;

use refloat_run::Refusal;
use refloat_wire::{ServerInfo, Vendor};
use refloat_xbstream::Dialect;
use serde::{Deserialize, Serialize};

/// A version of three numbers. Tuples compare like versions.
pub type Version = (u16, u16, u16);

/// The first version of each series whose tool takes backup locks (`BACKUP STAGE`). Before, DDL
/// during a backup could silently make it useless (MDEV-32932 and those that it lists).
const LOCKS_SINCE: [Version; 5] = [(10, 11, 8), (11, 0, 6), (11, 1, 5), (11, 2, 4), (11, 4, 2)];

/// What copies a server's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// mariadb-backup, for `MariaDB`.
    MariadbBackup,
    /// xtrabackup, for `MySQL` and Percona Server.
    Xtrabackup,
    /// No program: the clone plugin of `MySQL` and Percona Server.
    Clone,
}

impl ToolKind {
    /// The one that copies servers of this vendor.
    pub fn of(vendor: Vendor) -> Self {
        match vendor {
            Vendor::MariaDb => Self::MariadbBackup,
            Vendor::MySql => Self::Xtrabackup,
        }
    }

    /// The name that the program has in packages, and in messages.
    pub fn program(self) -> &'static str {
        match self {
            Self::MariadbBackup => "mariadb-backup",
            Self::Xtrabackup => "xtrabackup",
            Self::Clone => "clone",
        }
    }

    /// The dialect of its streams.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::MariadbBackup => Dialect::MariaDb,
            Self::Xtrabackup | Self::Clone => Dialect::Percona,
        }
    }

    /// The group of option files that only this tool reads.
    pub(crate) fn group(self) -> &'static str {
        self.program()
    }
}

/// A tool on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Which vendor's tool it is.
    pub kind: ToolKind,
    /// The program, by its path or its name.
    pub program: PathBuf,
    /// The version that it tells of itself.
    pub version: Version,
}

impl Tool {
    /// Its version as text, such as `10.11.8`.
    pub fn version_text(&self) -> String {
        text(self.version)
    }

    /// The objections to copying this server with it.
    pub(crate) fn objections(&self, server: &ServerInfo) -> Vec<Refusal> {
        let mut against = Vec::new();
        let (version, its) = (self.version, server.version);
        let name = self.kind.program();
        let fits = match self.kind {
            ToolKind::MariadbBackup => {
                (version.0, version.1) == (its.0, its.1) && version.2 >= its.2
            }
            // XtraBackup 8.4.0-1 copies MySQL 8.4: the series, and nothing newer than itself.
            ToolKind::Xtrabackup => (version.0, version.1) == (its.0, its.1),
            ToolKind::Clone => true,
        };
        if !fits {
            against.push(
                Refusal::new(format!(
                    "{name} is {}, but the server is {}",
                    text(version),
                    text(its)
                ))
                .hint(format!(
                    "It must be of the same series and not older than the server: install {name} {}, or name another one with --tool.",
                    text(its)
                )),
            );
        }
        against
    }

    /// What the user should know of this version.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let version = self.version;
        let is_old = match LOCKS_SINCE
            .iter()
            .find(|since| (since.0, since.1) == (version.0, version.1))
        {
            Some(since) => version < *since,
            // All of 11.3.
            None => version < (11, 4, 0),
        };
        if self.kind == ToolKind::MariadbBackup && is_old {
            vec![format!(
                "mariadb-backup {} can make unusable backups if definitions change meanwhile: update it",
                text(version)
            )]
        } else {
            Vec::new()
        }
    }
}

pub(crate) fn text((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_fits_its_own_series() {
        let tool = |version| Tool {
            kind: ToolKind::MariadbBackup,
            program: PathBuf::from("mariadb-backup"),
            version,
        };
        let server = |version| ServerInfo {
            vendor: Vendor::MariaDb,
            version,
            version_string: String::new(),
            connection_id: 1,
            greeted_id: 1,
            has_bulk: true,
            is_unix_socket: true,
            is_tls: false,
            tls: None,
            peer: String::new(),
            auth_plugin: String::new(),
        };
        for (of_tool, its, fits) in [
            ((10, 11, 19), (10, 11, 19), true),
            ((10, 11, 20), (10, 11, 19), true),
            ((10, 11, 18), (10, 11, 19), false),
            ((11, 8, 1), (10, 11, 19), false),
        ] {
            let against = tool(of_tool).objections(&server(its));
            assert_eq!(against.is_empty(), fits, "{of_tool:?} {its:?}");
        }
        for (of_tool, warned) in [
            ((10, 11, 7), true),
            ((10, 11, 8), false),
            ((11, 3, 9), true),
            ((11, 4, 1), true),
            ((11, 4, 2), false),
            ((11, 8, 0), false),
            ((10, 6, 20), true),
        ] {
            assert_eq!(!tool(of_tool).warnings().is_empty(), warned, "{of_tool:?}");
        }
    }
}
