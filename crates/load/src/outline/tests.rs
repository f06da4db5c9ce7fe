use std::path::Path;

use refloat_run::Cancel;
use refloat_run::cancel::CancelReason;
use refloat_wire::ConnectOptions;

use super::*;
use crate::options::SystemSchemaMode;

fn options() -> LoadOptions {
    LoadOptions::new("dump.sql", ConnectOptions::tcp("127.0.0.1", 3306, "root"))
}

fn outline(text: &str, options: &LoadOptions) -> Outline {
    let gather = Gather::new(options);
    lines::read(&mut text.as_bytes(), gather, &Cancel::new())
        .unwrap()
        .unwrap()
}

const DUMP: &str = "-- MariaDB dump 10.19\n\
    CREATE DATABASE /*!32312 IF NOT EXISTS*/ `a``b` /*!40100 DEFAULT CHARACTER SET latin1 */;\n\nUSE `a``b`;\n\
    DROP TABLE IF EXISTS `t`;\n/*!40101 SET @saved_cs_client     = @@character_set_client */;\nCREATE TABLE `t` (\n  `a` int DEFAULT 7,\n  `b` text COMMENT 'x;'\n);\n\
    INSERT INTO `t` VALUES\n(1,'CREATE TABLE no;'),\n(2,'x');\nINSERT INTO `t` VALUES (3,'y');\nINSERT INTO other.u (a, b) VALUES (3,'y');\n\
    DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`x`@`y`*/ /*!50003 TRIGGER tr BEFORE INSERT ON `t` FOR EACH ROW BEGIN\n  SET NEW.a = 1;\nCREATE TABLE no (a int);\nEND */;;\n\
    DELIMITER ;\n/*!50003 SET sql_mode = '' */ ;\nDELIMITER ;;\nCREATE DEFINER=`root`@`localhost` FUNCTION `f`() RETURNS int\nBEGIN\n  RETURN 1;\nEND ;;\nDELIMITER ;\n\
    /*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`v`@`%` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS SELECT 1 AS `a` */;\n-- Dump completed\n";

fn names(names: &Names) -> Vec<&str> {
    names.all().unwrap().iter().map(String::as_str).collect()
}

#[test]
fn an_outline_names_what_a_dump_brings() {
    for text in [DUMP.to_owned(), DUMP.replace('\n', "\r\n")] {
        let found = outline(&text, &options());
        assert_eq!(found.named, BTreeMap::from([("a`b".to_owned(), 2)]));
        assert_eq!(found.tables, 1);
        assert!(found.frame.header && found.frame.completed);
        let contents = &found.contents[&Some("a`b".to_owned())];
        assert_eq!(names(&contents.created), ["t"]);
        assert_eq!(names(&contents.filled), ["t"]);
        assert!(contents.database && contents.defines && contents.triggers && contents.views);
        assert!(
            contents.routines
                && contents.functions
                && !contents.events
                && contents.changes.is_none()
        );
        let other = &found.contents[&Some("other".to_owned())];
        assert_eq!(names(&other.filled), ["u"]);
        assert!(!other.defines);
        let definers: Vec<_> = found
            .definers
            .iter()
            .map(|(account, what)| format!("{account} {what}"))
            .collect();
        assert_eq!(
            definers,
            [
                "'root'@'localhost' function f",
                "'v'@'%' view v",
                "'x'@'y' trigger tr"
            ]
        );
        assert_eq!(found.undeclared.as_deref(), Some("f"));
    }
}

#[test]
fn a_choice_of_tables_leaves_the_rest_out() {
    let mut options = options();
    options.tables = vec!["u".to_owned()];
    let found = outline(DUMP, &options);
    assert_eq!(found.tables, 0);
    assert!(found.definers.is_empty() && found.undeclared.is_none());
    let contents = &found.contents[&Some("a`b".to_owned())];
    assert!(
        contents.created.is_empty()
            && contents.filled.is_empty()
            && !contents.triggers
            && !contents.views
    );
    options.tables = vec!["a`b.t".to_owned()];
    let found = outline(DUMP, &options);
    assert_eq!(found.tables, 1);
    assert_eq!(found.definers.len(), 1, "the trigger goes with its table");
}

#[test]
fn statements_may_share_a_line() {
    let text = "CREATE DATABASE d; USE d; -- here\nCREATE TABLE t (a int); INSERT INTO t VALUES (1);\nINSERT INTO u VALUES (1);\n";
    let found = outline(text, &options());
    assert_eq!(found.named.keys().collect::<Vec<_>>(), ["d"]);
    assert_eq!(
        found.contents.keys().collect::<Vec<_>>(),
        [&Some("d".to_owned())]
    );
    let contents = &found.contents[&Some("d".to_owned())];
    assert_eq!(names(&contents.created), ["t"]);
    assert_eq!(names(&contents.filled), ["t", "u"]);
}

#[test]
fn system_schemas_and_tables_without_a_database() {
    let mut options = options();
    let text = "CREATE TABLE t (a int);\nUSE `mysql`;\nCREATE TABLE x (a int);\n";
    let found = outline(text, &options);
    assert_eq!(found.homeless(&options).map(String::as_str), Some("t"));
    options.database = Some("d".to_owned());
    assert_eq!(found.homeless(&options), None);
    let databases = |options: &LoadOptions| -> Vec<String> {
        found
            .by_database(options)
            .map(|(name, _)| name.to_owned())
            .collect()
    };
    assert_eq!(databases(&options), ["d", "mysql"]);
    options.system_schema = SystemSchemaMode::Skip;
    assert_eq!(databases(&options), ["d"]);
}

#[test]
fn a_cancelled_run_reads_no_further() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), DUMP).unwrap();
    let look = |path: &Path, cancel: &Cancel| Outline::of(path, "dump.sql", &options(), cancel);
    let cancel = Cancel::new();
    assert!(look(file.path(), &cancel).unwrap().is_some());
    cancel.cancel(CancelReason::Signal(2));
    assert!(matches!(
        look(file.path(), &cancel),
        Err(LoadError::Interrupted(_))
    ));
}
