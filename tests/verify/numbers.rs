//! Next `AUTO_INCREMENT` values: a load restores them, and lower ones are reported.

use std::fs;
use std::path::Path;

use refloat_load::{IndexMode, LoadOptions, StatementClass, WritePath, load};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{chain, servers};
use refloat_verify::{Endpoint, Relation, VerifyOutcome};

use crate::support::{at, compare_with, fill, folder, found, run, take, two};

/// Tables whose last rows were deleted, so that their next value is not one above the last row. One
/// is empty; one never had a row.
const TABLES: &str = "\
CREATE TABLE seq (n INT PRIMARY KEY);
INSERT INTO seq VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), KEY v (v));
INSERT INTO t (v) SELECT CONCAT('v', a.n, b.n, c.n) FROM seq a, seq b, seq c;
DELETE FROM t WHERE id > 700;
ALTER TABLE t AUTO_INCREMENT = 2000;
CREATE TABLE parted (id INT AUTO_INCREMENT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO parted (v) SELECT n FROM seq;
DELETE FROM parted WHERE id > 5;
CREATE TABLE isam (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MyISAM;
INSERT INTO isam (v) SELECT n FROM seq;
DELETE FROM isam WHERE id > 5;
CREATE TABLE emptied (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT=9000000000;
INSERT INTO emptied VALUES (NULL);
DELETE FROM emptied;
CREATE TABLE unused (id INT AUTO_INCREMENT PRIMARY KEY);
";

/// Tables and their next values, according to the server's definitions.
fn next_values(server: &Ephemeral) -> Vec<(String, String)> {
    let mut conn = servers::connect(server);
    let tables = ["emptied", "isam", "parted", "t", "unused"];
    tables
        .map(|table| {
            let shown = conn.query(format!("SHOW CREATE TABLE d.{table}")).unwrap();
            let text = shown.str(0, 1).unwrap().to_owned();
            let value = text.split_once(" AUTO_INCREMENT=");
            let value = value.map_or("1", |(_, rest)| rest.split(' ').next().unwrap());
            (table.to_owned(), value.to_owned())
        })
        .into()
}

fn loaded(server: &Ephemeral, source: &Path, adjust: impl Fn(&mut LoadOptions)) {
    servers::empty(server);
    let mut options = LoadOptions::new(source, servers::target(server));
    options.database = source.is_file().then(|| "d".to_owned());
    options.skip = vec![StatementClass::GtidPurged];
    options.threads = 4;
    options.chunk_rows = Some(50);
    options.defer_min_bytes = 0;
    adjust(&mut options);
    let state = tempfile::tempdir().unwrap();
    if let Err(failure) = load(&options, &run(state.path(), "load")) {
        panic!("{}", chain(&failure.error));
    }
}

fn made_of(a: Endpoint, b: Endpoint) -> VerifyOutcome {
    compare_with(a, b, |options| options.relation = Relation::MadeOfFirst).unwrap()
}

fn noted(outcome: &VerifyOutcome) -> Option<&String> {
    let mut notes = outcome.notes.iter();
    notes.find(|note| note.contains("next AUTO_INCREMENT value"))
}

#[test]
fn a_load_keeps_them_and_lower_ones_are_reported() {
    for kind in ServerKind::ALL {
        let two = two(kind);
        let scratch = tempfile::tempdir().unwrap();
        fill(two.first, TABLES);
        let wanted = next_values(two.first);
        assert_eq!(wanted[0].1, "9000000001", "{kind}");
        let out = scratch.path().join("dump");
        take(two.first, &out, |options| {
            options.read.threads = 3;
            options.chunk_bytes = 1000;
        });
        let sql = scratch.path().join("dump.sql");
        let output = servers_dump(two.first);
        fs::write(&sql, &output).unwrap();
        for source in [&out, &sql] {
            for path in [WritePath::Insert, WritePath::LoadData] {
                for indexes in [IndexMode::Inline, IndexMode::Deferred] {
                    loaded(two.second, source, |options| {
                        options.write_path = path;
                        options.indexes = indexes;
                    });
                    assert_eq!(
                        next_values(two.second),
                        wanted,
                        "{kind} {}",
                        source.display()
                    );
                }
            }
        }
        loaded(two.second, &out, |_| {});
        let outcome = made_of(at(two.first), at(two.second));
        assert!(
            outcome.same && noted(&outcome).is_none(),
            "{kind}: {:?}",
            found(&outcome)
        );
        lower(two.second);
        are_reported(kind, (two.first, two.second), &out);
        // A dump without these values reports nothing about them.
        let text = String::from_utf8_lossy(&output).replace(" AUTO_INCREMENT=", " AVG_ROW_LENGTH=");
        fs::write(&sql, text).unwrap();
        let outcome = compare_with(folder(&sql), at(two.second), |options| {
            options.database = Some("d".to_owned());
        });
        assert_eq!(noted(&outcome.unwrap()), None, "{kind}");
    }
}

fn servers_dump(server: &Ephemeral) -> Vec<u8> {
    let output = server.dump_command().unwrap().arg("d").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn lower(server: &Ephemeral) {
    let script = b"ALTER TABLE t AUTO_INCREMENT = 1; TRUNCATE emptied; ALTER TABLE unused AUTO_INCREMENT = 50";
    servers::client(server, &["d"], script).unwrap();
}

fn are_reported(kind: ServerKind, (first, second): (&Ephemeral, &Ephemeral), dump: &Path) {
    for source in [at(first), folder(dump)] {
        let outcome = made_of(source.clone(), at(second));
        assert_eq!(
            found(&outcome),
            [
                "table d.emptied: next AUTO_INCREMENT value: 9000000001 / 1",
                "table d.t: next AUTO_INCREMENT value: 2000 / 701",
            ],
            "{kind}"
        );
        let outcome = compare_with(source, at(second), |_| {}).unwrap();
        assert!(outcome.same, "{kind}: {:?}", found(&outcome));
        let note = noted(&outcome).unwrap();
        assert!(
            note.contains("lower on the second: d.emptied (1, the first has 9000000001), d.t (701, the first has 2000)."),
            "{kind}: {note}"
        );
    }
    // Higher values lose nothing.
    let back = compare_with(at(second), at(first), |_| {}).unwrap();
    let note = noted(&back).unwrap();
    assert!(
        note.contains("lower on the second: d.unused (1, the first has 50)."),
        "{kind}: {note}"
    );
}
