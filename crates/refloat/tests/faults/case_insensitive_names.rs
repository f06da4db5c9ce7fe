//! Servers that ignore the case of names (`lower_case_table_names = 1`).

// Hazard of faults: L-72 names that differ only in case, on servers that read them as one; a dump
//   of such a server

use refloat_sandbox::Instance;
use refloat_testkit::servers;

use crate::support::{BOTH, Desk, ask, dump, finish, shared, table};

const OTHER: &str = "are different names in the dump, but the same name to this server";

/// Two tables whose names differ only in case.
fn two_tables() -> String {
    let capital = table("Items", 3);
    dump(&format!("{capital}{}", table("items", 5)))
}

fn databases(server: &Instance, like: &str) -> String {
    ask(
        server,
        &format!(
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE '{like}'"
        ),
    )
}

#[test]
fn names_that_become_one_are_refused_and_cost_no_row() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind).option("lower_case_table_names", "1"));
        let mut desk = Desk::new();
        let plain = desk.file("dump.sql", two_tables());
        for more in [&[][..], &["--plan"], &["--replace"], &["--append"]] {
            desk.load(&plain, &server, more)
                .exits(3)
                .says(OTHER)
                .says(&format!("{}.Items", desk.db));
            assert_eq!(databases(&server, &desk.db), "0", "{kind} {more:?}");
        }
        // A stream stops before the second table takes the place of the first.
        let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
        desk.load(&packed, &server, &[]).exits(3).says(OTHER);
        desk.load_stream(&packed, &server, &desk.db)
            .exits(1)
            .says(OTHER);
        // The rows of the other table were never written.
        assert_ne!(desk.rows(&server, "items"), Some(5), "{kind}");
        assert_eq!(desk.tables(&server), 1, "{kind}");
        // A view shares its namespace with tables.
        desk.next();
        let view = format!(
            "{}DROP VIEW IF EXISTS `ITEMS`;\nCREATE VIEW `ITEMS` AS SELECT 1 AS a;\n",
            table("items", 3)
        );
        let plain = desk.file("view.sql", dump(&view));
        desk.load(&plain, &server, &[]).exits(3).says(OTHER);
        let packed = desk.file("view.sql.gz", Desk::compressed("gzip", &plain));
        desk.load_stream(&packed, &server, &desk.db)
            .exits(1)
            .says(OTHER);
        assert_eq!(desk.tables(&server), 1, "{kind}: the view took its place");
        // So does a database with other databases.
        let base = desk.next().to_owned();
        let both = format!(
            "CREATE DATABASE `{base}_X`;\nUSE `{base}_X`;\n{}CREATE DATABASE `{base}_x`;\nUSE `{base}_x`;\n{}",
            table("one", 3),
            table("two", 3)
        );
        let file = desk.file("databases.sql", dump(&both));
        let mut command = desk.refloat(["load"]);
        command.arg(&file).args(["--to", &server.url()]);
        finish(command).exits(3).says(OTHER);
        assert_eq!(databases(&server, &format!("{base}%")), "0", "{kind}");
        // Objects that exist under the folded name are recognised: none is dropped.
        desk.next();
        desk.load_text(dump(&table("items", 3)), &server, &[])
            .exits(0);
        desk.ask(&server, "UPDATE @db.items SET id = id + 100");
        let capital = desk.file("capital.sql", dump(&table("Items", 5)));
        desk.load(&capital, &server, &[])
            .exits(3)
            .says("is not empty");
        desk.load(&capital, &server, &["--append"]).exits(0);
        assert_eq!(desk.rows(&server, "items"), Some(8), "{kind}");
        desk.load(&capital, &server, &["--replace"]).exits(0);
        assert_eq!(desk.rows(&server, "items"), Some(5), "{kind}");
    }
}

/// A dump of such a server goes to one with case-sensitive names, where its views, keys and
/// triggers still mean the same.
#[test]
fn a_dump_of_such_a_server_works_on_one_that_is_exact() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind).option("lower_case_table_names", "1"));
        let exact = shared(kind);
        let desk = Desk::new();
        ask(
            &server,
            &format!(
                "CREATE DATABASE {0}; USE {0}; CREATE TABLE Parent (id int PRIMARY KEY); CREATE TABLE Child (id int PRIMARY KEY, p int, \
                 FOREIGN KEY (p) REFERENCES PARENT (id)); CREATE VIEW Both_ AS SELECT c.id FROM CHILD c JOIN Parent p ON c.p = p.id; \
                 CREATE TRIGGER tr BEFORE INSERT ON child FOR EACH ROW SET NEW.p = 1; INSERT INTO parent VALUES (1); INSERT INTO child VALUES (7, 1)",
                desk.db
            ),
        );
        let out = desk.path("out");
        let mut command = desk.refloat([
            "dump",
            "--from",
            &server.url(),
            "--databases",
            &desk.db,
            "--out",
        ]);
        command.arg(&out);
        finish(command).exits(0);
        let mut command = desk.refloat(["load"]);
        command.arg(&out).args(["--to", &exact.url()]);
        finish(command).exits(0).says("done and proven");
        desk.ask(exact, "INSERT INTO @db.child VALUES (8, 1)");
        assert_eq!(
            desk.ask(exact, "SELECT COUNT(*) FROM @db.both_"),
            "2",
            "{kind}"
        );
        desk.ask(exact, "DROP DATABASE @db");
    }
}
