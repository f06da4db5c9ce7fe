//! Chunks: runs of rows of one table that are written in one transaction.
//!
//! Rows are never copied between the input and the encoder of a writer: a [`Piece`] points into a shared [`Block`], and a
//! block goes back to its [`BlockPool`] when the last piece that points into it is gone.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use refloat_sqltext::InsertHeader;

use super::session::Session;
use super::table::Table;

/// Blocks kept for reuse; more would only hold memory.
const POOL_MAX: usize = 16;
/// Blocks larger than this are not kept: they come from rare, very large rows.
const POOL_BLOCK_MAX: usize = 16 << 20;

/// Buffers for reuse, so that the kernel does not have to clear fresh pages for every few MiB of input.
#[derive(Debug, Default)]
pub struct BlockPool {
    free: Mutex<Vec<Vec<u8>>>,
}

impl BlockPool {
    /// An empty buffer, with whatever capacity it had before.
    pub fn take(&self) -> Vec<u8> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < POOL_MAX && buffer.capacity() > 0 && buffer.capacity() <= POOL_BLOCK_MAX {
            buffer.clear();
            free.push(buffer);
        }
    }
}

/// A stretch of decompressed input, read-only from now on.
#[derive(Debug)]
pub struct Block {
    data: Vec<u8>,
    pool: Arc<BlockPool>,
}

impl Block {
    /// Freezes a filled buffer.
    pub fn new(data: Vec<u8>, pool: Arc<BlockPool>) -> Self {
        Self { data, pool }
    }
}

impl std::ops::Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.data));
    }
}

/// A run of complete tuples, `(…),(…)`, of one `INSERT` or `REPLACE` statement.
#[derive(Debug, Clone)]
pub struct Piece {
    block: Arc<Block>,
    range: Range<usize>,
    /// Tuples in it.
    pub rows: u64,
    /// Byte of the decompressed dump where its first tuple begins.
    pub offset: u64,
    /// Line of the dump where its statement begins, from 1.
    pub line: u64,
}

impl Piece {
    /// A piece of `block`.
    pub fn new(block: Arc<Block>, range: Range<usize>, rows: u64, offset: u64, line: u64) -> Self {
        Self { block, range, rows, offset, line }
    }

    /// Some of its rows: those at `range` of its text.
    pub fn part(&self, range: Range<usize>, rows: u64) -> Self {
        let line = self.line + memchr::memchr_iter(b'\n', &self.text()[..range.start]).count() as u64;
        let offset = self.offset + range.start as u64;
        let range = self.range.start + range.start..self.range.start + range.end;
        Self { block: Arc::clone(&self.block), range, rows, offset, line }
    }

    /// The tuples, without the comma or delimiter behind them.
    pub fn text(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }

    /// Bytes of dump text.
    pub fn len(&self) -> usize {
        self.range.len()
    }
}

/// What one transaction writes: pieces of one table with one header, under one session state.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The table.
    pub table: Arc<Table>,
    /// The session state of the dump at these rows.
    pub session: Arc<Session>,
    /// Verb, columns and verbatim head of the statements.
    pub header: Arc<InsertHeader>,
    /// The rows.
    pub pieces: Vec<Piece>,
    /// Bytes of dump text in all pieces.
    pub bytes: usize,
    /// Rows in all pieces.
    pub rows: u64,
}

impl Chunk {
    /// An empty chunk.
    pub fn new(table: Arc<Table>, session: Arc<Session>, header: Arc<InsertHeader>) -> Self {
        Self { table, session, header, pieces: Vec::new(), bytes: 0, rows: 0 }
    }

    /// Adds a piece.
    pub fn push(&mut self, piece: Piece) {
        self.bytes += piece.len();
        self.rows += piece.rows;
        self.pieces.push(piece);
    }

    /// Whether rows with this header and session may join.
    pub fn takes(&self, table: &Arc<Table>, session: &Arc<Session>, header: &InsertHeader) -> bool {
        Arc::ptr_eq(&self.table, table) && Arc::ptr_eq(&self.session, session) && self.header.text == header.text
    }
}
