//! Opens storages by their addresses, and implements the storage in a folder of a machine that
//! `ssh` reaches.
//!
//! The other machine needs nothing but an account with SFTP, as in OpenSSH.

mod folder;
pub(crate) mod fuzzing;
mod lent;
mod packet;
mod pool;
mod process;
mod publish;
mod session;
mod transfer;
mod url;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;

use refloat_store::storage::{BucketOptions, Storage, StorageError, mount_all, mount_one};

pub use folder::SshFolder;
pub use lent::{Borrowed, LENDER_GONE, lend};
pub use url::SshUrl;

/// Opens the storage with this address: `ssh://HOST/FOLDER` or `sftp://HOST/FOLDER` for a folder on
/// another machine ([`SshUrl`]), or any address that [`refloat_store::storage::open`] accepts: a
/// path, `file:///FOLDER`, or the URL of a bucket.
///
/// # Errors
/// The address is invalid, or an option of a bucket is missing or wrong. Nothing is connected yet.
pub fn open(address: &str, buckets: &BucketOptions) -> Result<Arc<dyn Storage>, StorageError> {
    let scheme = address
        .split_once(':')
        .map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
    match scheme {
        Some((scheme, _)) if scheme == "ssh" || scheme == "sftp" => {
            Ok(Arc::new(SshFolder::new(&address.parse()?)))
        }
        // `scp` accepts this form, and it is hardly the name of a folder.
        Some((host, rest)) if !host.contains('/') && !rest.starts_with('/') => Err(url::refused(
            address,
            "a folder of another machine is ssh://HOST/FOLDER, and ./NAME one with such a name",
        )),
        Some((host, rest)) if !host.contains('/') && !rest.starts_with("//") => Err(url::refused(
            address,
            "a folder of another machine is ssh://HOST/FOLDER, and a bucket s3://BUCKET/PREFIX",
        )),
        _ => refloat_store::storage::open(address, buckets),
    }
}

/// Whether an address refers to anything but a folder of this machine.
pub fn is_elsewhere(address: &str) -> bool {
    let scheme = address.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        let schemes = ["ssh", "sftp", "s3", "azure", "az", "gs"];
        schemes.contains(&scheme.to_ascii_lowercase().as_str())
    })
}

/// Mounts a file or a folder of files at an address that [is elsewhere](is_elsewhere). Returns the
/// path of the mount.
///
/// # Errors
/// Those of [`open`]; nothing exists at the address, or it cannot be examined.
pub fn mount(address: &str, buckets: &BucketOptions) -> Result<PathBuf, StorageError> {
    let path = PathBuf::from(address.trim_end_matches('/'));
    if let Some((folder, name)) = parts(address) {
        // Names in a bucket are not encoded.
        let name = match folder.to_ascii_lowercase() {
            folder if folder.starts_with("ssh:") || folder.starts_with("sftp:") => {
                url::decoded(name).unwrap_or_default()
            }
            _ => name.to_owned(),
        };
        if mount_one(&open(folder, buckets)?, &name, &path)? {
            return Ok(path);
        }
    }
    mount_all(&open(address, buckets)?, &path)?;
    Ok(path)
}

/// Splits an address into a folder and the name in it. `None` if the address can only be that of a
/// folder.
fn parts(address: &str) -> Option<(&str, &str)> {
    let path = address.find("://")? + "://".len();
    let slash = path + address[path..].rfind('/')?;
    let (folder, name) = address.split_at(slash + 1);
    (!name.is_empty() && name != "~").then_some((folder, name))
}

#[cfg(test)]
mod tests {
    use super::{BucketOptions, open, parts};

    #[test]
    fn the_last_part_of_an_address_may_be_a_file() {
        for (address, expected) in [
            ("s3://b/a/x.sql", Some(("s3://b/a/", "x.sql"))),
            ("s3://b/x.sql", Some(("s3://b/", "x.sql"))),
            ("s3://b/a/", None),
            ("s3://b", None),
            ("ssh://u@h/~/x", Some(("ssh://u@h/~/", "x"))),
            ("ssh://h/x", Some(("ssh://h/", "x"))),
        ] {
            assert_eq!(parts(address), expected, "{address}");
        }
    }

    #[test]
    fn addresses_open_what_they_name() {
        let none = BucketOptions::default();
        let url = |address| open(address, &none).map(|storage| storage.url().to_owned());
        for (address, expected) in [
            ("/srv/a", "/srv/a"),
            ("backups", "backups"),
            ("./h:x", "./h:x"),
            ("file:///srv/a%20b", "/srv/a b"),
            ("ssh://h/a", "ssh://h/a"),
            ("sftp://u@h:2/a", "sftp://u@h:2/a"),
        ] {
            assert_eq!(url(address).unwrap(), expected);
        }
        for address in [
            "h:/srv",
            "u@h:srv",
            "file://h/srv",
            "file:srv",
            "file:/srv",
            "ftp://h/a",
            "ssh://h",
        ] {
            url(address).unwrap_err();
        }
    }
}
