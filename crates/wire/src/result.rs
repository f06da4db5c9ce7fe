//! Answers of the server: OK packets, columns, rows.

use crate::packet::{Reader, Truncated};

/// `SERVER_STATUS_IN_TRANS`: a transaction is open.
pub const STATUS_IN_TRANSACTION: u16 = 0x0001;
/// `SERVER_STATUS_AUTOCOMMIT`.
pub const STATUS_AUTOCOMMIT: u16 = 0x0002;
/// `SERVER_MORE_RESULTS_EXISTS`: another answer to the same command follows.
pub(crate) const STATUS_MORE_RESULTS: u16 = 0x0008;

/// A success answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OkInfo {
    /// Rows that were changed (for REPLACE and ON DUPLICATE KEY UPDATE the vendors count in their own way).
    pub affected_rows: u64,
    /// First automatic id of the statement, 0 if none.
    pub last_insert_id: u64,
    /// How many warnings [`crate::Connection::warnings`] would list.
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

    /// A number of the summary, by its name: `info_count("Records")`. Names are the server's English ones.
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

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name or alias.
    pub name: String,
    /// Table (alias) that it comes from, empty for an expression.
    pub table: String,
    /// Database that it comes from.
    pub database: String,
    /// Number of the collation that the values are sent in; 63 is binary.
    pub collation: u16,
    /// Display length in bytes.
    pub length: u32,
    /// Type number of the protocol (`MYSQL_TYPE_…`).
    pub type_code: u8,
    /// Flags (`NOT_NULL_FLAG` 1, `UNSIGNED_FLAG` 32, …).
    pub flags: u16,
    /// Digits after the point.
    pub decimals: u8,
}

impl Column {
    /// One that has nothing but a type: for what is read of outside bytes.
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

/// Where the cells of a row lie in its payload: start and end, or `None` for NULL.
pub(crate) type Cells = Vec<Option<(usize, usize)>>;

/// A row of the text protocol, borrowed from the read buffer.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) cells: &'a [Option<(usize, usize)>],
    pub(crate) columns: &'a [Column],
}

impl<'a> Row<'a> {
    /// The bytes of a cell; `None` is NULL. The index must be below [`Row::len`].
    pub fn cell(&self, index: usize) -> Option<&'a [u8]> {
        self.cells[index].map(|(start, end)| &self.payload[start..end])
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether the row has no cells (the protocol has no such row).
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The columns of the result.
    pub fn columns(&self) -> &'a [Column] {
        self.columns
    }

    /// Length of the row's payload in bytes.
    pub fn byte_len(&self) -> usize {
        self.payload.len()
    }

    /// All cells in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let payload = self.payload;
        self.cells
            .iter()
            .map(move |cell| cell.map(|(start, end)| &payload[start..end]))
    }
}

/// Finds the cells of a row packet.
pub(crate) type SplitRow = fn(&[u8], &[Column], &mut Cells) -> Result<(), Truncated>;

/// [`SplitRow`] of the text protocol.
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

/// [`SplitRow`] of prepared statements: numbers are little-endian, of as many bytes as their type has; everything else has its length
/// before it. Source: "Binary Protocol Resultset Row" of the protocol's documentation.
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
    // The first two bits mean nothing.
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

/// A small result, kept in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResultSet {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The closing status.
    pub ok: OkInfo,
}

impl ResultSet {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The index of a column, by its name, in any case.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|c| c.name.eq_ignore_ascii_case(name))
    }

    /// What `SHOW VARIABLES` and `SHOW STATUS` tell of a name, in any case: the second cell of the row whose first one it is.
    pub fn named(&self, name: &str) -> Option<&str> {
        let row = (0..self.len()).find(|row| {
            self.str(*row, 0)
                .is_some_and(|told| told.eq_ignore_ascii_case(name))
        })?;
        self.str(row, 1)
    }

    /// The bytes of a cell; `None` for NULL and for what is not there.
    pub fn bytes(&self, row: usize, column: usize) -> Option<&[u8]> {
        self.rows.get(row)?.get(column)?.as_deref()
    }

    /// A cell as text; `None` for NULL, for what is not there and for what is no UTF-8.
    pub fn str(&self, row: usize, column: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(row, column)?).ok()
    }

    /// A cell as a number.
    pub fn u64(&self, row: usize, column: usize) -> Option<u64> {
        self.str(row, column)?.parse().ok()
    }

    /// A cell by the name of its column, as text.
    pub fn get(&self, row: usize, column: &str) -> Option<&str> {
        self.str(row, self.column(column)?)
    }

    /// A column as texts; NULL and what is no UTF-8 is left out.
    pub fn texts(&self, column: usize) -> impl Iterator<Item = &str> {
        (0..self.rows.len()).filter_map(move |row| self.str(row, column))
    }
}

/// How a streamed query ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryEnd {
    /// Rows that came, over all result sets.
    pub rows: u64,
    /// Whether the closure stopped early; the rest was read and thrown away.
    pub stopped: bool,
    /// The closing status of the last result.
    pub ok: OkInfo,
}

/// One line of SHOW WARNINGS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// `Note`, `Warning` or `Error`.
    pub level: String,
    /// The server's number.
    pub code: u16,
    /// The server's words.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
