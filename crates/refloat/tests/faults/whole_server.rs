//! Dumps of a whole server: its system schema, accounts, replication coordinates, GTIDs.

// Hazard of faults: L-86, S-08 a dump of everything: the server's own schema refused, left out,
//   loaded (all three servers)
// Hazard of faults: L-138 coordinates as comment and as statement, GTID_PURGED, nothing beside it
//   in the binary log

use std::path::Path;
use std::process::Stdio;

use refloat_sandbox::{Ephemeral, Instance, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;

use crate::support::{Desk, Run, ask, dump, finish, table};

/// What a dump of everything must bring back: rows, keys, programs, and an account with its grants.
const SOURCE: &str = "
CREATE DATABASE shop; USE shop;
CREATE TABLE kinds (id int NOT NULL PRIMARY KEY, name varchar(20)) ENGINE=InnoDB;
INSERT INTO kinds VALUES (1,'one'),(2,'two');
CREATE VIEW names AS SELECT name FROM kinds;
CREATE TRIGGER tr BEFORE INSERT ON kinds FOR EACH ROW SET NEW.name = 'fired';
CREATE FUNCTION f() RETURNS int DETERMINISTIC RETURN 7;
CREATE EVENT e ON SCHEDULE EVERY 1 YEAR STARTS '2035-01-01 00:00:00' DO SELECT 1;
CREATE USER 'app'@'localhost' IDENTIFIED BY 'sandbox-only';
GRANT SELECT, INSERT ON shop.* TO 'app'@'localhost';
GRANT UPDATE (name) ON shop.kinds TO 'app'@'localhost';
";

/// A server with a binary log, whose system schema may be replaced.
fn server(kind: ServerKind) -> Ephemeral {
    let options = servers::quick(kind).option("server_id", "7");
    servers::start(&if kind.is_mariadb() {
        options.option("log_bin", "binlog")
    } else {
        options
            .option("gtid_mode", "ON")
            .option("enforce_gtid_consistency", "ON")
    })
}

/// Runs a script with the stock client.
#[track_caller]
fn stock(server: &Instance, path: &Path) {
    let output = server
        .client_command()
        .unwrap()
        .stdin(Stdio::from(std::fs::File::open(path).unwrap()))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A dump by the server's own tool.
#[track_caller]
fn dumped(server: &Instance, args: &[&str]) -> String {
    let mut command = server.dump_command().unwrap();
    let output = command.args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("these dumps are text")
}

/// `refloat load` without a database: the dump names them.
fn load(desk: &Desk, source: &Path, server: &Instance, more: &[&str]) -> Run {
    let mut command = desk.refloat(["load"]);
    command.arg(source).args(["--to", &server.url()]).args(more);
    finish(command)
}

/// Removes what the dump must bring back.
fn take_away(server: &Instance) {
    ask(server, "DROP DATABASE IF EXISTS shop");
    ask(server, "DROP USER IF EXISTS 'app'@'localhost'");
    assert_eq!(accounts(server), "");
}

/// The account of the source with its privileges, as the server prints them.
fn accounts(server: &Instance) -> String {
    // The tools write this statement only on request.
    ask(server, "FLUSH NO_WRITE_TO_BINLOG PRIVILEGES");
    let there = "SELECT COUNT(*) FROM mysql.user WHERE user = 'app'";
    if ask(server, there) == "0" {
        return String::new();
    }
    let create = ask(server, "SHOW CREATE USER 'app'@'localhost'");
    create + "\n" + &ask(server, "SHOW GRANTS FOR 'app'@'localhost'")
}

fn snapshot(server: &Ephemeral) -> Snapshot {
    Snapshot::take(&mut servers::connect(server), Scope::default()).unwrap()
}

#[test]
fn a_dump_of_everything_with_and_without_the_servers_own_schema() {
    for &kind in crate::support::kinds() {
        let server = server(kind);
        let desk = Desk::new();
        // With GTIDs, enough rows that their indexes are still to be built after the dump's last
        // line.
        let rows = if kind.is_mariadb() { 2_000 } else { 130_000 };
        let source = format!("{SOURCE}{}", table("items", rows));
        stock(&server, &desk.file("source.sql", source));
        let everything = ["--all-databases", "--routines", "--events"];
        // Without GTIDs for the stock client, which could not load them into the same server again.
        let (plain, more): (Vec<&str>, &[&str]) = if kind.is_mariadb() {
            (everything.to_vec(), &[])
        } else {
            let off = everything.iter().copied().chain(["--set-gtid-purged=OFF"]);
            let more = &["--skip", "gtid-purged"];
            (off.collect(), more)
        };
        let for_stock = desk.file("plain.sql", dumped(&server, &plain));
        let text = dumped(&server, &everything);
        assert_eq!(
            text.contains("GTID_PURGED"),
            !kind.is_mariadb(),
            "{kind}: what the tool writes by default has changed"
        );
        let file = desk.file("all.sql", &text);

        take_away(&server);
        stock(&server, &for_stock);
        let (wanted, wanted_accounts) = (snapshot(&server), accounts(&server));
        assert!(wanted_accounts.contains("UPDATE"), "{wanted_accounts}");

        take_away(&server);
        let empty = snapshot(&server);
        load(&desk, &file, &server, more)
            .exits(3)
            .says("nothing was touched")
            .says("schema mysql")
            .says("--system-schema skip");
        assert!(differences(&empty, &snapshot(&server)).is_empty());

        for (choice, with_accounts) in [("skip", false), ("load", true)] {
            take_away(&server);
            let mut args = vec!["--system-schema", choice, "--durability", "keep"];
            args.extend(more);
            let executed = gtids(&server);
            let run = load(&desk, &file, &server, &args);
            let run = run.exits(0).says(if with_accounts && more.is_empty() {
                "done and proven"
            } else {
                "done, without what was left out on purpose"
            });
            assert_eq!(
                gtids(&server),
                executed,
                "{kind}: the dump keeps its statements out of the binary log"
            );
            if with_accounts {
                assert_eq!(accounts(&server), wanted_accounts, "{kind}");
            } else {
                run.says("left out on purpose").says("schema mysql");
                assert_eq!(accounts(&server), "", "{kind}");
            }
            let found = differences(&wanted, &snapshot(&server));
            assert!(found.is_empty(), "{kind} {choice}: {found:?}");
        }
    }
}

/// Executed GTIDs of a MySQL server; empty on MariaDB.
fn gtids(server: &Instance) -> String {
    if server.kind().is_mariadb() {
        return String::new();
    }
    ask(server, "SELECT @@GLOBAL.gtid_executed")
}

#[test]
fn replication_coordinates_and_gtids_are_left_out_or_run_as_asked() {
    for kind in [ServerKind::MariaDb118, ServerKind::MySql97] {
        let server = server(kind);
        let mut desk = Desk::new();
        stock(&server, &desk.file("source.sql", SOURCE));
        let (option, off, stop): (&str, &[&str], &str) = if kind.is_mariadb() {
            ("--master-data", &[], "SLAVE")
        } else {
            ("--source-data", &["--set-gtid-purged=OFF"], "REPLICA")
        };
        let with = |args: &[&str]| {
            let all: Vec<&str> = off.iter().chain(args).copied().chain(["shop"]).collect();
            dumped(&server, &all)
        };
        // In a comment, they are only information.
        let text = with(&[&format!("{option}=2")]);
        assert!(text.contains("\n-- CHANGE "), "{kind}");
        desk.load_text(&text, &server, &[])
            .exits(0)
            .says("done and proven")
            .never_says("left out");
        assert_eq!(desk.rows(&server, "kinds"), Some(2));

        // As a statement, they change the server.
        let text = with(&[&format!("{option}=1")]);
        assert!(text.contains("\nCHANGE "), "{kind}");
        desk.next();
        desk.load_text(&text, &server, &[])
            .exits(3)
            .says("CHANGE ")
            .says("--allow replication")
            .says("--skip replication");
        desk.next();
        desk.load_text(&text, &server, &["--skip", "replication"])
            .exits(0)
            .says("left out on purpose: 1")
            .says("CHANGE ");
        assert_eq!(desk.rows(&server, "kinds"), Some(2));

        // With the statements around them that a dump of a replica has.
        let body = text.replacen("CHANGE ", &format!("STOP {stop};\nCHANGE "), 1);
        let text = body.replace(
            "-- Dump completed",
            &format!("START {stop};\n-- Dump completed"),
        );
        desk.next();
        desk.load_text(&text, &server, &["--skip", "replication"])
            .exits(0)
            .says("left out on purpose: 3")
            .says(&format!("START {stop}"));
        assert_eq!(ask(&server, &format!("SHOW {stop} STATUS")), "", "{kind}");

        if kind.is_mariadb() {
            let text = with(&["--master-data=1", "--gtid"]);
            assert!(text.contains("SET GLOBAL gtid_slave_pos"), "{text}");
            desk.next();
            desk.load_text(&text, &server, &["--skip", "replication"])
                .exits(3)
                .says("gtid_slave_pos")
                .says("--skip global");
            desk.next();
            desk.load_text(
                &text,
                &server,
                &["--skip", "replication", "--skip", "global"],
            )
            .exits(0)
            .says("left out on purpose: 2");
        } else {
            gtid_purged(&mut desk, &server);
        }
    }
}

/// The default dump of a server with GTIDs.
fn gtid_purged(desk: &mut Desk, server: &Instance) {
    let uuid = ask(server, "SELECT @@server_uuid");
    let other = "11111111-2222-3333-4444-555555555555";
    // As if from another server, whose transactions are unknown here.
    let text = dumped(server, &["shop"]).replace(&uuid, other);
    assert!(text.contains("GTID_PURGED") && text.contains(other));
    desk.next();
    desk.load_text(&text, server, &[])
        .exits(3)
        .says("GTID_PURGED")
        .says("--allow gtid-purged")
        .says("--skip gtid-purged");
    desk.next();
    let before = gtids(server);
    desk.load_text(&text, server, &["--skip", "gtid-purged"])
        .exits(0)
        .says("left out on purpose: 1")
        .says("GTID_PURGED");
    assert!(!gtids(server).contains(other), "it was left out: {before}");
    assert_eq!(desk.rows(server, "kinds"), Some(2));
    desk.next();
    desk.load_text(&text, server, &["--allow", "gtid-purged"])
        .exits(0)
        .never_says("left out");
    assert!(gtids(server).contains(other), "it was to be run");
    assert_eq!(desk.rows(server, "kinds"), Some(2));
    // The server's own message when it refuses: it has these transactions by now.
    desk.next();
    desk.load_text(&text, server, &["--allow", "gtid-purged"])
        .exits(1)
        .says("GTID_PURGED");
}

#[test]
fn coordinates_of_a_replicas_source_are_a_comment() {
    let desk = Desk::new();
    let server = crate::support::shared(ServerKind::MariaDb1011);
    let text = dump(&format!(
        "--\n-- Position to start replication or point-in-time recovery from (the master of this slave)\n--\n\n\
         -- CHANGE MASTER TO MASTER_LOG_FILE='binlog.000004', MASTER_LOG_POS=157;\n{}",
        table("items", 10)
    ));
    desk.load_text(text, server, &[])
        .exits(0)
        .never_says("left out");
    assert_eq!(desk.rows(server, "items"), Some(10));
}
