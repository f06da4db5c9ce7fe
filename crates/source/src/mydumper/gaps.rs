//! Files of rows that are missing, as far as the numbers of the others tell.
//!
//! mydumper 0.10 counts no rows, and numbers the files of a table in one of two ways, the same one in all of a folder (`dump_table` and
//! `dump_table_data` of `mydumper.c`):
//!
//! - With `--chunk-filesize` from 00001 on, and leaves no number out. A table of one file has no number.
//! - With `--rows` from 00000 on, a number for each range of the key. Of ranges without rows there are no files; the first range begins
//!   with the smallest key, so that it has a row.

use std::collections::{BTreeMap, BTreeSet};

use super::Role;
use crate::folder::Entry;

/// Digits that numbers are filled up to.
const DIGITS: usize = 5;

/// Files of one table by their numbers.
type Parts<'a> = BTreeMap<u64, &'a Entry>;

/// What is missing among the files of a folder without counts: a sentence for each table, with the name of the first file.
pub fn missing(files: &[(Role, String, Entry)]) -> Vec<String> {
    let of_role = |role: Role| files.iter().filter(move |file| file.0 == role);
    let tables: BTreeSet<&str> = of_role(Role::Table)
        .map(|(_, stem, _)| stem.as_str())
        .collect();
    let mut numbered: BTreeMap<&str, Parts> = BTreeMap::new();
    for (_, stem, entry) in of_role(Role::Rows) {
        // What looks like a number may be the end of a table's name.
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
    // Files by rows look like those by size when the first one is missing of each table.
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

/// Table and number of a file of rows, by its name without the end.
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

    /// What is missing among rows of these names, of tables `d.t` and `d.u` and others that are named.
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
