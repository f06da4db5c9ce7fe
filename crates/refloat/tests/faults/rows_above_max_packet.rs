//! Rows larger than the source's own `max_allowed_packet`: each column fits, but neither all of
//! them together nor the text form of some.

// Hazard of dumps: L-30 a row larger than the source's `max_allowed_packet`, values whose text is:
//   dumped, as SQL, copied, compared

use refloat_sandbox::{Instance, ServerKind};
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;

use crate::support::{Desk, Run, ask, finish};

/// The limit of the source, in bytes.
const LIMIT: usize = 1 << 20;

/// A server with this limit.
fn server(kind: ServerKind, limit: usize) -> refloat_sandbox::Ephemeral {
    servers::start(&servers::quick(kind).option("max_allowed_packet", limit.to_string()))
}

/// Four columns of 900 kB in a row of 3.6 MB, one column whose bytes are all written as two, and
/// one whose hexadecimal form exceeds the limit.
fn fill(desk: &Desk, server: &Instance) {
    let roomy = 64 << 20;
    ask(server, &format!("SET GLOBAL max_allowed_packet = {roomy}"));
    let (more, values) = match server.kind() {
        // 12 bytes each inside the server, 20 as text.
        ServerKind::MySql97 => (
            ", j JSON",
            ", CONCAT('[', REPEAT('0.1234567890123456, ', 70000), '1]')",
        ),
        _ => (
            ", j LONGTEXT COMPRESSED",
            ", REPEAT('compressible ', 75000)",
        ),
    };
    desk.ask(
        server,
        &format!(
            "CREATE DATABASE @db; USE @db; CREATE TABLE wide (id INT PRIMARY KEY, a LONGTEXT, b LONGBLOB, c LONGTEXT, d LONGBLOB{more}) \
             DEFAULT CHARSET utf8mb4; \
             INSERT INTO wide VALUES (1, 'a', 'b', 'c', 'd', NULL), (2, REPEAT('x', 900000), REPEAT(x'09', 900000), REPEAT('\\\\', 900000), \
             REPEAT(x'00ff27', 300000){values}), (3, 'e', 'f', 'g', 'h', NULL); \
             SET GLOBAL max_allowed_packet = {LIMIT}"
        ),
    );
}

fn snapshot(server: &Instance) -> Snapshot {
    Snapshot::take(&mut servers::connect(server), Scope::default()).unwrap()
}

#[track_caller]
fn same(from: &Instance, to: &Instance) {
    // The oracle asks for hexadecimal digits, and the server returns NULL if there are too many.
    let limits = [from, to].map(|server| ask(server, "SELECT @@GLOBAL.max_allowed_packet"));
    for server in [from, to] {
        ask(server, "SET GLOBAL max_allowed_packet = 67108864");
    }
    let found = differences(&snapshot(from), &snapshot(to));
    for (server, limit) in [from, to].iter().zip(limits) {
        ask(server, &format!("SET GLOBAL max_allowed_packet = {limit}"));
    }
    assert!(found.is_empty(), "{}", found[0]);
}

#[test]
fn rows_larger_than_the_packets_of_their_server_are_dumped_copied_and_compared() {
    for &kind in crate::support::kinds() {
        let (source, target) = (server(kind, LIMIT), server(kind, 64 << 20));
        let desk = Desk::new();
        fill(&desk, &source);
        let run = |args: &[&str]| -> Run { finish(desk.refloat(args)) };
        let empty = || ask(&target, &format!("DROP DATABASE {}", desk.db));
        let (from, to) = (source.url(), target.url());

        if !kind.is_mariadb() {
            ask(&source, "SET GLOBAL max_allowed_packet = 67108864");
            run(&["dump", "--from", &from, "--out", "whole"]).exits(0);
            ask(&source, &format!("SET GLOBAL max_allowed_packet = {LIMIT}"));
            // MySQL sends NULL, with a warning, for JSON whose text is too large.
            for args in [
                &["dump", "--from", &from, "--out", "cut"][..],
                &[
                    "dump", "--from", &from, "--format", "sql", "--out", "cut.sql",
                ],
                &["verify", "whole", &from],
                &["copy", "--from", &from, "--to", &to],
            ] {
                run(args)
                    .exits(1)
                    .says(&format!(
                        "table {}.wide: a value is larger as text",
                        desk.db
                    ))
                    .says(&format!("max_allowed_packet of {LIMIT} bytes"))
                    .says("SET GLOBAL max_allowed_packet");
            }
            empty();
            desk.ask(&source, "UPDATE @db.wide SET j = NULL");
        }

        run(&["dump", "--from", &from, "--out", "folder"]).exits(0);
        run(&["load", "folder", "--to", &to, "--durability", "keep"]).exits(0);
        same(&source, &target);
        run(&["verify", &from, &to]).exits(0);
        run(&["verify", "folder", &from]).exits(0);
        empty();

        // The stock client restores it if the limit is high enough, and the dump says how high.
        run(&[
            "dump", "--from", &from, "--format", "sql", "--out", "dump.sql",
        ])
        .exits(0)
        .says(&format!("table {}.wide: ", desk.db))
        .says("max_allowed_packet");
        let text = std::fs::read(desk.path("dump.sql")).unwrap();
        servers::client(&target, &["--max-allowed-packet=64M"], &text).unwrap();
        same(&source, &target);
        empty();

        run(&["copy", "--from", &from, "--to", &to, "--verify", "digest"]).exits(0);
        same(&source, &target);
        empty();

        // A target whose limit is too low for the row: the copy names the row, or gets it through.
        ask(&target, &format!("SET GLOBAL max_allowed_packet = {LIMIT}"));
        let copied = run(&["copy", "--from", &from, "--to", &to]);
        if copied.code == Some(0) {
            same(&source, &target);
        } else {
            copied
                .exits(1)
                .says(&format!(
                    "a row of table {}.wide needs a packet of ",
                    desk.db
                ))
                .says(&format!("max_allowed_packet is {LIMIT}"));
        }
    }
}
