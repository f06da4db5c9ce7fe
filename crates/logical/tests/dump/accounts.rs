//! Accounts of one server, dumped and loaded into a fresh one of its kind.

use std::fs;
use std::path::{Path, PathBuf};

use refloat_logical::dump::{DumpOptions, dump};
use refloat_logical::load::{LoadOptions, LoadOutcome, StatementClass, load};
use refloat_run::settings::Durability;
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{chain, servers};

const MARIADB: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];

fn run_in(state: &Path, name: &str) -> Run {
    Run {
        dir: RunDir::create(state, name).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

/// Dumps all of a server with its accounts; the folder.
fn dumped(server: &Ephemeral, state: &Path) -> PathBuf {
    let out = state.join("out");
    let mut options = DumpOptions::new(servers::target(server), &out);
    options.users = true;
    dump(&options, &run_in(state, "dump")).unwrap_or_else(|failure| {
        panic!("{}", chain(&failure.error));
    });
    out
}

/// Loads a dump, or the accounts of one.
fn loaded(server: &Ephemeral, source: &Path, state: &Path) -> LoadOutcome {
    let mut options = LoadOptions::new(source, servers::target(server));
    options.durability = Some(Durability::Keep);
    options.allow = vec![StatementClass::Accounts];
    load(&options, &run_in(state, "load")).unwrap_or_else(|failure| {
        panic!("{}: {}", source.display(), chain(&failure.error));
    })
}

/// Runs statements one by one.
fn ask(server: &Ephemeral, statements: &[&str]) {
    let mut conn = servers::connect(server);
    for sql in statements {
        conn.exec(sql)
            .unwrap_or_else(|error| panic!("{}: {sql}: {error}", server.name()));
    }
}

/// The first column of an answer, hashes in hexadecimal where they are no text.
fn shown(server: &Ephemeral, query: &str) -> Vec<String> {
    let mut conn = servers::connect(server);
    if !server.kind().is_mariadb() {
        conn.exec("SET SESSION print_identified_with_as_hex = ON")
            .unwrap();
    }
    let result = conn
        .query(query)
        .unwrap_or_else(|error| panic!("{}: {query}: {error}", server.name()));
    result.texts(0).map(str::to_owned).collect()
}

#[test]
fn what_everybody_may_do_comes_with_the_accounts() {
    for kind in MARIADB {
        let [from, to] = [(); 2].map(|()| servers::start(&servers::quick(kind)));
        ask(
            &from,
            &[
                "CREATE DATABASE d",
                "CREATE TABLE d.t (i INT PRIMARY KEY, j INT)",
                "CREATE ROLE reader",
                "GRANT SELECT ON d.* TO PUBLIC",
                "GRANT INSERT (i), UPDATE (j) ON d.t TO PUBLIC",
                "GRANT reader TO PUBLIC",
                // An account that is only called so.
                "CREATE USER 'PUBLIC'@'localhost' IDENTIFIED BY 'sandbox-only'",
                "GRANT DELETE ON d.t TO 'PUBLIC'@'localhost'",
            ],
        );
        let folder = tempfile::tempdir().unwrap();
        let out = dumped(&from, folder.path());
        let text = fs::read_to_string(out.join("users.sql")).unwrap();
        assert!(!text.contains("CREATE ROLE IF NOT EXISTS PUBLIC"), "{text}");
        loaded(&to, &out, folder.path());
        loaded(&to, &out.join("users.sql"), folder.path());
        for name in ["PUBLIC", "'PUBLIC'@'localhost'"] {
            let grants = format!("SHOW GRANTS FOR {name}");
            let wanted = shown(&from, &grants);
            assert!(wanted.len() > 1, "{kind}: {wanted:?}");
            assert_eq!(shown(&to, &grants), wanted, "{kind}");
        }
    }
}

#[test]
fn words_in_a_comment_are_no_clause() {
    let [from, to] = [(); 2].map(|()| servers::start(&servers::quick(ServerKind::MySql97)));
    ask(
        &from,
        &[
            "CREATE DATABASE d",
            "CREATE ROLE r",
            "CREATE USER a@localhost IDENTIFIED BY 'sandbox-only' COMMENT 'none: DEFAULT ROLE x REQUIRE y'",
            "CREATE USER b@localhost IDENTIFIED BY 'sandbox-only' DEFAULT ROLE r COMMENT '\\'s DEFAULT ROLE '",
            "CREATE USER `c DEFAULT ROLE d`@localhost IDENTIFIED BY 'sandbox-only'",
            "GRANT r TO b@localhost",
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let out = dumped(&from, folder.path());
    loaded(&to, &out.join("users.sql"), folder.path());
    for name in ["a", "b", "`c DEFAULT ROLE d`"] {
        let create = format!("SHOW CREATE USER {name}@localhost");
        assert_eq!(shown(&to, &create), shown(&from, &create));
    }
}
