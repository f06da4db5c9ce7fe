//! Objects that already exist, apart from tables: views, routines, events, triggers, and the
//! databases themselves.

// Hazard of faults: L-45 columns of the same types in another order

use std::path::Path;

use refloat_sandbox::ServerKind;

use crate::support::{BOTH, Desk, Run, dump, finish, shared, table};

/// One of each kind, in database `@db`.
const PROGRAMS: &[&str] = &[
    "CREATE VIEW @db.v AS SELECT 'old' AS a",
    "CREATE FUNCTION @db.f() RETURNS CHAR(3) DETERMINISTIC RETURN 'old'",
    "CREATE PROCEDURE @db.p() SELECT 'old'",
    "CREATE EVENT @db.e ON SCHEDULE EVERY 1 YEAR DO SELECT 'old'",
];

/// What the programs of a database contain: `old`, `new`, or both.
fn programs(desk: &Desk, kind: ServerKind) -> String {
    let sql = "SELECT IFNULL(GROUP_CONCAT(DISTINCT REGEXP_SUBSTR(body, 'old|new') ORDER BY 1), '') FROM \
         (SELECT view_definition AS body FROM information_schema.views WHERE table_schema='@db' UNION ALL \
         SELECT routine_definition FROM information_schema.routines WHERE routine_schema='@db' UNION ALL \
         SELECT event_definition FROM information_schema.events WHERE event_schema='@db' UNION ALL \
         SELECT action_statement FROM information_schema.triggers WHERE trigger_schema='@db') x";
    desk.ask(shared(kind), sql)
}

/// A dump that drops and creates the same programs, plus a trigger.
fn with_programs() -> String {
    let text = "/*!50001 DROP VIEW IF EXISTS `v`*/;\n/*!50001 CREATE VIEW `v` AS SELECT 'new' AS a*/;\n\
         DROP FUNCTION IF EXISTS `f`;\nDROP PROCEDURE IF EXISTS `p`;\nDELIMITER ;;\n\
         CREATE FUNCTION `f`() RETURNS CHAR(3) DETERMINISTIC RETURN 'new' ;;\nCREATE PROCEDURE `p`() SELECT 'new' ;;\n\
         /*!50106 DROP EVENT IF EXISTS `e` */ ;;\nCREATE EVENT `e` ON SCHEDULE EVERY 1 YEAR DO SELECT 'new' ;;\n\
         CREATE TRIGGER `tr` BEFORE UPDATE ON `items` FOR EACH ROW SET @a = 'new' ;;\nDELIMITER ;\n";
    dump(&format!("{}{text}", table("items", 30)))
}

/// A load of a dump that names its databases itself.
fn load_own(desk: &Desk, file: &Path, kind: ServerKind, more: &[&str]) -> Run {
    let url = shared(kind).url();
    let mut command = desk.refloat(["load".as_ref(), file.as_os_str()]);
    command.args(["--to", &url]).args(more);
    finish(command)
}

#[test]
fn programs_are_not_replaced_unless_asked() {
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        desk.ask(server, "CREATE DATABASE @db");
        for program in PROGRAMS {
            desk.ask(server, program);
        }
        let text = with_programs();
        let plain = desk.file("dump.sql", &text);
        let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
        for source in [&plain, &packed] {
            desk.load(source, server, &[])
                .exits(3)
                .says("is not empty")
                .says("function f")
                .says("event e");
            assert_eq!(programs(&desk, kind), "old");
        }
        // What exists stays as it is; what is missing is created.
        desk.load(&plain, server, &["--append"])
            .exits(0)
            .says("CREATE FUNCTION")
            .says("CREATE EVENT");
        assert_eq!(programs(&desk, kind), "new,old", "the trigger is new");
        assert_eq!(desk.rows(server, "items"), Some(30));
        desk.ask(server, "DELETE FROM @db.items");
        desk.ask(server, "DROP TRIGGER @db.tr");
        desk.ask(
            server,
            "CREATE TRIGGER @db.tr BEFORE UPDATE ON @db.items FOR EACH ROW SET @a = 'old'",
        );
        desk.load(&plain, server, &["--append"]).exits(0);
        assert_eq!(programs(&desk, kind), "old");
        assert_eq!(desk.rows(server, "items"), Some(30));
        // A dump without DROP statements replaces as well.
        let text: Vec<&str> = text
            .lines()
            .filter(|line| !line.contains("DROP") || line.contains("EVENT"))
            .collect();
        desk.load_text(&(text.join("\n") + "\n"), server, &["--replace"])
            .exits(0);
        assert_eq!(programs(&desk, kind), "new");
        desk.next();
    }
}

#[test]
fn a_database_with_other_things_is_not_dropped() {
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        let text = dump(&format!(
            "DROP DATABASE IF EXISTS `{db}`;\nCREATE DATABASE /*!32312 IF NOT EXISTS*/ `{db}`;\nUSE `{db}`;\n{}",
            table("items", 30),
            db = desk.db
        ));
        let file = desk.file("dump.sql", &text);
        load_own(&desk, &file, kind, &[]).exits(0);
        desk.ask(server, "CREATE TABLE @db.other (a int)");
        for policy in ["--replace", "--append"] {
            desk.ask(server, "DELETE FROM @db.items");
            load_own(&desk, &file, kind, &[policy])
                .exits(0)
                .says("DROP DATABASE");
            assert_eq!(desk.rows(server, "items"), Some(30), "{policy}");
            assert_eq!(desk.rows(server, "other"), Some(0), "{policy}");
        }
        desk.next();
    }
}

/// A dump that drops and creates its database is loaded repeatedly; whatever else the database
/// holds stays.
#[test]
fn a_dump_that_creates_its_database_is_loaded_twice() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = shared(kind);
        let db = &desk.db;
        for create in [
            format!(
                "DROP DATABASE IF EXISTS `{db}`;\nCREATE DATABASE `{db}` DEFAULT CHARACTER SET latin1;\n"
            ),
            format!("CREATE DATABASE `{db}` /*!40100 DEFAULT CHARACTER SET latin1 */;\n"),
        ] {
            let event = "CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01 00:00:00' DISABLE DO DELETE FROM items WHERE id < 0;\n";
            // Its session checks foreign keys, and the parent comes first.
            let child = "CREATE TABLE child (i INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES items (id)) ENGINE=InnoDB;\nINSERT INTO child VALUES (1,1);\n";
            let text = dump(&format!(
                "{create}USE `{db}`;\n{}{child}{event}",
                table("items", 30)
            ));
            let file = desk.file("dump.sql", &text);
            load_own(&desk, &file, kind, &[]).exits(0);
            desk.ask(server, "CREATE TABLE @db.other (a int)");
            desk.ask(server, "ALTER DATABASE @db CHARACTER SET utf8mb4");
            desk.ask(server, "ALTER EVENT @db.e COMMENT 'old'");
            for _ in 0..2 {
                load_own(&desk, &file, kind, &["--replace"]).exits(0);
            }
            assert_eq!(desk.rows(server, "items"), Some(30));
            assert_eq!(desk.rows(server, "other"), Some(0));
            let events = "SELECT CONCAT(COUNT(*), MAX(event_comment)) FROM information_schema.events WHERE event_schema='@db'";
            assert_eq!(desk.ask(server, events), "1", "it is the dump's");
            let charset = "SELECT default_character_set_name FROM information_schema.schemata WHERE schema_name='@db'";
            let wanted = if create.contains("DROP") {
                "latin1"
            } else {
                "utf8mb4"
            };
            assert_eq!(desk.ask(server, charset), wanted);
            desk.ask(server, "DROP DATABASE @db");
        }
    }
}

/// Statements that cannot be attributed to the selected tables are found before anything is
/// touched, by the plan and by the load.
#[test]
fn what_reaches_beyond_a_choice_of_tables_is_refused_before_anything() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = shared(kind);
        let tables = table("items", 30) + &table("other", 3);
        let text = dump(&format!(
            "{tables}INSERT INTO items SELECT * FROM other;
CREATE VIEW low AS SELECT * FROM items WHERE id < 1000;
CREATE VIEW lower AS SELECT * FROM low;
CREATE VIEW apart AS SELECT * FROM other;
INSERT INTO lower VALUES (901, 'a');
UPDATE low SET name = 'b' WHERE id = 901;
INSERT INTO apart VALUES (902, 'c');
INSERT INTO other VALUES (903, 'd');
CREATE TRIGGER tr AFTER INSERT ON other FOR EACH ROW INSERT INTO items VALUES (NEW.id + 50, 'e');
INSERT INTO other VALUES (904, 'f');
CALL fills();
RENAME TABLE other TO items;
"
        ));
        let file = desk.file("dump.sql", &text);
        let header = text
            .lines()
            .take_while(|line| !line.ends_with("FROM other;"))
            .count();
        let refused = [
            "INTO items SELECT",
            "lower VALUES",
            "UPDATE",
            "904",
            "CALL",
            "RENAME",
        ];
        for (args, code) in [
            (&["--plan"][..], 3),
            (&[], 3),
            (&["--on-error", "continue"], 1),
        ] {
            assert_eq!(desk.rows(server, "items"), None);
            let args = [&["--tables", "items"], args].concat();
            let mut output = desk.load(&file, server, &args).exits(code);
            for (line, statement) in text.lines().enumerate().skip(header) {
                let statement = statement.trim_end_matches(';');
                output = if refused.iter().any(|words| statement.contains(words)) {
                    let end = if code == 1 { "," } else { ":" };
                    output
                        .says(&format!("line {}{end}", line + 1))
                        .says(statement)
                } else if statement.starts_with("INSERT") {
                    output.never_says(statement)
                } else {
                    output
                };
            }
        }
        assert_eq!(desk.rows(server, "items"), Some(30));
    }
}

/// What a dump leaves uncommitted is refused for chosen tables too, by the plan and by the load.
/// For others it does not matter.
#[test]
fn what_a_choice_of_tables_leaves_uncommitted_is_refused() {
    let desk = Desk::new();
    let server = shared(ServerKind::MariaDb1011);
    let text = dump(&format!(
        "{}{}SET autocommit=0;\nINSERT INTO items (id, name) SELECT 99, 'late';\n",
        table("items", 3),
        table("other", 3)
    ));
    let file = desk.file("dump.sql", &text);
    for (args, code) in [
        (&["--tables", "items", "--plan"][..], 3),
        (&["--tables", "items"], 1),
    ] {
        desk.load(&file, server, args)
            .exits(code)
            .says("without a COMMIT");
    }
    desk.ask(server, "DROP DATABASE @db");
    for args in [&["--tables", "other", "--plan"][..], &["--tables", "other"]] {
        desk.load(&file, server, args).exits(0);
    }
    assert_eq!(desk.rows(server, "other"), Some(3));
}

/// With a selection of tables, nothing else is read, created or changed.
#[test]
fn a_choice_of_tables_leaves_other_databases_alone() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = shared(kind);
        let db = &desk.db;
        let section = |name: &str| {
            format!(
                "DROP DATABASE IF EXISTS `{name}`;\nCREATE DATABASE `{name}`;\nUSE `{name}`;\n{}CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO SELECT 1;\n\
                 ALTER DATABASE `{name}` COLLATE utf8mb4_bin;\n",
                table("items", 3)
            )
        };
        let text = dump(&format!(
            "{}{}{}",
            section(&format!("{db}_held")),
            section(db),
            section(&format!("{db}_none"))
        ));
        let file = desk.file("dump.sql", &text);
        desk.ask(
            server,
            "CREATE DATABASE @db_held COLLATE utf8mb4_general_ci",
        );
        desk.ask(server, "CREATE TABLE @db_held.items (a int)");
        let chosen = format!("{db}.items");
        load_own(&desk, &file, kind, &["--tables", &chosen]).exits(0);
        assert_eq!(desk.rows(server, "items"), Some(3));
        let made =
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '@db_none'";
        assert_eq!(desk.ask(server, made), "0");
        let held = "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = '@db_held'";
        assert_eq!(desk.ask(server, held), "utf8mb4_general_ci");
        assert_eq!(desk.ask(server, "SELECT COUNT(*) FROM @db_held.items"), "0");
        load_own(&desk, &file, kind, &["--tables", &chosen])
            .exits(3)
            .says("is not empty");
        load_own(&desk, &file, kind, &["--tables", &chosen, "--replace"]).exits(0);
        assert_eq!(desk.rows(server, "items"), Some(3));
        desk.ask(server, "DROP DATABASE @db_held");
    }
}

#[test]
fn other_databases_are_not_altered() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = shared(kind);
        let other = format!("{}_other", desk.db);
        desk.ask(server, "CREATE DATABASE @db_other COLLATE utf8mb4_bin");
        desk.ask(server, "CREATE TABLE @db_other.t (a int)");
        for (name, says) in [("mysql", "own schema"), (other.as_str(), "is not empty")] {
            let file = desk.file(
                "dump.sql",
                dump(&format!(
                    "ALTER DATABASE `{name}` COLLATE cp1250_general_ci;\n"
                )),
            );
            load_own(&desk, &file, kind, &[]).exits(3).says(says);
        }
        // No database has this collation unless it was altered.
        let altered = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN ('mysql', '@db_other') \
             AND default_collation_name = 'cp1250_general_ci'";
        assert_eq!(desk.ask(server, altered), "0", "{kind}");
        desk.ask(server, "DROP DATABASE @db_other");
    }
}

#[test]
fn a_refused_dump_leaves_no_database_behind() {
    for kind in BOTH {
        let desk = Desk::new();
        let server = shared(kind);
        let text = dump(&format!(
            "CREATE DATABASE `elsewhere`;\nUSE `elsewhere`;\n{}",
            table("items", 3)
        ));
        let plain = desk.file("dump.sql", &text);
        let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
        for source in [&plain, &packed] {
            desk.load(source, server, &[])
                .exits(3)
                .says("elsewhere")
                .says("--database");
            let there = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN ('@db', 'elsewhere')";
            assert_eq!(desk.ask(server, there), "0");
        }
    }
}

#[test]
fn a_pattern_that_finds_no_table_is_a_mistake() {
    let mut desk = Desk::new();
    let server = shared(ServerKind::MariaDb1011);
    let text = dump(&format!(
        "{}{}/*!50001 CREATE VIEW `v` AS SELECT 1 AS a*/;\n",
        table("items", 3),
        table("users", 4)
    ));
    let plain = desk.file("dump.sql", &text);
    let packed = desk.file("dump.sql.gz", Desk::compressed("gzip", &plain));
    for source in [&plain, &packed] {
        desk.load(source, server, &["--tables", "item,user*"])
            .exits(3)
            .says("item")
            .says("no table of the dump");
        assert_eq!(desk.tables(server), 0);
        desk.next();
    }
    desk.load(&plain, server, &["--tables", "item?"])
        .exits(0)
        .says("CREATE VIEW `v`");
    assert_eq!(desk.rows(server, "items"), Some(3));
    assert_eq!(desk.tables(server), 1);
}

#[test]
fn collations_are_mapped_around_programs_too() {
    let cases = [
        (
            ServerKind::MariaDb1011,
            "utf8mb4_0900_ai_ci",
            "utf8mb4_unicode_ci",
        ),
        (
            ServerKind::MySql97,
            "utf8mb4_uca1400_ai_ci",
            "utf8mb4_0900_ai_ci",
        ),
    ];
    for (kind, from, to) in cases {
        let desk = Desk::new();
        let server = shared(kind);
        let text = dump(&format!(
            "{}/*!50001 SET collation_connection      = {from} */;\n/*!50001 CREATE VIEW `v` AS SELECT 'a' COLLATE {from} AS a*/;\n\
             ALTER TABLE items ADD COLUMN late varchar(9) COLLATE {from};\n\
             ALTER DATABASE `{}` CHARACTER SET utf8mb4 COLLATE {from} ;\n\
             /*!50003 SET collation_connection  = {from} */ ;\nDELIMITER ;;\n\
             CREATE TRIGGER `tr` BEFORE UPDATE ON `items` FOR EACH ROW SET NEW.name = 'x' COLLATE {from} ;;\nDELIMITER ;\n\
             CREATE TEMPORARY TABLE tmp (a varchar(9) COLLATE {from});\nDROP TEMPORARY TABLE tmp;\n",
            table("items", 3),
            desk.db
        ));
        let map = format!("{from}={to}");
        desk.load_text(&text, server, &["--map-collation", &map])
            .exits(0)
            .says("done and proven");
        assert_eq!(
            desk.ask(server, "SELECT collation_connection FROM information_schema.triggers WHERE trigger_schema='@db'"),
            to
        );
    }
}

/// Columns of the same types in another order: values are matched by name, or not at all.
#[test]
fn columns_in_another_order_are_never_filled_by_position() {
    for kind in BOTH {
        let server = shared(kind);
        let desk = Desk::new();
        let swapped = "CREATE TABLE @db.t (id int NOT NULL PRIMARY KEY, last_name varchar(20), first_name varchar(20))";
        desk.ask(server, "CREATE DATABASE @db");
        desk.ask(server, swapped);
        let create = "CREATE TABLE `t` (`id` int NOT NULL, `first_name` varchar(20), `last_name` varchar(20), PRIMARY KEY (`id`));\n";
        let rows = "VALUES (1,'Ada','Lovelace');\n";
        let plain = dump(&format!("{create}INSERT INTO `t` {rows}"));
        let named = "(`id`,`first_name`,`last_name`)";
        let named = [
            dump(&format!("{create}INSERT INTO `t` {named} {rows}")),
            dump(&format!("INSERT INTO `t` {named} {rows}")),
        ];
        for text in [&plain, &named[0]] {
            desk.load_text(text, server, &["--append"])
                .exits(3)
                .says("first_name, last_name")
                .says("last_name, first_name");
            assert_eq!(desk.rows(server, "t"), Some(0), "{kind}");
        }
        for path in ["auto", "load-data", "insert"] {
            desk.load_text(&named[1], server, &["--append", "--write-path", path])
                .exits(0);
            let found = desk.ask(server, "SELECT first_name, last_name FROM @db.t");
            assert_eq!(found, "Ada\tLovelace", "{kind} {path}");
            desk.ask(server, "DELETE FROM @db.t");
        }
        desk.ask(server, "DROP DATABASE @db");
    }
}
