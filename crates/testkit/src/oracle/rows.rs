//! Reads and hashes the rows of one table.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;

use refloat_wire::{Connection, Error};
use twox_hash::XxHash3_128;

use super::{Scope, literal, quote};

/// Number of rows kept per table, to show the ones that differ.
const ROWS_KEPT: usize = 20_000;
/// `MYSQL_TYPE_FLOAT` and `MYSQL_TYPE_DOUBLE`.
const FLOAT: u8 = 4;
const DOUBLE: u8 = 5;
/// Maximum length of a kept row.
const ROW_SHOWN: usize = 400;

/// The rows of one table.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Number of rows.
    pub count: u64,
    /// Sum of the row hashes, modulo 2^128.
    pub digest: u128,
    /// Names and types of the selected columns. Rows of other columns never compare equal.
    pub columns: Vec<String>,
    /// The first rows, as a hash and a text for people.
    kept: Vec<(u128, String)>,
}

impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.digest, &self.columns) == (other.count, other.digest, &other.columns)
    }
}

impl Eq for Rows {}

impl Rows {
    fn add(&mut self, cells: &[Option<&[u8]>]) {
        let mut bytes = Vec::new();
        for cell in cells {
            match cell {
                None => bytes.push(0),
                Some(cell) => {
                    bytes.push(1);
                    bytes.extend_from_slice(&(cell.len() as u64).to_le_bytes());
                    bytes.extend_from_slice(cell);
                }
            }
        }
        let hash = XxHash3_128::oneshot(&bytes);
        self.count += 1;
        self.digest = self.digest.wrapping_add(hash);
        if self.kept.len() < ROWS_KEPT {
            let mut text = String::new();
            for cell in cells {
                let cell = cell.map_or("NULL".into(), |cell| {
                    String::from_utf8_lossy(cell).into_owned()
                });
                let _ = write!(text, "[{cell}]");
                if text.len() > ROW_SHOWN {
                    text = text.chars().take(ROW_SHOWN).collect();
                    break;
                }
            }
            self.kept.push((hash, text));
        }
    }

    /// Describes how these rows differ from those of `other`.
    pub(super) fn against(&self, other: &Self, shown: usize) -> (String, String) {
        if self.columns != other.columns {
            return (self.columns.join(", "), other.columns.join(", "));
        }
        (self.only_here(other, shown), other.only_here(self, shown))
    }

    fn only_here(&self, other: &Self, shown: usize) -> String {
        let mut times: HashMap<u128, i64> = HashMap::new();
        for (hash, _) in &other.kept {
            *times.entry(*hash).or_default() += 1;
        }
        let mut only = Vec::new();
        for (hash, text) in &self.kept {
            let left = times.entry(*hash).or_default();
            *left -= 1;
            if *left < 0 && only.len() < shown {
                only.push(text.as_str());
            }
        }
        format!(
            "{} rows, digest {:032x}; only here: {}",
            self.count,
            self.digest,
            only.join(" ")
        )
    }
}

/// Reads every column of every row, including invisible columns that `SELECT *` omits.
pub fn read(
    conn: &mut Connection,
    database: &str,
    table: &str,
    scope: Scope,
) -> Result<Rows, Error> {
    let found = conn.query(format!(
        "SELECT COLUMN_NAME, DATA_TYPE, GENERATION_EXPRESSION FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} ORDER BY ORDINAL_POSITION",
        literal(database),
        literal(table)
    ))?;
    let mut rows = Rows::default();
    let mut list = Vec::new();
    let (mut period, mut floats) = (false, false);
    for row in 0..found.len() {
        let text = |column| {
            found
                .bytes(row, column)
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                .unwrap_or_default()
        };
        let (name, kind, expression) = (text(0), text(1), text(2));
        if matches!(expression.as_str(), "ROW START" | "ROW END") {
            period = true;
            if !scope.history {
                continue;
            }
            if expression == "ROW END" {
                list.push(row_end(conn, &quote(&name))?);
                rows.columns.push(format!("{name} {kind}"));
                continue;
            }
        }
        let kind = kind.to_ascii_lowercase();
        floats |= is_float(&kind);
        list.push(exact(&quote(&name), &kind));
        rows.columns.push(format!("{name} {kind}"));
    }
    let mut from = format!("{}.{}", quote(database), quote(table));
    if scope.history && is_versioned(conn, database, table)? {
        from.push_str(" FOR SYSTEM_TIME ALL");
        if !period {
            // The period columns that the server adds implicitly.
            list.extend(["CONCAT(row_start)".to_owned(), row_end(conn, "row_end")?]);
        }
    }
    let query = format!("SELECT {} FROM {from}", list.join(", "));
    if floats {
        // Dumps read floating-point numbers as text. The oracle must not read them the same way.
        let statement = conn.prepare(query)?;
        conn.query_each_binary(&statement, &mut |row| {
            let shown: Vec<Option<Vec<u8>>> = row
                .iter()
                .zip(row.columns())
                .map(|(cell, column)| cell.map(|cell| number(column.type_code, cell)))
                .collect();
            let cells: Vec<Option<&[u8]>> = shown.iter().map(Option::as_deref).collect();
            rows.add(&cells);
            ControlFlow::Continue(())
        })?;
        conn.close_statement(&statement)?;
        return Ok(rows);
    }
    conn.query_each(query, &mut |row| {
        let cells: Vec<Option<&[u8]>> = row.iter().collect();
        rows.add(&cells);
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

fn is_float(kind: &str) -> bool {
    matches!(kind, "float" | "double")
}

/// Formats a cell of the binary protocol: a floating-point number as its value and bits. All other
/// columns are selected as text.
fn number(type_code: u8, cell: &[u8]) -> Vec<u8> {
    match (type_code, cell) {
        (FLOAT, &[a, b, c, d]) => {
            let bits = u32::from_le_bytes([a, b, c, d]);
            format!("{:e}, bits {bits:08x}", f32::from_bits(bits)).into_bytes()
        }
        (DOUBLE, cell) if cell.len() == 8 => {
            let bits = cell
                .iter()
                .rev()
                .fold(0, |bits, byte| bits << 8 | u64::from(*byte));
            format!("{:e}, bits {bits:016x}", f64::from_bits(bits)).into_bytes()
        }
        _ => cell.to_vec(),
    }
}

/// An expression for the end of a row's life. The end time of current rows depends on the server
/// (2038 before MariaDB 11.5, otherwise 2106), so it becomes `never`.
fn row_end(conn: &mut Connection, name: &str) -> Result<String, Error> {
    let long = conn.query_value("SELECT FROM_UNIXTIME(4294967295) IS NOT NULL")?;
    let never = if long.as_deref() == Some("1") {
        "2106-02-07 06:28:15.999999"
    } else {
        "2038-01-19 03:14:07.999999"
    };
    Ok(format!("IF({name} = '{never}', 'never', {name})"))
}

fn is_versioned(conn: &mut Connection, database: &str, table: &str) -> Result<bool, Error> {
    let kind = conn.query_value(format!(
        "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
        literal(database),
        literal(table)
    ))?;
    Ok(kind.as_deref() == Some("SYSTEM VERSIONED"))
}

/// An expression that returns a column's value without loss, whatever the connection's character
/// set.
fn exact(name: &str, kind: &str) -> String {
    match kind {
        // Read as bits.
        kind if is_float(kind) => name.to_owned(),
        "bit" => format!("HEX({name} + 0)"),
        // With the number: index 0 and the member '' look the same.
        "enum" | "set" => format!("CONCAT(CAST({name} AS UNSIGNED), ':', HEX({name}))"),
        "json" | "uuid" | "inet4" | "inet6" => format!("HEX(CAST({name} AS CHAR))"),
        // Text, so that both protocols return the same.
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" | "date"
        | "time" | "datetime" | "timestamp" => format!("CONCAT({name})"),
        _ => format!("HEX({name})"),
    }
}
