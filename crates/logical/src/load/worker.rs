//! Workers: one thread and one connection each, writing chunks and running tasks.

mod bulk;
mod diagnose;
mod empty_enum;
mod load_data;
mod text;

pub use bulk::PACKET_TARGET;
pub use diagnose::head;

use std::sync::Arc;
use std::time::{Duration, Instant};

use refloat_sqltext::InsertVerb;
use refloat_wire::{BulkPacket, Connection, RetryStatus, Vendor};

use refloat_store::InputError;

use super::chunk::{Chunk, Piece};
use super::context::Context;
use super::error::LoadError;
use super::options::{OnError, WritePath};
use super::queue::{Queue, Work};
use super::session::Session;

/// How often a chunk is tried again after a deadlock or a lock wait.
const RETRIES_MAX: u32 = 20;
/// Wait before the first retry; it doubles up to [`RETRY_WAIT_MAX`].
const RETRY_WAIT: Duration = Duration::from_millis(20);
/// Longest wait before a retry.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);

/// One connection of the load and what belongs to it.
pub struct Worker {
    /// The connection.
    pub conn: Connection,
    /// What all workers share.
    pub ctx: Arc<Context>,
    session: Option<Arc<Session>>,
    prepared: Option<bulk::Prepared>,
    packet: Option<BulkPacket>,
    text: Vec<u8>,
    /// Row text read from the dump's file.
    buffer: Vec<u8>,
}

/// Rows that an attempt has written.
#[derive(Debug, Default, Clone, Copy)]
pub struct Written {
    /// Rows stored.
    pub rows: u64,
    /// Rows that `INSERT IGNORE` left out.
    pub ignored: u64,
}

impl Written {
    /// Adds what another statement has written.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.ignored += other.ignored;
    }
}

/// Why an attempt failed.
pub enum Attempt {
    /// The server or the connection failed.
    Wire(refloat_wire::Error),
    /// The server took the rows but not as they were: rows skipped or warnings given. Nothing is committed.
    NotExact(String),
    /// The dump's file could not be read again.
    Source {
        /// Byte of the dump.
        offset: u64,
        /// What the system said.
        source: std::io::Error,
    },
    /// A row is larger than a packet may be.
    RowTooLarge {
        /// Byte of the dump where its piece begins.
        offset: u64,
        /// Line of the dump.
        line: u64,
        /// Bytes needed.
        size: usize,
    },
}

impl From<refloat_wire::Error> for Attempt {
    fn from(error: refloat_wire::Error) -> Self {
        Self::Wire(error)
    }
}

/// Connects a worker and takes work until the queue ends.
pub fn run(ctx: &Arc<Context>, queue: &Queue) {
    let mut worker = match Worker::connect(ctx) {
        Ok(worker) => worker,
        Err(error) => return queue.fail(error),
    };
    let _kill = ctx.kill_on_cancel(&worker.conn);
    loop {
        let waiting = Instant::now();
        let Some(work) = queue.next() else { break };
        ctx.note_source_wait(waiting);
        // What is finished with an error is still finished: the queue must not wait for it.
        match work {
            Work::Chunk(chunk) => {
                report(ctx, queue, worker.write(&chunk));
                let (key, held) = (chunk.table.id, chunk.held);
                drop(chunk);
                queue.finish_chunk(key, held);
            }
            Work::Task(task) => {
                report(ctx, queue, (task.job)(&mut worker));
                queue.finish_task(task.key, task.sorts);
            }
        }
    }
}

fn report(ctx: &Context, queue: &Queue, result: Result<(), LoadError>) {
    if let Err(error) = result {
        queue.fail(if ctx.cancel.is_cancelled() {
            ctx.interrupted()
        } else {
            error
        });
    }
}

impl Worker {
    /// A worker with a connection of its own.
    pub fn connect(ctx: &Arc<Context>) -> Result<Self, LoadError> {
        let mut conn = ctx.connect("a writer")?;
        if conn.server().vendor == Vendor::MySql {
            // Measuring every page access of this one session costs the server more than reading the rows does; an account
            // that may not switch it off loses nothing else.
            let _ = conn.exec("UPDATE performance_schema.threads SET INSTRUMENTED = 'NO', HISTORY = 'NO' WHERE PROCESSLIST_ID = CONNECTION_ID()");
        }
        Ok(Self {
            conn,
            ctx: Arc::clone(ctx),
            session: None,
            prepared: None,
            packet: None,
            text: Vec::new(),
            buffer: Vec::new(),
        })
    }

    /// Gives the connection the dump's session state at these rows, with the strictness of a writer.
    fn enter(&mut self, session: &Arc<Session>) -> Result<(), refloat_wire::Error> {
        if self
            .session
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, session) || **current == **session)
        {
            return Ok(());
        }
        self.conn.exec(session.writer_set())?;
        // The server's own check of secondary unique keys may be put off with unique_checks=0, and then lets duplicates in.
        self.conn.exec("SET SESSION unique_checks = 1")?;
        if let Some(database) = &session.database {
            self.conn
                .exec(format!("USE {}", refloat_sqltext::quote_ident(database)))?;
        }
        self.session = Some(Arc::clone(session));
        self.prepared = None;
        Ok(())
    }

    /// Forgets the session state, after a task changed it.
    pub fn leave_session(&mut self) {
        self.session = None;
    }

    /// Writes a chunk in one transaction, again after a deadlock, and accounts for it once it is committed.
    fn write(&mut self, chunk: &Chunk) -> Result<(), LoadError> {
        let mut wait = RETRY_WAIT;
        let mut tries = 0;
        let started = Instant::now();
        let path = self.ctx.path_for(chunk);
        // An error here says nothing about the rows, so it must not start a search for a refused one.
        if let Err(error) = self.enter(&chunk.session) {
            if self.ctx.cancel.is_cancelled() {
                return Err(self.ctx.interrupted());
            }
            return Err(LoadError::server(
                format!(
                    "preparing the session for the rows of table {}",
                    chunk.table.label()
                ),
                error,
            ));
        }
        loop {
            match self.attempt(chunk, path) {
                Ok(written) => {
                    self.account(chunk, path, written, started);
                    return Ok(());
                }
                Err(_) if self.ctx.cancel.is_cancelled() => return Err(self.ctx.interrupted()),
                Err(Attempt::Wire(error))
                    if matches!(error.retry(), RetryStatus::SameConnection)
                        && tries < RETRIES_MAX =>
                {
                    self.rollback(chunk)?;
                    tries += 1;
                    self.ctx.note_retry();
                    self.ctx.cancel.sleep(wait);
                    wait = (wait * 2).min(RETRY_WAIT_MAX);
                }
                Err(Attempt::Wire(error))
                    if error.server_code().is_none() || error.is_lost_connection() =>
                {
                    return Err(LoadError::server(
                        format!("writing rows of table {}", chunk.table.label()),
                        error,
                    ));
                }
                Err(Attempt::RowTooLarge { offset, line, size }) => {
                    self.rollback(chunk)?;
                    return Err(LoadError::RowTooLarge {
                        file: self.ctx.source.clone(),
                        line,
                        offset,
                        table: chunk.table.label(),
                        size,
                        limit: self.conn.max_allowed_packet(),
                    });
                }
                // A statement may be in the middle of its data: the connection ends with this worker, and with it the rows.
                Err(Attempt::Source { offset, source }) => {
                    return Err(self.source_error(offset, source));
                }
                Err(failed @ (Attempt::Wire(_) | Attempt::NotExact(_))) => {
                    self.rollback(chunk)?;
                    return self.diagnose(chunk, &failed, started);
                }
            }
        }
    }

    fn attempt(&mut self, chunk: &Chunk, path: WritePath) -> Result<Written, Attempt> {
        self.conn.exec("START TRANSACTION")?;
        let written = match path {
            WritePath::Bulk => self.write_bulk(chunk)?,
            WritePath::LoadData => self.write_load_data(chunk)?,
            WritePath::Insert | WritePath::Auto => self.write_text(chunk)?,
        };
        if chunk.header.verb == InsertVerb::Insert && written.rows != chunk.rows {
            return Err(Attempt::NotExact(format!(
                "{} rows were sent and {} stored",
                chunk.rows, written.rows
            )));
        }
        self.conn.exec("COMMIT")?;
        Ok(written)
    }

    fn source_error(&self, at: u64, source: std::io::Error) -> LoadError {
        LoadError::Input(InputError::Read {
            name: self.ctx.source.clone(),
            at,
            source,
        })
    }

    /// The text of a piece, in a buffer that goes back to [`Worker::buffer`] when it is done with.
    fn read_piece<'a>(piece: &'a Piece, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Attempt> {
        piece.text(buffer).map_err(|source| Attempt::Source {
            offset: piece.offset,
            source,
        })
    }

    fn rollback(&mut self, chunk: &Chunk) -> Result<(), LoadError> {
        self.conn.exec("ROLLBACK").map(drop).map_err(|error| {
            LoadError::server(
                format!("rolling back rows of table {}", chunk.table.label()),
                error,
            )
        })
    }

    fn account(&self, chunk: &Chunk, path: WritePath, written: Written, started: Instant) {
        chunk
            .table
            .committed(written.rows, chunk.bytes as u64, written.ignored);
        self.ctx.note_chunk(path, written.rows, chunk.bytes as u64);
        if path == self.ctx.write_path
            && let Some(size) = self
                .ctx
                .chunk_size
                .finished(chunk.bytes, started.elapsed().as_secs_f64())
        {
            self.ctx.note_chunk_size(size);
        }
    }

    /// Whether refused rows are left out instead of ending the load.
    fn goes_on(&self) -> bool {
        self.ctx.options.on_error == OnError::Continue
    }
}
