//! Databases named `refloat` and `refloat_load` may hold a user's data. Those are data; Refloat's
//! own tables in them are not.

// Hazard of dumps: Users' own databases named `refloat` and `refloat_load`: dumped, loaded, copied,
//   compared, without Refloat's own tables in them; a server with one is not empty. Users' own
//   tables with the names of Refloat's: dumped and compared; a load that has no place for its own
//   beside them is refused

use std::fs;
use std::path::Path;

use refloat_copy::{CopyOptions, copy};
use refloat_load::{LoadOptions, LoadOutcome, load};
use refloat_run::settings::Durability;
use refloat_sandbox::{Ephemeral, Instance, ServerKind, StartOptions};
use refloat_source::read_manifest;
use refloat_testkit::oracle::{self, Scope, Snapshot};
use refloat_testkit::{chain, servers};

use crate::support::{at, compare, compare_with, folder, found, run, take, two};

/// The settings journal as Refloat creates it, beside the user's tables.
const JOURNAL: &str = "CREATE DATABASE IF NOT EXISTS refloat;\n\
    CREATE TABLE refloat.settings_journal (run VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, \
    journal LONGBLOB NOT NULL) ENGINE=InnoDB;\n";
/// A table of a load's progress marks.
const MARKS: &str = "CREATE DATABASE IF NOT EXISTS refloat_load;\n\
    CREATE TABLE refloat_load.steps (run VARBINARY(64) NOT NULL, kind VARBINARY(16) NOT NULL, name VARBINARY(300) NOT NULL, \
    detail LONGBLOB, PRIMARY KEY (run, kind, name)) ENGINE=InnoDB;\n";
/// The user's own objects in databases with these names.
const THEIRS: &str = "CREATE DATABASE IF NOT EXISTS refloat;\n\
    CREATE TABLE refloat.boats (id INT NOT NULL PRIMARY KEY, name VARCHAR(20));\n\
    INSERT INTO refloat.boats VALUES (1, 'a'), (2, 'b');\n\
    CREATE VIEW refloat.afloat AS SELECT name FROM refloat.boats;\n\
    CREATE DATABASE IF NOT EXISTS refloat_load;\n\
    CREATE TABLE refloat_load.cargo (id INT NOT NULL PRIMARY KEY);\n\
    INSERT INTO refloat_load.cargo VALUES (7);\n";

fn script(server: &Instance, text: &str) {
    servers::client(server, &[], text.as_bytes()).unwrap();
}

fn ask(server: &Instance, query: &str) -> String {
    let found = servers::connect(server).query_value(query);
    found
        .unwrap_or_else(|error| panic!("{query}: {error}"))
        .unwrap_or_default()
}

fn loaded(server: &Instance, source: &Path, durability: Option<Durability>) -> LoadOutcome {
    let mut options = LoadOptions::new(source, servers::target(server));
    options.durability = durability;
    let state = tempfile::tempdir().unwrap();
    load(&options, &run(state.path(), "load"))
        .unwrap_or_else(|failure| panic!("{}", chain(&failure.error)))
}

/// The row counts of the user's tables and view.
fn rows(server: &Ephemeral) -> String {
    ask(
        server,
        "SELECT CONCAT_WS(' ', (SELECT COUNT(*) FROM refloat.boats), (SELECT COUNT(*) FROM refloat.afloat), \
         (SELECT COUNT(*) FROM refloat_load.cargo))",
    )
}

/// A server of this kind where databases with these names hold a user's data beside Refloat's own
/// tables.
fn theirs(kind: ServerKind) {
    let two = two(kind);
    forget(two.first);
    forget(two.second);
    let state = tempfile::tempdir().unwrap();
    script(two.first, &format!("{JOURNAL}{MARKS}{THEIRS}"));
    // The target has a journal too, and loads change settings there.
    script(two.second, JOURNAL);
    let out = state.path().join("dump");
    take(two.first, &out, |_| {});
    let manifest = fs::read_to_string(out.join("manifest.json")).unwrap();
    for table in ["\"name\": \"settings_journal\"", "\"name\": \"steps\""] {
        assert!(!manifest.contains(table), "{table}: {manifest}");
    }
    loaded(two.second, &out, Some(Durability::Keep));
    assert_eq!(rows(two.second), "2 2 1", "{kind}");
    for (a, b) in [
        (folder(&out), at(two.second)),
        (at(two.first), at(two.second)),
    ] {
        let outcome = compare(a, b).unwrap();
        assert!(outcome.same, "{:?}", found(&outcome));
        assert_eq!(outcome.a.rows, 3);
    }
    // A change to the user's data is noticed.
    script(
        two.second,
        "UPDATE refloat.boats SET name = 'c' WHERE id = 2",
    );
    let outcome = compare(folder(&out), at(two.second)).unwrap();
    assert_eq!(found(&outcome).len(), 1, "{:?}", found(&outcome));

    servers::empty(two.second);
    script(two.second, JOURNAL);
    let mut options = CopyOptions::new(servers::target(two.first), servers::target(two.second));
    options.load.durability = Some(Durability::Keep);
    if let Err(failure) = copy(&options, &run(state.path(), "copy")) {
        panic!("{}", chain(&failure.error));
    }
    assert_eq!(rows(two.second), "2 2 1", "{kind}");
    let taken = [two.first, two.second]
        .map(|server| Snapshot::take(&mut servers::connect(server), Scope::default()).unwrap());
    assert_eq!(oracle::differences(&taken[0], &taken[1]), []);
    forget(two.first);
    forget(two.second);
}

/// Databases that hold nothing but Refloat's own tables are not data.
fn nobodys(kind: ServerKind) {
    let two = two(kind);
    forget(two.first);
    let state = tempfile::tempdir().unwrap();
    script(
        two.first,
        &format!("{JOURNAL}{MARKS}CREATE DATABASE d; CREATE TABLE d.t (i INT PRIMARY KEY)"),
    );
    let out = state.path().join("dump");
    take(two.first, &out, |_| {});
    loaded(two.second, &out, Some(Durability::Keep));
    assert_eq!(ask(two.second, "SHOW DATABASES LIKE 'refloat%'"), "");
    for (a, b) in [
        (folder(&out), at(two.first)),
        (at(two.first), at(two.second)),
    ] {
        let outcome = compare(a, b).unwrap();
        assert!(outcome.same, "{:?}", found(&outcome));
        assert!(
            outcome.not_compared.is_empty(),
            "{:?}",
            outcome.not_compared
        );
    }
    let error = compare_with(at(two.first), at(two.second), |options| {
        options.databases = vec!["refloat".to_owned()];
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing on either side is called refloat"
    );
    // A routine is the user's, even in a database without user tables.
    script(two.first, "CREATE PROCEDURE refloat.p() SELECT 1");
    let out = state.path().join("with a routine");
    take(two.first, &out, |options| {
        options.read.databases = vec!["refloat".to_owned()];
    });
    loaded(two.second, &out, Some(Durability::Keep));
    let tables = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'refloat'";
    assert_eq!(ask(two.second, tables), "0");
    let outcome = compare(folder(&out), at(two.second)).unwrap();
    assert!(outcome.same, "{:?}", found(&outcome));
    forget(two.first);
    forget(two.second);
}

/// Other tests share the servers.
fn forget(server: &Ephemeral) {
    servers::empty(server);
    script(server, "DROP DATABASE IF EXISTS refloat");
}

#[test]
fn databases_called_like_ours_are_theirs_on_mariadb_10_11() {
    theirs(ServerKind::MariaDb1011);
    nobodys(ServerKind::MariaDb1011);
}

#[test]
fn databases_called_like_ours_are_theirs_on_mariadb_11_8() {
    theirs(ServerKind::MariaDb118);
    nobodys(ServerKind::MariaDb118);
}

#[test]
fn databases_called_like_ours_are_theirs_on_mysql_9_7() {
    theirs(ServerKind::MySql97);
    nobodys(ServerKind::MySql97);
}

/// A user's tables with the names of ours are data. A load that finds no place for its own tables
/// beside them changes nothing.
fn namesakes(kind: ServerKind) {
    let two = two(kind);
    forget(two.first);
    forget(two.second);
    let state = tempfile::tempdir().unwrap();
    script(
        two.first,
        &format!(
            "{MARKS}CREATE TABLE refloat_load.marks (a INT); INSERT INTO refloat_load.marks VALUES (1), (2);
             CREATE TABLE refloat_load.removal_settled (b INT); INSERT INTO refloat_load.removal_settled VALUES (3);
             CREATE TABLE refloat_load.orders (id INT PRIMARY KEY); INSERT INTO refloat_load.orders VALUES (7);
             CREATE DATABASE refloat; CREATE TABLE refloat.settings_journal (a INT);"
        ),
    );
    let out = state.path().join("dump");
    take(two.first, &out, |_| {});
    let manifest = read_manifest(&out).unwrap();
    let databases = manifest.databases.iter();
    let tables = databases.flat_map(|database| &database.tables);
    let names: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
    assert_eq!(
        names,
        ["settings_journal", "marks", "orders", "removal_settled"],
        "{kind}"
    );
    let note = "database refloat_load: left out are Refloat's own tables (steps)";
    assert!(
        manifest.notes.iter().any(|one| one == note),
        "{:?}",
        manifest.notes
    );
    let outcome = compare(folder(&out), at(two.first)).unwrap();
    assert!(outcome.same, "{:?}", found(&outcome));
    assert_eq!(outcome.a.rows, 4);

    let refused = |source: &Path, tables: &[&str]| {
        let mut options = LoadOptions::new(source, servers::target(two.second));
        options.durability = Some(Durability::Keep);
        options.tables = tables.iter().map(|&name| name.to_owned()).collect();
        let loaded = load(&options, &run(state.path(), "load"));
        loaded.err().map(|failure| chain(&failure.error))
    };
    let ours = "SHOW DATABASES LIKE 'refloat%'";
    let message = refused(&out, &[]).expect("it is refused");
    for table in [
        "refloat.settings_journal",
        "refloat_load.marks",
        "refloat_load.removal_settled",
    ] {
        assert!(message.contains(table), "{table}: {message}");
    }
    assert!(!message.contains("refloat_load.orders"), "{message}");
    assert_eq!(ask(two.second, ours), "");
    assert_eq!(refused(&out, &["orders"]), None);
    let orders = "SELECT COUNT(*) FROM refloat_load.orders";
    assert_eq!(ask(two.second, orders), "1");

    // On the target, the name is taken.
    servers::empty(two.second);
    script(
        two.second,
        "CREATE DATABASE refloat_load; CREATE TABLE refloat_load.marks (a INT); INSERT INTO refloat_load.marks VALUES (5)",
    );
    let message = refused(&out, &["orders"]).expect("it is refused");
    let words = "the server has a table refloat_load.marks that is not Refloat's";
    assert!(message.contains(words), "{message}");
    assert_eq!(ask(two.second, "SELECT a FROM refloat_load.marks"), "5");
    assert_eq!(
        ask(two.second, "SHOW TABLES FROM refloat_load LIKE 'o%'"),
        ""
    );
    forget(two.first);
    forget(two.second);
}

#[test]
fn tables_called_like_ours_are_theirs() {
    for kind in [
        ServerKind::MariaDb1011,
        ServerKind::MariaDb118,
        ServerKind::MySql97,
    ] {
        namesakes(kind);
    }
}

/// Another tool's dump of such a server includes Refloat's tables. A load leaves the target's own
/// ones alone.
#[test]
fn our_tables_in_a_dump_of_another_tool_are_not_loaded() {
    let two = two(ServerKind::MariaDb118);
    forget(two.second);
    let state = tempfile::tempdir().unwrap();
    let dump = state.path().join("all.sql");
    let text = format!(
        "/*!40000 DROP DATABASE IF EXISTS `refloat`*/;\n\
         CREATE DATABASE /*!32312 IF NOT EXISTS*/ `refloat`;\nUSE `refloat`;\n\
         DROP TABLE IF EXISTS `settings_journal`;\n{}\
         LOCK TABLES `settings_journal` WRITE;\n\
         INSERT INTO `settings_journal` VALUES ('another','{{}}');\nUNLOCK TABLES;\n{THEIRS}\
         -- Dump completed\n",
        JOURNAL.split_once('\n').unwrap().1
    );
    fs::write(&dump, text).unwrap();
    script(two.second, JOURNAL);
    let outcome = loaded(two.second, &dump, Some(Durability::Keep));
    assert!(outcome.proven, "{:?}", outcome.proof);
    assert_eq!(rows(two.second), "2 2 1");
    let journal = "SELECT COUNT(*) FROM refloat.settings_journal";
    assert_eq!(ask(two.second, journal), "0");
    let kept = &outcome.kept.first;
    for line in [
        "line 1: /*!40000 DROP DATABASE IF EXISTS `refloat`*/",
        "table refloat.settings_journal: it is Refloat's own",
    ] {
        assert!(kept.iter().any(|one| one == line), "{kept:?}");
    }
    assert_eq!(outcome.skipped.total, 0, "{:?}", outcome.skipped.first);
    let outcome = compare(folder(&dump), at(two.second)).unwrap();
    assert!(outcome.same, "{:?}", found(&outcome));
    forget(two.second);
}

/// Durability is relaxed only on an empty server. A server where a database with our name holds a
/// user's table is not empty.
#[test]
fn a_server_with_a_database_called_like_ours_is_not_empty() {
    let server =
        servers::start(&StartOptions::new(ServerKind::MariaDb118).option("local_infile", "1"));
    let state = tempfile::tempdir().unwrap();
    let dump = state.path().join("d.sql");
    // Settings are left alone for less than 1 MiB.
    let words = "-- Nothing to see here.\n".repeat(50_000);
    let definitions = "CREATE DATABASE d;\nUSE d;\nCREATE TABLE t (i INT PRIMARY KEY);\n";
    fs::write(&dump, format!("{definitions}{words}")).unwrap();
    let relaxed = |server: &Instance| {
        let outcome = loaded(server, &dump, None);
        script(server, "DROP DATABASE d");
        let changed = outcome.settings_changed;
        changed
            .iter()
            .any(|one| one.contains("innodb_flush_log_at_trx_commit"))
    };
    script(&server, JOURNAL);
    assert!(relaxed(&server));
    script(
        &server,
        "CREATE DATABASE IF NOT EXISTS refloat; CREATE TABLE refloat.boats (i INT)",
    );
    assert!(!relaxed(&server));
}
