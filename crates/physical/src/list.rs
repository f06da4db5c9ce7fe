//! The backups of a repository, and the labels by which people name them.

use std::collections::BTreeMap;

use refloat_repository::{Manifest, Repository, RepositoryError};
use refloat_run::Refusal;

use crate::about::About;
use crate::error::PhysicalError;

/// Names the newest backup wherever a label is asked for, if all are of one server.
pub const LATEST: &str = "latest";

/// A backup of a list.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its manifest.
    pub manifest: Manifest,
    /// What it says of its server; `None`: it is no physical backup, or of a later version.
    pub about: Option<About>,
}

impl Listed {
    /// What tells the servers of a repository apart.
    pub fn server(&self) -> String {
        self.about.as_ref().map_or_else(String::new, |about| {
            let server = &about.server;
            format!("{}:{}{}", server.hostname, server.port, server.datadir)
        })
    }

    /// The backup of this manifest.
    pub fn of(manifest: Manifest) -> Self {
        Self {
            about: About::read(&manifest).ok(),
            manifest,
        }
    }
}

/// All backups of a repository, the oldest first.
///
/// # Errors
/// The storage fails, or a manifest is damaged.
pub fn listed(repository: &Repository) -> Result<Vec<Listed>, PhysicalError> {
    let backups = repository.backups()?;
    Ok(backups.into_iter().map(Listed::of).collect())
}

/// The backup of this label, or the newest one.
///
/// # Errors
/// There is none, or the storage fails.
pub fn label_of(repository: &Repository, label: &str) -> Result<Manifest, PhysicalError> {
    if label != LATEST {
        return Ok(repository.backup(label)?);
    }
    let all = listed(repository)?;
    let mut newest: BTreeMap<String, &Listed> = BTreeMap::new();
    for one in &all {
        newest.insert(one.server(), one);
    }
    if newest.len() > 1 {
        let labels: Vec<&str> = newest
            .values()
            .map(|one| one.manifest.label.as_str())
            .collect();
        return Err(PhysicalError::refused(
            Refusal::new(format!(
                "{} has backups of {} servers",
                repository.storage().url(),
                newest.len()
            ))
            .hint(format!(
                "Give the label: the newest ones are {}.",
                labels.join(", ")
            )),
        ));
    }
    let newest = all.into_iter().next_back().map(|one| one.manifest);
    newest.ok_or_else(|| {
        RepositoryError::NoBackup {
            url: repository.storage().url().to_owned(),
            label: label.to_owned(),
        }
        .into()
    })
}
