//! Dump directories of MariaDB Shell: like those of MySQL Shell, plus what only MariaDB has. After
//! its source code (`dumper.cc`, `schema_dumper.cc`) and its documentation of the contents of a
//! dump.

// Hazard of sources: MariaDB Shell: sequences, packages, rows that their own `CHECK` does not
//   allow, periods, types that only MariaDB has

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use refloat_sandbox::ServerKind;
use serde_json::json;

use crate::bench::Bench;
use crate::shell_dumps::{INSTANCE, Way, change, folder};

const MARIADB: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];
/// Sequences, one of which has cycled, and a table that uses one; rows that violate their own
/// table's checks; types that only MariaDB has; a package.
const SETUP: &str = r#"
SET NAMES utf8mb4; SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE SEQUENCE s START WITH 100 INCREMENT BY 5 NOCACHE; CREATE SEQUENCE cycling MINVALUE 1 MAXVALUE 2 CYCLE NOCACHE;
DO NEXTVAL(s), NEXTVAL(cycling), NEXTVAL(cycling), NEXTVAL(cycling);
CREATE TABLE a (id INT PRIMARY KEY, n BIGINT DEFAULT NEXT VALUE FOR s, c INT CHECK (c > 0), CONSTRAINT both_of_them CHECK (c < n)) DEFAULT CHARSET utf8mb4;
INSERT INTO a (id, c) VALUES (1, 1), (2, NULL);
SET SESSION check_constraint_checks = 0; INSERT INTO a VALUES (3, 1, -1), (4, 1, 7); SET SESSION check_constraint_checks = 1;
CREATE TABLE types (id INT PRIMARY KEY, i4 INET4, i6 INET6, u UUID, j JSON, hidden INT INVISIBLE DEFAULT 7) DEFAULT CHARSET utf8mb4;
INSERT INTO types (id, i4, i6, u, j, hidden) VALUES (1, '10.0.0.1', '2001:db8::1', '123e4567-e89b-12d3-a456-426655440000', '{"a": "é"}', 9),
    (2, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE spans (id INT, f DATE, t DATE, PERIOD FOR p (f, t), UNIQUE KEY k (id, p WITHOUT OVERLAPS));
INSERT INTO spans VALUES (1, '2024-01-01', '2024-02-01'), (1, '2024-02-01', '2024-03-01');
CREATE FUNCTION f() RETURNS INT RETURN 1;
SET SESSION sql_mode = 'ORACLE';
DELIMITER //
CREATE PACKAGE pack AS FUNCTION one RETURN INT; END//
CREATE PACKAGE BODY pack AS FUNCTION one RETURN INT AS BEGIN RETURN 1; END; END//
DELIMITER ;
"#;

/// A MariaDB Shell dump of the database `it`.
fn of_mariadb_shell(bench: &Bench, way: Way) -> PathBuf {
    let root = folder(bench, way);
    change(&root, "@.json", |top| {
        top["dumper"] = json!(
            "mysqlsh Ver 26.8.0 for Linux on x86_64 - for MariaDB 13.1.0 (Source distribution)"
        );
        top["source"] = json!({"vendor": "mariadb", "version": "10.11.8-MariaDB", "sysvars": {"lower_case_table_names": "0"},
            "binlog": {"file": "", "position": 0, "gtidExecuted": "0-1-4"}});
        top["gtidExecuted"] = json!("0-1-4");
        top["users"] = json!(["'shell_user'@'%'", "''@''"]);
    });
    change(&root, "it.json", |schema| {
        schema["sequences"] = json!(["cycling", "s"]);
        schema["packages"] = json!(["pack"]);
        schema["packageBodies"] = json!(["pack"]);
        schema["functionsDependencies"] = json!({});
    });
    for table in ["a", "types", "spans"] {
        change(&root, &format!("it@{table}.json"), |meta| {
            meta["engine"] = json!("InnoDB");
            if table == "spans" {
                meta["periodUniqueKey"] = json!(true);
            }
        });
    }
    sequences_into(bench, &root.join("it.sql"));
    root
}

/// Inserts the sequences between the database and its stored programs.
fn sequences_into(bench: &Bench, file: &Path) {
    let mut conn = bench.connect();
    let mut text = String::from("\n--\n-- Dumping sequences for database 'it'\n--\n\n");
    for name in ["cycling", "s"] {
        let create = conn
            .query(format!("SHOW CREATE SEQUENCE it.`{name}`"))
            .unwrap();
        let state = conn
            .query(format!(
                "SELECT next_not_cached_value, cycle_count FROM it.`{name}`"
            ))
            .unwrap();
        let _ = writeln!(
            text,
            "/*!50003 DROP SEQUENCE IF EXISTS `{name}` */;\n{};\nDO SETVAL(`{name}`, {}, 0, {});",
            create.str(0, 1).unwrap(),
            state.str(0, 0).unwrap(),
            state.str(0, 1).unwrap()
        );
    }
    let whole = fs::read_to_string(file).unwrap();
    let at = whole.find("USE `it`;\n").unwrap() + "USE `it`;\n".len();
    fs::write(file, format!("{}{text}{}", &whole[..at], &whole[at..])).unwrap();
}

#[test]
fn what_only_mariadb_has_comes_back() {
    for kind in MARIADB {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        let way = Way {
            schemas: &["it"],
            ..INSTANCE
        };
        let folder = of_mariadb_shell(&bench, way);
        bench.loads_as(&folder, &wanted, |_| {});
        // Rows that violate checks are accepted only if the dump comes from MariaDB.
        change(&folder, "@.json", |top| {
            top["source"]["vendor"] = json!("mysql");
        });
        bench.empty();
        bench.refuses(&folder, |_| {}, "CONSTRAINT");
    }
}
