//! Files that a server keeps outside its data directory: redo and undo logs, the system tablespace,
//! the Aria log, tables with DATA DIRECTORY.
//!
//! A backup holds them all side by side. A server whose option file still names the other
//! directories finds old files there, and either does not start or mixes two histories. A table
//! with DATA DIRECTORY has a file (`.isl`) that points to where it was, where another server may be
//! using it. So nothing is put into a data directory before the user has said that these files go
//! into it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use refloat_run::Refusal;

use crate::error::PhysicalError;
use crate::server_options::ServerOptions;

/// Variables that name a directory, relative to the data directory.
const DIRECTORIES: [&str; 4] = [
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "aria_log_dir_path",
];
/// Names the files of the system tablespace, each with its size.
const DATA_FILES: &str = "innodb_data_file_path";
/// What a data directory with a system tablespace holds unless its redo log lies elsewhere:
/// `MariaDB`'s file, and `MySQL`'s folder from 8.0.30 on.
const REDO: [&str; 2] = ["ib_logfile0", "#innodb_redo"];
const HINT: &str = "Remove these settings from the server's option file and give --all-in-datadir: then all its files go into the data directory.";

/// Suffix of a file that points to a table elsewhere.
const LINK: &str = ".isl";

/// Whether this file of a backup points to a table elsewhere.
pub fn is_link(path: &str) -> bool {
    path.ends_with(LINK)
}

/// The objection to moving these tables into a data directory: `count` of them, of which `one` is
/// the first.
pub fn tables(count: usize, one: &str) -> Refusal {
    let counted = match count {
        1 => "1 table lies".to_owned(),
        count => format!("{count} tables lie"),
    };
    Refusal::new(format!(
        "{counted} outside of the data directory, by DATA DIRECTORY: {one}"
    ))
    .hint(
        "--all-in-datadir moves them into the data directory; they then lose their DATA DIRECTORY.",
    )
}

/// Removes the files that point to tables elsewhere. The server then finds the tables in the data
/// directory.
///
/// # Errors
/// A folder cannot be listed, or a file cannot be removed.
pub fn remove_links(folder: &Path) -> Result<(), PhysicalError> {
    let list = |path: &Path| {
        let failed = PhysicalError::file(path, "listing the folder");
        let all: std::io::Result<Vec<_>> = fs::read_dir(path).and_then(Iterator::collect);
        all.map_err(failed)
    };
    for database in list(folder)? {
        if !database.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        for file in list(&database.path())? {
            if is_link(&file.file_name().to_string_lossy()) {
                let path = file.path();
                fs::remove_file(&path)
                    .map_err(PhysicalError::file(&path, "removing what leads elsewhere"))?;
            }
        }
    }
    Ok(())
}

/// Why the files of a server may not come into a data directory as they are. `settings` are the
/// server's own, and `datadir` is its data directory.
pub fn settings(settings: &BTreeMap<String, String>, datadir: &str) -> Option<Refusal> {
    let found = named(settings, datadir).join(", ");
    (!found.is_empty()).then(|| {
        Refusal::new(format!(
            "the server keeps files outside its data directory: {found}"
        ))
        .hint(HINT)
    })
}

/// Objections to settings of a new server by which it would look for its files outside its data
/// directory, where they will be.
pub fn of_new(options: &ServerOptions, file: &str, datadir: &Path) -> Option<Refusal> {
    let found = elsewhere(options, datadir).join(", ");
    (!found.is_empty()).then(|| {
        Refusal::new(format!(
            "{file} says {found}, but refloat puts all files into {}",
            datadir.display()
        ))
        .hint("Remove these settings from it; or restore into another directory, and move the files to these places by hand before you start the server.")
    })
}

/// The settings of a server that name a folder other than its data directory, with their values.
pub fn elsewhere(options: &ServerOptions, datadir: &Path) -> Vec<String> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| plain(path));
    let mut found = Vec::new();
    for name in DIRECTORIES.map(|name| name.replace('_', "-")) {
        // Relative to the data directory, as for the server.
        if let Some(folder) = options.get(&name)
            && real(&datadir.join(folder)) != real(datadir)
        {
            found.push(format!("{name} = {folder}"));
        }
    }
    let files = options.get("innodb-data-file-path");
    if let Some(files) = files.filter(|files| has_file_outside(datadir, files)) {
        found.push(format!("innodb-data-file-path = {files}"));
    }
    found
}

/// The binary log of the old data, if it is elsewhere: the new server would continue it.
pub fn old_log(options: &ServerOptions, datadir: &Path) -> Option<String> {
    let log = datadir.join(options.get("log-bin")?);
    if !is_outside(datadir, &log.to_string_lossy()) {
        return None;
    }
    // Servers drop what follows the first dot.
    let name = log.file_name()?.to_string_lossy();
    let base = name.split('.').next()?;
    let is_one = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let end = name
            .strip_prefix(base)
            .and_then(|end| end.strip_prefix('.'));
        end.is_some_and(|end| !end.is_empty() && end.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut files = fs::read_dir(log.parent()?).ok()?.flatten();
    files.any(|entry| is_one(&entry.path())).then(|| {
        format!(
            "the binary log in {} belongs to the old data, and the new server would continue it: move it away before you start the server",
            log.parent().unwrap_or(datadir).display()
        )
    })
}

/// Why no files may be put into `target`, judging by what is there.
pub fn redo(target: &Path) -> Option<Refusal> {
    let has = |name: &str| target.join(name).exists();
    // While a restore moves files, a folder has this name.
    let is_one = target.join("ibdata1").is_file();
    (is_one && !REDO.iter().any(|name| has(name))).then(|| {
        Refusal::new(format!(
            "{} holds a system tablespace but no redo log: its server keeps the redo log elsewhere",
            target.display()
        ))
        .hint(HINT)
    })
}

/// Whether a path, relative to the data directory, leads outside of it.
fn is_outside(datadir: &Path, place: &str) -> bool {
    let datadir = plain(datadir);
    !plain(&datadir.join(place)).starts_with(&datadir)
}

/// Whether one of the files of `innodb_data_file_path`, such as
/// `ibdata1:12M;/disk2/ibdata2:50M:autoextend`, is outside of the data directory.
fn has_file_outside(datadir: &Path, files: &str) -> bool {
    files
        .split(';')
        .filter_map(|file| file.split(':').next())
        .any(|file| file.starts_with('/') && is_outside(datadir, file))
}

/// The settings that name a place outside of the data directory, with their values.
fn named(settings: &BTreeMap<String, String>, datadir: &str) -> Vec<String> {
    let datadir = Path::new(datadir);
    let mut found = Vec::new();
    for name in DIRECTORIES {
        if let Some(place) = settings
            .get(name)
            .filter(|place| is_outside(datadir, place))
        {
            found.push(format!("{name} = {place}"));
        }
    }
    if let Some(files) = settings
        .get(DATA_FILES)
        .filter(|files| has_file_outside(datadir, files))
    {
        found.push(format!("{DATA_FILES} = {files}"));
    }
    found
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_elsewhere_is_named() {
        let of = |name: &str, value: &str| {
            let settings = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            !named(&settings, "/var/lib/mysql/").is_empty()
        };
        for inside in [
            "",
            "./",
            ".",
            "logs",
            "/var/lib/mysql",
            "/var/lib/mysql/undo/",
        ] {
            assert!(!of("innodb_undo_directory", inside), "{inside}");
        }
        for outside in [
            "/",
            "/var/lib/mysql2",
            "../redo",
            "/disk/redo/",
            "logs/../../redo",
        ] {
            assert!(of("innodb_log_group_home_dir", outside), "{outside}");
        }
        assert!(!of(DATA_FILES, "ibdata1:12M:autoextend"));
        assert!(!of(DATA_FILES, "/var/lib/mysql/ibdata1:12M"));
        assert!(of(DATA_FILES, "ibdata1:12M;/disk/ibdata2:50M:autoextend"));
    }

    #[test]
    fn a_new_server_looks_where_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let here = format!("--innodb-undo-directory={}/", folder.path().display());
        for (option, count) in [
            ("--innodb-data-home-dir=.", 0),
            (here.as_str(), 0),
            ("--innodb-data-home-dir=", 0),
            ("--innodb_undo_directory=./undo", 1),
            ("--aria_log_dir_path=/no/such", 1),
            ("--innodb_data_file_path=ibdata1:12M:autoextend", 0),
            ("--innodb_data_file_path=/no/such/ibdata1:12M", 1),
        ] {
            let options = ServerOptions::of(&[option]);
            assert_eq!(elsewhere(&options, folder.path()).len(), count, "{option}");
        }
        let (data, logs) = (folder.path().join("data"), folder.path().join("logs"));
        fs::create_dir(&logs).unwrap();
        let option = format!("--log-bin={}/mysql-bin.log", logs.display());
        let options = ServerOptions::of(&[&option]);
        assert_eq!(old_log(&options, &data), None);
        fs::write(logs.join("mysql-bin.000001"), "").unwrap();
        let words = old_log(&options, &data).unwrap();
        assert!(words.contains("would continue it"), "{words}");
        assert_eq!(old_log(&ServerOptions::of(&["--log-bin=bin"]), &data), None);
    }
}
