//! JSON values of MySQL whose type is lost in text are reported by whoever reads them: a load
//! changes their type, and as text they still compare as equal.

// Hazard of results: L-27 JSON values of MySQL of types that text cannot carry (DECIMAL, DATE,
//   TIME, DATETIME, bytes): they are not brought over, but noted per column by dumps and copies;
//   `refloat verify` does not see them, and loads of other tools' dumps cannot

use refloat_copy::{CopyOptions, copy};
use refloat_sandbox::ServerKind;
use refloat_source::read_manifest;
use refloat_testkit::{chain, servers};

use crate::support::{fill, run, take, two};

#[test]
fn json_values_of_types_that_text_cannot_carry_are_noted() {
    let two = two(ServerKind::MySql97);
    // A document nested as deep as the server allows is checked too.
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    fill(
        two.first,
        &format!(
            "CREATE TABLE plain (id INT PRIMARY KEY, j JSON);
             INSERT INTO plain VALUES (1, '{{\"a\": [1, -2, 1.5, 18446744073709551615, true, null, \"12:00:00.000000\"]}}'), (2, NULL), (3, '1.5'),
                 (4, '{deep}'), (5, JSON_ARRAY(CAST(5 AS UNSIGNED), 1e0, ST_GeomFromText('POINT(1 1)')));
             CREATE TABLE root (j JSON); INSERT INTO root VALUES (CAST(CAST(0.5 AS DECIMAL(7,7)) AS JSON));
             CREATE TABLE typed (id INT PRIMARY KEY, j JSON, `k k` JSON, l JSON);
             INSERT INTO typed VALUES (1, '{{}}', '{{}}', '[]'),
                 (2, JSON_OBJECT('a', JSON_ARRAY(1, JSON_OBJECT('d', CAST(1.10 AS DECIMAL(5,2))))), JSON_ARRAY(CAST('2020-01-01' AS DATE)), NULL),
                 (3, JSON_OBJECT('t', CAST('12:00:00' AS TIME)), JSON_ARRAY(CAST(x'FF00' AS BINARY), CAST('2020-01-01 10:00:00' AS DATETIME)), '[1]');"
        ),
    );
    let scratch = tempfile::tempdir().unwrap();
    let all = "after a load they are DOUBLE (DECIMAL) or STRING (all others)";
    let held = "it holds JSON values of types that text cannot carry";
    let expected = [
        format!("column d.root.j: {held} (DECIMAL): {all}"),
        format!("column d.typed.j: {held} (DECIMAL, TIME): {all}"),
        format!("column d.typed.k k: {held} (BLOB, DATE, DATETIME): {all}"),
    ];
    let json = |notes: &[String]| -> Vec<String> {
        let about = notes.iter().filter(|note| note.contains("JSON"));
        about.cloned().collect()
    };
    let out = scratch.path().join("dump");
    take(two.first, &out, |_| {});
    assert_eq!(json(&read_manifest(&out).unwrap().notes), expected);
    let out = scratch.path().join("not asked");
    take(two.first, &out, |options| options.json_types = false);
    assert!(json(&read_manifest(&out).unwrap().notes).is_empty());
    let options = CopyOptions::new(servers::target(two.first), servers::target(two.second));
    let outcome = copy(&options, &run(scratch.path(), "copy"))
        .unwrap_or_else(|failure| panic!("{}", chain(&failure.error)));
    assert_eq!(json(&outcome.notes), expected);
}
