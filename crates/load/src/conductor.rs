//! The conductor: reads the dump, runs its statements and hands its rows to the workers.
//!
//! Statements run in dump order on the *control* connection, as the stock client would run them.
//! Rows are the exception: workers write them in parallel wherever that cannot change the result. A
//! statement that is not known to be independent of rows in flight is a barrier: everything before
//! it finishes first.

mod accounts;
mod barrier;
mod case_folding;
mod catalog;
mod databases;
mod deferred;
mod delimited;
mod dialogue;
mod entry;
mod file_check;
mod findings;
mod foreign_keys;
mod here;
mod indexes;
mod ledger;
mod name;
mod objects;
mod parents;
mod place;
mod postponed;
mod proof;
mod refused_settings;
mod registry;
mod resume;
mod rows;
mod segments;
mod statements;
mod streamed;
mod tables;
mod triggers;
mod variables;
mod views;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use refloat_run::cancel::HookGuard;
use refloat_source::blocks::{Block, BlockPool};
use refloat_source::cutter::Ends;
use refloat_sqltext::{Item, ItemKind};
use refloat_store::Input;
use refloat_wire::Connection;

use super::choice::Choice;
use super::chunk::PlainFile;
use super::context::Context;
use super::error::LoadError;
use super::marks::Found;
use super::outcome::{LoadOutcome, TableOutcome};
use super::queue::Queue;
use super::session::Tracker;
use super::verdict::Reason;
use case_folding::CaseFolding;
use catalog::Catalog;
use deferred::Deferred;
use dialogue::Dialogue;
use findings::Findings;
use here::Here;
use ledger::Ledger;
use place::{Place, SqlReader};
use resume::{Resume, may_stay_unsettled};

/// Bytes of decompressed text to read at a time.
const BLOCK_BYTES: usize = 4 << 20;
/// Bytes of rows in one piece.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of rows in one piece if the dump's inserts end with a clause that changes what they do:
/// such a statement must be seen whole.
const PIECE_BYTES_WHOLE: usize = 64 << 20;

/// Reads the dump and keeps its order.
pub struct Conductor<'a> {
    pub(super) ctx: Arc<Context>,
    pub(super) queue: &'a Queue,
    /// Which tables of the dump to load.
    choice: Choice,
    /// The dump's own session.
    dialogue: Dialogue,
    /// Queries the server and changes definitions without touching the dump's session.
    pub(super) catalog: Catalog,
    /// Databases, tables and programs.
    pub(super) ledger: Ledger,
    /// Bytes of a plain file that are processed.
    done: Arc<AtomicU64>,
    /// What waits for the rows.
    deferred: Deferred<'a>,
    /// What an earlier process of the same load did.
    pub(super) resume: Resume,
    pub(super) findings: Findings,
}

impl<'a> Conductor<'a> {
    /// Creates a conductor, which opens its second connection.
    pub fn new(
        ctx: &Arc<Context>,
        queue: &'a Queue,
        control: Connection,
        found: Option<Found>,
    ) -> Result<Self, LoadError> {
        let mut catalog = ctx.connect("for the catalogue")?;
        // Slot 0 is the control connection's; the writers' come next.
        ctx.hold(&mut catalog, ctx.options.threads.max(1) + 1)?;
        let folded = CaseFolding::ask(&mut catalog)?;
        let resume = Resume::of(ctx, found);
        let tracker = Tracker::new(&mut catalog)
            .map_err(|error| LoadError::server("reading session variables", error))?;
        let findings = Findings {
            touched: resume.has_begun(),
            ..Findings::default()
        };
        Ok(Self {
            ctx: Arc::clone(ctx),
            queue,
            choice: Choice::new(&ctx.options.tables),
            dialogue: Dialogue::new(ctx, control, tracker),
            catalog: Catalog::new(ctx, catalog),
            ledger: Ledger::new(folded, ctx.options.existing),
            done: Arc::clone(&ctx.done_bytes),
            deferred: Deferred::new(ctx, queue),
            resume,
            findings,
        })
    }

    /// Reads the dump to its end and finishes everything it asked for.
    pub fn run(&mut self, input: Input, file: Option<Arc<PlainFile>>) -> Result<(), LoadError> {
        let mut place = Place::new(&self.ctx.source);
        place.file = file;
        let pool = Arc::new(BlockPool::default());
        let mut reader = SqlReader::new(input, Ends::Client, &pool);
        while self.read_statements(&mut place, &mut reader)? {}
        let (is_cut, end) = (place.script.is_cut(), self.findings.bytes);
        LoadError::refuse_cut(&self.ctx.options, is_cut, (&place.name, end))?;
        self.end(&mut place)?;
        place.check_committed(&self.ctx)
    }

    /// Finishes everything the dump asked for.
    fn end(&mut self, place: &mut Place) -> Result<(), LoadError> {
        self.resume
            .settle_definitions(&mut self.catalog, &mut self.dialogue)?;
        self.dialogue
            .ensure_database(&mut self.catalog.conn, &mut self.findings)?;
        self.settle(place)?;
        self.resume.check_met()?;
        self.check_foreign_keys()?;
        self.choice.check_patterns()
    }

    /// Kills what the control and catalogue connections are running when the run is cancelled.
    pub fn kill_on_cancel(&self) -> [HookGuard; 2] {
        [
            self.ctx.kill_on_cancel(&self.dialogue.control),
            self.ctx.kill_on_cancel(&self.catalog.conn),
        ]
    }

    /// Adds what was and was not done to the outcome.
    pub fn report(&self, outcome: &mut LoadOutcome) {
        let tally = self.ctx.tally();
        outcome.bytes = self.findings.bytes;
        outcome.statements = self.findings.statements;
        outcome.skipped = self.findings.skipped.clone();
        match self.choice.left_out() {
            0 => {}
            1 => outcome
                .skipped
                .push("1 table that was not chosen".to_owned()),
            more => outcome
                .skipped
                .push(format!("{more} tables that were not chosen")),
        }
        outcome.kept = self.findings.kept.clone();
        outcome.rows = self
            .ledger
            .entries
            .iter()
            .map(|entry| entry.table.rows())
            .sum();
        outcome.ignored_rows = self
            .ledger
            .entries
            .iter()
            .map(|entry| entry.table.ignored())
            .sum();
        outcome.chunk_bytes = self.ctx.chunk_size.current() as u64;
        outcome.chunk_rows = tally.rows.checked_div(tally.chunks).unwrap_or(0);
        outcome.write_paths = tally.paths;
        outcome.as_it_stands_rows = tally.as_it_stands;
        outcome.retries = tally.retries;
        outcome.other_collations = u64::from(self.findings.other_defaults);
        outcome.warnings = tally.warnings;
        outcome.failures = tally.failures;
        // Only the number of an earlier process's failures is known; that process listed them.
        outcome.failures.total += self.resume.counted.refused;
        // Writers report failures in any order.
        outcome.failures.first.sort_by_key(|failure| failure.offset);
        outcome.tables = self
            .ledger
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

    fn item(
        &mut self,
        place: &mut Place,
        block: &Arc<Block>,
        at: usize,
        item: &Item,
    ) -> Result<(), LoadError> {
        let text = at + item.text.start..at + item.text.end;
        if !may_stay_unsettled(&item.kind) {
            self.resume
                .settle_definitions(&mut self.catalog, &mut self.dialogue)?;
        }
        place.script.item(item, &block[text.clone()]);
        let file = Arc::clone(&place.name);
        let here = Here {
            file: &file,
            text: &block[text],
            item,
        };
        match &item.kind {
            ItemKind::Rows(rows) => {
                if rows.last {
                    place.check_terminated(item, &self.ctx.options)?;
                }
                self.rows(place, here, block, at, rows)
            }
            ItemKind::Statement(kind) => {
                place.check_terminated(item, &self.ctx.options)?;
                self.statement(place, kind, here)
            }
            ItemKind::ClientCommand(command) => match Reason::of_command(command) {
                Some(reason) => self.ctx.fail(here.refused(reason)),
                None => Ok(()),
            },
            ItemKind::Comment(_) | ItemKind::Blank => Ok(()),
        }
    }
}

/// Whether an insert in this text may end with `ON DUPLICATE KEY UPDATE`. Dump tools never write
/// that; people do. A match inside a value only makes pieces larger.
fn has_tail(text: &[u8]) -> bool {
    [b"ON DUPLICATE KEY".as_slice(), b"on duplicate key"]
        .iter()
        .any(|words| memchr::memmem::find(text, words).is_some())
}
