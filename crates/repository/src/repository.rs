//! A repository: its own description and its manifests.

use std::sync::Arc;

use refloat_store::storage::{
    Existing, Storage, StorageErrorKind, check_name, read_whole, write_whole,
};
use serde::{Deserialize, Serialize};

use crate::age::Recipient;
use crate::block::Hash;
use crate::error::RepositoryError;
use crate::keys::{self, Access};
use crate::manifest::Manifest;
use crate::seal::Key;

/// The format that this version writes, and the latest that it reads.
const FORMAT: u32 = 1;
/// Object that describes the repository.
pub(crate) const DESCRIPTION: &str = "repository.json";
/// Folder of the manifests.
pub(crate) const BACKUPS: &str = "backups/";
const DESCRIPTION_MAX: u64 = 1 << 20;
/// Manifests grow with their packs and their list: 3 MB for ten terabytes.
pub(crate) const MANIFEST_MAX: u64 = 256 << 20;
/// Digits and line feeds after the JSON of a manifest.
const SUM: usize = 66;

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    format: u32,
    id: String,
    /// Shows whether a key is the right one. `None`: nothing is encrypted.
    key: Option<String>,
}

/// The part of a description that every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// Labels of backups whose manifest cannot be read, and what is wrong with each.
pub type Damaged = Vec<(String, RepositoryError)>;

/// Backups, dumps and journals that share blocks on one storage.
#[derive(Clone)]
pub struct Repository {
    storage: Arc<dyn Storage>,
    key: Option<Key>,
    id: String,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Repository({})", self.storage.url())
    }
}

impl Repository {
    /// Makes a repository on an empty storage. With a key all blocks are encrypted.
    ///
    /// # Errors
    /// The storage is not empty, or fails.
    pub fn init(storage: Arc<dyn Storage>, key: Option<Key>) -> Result<Self, RepositoryError> {
        Self::init_for(storage, key, &[])
    }

    /// Makes a repository on an empty storage. Its key, if it has one, is wrapped for these
    /// recipients.
    ///
    /// # Errors
    /// The storage is not empty, or fails.
    pub fn init_for(
        storage: Arc<dyn Storage>,
        key: Option<Key>,
        recipients: &[Recipient],
    ) -> Result<Self, RepositoryError> {
        let url = storage.url();
        if let Some(object) = storage.list("")?.first() {
            return Err(RepositoryError::Occupied {
                url: url.to_owned(),
                found: object.name.clone(),
            });
        }
        let description = Description {
            format: FORMAT,
            id: random_id(),
            key: key.as_ref().map(Key::check),
        };
        let text = to_json(&description);
        let id = description.id;
        // The keys come first, so that there is never a repository whose key nobody has.
        if let Some(key) = &key {
            for recipient in recipients {
                // If two begin at the same moment, neither removes the other's key.
                keys::store(&*storage, key, recipient, Existing::Keep)?;
            }
        }
        write_whole(&*storage, DESCRIPTION, &text, Existing::Keep)?;
        Ok(Self { storage, key, id })
    }

    /// Opens the repository of a storage.
    ///
    /// # Errors
    /// There is none, it has a later format, or the key is not its own.
    pub fn open(storage: Arc<dyn Storage>, access: &Access) -> Result<Self, RepositoryError> {
        let url = storage.url().to_owned();
        let Some(text) = described(&storage)? else {
            return Err(RepositoryError::Missing { url });
        };
        let description = parse(&url, &text)?;
        let wrong = |detail: &str| {
            Err(RepositoryError::Key {
                url: url.clone(),
                detail: detail.to_owned(),
            })
        };
        let key = match (&description.key, access) {
            (None, Access::Plain) => None,
            (Some(_), Access::Plain) => return wrong("is encrypted, but no key was given"),
            (None, _) => return wrong("is not encrypted, but a key was given"),
            (Some(check), Access::Key(key)) if *check != key.check() => {
                return wrong("is encrypted with another key than the one given");
            }
            (Some(_), Access::Key(key)) => Some(key.clone()),
            (Some(check), Access::Identities(all)) => Some(keys::open(&storage, all, check)?),
        };
        let id = description.id;
        Ok(Self { storage, key, id })
    }

    /// Identifies the repository, even after it is moved.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The storage that it is on.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The hash by which blocks of these bytes are named here.
    pub fn hash(&self, bytes: &[u8]) -> Hash {
        Hash::of(bytes, self.key.as_ref().map(Key::naming).as_ref())
    }

    /// Its key, if it is encrypted.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// The labels of all backups, sorted.
    ///
    /// # Errors
    /// The storage fails.
    pub fn labels(&self) -> Result<Vec<String>, RepositoryError> {
        let objects = self.storage.list(BACKUPS)?;
        let label = |name: String| {
            let label = name.strip_prefix(BACKUPS)?.strip_suffix(".json")?;
            manifest_name(self.url(), label).ok()?;
            Some(label.to_owned())
        };
        Ok(objects
            .into_iter()
            .filter_map(|object| label(object.name))
            .collect())
    }

    /// All backups, the oldest first.
    ///
    /// # Errors
    /// The storage fails, or a manifest is damaged.
    pub fn backups(&self) -> Result<Vec<Manifest>, RepositoryError> {
        let (all, damaged) = self.backups_and_damaged()?;
        damaged
            .into_iter()
            .next()
            .map_or(Ok(all), |(_, error)| Err(error))
    }

    /// All backups that can be read, the oldest first, and the labels of the others with what is
    /// wrong with each.
    ///
    /// # Errors
    /// The storage fails.
    pub fn backups_and_damaged(&self) -> Result<(Vec<Manifest>, Damaged), RepositoryError> {
        let (mut all, mut damaged) = (Vec::new(), Vec::new());
        for label in self.labels()? {
            match self.backup(&label) {
                Ok(manifest) => all.push(manifest),
                Err(error @ RepositoryError::Damaged { .. }) => damaged.push((label, error)),
                // The backup was removed meanwhile.
                Err(RepositoryError::NoBackup { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_by(|a: &Manifest, b| {
            let key = |one: &Manifest| (one.began, one.began_nanos);
            (key(a), &a.label).cmp(&(key(b), &b.label))
        });
        Ok((all, damaged))
    }

    /// The manifest of one backup.
    ///
    /// # Errors
    /// There is none of that label, or it is damaged.
    pub fn backup(&self, label: &str) -> Result<Manifest, RepositoryError> {
        let name = manifest_name(self.url(), label)?;
        let text = match read_whole(&self.storage, &name, MANIFEST_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == StorageErrorKind::NotFound => {
                return Err(RepositoryError::NoBackup {
                    url: self.url().to_owned(),
                    label: label.to_owned(),
                });
            }
            Err(error) => return Err(error.into()),
        };
        let json = text.len().checked_sub(SUM).map(|at| text.split_at(at));
        if json.is_none_or(|(json, sum)| *sum != *self.sum(json).as_bytes()) {
            let detail = "its checksum differs from the one in it";
            return Err(RepositoryError::damaged(self.url(), &name, detail));
        }
        unproven(self.url(), &name, &text)
    }

    /// Writes the manifest of a backup, which thereby exists.
    pub(crate) fn publish(&self, manifest: &Manifest) -> Result<(), RepositoryError> {
        let name = manifest_name(self.url(), &manifest.label)?;
        let mut text = to_json(manifest);
        let sum = self.sum(&text);
        text.extend_from_slice(sum.as_bytes());
        match write_whole(&*self.storage, &name, &text, Existing::Keep) {
            Err(error) if error.kind() == StorageErrorKind::Exists => {
                Err(RepositoryError::LabelTaken {
                    url: self.url().to_owned(),
                    label: manifest.label.clone(),
                })
            }
            other => Ok(other?),
        }
    }

    /// Deletes the manifest of a backup, which thereby no longer exists. Its blocks are left to
    /// [`sweep`](crate::sweep).
    ///
    /// # Errors
    /// The storage fails.
    pub fn forget(&self, label: &str) -> Result<(), RepositoryError> {
        let name = manifest_name(self.url(), label)?;
        Ok(self.storage.delete(&name)?)
    }

    pub(crate) fn url(&self) -> &str {
        self.storage.url()
    }

    /// The bytes that follow the JSON of a manifest.
    fn sum(&self, json: &[u8]) -> String {
        let naming = self.key.as_ref().map(Key::naming);
        format!("\n{}\n", Hash::of(json, naming.as_ref()).to_hex())
    }
}

/// The manifest in this object. Its checksum is not checked, because that needs the key.
pub(crate) fn unproven(url: &str, name: &str, text: &[u8]) -> Result<Manifest, RepositoryError> {
    let damaged = |detail: &str| RepositoryError::damaged(url, name, detail);
    let json = text.get(..text.len().saturating_sub(SUM));
    let manifest: Manifest = serde_json::from_slice(json.unwrap_or_default())
        .map_err(|error| damaged(&error.to_string()))?;
    if manifest_name(url, &manifest.label)? != name {
        return Err(damaged("it is that of another backup"));
    }
    manifest.check().map_err(|detail| damaged(&detail))?;
    Ok(manifest)
}

/// The description of a repository. `None`: there is none.
pub(crate) fn described(storage: &Arc<dyn Storage>) -> Result<Option<Vec<u8>>, RepositoryError> {
    match read_whole(storage, DESCRIPTION, DESCRIPTION_MAX) {
        Err(error) if error.kind() == StorageErrorKind::NotFound => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// The value that shows whether a key belongs to the repository with this description. `None`: it
/// is not encrypted.
pub(crate) fn key_check(url: &str, text: &[u8]) -> Result<Option<String>, RepositoryError> {
    Ok(parse(url, text)?.key)
}

fn parse(url: &str, text: &[u8]) -> Result<Description, RepositoryError> {
    let damaged =
        |error: serde_json::Error| RepositoryError::damaged(url, DESCRIPTION, error.to_string());
    let Format { format } = serde_json::from_slice(text).map_err(damaged)?;
    if format > FORMAT {
        return Err(RepositoryError::Format {
            url: url.to_owned(),
            found: format,
            known: FORMAT,
        });
    }
    serde_json::from_slice(text).map_err(damaged)
}

/// Checks whether there is a repository, without a key.
pub(crate) fn look(storage: &dyn Storage) -> Result<(), RepositoryError> {
    match storage.stamp(DESCRIPTION) {
        Err(error) if error.kind() == StorageErrorKind::NotFound => Err(RepositoryError::Missing {
            url: storage.url().to_owned(),
        }),
        other => Ok(other.map(drop)?),
    }
}

fn manifest_name(url: &str, label: &str) -> Result<String, RepositoryError> {
    let name = format!("{BACKUPS}{label}.json");
    if label.contains('/') || label.is_empty() || check_name(url, &name).is_err() {
        return Err(RepositoryError::Label {
            label: label.to_owned(),
        });
    }
    Ok(name)
}

#[expect(
    clippy::expect_used,
    reason = "maps with text keys, numbers and texts are JSON"
)]
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it is JSON")
}

/// 32 random hexadecimal digits.
pub(crate) fn random_id() -> String {
    let mut bytes = [0; 32];
    #[expect(
        clippy::expect_used,
        reason = "a system without randomness runs nothing else either"
    )]
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    blake3::Hash::from_bytes(bytes).to_hex()[..32].to_owned()
}
