//! State of the file being read. Files of a folder are read in turns, each as if it were the only
//! one.

use std::ops::Range;
use std::sync::Arc;

use refloat_source::blocks::{Block, BlockPool};
use refloat_source::cutter::{Cutter, Ends, fill_target};
use refloat_source::script::Script;
use refloat_sqltext::{InsertHeader, Item, Scanner};
use refloat_store::Input;

use super::{BLOCK_BYTES, Conductor, PIECE_BYTES_WHOLE, has_tail};
use crate::chunk::{Head, Piece, PlainFile};
use crate::context::Context;
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::outcome::StatementFailure;
use crate::session::Session;
use crate::transaction::{OPEN_HINT, Transaction};

/// How far a file has been read, and which of its rows wait.
pub struct Place {
    /// The file's name, for messages.
    pub name: Arc<str>,
    /// The file itself, if workers can read it.
    pub file: Option<Arc<PlainFile>>,
    /// The table whose rows come next.
    pub current: Option<usize>,
    /// Header of its most recent insert.
    pub last_header: Option<Arc<InsertHeader>>,
    /// Its rows, until it is known whether its indexes are deferred.
    pub waiting: Vec<(Head, Piece)>,
    /// Total bytes of `waiting`.
    pub waiting_bytes: usize,
    /// Session state of this file while other files are read.
    pub session: Option<Arc<Session>>,
    /// Size of its table in bytes of text, if known.
    pub size_known: Option<u64>,
    /// The file may contain only rows and the settings that they need.
    pub rows_only: bool,
    /// Its session enters the database that it creates.
    pub enters: bool,
    /// Whether a database that it creates may exist already: mydumper writes no `IF NOT EXISTS`.
    pub keeps_databases: bool,
    /// Rows read from it so far.
    pub rows: u64,
    /// What it says about itself.
    pub script: Script,
    /// The transaction that its session would be in.
    pub transaction: Transaction,
}

impl Place {
    pub fn new(name: &str) -> Self {
        Self {
            name: Arc::from(name),
            file: None,
            current: None,
            last_header: None,
            waiting: Vec::new(),
            waiting_bytes: 0,
            session: None,
            size_known: None,
            rows_only: false,
            enters: false,
            keeps_databases: false,
            rows: 0,
            script: Script::default(),
            transaction: Transaction::default(),
        }
    }

    /// A piece of rows from this file, starting at `offset` and `line`.
    pub fn piece(
        &self,
        block: &Arc<Block>,
        range: Range<usize>,
        rows: u64,
        offset: u64,
        line: u64,
    ) -> Piece {
        let name = &self.name;
        match &self.file {
            Some(file) => Piece::in_file(name, Arc::clone(file), range.len(), rows, offset, line),
            None => Piece::in_memory(name, Arc::clone(block), range, rows, offset, line),
        }
    }

    /// A final statement without a delimiter may be truncated. With `accept_missing_trailer` it
    /// runs, as it does in the stock client.
    pub fn check_terminated(&self, item: &Item, options: &LoadOptions) -> Result<(), LoadError> {
        if item.terminated || options.accept_missing_trailer {
            return Ok(());
        }
        Err(LoadError::unterminated(&self.name, item))
    }

    /// Refuses a file that ends in a transaction that nothing commits.
    pub fn check_committed(&self, ctx: &Context) -> Result<(), LoadError> {
        let Some(open) = self.transaction.open() else {
            return Ok(());
        };
        let (begun, reason) = (open.begun.clone(), open.reason());
        if self.script.is_cut_part() {
            // The file was cut, and the user accepts that.
            ctx.events
                .warn(format!("line {}: {}: {reason}", begun.line, begun.head));
            return Ok(());
        }
        ctx.fail(StatementFailure {
            file: self.name.to_string(),
            line: begun.line,
            offset: begun.offset,
            head: begun.head,
            message: format!("refused: {reason}"),
            hint: OPEN_HINT.to_owned(),
            ..StatementFailure::default()
        })
    }
}

/// A file of statements, and how far it was read.
pub struct SqlReader {
    pub input: Input,
    cutter: Cutter,
    rest: Vec<u8>,
    eof: bool,
    whole: bool,
    pool: Arc<BlockPool>,
    /// Bytes of text read so far.
    pub read: u64,
}

impl SqlReader {
    pub fn new(input: Input, ends: Ends, pool: &Arc<BlockPool>) -> Self {
        Self {
            input,
            cutter: Cutter::new(ends),
            rest: Vec::new(),
            eof: false,
            whole: false,
            pool: Arc::clone(pool),
            read: 0,
        }
    }

    /// The scanner, if statements end as the stock client reads them.
    fn scanner(&mut self) -> Option<&mut Scanner> {
        match &mut self.cutter {
            Cutter::Client(scanner) => Some(scanner),
            Cutter::Lines(_) => None,
        }
    }

    /// Bytes read so far of the file as stored.
    pub fn position(&self) -> u64 {
        self.input
            .raw_position()
            .load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Conductor<'_> {
    /// Reads one block of a file of statements and runs it. `false` at the end of the file.
    pub(super) fn read_statements(
        &mut self,
        place: &mut Place,
        reader: &mut SqlReader,
    ) -> Result<bool, LoadError> {
        let session = self.dialogue.session()?;
        let mut mode = self.dialogue.refused_settings.mode_or(session.lex_mode());
        reader.cutter.set_mode(mode);
        // A row larger than a block doubles the next block, so that its start is not copied over
        // and over.
        let mut rest = std::mem::take(&mut reader.rest);
        let want = fill_target(rest.len(), BLOCK_BYTES);
        while !reader.eof && rest.len() < want {
            let before = rest.len();
            if reader.input.read_block(&mut rest, want - before)? == 0 {
                reader.eof = true;
            }
            self.findings.bytes += (rest.len() - before) as u64;
            reader.read += (rest.len() - before) as u64;
        }
        if !reader.whole && has_tail(&rest) {
            reader.whole = true;
            if let Some(scanner) = reader.scanner() {
                scanner.set_piece_target(PIECE_BYTES_WHOLE);
            }
        }
        let block = Arc::new(Block::new(rest, Arc::clone(&reader.pool)));
        let mut at = 0;
        loop {
            self.ctx.check_cancel()?;
            let step = reader
                .cutter
                .next(&block[at..], reader.eof)
                .map_err(|source| LoadError::Scan {
                    file: place.name.to_string(),
                    source,
                })?;
            match step {
                refloat_sqltext::Step::Item(item) => {
                    let len = item.len;
                    let rows = if let refloat_sqltext::ItemKind::Rows(rows) = &item.kind {
                        rows.rows.len()
                    } else {
                        0
                    };
                    self.done
                        .fetch_add((len - rows) as u64, std::sync::atomic::Ordering::Relaxed);
                    self.item(place, &block, at, &item)?;
                    at += len;
                    let now = self.dialogue.lex_mode().unwrap_or(mode);
                    if now != mode {
                        reader.cutter.set_mode(now);
                        mode = now;
                    }
                }
                refloat_sqltext::Step::NeedMore => break,
                refloat_sqltext::Step::End => return Ok(false),
            }
        }
        reader.rest = Block::rest(block, at, &reader.pool);
        Ok(true)
    }
}
