//! Adds and removes recipients of an encrypted repository.

use std::sync::Arc;

use refloat_store::storage::{Existing, Storage, StorageErrorKind, read_whole, write_whole};

use crate::age::Recipient;
use crate::error::RepositoryError;
use crate::keys::{self, Access};
use crate::repository::{Repository, look};

/// The recipients for whom the key of a repository is wrapped, sorted. This needs no key.
///
/// # Errors
/// There is no repository, or the storage fails.
pub fn recipients(storage: &dyn Storage) -> Result<Vec<String>, RepositoryError> {
    look(storage)?;
    keys::all(storage)
}

impl Repository {
    /// Wraps the key of the repository for a recipient as well. An existing wrapped key for the
    /// same recipient is replaced.
    ///
    /// # Errors
    /// The repository is not encrypted, or the storage fails.
    pub fn add_recipient(&self, recipient: &Recipient) -> Result<(), RepositoryError> {
        let Some(key) = self.key() else {
            return Err(RepositoryError::Key {
                url: self.url().to_owned(),
                detail: "is not encrypted".to_owned(),
            });
        };
        keys::store(&**self.storage(), key, recipient, Existing::Replace)
    }

    /// Deletes the key that is wrapped for a recipient. A recipient that has already read the key
    /// still knows it.
    ///
    /// `access` must be able to open the repository without that recipient, so that nobody locks
    /// everyone out.
    ///
    /// # Errors
    /// There is no such recipient, `access` opens nothing without it, or the storage fails. Then
    /// the wrapped key stays.
    pub fn remove_recipient(
        storage: &Arc<dyn Storage>,
        access: Access,
        recipient: &Recipient,
    ) -> Result<(), RepositoryError> {
        let name = keys::name_of(&recipient.to_string());
        let error = |detail: String| RepositoryError::Key {
            url: storage.url().to_owned(),
            detail,
        };
        let wrapped = match read_whole(storage, &name, keys::WRAPPED_MAX) {
            Ok(wrapped) => wrapped,
            Err(found) if found.kind() == StorageErrorKind::NotFound => {
                let detail = format!("its key is not wrapped for {recipient}");
                return Err(error(detail));
            }
            Err(error) => return Err(error.into()),
        };
        let access = match access {
            Access::Identities(mut identities) => {
                identities.retain(|identity| identity.recipient() != recipient);
                if identities.is_empty() {
                    let detail = format!(
                        "{recipient} is not removed: nothing was given that opens the repository without it"
                    );
                    return Err(error(detail));
                }
                Access::Identities(identities)
            }
            other => other,
        };
        Self::open(Arc::clone(storage), &access)?;
        storage.delete(&name)?;
        // Somebody else may have removed the other one meanwhile.
        if let Err(lost) = Self::open(Arc::clone(storage), &access) {
            write_whole(&**storage, &name, &wrapped, Existing::Replace)?;
            return Err(lost);
        }
        Ok(())
    }
}
