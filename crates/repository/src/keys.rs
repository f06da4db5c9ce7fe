//! How an encrypted repository is opened: with its key, or with the identity of somebody for whom
//! the key is wrapped.
//!
//! Each wrapped key is an object of its own, named by its recipient. So recipients are added and
//! removed by writing and deleting objects, which every storage does whole or not at all, and the
//! description of the repository is never changed.

use std::sync::Arc;

use refloat_store::storage::{Existing, Storage, StorageErrorKind, read_whole, write_whole};

use crate::age::{Identity, Recipient, unwrap, wrap};
use crate::error::RepositoryError;
use crate::seal::Key;

/// Folder of the wrapped keys.
pub const PREFIX: &str = "keys/";
const SUFFIX: &str = ".age";
/// Upper limit for a wrapped key, which has about half a kilobyte.
pub const WRAPPED_MAX: u64 = 64 << 10;

/// How a repository is opened.
#[derive(Debug, Clone, Default)]
pub enum Access {
    /// Without a key: it is not encrypted.
    #[default]
    Plain,
    /// The key of an encrypted repository.
    Key(Key),
    /// Identities, one of which opens a wrapped key.
    Identities(Vec<Identity>),
}

impl From<Option<Key>> for Access {
    fn from(key: Option<Key>) -> Self {
        key.map_or(Self::Plain, Self::Key)
    }
}

/// Name of the object that holds the key for this recipient.
pub fn name_of(recipient: &str) -> String {
    format!("{PREFIX}{recipient}{SUFFIX}")
}

/// The recipients for whom the key is wrapped, sorted.
pub fn all(storage: &dyn Storage) -> Result<Vec<String>, RepositoryError> {
    let objects = storage.list(PREFIX)?;
    let found = objects
        .iter()
        .filter_map(|object| recipient_of(&object.name));
    Ok(found.collect())
}

/// The recipient of the wrapped key in an object of this name. `None`: the object is not a wrapped
/// key.
pub fn recipient_of(name: &str) -> Option<String> {
    let name = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    name.parse().ok().map(|known: Recipient| known.to_string())
}

/// The key that one of the identities opens and that passes this check.
pub fn open(
    storage: &Arc<dyn Storage>,
    identities: &[Identity],
    check: &str,
) -> Result<Key, RepositoryError> {
    let error = |detail| RepositoryError::Key {
        url: storage.url().to_owned(),
        detail,
    };
    let mut damaged = None;
    for identity in identities {
        let name = name_of(&identity.recipient().to_string());
        let text = match read_whole(storage, &name, WRAPPED_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == StorageErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let key = unwrap(identity, &String::from_utf8_lossy(&text))
            .and_then(|text| Key::from_hex(&String::from_utf8_lossy(&text)));
        match key {
            Some(key) if key.check() == check => return Ok(key),
            _ => damaged = Some(name),
        }
    }
    if let Some(name) = damaged {
        let detail = "it does not hold the key of the repository";
        return Err(RepositoryError::damaged(storage.url(), name, detail));
    }
    let there = all(&**storage)?;
    Err(error(if there.is_empty() {
        "its key is wrapped for no recipient: the key file opens it".to_owned()
    } else {
        let there = there.join(", ");
        format!("no identity that was given opens its key, which is wrapped for {there}")
    }))
}

/// Wraps the key for a recipient. `existing` says what happens to a key that is already wrapped for
/// the same recipient.
pub fn store(
    storage: &dyn Storage,
    key: &Key,
    recipient: &Recipient,
    existing: Existing,
) -> Result<(), RepositoryError> {
    let text = wrap(recipient, format!("{}\n", key.to_hex()).as_bytes()).map_err(|_| {
        RepositoryError::Key {
            url: storage.url().to_owned(),
            detail: format!("its key cannot be wrapped for {recipient}"),
        }
    })?;
    let name = name_of(&recipient.to_string());
    Ok(write_whole(storage, &name, text.as_bytes(), existing)?)
}
