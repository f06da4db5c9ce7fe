//! The result of an attempt to write rows.

use refloat_sqltext::InsertVerb;

use crate::error::LoadError;

/// Why rows cannot be judged by the warnings about them.
pub const MORE_WARNINGS: &str = "the server gave more warnings than it keeps";

/// Rows that an attempt has written.
#[derive(Debug, Default, Clone, Copy)]
pub struct Written {
    /// Rows stored.
    pub rows: u64,
    /// Rows that `INSERT IGNORE` left out.
    pub ignored: u64,
    /// Of the rows stored, those whose text was sent exactly as in the source.
    pub as_it_stands: u64,
}

impl Written {
    /// What a statement with `rows` rows has written, if the server reports `affected`.
    pub fn by(verb: InsertVerb, rows: u64, affected: u64) -> Self {
        match verb {
            InsertVerb::Insert => Self {
                rows: affected,
                ..Self::default()
            },
            InsertVerb::InsertIgnore => Self {
                rows: affected,
                ignored: rows.saturating_sub(affected),
                ..Self::default()
            },
            // A replaced row counts twice in affected_rows; the rows that remain are counted at the
            // end.
            InsertVerb::Replace => Self {
                rows,
                ..Self::default()
            },
        }
    }

    /// Adds what another statement has written.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.ignored += other.ignored;
        self.as_it_stands += other.as_it_stands;
    }
}

/// Why an attempt failed.
pub enum Attempt {
    /// The server or the connection failed.
    Wire(refloat_wire::Error),
    /// The server took the rows, but not exactly: rows were skipped or warnings given. Nothing is
    /// committed.
    NotExact(String),
    /// The dump's file could not be read again.
    Source {
        /// The file of the dump.
        file: String,
        /// Byte of the dump where the piece begins.
        offset: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// A row is larger than a packet may be.
    RowTooLarge {
        /// Bytes needed.
        size: usize,
    },
    /// The first rows would not be stored as the dump has them.
    Otherwise(Box<LoadError>),
}

impl Attempt {
    /// The server made more notes about values that it computes than it keeps.
    pub fn many_notes() -> Self {
        Self::NotExact(MORE_WARNINGS.to_owned())
    }
}

impl From<refloat_wire::Error> for Attempt {
    fn from(error: refloat_wire::Error) -> Self {
        Self::Wire(error)
    }
}
