//! Cuts a table into ranges of its key, so that several connections can read it and every row is
//! read exactly once.
//!
//! All comparisons are made by the server. Ranges are half-open; the first has no lower bound and
//! the last no upper bound, so every row falls into exactly one range, whatever the borders are.

mod borders;

use std::fmt::Write as _;

use refloat_source::manifest::hex;
use refloat_sqltext::quote_ident;
use refloat_wire::Connection;

use super::catalog::{KeyColumn, KeyLiteral, Table};
use super::error::ReadError;

/// The least bytes that a range is worth: each one costs a few estimates, and a dump a file.
pub const RANGE_MIN: u64 = 4 << 20;
/// From this many bytes on, the extra cost of a longer statement is negligible.
const LONG: u64 = 4 << 20;
/// Blanks appended to the statement of a long range. Socket buffers hold three pieces of this size.
/// Measured with a dump over two connections through a Unix socket: 10 % less server CPU, 5 % less
/// time; with 512 KiB it takes longer again.
const BLANKS: usize = 64 << 10;

/// A part of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// The partition; `None` when the range is not limited to one.
    pub partition: Option<String>,
    /// First key of the range, inclusive, as SQL literals; `None`: from the beginning.
    pub from: Option<Vec<String>>,
    /// First key after the range, exclusive, as SQL literals; `None`: to the end.
    pub to: Option<Vec<String>>,
    /// Estimated size of its rows in bytes.
    pub bytes: u64,
}

impl Range {
    /// Whether the range is only a part of its table.
    pub const fn is_part(&self) -> bool {
        self.partition.is_some() || self.from.is_some() || self.to.is_some()
    }
}

/// Cuts a table into ranges of about `target` bytes.
pub fn cut(conn: &mut Connection, table: &Table, target: u64) -> Result<Vec<Range>, ReadError> {
    let whole = |partition: Option<&String>, bytes: u64| Range {
        partition: partition.cloned(),
        bytes,
        ..Range::default()
    };
    if table.partitions.is_empty() {
        return within(conn, table, whole(None, table.bytes), target);
    }
    if table.bytes <= target {
        return Ok(vec![whole(None, table.bytes)]);
    }
    let each = table.bytes / table.partitions.len() as u64;
    let mut ranges = Vec::new();
    for partition in &table.partitions {
        ranges.extend(within(conn, table, whole(Some(partition), each), target)?);
    }
    Ok(ranges)
}

/// Cuts a whole table or a whole partition by its key.
fn within(
    conn: &mut Connection,
    table: &Table,
    whole: Range,
    target: u64,
) -> Result<Vec<Range>, ReadError> {
    // Up to half as much again is not worth another cut.
    if table.key.is_empty() || whole.bytes <= target + target / 2 {
        return Ok(vec![whole]);
    }
    let borders =
        borders::find(conn, table, whole.partition.as_deref(), target).map_err(|error| {
            ReadError::server(
                format!("cutting table {} into ranges", table.label()),
                error,
            )
        })?;
    let parts = borders.len() as u64 + 1;
    let mut ranges = Vec::with_capacity(borders.len() + 1);
    let mut from = None;
    for to in borders.into_iter().map(Some).chain([None]) {
        ranges.push(Range {
            partition: whole.partition.clone(),
            from: from.take(),
            to: to.clone(),
            bytes: whole.bytes / parts,
        });
        from = to;
    }
    Ok(ranges)
}

/// The `FROM` clause of a table or partition; the server chooses how to read it.
fn from_any_way(table: &Table, partition: Option<&str>) -> String {
    let mut text = format!("FROM {}", table.quoted());
    if let Some(partition) = partition {
        let _ = write!(text, " PARTITION ({})", quote_ident(partition));
    }
    if table.history {
        text += " FOR SYSTEM_TIME ALL";
    }
    text
}

/// The `FROM` clause of a table or partition, read by its key.
fn from_clause(table: &Table, partition: Option<&str>) -> String {
    let mut text = from_any_way(table, partition);
    if !table.key_name.is_empty() {
        let _ = write!(text, " FORCE INDEX ({})", quote_ident(&table.key_name));
    }
    text
}

/// The statement that counts all rows; the server chooses how.
pub fn count(table: &Table) -> String {
    format!(
        "SELECT /* refloat dump */ COUNT(*) {}",
        from_any_way(table, None)
    )
}

/// The statement that reads the rows of a range, in key order if the table is stored in that order.
pub fn select(table: &Table, range: &Range) -> String {
    let columns: Vec<&str> = table
        .columns
        .iter()
        .map(|column| column.select.as_str())
        .collect();
    let mut sql = format!(
        "SELECT /* refloat dump */ {} {}",
        columns.join(", "),
        from_clause(table, range.partition.as_deref())
    );
    sql += &within_range(table, range);
    if clustered(table) {
        let _ = write!(sql, " ORDER BY {}", order(&table.key, false));
    }
    sql
}

/// Appends blanks to the statement `sql` of a long range. A server's connection buffer grows to the
/// longest statement it has received, and results go through the same buffer, so they arrive in
/// fewer and larger pieces. Servers strip the blanks before anything else sees the statement,
/// including logs and the process list.
pub fn ask_for_large_pieces(mut sql: String, range: &Range, conn: &Connection) -> String {
    if range.bytes >= LONG && conn.max_allowed_packet() > sql.len() + 2 * BLANKS {
        sql.extend(std::iter::repeat_n(' ', BLANKS));
    }
    sql
}

/// Whether key order is also the storage order of the rows.
fn clustered(table: &Table) -> bool {
    !table.key.is_empty() && table.engine.eq_ignore_ascii_case("innodb")
}

/// The key as an `ORDER BY` list.
fn order(key: &[KeyColumn], backwards: bool) -> String {
    let parts: Vec<String> = key
        .iter()
        .map(|column| {
            let down = column.descending != backwards;
            format!(
                "{}{}",
                quote_ident(&column.name),
                if down { " DESC" } else { "" }
            )
        })
        .collect();
    parts.join(", ")
}

/// The `WHERE` clause of a range; empty when it has no borders.
fn within_range(table: &Table, range: &Range) -> String {
    let conditions: Vec<String> = [(&range.from, Side::From), (&range.to, Side::To)]
        .into_iter()
        .filter_map(|(border, side)| Some(condition(&table.key, border.as_ref()?, side)))
        .collect();
    if conditions.is_empty() {
        String::new()
    } else {
        format!(" WHERE {}", conditions.join(" AND "))
    }
}

/// Splits a range of a table with a key after `rows` of its rows; `None` when it has no more than
/// that.
pub fn split(
    conn: &mut Connection,
    table: &Table,
    range: &Range,
    rows: u64,
) -> Result<Option<(Range, Range)>, ReadError> {
    let border = borders::behind(conn, table, range, rows).map_err(|error| {
        ReadError::server(format!("halving a range of table {}", table.label()), error)
    })?;
    Ok(border.map(|border| {
        let mut halves = (range.clone(), range.clone());
        halves.0.to = Some(border.clone());
        halves.1.from = Some(border);
        halves
    }))
}

/// A side of a border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// At or after the border.
    From,
    /// Before the border.
    To,
}

/// The condition for the rows on one side of a border, in key order.
///
/// It lets the server use the first column as a range:
/// `a >= 1 AND (a > 1 OR (a = 1 AND (b >= 2)))`.
fn condition(key: &[KeyColumn], border: &[String], side: Side) -> String {
    let (column, value) = (&key[0], &border[0]);
    let name = quote_ident(&column.name);
    let (strict, loose) = match (side, column.descending) {
        (Side::From, false) | (Side::To, true) => (">", ">="),
        (Side::From, true) | (Side::To, false) => ("<", "<="),
    };
    if key.len() == 1 {
        let operator = match side {
            Side::From => loose,
            Side::To => strict,
        };
        return format!("{name} {operator} {value}");
    }
    let rest = condition(&key[1..], &border[1..], side);
    format!(
        "({name} {loose} {value} AND ({name} {strict} {value} OR ({name} = {value} AND {rest})))"
    )
}

impl KeyColumn {
    /// A value of the column as a literal for a condition.
    fn write(&self, value: &[u8]) -> String {
        match &self.literal {
            KeyLiteral::Integer | KeyLiteral::Decimal => {
                String::from_utf8_lossy(value).into_owned()
            }
            KeyLiteral::Quoted => format!("'{}'", String::from_utf8_lossy(value)),
            KeyLiteral::Text { charset, collation } => {
                format!("_{charset} x'{}' COLLATE {collation}", hex(value))
            }
            KeyLiteral::Binary => format!("_binary x'{}'", hex(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, descending: bool) -> KeyColumn {
        KeyColumn {
            name: name.into(),
            index: 0,
            descending,
            literal: KeyLiteral::Integer,
        }
    }

    #[test]
    fn conditions_follow_the_order_of_the_key() {
        let key = [column("a", false), column("b", true)];
        let border = ["1".to_owned(), "2".to_owned()];
        assert_eq!(
            condition(&key, &border, Side::From),
            "(`a` >= 1 AND (`a` > 1 OR (`a` = 1 AND `b` <= 2)))"
        );
        assert_eq!(
            condition(&key, &border, Side::To),
            "(`a` <= 1 AND (`a` < 1 OR (`a` = 1 AND `b` > 2)))"
        );
        assert_eq!(condition(&key[..1], &border, Side::From), "`a` >= 1");
        assert_eq!(condition(&key[..1], &border, Side::To), "`a` < 1");
    }

    #[test]
    fn values_are_written_without_anything_that_a_session_could_change() {
        let mut key = column("a", false);
        key.literal = KeyLiteral::Text {
            charset: "utf8mb4".into(),
            collation: "utf8mb4_bin".into(),
        };
        assert_eq!(key.write(b"a'\\"), "_utf8mb4 x'61275C' COLLATE utf8mb4_bin");
        key.literal = KeyLiteral::Binary;
        assert_eq!(key.write(b"\0"), "_binary x'00'");
    }
}
