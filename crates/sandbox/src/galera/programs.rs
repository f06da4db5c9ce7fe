//! The programs that a node needs for state transfers.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::{Error, Installation, Result, files};

const HOST_DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Programs that the state transfer scripts call, and that must be of the server's own release.
const SERVER_PROGRAMS: [&str; 6] = [
    "mariadb",
    "mariadb-backup",
    "mariadb-dump",
    "mariadbd",
    "mbstream",
    "my_print_defaults",
];

/// The scripts that perform state transfers.
const SCRIPTS: [&str; 5] = [
    "wsrep_sst_common",
    "wsrep_sst_backup",
    "wsrep_sst_mariabackup",
    "wsrep_sst_mysqldump",
    "wsrep_sst_rsync",
];

/// Programs that these scripts take from the host, whichever server runs them.
const HOST_PROGRAMS: [&str; 3] = ["rsync", "socat", "ps"];

/// Finds a program of the host.
///
/// # Errors
/// [`Error::MissingProgram`].
pub fn find_on_host(program: &str) -> Result<PathBuf> {
    HOST_DIRS
        .iter()
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file())
        .ok_or_else(|| Error::MissingProgram {
            program: program.to_owned(),
        })
}

/// The PATH of a node and everything that it starts.
pub fn search_path(programs: &Path) -> OsString {
    let mut path = programs.as_os_str().to_owned();
    for folder in HOST_DIRS {
        path.push(":");
        path.push(folder);
    }
    path
}

/// The wsrep provider library.
///
/// # Errors
/// [`Error::NotInstalled`]; [`Error::MissingProgram`] if the host lacks a program that state
/// transfers need.
pub fn provider(server: &Installation) -> Result<PathBuf> {
    for program in HOST_PROGRAMS {
        find_on_host(program)?;
    }
    let path = server.base().join("lib/galera/libgalera_smm.so");
    if path.is_file() {
        Ok(path)
    } else {
        Err(Error::NotInstalled {
            kind: server.kind(),
            missing: path,
        })
    }
}

/// The base directory to report to a server of a tree. The server puts its `bin` first in the
/// search path, and programs in the tree's own `bin` do not run without the tree's loader.
pub fn base(server: &Installation, programs: &Path) -> Option<PathBuf> {
    server.loader()?;
    programs.parent().map(Path::to_path_buf)
}

/// Fills the directory that comes first in a node's search path. A tree's programs run only with
/// the tree's own loader, so each gets a wrapper script. The state transfer scripts are linked
/// there, because they look for each other in their own directory.
pub fn install(server: &Installation, folder: &Path) -> Result<()> {
    files::make_folder(folder)?;
    let Some(loader) = server.loader() else {
        return Ok(());
    };
    for name in SERVER_PROGRAMS {
        let path = server.program_path(name)?;
        let words = loader
            .iter()
            .map(OsString::as_os_str)
            .chain([path.as_os_str()]);
        let words: Vec<String> = words
            .map(|word| format!("'{}'", word.to_string_lossy().replace('\'', r"'\''")))
            .collect();
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "));
        let target = folder.join(name);
        fs::write(&target, script).map_err(Error::io("write", &target))?;
        fs::set_permissions(&target, Permissions::from_mode(0o755))
            .map_err(Error::io("set the permissions of", &target))?;
    }
    for name in SCRIPTS {
        let target = folder.join(name);
        symlink(server.program_path(name)?, &target).map_err(Error::io("link", &target))?;
    }
    Ok(())
}
