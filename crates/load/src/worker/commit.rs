//! Committing a chunk, and looking whether what was committed is there.

use std::time::Duration;

use refloat_wire::Error;

use super::Worker;
use super::reconnect::Done;
use crate::chunk::Chunk;
use crate::error::LoadError;
use crate::marks::Stretch;
use crate::patience::Patience;
use crate::writer::Attempt;

/// Time that a commit gets to end after Ctrl-C.
const COMMIT_WAIT: Duration = Duration::from_secs(1);
/// How often rows are written again that were not there after their commit.
const VANISHED_MAX: u32 = 5;

/// Why rows are not committed.
pub enum Uncommitted {
    /// Ctrl-C came first.
    Interrupted,
    /// They could not be written, or the connection failed.
    Attempt(Attempt),
    /// The server said that they are committed, and they are not there.
    Vanished,
}

impl From<Attempt> for Uncommitted {
    fn from(failed: Attempt) -> Self {
        Self::Attempt(failed)
    }
}

impl From<Error> for Uncommitted {
    fn from(error: Error) -> Self {
        Self::Attempt(error.into())
    }
}

impl Worker {
    /// Commits, and looks for the marks of these stretches.
    ///
    /// A commit that is killed may be done although it says that it failed, and the summary would not count its rows: so Ctrl-C gives
    /// it a moment, and lets none begin.
    pub(super) fn commit(
        &mut self,
        chunk: &Chunk,
        stretches: &[Stretch],
    ) -> Result<(), Uncommitted> {
        let cancel = self.link.ctx.cancel.clone();
        let shutdown = self.link.conn.shutdown_handle();
        let late = cancel.on_cancel(move || {
            std::thread::spawn(move || {
                std::thread::sleep(COMMIT_WAIT);
                shutdown.shutdown();
            });
        });
        self.kill = None;
        let done = if cancel.is_cancelled() {
            Err(Uncommitted::Interrupted)
        } else {
            self.link
                .conn
                .exec("COMMIT")
                .map_err(Uncommitted::from)
                .and_then(|_| self.look(chunk, stretches))
        };
        drop(late);
        self.kill = Some(self.link.ctx.kill_on_cancel(&self.link.conn));
        done
    }

    /// Whether rows are there that the server said were committed.
    ///
    /// A server's word is enough; what stands between may not be. A node of a Galera cluster (10.11.19) has said so of a thousand rows
    /// that were on no node afterwards, and proxies play transactions again. The mark of the rows is in their transaction: without it
    /// they are not there, and writing them again cannot double them, because its key is taken if it is there after all.
    fn look(&mut self, chunk: &Chunk, stretches: &[Stretch]) -> Result<(), Uncommitted> {
        let Some(marks) = &self.link.ctx.marks else {
            return Ok(());
        };
        // Where the engine has no transactions the mark has long been there.
        if stretches.is_empty() || !chunk.table.is_transactional() {
            return Ok(());
        }
        match marks.committed(&mut self.link.conn, stretches) {
            Ok(None) => Err(Uncommitted::Vanished),
            // Connecting again comes with a look of its own.
            Err(error) if error.is_lost_connection() && !self.link.ctx.cancel.is_cancelled() => {
                Err(error.into())
            }
            // Where nothing could be seen, the server's word stands.
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// Says that rows have vanished, and waits before they are written again; an error when that has happened too often.
    pub(super) fn vanished(&self, chunk: &Chunk, patience: &mut Patience) -> Result<(), LoadError> {
        let table = chunk.table.label();
        if patience.tries() >= VANISHED_MAX {
            return Err(LoadError::CommitLost { table });
        }
        let rows = chunk.rows;
        self.link.ctx.events.warn(format!(
            "the server said that {rows} rows of table {table} are committed, and they are not there: they are written again"
        ));
        self.link.ctx.note_retry();
        patience.wait(&self.link.ctx);
        Ok(())
    }

    /// What is in of a chunk that had vanished (`gone`) and could not be written again: where its own mark was in the way, the look was
    /// wrong.
    pub(super) fn there_after_all(
        &mut self,
        chunk: &Chunk,
        gone: bool,
    ) -> Result<Option<Done>, LoadError> {
        let Some(marks) = self.link.ctx.marks.as_ref().filter(|_| gone) else {
            return Ok(None);
        };
        let committed = marks.committed(&mut self.link.conn, &marks.stretches(&chunk.pieces));
        let done = committed.map_err(|error| {
            let doing = format!("looking for rows of table {}", chunk.table.label());
            LoadError::server(doing, error)
        })?;
        Ok(done.map(|(written, refused)| Done { written, refused }))
    }
}
