//! The encoded manifest: JSON whose last member is a checksum of all the bytes before it.
//!
//! The manifest proves every other file, but only this checksum proves the manifest. Everything
//! after the bytes that it covers has exactly one form, so no bit of the file can change unnoticed.
//! `docs/format.md` explains how to check it by hand.

use std::collections::BTreeSet;

use twox_hash::XxHash3_128;

use super::{FORMAT, Manifest};
use crate::folder::metadata;

/// What precedes the checksum digits, after the newline that ends the previous member.
const BEFORE: &[u8] = b"  \"checksum\": \"";
/// What follows the digits.
const AFTER: &[u8] = b"\"\n}\n";
/// Hexadecimal digits of an XXH3-128.
const DIGITS: usize = 32;
/// What to do about a damaged manifest.
const HINT: &str = "nothing that it says can be trusted: fetch the dump again, or use another one";

/// Why a manifest cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is not what was written.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// It has another format version.
    #[error(
        "its format is {0}, and this version reads {FORMAT}: use the version of refloat that made it"
    )]
    Other(u64),
    /// It has no format version.
    #[error("it does not name a format of refloat")]
    NoFormat,
}

/// Encodes a manifest.
///
/// # Errors
/// Those of the serializer.
pub fn write(manifest: &Manifest) -> Result<Vec<u8>, serde_json::Error> {
    let text = serde_json::to_vec_pretty(manifest)?;
    let body = text.strip_suffix(b"\n}").unwrap_or(&text);
    Ok(seal(&[body, b",\n"].concat()))
}

/// Completes a manifest with its checksum. `body` ends after the comma and newline of the last
/// member before it.
pub fn seal(body: &[u8]) -> Vec<u8> {
    let checksum = checksum_of(body);
    [body, BEFORE, checksum.as_bytes(), AFTER].concat()
}

/// Splits a manifest into the text that [`seal`] was given and the checksum digits; `None` if it
/// does not end as [`seal`] would end it.
pub fn unseal(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_suffix(AFTER)?;
    let (text, digits) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
    Some((text.strip_suffix(BEFORE)?, digits))
}

fn checksum_of(body: &[u8]) -> String {
    format!("{:032x}", XxHash3_128::oneshot(body))
}

/// Decodes a manifest, and trusts it only if its checksum matches.
///
/// # Errors
/// It is damaged, has another format version, or is not a manifest.
pub fn parse(text: &[u8]) -> Result<Manifest, ManifestError> {
    let damaged = ManifestError::Damaged;
    let sealed = unseal(text);
    if let Some((body, digits)) = sealed {
        let found = checksum_of(body);
        if found.as_bytes() != digits {
            let recorded = String::from_utf8_lossy(digits);
            return Err(damaged(format!(
                "the checksum of its bytes is {found}, and its end says {recorded}; {HINT}"
            )));
        }
    }
    match format(text).map_err(damaged)? {
        None | Some(0) => return Err(ManifestError::NoFormat),
        Some(format) if format != u64::from(FORMAT) => return Err(ManifestError::Other(format)),
        Some(_) if sealed.is_none() => {
            return Err(damaged(format!(
                "it does not end with its checksum, as it was written; {HINT}"
            )));
        }
        Some(_) => {}
    }
    let manifest: Manifest = metadata(text).map_err(damaged)?;
    match named_twice(&manifest) {
        Some(what) => Err(damaged(format!("it names {what} twice; {HINT}"))),
        None => Ok(manifest),
    }
}

/// The format version of a manifest. It ignores everything else, because the content of later
/// versions is unknown.
fn format(text: &[u8]) -> Result<Option<u64>, String> {
    #[derive(serde::Deserialize)]
    struct Format {
        format: Option<u64>,
    }
    metadata::<Format>(text).map(|found| found.format)
}

/// A database, table or column with two entries.
fn named_twice(manifest: &Manifest) -> Option<String> {
    let mut databases = BTreeSet::new();
    for database in &manifest.databases {
        if !databases.insert(&database.name) {
            return Some(format!("the database {}", database.name));
        }
        let mut tables = BTreeSet::new();
        for table in &database.tables {
            let label = format!("{}.{}", database.name, table.name);
            if !tables.insert(&table.name) {
                return Some(format!("the table {label}"));
            }
            let mut columns = BTreeSet::new();
            let mut names = table.columns.iter().map(|column| &column.name);
            if let Some(name) = names.find(|name| !columns.insert(*name)) {
                return Some(format!("the column {name} of {label}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manifest with two tables of one row each.
    fn example() -> Manifest {
        let table = |name: &str| {
            serde_json::json!({
                "name": name, "engine": "InnoDB", "data": true, "columns": [{"name": "a"}, {"name": "b"}], "key": [], "rows": 1,
                "digest": "562591323b675829dedb980100c87e72", "chunks": []
            })
        };
        let file = serde_json::json!({"path": "d/schema.sql", "bytes": 24, "checksum": "200d6aa1e03e2dbab319f0e0bc501483"});
        serde_json::from_value(serde_json::json!({
            "format": FORMAT, "made_by": "refloat 0.1.0", "server": {"vendor": "MariaDB", "version": "10.11.8", "hostname": "h"},
            "snapshot": {
                "at": "2026-01-01T00:00:00Z", "consistent": true, "method": "x", "locked_seconds": 0.1, "binlog_file": "b.000001",
                "binlog_position": 4, "gtid": null, "galera": null, "replica_of": []
            },
            "databases": [{
                "name": "d", "schema": file, "tables": [table("t1"), table("t3")], "sequences": [], "views": [],
                "invalid_views": [], "routines": [], "triggers": [], "events": []
            }],
            "programs": null, "users": null, "notes": ["é"]
        }))
        .unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let text = write(&example()).unwrap();
        assert_eq!(parse(&text).unwrap(), example());
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let checksum = json["checksum"].as_str().unwrap();
        // As in the manual check: all lines but the last two.
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let body = lines[..lines.len() - 2].concat();
        assert_eq!(checksum, checksum_of(body.as_bytes()));
    }

    #[test]
    fn no_bit_changes_unnoticed() {
        let text = write(&example()).unwrap();
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = parse(&flipped);
            assert!(found.is_err(), "bit {bit}: {found:?}");
        }
    }

    #[test]
    fn no_byte_is_lost_or_added_unnoticed() {
        let text = write(&example()).unwrap();
        for at in 0..text.len() {
            assert!(parse(&text[..at]).is_err(), "cut at {at}");
            let mut without = text.clone();
            without.remove(at);
            assert!(parse(&without).is_err(), "without byte {at}");
        }
        assert!(parse(&[&*text, b"\n"].concat()).is_err());
    }

    #[test]
    fn one_without_a_checksum_is_damaged() {
        for text in [
            serde_json::to_vec_pretty(&example()).unwrap(),
            serde_json::to_vec(&example()).unwrap(),
        ] {
            let found = parse(&text);
            assert!(matches!(found, Err(ManifestError::Damaged(_))), "{found:?}");
        }
    }

    #[test]
    fn another_format_and_none_are_told_apart() {
        for format in [FORMAT - 1, FORMAT + 1] {
            let mut other = example();
            other.format = format;
            let found = parse(&write(&other).unwrap());
            assert!(matches!(found, Err(ManifestError::Other(_))), "{found:?}");
        }
        let found = parse(b"{}");
        assert!(matches!(found, Err(ManifestError::NoFormat)), "{found:?}");
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        let mut manifest = example();
        manifest.databases[0].tables[0].name = "t3".to_owned();
        let message =
            |manifest: &Manifest| parse(&write(manifest).unwrap()).unwrap_err().to_string();
        assert!(message(&manifest).contains("the table d.t3 twice"));
        let mut manifest = example();
        manifest.databases[0].tables[1].columns[0].name = "b".to_owned();
        assert!(message(&manifest).contains("the column b of d.t3 twice"));
    }
}
