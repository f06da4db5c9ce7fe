//! Records of an index in the formats `COMPACT` and `DYNAMIC` (`rem0rec.cc`).
//!
//! ```text
//! lengths of variable fields, last first │ NULL bits, last byte first │ 5 bytes │ fields
//! ```
//!
//! The five bytes hold flags, how many records of its page's directory it stands for, its number
//! in the page's heap, its kind, and where the next record is (see `level.rs`).

use crate::description::{Description, StoredColumn, StoredIndex};
use crate::format::{EMPTY_PAGE, FIXED_HEAD};

/// Bytes of a number of a transaction (`DATA_TRX_ID_LEN`).
const TRANSACTION: [u8; 6] = [0; 6];
/// Bytes of a pointer to the row's history (`DATA_ROLL_PTR_LEN`). Its first bit says that the row
/// was inserted, so that nothing is older.
const HISTORY: [u8; 7] = [0x80, 0, 0, 0, 0, 0, 0];
/// Bytes of the number of a row without a key (`DATA_ROW_ID_LEN`).
const ROW_ID: usize = 6;

/// Where a field's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A column of the row, by its place among the stored columns.
    Column(usize),
    /// The number of a row whose table has no key.
    RowId,
    /// The transaction that has written the row: none that is still known.
    Transaction,
    /// The row's history: none.
    History,
}

/// How the length of a field is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// Not at all: all values are as long.
    Fixed(usize),
    /// In one byte.
    Short,
    /// In one byte up to 127, otherwise in two.
    Long,
}

/// How much of a value an index has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Whole,
    /// So many bytes.
    Bytes(usize),
    /// So many characters of UTF-8.
    Characters(usize),
}

/// A field of the records of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    origin: Origin,
    length: Length,
    prefix: Prefix,
    is_nullable: bool,
}

/// How the records of an index look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    fields: Vec<Field>,
    /// How many fields a record of an upper level repeats.
    key: usize,
    /// Bytes of NULL bits.
    nulls: usize,
    /// Bytes of a record that has no room on a page (`page_zip_rec_needs_ext`).
    too_long: usize,
    /// Bytes that stay in a row of a value that is stored elsewhere.
    stays: usize,
    /// Whether rows may have values that are stored elsewhere.
    is_clustered: bool,
}

/// Bytes of the reference to a value that is stored elsewhere (`BTR_EXTERN_FIELD_REF_SIZE`).
pub const REFERENCE: usize = 20;
/// Bytes that such a value begins with in the row of `ROW_FORMAT=COMPACT`
/// (`DICT_ANTELOPE_MAX_INDEX_COL_LEN`).
const STAYS: usize = 768;
/// Longest record of any page (`COMPRESSED_REC_MAX_DATA_SIZE`).
const LONGEST: usize = 16384;

/// Why a row cannot be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// It is too long, even if all is stored elsewhere that can be.
    #[error("a row of {0} bytes is too long for a page")]
    TooLong(usize),
    /// It has NULL where the column takes none, another length than all values have, or other
    /// columns: a mistake of whoever made it.
    #[error("field {0} of a row is not as the table is described")]
    Unexpected(usize),
}

/// Why records of an index cannot be made here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A field that the server computes and does not store.
    #[error("{0} is not stored in the row")]
    NotStored(String),
    /// A prefix of so many characters, in a character set whose characters are not counted here.
    #[error("it has a prefix of {0}, whose characters have different lengths")]
    Characters(String),
    /// The server's description contradicts itself.
    #[error("its description says {stated} of its fields may be NULL, and {found} may")]
    Nullable {
        /// By the index.
        stated: usize,
        /// By the columns.
        found: usize,
    },
}

impl Shape {
    /// The shape of the records of an index of a table.
    ///
    /// # Errors
    /// The index has fields that cannot be made here.
    pub fn of(table: &Description, index: &StoredIndex) -> Result<Self, ShapeError> {
        let mut fields = Vec::with_capacity(index.fields.len());
        for field in &index.fields {
            let named = table.columns.iter().position(|c| c.name == field.name);
            let at = named.ok_or_else(|| ShapeError::NotStored(field.name.clone()))?;
            let column = &table.columns[at];
            let is_variable = column.char_min != column.char_max;
            let prefix = match field.prefix as usize {
                0 => Prefix::Whole,
                bytes if !is_variable => Prefix::Bytes(bytes),
                bytes if is_utf8(column) => Prefix::Characters(bytes / column.char_max as usize),
                _ => return Err(ShapeError::Characters(field.name.clone())),
            };
            let length = match field.fixed as usize {
                0 if column.is_long() => Length::Long,
                0 => Length::Short,
                bytes => Length::Fixed(bytes),
            };
            let origin = match column.name.as_str() {
                "DB_ROW_ID" => Origin::RowId,
                "DB_TRX_ID" => Origin::Transaction,
                "DB_ROLL_PTR" => Origin::History,
                _ => Origin::Column(at),
            };
            fields.push(Field {
                origin,
                length,
                prefix,
                is_nullable: column.is_nullable(),
            });
        }
        let found = fields.iter().filter(|field| field.is_nullable).count();
        if found != index.nullable {
            let stated = index.nullable;
            return Err(ShapeError::Nullable { stated, found });
        }
        // dict_index_get_n_unique_in_tree
        let key = if index.is_clustered() {
            index.unique
        } else {
            fields.len()
        };
        let page = table.page_size as usize;
        let stays = if table.is_dynamic() { 0 } else { STAYS };
        Ok(Self {
            key,
            nulls: found.div_ceil(8),
            too_long: ((page - EMPTY_PAGE) / 2).min(LONGEST),
            stays,
            is_clustered: index.is_clustered(),
            fields,
        })
    }

    /// Makes the record of a row.
    ///
    /// # Errors
    /// It has no room on a page, or is not as the table is described.
    pub fn record(&self, row: &Row, record: &mut Record) -> Result<(), RowError> {
        record.elsewhere.clear();
        let mut len = FIXED_HEAD + self.nulls;
        for (at, field) in self.fields.iter().enumerate() {
            len += match self.value(row, at) {
                None if field.is_nullable => 0,
                Some(value) if field.takes(value.len()) => field.stored(value.len()),
                _ => return Err(RowError::Unexpected(at)),
            };
        }
        while len >= self.too_long {
            let longest = self.longest(row, &record.elsewhere);
            let (field, column, value) = longest.ok_or(RowError::TooLong(len))?;
            len -= self.fields[field].stored(value);
            len += 2 + self.stays + REFERENCE;
            let at = 0; // Known when the record is made.
            record.elsewhere.push(Elsewhere { field, column, at });
        }
        self.write(row, record);
        Ok(())
    }

    /// The longest value that can be stored elsewhere and is not: its field, its column and its
    /// length (`dtuple_convert_big_rec`).
    fn longest(&self, row: &Row, elsewhere: &[Elsewhere]) -> Option<(usize, usize, usize)> {
        let mut longest = None;
        let mut most = 0;
        for (at, field) in self.fields.iter().enumerate().skip(self.key) {
            let (Origin::Column(column), Length::Long) = (field.origin, field.length) else {
                continue;
            };
            let len = row.get(column).map_or(0, <[u8]>::len);
            let saved = len.saturating_sub(self.stays + REFERENCE);
            // BTR_EXTERN_LOCAL_STORED_MAX_SIZE
            let is_worth_it = len > 2 * REFERENCE && saved > most;
            if self.is_clustered && is_worth_it && elsewhere.iter().all(|one| one.field != at) {
                (longest, most) = (Some((at, column, len)), saved);
            }
        }
        longest
    }

    /// Writes a record whose fields are known to have room.
    fn write(&self, row: &Row, record: &mut Record) {
        let Record {
            head,
            data,
            key_head,
            key_data,
            elsewhere,
        } = record;
        head.clear();
        head.resize(self.nulls, 0);
        data.clear();
        let mut bit = 0;
        for (at, field) in self.fields.iter().enumerate() {
            if at == self.key {
                (*key_head, *key_data) = (head.len(), data.len());
            }
            let value = self.value(row, at);
            if field.is_nullable {
                if value.is_none() {
                    head[bit / 8] |= 1 << (bit % 8);
                }
                bit += 1;
            }
            let Some(value) = value else { continue };
            if let Some(one) = elsewhere.iter_mut().find(|one| one.field == at) {
                let len = (self.stays + REFERENCE) as u16;
                head.extend_from_slice(&(0xc000 | len).to_be_bytes());
                data.extend_from_slice(&value[..self.stays]);
                one.at = data.len();
                data.extend_from_slice(&[0; REFERENCE]);
                continue;
            }
            match field.length {
                Length::Fixed(_) => {}
                Length::Long if value.len() > 127 => {
                    head.extend_from_slice(&(0x8000 | value.len() as u16).to_be_bytes());
                }
                Length::Short | Length::Long => head.push(value.len() as u8),
            }
            data.extend_from_slice(value);
        }
        if self.key == self.fields.len() {
            (*key_head, *key_data) = (head.len(), data.len());
        }
    }

    /// The value of a field in the record of a row, or what the index has of it.
    pub fn value<'a>(&self, row: &'a Row, field: usize) -> Option<&'a [u8]> {
        let field = &self.fields[field];
        let value = match field.origin {
            Origin::Column(column) => row.get(column)?,
            Origin::RowId => row.id.as_slice(),
            Origin::Transaction => TRANSACTION.as_slice(),
            Origin::History => HISTORY.as_slice(),
        };
        Some(field.prefix.of(value))
    }

    /// Bytes of NULL bits, with which the head of a record begins.
    pub fn null_bytes(&self) -> usize {
        self.nulls
    }

    /// What of a value is not in its row.
    pub fn rest<'a>(&self, row: &'a Row, column: usize) -> &'a [u8] {
        row.get(column).map_or(&[], |value| &value[self.stays..])
    }
}
impl Field {
    /// Whether a value may have so many bytes.
    fn takes(&self, len: usize) -> bool {
        match self.length {
            Length::Fixed(fixed) => len == fixed,
            Length::Short => len <= 255,
            Length::Long => true,
        }
    }

    /// Bytes that a value takes in a record, with its length.
    fn stored(&self, len: usize) -> usize {
        match self.length {
            Length::Fixed(_) => len,
            Length::Long if len > 127 => 2 + len,
            Length::Short | Length::Long => 1 + len,
        }
    }
}

/// Numbers of collations of `ujis`, `eucjpms` and `gb18030`.
const OTHER_THAN_UTF8: [u32; 7] = [12, 91, 97, 98, 248, 249, 250];

/// Whether the characters of a column are those of `utf8mb3` or `utf8mb4`, which
/// [`Prefix::Characters`] counts: of all character sets whose characters have from one to three or
/// four bytes.
fn is_utf8(column: &StoredColumn) -> bool {
    let collation = match column.collation() {
        // MariaDB's collations that do not pad with blanks.
        id @ 1024..2048 => id - 1024,
        id => id,
    };
    column.char_min == 1
        && matches!(column.char_max, 3 | 4)
        && !OTHER_THAN_UTF8.contains(&collation)
}

impl Prefix {
    fn of(self, value: &[u8]) -> &[u8] {
        match self {
            Self::Whole => value,
            Self::Bytes(most) => &value[..value.len().min(most)],
            Self::Characters(most) => {
                let starts = value.iter().enumerate();
                let mut starts = starts.filter(|(_, byte)| **byte & 0xc0 != 0x80);
                match starts.nth(most) {
                    Some((end, _)) => &value[..end],
                    None => value,
                }
            }
        }
    }
}

/// The values of a row, as InnoDB stores them.
#[derive(Debug, Default, Clone)]
pub struct Row {
    bytes: Vec<u8>,
    /// For each column, where its value ends, and whether it is NULL.
    ends: Vec<(usize, bool)>,
    id: [u8; ROW_ID],
}

impl Row {
    /// Begins the next row. `id` is its number in a table without a key.
    pub fn clear(&mut self, id: u64) {
        self.bytes.clear();
        self.ends.clear();
        self.id.copy_from_slice(&id.to_be_bytes()[8 - ROW_ID..]);
    }

    /// The next column is NULL.
    pub fn push_null(&mut self) {
        self.ends.push((self.bytes.len(), true));
    }

    /// The value of the next column.
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push((self.bytes.len(), false));
    }

    /// How many columns it has.
    pub fn columns(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, column: usize) -> Option<&[u8]> {
        let start = match column {
            0 => 0,
            _ => self.ends[column - 1].0,
        };
        let (end, is_null) = self.ends[column];
        (!is_null).then(|| &self.bytes[start..end])
    }
}

/// A record without the five bytes that its page gives it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Record {
    /// NULL bits and lengths, in the opposite order of that in the file.
    pub head: Vec<u8>,
    /// The fields.
    pub data: Vec<u8>,
    /// How much of the head and of the data belongs to the fields that an upper level repeats.
    pub key_head: usize,
    /// See `key_head`.
    pub key_data: usize,
    /// Values that are stored elsewhere.
    pub elsewhere: Vec<Elsewhere>,
}

/// A value that is not stored in its row, or only its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    field: usize,
    /// Its column, by its place among the stored columns.
    pub column: usize,
    /// Where the reference to it is in the data of the record.
    pub at: usize,
}
