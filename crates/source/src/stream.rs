//! Rows on their way from one server to another: blocks of whole rows, of whatever table, bounded in bytes.
//!
//! Who reads pushes, who writes takes. A table ends by a message that says how many rows it has, and the stream by one that says
//! that nothing is missing: that no more comes is never taken for an end.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::layout::DelimitedFile;
use crate::blocks::BlockPool;

/// Row text that waits in a stream, at most: enough to keep writers busy while a reader waits for its server. A single block that
/// is larger waits alone.
pub const STREAM_BYTES: usize = 16 << 20;
/// Row text of one block, or one row if that is longer.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Rows that come from a server.
#[derive(Debug)]
pub struct RowStream {
    /// The tables; messages name them by their place.
    pub tables: Vec<StreamedTable>,
    /// How many bytes were read, as the source estimates them.
    pub position: Arc<AtomicU64>,
    /// Buffers for blocks.
    pub pool: Arc<BlockPool>,
    state: Mutex<State>,
    /// Signalled when there is room, or nobody takes any more.
    room: Condvar,
    /// Signalled when something has come.
    come: Condvar,
}

/// A table of a stream.
#[derive(Debug)]
pub struct StreamedTable {
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// Bytes of its rows, as its server estimates them.
    pub bytes: u64,
    /// Rows, as its server estimates them.
    pub rows: u64,
    /// How its rows are written.
    pub form: DelimitedFile,
    /// Whether its rows come at all; else only its definition is copied.
    pub data: bool,
}

impl StreamedTable {
    /// `database.table`, for messages.
    pub fn label(&self) -> String {
        format!("{}.{}", self.database, self.table)
    }
}

/// What comes.
#[derive(Debug)]
pub enum Arrival {
    /// Whole rows of a table.
    Rows {
        /// The table, by its place.
        table: usize,
        /// The rows.
        text: Vec<u8>,
        /// How many they are.
        rows: u64,
    },
    /// All rows of a table have come.
    TableEnd {
        /// The table, by its place.
        table: usize,
        /// How many they were.
        rows: u64,
    },
    /// All tables have ended, and nothing was changed meanwhile.
    End,
    /// It has ended before its end.
    Broken,
}

/// Nobody takes rows any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arrival>,
    bytes: usize,
    /// The reading side has said its last word.
    ended: bool,
    /// The writing side has gone.
    closed: bool,
}

impl RowStream {
    /// A stream in which nothing is yet.
    pub fn new(tables: Vec<StreamedTable>) -> Self {
        Self {
            tables,
            position: Arc::default(),
            pool: Arc::default(),
            state: Mutex::default(),
            room: Condvar::new(),
            come: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows of a table; waits for room.
    pub fn rows(&self, table: usize, text: Vec<u8>, rows: u64) -> Result<(), Closed> {
        let mut state = self.state();
        while !state.closed && state.bytes > 0 && state.bytes + text.len() > STREAM_BYTES {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return Err(Closed);
        }
        state.bytes += text.len();
        state.waiting.push_back(Arrival::Rows { table, text, rows });
        self.come.notify_one();
        Ok(())
    }

    /// All rows of a table were pushed.
    pub fn table_end(&self, table: usize, rows: u64) {
        let mut state = self.state();
        state.waiting.push_back(Arrival::TableEnd { table, rows });
        self.come.notify_one();
    }

    /// The last word of the reading side: whether everything was read, and is as it was.
    pub fn end(&self, whole: bool) {
        let mut state = self.state();
        if !state.ended {
            state.ended = true;
            let last = if whole { Arrival::End } else { Arrival::Broken };
            state.waiting.push_back(last);
        }
        self.come.notify_all();
    }

    /// Nothing is taken any more: who pushes is told so, and what waits is let go.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
        state.bytes = 0;
        self.room.notify_all();
    }

    /// What comes next; `None` when nothing came within the time.
    pub fn next(&self, patience: Duration) -> Option<Arrival> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            state = self
                .come
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let next = state.waiting.pop_front();
        if let Some(Arrival::Rows { text, .. }) = &next {
            state.bytes -= text.len();
            self.room.notify_all();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(20);

    #[test]
    fn who_reads_waits_for_who_writes() {
        let stream = Arc::new(RowStream::new(Vec::new()));
        let reader = {
            let stream = Arc::clone(&stream);
            std::thread::spawn(move || {
                for _ in 0..64 {
                    stream.rows(0, vec![0; BLOCK_BYTES], 1).unwrap();
                }
                stream.table_end(0, 64);
                stream.end(true);
            })
        };
        std::thread::sleep(SOON);
        assert_eq!(stream.state().bytes, STREAM_BYTES, "it fills up, no more");
        let mut rows = 0;
        loop {
            match stream.next(LATE).unwrap() {
                Arrival::Rows { rows: more, .. } => rows += more,
                Arrival::TableEnd { rows: said, .. } => assert_eq!(said, rows),
                Arrival::End => break,
                Arrival::Broken => panic!("it is whole"),
            }
        }
        assert_eq!(rows, 64);
        reader.join().unwrap();
    }

    #[test]
    fn a_row_that_is_larger_than_the_stream_goes_through_alone() {
        let stream = RowStream::new(Vec::new());
        stream.rows(0, vec![0; STREAM_BYTES * 2], 1).unwrap();
        assert!(matches!(stream.next(SOON), Some(Arrival::Rows { .. })));
        assert!(stream.next(SOON).is_none());
    }

    #[test]
    fn nobody_waits_for_a_writer_that_is_gone() {
        let stream = Arc::new(RowStream::new(Vec::new()));
        stream.rows(0, vec![0; STREAM_BYTES], 1).unwrap();
        let reader = {
            let stream = Arc::clone(&stream);
            std::thread::spawn(move || stream.rows(0, vec![0], 1))
        };
        std::thread::sleep(SOON);
        stream.close();
        assert_eq!(reader.join().unwrap(), Err(Closed));
        assert_eq!(stream.rows(0, vec![0], 1), Err(Closed));
    }

    #[test]
    fn the_first_last_word_counts() {
        let stream = RowStream::new(Vec::new());
        stream.end(false);
        stream.end(true);
        assert!(matches!(stream.next(SOON), Some(Arrival::Broken)));
        assert!(stream.next(SOON).is_none());
    }
}
