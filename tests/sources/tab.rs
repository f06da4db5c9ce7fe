//! Dump directories made by `mysqldump --tab` and `mariadb-dump --dir`.

// Hazard of sources: L-03 columns whose bytes look like terminators are refused

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use refloat_load::ExistingPolicy;
use refloat_sandbox::ServerKind;

use crate::bench::{Bench, DATABASE, run};

/// Tables of many kinds, views on views without placeholder tables, triggers, keys.
const SETUP: &str = r#"
SET NAMES utf8mb4;
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE a (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, t VARCHAR(50), b VARBINARY(50), d DATETIME(3), k INT, KEY (k),
    bits BIT(9), n DECIMAL(10,3), f DOUBLE, g GEOMETRY, l VARCHAR(20) CHARACTER SET latin1, ts TIMESTAMP NULL) DEFAULT CHARSET utf8mb4;
INSERT INTO a VALUES (0, 'it''s "q" é😀', 0x0001095C27220AFF, '2024-02-29 01:02:03.456', 1, b'101010101', 1.5, 1e300, POINT(1, 2), 'café', '2024-01-01 00:00:00'),
    (1, NULL, NULL, '0000-00-00', NULL, NULL, NULL, NULL, NULL, NULL, NULL), (2, '\\N', '', '2024-01-01', 5, 0, 0, -1.5, NULL, '', NULL),
    (3, 'NULL', 0x5C4E, '2024-01-01', 5, 0, 0, -1.5, NULL, '\t\r\n\\', NULL);
INSERT INTO a (t, b, k) SELECT CONCAT('row; -- ', a.t), a.b, a.k + 1 FROM a, a x, a y, a z, a u, a v;
CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(10));
CREATE TABLE c (id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id));
INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO c VALUES (1, 1), (2, 2), (3, 1);
CREATE TABLE gen (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED, c INT); INSERT INTO gen (a, c) VALUES (1, 3), (2, NULL);
CREATE TABLE none (a INT); CREATE TABLE one (v TEXT CHARACTER SET utf8mb4); INSERT INTO one VALUES (''), (NULL), ('x'), ('\n');
SET SESSION sql_mode = @@GLOBAL.sql_mode;
CREATE TRIGGER tr BEFORE INSERT ON p FOR EACH ROW SET NEW.v = CONCAT(NEW.v, '!');
CREATE VIEW z AS SELECT id, t FROM a; CREATE VIEW av AS SELECT * FROM z;
"#;

/// Dumps what the server holds.
pub fn dump(bench: &Bench, args: &[&str], databases: bool) -> PathBuf {
    let folder = bench.path("dump");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = bench.server.dump_command().unwrap();
    if !bench.kind.is_mariadb() {
        command.arg("--set-gtid-purged=OFF");
    }
    if databases {
        command
            .arg(format!("--dir={}", folder.display()))
            .args(args);
        command.arg("--databases").arg(DATABASE);
    } else {
        command
            .arg(format!("--tab={}", folder.display()))
            .args(args);
        command.arg(DATABASE);
    }
    run(&mut command);
    folder
}

#[test]
fn tab_folders_come_back() {
    for kind in ServerKind::ALL {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        let folder = dump(&bench, &[], false);
        bench.loads_as(&folder, &wanted, |options| {
            options.database = Some(DATABASE.to_owned());
        });
        bench.empty();
        bench.refuses(&folder, |_| {}, "names no database");
    }
}

#[test]
fn other_delimiters_have_to_be_given() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let bench = Bench::new(kind);
        bench.fill(SETUP);
        let wanted = bench.snapshot();
        let args = [
            "--fields-terminated-by=,",
            "--fields-enclosed-by=\"",
            "--lines-terminated-by=\r\n",
        ];
        let folder = dump(&bench, &args, false);
        bench.loads_as(&folder, &wanted, |options| {
            options.database = Some(DATABASE.to_owned());
            options.delimited.fields_terminated_by = Some(b",".to_vec());
            options.delimited.fields_enclosed_by = Some(b"\"".to_vec());
            options.delimited.lines_terminated_by = Some(b"\r\n".to_vec());
        });
        bench.empty();
        bench.refuses(
            &folder,
            |options| options.database = Some(DATABASE.to_owned()),
            "fields where",
        );
    }
}

#[test]
fn dir_folders_create_their_databases() {
    let bench = Bench::new(ServerKind::MariaDb118);
    bench.fill(SETUP);
    let wanted = bench.snapshot();
    let folder = dump(&bench, &[], true);
    bench.loads_as(&folder, &wanted, |_| {});
    // A chosen table takes the place of one that holds rows.
    let outcome = bench.load(&folder, |options| {
        options.tables = vec![format!("{DATABASE}.one")];
        options.existing = ExistingPolicy::Replace;
    });
    let outcome = outcome.unwrap();
    assert!(outcome.proven);
    assert_eq!(outcome.rows, 4);
}

#[test]
fn tab_folders_that_are_not_whole_are_refused() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill(SETUP);
    let folder = dump(&bench, &[], false);
    bench.empty();
    let adjust: crate::bench::Adjust = |options| options.database = Some(DATABASE.to_owned());
    fs::rename(folder.join("p.txt"), folder.join("p.tmp")).unwrap();
    bench.refuses(&folder, adjust, "p.tmp: this is neither a definition");
    fs::remove_file(folder.join("p.tmp")).unwrap();
    bench.refuses(&folder, adjust, "p.txt is missing");
    fs::write(folder.join("p.txt"), "1\ta\n2\tb").unwrap();
    bench.refuses(
        &folder,
        adjust,
        "p.txt: line 2, byte 4: the file ends in the middle of a row",
    );
    bench.empty();
    fs::write(folder.join("p.txt"), "1\ta\n2\tb\n").unwrap();
    let sql = fs::read_to_string(folder.join("c.sql")).unwrap();
    fs::write(folder.join("c.sql"), sql.replace("-- Dump completed", "--")).unwrap();
    bench.refuses(&folder, adjust, "c.sql: the dump ends at byte");
    bench.empty();
    fs::write(folder.join("c.sql"), &sql).unwrap();
    fs::rename(folder.join("c.txt"), folder.join("c.tmp")).unwrap();
    fs::write(folder.join("c.txt.gz"), "").unwrap();
    fs::remove_file(folder.join("c.tmp")).unwrap();
    let lost = "c.txt.gz: the file is empty, and gzip writes some bytes even of nothing";
    bench.is_not_whole(&folder, adjust, lost);
    fs::rename(folder.join("c.txt.gz"), folder.join("c.txt")).unwrap();
    let view = fs::read(folder.join("z.sql")).unwrap();
    fs::write(folder.join("z.sql"), "").unwrap();
    bench.is_not_whole(
        &folder,
        adjust,
        "z.sql: the file is empty, and defines nothing",
    );
    fs::write(folder.join("z.sql"), view).unwrap();
    fs::remove_file(folder.join("c.sql")).unwrap();
    bench.refuses(&folder, adjust, "c.sql is missing");
}

#[test]
fn columns_whose_bytes_look_like_terminators_are_refused() {
    let bench = Bench::new(ServerKind::MariaDb1011);
    bench.fill("CREATE TABLE w (v VARCHAR(20) CHARACTER SET utf16); INSERT INTO w VALUES ('x');");
    let folder = dump(&bench, &[], false);
    bench.empty();
    bench.refuses(
        &folder,
        |options| options.database = Some(DATABASE.to_owned()),
        "column v is in utf16",
    );
}
