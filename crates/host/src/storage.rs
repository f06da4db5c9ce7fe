//! Storages by their addresses, and the storage in a folder of a machine that `ssh` reaches.
//!
//! The other machine needs nothing but an account with SFTP, as OpenSSH has it.

mod folder;
pub(crate) mod fuzzing;
mod packet;
mod pool;
mod process;
mod publish;
mod session;
mod transfer;
mod url;
mod walk;

use std::path::Path;
use std::sync::Arc;

use refloat_store::storage::{LocalFolder, Storage, StorageError};

pub use folder::SshFolder;
pub use url::SshUrl;

/// Opens the storage with this address: a path or `file:///FOLDER` for a folder of this machine,
/// `ssh://HOST/FOLDER` or `sftp://HOST/FOLDER` for one of another ([`SshUrl`]).
///
/// # Errors
/// It is no address. Nothing is connected yet.
pub fn open(address: &str) -> Result<Arc<dyn Storage>, StorageError> {
    let (scheme, rest) = match address.split_once(':') {
        Some((scheme, rest)) if !scheme.contains('/') => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), address),
    };
    match scheme.as_str() {
        "ssh" | "sftp" => Ok(Arc::new(SshFolder::new(&address.parse()?))),
        "" => Ok(Arc::new(LocalFolder::new(Path::new(address)))),
        "file" => {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            let path = url::decoded(path).filter(|path| path.starts_with('/'));
            let path = path.ok_or_else(|| {
                url::refused(address, "no file:///FOLDER with the whole path of a folder")
            })?;
            Ok(Arc::new(LocalFolder::new(Path::new(&path))))
        }
        _ if rest.starts_with("//") => Err(url::refused(
            address,
            "storages are paths, file://, ssh:// and sftp://",
        )),
        _ => Err(url::refused(
            address,
            "a folder of another machine is ssh://HOST/FOLDER, and ./NAME one with such a name",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn addresses_open_what_they_name() {
        let url = |address| open(address).map(|storage| storage.url().to_owned());
        for (address, expected) in [
            ("/srv/a", "/srv/a"),
            ("backups", "backups"),
            ("./h:x", "./h:x"),
            ("file:///srv/a%20b", "/srv/a b"),
            ("file:/srv", "/srv"),
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
            "ftp://h/a",
            "ssh://h",
        ] {
            let error = url(address).unwrap_err().to_string();
            assert!(error.contains("reading this address: "), "{error}");
        }
    }
}
