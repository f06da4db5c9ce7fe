//! Statements and dumps larger than memory, and dumps of very many tables.

// Hazard of faults: S-13 one statement larger than memory, very many tables

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::servers;

use crate::support::{Desk, Running, dump, shared};

/// Memory limit for the program, whatever it loads.
const CEILING_KIB: u64 = 256 << 10;
/// Bytes of text in a row.
const WIDE: usize = 4000;

/// Peak resident memory of a process so far, in KiB; `None` if it has ended.
pub fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Loads what `write` produces, and returns the peak memory in KiB.
pub fn load_measured(
    desk: &Desk,
    server: &Instance,
    more: &[&str],
    limit: Duration,
    write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()> + Send,
) -> u64 {
    let command = desk.load_command(Path::new("-"), &server.url(), more);
    let (running, stdin) = Running::start_with_stdin(command);
    let pid = running.pid();
    let mut running = running;
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut stdin = std::io::BufWriter::with_capacity(1 << 20, stdin);
            // An error here means that the program has ended, which is checked below.
            let _ = write(&mut stdin).and_then(|()| stdin.flush());
        });
        let mut peak = 0;
        let started = Instant::now();
        while !running.has_ended() && started.elapsed() < limit {
            peak = peak_kib(pid).unwrap_or(0).max(peak);
            std::thread::sleep(Duration::from_millis(20));
        }
        running
            .ends_within(Duration::from_secs(1))
            .exits(0)
            .says("done and proven");
        writer.join().expect("the writer ends");
        peak
    })
}

fn one_statement(kind: ServerKind, megabytes: u64, limit: Duration) {
    let desk = Desk::new();
    let server = shared(kind);
    let rows = (megabytes << 20) / (WIDE as u64 + 20);
    let wide = "x".repeat(WIDE);
    let peak = load_measured(&desk, server, &[], limit, move |out| {
        let whole = dump(
            "CREATE TABLE wide (id int NOT NULL PRIMARY KEY, s text) ENGINE=InnoDB;\n-- HERE\n",
        );
        let (head, tail) = whole.split_once("-- HERE").expect("the mark is there");
        write!(out, "{head}INSERT INTO wide VALUES ")?;
        for id in 1..=rows {
            let end = if id == rows { ';' } else { ',' };
            write!(out, "({id},'{wide}'){end}")?;
        }
        out.write_all(tail.as_bytes())
    });
    assert_eq!(desk.rows(server, "wide"), Some(rows));
    assert!(
        peak > 10 << 10 && peak <= CEILING_KIB,
        "{kind}: {} MiB for {megabytes} MiB in one statement",
        peak >> 10
    );
    println!(
        "{kind}: {megabytes} MiB in one statement: {} MiB",
        peak >> 10
    );
    desk.ask(server, "DROP DATABASE @db");
}

#[test]
fn a_statement_larger_than_memory_is_loaded_in_little() {
    one_statement(ServerKind::MariaDb1011, 320, Duration::from_secs(120));
}

#[test]
fn a_large_statement_is_loaded_in_little_memory_elsewhere() {
    for kind in [ServerKind::MariaDb118, ServerKind::MySql97] {
        one_statement(kind, 64, Duration::from_secs(60));
    }
}

#[test]
#[ignore = "a minute of writing; the short form runs always"]
fn one_gigabyte_in_one_statement() {
    one_statement(ServerKind::MariaDb1011, 1024, Duration::from_secs(600));
}

fn many_tables(server: &Instance, count: u32, limit: Duration) {
    let desk = Desk::new();
    let peak = load_measured(&desk, server, &[], limit, move |out| {
        let whole = dump("-- HERE\n");
        let (head, tail) = whole.split_once("-- HERE").expect("the mark is there");
        out.write_all(head.as_bytes())?;
        let mut text = String::new();
        for number in 1..=count {
            text.clear();
            let _ = write!(
                text,
                "DROP TABLE IF EXISTS `t{number}`;\nCREATE TABLE `t{number}` (`id` int NOT NULL, `s` varchar(20), PRIMARY KEY (`id`), KEY `s` (`s`)) ENGINE=InnoDB;\n\
                 LOCK TABLES `t{number}` WRITE;\nINSERT INTO `t{number}` VALUES (1,'a'),(2,'b');\nUNLOCK TABLES;\n"
            );
            out.write_all(text.as_bytes())?;
        }
        out.write_all(tail.as_bytes())
    });
    assert_eq!(desk.tables(server), u64::from(count));
    assert_eq!(desk.rows(server, &format!("t{count}")), Some(2));
    println!("{count} tables: {} MiB", peak >> 10);
    assert!(peak <= CEILING_KIB, "{} MiB for {count} tables", peak >> 10);
    // To drop a hundred thousand takes longer than to load them; their server is removed whole.
    if count <= 1000 {
        desk.ask(server, "DROP DATABASE @db");
    }
}

#[test]
fn a_thousand_tables() {
    let server = shared(ServerKind::MariaDb1011);
    many_tables(server, 1000, Duration::from_secs(200));
}

#[test]
fn a_hundred_tables_elsewhere() {
    for kind in [ServerKind::MariaDb118, ServerKind::MySql97] {
        many_tables(shared(kind), 100, Duration::from_secs(60));
    }
}

#[test]
#[ignore = "many minutes of creating tables; the short form runs always"]
fn one_hundred_thousand_tables() {
    // Other tests look at all tables of the shared one.
    let server = servers::start(&servers::quick(ServerKind::MariaDb1011));
    many_tables(&server, 100_000, Duration::from_secs(7200));
}
