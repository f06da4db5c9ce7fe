//! A table as its server describes it for an export: the `.cfg` file that `FLUSH TABLES … FOR
//! EXPORT` writes (`row0quiesce.cc`).
//!
//! It says how records are stored: in which order an index has its fields, which have a fixed
//! length, how long a prefix is. So nothing of this is guessed from SQL.

use thiserror::Error;

/// The form that MariaDB writes, and MySQL up to 5.7.
const FIRST: u32 = 1;
/// MySQL states the defaults of columns that were added in place from here on.
const WITH_DEFAULT: u32 = 3;
/// … the direction of a field.
const WITH_DIRECTION: u32 = 4;
/// … how many columns may be NULL in rows before the first instant column.
const WITH_INSTANT_NULLABLE: u32 = 5;
/// … the compression of the tablespace.
const WITH_COMPRESSION: u32 = 6;
/// … the versions of rows (`ALGORITHM=INSTANT`).
const WITH_VERSIONS: u32 = 7;
/// … a version in two bytes instead of one. It is the newest form that is known.
const WITH_LONG_VERSIONS: u32 = 8;

/// The high bit of the length of a fixed field says that it is descending, in MariaDB.
const DESCENDING: u32 = 1 << 31;
/// Most items of a kind that a description is read with: tables have 1,017 columns at most.
const MOST: u32 = 4096;

/// A column as InnoDB stores it (`dict_col_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredColumn {
    /// Its name, in UTF-8. System columns have theirs: `DB_ROW_ID`, `DB_TRX_ID`, `DB_ROLL_PTR`.
    pub name: String,
    /// Main type (`mtype`).
    pub kind: u32,
    /// Precise type (`prtype`): flags, and the collation.
    pub precise: u32,
    /// Most bytes of a value (`len`).
    pub len: u32,
    /// Fewest bytes of a character.
    pub char_min: u32,
    /// Most bytes of a character.
    pub char_max: u32,
}

impl StoredColumn {
    /// Whether it takes NULL (`DATA_NOT_NULL`).
    pub fn is_nullable(&self) -> bool {
        self.precise & 256 == 0
    }

    /// Whether it is one of InnoDB's own.
    pub fn is_system(&self) -> bool {
        ["DB_ROW_ID", "DB_TRX_ID", "DB_ROLL_PTR"].contains(&self.name.as_str())
    }

    /// Number of its collation (`dtype_get_charset_coll`), 0 for none, 63 for bytes.
    pub fn collation(&self) -> u32 {
        self.precise >> 16 & 0x7fff
    }

    /// Whether a value may have more than 255 bytes (`DATA_BIG_COL`).
    pub fn is_long(&self) -> bool {
        // DATA_BLOB, DATA_GEOMETRY, DATA_VAR_POINT
        self.len > 255 || matches!(self.kind, 5 | 14 | 16)
    }
}

/// A field of an index (`dict_field_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredField {
    /// Name of its column.
    pub name: String,
    /// Bytes of a prefix, 0 for the whole column.
    pub prefix: u32,
    /// Bytes of every value, 0 if they differ.
    pub fixed: u32,
    /// Whether it is in descending order.
    pub is_descending: bool,
}

/// An index (`dict_index_t`), with all fields that its records have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredIndex {
    /// Its name.
    pub name: String,
    /// Its number on this server.
    pub id: u64,
    /// Its root page.
    pub root: u32,
    /// What it is (`type`).
    pub kind: u32,
    /// How many fields tell any two records apart (`n_uniq`).
    pub unique: usize,
    /// How many fields may be NULL.
    pub nullable: usize,
    /// Its fields, in their order in a record.
    pub fields: Vec<StoredField>,
}

impl StoredIndex {
    /// Whether it holds the rows (`DICT_CLUSTERED`).
    pub fn is_clustered(&self) -> bool {
        self.kind & 1 != 0
    }

    /// Whether no two rows may have the same value in it (`DICT_UNIQUE`).
    pub fn is_unique(&self) -> bool {
        self.kind & 2 != 0
    }

    /// Whether it is a B-tree of its table's own: not for full text, not spatial, and not MySQL's
    /// own description of the table (`DICT_FTS`, `DICT_SPATIAL`, `DICT_SDI`).
    pub fn is_plain(&self) -> bool {
        self.kind & (32 | 64 | 256) == 0
    }
}

/// A table for an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Bytes of a page of the server.
    pub page_size: u32,
    /// Flags of the table.
    pub flags: u32,
    /// Columns that are stored, with the system columns at their end.
    pub columns: Vec<StoredColumn>,
    /// Indexes; the one with the rows comes first.
    pub indexes: Vec<StoredIndex>,
}

/// Why a description cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DescriptionError {
    /// A form that is not known here.
    #[error("its form {0} is not known")]
    Form(u32),
    /// It ends early, or states something impossible.
    #[error("it cannot be read from byte {0} on")]
    Damaged(usize),
    /// `ALTER TABLE … ALGORITHM=INSTANT` has changed the table.
    #[error("column {0} was added or dropped in place")]
    Instant(String),
}

impl Description {
    /// Reads a `.cfg` file.
    ///
    /// # Errors
    /// It has another form, is damaged, or describes a table that was changed in place.
    pub fn read(file: &[u8]) -> Result<Self, DescriptionError> {
        let mut input = Input { file, at: 0 };
        let form = input.number()?;
        if !(FIRST..=WITH_LONG_VERSIONS).contains(&form) {
            return Err(DescriptionError::Form(form));
        }
        input.text()?; // The server's host
        input.text()?; // The table
        input.take(8)?; // The next AUTO_INCREMENT
        let page_size = input.number()?;
        let flags = input.number()?;
        let columns = input.count()?;
        if form >= WITH_INSTANT_NULLABLE {
            input.number()?;
        }
        if form >= WITH_VERSIONS {
            input.take(5 * 4)?;
        }
        if form > FIRST {
            input.number()?; // Flags of the tablespace
        }
        if form >= WITH_COMPRESSION {
            input.take(1)?;
        }
        let columns = (0..columns)
            .map(|_| input.column(form))
            .collect::<Result<_, _>>()?;
        let indexes = input.count()?;
        let indexes = (0..indexes)
            .map(|_| input.index(form))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .filter(|index| index.kind & 256 == 0)
            .collect();
        if input.at != file.len() {
            return Err(DescriptionError::Damaged(input.at));
        }
        Ok(Self {
            page_size,
            flags,
            columns,
            indexes,
        })
    }

    /// Whether rows are stored as `ROW_FORMAT=REDUNDANT` does (`DICT_TF_COMPACT`).
    pub fn is_redundant(&self) -> bool {
        self.flags & 1 == 0
    }

    /// Whether long values leave nothing of themselves in the row: `ROW_FORMAT=DYNAMIC`
    /// (`DICT_TF_HAS_ATOMIC_BLOBS`).
    pub fn is_dynamic(&self) -> bool {
        self.flags & 32 != 0
    }
}

/// What is left of a file.
struct Input<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], DescriptionError> {
        let end = self.at.checked_add(len);
        let part = end.and_then(|end| self.file.get(self.at..end));
        let part = part.ok_or(DescriptionError::Damaged(self.at))?;
        self.at += len;
        Ok(part)
    }

    fn number(&mut self) -> Result<u32, DescriptionError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// How many items follow.
    fn count(&mut self) -> Result<u32, DescriptionError> {
        let at = self.at;
        let count = self.number()?;
        if count > MOST {
            return Err(DescriptionError::Damaged(at));
        }
        Ok(count)
    }

    /// A text with its length, of which a NUL at its end is part.
    fn text(&mut self) -> Result<String, DescriptionError> {
        let at = self.at;
        let len = self.number()? as usize;
        let bytes = self.take(len)?;
        let text = bytes.strip_suffix(&[0]);
        text.and_then(|text| String::from_utf8(text.to_vec()).ok())
            .ok_or(DescriptionError::Damaged(at))
    }

    fn column(&mut self, form: u32) -> Result<StoredColumn, DescriptionError> {
        let precise = self.number()?;
        let kind = self.number()?;
        let len = self.number()?;
        let char_len = self.number()?; // DATA_MBMINMAXLEN
        self.take(3 * 4)?; // Its position, in how many indexes it is, its longest prefix
        let name = self.text()?;
        if form >= WITH_VERSIONS {
            // In which version it was added, and in which dropped: in none.
            let bytes = if form >= WITH_LONG_VERSIONS { 4 } else { 2 };
            let versions = self.take(bytes)?;
            self.number()?; // Its position in a record
            if versions.iter().any(|byte| *byte != u8::MAX) {
                return Err(DescriptionError::Instant(name));
            }
        }
        // The default of a column that was added in place.
        if form >= WITH_DEFAULT && self.take(1)? != [0] {
            return Err(DescriptionError::Instant(name));
        }
        Ok(StoredColumn {
            name,
            kind,
            precise,
            len,
            char_min: char_len % 5,
            char_max: char_len / 5,
        })
    }

    fn index(&mut self, form: u32) -> Result<StoredIndex, DescriptionError> {
        let id = u64::from(self.number()?) << 32 | u64::from(self.number()?);
        self.number()?; // The tablespace
        let root = self.number()?;
        let kind = self.number()?;
        self.take(2 * 4)?; // Where the transaction is, columns of its definition
        let unique = self.count()? as usize;
        let nullable = self.count()? as usize;
        let fields = self.count()?;
        let name = self.text()?;
        let fields = (0..fields)
            .map(|_| self.field(form))
            .collect::<Result<_, _>>()?;
        Ok(StoredIndex {
            name,
            id,
            root,
            kind,
            unique,
            nullable,
            fields,
        })
    }

    fn field(&mut self, form: u32) -> Result<StoredField, DescriptionError> {
        let prefix = self.number()?;
        let fixed = self.number()?;
        let is_descending = if form >= WITH_DIRECTION {
            self.number()? == 0
        } else {
            fixed & DESCENDING != 0
        };
        Ok(StoredField {
            prefix,
            fixed: fixed & !DESCENDING,
            is_descending,
            name: self.text()?,
        })
    }
}
