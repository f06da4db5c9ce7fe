//! Statements and rows that a server refuses, and those that are never sent to one.

// Hazard of faults: L-68, S-04 client commands, files, plugins, accounts, replication, SET GLOBAL
//   in a dump
// Hazard of faults: L-130, L-131 rows that the server refuses: each is named by its place, none is
//   dropped silently

use crate::support::{
    BOTH, Desk, Run, ask, assert_same_settings, dump, place, settings, shared, table,
};
use refloat_sandbox::ServerKind;

/// Seven rows and two statements that cannot be stored, among four rows that can.
const BAD_ROWS: &str = "\
CREATE TABLE t (id int NOT NULL PRIMARY KEY, u int, s varchar(5), n int NOT NULL, UNIQUE KEY u (u), KEY n (n)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT INTO t VALUES (1,1,'a',1),(99999999999,2,'b',2),
(3,3,'cccccccccc',3),(4,4,'d',NULL),
(5,5,'e',5),(6,5,'f',6),(5,7,'g',7);
INSERT INTO t VALUES (8,8,'h');
INSERT INTO t (id,nope) VALUES (9,9);
INSERT INTO t VALUES (10,10,'j',10);
INSERT INTO nowhere VALUES (1);
";
/// How each of them begins, and the server's error code.
const BAD: [(&str, u16); 8] = [
    ("(99999999999,2", 1264),
    ("(3,3,", 1406),
    ("(4,4,", 1048),
    ("(6,5,", 1062),
    ("(5,7,", 1062),
    ("(8,8,'h')", 1136),
    ("(9,9)", 1054),
    ("(1);", 1146),
];

fn paths(kind: ServerKind) -> &'static [&'static str] {
    if kind.is_mariadb() {
        &["bulk", "load-data", "insert"]
    } else {
        &["load-data", "insert"]
    }
}

#[test]
fn every_refused_row_is_named_and_only_those_are_missing() {
    let mut desk = Desk::new();
    for kind in BOTH {
        let before = settings(shared(kind));
        for path in paths(kind) {
            desk.next();
            let text = dump(BAD_ROWS);
            let mut run = desk
                .load_text(
                    &text,
                    shared(kind),
                    &["--write-path", path, "--on-error", "continue"],
                )
                .exits(1);
            for (row, code) in BAD {
                run = run.says(&format!("{}: server error {code} ", place(&text, row)));
            }
            run.says("refused: 8")
                .says("8 statements or rows were refused")
                .never_says("done and proven");
            assert_eq!(
                desk.ask(
                    shared(kind),
                    "SELECT GROUP_CONCAT(id ORDER BY id) FROM @db.t"
                ),
                "1,5,10",
                "{kind} {path}"
            );
            assert_eq!(desk.ask(shared(kind), "SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics WHERE table_schema='@db'"), "3", "{kind} {path}");
        }
        assert_same_settings(&before, shared(kind));
    }
}

#[test]
fn one_refused_row_stops_the_load_by_default() {
    let mut desk = Desk::new();
    let good = "(2,2,'x',2),(3,3,'y',3)";
    for kind in BOTH {
        for path in paths(kind) {
            for (row, code) in [
                ("(99999999999,9,'b',9)", 1264),
                ("(9,9,'toolong',9)", 1406),
                ("(9,9,'b',NULL)", 1048),
                ("(3,9,'b',9)", 1062),
            ] {
                desk.next();
                let definition = BAD_ROWS.lines().next().unwrap();
                let text = dump(&format!(
                    "{definition}\nINSERT INTO t VALUES {good},\n{row};\nDO 1;\n"
                ));
                let run = desk
                    .load_text(&text, shared(kind), &["--write-path", path])
                    .exits(1);
                run.says("dump.sql")
                    .says(&place(&text, row))
                    .says(&format!("server error {code} "))
                    .says(row)
                    .says("--on-error continue")
                    .says("NOT complete");
                assert_eq!(
                    desk.rows(shared(kind), "t"),
                    Some(0),
                    "{kind} {path} {row}: half a chunk stayed"
                );
            }
            desk.next();
            // Enough rows for the unique key to be deferred: building it is what fails.
            let text = dump(
                &table("t", 300)
                    .replace("KEY `n` (`n`)", "UNIQUE KEY `n` (`n`)")
                    .replace(",5831)", ",7919)"),
            );
            let run = desk
                .load_text(&text, shared(kind), &["--write-path", path])
                .exits(1);
            run.says("1062").says(".t").says("7919");
        }
    }
}

#[test]
fn a_refused_statement_stops_the_load_or_is_listed() {
    let mut desk = Desk::new();
    let body = format!(
        "{}CREATE TABLE bad (a nonsense);\nALTER TABLE nothere ADD x int;\n{}",
        table("one", 10),
        table("two", 10)
    );
    let text = dump(&body);
    for kind in BOTH {
        desk.next();
        let run = desk.load_text(&text, shared(kind), &[]).exits(1);
        run.says(&place(&text, "CREATE TABLE bad"))
            .says("server error ")
            .says("CREATE TABLE bad (a nonsense)");
        assert_eq!(desk.rows(shared(kind), "two"), None);
        desk.next();
        let run = desk
            .load_text(&text, shared(kind), &["--on-error", "continue"])
            .exits(1);
        run.says(&place(&text, "CREATE TABLE bad"))
            .says(&place(&text, "ALTER TABLE nothere"))
            .says("server error 1146")
            .says("refused: 2");
        assert_eq!(desk.rows(shared(kind), "two"), Some(10));
    }
}

#[test]
fn names_of_the_other_vendor_come_with_the_mapping_that_works() {
    let mut desk = Desk::new();
    let cases = [
        (ServerKind::MariaDb1011, "utf8mb4_0900_ai_ci"),
        (ServerKind::MySql97, "utf8mb4_uca1400_ai_ci"),
    ];
    for (kind, collation) in cases {
        desk.next();
        let text = dump(&format!(
            "CREATE TABLE `t` (`a` varchar(20) COLLATE {collation} DEFAULT '{collation}', PRIMARY KEY (`a`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={collation};\n\
             INSERT INTO t VALUES ('COLLATE={collation}');\n"
        ).replace("varchar(20)", "varchar(80)"));
        let run = desk
            .load_text(&text, shared(kind), &[])
            .exits(3)
            .says("1273")
            .says(collation)
            .says(": CREATE TABLE");
        let mapping = option_in_hint(&run, "--map-collation");
        let to = mapping.split_once('=').unwrap().1.to_owned();
        assert_eq!(desk.tables(shared(kind)), 0);
        desk.load_text(&text, shared(kind), &["--map-collation", &mapping])
            .exits(0)
            .says("done and proven");
        assert_eq!(
            desk.ask(shared(kind), "SELECT a FROM @db.t"),
            format!("COLLATE={collation}"),
            "a value is no definition"
        );
        let collations = desk.ask(
            shared(kind),
            "SELECT collation_name FROM information_schema.columns WHERE table_schema='@db'",
        );
        assert_eq!(collations, to);
    }
    desk.next();
    let text = dump(
        "/*!50003 SET sql_mode = 'STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER,NO_KEY_OPTIONS' */ ;\nCREATE TABLE t (a int);\nINSERT INTO t VALUES (1);\n",
    );
    desk.load_text(&text, shared(ServerKind::MySql97), &["--plan"])
        .exits(3)
        .says("NO_AUTO_CREATE_USER");
    let other = ["--map-sql-mode", "NO_AUTO_CREATE_USER=TRADITION"];
    desk.load_text(&text, shared(ServerKind::MySql97), &other)
        .exits(3)
        .says("maps NO_AUTO_CREATE_USER to: TRADITION")
        .says("--map-sql-mode NO_KEY_OPTIONS=, ");
    let run = desk
        .load_text(&text, shared(ServerKind::MySql97), &[])
        .exits(3)
        .says("1231")
        .says("can't be set to the value of 'NO_AUTO_CREATE_USER', nor of 'NO_KEY_OPTIONS'");
    assert_eq!(desk.tables(shared(ServerKind::MySql97)), 0);
    let both = [
        "--map-sql-mode",
        "NO_AUTO_CREATE_USER=",
        "--map-sql-mode",
        "NO_KEY_OPTIONS=",
    ];
    run.says(&both.join(" "));
    desk.load_text(&text, shared(ServerKind::MySql97), &both)
        .exits(0);
    desk.next();
    // The word in a user variable is text. A definition is read under the mapped mode.
    let text = dump(
        "SET @kept = 'NO_AUTO_CREATE_USER', sql_mode = 'NO_AUTO_CREATE_USER';\nCREATE TABLE t AS SELECT @kept AS a;\n",
    );
    desk.load_text(&text, shared(ServerKind::MySql97), &both)
        .exits(0);
    let kept = desk.ask(shared(ServerKind::MySql97), "SELECT a FROM @db.t");
    assert_eq!(kept, "NO_AUTO_CREATE_USER");
    desk.next();
    let text = dump(
        "SET sql_mode = 'NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION';\nCREATE TABLE t (a int) ENGINE=Aria;\n",
    );
    desk.load_text(
        &text,
        shared(ServerKind::MySql97),
        &[&both[..], &["--plan"]].concat(),
    )
    .exits(3)
    .says("Unknown storage engine 'Aria'");
    for kind in BOTH {
        desk.next();
        let text = dump("CREATE TABLE t (a varchar(9)) DEFAULT CHARSET=klingon;\n");
        desk.load_text(&text, shared(kind), &[])
            .exits(3)
            .says("1115")
            .says(": CREATE TABLE")
            .says("--map-collation klingon=utf8mb4")
            .says("SHOW CHARACTER SET");
        let map = ["--map-collation", "klingon=utf8mb4"];
        desk.load_text(&text, shared(kind), &map).exits(0);
    }
}

/// The value that the hint suggests for an option.
fn option_in_hint(run: &Run, option: &str) -> String {
    let at = run
        .stderr
        .find(&format!("{option} "))
        .unwrap_or_else(|| panic!("no {option} in {}", run.stderr));
    let value = run.stderr[at..].split_whitespace().nth(1).unwrap();
    value.trim_end_matches(['.', ',']).to_owned()
}

/// The line number of `words`.
fn place_of(text: &str, words: &str) -> usize {
    text[..text.find(words).unwrap()].matches('\n').count() + 1
}

/// Lines that reach beyond the dump's databases, or beyond the server, with part of the reason.
const HOSTILE: &[(&str, &str)] = &[
    ("\\! touch MARK", "runs a program"),
    ("system touch MARK", "runs a program"),
    ("source MARK", "reads another file"),
    ("\\. MARK", "reads another file"),
    ("tee MARK", "writes a file"),
    ("pager cat > MARK", "runs a program"),
    (
        "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t (s);",
        "reads a file",
    ),
    (
        "LOAD DATA INFILE '/etc/passwd' INTO TABLE t (s);",
        "reads a file",
    ),
    (
        "/*!50003 LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE t (s) */;",
        "reads a file",
    ),
    (
        "LOAD XML LOCAL INFILE '/etc/passwd' INTO TABLE t;",
        "reads a file",
    ),
    ("SELECT 'x' INTO OUTFILE 'MARK';", "writes a file"),
    ("SELECT 'x' INTO DUMPFILE 'MARK';", "writes a file"),
    ("INSTALL PLUGIN x SONAME 'x.so';", "plugin"),
    (
        "CREATE FUNCTION f RETURNS STRING SONAME 'x.so';",
        "shared library",
    ),
    ("SHUTDOWN;", "stops or locks"),
    ("KILL 1;", "stops or locks"),
    ("FLUSH TABLES WITH READ LOCK;", "stops or locks"),
    ("PREPARE s FROM 'SHUTDOWN';", "cannot be seen"),
    ("CREATE USER evil@'%';", "--allow accounts"),
    ("GRANT ALL ON *.* TO evil@'%';", "--allow accounts"),
    (
        "CHANGE MASTER TO MASTER_HOST='10.0.0.1';",
        "--allow replication",
    ),
    ("RESET MASTER;", "--allow replication"),
    ("PURGE BINARY LOGS TO 'x';", "--allow replication"),
    ("SET GLOBAL max_connections=17;", "--allow global"),
    ("SET @@global.max_connections=17;", "--allow global"),
    (
        "/*!40101 SET GLOBAL max_connections=17 */;",
        "--allow global",
    ),
];

/// A warning that changes nothing is no fault of the load, and still told, once.
#[test]
fn a_warning_that_changes_nothing_is_told_once() {
    let desk = Desk::new();
    for (kind, columns, says) in [
        (
            ServerKind::MariaDb1011,
            "id INT, CONSTRAINT pk PRIMARY KEY (id)",
            "Name 'pk' ignored for PRIMARY key",
        ),
        (
            ServerKind::MySql97,
            "id NVARCHAR(10) PRIMARY KEY",
            "NATIONAL/NCHAR/NVARCHAR implies the character set UTF8MB3",
        ),
    ] {
        let text = format!("CREATE TABLE t ({columns});\nCREATE TABLE u ({columns});\n");
        let run = desk.load_text(dump(&text), shared(kind), &[]).exits(0);
        assert_eq!(run.stderr.matches(says).count(), 1, "{run:?}");
        run.says("done and proven").says("  warnings    0\n");
    }
}

#[test]
fn what_a_server_passes_over_in_a_definition_is_warned_of() {
    let desk = Desk::new();
    let text = dump(
        "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `n` int DEFAULT NULL /*!80023 INVISIBLE */,\n  PRIMARY KEY (`id`),\n  \
         CONSTRAINT `c` CHECK ((`n` > 0)) /*!80016 NOT ENFORCED */\n) ENGINE=InnoDB /*!80016 ENCRYPTION='N' */;\nINSERT INTO `t` (`id`,`n`) VALUES (1,1);\n",
    );
    desk.load_text(&text, shared(ServerKind::MariaDb1011), &[])
        .exits(4)
        .says(".t: line ")
        .says("constraint c: /*!80016 NOT ENFORCED */ is for another server")
        .says("the constraint is enforced here")
        // MariaDB has such columns too.
        .never_says("INVISIBLE")
        .never_says("ENCRYPTION");
    desk.load_text(&text, shared(ServerKind::MySql97), &[])
        .exits(0)
        .never_says("passes over");
}

#[test]
fn what_reaches_beyond_the_dump_is_never_run() {
    for kind in BOTH {
        let mut desk = Desk::new();
        let mark = desk.path("mark").display().to_string();
        let lines: Vec<String> = HOSTILE
            .iter()
            .map(|(line, _)| line.replace("MARK", &mark))
            .collect();
        let lines = lines.join("\n") + "\n";
        let before = settings(shared(kind));
        let accounts = ask(
            shared(kind),
            "SELECT COUNT(*) FROM mysql.user WHERE user = 'evil'",
        );
        let text = dump(&format!(
            "CREATE TABLE t (a int, s text);\n{lines}INSERT INTO t VALUES (1,'x');\n"
        ));
        let mut run = desk
            .load_text(&text, shared(kind), &["--on-error", "continue"])
            .exits(1)
            .says(&format!("refused: {}", HOSTILE.len()));
        for (line, reason) in HOSTILE {
            let number = text[..text.find(&line.replace("MARK", &mark)).unwrap()]
                .matches('\n')
                .count()
                + 1;
            let listed = run
                .stdout
                .lines()
                .find(|one| one.contains(&format!("line {number}, ")))
                .unwrap_or_else(|| panic!("{line} is not listed: {}", run.stdout));
            let output = if reason.starts_with("--") {
                run.stderr.as_str()
            } else {
                listed
            };
            assert!(output.contains(reason), "{line}: {output}");
        }
        assert_eq!(
            desk.rows(shared(kind), "t"),
            Some(1),
            "only the dump's own row"
        );
        for (line, reason) in HOSTILE.iter().step_by(4) {
            desk.next();
            let text = dump(&format!(
                "CREATE TABLE t (a int, s text);\n{}\nINSERT INTO t VALUES (1,'x');\n",
                line.replace("MARK", &mark)
            ));
            run = desk
                .load_text(&text, shared(kind), &[])
                .exits(3)
                .says(&format!(
                    "line {}: ",
                    place_of(&text, &line.replace("MARK", &mark))
                ))
                .says(reason);
            assert_eq!(
                desk.tables(shared(kind)),
                0,
                "it must stop before {line}: {}",
                run.stderr
            );
        }
        assert!(!desk.path("mark").exists(), "a file was written");
        assert_eq!(
            ask(
                shared(kind),
                "SELECT COUNT(*) FROM mysql.user WHERE user = 'evil'"
            ),
            accounts
        );
        assert_same_settings(&before, shared(kind));
    }
}

#[test]
fn classes_of_statements_can_be_allowed_or_left_out() {
    let mut desk = Desk::new();
    for kind in BOTH {
        let user = format!("u_{}", desk.next());
        let text = dump(&format!(
            "CREATE USER {user}@localhost;\nCREATE TABLE t (a int);\nINSERT INTO t VALUES (1);\n"
        ));
        let there = format!("SELECT COUNT(*) FROM mysql.user WHERE user = '{user}'");
        desk.load_text(&text, shared(kind), &["--skip", "accounts"])
            .exits(0)
            .says("left out on purpose: 1")
            .says(&format!("CREATE USER {user}"))
            .says("done, without what was left out on purpose")
            .never_says("done and proven");
        assert_eq!(ask(shared(kind), &there), "0");
        desk.load_text(&text, shared(kind), &["--allow", "accounts", "--replace"])
            .exits(0)
            .never_says("left out on purpose");
        assert_eq!(ask(shared(kind), &there), "1");
        ask(shared(kind), &format!("DROP USER {user}@localhost"));
    }
}

/// Several statements under another delimiter run in the session that the first of them set up. A
/// value that the server would truncate there is still refused: a load changes no values.
#[test]
fn a_block_of_statements_runs_and_a_value_that_does_not_fit_is_refused() {
    let rows = "(1,'x'),(2,'too long')";
    let text = dump(&format!(
        "DELIMITER //\nSET @m = '';\nSET SESSION sql_mode = @m;\nCREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(3));\nINSERT INTO t VALUES {rows};\nINSERT INTO t VALUES (3,'z');\n//\nDELIMITER ;\nCREATE TABLE u (a INT);\n"
    ));
    for &kind in crate::support::kinds() {
        let server = shared(kind);
        let desk = Desk::new();
        desk.load_text(&text, server, &[])
            .exits(1)
            .says("1406")
            .says("'too long'")
            .says("--on-error continue");
        desk.load_text(
            &text,
            server,
            &["--on-error", "continue", "--replace", "--restart"],
        )
        .exits(1)
        .says("(2,'too long')");
        assert_eq!(desk.ask(server, "SELECT a FROM @db.t ORDER BY a"), "1\n3");
        assert_eq!(desk.rows(server, "u"), Some(0));
        desk.ask(server, "DROP DATABASE @db");
    }
}

/// What `INSERT IGNORE` leaves out or changes ends a load without proof, also where other warnings
/// of the table mean nothing: index 0 of an ENUM, and what the server computes.
#[test]
fn what_insert_ignore_leaves_out_or_changes_is_no_proof() {
    const CASES: &[(&str, i32, &str)] = &[
        (
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 1) STORED, CHECK (b < 10));
            INSERT IGNORE INTO t (id, a, b) VALUES (1,1,5),(2,1,50),(3,1,6);",
            4,
            "2",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED)
             PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10));
            INSERT IGNORE INTO t (id, a) VALUES (1,1),(200,2);",
            4,
            "1",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'), n INT NOT NULL);
            INSERT IGNORE INTO t VALUES (1,'zzz',1),(2,'a',2);",
            4,
            "2",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9), n INT AS (CAST(s AS SIGNED)) STORED);
            INSERT IGNORE INTO t (id, s) VALUES (1,'12abc'),(2,'7');
            INSERT IGNORE INTO t (id, s) VALUES (2,'8'),(3,'x');",
            0,
            "3",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'));
            INSERT IGNORE INTO t VALUES (1,''),(2,'a'),(1,'b'),(3,'');",
            0,
            "3",
        ),
    ];
    for kind in BOTH {
        let mut desk = Desk::new();
        let server = shared(kind);
        for (body, code, rows) in CASES {
            for path in ["auto", "insert"] {
                desk.next();
                let text = dump(&format!("SET sql_mode='';\n{body}\n"));
                let run = desk.load_text(text, server, &["--write-path", path]);
                run.exits(*code);
                assert_eq!(&desk.ask(server, "SELECT COUNT(*) FROM @db.t"), rows);
            }
        }
    }
}
