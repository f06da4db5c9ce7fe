//! Large tables that are built as files and imported (`--write-path tablespace`).
//!
//! `REFLOAT_KILLS` sets the number of kills for each kind of server, `REFLOAT_KILL_SEED` the seed
//! of their moments.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_testkit::servers;

use crate::seeded::{Dice, number};
use crate::support::{Desk, Run, Running, dump, kinds, shared, wide_table};

/// The flags of all loads here. MySQL has a binary log unless told otherwise.
const BUILT: &[&str] = &[
    "--write-path",
    "tablespace",
    "--binlog",
    "off",
    "--no-progress",
];
/// Rows of a table that is large enough.
const ROWS: u64 = 30_000;
/// Upper limit for one load.
const LONG: Duration = Duration::from_secs(120);
/// Default number of kills for each kind of server.
const KILLS: u64 = 3;

/// Asserts that every index of a table has a sound record for each row.
#[track_caller]
fn assert_sound(desk: &Desk, server: &Instance, table: &str) {
    let found = desk.ask(server, &format!("CHECK TABLE @db.{table} EXTENDED"));
    assert!(found.trim_end().ends_with("status\tOK"), "{found}");
}

fn checksum(desk: &Desk, server: &Instance, table: &str) -> String {
    let found = desk.ask(server, &format!("CHECKSUM TABLE @db.{table}"));
    found.split_once('\t').unwrap().1.to_owned()
}

/// Asserts that nothing but the server's own files is in the folder of a database.
#[track_caller]
fn assert_no_file_left(desk: &Desk, server: &Instance) {
    let folder = server.datadir().join(&desk.db);
    let left: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains(".cfg") || name.contains("refloat"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_table_that_is_built_is_like_one_that_is_loaded() {
    for &kind in kinds() {
        let (server, desk, other) = (shared(kind), Desk::new(), Desk::new());
        let numbered = "CREATE TABLE `numbered` (`id` int NOT NULL AUTO_INCREMENT, `t` timestamp NULL, `v` varchar(400), PRIMARY KEY (`id`), KEY `t` (`t`)) AUTO_INCREMENT=7;\n";
        let rows: Vec<String> = (1..=ROWS)
            .map(|id| {
                format!(
                    "({id},'2020-01-01 00:00:{:02}','{}')",
                    id % 60,
                    "v".repeat(350)
                )
            })
            .collect();
        let mut text = format!(
            "/*!40103 SET TIME_ZONE='+00:00' */;\n{}",
            wide_table("items", ROWS)
        );
        text.push_str(numbered);
        for rows in rows.chunks(300) {
            let _ = writeln!(text, "INSERT INTO `numbered` VALUES {};", rows.join(","));
        }
        let text = dump(&text);
        desk.load_text(&text, server, BUILT)
            .exits(0)
            .says(&format!("tablespace ({} rows)", "60,000"));
        other.load_text(&text, server, &[]).exits(0);
        for table in ["items", "numbered"] {
            assert_sound(&desk, server, table);
            assert_eq!(
                checksum(&desk, server, table),
                checksum(&other, server, table)
            );
        }
        assert_no_file_left(&desk, server);
        // Statistics know of the rows, and the next number follows the last one.
        let plan = desk.ask(server, "EXPLAIN SELECT * FROM @db.items");
        assert!(!plan.contains("\t1\t"), "{plan}");
        for desk in [&desk, &other] {
            desk.ask(
                server,
                "INSERT INTO @db.numbered (v) VALUES ('next'); DELETE FROM @db.items WHERE id % 3 = 0; UPDATE @db.items SET name = CONCAT(name, '!') WHERE id % 7 = 0; ALTER TABLE @db.items ADD COLUMN more int DEFAULT 3",
            );
            assert_eq!(
                desk.ask(server, "SELECT MAX(id) FROM @db.numbered").trim(),
                (ROWS + 1).to_string()
            );
            assert_sound(desk, server, "items");
        }
        assert_eq!(
            checksum(&desk, server, "items"),
            checksum(&other, server, "items")
        );
    }
}

#[test]
fn what_the_server_has_to_store_goes_over_sql() {
    for &kind in kinds() {
        let (server, desk) = (shared(kind), Desk::new());
        // Late in its rows, one value is an expression; the rows after it are as before.
        let last = format!("({ROWS},");
        let text = wide_table("items", ROWS);
        let at = text.rfind(&last).unwrap();
        let text = format!("{}({} + 0,{}", &text[..at], ROWS, &text[at + last.len()..]);
        let checked = wide_table("checked", ROWS).replace(
            "PRIMARY KEY (`id`)",
            "CONSTRAINT c CHECK (`id` > 0),\n  PRIMARY KEY (`id`)",
        );
        let run = desk.load_text(dump(&format!("{text}{checked}")), server, BUILT);
        let run = run.exits(0).says("tablespace (").says(&format!(
            "table {}.checked: rows go over SQL: it has CHECK constraints",
            desk.db
        ));
        assert!(!run.stdout.contains("tablespace (30,000 rows)"), "{run:?}");
        for table in ["items", "checked"] {
            assert_eq!(desk.rows(server, table), Some(ROWS));
            assert_sound(&desk, server, table);
        }
        assert_no_file_left(&desk, server);
    }
}

#[test]
fn rows_that_make_no_table_are_the_servers_to_refuse() {
    for &kind in kinds() {
        let (server, desk) = (shared(kind), Desk::new());
        // Two rows of the same key, far from each other, and rows in no order.
        let unique = wide_table("items", ROWS)
            .replace("KEY `name`", "UNIQUE KEY `name`")
            .replace("CHARSET=utf8mb4", "CHARSET=utf8mb4 COLLATE=utf8mb4_bin");
        let twice = unique.replace("some rows, which", "1");
        let twice = twice.replace(&format!("number {ROWS} "), "number 17 ");
        desk.load_text(dump(&twice), server, BUILT)
            .exits(1)
            .says("Duplicate entry");
        assert_no_file_left(&desk, server);
        let desk = Desk::new();
        let (head, rows) = unique.split_once("INSERT INTO").unwrap();
        let (rows, tail) = rows.rsplit_once("UNLOCK").unwrap();
        let mut statements: Vec<&str> = rows.split("INSERT INTO").collect();
        statements.reverse();
        let text = format!(
            "{head}INSERT INTO{}UNLOCK{tail}",
            statements.join("INSERT INTO")
        );
        desk.load_text(dump(&text), server, BUILT).exits(0);
        assert_eq!(desk.rows(server, "items"), Some(ROWS));
        assert_sound(&desk, server, "items");
        // What was read cannot be read again.
        let desk = Desk::new();
        let packed = desk.file("dump.sql", dump(&twice));
        let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &packed));
        desk.load(&packed, server, BUILT)
            .exits(1)
            .says("two rows have the same value in the unique index name")
            .says("--write-path auto");
        assert_no_file_left(&desk, server);
        let more = ["--no-progress", "--binlog", "off"];
        desk.load(&packed, server, &more)
            .exits(1)
            .says("Duplicate entry");
    }
}

#[test]
fn a_binary_log_would_lack_the_rows() {
    let logs = servers::quick(ServerKind::MariaDb1011).option("log_bin", "on");
    let (server, desk) = (servers::start(&logs), Desk::new());
    let text = dump(&wide_table("items", 10));
    desk.load_text(&text, &server, &["--write-path", "tablespace"])
        .exits(3)
        .says("rows of an imported tablespace are missing")
        .says("--binlog off");
    assert_eq!(desk.tables(&server), 0);
}

/// Starts a load and kills it, or its server, after some time. Returns how it ended.
fn killed(desk: &Desk, server: &mut Ephemeral, of_server: bool, after: Duration) -> Run {
    let path = desk.path("dump.sql");
    let mut running = Running::start(desk.load_command(&path, &server.url(), BUILT));
    let since = Instant::now();
    while since.elapsed() < after && !running.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if of_server {
        server.kill().unwrap();
        let run = running.ends_within(LONG);
        server.restart().unwrap();
        return run;
    }
    running.kill();
    running.ends_within(LONG)
}

#[test]
fn a_table_that_was_being_built_or_imported_is_built_again() {
    let seed = number("REFLOAT_KILL_SEED", u64::from(std::process::id())).max(1);
    for &kind in kinds() {
        let mut server = servers::start(&servers::quick(kind));
        let (mut desk, mut dice) = (Desk::new(), Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let text = dump(&format!(
            "{}{}",
            wide_table("items", ROWS),
            wide_table("more", ROWS)
        ));
        desk.file("dump.sql", &text);
        let begun = Instant::now();
        desk.load(&desk.path("dump.sql"), &server, BUILT).exits(0);
        let whole = begun.elapsed();
        let sums = ["items", "more"].map(|table| checksum(&desk, &server, table));
        let (mut kills, wanted) = (0, number("REFLOAT_KILLS", KILLS));
        while kills < wanted {
            desk = Desk::new();
            desk.file("dump.sql", &text);
            let mut story = format!("{kind}, REFLOAT_KILL_SEED={seed}, kill {kills}");
            let mut is_done = false;
            for _ in 0..=dice.below(2) {
                let after = whole.mul_f64(dice.below(1000) as f64 / 1000.0);
                let of_server = dice.below(3) == 0;
                let _ = write!(story, "; server {of_server} after {after:?}");
                let run = killed(&desk, &mut server, of_server, after);
                assert!(!run.stderr.contains("defect"), "{story}\n{}", run.stderr);
                is_done = run.code == Some(0);
                if is_done {
                    break;
                }
                kills += 1;
            }
            if !is_done {
                let run = desk.load(&desk.path("dump.sql"), &server, BUILT);
                // It may have been killed when all was done and not yet said.
                let was_done = run.code == Some(3) && run.stderr.contains("is not empty");
                assert!(run.code == Some(0) || was_done, "{story}\n{run:?}");
            }
            for (table, sum) in ["items", "more"].into_iter().zip(&sums) {
                assert_eq!(&checksum(&desk, &server, table), sum, "{story}");
                assert_sound(&desk, &server, table);
            }
            assert_no_file_left(&desk, &server);
            desk.ask(&server, "DROP DATABASE @db");
        }
    }
}
