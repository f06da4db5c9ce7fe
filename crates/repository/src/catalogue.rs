//! What distinguishes backups: their kind, their server, and the labels by which people name them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::error::RepositoryError;
use crate::manifest::Manifest;
use crate::repository::Repository;

/// Names the newest backup wherever a label is asked for, if all are of one server.
pub const LATEST: &str = "latest";

impl Manifest {
    /// The kind of backup, as recorded by its maker, such as `physical` or `logical`.
    pub fn kind(&self) -> &str {
        let kind = self.about.get("kind");
        kind.and_then(|kind| kind.as_str()).unwrap_or_default()
    }

    /// What distinguishes servers: host, port and data directory, as far as the maker of the backup
    /// recorded them.
    pub fn server(&self) -> String {
        let server = self.about.get("server");
        let words = ["hostname", "port", "datadir"].map(|key| {
            let value = server.and_then(|server| server.get(key));
            value.map_or_else(String::new, |value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            })
        });
        words.join(":")
    }
}

impl Repository {
    /// The backup of this label, or the newest one, of this kind. `None`: of any kind.
    ///
    /// # Errors
    /// There is none, it is of another kind, or the newest of several servers was asked for.
    pub fn find(&self, label: &str, kind: Option<&str>) -> Result<Manifest, RepositoryError> {
        let url = self.url().to_owned();
        if label != LATEST {
            let found = self.backup(label)?;
            return match kind {
                Some(wanted) if found.kind() != wanted => Err(RepositoryError::AnotherKind {
                    url,
                    label: label.to_owned(),
                    found: found.kind().to_owned(),
                    wanted: wanted.to_owned(),
                }),
                _ => Ok(found),
            };
        }
        let mut newest = BTreeMap::new();
        let mut last = None;
        for one in self.backups()? {
            if kind.is_none_or(|kind| one.kind() == kind) {
                newest.insert(one.server(), one.label.clone());
                last = Some(one);
            }
        }
        if newest.len() > 1 {
            let labels = newest.into_values().collect();
            return Err(RepositoryError::SeveralServers { url, labels });
        }
        let label = kind.map_or_else(|| label.to_owned(), |kind| format!("{label} ({kind})"));
        last.ok_or(RepositoryError::NoBackup { url, label })
    }
}

/// The port of servers that are the only ones on their machine.
const PORT: u16 = 3306;

/// The default label of a backup that begins now: `db1-20261128T073000Z`, or
/// `db1-3307-20261128T073000Z` for a server at another port than the usual one.
pub fn usual_label(hostname: &str, port: u16) -> String {
    let seconds = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let moment = i64::try_from(seconds).ok().and_then(refloat_run::moment);
    let time: String = moment
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    format!("{}-{time}", server_label(hostname, port))
}

/// The name of a server in a repository: `db1`, or `db1-3307` at another port than the usual one.
pub fn server_label(hostname: &str, port: u16) -> String {
    let host: String = hostname
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let host = if host.is_empty() { "server" } else { &host };
    if port == PORT {
        host.to_owned()
    } else {
        format!("{host}-{port}")
    }
}
