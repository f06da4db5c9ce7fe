//! The programs that a node calls when data go from one to the other.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::{Error, Installation, Result, files};

/// Where programs of the host are.
const HOST_DIRS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// What the scripts of a state transfer call. They are those of the server's own release.
const SERVER_PROGRAMS: [&str; 6] = [
    "mariadb",
    "mariadb-backup",
    "mariadb-dump",
    "mariadbd",
    "mbstream",
    "my_print_defaults",
];

/// The scripts of a state transfer.
const SCRIPTS: [&str; 5] = [
    "wsrep_sst_common",
    "wsrep_sst_backup",
    "wsrep_sst_mariabackup",
    "wsrep_sst_mysqldump",
    "wsrep_sst_rsync",
];

/// What those scripts take from the host, whichever server it is.
const HOST_PROGRAMS: [&str; 3] = ["rsync", "socat", "ps"];

/// A program of the host.
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

/// Where a node and all that it starts look for programs.
pub fn search_path(programs: &Path) -> OsString {
    let mut path = programs.as_os_str().to_owned();
    for folder in HOST_DIRS {
        path.push(":");
        path.push(folder);
    }
    path
}

/// The library that replicates.
///
/// # Errors
/// [`Error::NotInstalled`], [`Error::MissingProgram`] when the host lacks what state transfers take.
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

/// What a server of a tree is told to be its base: it puts the `bin` of that before everything else in its search path, and
/// what stands in the `bin` of the tree cannot be run without the tree's loader.
pub fn base(server: &Installation, programs: &Path) -> Option<PathBuf> {
    server.loader()?;
    programs.parent().map(Path::to_path_buf)
}

/// Fills a folder that stands first in a node's search path. Programs of a tree run by the tree's own loader only, so each
/// gets a script that does that; the scripts of the state transfer find one another beside themselves.
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
