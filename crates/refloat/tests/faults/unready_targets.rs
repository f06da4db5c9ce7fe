//! Servers that keep a load from starting: privileges, existing objects, read-only mode, the wrong
//! server.

// Hazard of faults: L-139 a target that is not empty; statements that would remove its rows | ,
//   `midway`
// Hazard of faults: L-142 read-only servers; missing privileges, all named at once

use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::servers;
use refloat_testkit::stop::StopOnDrop;

use crate::support::{
    BOTH, Desk, ask, assert_same_settings, dump, finish, settings, shared, table, wide_table,
};

/// The server's URL for another account.
fn url_of(server: &Instance, user: &str) -> String {
    server.url().replace("root@", &format!("{user}@"))
}

#[test]
fn all_missing_privileges_are_named_before_anything_is_touched() {
    let all = [
        "SELECT",
        "INSERT",
        "CREATE",
        "DROP",
        "ALTER",
        "INDEX",
        "REFERENCES",
        "TRIGGER",
        "CREATE VIEW",
        "CREATE ROUTINE",
        "ALTER ROUTINE",
        "EVENT",
    ];
    let body = format!(
        "{}/*!50001 CREATE VIEW `v` AS SELECT 1 AS `a` */;\nDELIMITER ;;\nCREATE TRIGGER `tr` BEFORE UPDATE ON `items` FOR EACH ROW SET NEW.n = 1 ;;\n\
         CREATE PROCEDURE `p`() BEGIN SELECT 1; END ;;\nCREATE EVENT `e` ON SCHEDULE EVERY 1 YEAR DO SELECT 1 ;;\nDELIMITER ;\n",
        table("items", 20)
    );
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        let user = format!("p_{}", desk.db);
        ask(server, &format!("CREATE USER {user}@'%'"));
        let file = desk.file("dump.sql", dump(&body));
        for missing in [
            &all[..1],
            &all[1..2],
            &all[3..6],
            &all[6..8],
            &all[8..],
            &all[..],
        ] {
            desk.next();
            let granted: Vec<&str> = all
                .iter()
                .copied()
                .filter(|one| !missing.contains(one))
                .collect();
            if !granted.is_empty() {
                ask(
                    server,
                    &format!(
                        "GRANT {} ON {}.* TO {user}@'%'",
                        granted.join(", "),
                        desk.db
                    ),
                );
            }
            let mut run = finish(desk.load_command(&file, &url_of(server, &user), &[]))
                .exits(3)
                .says("nothing was touched")
                .says(&desk.db);
            for privilege in missing {
                run = run.says(privilege);
            }
            assert_eq!(
                desk.ask(
                    server,
                    "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name='@db'"
                ),
                "0"
            );
            // The hint is a statement that can be pasted.
            let grant = run
                .stderr
                .lines()
                .find_map(|line| line.strip_prefix("hint: GRANT"))
                .unwrap_or_else(|| panic!("no GRANT in {}", run.stderr));
            ask(server, &format!("GRANT{}", grant.trim_end_matches(';')));
            let load = || finish(desk.load_command(&file, &url_of(server, &user), &[]));
            let trusted = ask(
                server,
                "SELECT @@log_bin = 0 OR @@log_bin_trust_function_creators",
            );
            if trusted != "1" {
                // With the binary log on, creating a trigger takes more if the account lacks SUPER.
                load().exits(3).says("log_bin_trust_function_creators");
                ask(server, &format!("GRANT SUPER ON *.* TO {user}@'%'"));
            }
            load().exits(0);
            assert_eq!(desk.rows(server, "items"), Some(20));
            if trusted != "1" {
                ask(server, &format!("REVOKE SUPER ON *.* FROM {user}@'%'"));
            }
        }
        ask(server, &format!("DROP USER {user}@'%'"));
    }
}

#[test]
fn an_account_with_no_more_than_it_needs_loads_by_every_path() {
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        let user = format!("q_{}", desk.db);
        ask(server, &format!("CREATE USER {user}@'%'"));
        for path in ["auto", "load-data", "insert"] {
            desk.next();
            ask(
                server,
                &format!(
                    "GRANT SELECT, INSERT, CREATE, DROP, ALTER, INDEX, REFERENCES ON {}.* TO {user}@'%'",
                    desk.db
                ),
            );
            let file = desk.file("dump.sql", dump(&table("items", 1000)));
            finish(desk.load_command(&file, &url_of(server, &user), &["--write-path", path]))
                .exits(0);
            assert_eq!(desk.rows(server, "items"), Some(1000));
        }
        ask(server, &format!("DROP USER {user}@'%'"));
    }
}

#[test]
fn what_is_there_already_is_not_touched_unless_asked() {
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        let text = dump(&table("items", 30));
        let plain = desk.file("dump.sql", &text);
        let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
        let make = |desk: &Desk| {
            desk.ask(server, "CREATE DATABASE @db");
            desk.ask(server, "CREATE TABLE @db.other (a int)");
            desk.ask(server, "CREATE TABLE @db.items (a int)");
            desk.ask(server, "INSERT INTO @db.items VALUES (7)");
        };
        make(&desk);
        for source in [&plain, &packed] {
            let run = desk.load(source, server, &[]).exits(3);
            run.says(&desk.db)
                .says("is not empty")
                .says("items")
                .says("--replace")
                .says("--append");
            assert_eq!(
                desk.ask(server, "SELECT a FROM @db.items"),
                "7",
                "it was touched"
            );
        }
        // A table with another definition cannot be added to.
        desk.load(&plain, server, &["--append"])
            .exits(3)
            .says("the existing table differs");
        assert_eq!(
            desk.ask(server, "SELECT a FROM @db.items"),
            "7",
            "it was touched"
        );
        desk.load(&plain, server, &["--replace"]).exits(0);
        assert_eq!(desk.rows(server, "items"), Some(30));
        assert_eq!(
            desk.rows(server, "other"),
            Some(0),
            "a table that the dump does not hold stays"
        );
        // One with the same definition can, except for duplicate keys.
        desk.load(&plain, server, &["--append"])
            .exits(1)
            .says("1062")
            .says("dump.sql");
        assert_eq!(desk.rows(server, "items"), Some(30));
        desk.ask(server, "DELETE FROM @db.items WHERE id <= 30");
        desk.ask(server, "INSERT INTO @db.items VALUES (100,'x',1)");
        desk.load(&plain, server, &["--append"]).exits(0);
        assert_eq!(desk.rows(server, "items"), Some(31));
        // Rows would fire a trigger that the dump does not know.
        desk.ask(server, "DELETE FROM @db.items");
        desk.ask(
            server,
            "CREATE TRIGGER @db.tr BEFORE INSERT ON @db.items FOR EACH ROW SET NEW.n = 0",
        );
        desk.load(&plain, server, &["--append"])
            .exits(3)
            .says("trigger");
        assert_eq!(desk.rows(server, "items"), Some(0));
        desk.next();
    }
}

#[test]
fn a_server_with_other_databases_keeps_its_durability_unless_asked() {
    for kind in BOTH {
        let server = servers::start(&refloat_sandbox::StartOptions::new(kind));
        let mut desk = Desk::new();
        let file = desk.file("dump.sql", dump(&wide_table("items", 3000)));
        let before = settings(&server);
        desk.load(&file, &server, &["--durability", "keep"])
            .exits(0)
            .says("nothing was changed on the server");
        desk.ask(&server, "DROP DATABASE @db");
        // The server now holds nothing else.
        desk.load(&file, &server, &[])
            .exits(0)
            .says("innodb_flush_log_at_trx_commit: 1 -> ")
            .says("all put back");
        assert_same_settings(&before, &server);
        desk.next();
        // Now it holds the first database.
        desk.load(&file, &server, &[])
            .exits(0)
            .says("nothing was changed on the server");
        desk.next();
        desk.load(&file, &server, &["--durability", "relaxed"])
            .exits(0)
            .says("innodb_flush_log_at_trx_commit: 1 -> ")
            .says("all put back");
        assert_same_settings(&before, &server);
        desk.next();
        let run = desk
            .load(&file, &server, &["--durability", "disposable"])
            .exits(0)
            .says("all put back");
        if !kind.is_mariadb() {
            run.says("redo");
        }
        assert_same_settings(&before, &server);
    }
}

/// What a dump of rows only is loaded into stays as it is, and so does a table with --append.
#[test]
fn rows_that_would_fire_triggers_are_refused_before_anything_is_touched() {
    let rows = dump("INSERT INTO first VALUES (1);\nINSERT INTO last VALUES (1);\n");
    let whole = dump(
        "CREATE TABLE first (a int);\nINSERT INTO first VALUES (1);\nCREATE TABLE last (a int);\nINSERT INTO last VALUES (1);\n",
    );
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        for (text, more) in [
            (&rows, &[][..]),
            (&rows, &["--append"]),
            (&whole, &["--append"]),
        ] {
            desk.next();
            desk.ask(server, "CREATE DATABASE @db");
            for table in ["first", "last"] {
                desk.ask(server, &format!("CREATE TABLE @db.{table} (a int)"));
            }
            let fires =
                "CREATE TRIGGER @db.fires BEFORE INSERT ON @db.last FOR EACH ROW SET NEW.a = 2";
            desk.ask(server, fires);
            let plain = desk.file("dump.sql", text);
            let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
            let planned = [more, &["--plan"]].concat();
            for (source, options) in [(&plain, &planned[..]), (&plain, more), (&packed, &planned)] {
                desk.load(source, server, options)
                    .exits(3)
                    .says("would fire: fires");
                assert_eq!(desk.ask(server, "SELECT COUNT(*) FROM @db.first"), "0");
            }
        }
        // The table with the trigger goes before the rows come.
        desk.next();
        desk.ask(server, "CREATE DATABASE @db");
        desk.ask(server, "CREATE TABLE @db.t (a int)");
        let fires = "CREATE TRIGGER @db.fires BEFORE INSERT ON @db.t FOR EACH ROW SET NEW.a = 2";
        desk.ask(server, fires);
        let renamed = dump(
            "CREATE TABLE t_new (a int);\nDROP TABLE t;\nRENAME TABLE t_new TO t;\nINSERT INTO t VALUES (1);\n",
        );
        desk.load_text(renamed, server, &["--replace"]).exits(0);
        assert_eq!(desk.ask(server, "SELECT a FROM @db.t"), "1");
    }
}

#[test]
fn an_account_with_too_few_connections_is_refused_before_anything_is_touched() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = servers::start(&refloat_sandbox::StartOptions::new(kind));
        let file = desk.file("dump.sql", dump(&table("items", 5)));
        ask(&server, "CREATE USER few@'%' WITH MAX_USER_CONNECTIONS 3");
        ask(&server, "GRANT ALL ON *.* TO few@'%'");
        let load = |threads| {
            let options = ["--threads", threads];
            finish(desk.load_command(&file, &url_of(&server, "few"), &options))
        };
        load("2")
            .exits(3)
            .says("may have 3 connections at a time, and this load needs 4")
            .says("--threads 1 needs no more");
        assert_eq!(desk.tables(&server), 0);
        load("1").exits(0);
        ask(&server, "ALTER USER few@'%' WITH MAX_USER_CONNECTIONS 1");
        let url = url_of(&server, "few");
        let out = desk.path("out");
        let taken = desk.refloat(["dump", "--from", &url, "--out", out.to_str().unwrap()]);
        finish(taken).exits(1).says("fewer --threads need fewer");
    }
}

/// Applications make and drop databases while the load looks whether the server holds any.
#[test]
fn databases_that_come_and_go_meanwhile_keep_no_load_from_starting() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = servers::start(&refloat_sandbox::StartOptions::new(kind));
        let file = desk.file("dump.sql", dump(&table("items", 5)));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            for thread in 0..4 {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || {
                    let mut session = servers::connect(server);
                    while !stop.load(Ordering::Relaxed) {
                        for what in ["CREATE", "DROP"] {
                            session
                                .exec(format!("{what} DATABASE passing{thread}"))
                                .unwrap();
                        }
                    }
                });
            }
            for _ in 0..25 {
                desk.load(&file, &server, &["--replace"]).exits(0);
            }
        });
    }
}

#[test]
fn a_read_only_server_is_refused() {
    let server = servers::start(
        &refloat_sandbox::StartOptions::new(ServerKind::MySql97).option("super_read_only", "1"),
    );
    let desk = Desk::new();
    desk.load_text(dump(&table("items", 5)), &server, &[])
        .exits(3)
        .says("read-only")
        .says("hint: ");
    drop(server);
    let server = servers::start(
        &refloat_sandbox::StartOptions::new(ServerKind::MariaDb1011).option("read_only", "1"),
    );
    ask(&server, "CREATE USER w@'%'");
    ask(&server, "GRANT ALL ON *.* TO w@'%'");
    ask(&server, "REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM w@'%'");
    let file = desk.file("dump.sql", dump(&table("items", 5)));
    finish(desk.load_command(&file, &url_of(&server, "w"), &[]))
        .exits(3)
        .says("read-only");
}

/// Forwards connections like a load balancer. The first two (the check for a cluster node and the
/// load's first one) go to one server, all others to another.
fn switching_forwarder(first: u16, rest: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicU32::new(0));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { continue };
            let target = if count.fetch_add(1, Ordering::Relaxed) < 2 {
                first
            } else {
                rest
            };
            let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else {
                continue;
            };
            for (mut from, mut to) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ] {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    port
}

#[test]
fn connections_that_reach_another_server_are_refused() {
    let one = shared(ServerKind::MariaDb1011);
    let other = servers::start(&servers::quick(ServerKind::MariaDb1011));
    let desk = Desk::new();
    let port = switching_forwarder(one.port(), other.port());
    let file = desk.file("dump.sql", dump(&table("items", 2000)));
    let run =
        finish(desk.load_command(&file, &format!("mysql://root@127.0.0.1:{port}/"), &[])).exits(1);
    run.says("another server");
    assert_eq!(desk.tables(&other), 0, "rows went to the wrong server");
}
