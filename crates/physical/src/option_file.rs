//! The option file that a backup carries for its own preparation, `backup-my.cnf`.
//!
//! The tool that prepares the files, often as root, does what the file says: it could load any
//! library, or take any file of the machine for the system tablespace. Whoever can write to an
//! unencrypted repository can change it. So only options that the tools write are accepted. Source:
//! `backup_mysql.cc` (`write_backup_config_file`) of mariadb-backup and XtraBackup.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use refloat_repository::{FileEntry, Manifest, Repository, Sink, fetch};
use refloat_run::{Cancel, Refusal};

use crate::error::PhysicalError;
use crate::server::Server;

/// Its path in a backup.
pub const NAME: &str = "backup-my.cnf";
/// Tools write a kilobyte or two.
const SIZE_MAX: u64 = 64 << 10;

/// Options besides those of InnoDB.
const PLAIN: [&str; 4] = [
    "server_id",
    "server_uuid",
    "redo_log_version",
    "master_key_id",
];
/// Options that load a library, for encrypted tablespaces.
const LOADS: [&str; 2] = ["plugin_load", "early_plugin_load"];
/// The libraries that servers come with for encrypted and compressed tablespaces.
const LIBRARIES: [&str; 10] = [
    "file_key_management",
    "aws_key_management",
    "hashicorp_key_management",
    "keyring_file",
    "keyring_vault",
    "provider_bzip2",
    "provider_lz4",
    "provider_lzma",
    "provider_lzo",
    "provider_snappy",
];
/// The tools read lines into a buffer: what is longer could begin another line for them.
const LINE_MAX: usize = 1000;
/// Options that name files of the backup.
const PLACES: [&str; 3] = [
    "innodb_data_file_path",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
];

/// Names the folder from which libraries are loaded: that of the server, when it was copied.
const LIBRARIES_LIE: &str = "plugin_dir";
/// Names the file with the keys of encrypted tablespaces.
const KEYS: &str = "file_key_management_filename";
/// Names the file with the password of that file, behind a prefix, or is that password.
const PASSWORD: &str = "file_key_management_filekey";
const IN_FILE: &str = "FILE:";

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    value.trim().trim_matches('"')
}

/// Whether libraries may be loaded from a folder: it exists, and nobody but root and this account
/// can put a library into it or replace the folder.
fn is_safe(value: &str) -> bool {
    let folder = Path::new(value);
    let account = rustix::process::geteuid().as_raw();
    // Taken literally: the tool may resolve links and `..` differently.
    folder.canonicalize().is_ok_and(|real| {
        real == folder.components().as_path()
            && folder.is_absolute()
            && real.ancestors().all(|path| {
                fs::metadata(path).is_ok_and(|found| {
                    let (uid, mode) = (found.uid(), found.mode());
                    (uid == 0 || uid == account) && mode & 0o022 == 0
                })
            })
    })
}

/// Reads the file of a backup, if it has one that a tool may have written.
///
/// # Errors
/// It cannot be fetched.
pub fn read(
    repository: &Repository,
    manifest: &Manifest,
    files: &[FileEntry],
    cancel: &Cancel,
) -> Result<Option<String>, PhysicalError> {
    let entry = files.iter().find(|file| file.path == NAME);
    let Some(entry) = entry.filter(|entry| entry.size <= SIZE_MAX) else {
        return Ok(None);
    };
    let bytes = Bytes(Mutex::new(vec![0; entry.size as usize]));
    fetch(repository, manifest, &[entry], 1, &bytes, cancel)?;
    let bytes = bytes.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The bytes of a file.
struct Bytes(Mutex<Vec<u8>>);

impl Sink for Bytes {
    fn write(&self, _: usize, begins: u64, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = begins as usize;
        let place = all.get_mut(begins..begins.saturating_add(bytes.len()));
        let place = place.ok_or(io::ErrorKind::InvalidData)?;
        place.copy_from_slice(bytes);
        Ok(())
    }
}

/// The value of an option, as the tools write it.
fn value<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().rev().find_map(|line| {
        let (found, value) = line.split_once('=')?;
        (found.trim() == name).then(|| unquoted(value))
    })
}

/// The file with the keys of encrypted tablespaces, on the machine of the server and on this one.
pub fn keys(text: &str) -> Option<&str> {
    value(text, KEYS)
}

/// Why a tool must not be run with this file, or could not load what it names.
pub fn objections(text: &str) -> Vec<Refusal> {
    if let Some(line) = objection(text) {
        return vec![if line.starts_with(LIBRARIES_LIE) {
            Refusal::new(format!(
                "the backup's {line} names a folder that is not here, or that others can write to, and libraries would be loaded from it"
            ))
            .hint("Its server had tablespaces that a plugin encrypts or compresses: install the plugins of the same server there, owned by root.")
        } else {
            Refusal::new(format!("the backup's {NAME} says {line:?}, which no tool writes"))
                .hint("Somebody has changed the backup: check who can write to the repository, and restore another one.")
        }];
    }
    let missing = missing_libraries(text).into_iter().map(|(plugin, path)| {
        Refusal::new(format!(
            "the server that was backed up had the plugin {plugin}, and {} is not here: without it, some of its pages cannot be read",
            path.display()
        ))
        .hint("Install the plugins of that server here, in the same folder. Each of MariaDB's compression libraries is a package of its own, such as mariadb-plugin-provider-lz4.")
    });
    missing.chain(missing_keys(text)).collect()
}

/// The plugins whose libraries are not in the folder from which they would be loaded.
fn missing_libraries(text: &str) -> Vec<(&str, PathBuf)> {
    let Some(folder) = value(text, LIBRARIES_LIE).map(Path::new) else {
        return Vec::new();
    };
    let all = LOADS.iter().filter_map(|name| value(text, name));
    let all = all.flat_map(|value| value.split(';')).filter_map(|one| {
        let (plugin, library) = one.split_once('=').unwrap_or((one, one));
        let (plugin, library) = (unquoted(plugin), unquoted(library));
        let path = folder.join(format!("{}.so", library.trim_end_matches(".so")));
        (!plugin.is_empty() && !path.exists()).then_some((plugin, path))
    });
    all.collect()
}

/// The files with keys that are named and cannot be read.
fn missing_keys(text: &str) -> impl Iterator<Item = Refusal> {
    let password = value(text, PASSWORD).and_then(|value| value.strip_prefix(IN_FILE));
    let named = [(KEYS, keys(text)), (PASSWORD, password)];
    named
        .into_iter()
        .filter_map(|(option, path)| missing_key(option, path))
}

/// The same for the files of a running server.
pub fn missing_keys_of(server: &Server) -> Option<Refusal> {
    missing_key(KEYS, server.variable(KEYS))
}

fn missing_key(option: &str, path: Option<&str>) -> Option<Refusal> {
    let path = path.filter(|path| !path.is_empty())?;
    let why = unreadable(Path::new(path))?;
    Some(
        Refusal::new(format!(
            "the files are encrypted: {path} here must hold the keys of the server that they are from ({option}), and cannot be read: {why}"
        ))
        .hint("Copy the file from there: the keys do not come with the files."),
    )
}

/// Why a file cannot be read. `None`: it can.
fn unreadable(path: &Path) -> Option<String> {
    // Opening a pipe would wait for its other end.
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Some("it is not a file".to_owned()),
        Ok(_) => File::open(path).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// The first line of the file that no tool writes. `None`: there is none.
fn objection(text: &str) -> Option<&str> {
    let mut plugins = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.len() > LINE_MAX {
            return Some(line);
        }
        let Some((name, value)) = line.split_once('=') else {
            if line.is_empty() || line.starts_with('#') || line == "[mysqld]" {
                continue;
            }
            return Some(line);
        };
        let name = name.trim().to_ascii_lowercase().replace('-', "_");
        let name = name.strip_prefix("loose_").unwrap_or(&name);
        // The tools cut a value at some of these characters, and interpret the others.
        let is_plain = || !unquoted(value).contains(['#', '\\', '"', '\'']);
        let good = if !is_plain() && (LOADS.contains(&name) || name == LIBRARIES_LIE) {
            false
        } else if LOADS.contains(&name) {
            // `name=library;…`, found in the tool's own directory of plugins.
            let last = |one: &str| one.rsplit('=').next().unwrap_or_default().to_owned();
            let mut libraries = value.split(';').map(last);
            libraries.all(|library| {
                let name = library.trim().trim_matches('"').trim_end_matches(".so");
                plugins.push(format!("{name}_"));
                LIBRARIES.contains(&name)
            })
        } else if name == LIBRARIES_LIE {
            is_safe(unquoted(value))
        } else if PLACES.contains(&name) {
            !value.trim().trim_start_matches("./").contains('/')
        } else {
            name.starts_with("innodb_")
                || PLAIN.contains(&name)
                || plugins
                    .iter()
                    .any(|plugin| name.starts_with(plugin.as_str()))
        };
        if !good {
            return Some(line);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_what_the_tools_write_is_let_through() {
        let usual = "# This options file was generated by innobackupex.\n\n# The server\n[mysqld]\n\
            innodb_checksum_algorithm=crc32\ninnodb_data_file_path=ibdata1:12M:autoextend\n\
            innodb_undo_directory=./\nserver_id=7\n\
            plugin_load=file_key_management=file_key_management.so\n\
            file_key_management_filename=/etc/mysql/keys\n\
            plugin_dir=\"/usr/lib/\"\n";
        assert_eq!(objection(usual), None);
        let long = format!("# {}", "x".repeat(LINE_MAX));
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o777)).unwrap();
        let below = format!("plugin_dir={}/below", theirs.display());
        let cut = format!("plugin_dir=/usr/lib#{}", theirs.display());
        let theirs = format!("plugin_dir={}", theirs.display());
        for line in [
            long.as_str(),
            theirs.as_str(),
            below.as_str(),
            cut.as_str(),
            "plugin_dir=/usr/lib/../lib",
            "plugin_dir=/no/such",
            "plugin_load=evil.so#=file_key_management.so",
            "plugin_dir=lib",
            "plugin_load=plugin=evil.so",
            "plugin_load=file_key_management=evil.so",
            "plugin_dir=/tmp",
            "plugin-dir = /tmp",
            "plugin_load=x=/tmp/x.so",
            "innodb_data_file_path=/etc/shadow:12M",
            "innodb_data_home_dir=/etc",
            "innodb_log_group_home_dir=../../etc",
            "basedir=/tmp",
            "tmpdir=/etc",
            "!include /etc/my.cnf",
            "[mariadb-backup]",
            "_keys=1",
        ] {
            assert_eq!(objection(&format!("{usual}{line}\n")), Some(line));
        }
    }

    fn reasons(text: &str) -> Vec<String> {
        let all = objections(text).into_iter();
        all.map(|one| one.reason).collect()
    }

    // Hazard of files: P-20 keys that are missing here are named before anything is fetched
    //   (MariaDB)
    #[test]
    fn keys_that_are_not_here_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        let named = keys.display();
        let text = format!(
            "[mysqld]\nplugin_load=file_key_management=file_key_management\nfile_key_management_filename={named}\n"
        );
        let expected = format!(
            "{named} here must hold the keys of the server that they are from (file_key_management_filename), and cannot be read: No such file"
        );
        let found = reasons(&text);
        assert!(
            found[0].contains(&expected) && found.len() == 1,
            "{found:?}"
        );
        fs::create_dir(&keys).unwrap();
        assert!(reasons(&text)[0].ends_with("it is not a file"));
        fs::remove_dir(&keys).unwrap();
        fs::write(&keys, "1;").unwrap();
        assert_eq!(reasons(&text), Vec::<String>::new());
        // A password may be in a file of its own.
        let plain = format!("{text}file_key_management_filekey=secret\n");
        assert_eq!(reasons(&plain), Vec::<String>::new());
        let in_file = format!("{text}file_key_management_filekey=FILE:{named}.password\n");
        let found = reasons(&in_file);
        let expected = format!("{named}.password here must hold");
        assert!(
            found[0].contains(&expected) && found.len() == 1,
            "{found:?}"
        );
    }

    // Hazard of files: P-21 a compression library that is missing here is named before anything is
    //   fetched (MariaDB)
    #[test]
    fn libraries_that_are_not_here_are_named() {
        // As mariadb-backup writes it, in a folder that only root can write to.
        let text = "[mysqld]\nplugin_dir=\"/usr/lib/\"\nplugin_load=provider_lz4=provider_lz4;file_key_management=file_key_management.so\n";
        assert_eq!(
            reasons(text),
            [("provider_lz4", "provider_lz4"), ("file_key_management", "file_key_management")].map(
                |(plugin, library)| format!(
                    "the server that was backed up had the plugin {plugin}, and /usr/lib/{library}.so is not here: without it, some of its pages cannot be read"
                )
            )
        );
        let folder = tempfile::tempdir().unwrap();
        let value = folder.path().display();
        let there = format!("plugin_dir=\"{value}\"\nplugin_load=provider_lz4=provider_lz4\n");
        assert_eq!(missing_libraries(&there).len(), 1);
        fs::write(folder.path().join("provider_lz4.so"), "").unwrap();
        assert_eq!(missing_libraries(&there), []);
        // The tool's own folder is not known.
        assert_eq!(
            missing_libraries("plugin_load=provider_lz4=provider_lz4\n"),
            []
        );
        // Nothing is asked of a file that somebody has changed.
        let changed = format!("{text}plugin_load=evil=evil\n");
        let found = reasons(&changed);
        assert!(
            found[0].contains("which no tool writes") && found.len() == 1,
            "{found:?}"
        );
    }
}
