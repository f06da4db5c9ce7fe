//! How much memory the program uses: the limit that was given, and what one very large row needs.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::ServerKind;
use refloat_testkit::s3::{Kind, Server};
use refloat_testkit::servers;

use crate::large_dumps::{load_measured, peak_kib};
use crate::midway_failures::Holder;
use crate::repositories::with_bucket;
use crate::support::{BOTH, Desk, Running, ask, dump, shared};

/// Bytes in the row's value.
const BLOB: usize = 100 << 20;
/// Memory limit for that row, in KiB: one copy in the dump's text, one in the packet. 211 MiB were
/// measured; a third copy would exceed the limit.
const BLOB_PEAK_KIB: u64 = 256 << 10;
/// Bytes for reading the pipe, on top of the rows that wait.
const READING: u64 = 16 << 20;

#[test]
fn one_row_of_a_hundred_megabytes() {
    for kind in BOTH {
        let options = servers::quick(kind)
            .option("max_allowed_packet", (256 << 20).to_string())
            .option(
                if kind.is_mariadb() {
                    "innodb_log_file_size"
                } else {
                    "innodb_redo_log_capacity"
                },
                (512 << 20).to_string(),
            );
        let server = servers::start(&options);
        let desk = Desk::new();
        let peak = load_measured(&desk, &server, &[], Duration::from_secs(60), |out| {
            let whole = dump(
                "CREATE TABLE `b` (`id` int NOT NULL PRIMARY KEY, `b` longblob) ENGINE=InnoDB;\nINSERT INTO `b` VALUES (1,'-- HERE');\n",
            );
            let (head, tail) = whole.split_once("-- HERE").expect("the mark is there");
            out.write_all(head.as_bytes())?;
            let part = vec![b'x'; 1 << 20];
            for _ in 0..BLOB >> 20 {
                out.write_all(&part)?;
            }
            out.write_all(tail.as_bytes())
        });
        assert_eq!(
            desk.ask(&server, "SELECT MIN(LENGTH(b)) FROM @db.b"),
            BLOB.to_string()
        );
        println!("{kind}: a row of {} MiB: {} MiB", BLOB >> 20, peak >> 10);
        assert!(
            peak > BLOB as u64 >> 10 && peak <= BLOB_PEAK_KIB,
            "{kind}: {} MiB for a row of {} MiB",
            peak >> 10,
            BLOB >> 20
        );
    }
}

/// Memory of a backup with two threads, in KiB. 118 MiB were measured for 3 GB into a bucket.
const BACKUP_PEAK_KIB: u64 = 160 << 10;

/// 200 MB that cannot be compressed go into a folder and into a bucket.
#[test]
fn a_backup_takes_less_memory_than_its_data() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = servers::start(&servers::quick(kind));
        let (prepared, limit) = if kind.is_mariadb() {
            ("SELECT 1", "max_recursive_iterations")
        } else {
            (
                "INSTALL PLUGIN clone SONAME 'mysql_clone.so'",
                "cte_max_recursion_depth",
            )
        };
        let sql = format!(
            "{prepared}; CREATE DATABASE shop; SET SESSION {limit} = 200000;
            CREATE TABLE shop.t (id INT PRIMARY KEY, r VARBINARY(1000));
            INSERT INTO shop.t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
            SELECT i, RANDOM_BYTES(1000) FROM n"
        );
        ask(&server, &sql);
        let bucket = Server::start(Kind::default());
        let folder = desk.path("repo").display().to_string();
        for repo in [folder.as_str(), "s3://bucket/repo"] {
            let url = server.socket_url();
            let args = ["backup", "--no-defaults", "--from", &url, "--repo", repo];
            let command = desk.refloat([&args[..], &["--threads", "2"]].concat());
            let mut running = Running::start(with_bucket(command, &bucket));
            let (pid, mut peak) = (running.pid(), 0);
            while !running.has_ended() {
                peak = peak_kib(pid).unwrap_or(0).max(peak);
                std::thread::sleep(Duration::from_millis(5));
            }
            running.ends_within(Duration::from_secs(1)).exits(0);
            println!("{kind}: a backup into {repo}: {} MiB", peak >> 10);
            assert!(
                (1..=BACKUP_PEAK_KIB).contains(&peak),
                "{kind}, {repo}: {} MiB",
                peak >> 10
            );
        }
    }
}

/// How many bytes are read from a pipe while no row can be written, after waiting for at least
/// `expected`, and the peak memory in KiB by then.
fn taken_in(more: &[&str], expected: u64) -> (u64, u64) {
    let server = shared(ServerKind::MariaDb1011);
    let desk = Desk::new();
    ask(
        server,
        &format!(
            "CREATE DATABASE `{0}`; CREATE TABLE `{0}`.`t` (`id` int NOT NULL PRIMARY KEY, `s` text) ENGINE=InnoDB",
            desk.db
        ),
    );
    // Holds up the rows.
    let holder = Holder::start(
        server,
        &desk.db,
        &format!("INSERT INTO `{}`.`t` VALUES (1, 'x')", desk.db),
    );
    let mut command = desk.load_command(
        Path::new("-"),
        &server.url(),
        &["--append", "--threads", "1"],
    );
    command.args(more).stdin(Stdio::piped());
    let (running, mut stdin) = Running::start_with_stdin(command);
    let pid = running.pid();
    let taken = AtomicU64::new(0);
    let peak = std::thread::scope(|scope| {
        scope.spawn(|| {
            let wide = "x".repeat(4000);
            let head = dump("-- HERE\n");
            let (head, _) = head.split_once("-- HERE").expect("the mark is there");
            let mut text = format!("{head}INSERT INTO `t` VALUES ");
            let mut id = 0;
            // Ends when the program does.
            while stdin.write_all(text.as_bytes()).is_ok() {
                taken.fetch_add(text.len() as u64, Ordering::Relaxed);
                let comma = if id == 0 { "" } else { "," };
                id += 1;
                text = format!("{comma}({id},'{wide}')");
            }
        });
        // Reading has paused, so memory is full. Before the first rows, a load also pauses for a
        // while.
        let (mut last, mut since) = (0, Instant::now());
        let begun = since;
        while (last < expected && begun.elapsed() < Duration::from_secs(60))
            || since.elapsed() < Duration::from_millis(1500)
        {
            let now = taken.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let peak = peak_kib(pid).unwrap_or(0);
        running.signal("INT");
        running.stops().exits(5);
        peak
    });
    drop(holder);
    ask(server, &format!("DROP DATABASE `{}`", desk.db));
    (taken.into_inner(), peak)
}

#[test]
fn a_ceiling_for_memory_is_kept() {
    // With one thread, 64 MiB of the limit are for everything other than rows.
    for (megabytes, rows) in [(80, 16), (112, 48)] {
        let rows = rows << 20;
        let (taken, peak) = taken_in(&["--max-memory", &format!("{megabytes}M")], rows / 2);
        println!(
            "--max-memory {megabytes}M: {} MiB taken in, {} MiB of memory",
            taken >> 20,
            peak >> 10
        );
        assert!(
            taken >= rows / 2 && taken <= rows + READING,
            "--max-memory {megabytes}M: {} MiB of rows wait",
            taken >> 20
        );
        assert!(
            peak > 0 && peak <= megabytes << 10,
            "--max-memory {megabytes}M: {} MiB",
            peak >> 10
        );
    }
}
