//! Finds missing row files from the numbers of the others.
//!
//! mydumper 0.10 does not record row counts. It numbers the files of a table in one of two ways,
//! the same throughout a folder (`dump_table` and `dump_table_data` in `mydumper.c`):
//!
//! - With `--chunk-filesize`, numbers start at 00001 and have no gaps. A table with a single file
//!   has no number.
//! - With `--rows`, numbers start at 00000, one for each range of the key. Ranges without rows have
//!   no file. The first range starts at the smallest key, so it always has a row.

use std::collections::{BTreeMap, BTreeSet};

use super::Role;
use crate::folder::Entry;

/// Numbers are padded with zeros to this width.
const DIGITS: usize = 5;

/// The files of one table, by number.
type Parts<'a> = BTreeMap<u64, &'a Entry>;

/// The missing files of a folder without row counts: one message per table, with the first missing
/// file.
pub fn missing(files: &[(Role, String, Entry)]) -> Vec<String> {
    let of_role = |role: Role| files.iter().filter(move |file| file.0 == role);
    let tables: BTreeSet<&str> = of_role(Role::Table)
        .map(|(_, stem, _)| stem.as_str())
        .collect();
    let mut numbered: BTreeMap<&str, Parts> = BTreeMap::new();
    for (_, stem, entry) in of_role(Role::Rows) {
        // What looks like a number may be part of the table name.
        if !tables.contains(stem.as_str())
            && let Some((table, number)) = numbered_part(stem)
            && tables.contains(table)
        {
            numbered.entry(table).or_default().insert(number, entry);
        }
    }
    let by_rows = numbered.values().any(|parts| parts.contains_key(&0));
    numbered
        .iter()
        .filter_map(|(table, parts)| fault(table, parts, by_rows))
        .collect()
}

fn fault(table: &str, parts: &Parts, by_rows: bool) -> Option<String> {
    let number = if by_rows {
        (!parts.contains_key(&0)).then_some(0)?
    } else {
        (1..)
            .zip(parts.keys())
            .find(|(wanted, is)| wanted != *is)?
            .0
    };
    let (_, next) = parts.range(number..).next()?;
    let end = &next.name[next.plain.len()..];
    let name = |number: u64| format!("{table}.{number:0DIGITS$}.sql{end}");
    // If the first file of every table is missing, files by rows look like files by size.
    let or = if by_rows {
        String::new()
    } else {
        format!(" (or {}, of a dump with --rows)", name(0))
    };
    Some(format!(
        "{}{or} is missing: {} is there, and mydumper writes none without the other",
        name(number),
        next.name
    ))
}

/// Table and number of a row file, from its name without the suffix.
fn numbered_part(stem: &str) -> Option<(&str, u64)> {
    let (table, number) = stem.rsplit_once('.')?;
    let filled = number.len() == DIGITS || (number.len() > DIGITS && !number.starts_with('0'));
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    (filled && digits).then_some(())?;
    Some((table, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages for row files with these names, of tables `d.t`, `d.u` and `others`.
    fn faults(others: &[&str], rows: &[&str]) -> Vec<String> {
        let file = |role: Role, stem: &str, name: String| {
            let plain = name.trim_end_matches(".gz").to_owned();
            let entry = Entry {
                path: name.clone().into(),
                name,
                plain,
                bytes: 1,
                folder: false,
            };
            (role, stem.to_owned(), entry)
        };
        let tables = ["d.t", "d.u"].iter().chain(others);
        let tables = tables.map(|stem| file(Role::Table, stem, format!("{stem}-schema.sql")));
        let rows = rows.iter().map(|name| {
            let stem = name.trim_end_matches(".gz").trim_end_matches(".sql");
            file(Role::Rows, stem, (*name).to_owned())
        });
        missing(&tables.chain(rows).collect::<Vec<_>>())
    }

    #[test]
    fn files_by_size_have_every_number() {
        let whole = ["d.t.00001.sql", "d.t.00002.sql", "d.u.sql"];
        assert_eq!(faults(&[], &whole), [""; 0]);
        assert_eq!(faults(&[], &whole[..1]), [""; 0]);
        assert_eq!(
            faults(
                &[],
                &["d.t.00001.sql.gz", "d.t.00003.sql.gz", "d.u.00002.sql.gz"]
            ),
            [
                "d.t.00002.sql.gz (or d.t.00000.sql.gz, of a dump with --rows) is missing: d.t.00003.sql.gz is there, and mydumper writes none without the other",
                "d.u.00001.sql.gz (or d.u.00000.sql.gz, of a dump with --rows) is missing: d.u.00002.sql.gz is there, and mydumper writes none without the other",
            ]
        );
    }

    #[test]
    fn files_by_rows_have_the_first_number() {
        let rows = ["d.t.00000.sql", "d.t.00007.sql", "d.u.00003.sql"];
        assert_eq!(faults(&[], &rows[..2]), [""; 0]);
        let found = faults(&[], &rows);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("d.u.00000.sql is missing: d.u.00003.sql"));
    }

    #[test]
    fn names_of_tables_are_no_numbers() {
        let rows = [
            "d.t.20240102.sql",
            "d.t.00005.sql",
            "d.t.2024.sql",
            "d.v.00009.sql",
        ];
        assert_eq!(faults(&["d.t.20240102", "d.t.00005"], &rows), [""; 0]);
    }
}
