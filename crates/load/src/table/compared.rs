//! Of which rows of a table the first ones were compared.

use std::sync::Arc;

use refloat_sqltext::InsertHeader;

use crate::options::WritePath;
use crate::session::Session;

/// Kinds of rows of one table that are looked at; a dump that goes on changing its session has more.
const KINDS_MAX: usize = 16;

/// Rows of one table that are read and written alike.
#[derive(Debug)]
pub struct Kind {
    /// The dump's session.
    pub session: Arc<Session>,
    /// The columns, among others.
    pub header: Arc<InsertHeader>,
    /// How they are written.
    pub path: WritePath,
}

/// The kinds of rows of one table that have been looked at.
#[derive(Debug, Default)]
pub struct Compared {
    kinds: Vec<Kind>,
    /// How often the server refused first rows.
    pub refused: u32,
    /// Whether rows were compared, and not only looked at.
    pub any: bool,
    /// Whether a chunk of few rows has gone as the dump has it: more of them are worth a look.
    pub few: bool,
}

impl Compared {
    /// Whether rows of this kind were looked at before, or are not looked at any more.
    pub fn knows(&self, kind: &Kind) -> bool {
        self.kinds.len() >= KINDS_MAX
            || self.kinds.iter().any(|known| {
                known.path == kind.path
                    && (Arc::ptr_eq(&known.session, &kind.session) || known.session == kind.session)
                    && (Arc::ptr_eq(&known.header, &kind.header)
                        || known.header.columns == kind.header.columns)
            })
    }

    /// Notes that rows of this kind were looked at.
    pub fn note(&mut self, kind: Kind) {
        self.kinds.push(kind);
    }

    /// Forgets what was looked at: the table is another one from now on.
    pub fn forget(&mut self) {
        self.kinds.clear();
        self.refused = 0;
    }
}
