//! Dumps loaded under another name: nothing in them may still refer to the old database.

// Hazard of faults: L-74 a dump under another name whose programs, defaults or rows name the old
//   database

use std::path::Path;

use refloat_sandbox::Instance;

use crate::support::{BOTH, Desk, Run, ask, dump, finish, shared, table};

/// Programs that name their own database.
const PROGRAMS: &str = "USE @db; CREATE TABLE @db.t (a int PRIMARY KEY); INSERT INTO @db.t VALUES (1); CREATE TABLE @db.log (a int);\n\
     CREATE FUNCTION @db.f() RETURNS int DETERMINISTIC RETURN 1;\n\
     CREATE VIEW v AS SELECT a, @db.f() AS f FROM @db.t;\n\
     CREATE VIEW plain AS SELECT a FROM @db.t;\n\
     CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW INSERT INTO @db.log VALUES (NEW.a);\n\
     CREATE PROCEDURE p() DELETE FROM @db.t;\n\
     CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DISABLE DO DELETE FROM `@db`.log";

fn load_into(desk: &Desk, server: &Instance, source: &Path, name: &str, more: &[&str]) -> Run {
    let mut command = desk.refloat(["load"]);
    command
        .arg(source)
        .args(["--to", &server.url(), "-D", name]);
    command.args(more);
    finish(command)
}

#[test]
fn a_dump_under_another_name_does_not_reach_into_the_old_database() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        ask(server, &format!("CREATE DATABASE {}", desk.db));
        desk.ask(server, PROGRAMS);
        let mut definitions = vec!["VIEW `v`", "TRIGGER", "EVENT", "PROCEDURE `p`"];
        if kind.is_mariadb() {
            desk.ask(
                server,
                "CREATE SEQUENCE @db.s; CREATE TABLE @db.d (id int DEFAULT nextval(@db.s))",
            );
            definitions.push("CREATE TABLE `d`");
        }
        let mut tool = server.dump_command().unwrap();
        tool.args(["--routines", "--events", "--triggers", &desk.db]);
        if !kind.is_mariadb() {
            tool.arg("--set-gtid-purged=OFF");
        }
        let plain = desk.file("dump.sql", tool.output().unwrap().stdout);
        let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
        let copy = format!("{}_copy", desk.db);
        let there = format!(
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{copy}'"
        );
        for more in [&[][..], &["--plan"]] {
            let mut run = load_into(&desk, server, &plain, &copy, more)
                .exits(3)
                .says("names the database that the dump was made from")
                .says("--allow old-database");
            for definition in &definitions {
                run = run.says(definition);
            }
            assert!(!run.stderr.contains("`plain`"), "{}", run.stderr);
            assert_eq!(ask(server, &there), "0", "{kind}: it was touched");
        }
        // A stream stops where the reference is found.
        load_into(&desk, server, &packed, &copy, &[]).exits(3);
        desk.load_stream(&packed, server, &copy)
            .exits(1)
            .says("refused: it names the database")
            .says("--skip old-database");
        let replace = ["--replace", "--restart"];
        let left_out = [&replace[..], &["--skip", "old-database"]].concat();
        load_into(&desk, server, &packed, &copy, &left_out)
            .exits(0)
            .says("left out on purpose: ");
        ask(server, &format!("INSERT INTO {copy}.t VALUES (2)"));
        assert_eq!(
            ask(server, &format!("SELECT COUNT(*) FROM {copy}.plain")),
            "2"
        );
        assert_eq!(desk.rows(server, "log"), Some(0), "{kind}");
        assert_eq!(desk.rows(server, "t"), Some(1), "{kind}");
        // With the flag, the result is that of the stock client.
        let allowed = ["--replace", "--allow", "old-database"];
        load_into(&desk, server, &plain, &copy, &allowed).exits(0);
        ask(server, &format!("INSERT INTO {copy}.t VALUES (3)"));
        assert_eq!(desk.rows(server, "log"), Some(1), "{kind}");
        ask(server, &format!("DROP DATABASE {copy}"));
        // Under its own name nothing is refused.
        desk.ask(server, "DROP DATABASE @db");
        desk.load(&plain, server, &[]).exits(0);
        desk.ask(server, "DROP DATABASE @db");
    }
}

/// `--database` says where everything goes, but a table qualified with another database would still
/// go there.
#[test]
fn names_with_another_database_before_them_are_refused() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let old = format!("{}_old", desk.db);
        ask(
            server,
            &format!("CREATE DATABASE {old}; CREATE TABLE {old}.t (a int)"),
        );
        let text = dump(&format!(
            "{}INSERT INTO `{old}`.`t` VALUES (1);\n",
            table("items", 3)
        ));
        let plain = desk.file("dump.sql", &text);
        let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
        for source in [&plain, &packed] {
            desk.load(source, server, &[])
                .exits(3)
                .says(&format!("tables of database {old}"))
                .says("but it is to go into database");
            assert_eq!(ask(server, &format!("SELECT COUNT(*) FROM {old}.t")), "0");
        }
        ask(server, &format!("DROP DATABASE {old}"));
    }
}
