//! Engines and table attributes that a server does not have: none is replaced or dropped silently.

// Hazard of faults: L-07 characters beyond U+FFFF in members of `ENUM` and `SET` and in defaults,
//   which servers show as `?`: a dump says so
// Hazard of faults: L-101, L-102 engines, `ROW_FORMAT`, `KEY_BLOCK_SIZE` and encryption that a
//   lenient server would exchange or drop

use std::fs;

use refloat_sandbox::ServerKind;
use refloat_testkit::servers;

use crate::support::{BOTH, Desk, ask, dump, finish, shared};

fn with(options: &str) -> String {
    dump(&format!(
        "CREATE TABLE `t` (`a` int NOT NULL, PRIMARY KEY (`a`)) {options};\nINSERT INTO `t` VALUES (1);\n"
    ))
}

#[test]
fn what_the_server_does_not_have_is_named() {
    for kind in BOTH {
        // As lenient as servers get: unknown options are dropped with a warning, or without one.
        let server = servers::start(
            &servers::quick(kind)
                .option("innodb_strict_mode", "0")
                .option("sql_mode", ""),
        );
        let mut desk = Desk::new();
        desk.load_text(with("ENGINE=ROCKSDB"), &server, &[])
            .exits(4)
            .says("engine: expected rocksdb, found innodb")
            .says("Unknown storage engine 'ROCKSDB'");
        desk.next();
        desk.load_text(
            with("ENGINE=InnoDB ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=8"),
            &server,
            &[],
        )
        .exits(4)
        .says("KEY_BLOCK_SIZE=8");
        desk.next();
        desk.load_text(
            with("ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=64"),
            &server,
            &[],
        )
        .exits(4)
        .says("KEY_BLOCK_SIZE");
        // Encryption without keys.
        desk.next();
        let encrypted = if kind.is_mariadb() {
            "ENCRYPTED=YES"
        } else {
            "ENCRYPTION='Y'"
        };
        desk.load_text(with(&format!("ENGINE=InnoDB {encrypted}")), &server, &[])
            .exits(1)
            .says("CREATE TABLE `t`");
        assert_eq!(
            desk.tables(&server),
            0,
            "{kind}: it was made without encryption"
        );
    }
}

/// Tables whose rows are elsewhere: a dump takes the definition and says so, and neither a dump nor
/// a load writes to the other server.
// Hazard of dumps: L-100 `FEDERATED` and `MERGE`: definition only, nothing is written where their
//   rows are (MariaDB)
#[test]
fn rows_that_are_elsewhere_are_neither_read_nor_written() {
    let server = servers::start(&servers::quick(ServerKind::MariaDb1011));
    let desk = Desk::new();
    ask(
        &server,
        &format!(
            "INSTALL SONAME 'ha_federatedx'; CREATE DATABASE canary; CREATE TABLE canary.t (a int PRIMARY KEY); INSERT INTO canary.t VALUES (1); \
             CREATE SERVER there FOREIGN DATA WRAPPER 'mysql' OPTIONS (HOST '127.0.0.1', DATABASE 'canary', USER 'root', PORT {}); \
             CREATE DATABASE {2}; USE {2}; CREATE TABLE fed (a int PRIMARY KEY) ENGINE=FEDERATED CONNECTION='there/t'; \
             CREATE TABLE fed2 (a int PRIMARY KEY) ENGINE=FEDERATED CONNECTION='mysql://root@127.0.0.1:{}/canary/t'; \
             CREATE TABLE one (a int PRIMARY KEY) ENGINE=MyISAM; INSERT INTO one VALUES (5); \
             CREATE TABLE all_ (a int PRIMARY KEY) ENGINE=MERGE UNION=(one) INSERT_METHOD=LAST",
            port(&server.url()),
            port(&server.url()),
            desk.db
        ),
    );
    assert_eq!(desk.rows(&server, "fed"), Some(1));
    let out = desk.path("out");
    let mut command = desk.refloat(["dump", "--from", &server.url(), "--out"]);
    command.arg(&out);
    // Objects that belong to the whole server are counted.
    finish(command)
        .exits(0)
        .says(&format!(
            "table {}.fed: only its definition is in the dump, engine FEDERATED",
            desk.db
        ))
        .says(&format!(
            "table {}.all_: only its definition is in the dump, engine MRG_M",
            desk.db
        ))
        .says("1 servers of CREATE SERVER")
        .says("1 plugins that were installed");
    ask(
        &server,
        &format!(
            "DROP DATABASE {}; DROP DATABASE canary; CREATE DATABASE canary; CREATE TABLE canary.t (a int PRIMARY KEY); INSERT INTO canary.t VALUES (9)",
            desk.db
        ),
    );
    let load = |exclude: &str| {
        let mut command = desk.refloat(["load"]);
        command
            .arg(&out)
            .args(["--to", &server.url(), "--replace"])
            .args(["--tables", exclude]);
        finish(command)
    };
    load(&format!("{}.*", desk.db)).exits(0);
    assert_eq!(desk.rows(&server, "one"), Some(1));
    assert_eq!(desk.rows(&server, "all_"), Some(1), "rows came twice");
    assert_eq!(ask(&server, "SELECT GROUP_CONCAT(a) FROM canary.t"), "9");

    // A statement that may change any table does not count them as rows of their own.
    let text = dump(
        "CREATE TABLE all_ (a int PRIMARY KEY) ENGINE=MERGE UNION=(one);\n\
         CREATE TABLE one (a int PRIMARY KEY) ENGINE=MyISAM;\nINSERT INTO one VALUES (5);\n\
         UPDATE one SET a = 6;\nALTER TABLE all_ UNION=(one);\nINSERT INTO one VALUES (7);\n",
    );
    let file = desk.file("merge.sql", &text);
    desk.load(&file, &server, &["--replace"]).exits(0);
    assert_eq!(desk.rows(&server, "all_"), Some(2));
}

fn port(url: &str) -> String {
    url.rsplit(':')
        .next()
        .unwrap()
        .trim_end_matches('/')
        .to_owned()
}

/// Prepared transactions, and files in a database's folder that are not tables.
// Hazard of dumps: L-53 files that are not tables, tables whose names look like such files
// Hazard of dumps: L-88, L-118 what a dump of a server does not hold: loadable functions, servers,
//   plugins, components, resource groups, reference systems, histograms, prepared XA transactions
#[test]
fn what_is_not_in_a_dump_is_reported() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        ask(
            &server,
            &format!(
                "CREATE DATABASE {0}; USE {0}; CREATE TABLE t (a int PRIMARY KEY); CREATE TABLE `#sql-mine` (a int); INSERT INTO `#sql-mine` VALUES (1), (2)",
                desk.db
            ),
        );
        ask(
            &server,
            &format!(
                "XA START 'x'; INSERT INTO {}.t VALUES (1); XA END 'x'; XA PREPARE 'x'",
                desk.db
            ),
        );
        if kind.is_mariadb() {
            ask(
                &server,
                &format!(
                    "CREATE TABLE {}.`a-b` (a int) ENGINE=MyISAM; FLUSH TABLES",
                    desk.db
                ),
            );
            let folder = server.datadir().join(&desk.db);
            for end in ["frm", "MYD", "MYI"] {
                fs::rename(
                    folder.join(format!("a@002db.{end}")),
                    folder.join(format!("a-b.{end}")),
                )
                .unwrap();
            }
        } else {
            ask(
                &server,
                &format!(
                    "ANALYZE TABLE {}.`#sql-mine` UPDATE HISTOGRAM ON a; CREATE SPATIAL REFERENCE SYSTEM 4120000 NAME 'mine' DEFINITION \
                'GEOGCS[\"x\",DATUM[\"y\",SPHEROID[\"z\",6378137,298.257223563]],PRIMEM[\"Greenwich\",0],UNIT[\"degree\",0.017453292519943278],AXIS[\"Lat\",NORTH],AXIS[\"Lon\",EAST]]'; \
                CREATE RESOURCE GROUP mine TYPE = USER",
                    desk.db
                ),
            );
        }
        let out = desk.path("out");
        let dump_it = |more: &[&str]| {
            let mut command = desk.refloat(["dump", "--from", &server.url(), "--out"]);
            command.arg(&out).args(more);
            finish(command)
        };
        if kind.is_mariadb() {
            // Named explicitly, it is refused as missing.
            let name = format!("{}.#mysql50#a-b", desk.db);
            dump_it(&["--tables", &name])
                .exits(3)
                .says("nothing on the server is called");
        }
        let run = dump_it(&[])
            .exits(0)
            .says("1 prepared XA transactions")
            .says("rows        2 in 2 tables");
        if kind.is_mariadb() {
            run.says("#mysql50#a-b is not in the dump");
        } else {
            run.says("1 spatial reference systems of your own")
                .says("1 resource groups")
                .says("1 histograms");
        }
        ask(&server, "XA ROLLBACK 'x'");
        ask(&server, &format!("DROP TABLE {}.`#sql-mine`", desk.db));
        let mut command = desk.refloat(["load"]);
        command.arg(&out).args(["--to", &server.url(), "--replace"]);
        finish(command).exits(0);
        assert_eq!(desk.rows(&server, "#sql-mine"), Some(2), "{kind}");
    }
}

/// A character beyond U+FFFF in a default or an ENUM member, which `SHOW CREATE TABLE` prints as a
/// question mark.
#[test]
fn characters_that_the_server_does_not_show_are_reported() {
    for kind in BOTH {
        let server = servers::start(&servers::quick(kind));
        let desk = Desk::new();
        ask(
            &server,
            &format!(
                "SET NAMES utf8mb4; CREATE DATABASE {0}; CREATE TABLE {0}.t (a int PRIMARY KEY, c varchar(9) CHARACTER SET utf8mb4 DEFAULT '\u{1F4A9}?', \
                 e enum('a', '\u{1F4A9}') CHARACTER SET utf8mb4, plain varchar(9) CHARACTER SET utf8mb4 DEFAULT 'why?')",
                desk.db
            ),
        );
        let out = desk.path("out");
        let mut command = desk.refloat(["dump", "--from", &server.url(), "--out"]);
        command.arg(&out);
        let run = finish(command)
            .exits(0)
            .says("column e: the server shows a member with ?")
            .never_says("column plain");
        ask(&server, &format!("DROP DATABASE {}", desk.db));
        let mut command = desk.refloat(["load"]);
        command.arg(&out).args(["--to", &server.url()]);
        finish(command).exits(0);
        if kind.is_mariadb() {
            // The suggested statement restores the default.
            let advised = format!(
                "ALTER TABLE `{}`.`t` ALTER COLUMN `c` SET DEFAULT _utf8mb4 x'F09F92A93F'",
                desk.db
            );
            run.says(&advised);
            ask(&server, &advised);
        }
        ask(
            &server,
            &format!("INSERT INTO {}.t (a) VALUES (1)", desk.db),
        );
        let found = ask(&server, &format!("SELECT HEX(c) FROM {}.t", desk.db));
        assert_eq!(found, "F09F92A93F", "{kind}");
    }
}

#[test]
fn a_collation_that_the_dump_leaves_to_the_server_is_named_where_it_is_another() {
    let mut desk = Desk::new();
    let text = dump(
        "CREATE TABLE t (a varchar(9), b varchar(9) CHARACTER SET utf16, c varchar(9) CHARACTER SET latin1) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\nINSERT INTO t VALUES ('a','b','c');\n",
    );
    for (kind, table, column) in [
        (ServerKind::MariaDb1011, None, None),
        (
            ServerKind::MariaDb118,
            Some("utf8mb4_uca1400_ai_ci"),
            Some("utf16_uca1400_ai_ci"),
        ),
        (ServerKind::MySql97, Some("utf8mb4_0900_ai_ci"), None),
    ] {
        desk.next();
        let run = desk
            .load_text(&text, shared(kind), &[])
            .exits(0)
            .says("done and proven");
        let about = format!("table {}.t:", desk.db);
        let there = |new: &str, old: &str| {
            format!("gets collation {new}; on the source server it was probably {old}")
        };
        let run = match table {
            Some(new) => run.says(&format!("{about} {}", there(new, "utf8mb4_general_ci"))),
            None => run.never_says("gets collation"),
        };
        let run = match column {
            Some(new) => run.says(&format!(
                "{about} column b {}",
                there(new, "utf16_general_ci")
            )),
            None => run.never_says("column b "),
        };
        let count = [table, column].into_iter().flatten().count();
        if count > 0 {
            run.says(&format!(
                "  collations  {count} of tables and columns come from this server's default"
            ));
        } else {
            run.never_says("  collations  ");
        }
    }
}
