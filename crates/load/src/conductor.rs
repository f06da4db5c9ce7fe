//! The conductor: reads the dump, runs what is not rows, and hands rows to the workers.
//!
//! It runs the dump's statements in their order on the *control* connection, as the stock client would. Rows are the
//! exception: they flow to the workers and are written in parallel, where that cannot change the result. A statement that
//! is not known to be independent of rows in flight is a barrier: everything before it is finished first.

mod accounts;
mod ahead;
mod barrier;
mod databases;
mod delimited;
mod folded;
mod foreign_keys;
mod indexes;
mod objects;
mod parents;
mod place;
mod proof;
mod registry;
mod resume;
mod rows;
mod segments;
mod statements;
mod streamed;
mod tables;
mod triggers;
mod unset;
mod variables;
mod views;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use refloat_run::cancel::HookGuard;
use refloat_run::outcome::Bounded;
use refloat_source::blocks::{Block, BlockPool};
use refloat_source::cutter::Ends;
use refloat_sqltext::{CommentKind, Item, ItemKind};
use refloat_store::Input;
use refloat_wire::Connection;

use super::choice::Choice;
use super::chunk::PlainFile;
use super::context::Context;
use super::error::LoadError;
use super::marks::{Counted, Found};
use super::outcome::{LoadOutcome, OrphanRows, TableOutcome};
use super::programs::Created;
use super::queue::Queue;
use super::renamed;
use super::session::{Session, Tracker};
use place::{Place, SqlReader};
pub use registry::{Entry, SHOW_SESSION, TableKey};
use resume::{Resume, may_stay_unsettled};

/// Bytes of decompressed text read at a time.
const BLOCK_BYTES: usize = 4 << 20;
/// Bytes of rows in one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of rows in one piece, of a dump whose inserts end with something that changes what their rows do: they have to be seen whole.
const PIECE_BYTES_WHOLE: usize = 64 << 20;
/// A definition that runs after the rows, with the session state that it stands in.
pub struct Postponed {
    /// The file that it stands in.
    file: Arc<str>,
    session: Arc<Session>,
    text: Vec<u8>,
    line: u64,
    offset: u64,
    /// Table of a trigger, as far as it is known of one that is dropped.
    table: Option<TableKey>,
    /// Whether it creates something (a missing one must be reported) or drops it.
    creates: bool,
    /// What.
    object: Created,
    /// The collation that its database had in this place of the dump, where the dump changes it.
    collation: Option<String>,
}

/// Where the dump says that it ends, and what it says of itself.
#[derive(Default)]
pub struct Marks {
    /// The dump program's head line was seen.
    pub header: bool,
    /// `-- Dump completed` was seen, and nothing but comments behind it.
    pub completed: bool,
    /// `-- Dump completed` was seen.
    pub closed: bool,
    /// The database that the dump was made of, where its head names one.
    pub origin: Option<String>,
}

/// Reads the dump and keeps the order of things.
pub struct Conductor<'a> {
    pub(super) ctx: Arc<Context>,
    pub(super) queue: &'a Queue,
    /// Runs the dump's own statements, in the dump's own session.
    control: Connection,
    /// The database of `--database`, until something goes there.
    pending_database: Option<String>,
    /// What was asked for of the dump.
    choice: Choice,
    /// The database that the dump is in, of which `--tables` asks for nothing, and which is not there.
    unchosen: Option<String>,
    /// Databases that the dump drops, and that were kept.
    undropped: HashSet<String>,
    /// Which patterns of `--tables` have found a table.
    matched: Vec<bool>,
    /// Looks at the server, and changes definitions, without touching the dump's session.
    pub(super) catalog: Connection,
    pub(super) catalog_session: Option<Arc<Session>>,
    tracker: Tracker,
    session: Option<Arc<Session>>,
    /// Rows must stay on the control connection: something that only it knows decides their values.
    control_only: bool,
    /// Something was created, changed or removed on the server: a refusal from now on leaves a part of the dump behind.
    pub(super) touched: bool,
    /// Tables with triggers that the dump created, and the names of these: rows that follow must meet them, one after the other.
    triggered: HashMap<TableKey, HashSet<String>>,
    /// Collations that are other ones here, because the dump names only their character sets.
    other_defaults: u32,
    /// Tables that only the control connection sees.
    temporary: HashSet<TableKey>,
    /// What the server refused of the dump's session.
    unset: unset::Unset,
    /// Tables whose definition was refused, and the load went on.
    refused: HashSet<TableKey>,
    /// Tables counted because of statements that may change any rows.
    recounted: usize,
    pub(super) entries: Vec<Entry>,
    by_name: HashMap<TableKey, usize>,
    databases: HashMap<String, registry::Database>,
    folded: folded::Folded,
    /// What belongs to the file that is being read.
    place: Place,
    /// Bytes of the dump that are done with, for a plain file.
    done: Arc<AtomicU64>,
    postponed: Vec<Postponed>,
    /// Databases whose character set the dump changes on its way, as dump tools do around programs.
    altered: HashSet<String>,
    /// Programs that the dump has created and not dropped since.
    created: Vec<Created>,
    /// Statements run on the control connection.
    pub(super) statements: u64,
    /// Statements left out on purpose.
    pub(super) skipped: Bounded<String>,
    /// Accounts that were there and were left as they are, as the dump writes their names.
    accounts_left: Vec<String>,
    /// Refloat's own tables that the dump has, and that are not loaded.
    own_left_out: HashSet<TableKey>,
    /// Bytes of text read.
    pub(super) bytes: u64,
    marks: Marks,
    /// Whether the queue knows how much index builds may sort together.
    pub(super) sort_budget_set: bool,
    /// Orphan rows found so far.
    pub(super) orphans: Vec<OrphanRows>,
    /// What an earlier process of the same load has done.
    resume: Resume,
}

impl<'a> Conductor<'a> {
    /// A conductor with its two connections.
    pub fn new(
        ctx: &Arc<Context>,
        queue: &'a Queue,
        control: Connection,
        file: Option<Arc<PlainFile>>,
        found: Option<Found>,
    ) -> Result<Self, LoadError> {
        let mut place = Place::new(&ctx.source);
        place.file = file;
        let mut catalog = ctx.connect("for the catalogue")?;
        // Behind the writers.
        ctx.hold(&mut catalog, ctx.options.threads.max(1) + 1)?;
        let folded = folded::Folded::ask(&mut catalog)?;
        let resume = Resume::of(found);
        let tracker = Tracker::new(&mut catalog)
            .map_err(|error| LoadError::server("reading session variables", error))?;
        Ok(Self {
            ctx: Arc::clone(ctx),
            queue,
            control,
            pending_database: ctx.options.database.clone(),
            choice: Choice::new(&ctx.options.tables),
            unchosen: None,
            undropped: HashSet::new(),
            matched: vec![false; ctx.options.tables.len()],
            catalog,
            catalog_session: None,
            tracker,
            session: None,
            control_only: false,
            touched: resume.has_begun(),
            triggered: HashMap::new(),
            other_defaults: 0,
            temporary: HashSet::new(),
            unset: unset::Unset::default(),
            refused: HashSet::new(),
            recounted: 0,
            entries: Vec::new(),
            by_name: HashMap::new(),
            databases: HashMap::new(),
            folded,
            place,
            done: Arc::clone(&ctx.done_bytes),
            postponed: Vec::new(),
            altered: HashSet::new(),
            created: Vec::new(),
            statements: 0,
            skipped: Bounded::default(),
            accounts_left: Vec::new(),
            own_left_out: HashSet::new(),
            bytes: 0,
            marks: Marks::default(),
            sort_budget_set: false,
            orphans: Vec::new(),
            resume,
        })
    }

    /// Reads the dump to its end, and finishes everything that it asked for.
    pub fn run(&mut self, input: Input) -> Result<(), LoadError> {
        let pool = Arc::new(BlockPool::default());
        let mut reader = SqlReader::new(input, Ends::Client, &pool);
        while self.read_statements(&mut reader)? {}
        self.check_marks()?;
        self.end()?;
        self.check_committed()
    }

    /// Finishes everything that the dump asked for.
    fn end(&mut self) -> Result<(), LoadError> {
        self.settle_definitions()?;
        self.ensure_database()?;
        self.settle()?;
        self.check_met()?;
        self.check_foreign_keys()?;
        self.check_patterns()
    }

    /// Ends what the control and catalogue connections are doing when the run is cancelled.
    pub fn kill_on_cancel(&self) -> [HookGuard; 2] {
        [
            self.ctx.kill_on_cancel(&self.control),
            self.ctx.kill_on_cancel(&self.catalog),
        ]
    }

    /// Rows of an earlier process of this load, as far as they were met in the source.
    pub fn counted(&self) -> Counted {
        self.resume.counted
    }

    /// Adds what was done, and what was not, to the outcome.
    pub fn report(&self, outcome: &mut LoadOutcome) {
        let tally = self.ctx.tally();
        outcome.bytes = self.bytes;
        outcome.statements = self.statements;
        outcome.skipped = self.skipped.clone();
        outcome.rows = self.entries.iter().map(|entry| entry.table.rows()).sum();
        outcome.ignored_rows = self.entries.iter().map(|entry| entry.table.ignored()).sum();
        outcome.chunk_bytes = self.ctx.chunk_size.current() as u64;
        outcome.chunk_rows = tally.rows.checked_div(tally.chunks).unwrap_or(0);
        outcome.write_paths = tally.paths;
        outcome.as_it_stands_rows = tally.as_it_stands;
        outcome.retries = tally.retries;
        outcome.other_collations = u64::from(self.other_defaults);
        outcome.warnings = tally.warnings;
        outcome.failures = tally.failures;
        // Those of an earlier process are known by their number only: it has listed them.
        outcome.failures.total += self.resume.counted.refused;
        // Writers find them in any order.
        outcome.failures.first.sort_by_key(|failure| failure.offset);
        outcome.tables = self
            .entries
            .iter()
            .filter(|entry| !entry.dropped)
            .map(|entry| TableOutcome {
                database: entry.table.db.clone(),
                table: entry.table.name.clone(),
                rows: entry.table.rows(),
                bytes: entry.table.bytes(),
                indexes_built: entry.table.built(),
                complete: entry.complete,
                transactional: entry
                    .table
                    .layout()
                    .is_none_or(|layout| layout.transactional),
                missing: entry.table.deferral().clauses(),
            })
            .collect();
    }

    fn item(&mut self, block: &Arc<Block>, at: usize, item: &Item) -> Result<(), LoadError> {
        let text = at + item.text.start..at + item.text.end;
        if !may_stay_unsettled(&item.kind) {
            self.settle_definitions()?;
        }
        match &item.kind {
            ItemKind::Rows(rows) => {
                self.marks.completed = false;
                if rows.last {
                    self.check_terminated(item)?;
                }
                self.rows(block, at, item, rows)
            }
            ItemKind::Statement(kind) => {
                self.marks.completed = false;
                self.check_terminated(item)?;
                self.statement(kind, &block[text], item)
            }
            ItemKind::ClientCommand(command) => self.client_command(command, &block[text], item),
            ItemKind::Comment(kind) => {
                match kind {
                    CommentKind::DumpHeader => self.marks.header = true,
                    CommentKind::DumpCompleted => {
                        (self.marks.completed, self.marks.closed) = (true, true);
                    }
                    CommentKind::Plain => {
                        if let Some(name) = renamed::origin(&block[text]) {
                            self.marks.origin = Some(name);
                        }
                    }
                    CommentKind::SandboxMode => {}
                }
                Ok(())
            }
            ItemKind::Blank => Ok(()),
        }
    }

    /// A last statement without a delimiter may be cut. Whoever says that the dump is whole has it run, as the stock client runs it.
    fn check_terminated(&self, item: &Item) -> Result<(), LoadError> {
        if item.terminated || self.ctx.options.accept_missing_trailer {
            return Ok(());
        }
        Err(LoadError::unterminated(&self.place.name, item))
    }

    /// A dump that says where it begins must say where it ends.
    fn check_marks(&self) -> Result<(), LoadError> {
        // A text without a single statement may be one that was cut in its first line.
        let nothing = self.statements == 0 && self.entries.is_empty() && self.skipped.is_empty();
        if (self.marks.header || nothing)
            && !self.marks.completed
            && !self.ctx.options.accept_missing_trailer
        {
            return Err(LoadError::MissingTrailer {
                file: self.place.name.to_string(),
                offset: self.bytes,
            });
        }
        Ok(())
    }

    fn text_error(&self, error: refloat_sqltext::ScanError) -> LoadError {
        LoadError::Scan {
            file: self.place.name.to_string(),
            source: error,
        }
    }

    pub(super) fn check_cancel(&self) -> Result<(), LoadError> {
        if self.ctx.cancel.is_cancelled() {
            return Err(self.ctx.interrupted());
        }
        Ok(())
    }

    /// The session state of the dump as it is now, asked for when a statement may have changed it.
    pub(super) fn session(&mut self) -> Result<Arc<Session>, LoadError> {
        if let Some(session) = &self.session {
            return Ok(Arc::clone(session));
        }
        let mut session = self
            .tracker
            .read(&mut self.control, self.ctx.binlog_off)
            .map_err(|error| LoadError::server("reading the state of the session", error))?;
        if let Some(name) = &self.unchosen {
            session.database = Some(name.clone());
        }
        // The same state keeps its identity, so that chunks before and after a `SET` that changed nothing can be one.
        let session = match self
            .entries
            .last()
            .and_then(|entry| entry.session.as_ref())
            .filter(|last| ***last == session)
        {
            Some(last) => Arc::clone(last),
            None => Arc::new(session),
        };
        self.session = Some(Arc::clone(&session));
        Ok(session)
    }
}

/// Whether some insert of this text may end with `ON DUPLICATE KEY UPDATE`: no tool's dumps do, and what people write does all
/// along. A word in a value only makes larger pieces.
fn has_tail(text: &[u8]) -> bool {
    [b"ON DUPLICATE KEY".as_slice(), b"on duplicate key"]
        .iter()
        .any(|words| memchr::memmem::find(text, words).is_some())
}
