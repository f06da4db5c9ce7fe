//! Full disks: one for the server's data, and one for its temporary files.

// Hazard of faults: L-141 disk full (MariaDB, MySQL); folder of temporary files full during an
//   index build (MariaDB)

use std::os::unix::fs::PermissionsExt;

use refloat_sandbox::{Instance, Sandbox, ServerKind, StartOptions};
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::servers;

use crate::support::{Desk, Run, ask, assert_same_settings, dump, settings, table, wide_table};

/// Asserts that the summary reports the rows that are there.
#[track_caller]
fn said_as_it_is(desk: &Desk, server: &Instance, run: &Run) -> u64 {
    let rows = desk.rows(server, "items").unwrap();
    let said = run.stdout.replace(',', "");
    assert!(
        said.contains(&format!("items: {rows} ")),
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
fn a_full_disk_is_said_and_settings_are_put_back() {
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
        let there = said_as_it_is(&desk, &server, &run);
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
fn a_full_folder_for_temporary_files_is_said_and_the_rows_stay() {
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
        said_as_it_is(&desk, &server, &run),
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
