//! Rows in transit from one server to another: blocks of whole rows, of any table, with a limit on
//! the bytes held.
//!
//! Readers push and writers take. A message with the row count ends each table, and another states
//! that the stream is complete: silence never counts as the end.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::blocks::BlockPool;
use crate::delimited::DelimitedFile;

/// Upper limit on row text waiting in a stream, in bytes: enough to keep writers busy while a
/// reader waits for its server. A larger block waits alone.
pub const STREAM_BYTES: usize = 16 << 20;
/// Target size of a block of row text in bytes; a longer row is a block of its own.
pub const BLOCK_BYTES: usize = 1 << 20;

/// A stream of rows from a server.
#[derive(Debug)]
pub struct RowStream {
    /// The tables; messages refer to them by index.
    pub tables: Vec<StreamedTable>,
    /// Bytes read so far, by the source's estimates.
    pub position: Arc<AtomicU64>,
    /// Buffers for blocks.
    pub pool: Arc<BlockPool>,
    state: Mutex<State>,
    /// Signaled when there is room, or when the writing side has closed the stream.
    room: Condvar,
    /// Signaled when something has arrived.
    come: Condvar,
}

/// A table whose rows are loaded while another server sends them.
#[derive(Debug)]
pub struct StreamedTable {
    /// The database that it belongs to on the source.
    pub database: String,
    /// Name without the database.
    pub table: String,
    /// The source server's estimate of the size of its rows in bytes.
    pub bytes: u64,
    /// The source server's estimate of its number of rows.
    pub rows: u64,
    /// The text format of its rows.
    pub form: DelimitedFile,
    /// Whether its rows are sent; otherwise only its definition is copied.
    pub data: bool,
}

impl StreamedTable {
    /// `database.table`, for messages.
    pub fn label(&self) -> String {
        format!("{}.{}", self.database, self.table)
    }
}

/// A message of a stream.
#[derive(Debug)]
pub enum Arrival {
    /// Whole rows of a table.
    Rows {
        /// Index of the table.
        table: usize,
        /// The encoded rows.
        text: Vec<u8>,
        /// How many rows the text has.
        rows: u64,
    },
    /// All rows of a table have been sent.
    TableEnd {
        /// Index of the table.
        table: usize,
        /// Number of rows sent.
        rows: u64,
    },
    /// All tables are complete, and nothing changed while they were read.
    End,
    /// The stream ended early.
    Broken,
}

/// The error of a push after the writing side has closed the stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Closed;

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arrival>,
    bytes: usize,
    /// The reading side has finished, successfully or not.
    ended: bool,
    /// The writing side is gone.
    closed: bool,
}

impl RowStream {
    /// An empty stream.
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

    /// Pushes rows of a table; blocks until there is room.
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

    /// Announces that all rows of a table have been pushed.
    pub fn table_end(&self, table: usize, rows: u64) {
        let mut state = self.state();
        state.waiting.push_back(Arrival::TableEnd { table, rows });
        self.come.notify_one();
    }

    /// Ends the reading side. `whole` says whether everything was read and nothing changed.
    pub fn end(&self, whole: bool) {
        let mut state = self.state();
        if !state.ended {
            state.ended = true;
            let last = if whole { Arrival::End } else { Arrival::Broken };
            state.waiting.push_back(last);
        }
        self.come.notify_all();
    }

    /// Closes the writing side: waiting messages are dropped, and pushing rows fails.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
        state.bytes = 0;
        self.room.notify_all();
    }

    /// The next message; `None` if none arrived within `patience`.
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
                Arrival::TableEnd { rows: reported, .. } => assert_eq!(reported, rows),
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
