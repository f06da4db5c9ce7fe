//! Cutting a table into ranges of its key, so that several connections read it, and no row is read twice or not at all.
//!
//! All comparisons are the server's own. A range is half open; the first has no lower end and the last no upper one, so whatever
//! the borders are, every row is in exactly one range.

mod borders;

use std::fmt::Write as _;

use refloat_source::manifest::hex;
use refloat_sqltext::quote_ident;
use refloat_wire::Connection;

use super::catalog::{KeyColumn, KeyLiteral, Table};
use super::error::ReadError;

/// A range is long from this many bytes on: what the statement costs more is nothing beside its answer.
const LONG: u64 = 4 << 20;
/// Blanks behind the statement of a long range. Sockets hold three of such pieces. Measured with a dump of two connections through a unix
/// socket: a tenth less CPU of the server, a twentieth of the time; with 512 KiB it takes longer again.
const BLANKS: usize = 64 << 10;

/// A part of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// The partition, where the table has some.
    pub partition: Option<String>,
    /// The first key of the range; `None`: from the beginning.
    pub from: Option<Vec<String>>,
    /// The first key behind the range; `None`: to the end.
    pub to: Option<Vec<String>>,
    /// Bytes of rows, as the server estimates them.
    pub bytes: u64,
}

impl Range {
    /// Whether there are others of the table.
    pub const fn is_part(&self) -> bool {
        self.partition.is_some() || self.from.is_some() || self.to.is_some()
    }
}

/// Cuts a table so that a range has about `target` bytes.
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
    // Half as much again is not worth another cut.
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

/// The `FROM` clause of a table or partition, read by whatever way the server likes best.
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

/// The statement that counts all rows, by whatever way the server likes best.
pub fn count(table: &Table) -> String {
    format!(
        "SELECT /* refloat dump */ COUNT(*) {}",
        from_any_way(table, None)
    )
}

/// The statement that reads the rows of a range, in the order of the key where the table lies in that order.
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

/// The statement `sql` for this range, with blanks behind it where much is to come: a server's buffer of a connection grows to the longest
/// statement that it took, and the answer goes through the same buffer, in fewer and larger pieces. Servers cut blanks off before anything
/// sees the statement, logs and process list included.
pub fn ask_for_large_pieces(mut sql: String, range: &Range, conn: &Connection) -> String {
    if range.bytes >= LONG && conn.max_allowed_packet() > sql.len() + 2 * BLANKS {
        sql.extend(std::iter::repeat_n(' ', BLANKS));
    }
    sql
}

/// Whether reading by the key is reading in the order in which the rows lie.
fn clustered(table: &Table) -> bool {
    !table.key.is_empty() && table.engine.eq_ignore_ascii_case("innodb")
}

/// The order of the key.
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

/// The conditions of a range.
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

/// Cuts a range of a table with a key behind so many of its rows; `None` where there are no more.
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

/// Which side of a border rows are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// At the border or behind it.
    From,
    /// Before it.
    To,
}

/// The rows on one side of a border, in the order of the key.
///
/// Written so that the server can use the first column as a range: `a >= 1 AND (a > 1 OR (a = 1 AND (b >= 2)))`.
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
    /// A value of the column, as a condition writes it.
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
