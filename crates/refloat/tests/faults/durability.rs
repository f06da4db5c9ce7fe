//! Power cuts: when a load says that it is done, everything that it committed is on disk, although
//! no commit waited for that.
//!
//! What remains after a power cut is tested in `outage`. Here the servers themselves say what they
//! have written to disk: how far the redo log is synced, and which writes to the binary log were
//! followed by a sync. Their timers are kept from syncing by chance.

// Hazard of faults: L-163 power cuts: what is done is synced, redo log and binary log, by the
//   servers' own account of their files (all three servers)

use refloat_sandbox::{Instance, ServerKind, StartOptions};
use refloat_testkit::servers;

use crate::support::{Desk, ask, dump, table};

/// Rows of a load; about 4 MiB of redo log.
const ROWS: u64 = 20_000;
/// Bytes of redo log that a server may write on its own between the end of a load and the query.
const BY_ITSELF: u64 = 256 << 10;

/// A server with durable settings and a binary log, whose timers sync no log.
fn durable(kind: ServerKind) -> StartOptions {
    let options = StartOptions::new(kind)
        .option("innodb_flush_log_at_trx_commit", "1")
        .option("innodb_flush_log_at_timeout", "2700")
        .option("sync_binlog", "1")
        .option("local_infile", "1")
        .option("performance_schema", "ON")
        .option("server_id", "1");
    if kind.is_mariadb() {
        options.option("log_bin", "binlog")
    } else {
        options
    }
}

/// Records writes and syncs of the binary log, and nothing else.
fn record(server: &Instance) {
    ask(
        server,
        "USE performance_schema; \
         UPDATE setup_instruments SET ENABLED = 'NO', TIMED = 'NO'; \
         UPDATE setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME = 'wait/io/file/sql/binlog'; \
         UPDATE setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE 'events\\_waits\\_%' OR NAME LIKE '%\\_instrumentation'",
    );
}

/// Binary log files whose last write was not followed by a sync, with the number of files that were
/// written to.
///
/// After closing a file, MariaDB writes one more byte, to mark it as not in use.
fn unsynced(server: &Instance) -> (String, u64) {
    let sql = "SELECT COALESCE(GROUP_CONCAT(IF(synced > written, NULL, file)), ''), COUNT(*) FROM \
         (SELECT SUBSTRING_INDEX(OBJECT_NAME, '/', -1) AS file, \
          MAX(IF(OPERATION = 'write' AND NUMBER_OF_BYTES > 1, TIMER_START, 0)) AS written, MAX(IF(OPERATION = 'sync', TIMER_END, 0)) AS synced \
          FROM performance_schema.events_waits_history_long WHERE EVENT_NAME = 'wait/io/file/sql/binlog' \
          AND OBJECT_NAME REGEXP 'binlog[.][0-9]+$' GROUP BY file HAVING written > 0) AS files";
    let answer = ask(server, sql);
    let (files, count) = answer.split_once('\t').unwrap();
    (files.to_owned(), count.trim().parse().unwrap())
}

/// Bytes of redo log that are written but not synced.
fn redo_ahead(server: &Instance) -> u64 {
    let (current, synced) = if server.kind().is_mariadb() {
        ("Innodb_lsn_current", "Innodb_lsn_flushed")
    } else {
        (
            "Innodb_redo_log_current_lsn",
            "Innodb_redo_log_flushed_to_disk_lsn",
        )
    };
    let of = |name: &str| -> u64 {
        let answer = ask(server, &format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        let (_, value) = answer.split_once('\t').unwrap();
        value.trim().parse().unwrap()
    };
    // In this order, so that a sync in between counts for the server.
    let current = of(current);
    current.saturating_sub(of(synced))
}

#[test]
fn what_is_done_is_on_the_disk() {
    for &kind in crate::support::kinds() {
        let server = servers::start(&durable(kind));
        record(&server);
        let mut desk = Desk::new();
        for (durability, binlog) in [
            ("relaxed", "keep"),
            ("disposable", "keep"),
            ("disposable", "off"),
        ] {
            desk.next();
            let more = ["--durability", durability, "--binlog", binlog];
            desk.load_text(dump(&table("items", ROWS)), &server, &more)
                .exits(0)
                .says("done and proven");
            let unsynced_redo = redo_ahead(&server);
            assert!(
                unsynced_redo < BY_ITSELF,
                "{kind}, {durability}: {unsynced_redo} bytes of redo log are not on the disk"
            );
            let (files, written) = unsynced(&server);
            assert!(written > 0, "{kind}: nothing was written to the binary log");
            assert_eq!(files, "", "{kind}, {durability}: not on the disk");
            assert_eq!(desk.rows(&server, "items"), Some(ROWS));
        }
    }
}

#[test]
fn a_log_that_the_account_may_not_bring_to_the_disk_is_reported() {
    let server = servers::start(&durable(ServerKind::MySql97));
    let desk = Desk::new();
    let url = format!(
        "mysql://loader@127.0.0.1:{}/",
        ask(&server, "SELECT @@port").trim()
    );
    ask(
        &server,
        "CREATE USER loader@'127.0.0.1' IDENTIFIED BY ''; GRANT ALL ON *.* TO loader@'127.0.0.1'; \
         REVOKE RELOAD, FLUSH_TABLES, SUPER ON *.* FROM loader@'127.0.0.1'",
    );
    let file = desk.file("dump.sql", dump(&table("items", 100)));
    let command = desk.load_command(&file, &url, &["--durability", "relaxed"]);
    crate::support::finish(command)
        .says("the server's binary log was not flushed to disk")
        .never_says("redo log was not");
}
