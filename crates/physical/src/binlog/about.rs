//! What an archive of binary logs says of the server that it is of.

use refloat_repository::{Journal, RepositoryError};
use refloat_wire::Identity;
use serde::{Deserialize, Serialize};

use crate::about::ServerFacts;
use crate::error::PhysicalError;

/// The format that this version writes, and the latest that it reads.
const FORMAT: u32 = 1;

/// What an archive of binary logs says of the server that it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveAbout {
    /// The format of these fields.
    pub format: u32,
    /// The number by which the server tells this archive from other replicas.
    pub replica: u32,
    /// `MariaDB` or `MySQL`.
    pub vendor: String,
    /// The version when the archive was begun.
    pub version: String,
    /// `@@hostname`.
    pub hostname: String,
    /// `@@port`.
    pub port: u16,
    /// `@@server_uuid`, or `@@server_uid` of MariaDB.
    pub uuid: Option<String>,
}

impl ArchiveAbout {
    /// Describes a server, in the format that this version writes.
    pub fn of(identity: &Identity, vendor: &str, replica: u32) -> Self {
        Self {
            format: FORMAT,
            replica,
            vendor: vendor.to_owned(),
            version: identity.version.clone(),
            hostname: identity.hostname.clone(),
            port: identity.port,
            uuid: identity.uuid.clone(),
        }
    }

    /// Reads what an archive says. `None`: there is none.
    ///
    /// # Errors
    /// The repository fails, or it is of a later version of this program.
    pub fn read(journal: &Journal) -> Result<Option<Self>, PhysicalError> {
        let Some(text) = journal.about()? else {
            return Ok(None);
        };
        let url = journal.repository().storage().url().to_owned();
        let object = format!("archive {}", journal.name());
        let read: Result<Self, _> = serde_json::from_slice(&text);
        let detail = match read {
            Ok(about) if about.format <= FORMAT => return Ok(Some(about)),
            Ok(about) => format!(
                "it has format {}, and this version reads up to {FORMAT}",
                about.format
            ),
            Err(error) => error.to_string(),
        };
        Err(RepositoryError::Damaged {
            url,
            object,
            detail,
        }
        .into())
    }

    /// How it differs from a server. `None`: it may be the same one.
    pub fn differs_from(&self, server: &ServerFacts) -> Option<String> {
        if self.vendor != server.vendor {
            return Some(format!("{}, not {}", self.vendor, server.vendor));
        }
        // MariaDB derives its uuid from its port and a network card, so another machine may have
        // the same one.
        let is_mariadb = self.vendor == "MariaDB";
        match (&self.uuid, &server.uuid) {
            (Some(uuid), Some(its)) if uuid == its && is_mariadb => (self.hostname
                != server.hostname)
                .then(|| format!("{}, not {}", self.hostname, server.hostname)),
            (Some(uuid), Some(its)) => {
                (uuid != its).then(|| format!("its uuid is {uuid}, not {its}"))
            }
            _ => ((&self.hostname, self.port) != (&server.hostname, server.port)).then(|| {
                format!(
                    "{}:{}, not {}:{}",
                    self.hostname, self.port, server.hostname, server.port
                )
            }),
        }
    }
}
