//! One table of the target: what its columns take, and what was done with it so far.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use refloat_run::progress::TableProgress;
use refloat_schema::columns::{Column, ColumnClass, Layout};
use refloat_sqltext::quote_ident;

use super::deferral::Deferral;

mod compared;
mod detail;

pub use compared::{Compared, Kind};
pub use detail::TableDetail;

/// A table of the target that the dump brings rows for.
pub struct Table {
    /// Number of the table within the run.
    pub id: usize,
    /// Database.
    pub db: String,
    /// Name.
    pub name: String,
    /// Whether this run created it.
    pub created: bool,
    /// Rows that were there before, when rows are appended.
    pub rows_before: u64,
    layout: Mutex<Option<Arc<Layout>>>,
    rows: AtomicU64,
    bytes: AtomicU64,
    ignored: AtomicU64,
    /// Rows of the dump that were handed on, and rows that the server refused and the load went on after.
    sent: AtomicU64,
    refused: AtomicU64,
    encode_failures: AtomicU64,
    replaced: AtomicBool,
    uncounted: AtomicBool,
    elsewhere: AtomicBool,
    view: AtomicBool,
    /// Rows that statements brought, or took away, whose rows nobody counts.
    others: AtomicI64,
    progress: Mutex<Option<TableProgress>>,
    /// What the marks of its first rows say of it; until they are committed.
    detail: Mutex<Option<Arc<TableDetail>>>,
    described: AtomicBool,
    deferral: Mutex<Deferral>,
    built: AtomicU64,
    /// Set once its rows turned out not to suit the fast paths.
    plain: AtomicBool,
    /// Set once it turned out to hold dates that only their text says: zero dates, above all.
    spelled_dates: AtomicBool,
    /// Of which rows the first ones were compared.
    compared: Mutex<Compared>,
    /// Whether rows only go there to be looked at.
    trial: bool,
}

/// Pieces of one table that could not be encoded before the fast path is given up for it.
const ENCODE_FAILURES_MAX: u64 = 8;

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({}.{})", self.db, self.name)
    }
}

impl Table {
    /// A table that nothing was done with yet.
    pub fn new(id: usize, db: String, name: String, created: bool, rows_before: u64) -> Self {
        Self {
            id,
            db,
            name,
            created,
            rows_before,
            layout: Mutex::default(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ignored: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            encode_failures: AtomicU64::new(0),
            replaced: AtomicBool::new(false),
            uncounted: AtomicBool::new(false),
            elsewhere: AtomicBool::new(false),
            view: AtomicBool::new(false),
            others: AtomicI64::new(0),
            progress: Mutex::new(None),
            detail: Mutex::default(),
            described: AtomicBool::new(false),
            deferral: Mutex::default(),
            built: AtomicU64::new(0),
            plain: AtomicBool::new(false),
            spelled_dates: AtomicBool::new(false),
            compared: Mutex::default(),
            trial: false,
        }
    }

    /// A temporary table of a writer, whose rows nobody counts.
    pub fn trial(db: &str, name: &str, layout: Arc<Layout>) -> Self {
        Self {
            layout: Mutex::new(Some(layout)),
            trial: true,
            ..Self::new(0, db.to_owned(), name.to_owned(), true, 0)
        }
    }

    /// Whether rows only go there to be looked at: what the server says of them it says again of the table that they are for.
    pub fn is_trial(&self) -> bool {
        self.trial
    }

    /// `db.name`, for messages.
    pub fn label(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    /// Quoted, for statements.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote_ident(&self.db), quote_ident(&self.name))
    }

    /// Columns and engine; read before the first rows are handed to a writer.
    pub fn layout(&self) -> Option<Arc<Layout>> {
        self.layout
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether its engine takes rows back that are not committed.
    pub fn is_transactional(&self) -> bool {
        self.layout().is_none_or(|layout| layout.transactional)
    }

    /// Keeps what was read, or forgets it: the dump may have changed the table since.
    pub fn set_layout(&self, layout: Option<Layout>) {
        *self.layout.lock().unwrap_or_else(PoisonError::into_inner) = layout.map(Arc::new);
        self.compared().forget();
    }

    /// Of which rows the first ones were compared. Whoever has it holds up all that write rows of the table, until theirs are known to be
    /// stored as they should.
    pub fn compared(&self) -> MutexGuard<'_, Compared> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts committed rows.
    pub fn committed(&self, rows: u64, bytes: u64, ignored: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ignored.fetch_add(ignored, Ordering::Relaxed);
        if let Some(progress) = self.progress().as_ref() {
            progress.add(rows, bytes);
        }
    }

    /// Counts rows that an earlier process of the same load has committed.
    pub fn taken_over(&self, rows: u64, ignored: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.ignored.fetch_add(ignored, Ordering::Relaxed);
    }

    /// Counts rows of the dump that are handed to a writer.
    pub fn note_sent(&self, rows: u64) {
        self.sent.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts rows that the server refused and that are listed.
    pub fn note_refused(&self, rows: u64) {
        self.refused.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows handed to a writer that are neither stored, nor left out by `INSERT IGNORE`, nor listed as refused.
    pub fn unaccounted(&self) -> u64 {
        let known = self.rows() + self.ignored() + self.refused.load(Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed).saturating_sub(known)
    }

    /// Shows the table among those at work.
    pub fn show(&self, progress: TableProgress) {
        *self.progress() = Some(progress);
    }

    /// Takes it off the list again, its rows all in.
    pub fn shown_loaded(&self) -> Option<f64> {
        let progress = self.progress().take()?;
        let seconds = progress.elapsed().as_secs_f64();
        progress.loaded();
        Some(seconds)
    }

    fn progress(&self) -> MutexGuard<'_, Option<TableProgress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what the marks of its first rows are to say.
    pub fn describe(&self, detail: TableDetail) {
        *self.detail.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(detail));
    }

    /// What a mark has to say of it, as long as none that says so is committed.
    pub fn detail(&self) -> Option<Arc<TableDetail>> {
        if self.described.load(Ordering::Relaxed) {
            return None;
        }
        self.detail
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A mark that says so is committed.
    pub fn note_described(&self) {
        self.described.store(true, Ordering::Relaxed);
    }

    /// Indexes and foreign keys that are put off until the rows are in, and are not built yet.
    pub fn deferral(&self) -> MutexGuard<'_, Deferral> {
        self.deferral.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts indexes and foreign keys that were put off and are built.
    pub fn note_built(&self, count: u64) {
        self.built.fetch_add(count, Ordering::Relaxed);
    }

    /// Indexes and foreign keys that were put off and are built.
    pub fn built(&self) -> u64 {
        self.built.load(Ordering::Relaxed)
    }

    /// Notes that rows came by `REPLACE`: how many are left cannot be told from how many were sent.
    pub fn note_replaced(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    /// Rows that should be there now.
    pub fn expected(&self) -> u64 {
        (self.rows_before + self.rows()).saturating_add_signed(self.others.load(Ordering::Relaxed))
    }

    /// Takes the rows that are there for right, after a statement has run that may have added or removed any.
    pub fn rebase(&self, count: u64) {
        let sent = i64::try_from(self.rows_before + self.rows()).unwrap_or(i64::MAX);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.others.store(count - sent, Ordering::Relaxed);
        self.replaced.store(false, Ordering::Relaxed);
    }

    /// Whether `count` rows are what should be there; always, when nobody can tell.
    pub fn counts(&self, count: u64) -> bool {
        let expected = self.expected();
        count == expected || self.is_uncounted() || (self.is_replaced() && count <= expected)
    }

    /// A statement has run that may have added or removed rows, and nobody has counted what was there before it.
    pub fn note_uncounted(&self) {
        self.uncounted.store(true, Ordering::Relaxed);
    }

    /// Whether the rows that are there cannot be told from those that were sent.
    pub fn is_uncounted(&self) -> bool {
        self.uncounted.load(Ordering::Relaxed)
    }

    /// Notes that it shows rows of other tables or servers.
    pub fn note_elsewhere(&self) {
        self.elsewhere.store(true, Ordering::Relaxed);
    }

    /// Whether its rows are elsewhere, and none were sent there: how many there are says nothing, and the other server may be away. A
    /// view's rows always are: those that were sent there are counted in the tables that took them.
    pub fn is_elsewhere(&self) -> bool {
        self.is_view() || (self.elsewhere.load(Ordering::Relaxed) && self.expected() == 0)
    }

    /// Notes that it is a view.
    pub fn note_view(&self) {
        self.view.store(true, Ordering::Relaxed);
    }

    /// Whether it is a view: its rows end in other tables.
    pub fn is_view(&self) -> bool {
        self.view.load(Ordering::Relaxed)
    }

    /// Whether rows came by `REPLACE`.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Rows committed so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of dump text committed so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Rows that `INSERT IGNORE` left out.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// Notes a piece that only the server's own parser can read; gives the fast path up after a few.
    pub fn note_encode_failure(&self) {
        if self.encode_failures.fetch_add(1, Ordering::Relaxed) + 1 >= ENCODE_FAILURES_MAX {
            self.plain.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that its dates have to be sent as text.
    pub fn note_spelled_dates(&self) {
        self.spelled_dates.store(true, Ordering::Relaxed);
    }

    /// Whether its dates have to be sent as text.
    pub fn has_spelled_dates(&self) -> bool {
        self.spelled_dates.load(Ordering::Relaxed)
    }

    /// Whether a column takes bytes that need not be text, and nothing is computed from them.
    pub fn takes_bytes_only_as_given(&self) -> bool {
        self.layout().is_some_and(|layout| {
            let takes =
                |column: &Column| matches!(column.class, ColumnClass::Bytes | ColumnClass::Bit);
            layout.columns.iter().any(takes)
                && !layout.columns.iter().any(|column| column.generated)
        })
    }

    /// Whether rows go as the dump's own text.
    pub fn is_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }
}
