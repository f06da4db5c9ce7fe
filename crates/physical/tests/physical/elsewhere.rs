//! A server that keeps each kind of its files in a directory of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use refloat_sandbox::ServerKind;
use refloat_testkit::{memory, servers};

use crate::common::Place;

/// Settings that name a directory, with what their files' names begin with.
const SETTINGS: [(&str, &str); 4] = [
    ("innodb_data_home_dir", "ibdata"),
    ("innodb_log_group_home_dir", "ib_logfile"),
    ("innodb_undo_directory", "undo"),
    ("aria_log_dir_path", "aria_log"),
];
/// The directory of the binary log.
const BINLOG: &str = "binlog";

fn make_open(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
}

/// What the files below a folder hold. What links lead to is elsewhere.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(contents(&entry.path()));
        } else if kind.is_file() {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// Moves the files of a server that is stopped into the directories that it looks for them in,
/// where links to its data directory have been.
fn move_apart(folder: &Path, datadir: &Path) {
    for (setting, begins) in SETTINGS {
        let place = folder.join(setting);
        fs::remove_file(&place).unwrap();
        make_open(&place);
        let mut moved = 0;
        for entry in fs::read_dir(datadir).unwrap() {
            let name = entry.unwrap().file_name();
            if name.to_string_lossy().starts_with(begins) {
                fs::rename(datadir.join(&name), place.join(&name)).unwrap();
                moved += 1;
            }
        }
        assert!(moved > 0, "{setting}: {begins}");
    }
}

/// A server with three undo tablespaces, and with all its directories in a folder. The data
/// directories of test servers are made with none of these settings, so links lead there at first.
fn server_apart(folder: &Path) -> Place {
    make_open(folder);
    make_open(&folder.join(BINLOG));
    let name = format!("apart-{}", std::process::id());
    let datadir = servers::sandbox().state_dir().join("instances");
    let datadir = datadir.join(&name).join("data");
    let mut options = servers::quick(ServerKind::MariaDb118)
        .name(name)
        .option("log_bin", folder.join(BINLOG).join("bin").to_str().unwrap());
    for (setting, _) in SETTINGS {
        let place = folder.join(setting);
        symlink(&datadir, &place).unwrap();
        options = options.option(setting, place.to_str().unwrap());
    }
    let mut place = Place::with(&options);
    assert_eq!(place.server.datadir(), datadir);
    place.server.stop().unwrap();
    move_apart(folder, &datadir);
    place.server.restart().unwrap();
    place
}

// Hazard of files: P-08 system tablespace, redo log, undo tablespaces, Aria log and binary log,
//   each in a directory of its own
#[test]
fn a_server_whose_files_all_lie_elsewhere_loses_none_of_them() {
    let folder = tempfile::tempdir_in(memory::folder()).unwrap();
    let folder = folder.path();
    let mut place = server_apart(folder);
    place.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.inno (id INT PRIMARY KEY) ENGINE=InnoDB;
        CREATE TABLE shop.aria (id INT PRIMARY KEY) ENGINE=Aria;
        INSERT INTO shop.inno VALUES (1); INSERT INTO shop.aria VALUES (1)",
    );
    place.back_up("one").unwrap();
    place.sql("INSERT INTO shop.inno VALUES (2); INSERT INTO shop.aria VALUES (2)");
    place.server.stop().unwrap();
    let datadir = place.server.datadir();
    let (outside, inside) = (contents(folder), contents(&datadir));

    // What its backup says, and what the option file of the new server says.
    let file = place.folder.path().join("my.cnf");
    let lines = SETTINGS.map(|(name, _)| format!("{name} = {}\n", folder.join(name).display()));
    let text = format!(
        "[mysqld]\ndatadir = {}\n{}",
        datadir.display(),
        lines.concat()
    );
    fs::write(&file, text).unwrap();
    for (option_file, all_in_datadir) in [(None, false), (Some(&file), false), (Some(&file), true)]
    {
        let mut options = place.restoring("one");
        options.target.option_file = option_file.cloned();
        options.target.all_in_datadir = all_in_datadir;
        let words = place.restore(&options).unwrap_err().to_string();
        for (setting, _) in SETTINGS {
            let place = folder.join(setting);
            // Option files are read with dashes.
            let named = [setting.to_owned(), setting.replace('_', "-")]
                .map(|name| format!("{name} = {}", place.display()));
            let is_named = named.iter().any(|named| words.contains(named));
            assert!(is_named, "{setting}: {words}");
        }
        assert!(contents(folder) == outside && contents(&datadir) == inside);
    }

    // All of them come into the data directory, and nothing of the old ones is written to.
    let mut options = place.restoring("one");
    options.target.all_in_datadir = true;
    let aside = place.restore(&options).unwrap().aside.unwrap();
    assert!(contents(folder) == outside);
    let moved = contents(&aside).into_iter().map(|(path, bytes)| {
        let name = path.strip_prefix(&aside).unwrap();
        (datadir.join(name), bytes)
    });
    assert!(moved.eq(inside));
    for (setting, _) in SETTINGS {
        let place = folder.join(setting);
        fs::rename(&place, place.with_extension("old")).unwrap();
        symlink(&datadir, &place).unwrap();
    }
    place.server.restart().unwrap();
    for table in ["inno", "aria"] {
        let rows = place.server.query(&format!("SELECT id FROM shop.{table}"));
        assert_eq!(rows.unwrap().trim(), "1", "{table}");
    }
    place.assert_sound();
}
