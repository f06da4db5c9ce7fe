//! Tests of statement classification and of `SET` parsing.

use refloat_sqltext::{
    Danger, LexMode, ObjectName, SetScope as S, StatementKind as K, classify, parse_set,
};

fn kind(text: &str) -> K {
    classify(text.as_bytes(), LexMode::default())
}

fn name(name: &str) -> ObjectName {
    ObjectName {
        database: None,
        name: name.into(),
    }
}

fn qualified(database: &str, name: &str) -> ObjectName {
    ObjectName {
        database: Some(database.into()),
        name: name.into(),
    }
}

#[test]
fn settings() {
    assert_eq!(
        kind("/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */"),
        K::Set
    );
    assert_eq!(
        kind("/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */"),
        K::Set
    );
    assert_eq!(kind("SET @@SESSION.SQL_LOG_BIN= 0"), K::Set);
    assert_eq!(
        kind("SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a-b:1-5,\nc:1'"),
        K::SetGtidPurged
    );
    assert_eq!(kind("SET GLOBAL gtid_slave_pos='0-1-2'"), K::SetGlobal);
}

#[test]
fn databases() {
    assert_eq!(
        kind(
            "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `a``b` /*!40100 DEFAULT CHARACTER SET utf8mb4 */ /*!80016 DEFAULT ENCRYPTION='N' */"
        ),
        K::CreateDatabase {
            database: b"a`b".to_vec(),
            if_not_exists: true
        }
    );
    assert_eq!(
        kind("USE `db`"),
        K::Use {
            database: b"db".to_vec()
        }
    );
    for text in ["USE my-db", "USE my-db \n", "USE my-db/* x */"] {
        assert_eq!(
            kind(text),
            K::Use {
                database: b"my-db".to_vec()
            }
        );
    }
    assert_eq!(
        kind("ALTER DATABASE `d` CHARACTER SET utf8mb4"),
        K::AlterDatabase {
            database: Some(b"d".to_vec())
        }
    );
    assert_eq!(
        kind("ALTER DATABASE CHARACTER SET utf8mb4"),
        K::AlterDatabase { database: None }
    );
    assert_eq!(
        kind("SET STATEMENT max_statement_time=1 FOR DROP DATABASE x"),
        K::DropDatabase {
            database: b"x".to_vec()
        }
    );
}

#[test]
fn tables() {
    assert_eq!(
        kind("DROP TABLE IF EXISTS `a`, b.c"),
        K::DropTable {
            tables: vec![name("a"), qualified("b", "c")]
        }
    );
    let create = |like, select| K::CreateTable {
        table: name("t"),
        if_not_exists: false,
        temporary: false,
        like,
        select,
    };
    assert_eq!(
        kind("CREATE TABLE `t` (\n `a` int COMMENT 'SELECT'\n)"),
        create(false, false)
    );
    assert_eq!(kind("CREATE TABLE t LIKE u"), create(true, false));
    assert_eq!(kind("CREATE TABLE t (LIKE u)"), create(true, false));
    assert_eq!(
        kind("CREATE OR REPLACE TABLE t AS SELECT 1"),
        create(false, true)
    );
    assert_eq!(
        kind("CREATE TEMPORARY TABLE IF NOT EXISTS a.b (c int)"),
        K::CreateTable {
            table: qualified("a", "b"),
            if_not_exists: true,
            temporary: true,
            like: false,
            select: false
        }
    );
    assert_eq!(kind("LOCK TABLES `t` WRITE"), K::LockTables);
    assert_eq!(kind("UNLOCK TABLES"), K::UnlockTables);
    assert_eq!(
        kind("/*!40000 ALTER TABLE `t` DISABLE KEYS */"),
        K::AlterTableKeys {
            table: name("t"),
            enable: false
        }
    );
    assert_eq!(
        kind("/*!40000 ALTER TABLE `t` ENABLE KEYS */"),
        K::AlterTableKeys {
            table: name("t"),
            enable: true
        }
    );
    assert_eq!(
        kind("ALTER TABLE t DISABLE KEYS, ADD x int"),
        K::AlterTable {
            table: name("t"),
            renamed: None
        }
    );
    assert_eq!(
        kind("TRUNCATE TABLE d.t"),
        K::Truncate {
            table: qualified("d", "t")
        }
    );
    let ansi = LexMode {
        ansi_quotes: true,
        ..LexMode::default()
    };
    assert_eq!(
        classify(b"DROP TABLE \"a\"\"b\"", ansi),
        K::DropTable {
            tables: vec![name("a\"b")]
        }
    );
}

#[test]
fn new_names() {
    let renamed = |text| match kind(text) {
        K::AlterTable { renamed, .. } => renamed,
        other => panic!("{text}: {other:?}"),
    };
    let new = Some(name("u"));
    assert_eq!(renamed("ALTER TABLE t RENAME u"), new);
    assert_eq!(renamed("ALTER TABLE t ADD x INT, RENAME AS u"), new);
    assert_eq!(renamed("ALTER TABLE t RENAME = u, ADD KEY (x)"), new);
    let to = Some(qualified("d", "u"));
    assert_eq!(
        renamed("ALTER TABLE t RENAME COLUMN a TO b, RENAME TO d.u"),
        to
    );
    assert_eq!(renamed("ALTER TABLE t RENAME INDEX a TO b"), None);
    assert_eq!(
        renamed("ALTER TABLE t ADD CHECK (f(rename) > 0), COMMENT 'RENAME u'"),
        None
    );
    let names = |text| match kind(text) {
        K::RenameTable { names } => Some(names),
        _ => None,
    };
    assert_eq!(
        names("rename tables `a b`.c to d, e WAIT 5 TO f.g, h NOWAIT TO i;"),
        Some(vec![
            (qualified("a b", "c"), name("d")),
            (name("e"), qualified("f", "g")),
            (name("h"), name("i")),
        ])
    );
    assert_eq!(
        names("RENAME TABLE IF EXISTS a TO b"),
        Some(vec![(name("a"), name("b"))])
    );
    assert_eq!(names("RENAME TABLE a b"), Some(Vec::new()));
}

#[test]
fn programs() {
    let trigger = K::CreateTrigger {
        trigger: name("on"),
        table: qualified("d", "t"),
    };
    assert_eq!(
        kind(
            "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER `on` BEFORE INSERT ON d.`t` FOR EACH ROW BEGIN DROP TABLE x; END */"
        ),
        trigger
    );
    assert_eq!(
        kind(
            "/*!50106 CREATE*/ /*!50117 DEFINER=`a b`@`h`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO SET @a=1 */"
        ),
        K::CreateEvent { event: name("e") }
    );
    assert_eq!(
        kind("/*!50106 DROP EVENT IF EXISTS `e` */"),
        K::DropEvent { event: name("e") }
    );
    let routine = |what| K::CreateRoutine {
        what,
        routine: name("p"),
    };
    assert_eq!(
        kind("CREATE DEFINER=event@`view` PROCEDURE `p`() BEGIN /*!50000 DROP TABLE x */; END"),
        routine("PROCEDURE")
    );
    assert_eq!(
        kind(
            "/*!50003 CREATE*/ /*!50020 DEFINER=`r`@`%`*/ /*!50003 FUNCTION `p`(a INT) RETURNS int RETURN 1 */"
        ),
        routine("FUNCTION")
    );
    assert_eq!(
        kind("CREATE DEFINER=CURRENT_USER() PACKAGE BODY p AS x"),
        routine("PACKAGE BODY")
    );
    assert_eq!(
        kind("CREATE AGGREGATE FUNCTION IF NOT EXISTS p(a INT) RETURNS INT RETURN 1"),
        routine("FUNCTION")
    );
}

#[test]
fn views_and_sequences() {
    let view = K::CreateView { view: name("v") };
    assert_eq!(
        kind(
            "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 1 AS `a` */"
        ),
        view
    );
    assert_eq!(kind("CREATE OR REPLACE VIEW v AS SELECT 1"), view);
    assert_eq!(
        kind("/*!50001 DROP VIEW IF EXISTS `v`*/"),
        K::DropView {
            views: vec![name("v")]
        }
    );
    assert_eq!(
        kind("CREATE SEQUENCE `s` start with 1"),
        K::CreateSequence {
            sequence: name("s")
        }
    );
}

#[test]
fn replication_transactions_and_the_rest() {
    assert_eq!(
        kind("CHANGE MASTER TO MASTER_LOG_FILE='x', MASTER_LOG_POS=4"),
        K::Replication
    );
    assert_eq!(kind("START SLAVE"), K::Replication);
    assert_eq!(kind("START TRANSACTION"), K::StartTransaction);
    assert_eq!(kind("/* nothing */ -- at all"), K::Empty);
    assert_eq!(kind("FROBNICATE x"), K::Other);
}

#[test]
fn accounts() {
    for text in [
        "GRANT ALL ON *.* TO x",
        "REVOKE x FROM y",
        "CREATE USER x",
        "DROP ROLE x",
        "ALTER USER x IDENTIFIED BY 'y'",
        "SET PASSWORD FOR x = 'y'",
        "SET DEFAULT ROLE x FOR y",
        "SET PASSWORD = 'x'",
        "SET a=1, PASSWORD='x'",
        "RENAME USER a TO b",
        "CREATE OR REPLACE USER IF NOT EXISTS x",
    ] {
        assert_eq!(kind(text), K::Account, "{text}");
    }
}

#[test]
fn dangers() {
    for (text, danger) in [
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE y", Danger::LoadData),
        (
            "/*!40000 LOAD DATA INFILE 'x' INTO TABLE y */",
            Danger::LoadData,
        ),
        ("LOAD XML INFILE 'x' INTO TABLE y", Danger::LoadData),
        ("SELECT 1 INTO OUTFILE '/x'", Danger::OutFile),
        ("(SELECT 1) INTO/**/DUMPFILE '/x'", Danger::OutFile),
        (
            "WITH a AS (SELECT 1) SELECT * FROM a INTO OUTFILE '/x'",
            Danger::OutFile,
        ),
        ("INSTALL PLUGIN x SONAME 'y'", Danger::Plugin),
        ("UNINSTALL COMPONENT 'x'", Danger::Plugin),
        (
            "CREATE FUNCTION x RETURNS STRING SONAME 'y.so'",
            Danger::LoadableFunction,
        ),
        (
            "CREATE AGGREGATE FUNCTION IF NOT EXISTS x RETURNS INTEGER SONAME 'y.so'",
            Danger::LoadableFunction,
        ),
        ("SHUTDOWN", Danger::Instance),
        ("FLUSH TABLES WITH READ LOCK", Danger::Instance),
        ("FLUSH LOCAL TABLES a, b FOR EXPORT", Danger::Instance),
        ("BACKUP STAGE START", Danger::Instance),
        ("KILL 5", Danger::Instance),
        ("ALTER INSTANCE DISABLE INNODB REDO_LOG", Danger::Instance),
        ("HANDLER t OPEN", Danger::LowLevel),
        ("BINLOG 'x'", Danger::LowLevel),
        ("PREPARE x FROM @a", Danger::DynamicSql),
        ("EXECUTE IMMEDIATE 'DROP DATABASE x'", Danger::DynamicSql),
        ("/*!99999 SET a=1 */ DROP DATABASE x", Danger::Ambiguous),
        (
            "/*!99999 SET a=1 */ /*!40000 DROP DATABASE x */",
            Danger::Ambiguous,
        ),
        ("/*M!999999 CREATE EVENT */ SHUTDOWN", Danger::Ambiguous),
    ] {
        assert_eq!(kind(text), K::Dangerous(danger), "{text}");
    }
    assert_eq!(kind("SELECT 'INTO OUTFILE'"), K::Select);
    for text in [
        "SET GLOBAL a=1",
        "SET @@global.a=1",
        "SET PERSIST a=1",
        "SET @@PERSIST_ONLY.a=1",
        "SET a=1, GLOBAL b=2",
        "RESET PERSIST",
        "SET @@GLOBAL.gtid_purged='', @@GLOBAL.x=1",
        "/*!50000 SET GLOBAL a=1 */",
        "SET GLOBAL TRANSACTION READ ONLY",
    ] {
        assert_eq!(kind(text), K::SetGlobal, "{text}");
    }
}

#[test]
fn set_lists() {
    let list = |text: &str| {
        let found = parse_set(text.as_bytes(), LexMode::default())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(
            found
                .iter()
                .map(|a| {
                    (
                        a.scope,
                        text(&a.name),
                        text(&a.value),
                        a.literal.as_deref().map(text),
                    )
                })
                .collect::<Vec<_>>(),
        )
    };
    let one = |scope, name: &str, value: &str, literal: Option<&str>| {
        (
            scope,
            name.to_owned(),
            value.to_owned(),
            literal.map(str::to_owned),
        )
    };
    assert_eq!(
        list("/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */"),
        Some(vec![
            one(S::User, "OLD_SQL_MODE", "@@SQL_MODE", None),
            one(
                S::Session,
                "sql_mode",
                "'NO_AUTO_VALUE_ON_ZERO'",
                Some("NO_AUTO_VALUE_ON_ZERO")
            ),
        ])
    );
    assert_eq!(
        list("/*!40101 SET NAMES utf8mb4 */"),
        Some(vec![one(S::Names, "names", "utf8mb4", Some("utf8mb4"))])
    );
    assert_eq!(
        list("SET NAMES 'latin1' COLLATE latin1_bin"),
        Some(vec![
            one(S::Names, "names", "'latin1'", Some("latin1")),
            one(S::Names, "collate", "latin1_bin", Some("latin1_bin")),
        ])
    );
    assert_eq!(
        list("SET CHARACTER SET utf8"),
        Some(vec![one(
            S::CharacterSet,
            "character_set",
            "utf8",
            Some("utf8")
        )])
    );
    assert_eq!(
        list("/*!40103 SET TIME_ZONE='+00:00' */"),
        Some(vec![one(
            S::Session,
            "time_zone",
            "'+00:00'",
            Some("+00:00")
        )])
    );
    assert_eq!(
        list(
            "SET @@session.a := -1, LOCAL b=IF(@x,',',2) , GLOBAL c.d = on, @`u v`='it''s\\n', @@e=DEFAULT, global=1"
        ),
        Some(vec![
            one(S::Session, "a", "-1", Some("-1")),
            one(S::Session, "b", "IF(@x,',',2)", None),
            one(S::Global, "c.d", "on", Some("on")),
            one(S::User, "u v", "'it''s\\n'", Some("it's\n")),
            one(S::Session, "e", "DEFAULT", Some("DEFAULT")),
            one(S::Session, "global", "1", Some("1")),
        ])
    );
    assert_eq!(list("SET @@PERSIST.a=1").map(|l| l[0].0), Some(S::Persist));
    for text in [
        "SET PASSWORD = 'x'",
        "SET TRANSACTION READ ONLY",
        "SET ROLE x",
        "SELECT 1",
        "SET",
        "SET a=",
        "SET a=1,",
        "SET a=(1",
        "SET a='x",
    ] {
        assert_eq!(list(text), None, "{text}");
    }
}

#[test]
fn sql_modes() {
    let mode = LexMode::default().with_sql_mode(b"STRICT_ALL_TABLES, no_backslash_escapes");
    assert!(mode.no_backslash_escapes && !mode.ansi_quotes);
    assert!(LexMode::default().with_sql_mode(b"ANSI").ansi_quotes);
    assert!(!mode.with_sql_mode(b"").no_backslash_escapes);
}
