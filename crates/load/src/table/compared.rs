//! Records the kinds of rows of a table whose first ones were compared.

use std::sync::Arc;

use refloat_sqltext::InsertHeader;

use crate::options::WritePath;
use crate::session::Session;

/// Kinds of rows of one table that are examined; a dump that keeps changing its session has more.
const KINDS_MAX: usize = 16;

/// Rows of one table that are parsed and written in the same way.
#[derive(Debug)]
pub struct Kind {
    /// The dump's session at these rows.
    pub session: Arc<Session>,
    /// The head of their statements, with verb and columns.
    pub header: Arc<InsertHeader>,
    /// The path that they are written by.
    pub path: WritePath,
}

/// The kinds of rows of one table that have been examined.
#[derive(Debug, Default)]
pub struct Compared {
    kinds: Vec<Kind>,
    /// How often the server refused first rows.
    pub refused: u32,
    /// Whether rows were actually compared, and not just examined.
    pub any: bool,
    /// Whether first rows were read back.
    pub read_back: bool,
    /// Whether a small chunk was already sent as the dump's own text: any further rows are worth
    /// comparing.
    pub few: bool,
}

impl Compared {
    /// Whether rows of this kind were already examined, or the limit is reached.
    pub fn knows(&self, kind: &Kind) -> bool {
        self.kinds.len() >= KINDS_MAX
            || self.kinds.iter().any(|known| {
                known.path == kind.path
                    && (Arc::ptr_eq(&known.session, &kind.session) || known.session == kind.session)
                    && (Arc::ptr_eq(&known.header, &kind.header)
                        || known.header.columns == kind.header.columns)
            })
    }

    /// Records that rows of this kind were examined.
    pub fn note(&mut self, kind: Kind) {
        self.kinds.push(kind);
    }

    /// Forgets what was examined, because the table has changed.
    pub fn forget(&mut self) {
        self.kinds.clear();
        self.refused = 0;
    }
}
