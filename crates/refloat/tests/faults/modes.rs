//! Settings of both servers that change the meaning of text: none is inherited.

// Hazard of dumps: L-15, L-50 every `sql_mode` and both rules for `TIMESTAMP` as the server's own,
//   of a dump and of the load of it

use refloat_sandbox::ServerKind;
use refloat_testkit::oracle::{Scope, Snapshot, differences};
use refloat_testkit::servers;

use crate::support::{BOTH, Desk, finish};

/// Values that each mode would change in transit, and definitions that it would parse differently.
const SOURCE: &str = "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00';\n\
     CREATE DATABASE m; USE m;\n\
     CREATE TABLE `va\"lues` (id int AUTO_INCREMENT PRIMARY KEY, c char(5), v varchar(20) DEFAULT 'a\\\\b\"c', `q\"` varchar(20), d date, \
     f float, r real, u int unsigned, ts timestamp NULL DEFAULT NULL, t2 timestamp NOT NULL DEFAULT '2001-01-01 00:00:00') \
     ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT 'it''s \"quoted\" \\\\ ||';\n\
     INSERT INTO `va\"lues` VALUES (0,'a','back\\\\slash','it''s \"q\"','0000-00-00',0.1,0.1,1,NULL,'2001-02-03 04:05:06'), \
     (5,'b ','\\n\\0\\Z',NULL,'2024-02-30',16777215,-1e10,0,'2002-01-01 00:00:00','2001-01-01 00:00:00');\n\
     CREATE VIEW w AS SELECT CONCAT(c, 'x') AS a, NOT (1 BETWEEN 0 AND 2) AS b FROM `va\"lues`;\n\
     SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES';\n\
     CREATE FUNCTION f() RETURNS varchar(20) CHARACTER SET utf8mb4 DETERMINISTIC RETURN 'a\\' || (SELECT MAX(\"c\") FROM \"va\"\"lues\");\n\
     SET sql_mode = '';\n\
     CREATE TRIGGER tr BEFORE INSERT ON `va\"lues` FOR EACH ROW SET NEW.v = \"tr\";\n";

/// Modes that a server may have as its default, combined where they do not hide each other.
fn modes(kind: ServerKind) -> Vec<&'static str> {
    let mut modes = vec![
        "",
        "NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,IGNORE_SPACE",
        "PAD_CHAR_TO_FULL_LENGTH,NO_DIR_IN_CREATE",
        "ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,TRADITIONAL",
    ];
    modes.extend(if kind.is_mariadb() {
        &[
            "ORACLE",
            "MSSQL,NO_TABLE_OPTIONS,NO_FIELD_OPTIONS,NO_KEY_OPTIONS",
        ][..]
    } else {
        &["TIME_TRUNCATE_FRACTIONAL"]
    });
    modes
}

#[test]
fn no_mode_of_either_side_changes_anything() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind));
        let set = |variables: &str| {
            servers::connect(&server)
                .exec(format!("SET GLOBAL {variables}"))
                .unwrap()
        };
        let take = || {
            set("sql_mode = DEFAULT");
            Snapshot::take(&mut servers::connect(&server), Scope::default()).unwrap()
        };
        servers::client(&server, &[], SOURCE.as_bytes()).unwrap();
        let wanted = take();
        let desk = Desk::new();
        for (number, mode) in modes(kind).into_iter().enumerate() {
            // The old rule for TIMESTAMP is on for every second mode.
            let implicit = format!("explicit_defaults_for_timestamp = {}", number % 2);
            let before = |of: &str| {
                set(&implicit);
                set(&format!("sql_mode = '{mode}'"));
                desk.path(&format!("{of}-{number}"))
            };
            for (of, more) in [("folder", &[][..]), ("dump.sql", &["--format", "sql"])] {
                if of != "folder" && number % 2 == 1 {
                    continue;
                }
                let out = before(of);
                let mut command = desk.refloat(["dump", "--from", &server.url(), "--out"]);
                command.arg(&out).args(more);
                finish(command).exits(0);
                let paths = &["auto", "load-data", "insert"][number % 3..=number % 3];
                for path in paths {
                    servers::connect(&server).exec("DROP DATABASE m").unwrap();
                    let mut command = desk.refloat(["load"]);
                    command.arg(&out).args([
                        "--to",
                        &server.url(),
                        "--durability",
                        "keep",
                        "--write-path",
                        path,
                    ]);
                    finish(command).exits(0).says("done and proven");
                    let found = differences(&wanted, &take());
                    assert!(
                        found.is_empty(),
                        "{kind}, {mode:?}, {of}, {path}: {}",
                        found[0]
                    );
                    before(of);
                }
            }
        }
        set("sql_mode = DEFAULT");
    }
}
