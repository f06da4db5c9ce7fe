//! Dumps taken on a replica: the positions they give in the logs of its sources must be those of
//! their rows.

// Hazard of dumps: L-117 where a replica stood in its sources' logs: parallel appliers with and
//   without gaps, several sources, what it does not log itself; a replica attached there ends up
//   equal

use refloat_sandbox::{Ephemeral, Instance, ServerKind, StartOptions};
use refloat_testkit::servers;
use refloat_testkit::wait_until;
use serde_json::Value;

use crate::replicas::{catches_up, fill, port, while_written};
use crate::support::{Desk, Run, ask, finish};

/// Transactions that write concurrently.
const WRITERS: usize = 4;

/// Where a replica starts reading.
enum At<'a> {
    /// File name and offset in bytes.
    Place(&'a str, u64),
    /// The GTID position that the replica already has.
    Gtid,
}

/// Options for a server without GTIDs, where they can be turned off.
fn options(kind: ServerKind, number: u8) -> StartOptions {
    let options = servers::quick(kind).option("server_id", number.to_string());
    if kind.is_mariadb() {
        return options;
    }
    options
        .option("gtid_mode", "OFF")
        .option("enforce_gtid_consistency", "OFF")
}

/// Starts a server to replicate from.
fn primary(kind: ServerKind, number: u8) -> Ephemeral {
    let options = options(kind, number);
    servers::start(&if kind.is_mariadb() {
        options
            .option("log_bin", "binlog")
            .option("gtid_domain_id", number.to_string())
    } else {
        options
    })
}

/// Makes `replica` replicate from `primary` in a channel of its own.
fn attach(replica: &Instance, primary: &Instance, channel: &str, at: &At<'_>) {
    let port = port(primary);
    let sql = if replica.kind().is_mariadb() {
        let at = match at {
            At::Place(file, byte) => format!("MASTER_LOG_FILE='{file}', MASTER_LOG_POS={byte}"),
            At::Gtid => "MASTER_USE_GTID=slave_pos".to_owned(),
        };
        format!(
            "CHANGE MASTER '{channel}' TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', {at}, MASTER_CONNECT_RETRY=1; \
             START SLAVE '{channel}'"
        )
    } else {
        let at = match at {
            At::Place(file, byte) => format!("SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS={byte}"),
            At::Gtid => "SOURCE_AUTO_POSITION=1".to_owned(),
        };
        format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='root', {at}, SOURCE_CONNECT_RETRY=1, \
             GET_SOURCE_PUBLIC_KEY=1 FOR CHANNEL '{channel}'; START REPLICA FOR CHANNEL '{channel}'"
        )
    };
    ask(replica, &sql);
}

/// Stops all replication of a server and resets it.
fn detach(replica: &Instance, channels: &[&str]) {
    for channel in channels {
        ask(
            replica,
            &if replica.kind().is_mariadb() {
                format!("STOP SLAVE '{channel}'; RESET SLAVE '{channel}' ALL")
            } else {
                format!(
                    "STOP REPLICA FOR CHANNEL '{channel}'; RESET REPLICA ALL FOR CHANNEL '{channel}'"
                )
            },
        );
    }
}

/// The start of the primary's log.
fn from_the_beginning(primary: &Instance) -> (String, u64) {
    let file = ask(primary, "SHOW BINARY LOGS");
    let file = file.split('\t').next().unwrap().to_owned();
    (file, 4)
}

/// Dumps the replica while its sources are written to and it applies their changes. Returns the
/// manifest's `snapshot`, and the run.
fn dumped(desk: &Desk, replica: &Instance, name: &str) -> (Value, Run) {
    let folder = desk.path(name);
    let mut dump = desk.refloat(["dump", "--from", &replica.url(), "--threads", "4", "--out"]);
    dump.arg(&folder);
    let run = finish(dump).exits(0);
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    (manifest["snapshot"].clone(), run)
}

/// Loads the dump into an empty server.
fn restored(desk: &Desk, name: &str, fresh: &Instance, databases: &[&str]) {
    for db in databases {
        ask(fresh, &format!("DROP DATABASE IF EXISTS {db}"));
    }
    let mut load = desk.refloat(["load", "--to", &fresh.url(), "--durability", "keep"]);
    load.arg(desk.path(name));
    finish(load).exits(0);
    // One moment: every transaction leaves one row in each of the two tables.
    for db in databases {
        let sums =
            format!("SELECT (SELECT SUM(n) FROM {db}.counter) = (SELECT COUNT(*) FROM {db}.log)");
        assert_eq!(ask(fresh, &sums).trim(), "1", "{}: torn", fresh.kind());
    }
}

fn place(of: &Value) -> At<'_> {
    At::Place(
        of["file"].as_str().expect("its file"),
        of["position"].as_u64().expect("its byte"),
    )
}

#[test]
fn the_position_of_a_parallel_replica_of_mysql_is_that_of_its_rows_or_is_not_kept() {
    let kind = ServerKind::MySql97;
    let (one, replica, fresh) = (
        primary(kind, 1),
        servers::start(&options(kind, 2).option("replica_parallel_workers", "4")),
        servers::start(&options(kind, 3)),
    );
    let desk = Desk::new();
    fill(&one, &desk.db);
    let (file, byte) = from_the_beginning(&one);
    for (number, (workers, ordered)) in [(4, true), (4, false), (0, true)].iter().enumerate() {
        detach_all(&replica, &desk.db);
        ask(
            &replica,
            &format!(
                "SET GLOBAL replica_parallel_workers = {workers}; SET GLOBAL replica_preserve_commit_order = {ordered}"
            ),
        );
        attach(&replica, &one, "", &At::Place(&file, byte));
        let name = format!("dump-{number}");
        let (snapshot, run) = while_written(&one, &desk.db, WRITERS, || {
            applies(&replica, &desk.db);
            dumped(&desk, &replica, &name)
        });
        let of = &snapshot["replica_of"][0];
        restored(&desk, &name, &fresh, &[&desk.db]);
        if *ordered {
            attach(&fresh, &one, "", &place(of));
            catches_up(&one, &fresh, &desk.db);
            detach(&fresh, &[""]);
        } else {
            assert_eq!((&of["file"], &of["position"]), (&Value::Null, &Value::Null));
            assert!(of["not_kept"].as_str().unwrap().contains("gaps"), "{of}");
            run.says("is not kept: transactions are applied in parallel");
        }
        catches_up(&one, &replica, &desk.db);
    }
}

/// Removes the only channel and everything that arrived through it.
fn detach_all(replica: &Instance, db: &str) {
    ask(
        replica,
        &format!("STOP REPLICA; RESET REPLICA ALL; DROP DATABASE IF EXISTS {db}"),
    );
}

/// Waits until rows arrive by replication.
fn applies(replica: &Instance, db: &str) {
    let there = format!(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{db}' AND TABLE_NAME = 'log'"
    );
    wait_until("the tables are replicated", || {
        ask(replica, &there).trim() == "1"
    });
    let rows = format!("SELECT COUNT(*) FROM {db}.log");
    wait_until("rows are replicated", || {
        ask(replica, &rows).trim().parse::<u64>().unwrap() > 50
    });
}

#[test]
fn gtids_of_a_replica_of_mysql_have_the_gaps_of_its_rows() {
    let kind = ServerKind::MySql97;
    let start = |number| {
        servers::start(
            &options(kind, number)
                .option("gtid_mode", "ON")
                .option("enforce_gtid_consistency", "ON")
                .option("replica_parallel_workers", "4")
                .option("replica_preserve_commit_order", "OFF"),
        )
    };
    let (one, replica, fresh) = (start(1), start(2), start(3));
    let desk = Desk::new();
    fill(&one, &desk.db);
    attach(&replica, &one, "", &At::Gtid);
    let (snapshot, run) = while_written(&one, &desk.db, WRITERS, || {
        applies(&replica, &desk.db);
        dumped(&desk, &replica, "dump")
    });
    run.never_says("is not kept");
    assert_eq!(snapshot["replica_of"][0]["by_gtid"], true);
    restored(&desk, "dump", &fresh, &[&desk.db]);
    let gtid = snapshot["gtid"].as_str().unwrap();
    ask(
        &fresh,
        &format!("RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{gtid}'"),
    );
    attach(&fresh, &one, "", &At::Gtid);
    catches_up(&one, &fresh, &desk.db);
}

/// A replica with two sources that does not log what it replicates, which is the default.
#[test]
fn gtids_of_a_parallel_replica_of_mariadb_are_those_of_its_rows_for_each_of_its_sources() {
    let kind = ServerKind::MariaDb1011;
    let (one, two) = (primary(kind, 1), primary(kind, 2));
    let replica = servers::start(
        &options(kind, 3)
            .option("log_bin", "binlog")
            .option("slave_parallel_threads", "4")
            .option("slave_parallel_mode", "optimistic"),
    );
    let fresh = servers::start(&options(kind, 4));
    let mut desk = Desk::new();
    let first = desk.db.clone();
    let second = desk.next().to_owned();
    fill(&one, &first);
    fill(&two, &second);
    for (primary, channel) in [(&one, "one"), (&two, "two")] {
        attach(&replica, primary, channel, &At::Gtid);
    }
    let (snapshot, run) = while_written(&one, &first, WRITERS, || {
        while_written(&two, &second, WRITERS, || {
            applies(&replica, &first);
            applies(&replica, &second);
            dumped(&desk, &replica, "dump")
        })
    });
    run.never_says("is not kept");
    let sources = snapshot["replica_of"].as_array().unwrap();
    assert_eq!(sources.len(), 2);
    for of in sources {
        // The server's read position is not that of its rows.
        assert_eq!(
            (&of["file"], &of["by_gtid"]),
            (&Value::Null, &Value::Bool(true))
        );
    }
    let gtids = snapshot["gtid_slave_pos"].as_str().unwrap();
    assert!(gtids.contains("1-1-") && gtids.contains("2-2-"), "{gtids}");
    restored(&desk, "dump", &fresh, &[&first, &second]);
    ask(&fresh, &format!("SET GLOBAL gtid_slave_pos = '{gtids}'"));
    for (primary, channel) in [(&one, "one"), (&two, "two")] {
        attach(&fresh, primary, channel, &At::Gtid);
    }
    catches_up(&one, &fresh, &first);
    catches_up(&two, &fresh, &second);

    // With replication stopped there is a single position; for a single source, file and offset are
    // recorded too.
    detach(&replica, &["two"]);
    detach(&fresh, &["one", "two"]);
    ask(
        &replica,
        "STOP SLAVE 'one'; DELETE FROM mysql.gtid_slave_pos WHERE domain_id = 2",
    );
    let (snapshot, _) = dumped(&desk, &replica, "rest");
    while_written(&one, &first, WRITERS, || ());
    restored(&desk, "rest", &fresh, &[&first, &second]);
    attach(&fresh, &one, "", &place(&snapshot["replica_of"][0]));
    catches_up(&one, &fresh, &first);
}

#[test]
fn every_channel_of_a_replica_of_mysql_has_its_position() {
    let kind = ServerKind::MySql97;
    let (one, two) = (primary(kind, 1), primary(kind, 2));
    let (replica, fresh) = (
        servers::start(&options(kind, 3)),
        servers::start(&options(kind, 4)),
    );
    let mut desk = Desk::new();
    let first = desk.db.clone();
    let second = desk.next().to_owned();
    fill(&one, &first);
    fill(&two, &second);
    for (primary, channel) in [(&one, "one"), (&two, "two")] {
        let (file, byte) = from_the_beginning(primary);
        attach(&replica, primary, channel, &At::Place(&file, byte));
    }
    let (snapshot, _) = while_written(&one, &first, WRITERS, || {
        while_written(&two, &second, WRITERS, || {
            applies(&replica, &first);
            applies(&replica, &second);
            dumped(&desk, &replica, "dump")
        })
    });
    restored(&desk, "dump", &fresh, &[&first, &second]);
    for (primary, channel, db) in [(&one, "one", &first), (&two, "two", &second)] {
        let sources = snapshot["replica_of"].as_array().unwrap();
        let of = sources.iter().find(|of| of["channel"] == channel).unwrap();
        attach(&fresh, primary, channel, &place(of));
        catches_up(primary, &fresh, db);
    }
}
