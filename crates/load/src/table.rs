//! One table of the target: its columns, and what has been done with it so far.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use refloat_run::progress::TableProgress;
use refloat_schema::columns::{Column, ColumnClass, Layout};
use refloat_sqltext::{InsertVerb, quote_ident};
use refloat_wire::Warning;

use super::deferral::Deferral;

mod compared;
mod detail;

pub use compared::{Compared, Kind};
pub use detail::TableDetail;

/// Whether an engine can roll back rows.
pub fn is_transactional(engine: &str) -> bool {
    let engines = ["innodb", "rocksdb", "tokudb", "ndbcluster"];
    engines.iter().any(|one| engine.eq_ignore_ascii_case(one))
}

/// A table of the target that the dump has rows for.
pub struct Table {
    /// Number of the table within the run.
    pub id: usize,
    /// Database.
    pub db: String,
    /// Name, without the database.
    pub name: String,
    /// Whether this run created it.
    pub created: bool,
    /// Rows that were there before, when rows are appended.
    pub rows_before: u64,
    layout: Mutex<Option<Arc<Layout>>>,
    rows: AtomicU64,
    bytes: AtomicU64,
    ignored: AtomicU64,
    /// Rows of the dump that were handed to a writer, and rows that the server refused while the
    /// load continued.
    sent: AtomicU64,
    refused: AtomicU64,
    encode_failures: AtomicU64,
    replaced: AtomicBool,
    uncounted: AtomicBool,
    elsewhere: AtomicBool,
    view: AtomicBool,
    /// Net number of rows that uncounted statements added (positive) or removed (negative).
    others: AtomicI64,
    progress: Mutex<Option<TableProgress>>,
    /// What the marks of its first rows record about it, until they are committed.
    detail: Mutex<Option<Arc<TableDetail>>>,
    described: AtomicBool,
    deferral: Mutex<Deferral>,
    built: AtomicU64,
    /// Set once its rows turn out not to suit the fast paths.
    plain: AtomicBool,
    /// Set once it turns out to hold dates that can only be sent as text, mostly zero dates.
    spelled_dates: AtomicBool,
    /// The kinds of rows whose first ones were compared.
    compared: Mutex<Compared>,
    /// Whether rows are written there only to be examined.
    trial: bool,
}

/// Pieces of one table that could not be encoded before the fast path is abandoned for it.
const ENCODE_FAILURES_MAX: u64 = 8;

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({}.{})", self.db, self.name)
    }
}

impl Table {
    /// A table that nothing has been done with yet.
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

    /// A temporary table of a writer, whose rows are not counted.
    pub fn trial(db: &str, name: &str, layout: Arc<Layout>) -> Self {
        Self {
            layout: Mutex::new(Some(layout)),
            trial: true,
            ..Self::new(0, db.to_owned(), name.to_owned(), true, 0)
        }
    }

    /// Whether rows are written there only to be examined: the server repeats any warning when they
    /// go into the real table.
    pub fn is_trial(&self) -> bool {
        self.trial
    }

    /// `db.name`, for messages.
    pub fn label(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    /// The quoted name, for statements.
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

    /// Whether its engine can roll back rows that are not committed.
    pub fn is_transactional(&self) -> bool {
        self.layout().is_none_or(|layout| layout.transactional)
    }

    /// Keeps the layout that was read, or forgets it because the dump may have changed the table
    /// since.
    pub fn set_layout(&self, layout: Option<Layout>) {
        *self.layout.lock().unwrap_or_else(PoisonError::into_inner) = layout.map(Arc::new);
        self.compared().forget();
    }

    /// The kinds of rows whose first ones were compared. Holding it blocks every writer of the
    /// table until the holder's first rows are known to be stored correctly: what was committed
    /// counts as done when a load is resumed.
    pub fn compared(&self) -> MutexGuard<'_, Compared> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts committed rows, and shows them as done.
    pub fn committed(&self, rows: u64, bytes: u64, ignored: u64) {
        self.ignored.fetch_add(ignored, Ordering::Relaxed);
        self.imported(rows, bytes);
        self.built_of(rows, bytes);
    }

    /// Counts rows of a tablespace that was imported.
    pub fn imported(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Shows rows as done that are in a tablespace which is not imported yet.
    pub fn built_of(&self, rows: u64, bytes: u64) {
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

    /// Rows handed to a writer that are neither stored, nor left out by `INSERT IGNORE`, nor listed
    /// as refused.
    pub fn unaccounted(&self) -> u64 {
        let known = self.rows() + self.ignored() + self.refused.load(Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed).saturating_sub(known)
    }

    /// Shows the table among those in progress.
    pub fn show(&self, progress: TableProgress) {
        *self.progress() = Some(progress);
    }

    /// Removes it from that list because all its rows are in; returns the seconds it took.
    pub fn shown_loaded(&self) -> Option<f64> {
        let progress = self.progress().take()?;
        let seconds = progress.elapsed().as_secs_f64();
        progress.loaded();
        Some(seconds)
    }

    fn progress(&self) -> MutexGuard<'_, Option<TableProgress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what the marks of its first rows must record.
    pub fn describe(&self, detail: TableDetail) {
        *self.detail.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(detail));
    }

    /// What a mark must record about it, until a mark that records it is committed.
    pub fn detail(&self) -> Option<Arc<TableDetail>> {
        if self.described.load(Ordering::Relaxed) {
            return None;
        }
        self.detail
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes that such a mark is committed.
    pub fn note_described(&self) {
        self.described.store(true, Ordering::Relaxed);
    }

    /// Indexes and foreign keys that are deferred until the rows are in, and not built yet.
    pub fn deferral(&self) -> MutexGuard<'_, Deferral> {
        self.deferral.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts deferred indexes and foreign keys that were built.
    pub fn note_built(&self, count: u64) {
        self.built.fetch_add(count, Ordering::Relaxed);
    }

    /// Number of deferred indexes and foreign keys that were built.
    pub fn built(&self) -> u64 {
        self.built.load(Ordering::Relaxed)
    }

    /// Notes that rows came by `REPLACE`: the number of rows left cannot be derived from the number
    /// sent.
    pub fn note_replaced(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    /// Number of rows that should be there now.
    pub fn expected(&self) -> u64 {
        (self.rows_before + self.rows()).saturating_add_signed(self.others.load(Ordering::Relaxed))
    }

    /// Accepts the present number of rows as correct, after a statement that may have added or
    /// removed any.
    pub fn rebase(&self, count: u64) {
        let sent = i64::try_from(self.rows_before + self.rows()).unwrap_or(i64::MAX);
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.others.store(count - sent, Ordering::Relaxed);
        self.replaced.store(false, Ordering::Relaxed);
    }

    /// Whether `count` rows are what should be there; always true if that is unknown.
    pub fn counts(&self, count: u64) -> bool {
        let expected = self.expected();
        count == expected || self.is_uncounted() || (self.is_replaced() && count <= expected)
    }

    /// Notes that a statement may have added or removed rows, and that they were not counted before
    /// it ran.
    pub fn note_uncounted(&self) {
        self.uncounted.store(true, Ordering::Relaxed);
    }

    /// Whether the expected number of rows is unknown.
    pub fn is_uncounted(&self) -> bool {
        self.uncounted.load(Ordering::Relaxed)
    }

    /// Notes that it shows rows of other tables or servers.
    pub fn note_elsewhere(&self) {
        self.elsewhere.store(true, Ordering::Relaxed);
    }

    /// Whether its rows are elsewhere, and none were sent to it: their number says nothing, and the
    /// other server may be unavailable. Always true for a view: rows sent to it are counted in the
    /// tables that store them.
    pub fn is_elsewhere(&self) -> bool {
        self.is_view() || (self.elsewhere.load(Ordering::Relaxed) && self.expected() == 0)
    }

    /// Notes that it is a view.
    pub fn note_view(&self) {
        self.view.store(true, Ordering::Relaxed);
    }

    /// Whether it is a view: its rows are stored in other tables.
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

    /// Notes a piece that only the server's own parser can read; abandons the fast path after a
    /// few.
    pub fn note_encode_failure(&self) {
        if self.encode_failures.fetch_add(1, Ordering::Relaxed) + 1 >= ENCODE_FAILURES_MAX {
            self.plain.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that its dates must be sent as text.
    pub fn note_spelled_dates(&self) {
        self.spelled_dates.store(true, Ordering::Relaxed);
    }

    /// Whether its dates must be sent as text.
    pub fn has_spelled_dates(&self) -> bool {
        self.spelled_dates.load(Ordering::Relaxed)
    }

    /// Whether a column takes arbitrary bytes, and nothing is computed from such columns.
    pub fn takes_bytes_only_as_given(&self) -> bool {
        self.layout().is_some_and(|layout| {
            let takes =
                |column: &Column| matches!(column.class, ColumnClass::Bytes | ColumnClass::Bit);
            layout.columns.iter().any(takes)
                && !layout.columns.iter().any(|column| column.generated)
        })
    }

    /// Whether its rows go as the dump's own text.
    pub fn is_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }

    /// Has its rows go as the dump's own text from now on.
    pub fn make_plain(&self) {
        self.plain.store(true, Ordering::Relaxed);
    }

    /// Whether warnings about rows that were inserted by this verb can only be judged beside the
    /// text of the rows. In a strict session, `INSERT IGNORE` warns of what others are refused for.
    pub fn is_judged_by_text(&self, verb: InsertVerb) -> bool {
        verb == InsertVerb::InsertIgnore && self.layout().is_some_and(|layout| layout.may_warn())
    }

    /// Number of columns that the server computes.
    pub fn computed_columns(&self) -> u64 {
        self.layout().map_or(0, |layout| {
            let computed = layout.columns.iter().filter(|column| column.generated);
            computed.count() as u64
        })
    }

    /// Removes warnings that are only about a value that the server computes: it notes every
    /// product that has more decimals than its generated column, and the like. Such a note names
    /// that column; the language of the rest is the session's. Returns whether there were any.
    pub fn remove_notes_about_computed(&self, warnings: &mut Vec<Warning>) -> bool {
        let Some(layout) = self.layout().filter(|layout| layout.computes()) else {
            return false;
        };
        let computed = layout.columns.iter().filter(|column| column.generated);
        let names: Vec<String> = computed
            .map(|column| format!("'{}'", column.name))
            .collect();
        let all = warnings.len();
        warnings.retain(|one| {
            one.level != "Note" || !names.iter().any(|name| one.message.contains(name))
        });
        warnings.len() < all
    }
}
