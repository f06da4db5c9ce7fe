//! A worker: the connection of one thread, and how it writes chunks over SQL.

mod commit;
mod diagnose;
mod first_rows;
mod reconnect;

use std::sync::Arc;
use std::time::Instant;

use refloat_run::cancel::HookGuard;
use refloat_sqltext::InsertVerb;
use refloat_store::InputError;

use super::chunk::Chunk;
use super::context::Context;
use super::error::LoadError;
use super::link::Link;
use super::marks::Stretch;
use super::options::{OnError, WritePath};
use super::patience::Patience;
use super::writer::{Attempt, Writers, Written};
use commit::Uncommitted;
use first_rows::{First, ReadBack};

/// A connection that writes chunks and runs tasks, with what it keeps between them.
pub struct Worker {
    /// The connection.
    pub link: Link,
    writers: Writers,
    /// Kills the connection's current statement when the run is cancelled.
    kill: Option<HookGuard>,
}

/// The error for a file of the dump that could not be read again.
pub fn source_error(name: String, at: u64, source: std::io::Error) -> LoadError {
    LoadError::Input(InputError::Read { name, at, source })
}

/// An error if not all rows of an `INSERT` were stored.
fn is_exact(chunk: &Chunk, written: Written) -> Result<(), Attempt> {
    if chunk.header.verb == InsertVerb::Insert && written.rows != chunk.rows {
        let words = format!("{} rows were sent and {} stored", chunk.rows, written.rows);
        return Err(Attempt::NotExact(words));
    }
    Ok(())
}

impl Worker {
    /// Opens its own connection, and lets a cancelled load end what runs on it.
    pub fn connect(ctx: &Arc<Context>) -> Result<Self, LoadError> {
        let link = Link::connect(ctx)?;
        Ok(Self {
            kill: Some(ctx.kill_on_cancel(&link.conn)),
            link,
            writers: Writers::default(),
        })
    }

    /// Writes a chunk. The first rows of a table or of a session are cut off as a chunk of their
    /// own, because all rows of a first chunk are compared with the dump.
    pub fn write(&mut self, chunk: &Chunk) -> Result<(), LoadError> {
        self.enter(chunk)?;
        let path = self.path_of(chunk)?;
        match self.cut_first(chunk, path)? {
            Some([first, rest]) => {
                self.write_together(&first, chunk, path)?;
                self.write_together(&rest, &rest, path)
            }
            None => self.write_together(chunk, chunk, path),
        }
    }

    /// The path to write a chunk by.
    fn path_of(&mut self, chunk: &Chunk) -> Result<WritePath, LoadError> {
        let ctx = Arc::clone(&self.link.ctx);
        let path = ctx.path_for(chunk);
        if path != WritePath::Bulk || chunk.table.is_transactional() {
            return Ok(path);
        }
        // `ER_BINLOG_NON_SUPPORTED_BULK`: what cannot be rolled back would have to be logged as a
        // statement.
        let format = ctx.binlog_format(&mut self.link.conn).map_err(|error| {
            if ctx.cancel.is_cancelled() {
                return ctx.interrupted();
            }
            let doing = format!("preparing to write rows of table {}", chunk.table.label());
            LoadError::server(doing, error)
        })?;
        Ok(if format == "STATEMENT" {
            WritePath::Insert
        } else {
            path
        })
    }

    /// Writes a chunk in one transaction, retries after a deadlock, and accounts for it once
    /// committed. If its rows are first ones, a sample is taken from `sampled`, which may go on
    /// after them.
    fn write_together(
        &mut self,
        chunk: &Chunk,
        sampled: &Chunk,
        path: WritePath,
    ) -> Result<(), LoadError> {
        let mut patience = Patience::default();
        let started = Instant::now();
        let transactional = chunk.table.is_transactional();
        self.enter(chunk)?;
        let mut gone = false;
        loop {
            let failed = match self.attempt(chunk, sampled, path) {
                Ok((path, written)) => {
                    self.account(chunk, path, written, started);
                    return Ok(());
                }
                Err(Uncommitted::Attempt(Attempt::Otherwise(error))) => return Err(*error),
                Err(Uncommitted::Interrupted) => return Err(self.link.ctx.interrupted()),
                Err(_) if self.link.ctx.cancel.is_cancelled() => {
                    return Err(self.link.ctx.interrupted());
                }
                Err(Uncommitted::Vanished) => {
                    self.vanished(chunk, &mut patience)?;
                    gone = true;
                    continue;
                }
                Err(Uncommitted::Attempt(failed)) => failed,
            };
            let done = match failed {
                // Without transactions, rows that were written cannot be rolled back, so they must
                // not be written again.
                Attempt::Wire(error) if transactional && patience.may_retry(&error) => {
                    self.link.rollback(chunk)?;
                    self.link.ctx.note_retry();
                    patience.wait(&self.link.ctx);
                    None
                }
                Attempt::Wire(error)
                    if transactional && error.is_lost_connection() && self.has_marks() =>
                {
                    self.reconnect(chunk, error)?
                }
                Attempt::Wire(error)
                    if error.server_code().is_none() || error.is_lost_connection() =>
                {
                    return Err(LoadError::server(
                        format!("writing rows of table {}", chunk.table.label()),
                        error,
                    ));
                }
                // A statement may be in the middle of its data: the connection ends with this
                // worker, and its rows are rolled back.
                Attempt::Source {
                    file,
                    offset,
                    source,
                } => {
                    return Err(source_error(file, offset, source));
                }
                failed => {
                    self.link.rollback(chunk)?;
                    match self.there_after_all(chunk, gone)? {
                        None => return self.diagnose(chunk, &failed, started),
                        done => done,
                    }
                }
            };
            if let Some(done) = done {
                chunk.table.note_refused(done.refused);
                self.account(chunk, path, done.written, started);
                return Ok(());
            }
        }
    }

    /// Gives the connection the session of a chunk, on a new connection if the old one was lost.
    ///
    /// An error here says nothing about the rows, so it must not start a search for a refused one.
    fn enter(&mut self, chunk: &Chunk) -> Result<(), LoadError> {
        match self.link.enter(&chunk.session) {
            Ok(()) => Ok(()),
            Err(_) if self.link.ctx.cancel.is_cancelled() => Err(self.link.ctx.interrupted()),
            // No row of the chunk has been sent yet, so it cannot have been committed.
            Err(error) if error.is_lost_connection() && self.has_marks() => {
                self.reconnect(chunk, error).map(drop)
            }
            Err(error) => Err(LoadError::server(
                format!(
                    "preparing the session for the rows of table {}",
                    chunk.table.label()
                ),
                error,
            )),
        }
    }

    fn attempt(
        &mut self,
        chunk: &Chunk,
        sampled: &Chunk,
        path: WritePath,
    ) -> Result<(WritePath, Written), Uncommitted> {
        let (path, first) = self.proven_path(chunk, sampled, path)?;
        let mut back = match first {
            Some(first) => self.read_back(chunk, first)?,
            None => None,
        };
        let stretches = self.begin(chunk)?;
        if let Some((rows, first)) = back.take() {
            back = self.look_before(chunk, rows, first)?;
        }
        let early = if chunk.table.is_transactional() {
            None
        } else {
            self.link.write_untransacted(chunk)?
        };
        let written = match early {
            Some(written) => written,
            None => self.writers.by(path).write(&mut self.link, chunk)?,
        };
        is_exact(chunk, written)?;
        if let Some((rows, first)) = back {
            if !self.is_found(path, &rows)? {
                // Rolled back, and found to be what the dump's own text stores.
                first.examined();
                return self.attempt(chunk, sampled, path);
            }
            first.read_back();
        }
        self.correct(&stretches, written, 0)?;
        self.commit(chunk, &stretches)?;
        chunk.table.note_described();
        Ok((path, written))
    }

    /// Prepares to read a first chunk back, in the transaction that begins next; `None` if that is
    /// not possible.
    fn read_back<'a>(
        &mut self,
        chunk: &'a Chunk,
        first: First<'a>,
    ) -> Result<Option<(ReadBack<'a>, First<'a>)>, Uncommitted> {
        let Some(back) = ReadBack::of(chunk, first.shape.clone(), &mut self.link.buffer)? else {
            first.examined();
            return Ok(None);
        };
        self.link.conn.exec(ReadBack::ISOLATION)?;
        Ok(Some((back, first)))
    }

    /// Reads what is in the table before the first rows are written; `None` if they could not be
    /// told apart from it.
    fn look_before<'a>(
        &mut self,
        chunk: &Chunk,
        mut back: ReadBack<'a>,
        first: First<'a>,
    ) -> Result<Option<(ReadBack<'a>, First<'a>)>, refloat_wire::Error> {
        let apart = match back.look_before(&mut self.link.conn, first.follows_a_few()) {
            Err(error) if error.is_access_denied() => {
                let reason = "the account may not read the table (SELECT)".to_owned();
                self.link.ctx.note_not_compared(&chunk.table, reason);
                false
            }
            looked => looked?,
        };
        if apart {
            return Ok(Some((back, first)));
        }
        first.examined();
        Ok(None)
    }

    /// Starts the transaction of a chunk, with the marks of its rows.
    fn begin(&mut self, chunk: &Chunk) -> Result<Vec<Stretch>, refloat_wire::Error> {
        let Some(marks) = &self.link.ctx.marks else {
            return self.link.conn.exec("START TRANSACTION").map(|_| Vec::new());
        };
        let stretches = marks.stretches(&chunk.pieces);
        marks.open(&mut self.link.conn, &chunk.table, &stretches)?;
        Ok(stretches)
    }

    /// Corrects the marks if not all rows were stored.
    fn correct(
        &mut self,
        stretches: &[Stretch],
        written: Written,
        refused: u64,
    ) -> Result<(), refloat_wire::Error> {
        match &self.link.ctx.marks {
            Some(marks) => marks.correct(&mut self.link.conn, stretches, written, refused),
            None => Ok(()),
        }
    }

    fn has_marks(&self) -> bool {
        self.link.ctx.marks.is_some()
    }

    fn account(&self, chunk: &Chunk, path: WritePath, written: Written, started: Instant) {
        chunk
            .table
            .committed(written.rows, chunk.bytes as u64, written.ignored);
        self.link.ctx.note_chunk(path, written, chunk.bytes as u64);
        if path == self.link.ctx.write_path
            && let Some(size) = self
                .link
                .ctx
                .chunk_size
                .finished(chunk.bytes, started.elapsed().as_secs_f64())
        {
            self.link.ctx.note_chunk_size(size);
        }
    }

    /// Whether to leave out refused rows instead of ending the load.
    fn skips_refused_rows(&self) -> bool {
        self.link.ctx.options.on_error == OnError::Continue
    }
}
