//! Commits whose acknowledgement is lost, and commits that never happened: which rows are in, and
//! that none is in twice.

use refloat_sandbox::{Ephemeral, ServerKind, StartOptions};
use refloat_testkit::servers;

use crate::cutting_proxy::Cutter;
use crate::support::{BOTH, Desk, dump, finish, slow, table};

/// Which commits are lost, one for each load: the first ones and later ones.
fn commits() -> &'static [u64] {
    if slow() { &[1, 2, 5, 9] } else { &[1, 5] }
}

fn server(kind: ServerKind) -> Ephemeral {
    servers::start(&StartOptions::new(kind))
}

#[test]
fn a_commit_whose_answer_is_lost_is_not_done_twice() {
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        // Without a key, only the marks prevent duplicate rows.
        let text = dump(&table("items", 6000).replace("PRIMARY KEY (`id`)", "KEY `id` (`id`)"));
        let file = desk.file("dump.sql", text);
        for &lost in commits() {
            let cutter = Cutter::start(&server, b"COMMIT", lost);
            finish(desk.load_command(
                &file,
                &cutter.url(),
                &["--chunk-rows", "500", "--threads", "2", "--replace"],
            ))
            .exits(0)
            .says("a connection was lost");
            assert!(cutter.has_cut(), "the commit {lost} did not come");
            assert_eq!(desk.rows(&server, "items"), Some(6000), "commit {lost}");
            let twice = desk.ask(
                &server,
                "SELECT COUNT(*) FROM (SELECT id FROM @db.items GROUP BY id HAVING COUNT(*) > 1) AS t",
            );
            assert_eq!(twice, "0", "commit {lost}");
        }
    }
}

#[test]
fn rows_that_are_gone_after_their_commit_are_written_again() {
    const AGAIN: &str = "as committed, but they are missing: writing them again";
    for kind in BOTH {
        let server = server(kind);
        let desk = Desk::new();
        let text = dump(&table("items", 6000));
        let file = desk.file("dump.sql", &text);
        for &undone in commits() {
            let cutter = Cutter::undoing(&server, undone);
            finish(desk.load_command(
                &file,
                &cutter.url(),
                &["--chunk-rows", "500", "--threads", "2", "--replace"],
            ))
            .exits(0)
            .says(AGAIN);
            assert!(cutter.has_cut(), "the commit {undone} did not come");
            assert_eq!(desk.rows(&server, "items"), Some(6000), "commit {undone}");
        }
        // The commit of the rest of a chunk, after its refused row has been found.
        let file = desk.file("refused.sql", text.replacen("\n(3,", "\n(2,", 1));
        let cutter = Cutter::undoing(&server, 1);
        finish(desk.load_command(
            &file,
            &cutter.url(),
            &["--threads", "1", "--replace", "--on-error", "continue"],
        ))
        .exits(1)
        .says(AGAIN);
        assert!(cutter.has_cut(), "no commit came");
        assert_eq!(desk.rows(&server, "items"), Some(5999));
    }
}

#[test]
fn rows_that_are_gone_after_every_commit_end_the_load() {
    let server = server(ServerKind::MariaDb1011);
    let desk = Desk::new();
    let file = desk.file("dump.sql", dump(&table("items", 6000)));
    let cutter = Cutter::undoing_all(&server);
    finish(desk.load_command(&file, &cutter.url(), &["--threads", "1"]))
        .exits(1)
        .says("rows of table")
        .says("are missing, although the server reported them as committed")
        .says("past any proxy");
    assert_eq!(desk.rows(&server, "items"), Some(0));
}
