//! A dump that does not match its manifest causes an error that names the file.

// Hazard of comparisons: V-11 which server, and of which moment
// Hazard of comparisons: A flipped byte, a cut file, a file that is longer or missing, a count of
//   rows that is wrong, a name that leads out of the folder

use std::fs;
use std::path::{Path, PathBuf};

use refloat_dump::RowCompression;
use refloat_sandbox::ServerKind;
use refloat_source::manifest::{KeyValue, TableEntry};
use refloat_source::{manifest, read_manifest};
use refloat_testkit::{chain, servers};
use refloat_verify::VerifyError;

use crate::support::{at, compare_with, fill, folder, take, two};

const KIND: ServerKind = ServerKind::MariaDb118;

/// The only file in the directory `d` whose path ends like this.
fn file(out: &Path, end: &str) -> PathBuf {
    let entries = fs::read_dir(out.join("d")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths
        .find(|path| path.to_string_lossy().ends_with(end))
        .unwrap()
}

#[test]
fn damaged_and_missing_files_are_named() {
    let two = two(KIND);
    fill(
        two.first,
        "CREATE TABLE t (a INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, REPEAT('x', 5000)), (2, NULL);",
    );
    let scratch = tempfile::tempdir().unwrap();
    for (number, compression) in [RowCompression::None, RowCompression::Zstd { level: 1 }]
        .into_iter()
        .enumerate()
    {
        let out = scratch.path().join(number.to_string());
        take(two.first, &out, |options| options.compression = compression);
        let compare = || compare_with(folder(&out), at(two.first), |_| {});
        assert!(compare().unwrap().same);
        let rows = file(&out, if number == 0 { ".tsv" } else { ".zst" });
        for path in [rows, file(&out, "schema.sql")] {
            let whole = fs::read(&path).unwrap();
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 1;
            let mut longer = whole.clone();
            longer.push(b'\n');
            for (what, bytes) in [
                ("flipped", Some(flipped)),
                ("cut", Some(whole[..whole.len() - 1].to_vec())),
                ("longer", Some(longer)),
                ("missing", None),
            ] {
                match bytes {
                    Some(bytes) => fs::write(&path, bytes).unwrap(),
                    None => fs::remove_file(&path).unwrap(),
                }
                let error = compare().unwrap_err();
                assert!(
                    matches!(error, VerifyError::Damaged { .. }),
                    "{what}: {error}"
                );
                let name = path.file_name().unwrap().to_string_lossy();
                assert!(chain(&error).contains(&*name), "{what}: {error}");
            }
            fs::write(&path, &whole).unwrap();
        }
        assert!(compare().unwrap().same);
    }
}

#[test]
fn a_folder_without_a_manifest_and_a_name_that_leads_out_are_refused() {
    let two = two(KIND);
    fill(
        two.first,
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)",
    );
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("dump");
    take(two.first, &out, |options| {
        options.compression = RowCompression::None;
    });
    let compare = || compare_with(folder(&out), at(two.first), |_| {});
    let manifest = out.join("manifest.json");
    let text = fs::read(&manifest).unwrap();
    let (text, _) = manifest::unseal(&text).unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let write = |text: String| fs::write(&manifest, manifest::seal(text.as_bytes())).unwrap();
    let rows = file(&out, ".tsv");
    fs::copy(&rows, scratch.path().join("outside")).unwrap();
    let name = format!("d/{}", rows.file_name().unwrap().to_string_lossy());
    write(text.replace(&name, "../outside"));
    let error = compare().unwrap_err();
    assert!(chain(&error).contains("../outside"), "{error}");
    // The manifest claims more rows: the file's checksum is right, the count is not.
    write(text.replace("\"rows\": 1", "\"rows\": 2"));
    let error = compare().unwrap_err();
    assert!(
        chain(&error).contains("the manifest says 2 rows"),
        "{error}"
    );
    fs::remove_file(&manifest).unwrap();
    let error = compare().unwrap_err();
    assert!(matches!(error, VerifyError::Refused(_)), "{error}");
}

#[test]
fn one_server_and_names_that_match_nothing_are_refused() {
    let two = two(KIND);
    for (server, number) in [(two.first, 1), (two.second, 2)] {
        let mut conn = servers::connect(server);
        conn.exec("CREATE DATABASE d").unwrap();
        conn.exec("CREATE TABLE d.t (a INT)").unwrap();
        conn.exec(format!("CREATE TABLE d.only{number} (a INT)"))
            .unwrap();
    }
    let error = compare_with(at(two.first), at(two.first), |_| {}).unwrap_err();
    assert!(error.to_string().contains("same server"), "{error}");
    let named = |name: &str| {
        compare_with(at(two.first), at(two.second), |options| {
            options.tables = vec![name.to_owned()];
        })
    };
    assert!(named("d.t").unwrap().same);
    assert!(
        named("d.only1").unwrap().differs(),
        "it is on one side only"
    );
    let error = named("d.nothing").unwrap_err();
    assert!(error.to_string().contains("d.nothing"), "{error}");
    let outcome = compare_with(at(two.first), at(two.second), |options| {
        options.exclude = vec!["only?".to_owned()];
    });
    let outcome = outcome.unwrap();
    assert!(outcome.same);
    // V-11: the outcome names the servers and the moments compared.
    assert_ne!(
        (outcome.a.port, outcome.a.uuid),
        (outcome.b.port, outcome.b.uuid)
    );
    assert!(!outcome.a.hostname.is_empty() && !outcome.a.snapshot.at.is_empty());
}

/// Encodes rows as `docs/format.md` describes, and returns their digest.
fn digest_of(rows: &refloat_wire::ResultSet) -> u128 {
    let mut sum = 0_u128;
    for row in 0..rows.len() {
        let cells = (0..rows.columns.len()).map(|column| {
            let Some(bytes) = rows.bytes(row, column) else {
                return b"\\N".to_vec();
            };
            let mut out = Vec::new();
            for byte in bytes {
                match byte {
                    b'\t' => out.extend_from_slice(b"\\t"),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    other => out.push(*other),
                }
            }
            out
        });
        let line = cells.collect::<Vec<_>>().join(&b'\t');
        sum = sum.wrapping_add(twox_hash::XxHash3_128::oneshot(&line));
    }
    sum
}

#[test]
fn digests_and_keys_in_the_manifest_are_those_of_the_rows() {
    for kind in [ServerKind::MariaDb1011, ServerKind::MySql97] {
        let two = two(kind);
        fill(
            two.first,
            "CREATE TABLE t (id INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, NULL), (2, 'tab\\tnl\\nbs\\\\N'), (3, '\\\\N'), (4, ''), (5, 'é');
             INSERT INTO t SELECT id * 10, REPEAT('x', id * 100) FROM t; INSERT INTO t SELECT id * 1000, b FROM t;",
        );
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("dump");
        take(two.first, &out, |options| options.chunk_bytes = 700);
        let manifest = read_manifest(&out).unwrap();
        let table = &manifest.databases[0].tables[0];
        assert!(table.chunks.len() > 3, "{}", table.chunks.len());
        let mut conn = servers::connect(two.first);
        conn.exec("SET NAMES utf8mb4").unwrap();
        let mut rows = |and: &str| {
            let sql = format!("SELECT id, b FROM d.t WHERE {and} ORDER BY id");
            conn.query(sql).unwrap()
        };
        let hex = |sum: u128| format!("{sum:032x}");
        assert_eq!(table.digest, hex(digest_of(&rows("TRUE"))));
        for chunk in &table.chunks {
            let ([KeyValue::Text(first)], [KeyValue::Text(last)]) = (&*chunk.first, &*chunk.last)
            else {
                panic!("{chunk:?}");
            };
            let found = rows(&format!("id BETWEEN {first} AND {last}"));
            assert_eq!(found.len() as u64, chunk.rows);
            assert_eq!(chunk.digest, hex(digest_of(&found)), "{chunk:?}");
        }
        assert!(
            compare_with(folder(&out), at(two.first), |_| {})
                .unwrap()
                .same
        );
    }
}

/// A change to a table's entry in a manifest.
type Change<'a> = Box<dyn Fn(&mut TableEntry) + 'a>;

#[test]
fn a_manifest_that_says_other_digests_or_keys_is_named() {
    let two = two(KIND);
    fill(
        two.first,
        "CREATE TABLE t (id INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, REPEAT('x', 900)), (2, REPEAT('y', 900)), (3, 'z');",
    );
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("dump");
    take(two.first, &out, |options| options.chunk_bytes = 700);
    let whole = read_manifest(&out).unwrap();
    let chunk = whole.databases[0].tables[0].chunks[1].file.path.clone();
    // A different digest with the same number of digits.
    let other = |digest: &mut String| {
        let number = u128::from_str_radix(digest, 16).unwrap().wrapping_add(1);
        *digest = format!("{number:032x}");
    };
    let sums = "table d.t: the manifest says the digest";
    let cases: [(&str, &str, Change<'_>); 6] = [
        (
            "manifest.json",
            sums,
            Box::new(|table| other(&mut table.digest)),
        ),
        (
            "manifest.json",
            sums,
            Box::new(|table| other(&mut table.chunks[1].digest)),
        ),
        (
            "manifest.json",
            "\"x\" is not a digest",
            Box::new(|table| table.digest = "x".to_owned()),
        ),
        (
            &chunk,
            "the digest of its rows is",
            Box::new(|table| {
                other(&mut table.digest);
                other(&mut table.chunks[1].digest);
            }),
        ),
        (
            &chunk,
            "the key of its first row is",
            Box::new(|table| table.chunks[1].first = vec![KeyValue::new(b"1")]),
        ),
        (
            &chunk,
            "the key of its last row is",
            Box::new(|table| table.chunks[1].last = vec![KeyValue::new(b"9")]),
        ),
    ];
    for (file, words, change) in cases {
        let mut manifest = whole.clone();
        change(&mut manifest.databases[0].tables[0]);
        let text = manifest::write(&manifest).unwrap();
        fs::write(out.join("manifest.json"), text).unwrap();
        let error = chain(&compare_with(folder(&out), at(two.first), |_| {}).unwrap_err());
        assert!(
            error.contains(file) && error.contains(words),
            "{words}: {error}"
        );
    }
}

#[test]
fn no_bit_of_a_manifest_changes_unnoticed() {
    let two = two(KIND);
    fill(
        two.first,
        "CREATE TABLE t1 (a INT, b INT); CREATE TABLE t3 (a INT, b INT); INSERT INTO t1 VALUES (1, 10), (2, 20); INSERT INTO t3 VALUES (3, 30);",
    );
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("dump");
    take(two.first, &out, |_| {});
    let path = out.join("manifest.json");
    let whole = fs::read(&path).unwrap();
    // Bits all over the file; a test in `manifest::text` flips every bit of a manifest.
    for step in 0..400 {
        let bit = step * 7919 % (whole.len() * 8);
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &flipped).unwrap();
        let error = read_manifest(&out).unwrap_err();
        assert!(
            chain(&error).contains("manifest.json"),
            "bit {bit}: {error}"
        );
        let error = compare_with(folder(&out), at(two.first), |_| {}).unwrap_err();
        assert!(
            chain(&error).contains("manifest.json"),
            "bit {bit}: {error}"
        );
    }
}
