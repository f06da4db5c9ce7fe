//! Full disks: one for the server's data, and one for its temporary files.

// Hazard of faults: L-141 disk full (MariaDB, MySQL); folder of temporary files full during an
//   index build (MariaDB)

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use refloat_sandbox::{Instance, Sandbox, ServerKind, StartOptions};
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::servers;

use crate::support::{
    Desk, Run, ask, assert_same_settings, dump, finish, settings, table, wide_table,
};

/// Asserts that the summary reports the rows that are there.
#[track_caller]
fn reported_as_it_is(desk: &Desk, server: &Instance, run: &Run) -> u64 {
    let rows = desk.rows(server, "items").unwrap();
    let summary = run.stdout.replace(',', "");
    assert!(
        summary.contains(&format!("items: {rows} ")),
        "{rows} rows are there, the summary says\n{}",
        run.stdout
    );
    rows
}

/// Megabytes that are free when the load begins.
const FREE: u32 = 48;
/// More rows than fit.
const ROWS: u64 = 120_000;

#[test]
fn a_full_disk_is_reported_and_settings_are_put_back() {
    let mariadb = StartOptions::new(ServerKind::MariaDb1011)
        .option("innodb_log_file_size", "8M")
        .option("innodb_temp_data_file_path", "ibtmp1:1M:autoextend");
    // With a binary log, that would fill up first, and then the server waits for space instead of
    // failing.
    let mysql = StartOptions::new(ServerKind::MySql97)
        .option("innodb_redo_log_capacity", "8M")
        .flag("skip_log_bin");
    for (options, megabytes) in [(mariadb, 160), (mysql, 220)] {
        let small = SmallDisk::mount(megabytes);
        let cache = servers::sandbox().state_dir().join("cache");
        let sandbox = Sandbox::new(small.path()).with_cache_dir(cache);
        let server = sandbox.start_ephemeral(&options).unwrap();
        let before = settings(&server);
        let desk = Desk::new();
        let file = desk.file("dump.sql", dump(&wide_table("items", ROWS)));
        small.leave(FREE);
        let run = desk
            .load(&file, &server, &["--durability", "relaxed"])
            .exits(1)
            .says("items")
            .says("NOT complete")
            .says("disk is full");
        let there = reported_as_it_is(&desk, &server, &run);
        assert_same_settings(&before, &server);
        // Once there is space, the same command resumes.
        small.grow(900);
        let run = desk
            .load(&file, &server, &["--durability", "relaxed"])
            .exits(0)
            .says("done and proven");
        if there > 0 {
            run.says("of them were already loaded");
        }
        assert_eq!(desk.rows(&server, "items"), Some(ROWS));
        let sum = desk.ask(&server, "SELECT SUM(id) FROM @db.items");
        assert_eq!(sum, (ROWS * (ROWS + 1) / 2).to_string());
        assert_eq!(ask(&server, "SHOW DATABASES LIKE 'refloat%'"), "");
        assert_same_settings(&before, &server);
    }
}

#[test]
fn a_full_folder_for_temporary_files_is_reported_and_the_rows_stay() {
    let small = SmallDisk::mount(6);
    // The server runs as another user, and no other user may own its folder for temporary files.
    std::fs::set_permissions(small.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    let options = servers::quick(ServerKind::MariaDb1011)
        .option("tmpdir", small.path().to_str().unwrap())
        .option("innodb_sort_buffer_size", "64K");
    let server = servers::start(&options);
    let before = settings(&server);
    let desk = Desk::new();
    let file = desk.file("dump.sql", dump(&table("items", 200_000)));
    let run = desk
        .load(&file, &server, &["--durability", "relaxed"])
        .exits(1)
        .says("items: could not build ADD KEY `name`")
        .says("NOT complete")
        .says("missing: ADD KEY `name`")
        .says("disk is full");
    assert_eq!(
        reported_as_it_is(&desk, &server, &run),
        200_000,
        "the rows are in, only the keys are not"
    );
    assert_same_settings(&before, &server);
    // What is reported as missing can be built once there is space: by hand, or by the same
    // command.
    let missing = run
        .stdout
        .lines()
        .find_map(|line| line.split_once("missing: "))
        .map(|(_, clauses)| clauses.trim().to_owned())
        .unwrap();
    small.grow(128);
    let other = format!(
        "CREATE TABLE @db.other LIKE @db.items; ALTER TABLE @db.other {missing}; DROP TABLE @db.other"
    );
    desk.ask(&server, &other);
    desk.load(&file, &server, &["--durability", "relaxed"])
        .exits(0)
        .says("200,000 of them were already loaded")
        .says("done and proven");
    assert_eq!(desk.rows(&server, "items"), Some(200_000));
    assert_eq!(
        desk.ask(
            &server,
            "SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics WHERE table_schema = '@db'"
        ),
        "3"
    );
}

/// A mariadb-backup that fills a disk, all but some kilobytes, when it is asked to do this.
fn filling(desk: &Desk, what: &str, volume: &Path, left: u32) -> String {
    let path = desk.file(
        what,
        format!(
            "#!/bin/sh\ncase \"$*\" in *{what}*)\n\
             free=$(df --output=avail -B1K '{0}' | tail -n 1)\n\
             head -c $(((free - {left}) * 1024)) /dev/zero >'{0}/fill';; esac\n\
             exec mariadb-backup \"$@\"\n",
            volume.display()
        ),
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// A backup is told in advance that there is little room, fails, and succeeds when there is more.
fn a_backup_does_not_fit(run: &dyn Fn(&[&str]) -> Run, store: &SmallDisk, backup: &[&str; 6]) {
    let repo = backup[5];
    let backup = [&backup[..], &["--label", "one"]].concat();
    let warning = "usually takes a third to a half";
    let plan = [&backup[..], &["--plan"]].concat();
    let planned = |is_warned: bool| {
        let plan = run(&plan).exits(0);
        assert_eq!(plan.stdout.contains(warning), is_warned, "{}", plan.stdout);
    };
    planned(false);
    store.leave(1);
    planned(true);
    store.grow(64);
    run(&["backups", "init", "--repo", repo]).exits(0);
    store.leave(1);
    run(&backup)
        .exits(1)
        .says(warning)
        .says("No space left on device")
        .says("Make room there");
    run(&["backups", "list", "--repo", repo])
        .exits(0)
        .says("no backups");
    store.grow(64);
    planned(false);
    run(&backup).exits(0);
    run(&["backups", "verify", "--repo", repo]).exits(0);
}

// Hazard of files: P-19 a full disk: of the repository, of the data directory (before the copy,
//   while files come, while they are prepared), of temporary files at the donor's, of the records;
//   a data directory that is a mount point
#[test]
fn copies_of_files_that_do_not_fit_leave_the_old_data_and_go_on() {
    let full = "No space left on device";
    let server = servers::start(&servers::quick(ServerKind::MariaDb1011));
    ask(
        &server,
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, text TEXT) SELECT seq AS id, SHA2(seq, 512) AS text FROM shop.seq_1_to_50000",
    );
    let url = server.socket_url();
    let desk = Desk::new();
    let run = |args: &[&str]| finish(desk.refloat(args));
    let store = SmallDisk::mount(64);
    let repo = store.path().join("repo").display().to_string();
    let backup = ["backup", "--no-defaults", "--from", &url, "--repo", &repo];
    a_backup_does_not_fit(&run, &store, &backup);

    let temporary = SmallDisk::mount(1);
    fs::write(temporary.path().join("fill"), vec![1; 2 << 20]).unwrap_err();
    let again = [&backup[..], &["--label", "two"]].concat();
    let mut command = desk.refloat(&again);
    command.env("TMPDIR", temporary.path());
    finish(command).exits(1).says("is its disk full?");
    let mut command = desk.refloat(&again);
    command.env("REFLOAT_STATE_DIR", temporary.path().join("state"));
    finish(command)
        .exits(1)
        .says("cannot begin the record of the run")
        .says(full);

    // The data directory is the top of a file system, where nothing can be exchanged.
    let volume = SmallDisk::mount(64);
    let data = volume.path();
    let old = || {
        for name in ["ibdata1", "ib_logfile0"] {
            assert_eq!(fs::read_to_string(data.join(name)).unwrap(), "old");
        }
    };
    for name in ["ibdata1", "ib_logfile0"] {
        fs::write(data.join(name), "old").unwrap();
    }
    let to = data.display().to_string();
    let restore = ["restore", "one", "--repo", &repo, "--to", &to, "--replace"];
    let rebuild = [
        "rebuild",
        "--no-defaults",
        "--from",
        &url,
        "--to",
        &to,
        "--replace",
    ];
    volume.leave(4);
    run(&restore)
        .exits(3)
        .says("bytes are free in")
        .says("make room");
    run(&rebuild).exits(3).says("bytes are free in");
    old();
    volume.grow(64);
    let tool = filling(&desk, "--backup", data, 500);
    let fills = [&rebuild[..], &["--donor-tool", &tool]].concat();
    run(&fills).exits(1).says(full);
    old();
    fs::remove_file(data.join("fill")).unwrap();
    let tool = filling(&desk, "--version", data, 500);
    let fills = [&restore[..], &["--tool", &tool, "--restart"]].concat();
    run(&fills).exits(1).says(full);
    old();
    fs::remove_file(data.join("fill")).unwrap();
    let tool = filling(&desk, "--prepare", data, 0);
    let fills = [&restore[..], &["--tool", &tool]].concat();
    run(&fills).exits(1).says("mariadb-backup");
    old();
    fs::remove_file(data.join("fill")).unwrap();
    run(&restore).exits(0).says("old data");
    assert!(data.join("shop/t.ibd").exists());
    let kept = fs::read_dir(data).unwrap().flatten();
    let mut kept = kept.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(".refloat-2")
    });
    let aside = kept.next().unwrap().path();
    assert_eq!(fs::read_to_string(aside.join("ibdata1")).unwrap(), "old");
    volume.grow(96);
    run(&rebuild).exits(0);
}
