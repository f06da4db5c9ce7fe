//! The server's answers: OK packets, columns, rows.

use crate::packet::{Reader, Truncated};

/// `SERVER_STATUS_IN_TRANS`: a transaction is open.
pub const STATUS_IN_TRANSACTION: u16 = 0x0001;
/// `SERVER_STATUS_AUTOCOMMIT`: autocommit is on.
pub const STATUS_AUTOCOMMIT: u16 = 0x0002;
/// `SERVER_MORE_RESULTS_EXISTS`: another answer to the same command follows.
pub(crate) const STATUS_MORE_RESULTS: u16 = 0x0008;

/// An OK packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OkInfo {
    /// Number of rows changed (vendors differ in how they count REPLACE and ON DUPLICATE KEY
    /// UPDATE).
    pub affected_rows: u64,
    /// First generated `AUTO_INCREMENT` value of the statement; 0 if none.
    pub last_insert_id: u64,
    /// Number of warnings. [`crate::Connection::warnings`] lists them.
    pub warnings: u16,
    /// The server's summary, such as `Records: 3  Deleted: 0  Skipped: 0  Warnings: 0`.
    pub info: String,
    /// Status flags of the session; see [`OkInfo::in_transaction`].
    pub status: u16,
}

impl OkInfo {
    /// Whether a transaction is open after the statement.
    pub fn in_transaction(&self) -> bool {
        self.status & STATUS_IN_TRANSACTION != 0
    }

    /// A number from the summary by its name, as in `info_count("Records")`. Names are the server's
    /// English ones.
    pub fn info_count(&self, name: &str) -> Option<u64> {
        let (_, rest) = self.info.split_once(name)?;
        let rest = rest.strip_prefix(':')?.trim_start();
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..digits].parse().ok()
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Truncated> {
        let mut r = Reader::new(payload);
        r.u8()?;
        let affected_rows = r.lenenc()?;
        let last_insert_id = r.lenenc()?;
        let status = r.u16()?;
        let warnings = r.u16()?;
        let info = if r.is_empty() {
            String::new()
        } else {
            String::from_utf8_lossy(r.lenenc_bytes()?).into_owned()
        };
        Ok(Self {
            affected_rows,
            last_insert_id,
            warnings,
            info,
            status,
        })
    }
}

/// What the server says of a column before it sends the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The column's name or alias.
    pub name: String,
    /// Table name or alias; empty for an expression.
    pub table: String,
    /// Database of the table; empty for an expression.
    pub database: String,
    /// Collation id of the values as sent; 63 is binary.
    pub collation: u16,
    /// Display length, in bytes.
    pub length: u32,
    /// The protocol's type number (`MYSQL_TYPE_…`).
    pub type_code: u8,
    /// Flags (`NOT_NULL_FLAG` 1, `UNSIGNED_FLAG` 32, …).
    pub flags: u16,
    /// Number of digits after the decimal point.
    pub decimals: u8,
}

impl Column {
    /// Whether its values are numbers, sent as their text.
    pub fn is_number(&self) -> bool {
        // DECIMAL, TINY to DOUBLE, LONGLONG and INT24, NEWDECIMAL (`enum_field_types`).
        matches!(self.type_code, 0..=5 | 8 | 9 | 246)
    }

    /// A column with only a type, for parsing fuzzed bytes.
    pub(crate) fn of_type(type_code: u8) -> Self {
        Self {
            name: String::new(),
            table: String::new(),
            database: String::new(),
            collation: 63,
            length: 0,
            type_code,
            flags: 0,
            decimals: 0,
        }
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<Self, Truncated> {
        let mut r = Reader::new(payload);
        let mut text = || -> Result<String, Truncated> {
            Ok(String::from_utf8_lossy(r.lenenc_bytes()?).into_owned())
        };
        let (_catalog, database, table, _original, name, _original_name) =
            (text()?, text()?, text()?, text()?, text()?, text()?);
        r.lenenc()?;
        Ok(Self {
            name,
            table,
            database,
            collation: r.u16()?,
            length: r.u32()?,
            type_code: r.u8()?,
            flags: r.u16()?,
            decimals: r.u8()?,
        })
    }
}

/// Start and end of each cell in a row's payload; `None` for NULL.
pub(crate) type Cells = Vec<Option<(usize, usize)>>;

/// A row, borrowed from the read buffer. Its cells have the format of the text or the binary
/// protocol.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) cells: &'a [Option<(usize, usize)>],
    pub(crate) columns: &'a [Column],
}

impl<'a> Row<'a> {
    /// The bytes of a cell; `None` for NULL. Panics unless `index` is below [`Row::len`].
    pub fn cell(&self, index: usize) -> Option<&'a [u8]> {
        self.cells[index].map(|(start, end)| &self.payload[start..end])
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether the row has no cells, which never happens in the protocol.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The columns of the result.
    pub fn columns(&self) -> &'a [Column] {
        self.columns
    }

    /// Length of the row's payload, in bytes.
    pub fn byte_len(&self) -> usize {
        self.payload.len()
    }

    /// All cells in order; `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let payload = self.payload;
        self.cells
            .iter()
            .map(move |cell| cell.map(|(start, end)| &payload[start..end]))
    }
}

/// Locates the cells in a row packet.
pub(crate) type SplitRow = fn(&[u8], &[Column], &mut Cells) -> Result<(), Truncated>;

/// [`SplitRow`] for the text protocol.
pub(crate) fn split_row(
    payload: &[u8],
    columns: &[Column],
    cells: &mut Cells,
) -> Result<(), Truncated> {
    cells.clear();
    let mut r = Reader::new(payload);
    for _ in columns {
        if r.peek() == Some(0xfb) {
            r.u8()?;
            cells.push(None);
        } else {
            let length = r.lenenc_bytes()?.len();
            let end = payload.len() - r.rest().len();
            cells.push(Some((end - length, end)));
        }
    }
    if r.is_empty() { Ok(()) } else { Err(Truncated) }
}

/// [`SplitRow`] for prepared statements. Numbers are little-endian and as wide as their type;
/// everything else has a length prefix. Source: "Binary Protocol Resultset Row" in the protocol
/// documentation.
pub(crate) fn split_binary_row(
    payload: &[u8],
    columns: &[Column],
    cells: &mut Cells,
) -> Result<(), Truncated> {
    cells.clear();
    let mut r = Reader::new(payload);
    if r.u8()? != 0 {
        return Err(Truncated);
    }
    // The first two bits are unused.
    let nulls = r.bytes((columns.len() + 2).div_ceil(8))?;
    for (index, column) in columns.iter().enumerate() {
        let bit = index + 2;
        if nulls[bit / 8] & (1 << (bit % 8)) != 0 {
            cells.push(None);
            continue;
        }
        let length = match column.type_code {
            // TINYINT; SMALLINT, YEAR; INT, FLOAT, MEDIUMINT; DOUBLE, BIGINT.
            1 => r.bytes(1)?.len(),
            2 | 13 => r.bytes(2)?.len(),
            3 | 4 | 9 => r.bytes(4)?.len(),
            5 | 8 => r.bytes(8)?.len(),
            _ => r.lenenc_bytes()?.len(),
        };
        let end = payload.len() - r.rest().len();
        cells.push(Some((end - length, end)));
    }
    if r.is_empty() { Ok(()) } else { Err(Truncated) }
}

/// A small result, held in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultSet {
    /// The columns of the result.
    pub columns: Vec<Column>,
    /// The rows with their cells; `None` for NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The final status.
    pub ok: OkInfo,
}

impl ResultSet {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The index of the column with this name, in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// The value that `SHOW VARIABLES` or `SHOW STATUS` reports for a name, in any case: the second
    /// cell of the row whose first cell is the name.
    pub fn named(&self, name: &str) -> Option<&str> {
        let row = (0..self.len()).find(|row| {
            self.str(*row, 0)
                .is_some_and(|cell| cell.eq_ignore_ascii_case(name))
        })?;
        self.str(row, 1)
    }

    /// The same as a number; `None` if it is not one.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.named(name)?.parse().ok()
    }

    /// The bytes of a cell; `None` if it is NULL or does not exist.
    pub fn bytes(&self, row: usize, column: usize) -> Option<&[u8]> {
        self.rows.get(row)?.get(column)?.as_deref()
    }

    /// A cell as text; `None` if it is NULL, does not exist, or is not UTF-8.
    pub fn str(&self, row: usize, column: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(row, column)?).ok()
    }

    /// A cell as a number; `None` if it is not one.
    pub fn u64(&self, row: usize, column: usize) -> Option<u64> {
        self.str(row, column)?.parse().ok()
    }

    /// A cell as text, by the name of its column.
    pub fn get(&self, row: usize, column: &str) -> Option<&str> {
        self.str(row, self.column(column)?)
    }

    /// A column as text; skips NULL and invalid UTF-8.
    pub fn texts(&self, column: usize) -> impl Iterator<Item = &str> {
        (0..self.rows.len()).filter_map(move |row| self.str(row, column))
    }
}

/// How a streamed query ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryEnd {
    /// Number of rows received, over all result sets.
    pub rows: u64,
    /// Whether the closure stopped early; the remaining rows were read and discarded.
    pub stopped: bool,
    /// The final status of the last result.
    pub ok: OkInfo,
}

/// One line of SHOW WARNINGS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// `Note`, `Warning` or `Error`.
    pub level: String,
    /// The server's error number.
    pub code: u16,
    /// The server's message.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_of_the_summary() {
        let ok = OkInfo {
            info: "Records: 12  Deleted: 0  Skipped: 3  Warnings: 44".into(),
            ..OkInfo::default()
        };
        assert_eq!(ok.info_count("Records"), Some(12));
        assert_eq!(ok.info_count("Skipped"), Some(3));
        assert_eq!(ok.info_count("Warnings"), Some(44));
        assert_eq!(ok.info_count("Duplicates"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), types in prop::collection::vec(0..16_u8, 0..10)) {
            let _ = OkInfo::parse(&bytes);
            let _ = Column::parse(&bytes);
            let mut cells = Vec::new();
            let columns: Vec<Column> = types.into_iter().map(Column::of_type).collect();
            for split in [split_row, split_binary_row] {
                if split(&bytes, &columns, &mut cells).is_ok() {
                    prop_assert_eq!(cells.len(), columns.len());
                }
            }
        }
    }
}
