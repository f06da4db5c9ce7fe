//! Commits a chunk, and checks that it is really committed.

use std::time::Duration;

use refloat_wire::Error;

use super::Worker;
use super::reconnect::Done;
use crate::chunk::Chunk;
use crate::error::LoadError;
use crate::marks::Stretch;
use crate::patience::Patience;
use crate::writer::Attempt;

/// How long a commit may take after Ctrl-C.
const COMMIT_WAIT: Duration = Duration::from_secs(1);
/// How often rows that are missing after their commit are written again.
const VANISHED_MAX: u32 = 5;

/// Why rows are not committed.
pub enum Uncommitted {
    /// Ctrl-C came first.
    Interrupted,
    /// They could not be written, or the connection failed.
    Attempt(Attempt),
    /// The server reported them as committed, but they are not there.
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
    /// A commit that is killed may have succeeded even if it reports an error, and the summary
    /// would then not count its rows. So after Ctrl-C a running commit is given a moment, and none
    /// is started.
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

    /// Checks that rows which the server reported as committed are there.
    ///
    /// The server's own answer can be trusted, but not always that of something in between. A node
    /// of a Galera cluster (10.11.19) has acknowledged a thousand rows that were on no node
    /// afterwards, and proxies replay transactions. The mark of the rows is in their transaction:
    /// without it they are not there. Writing them again cannot duplicate them, because their
    /// mark's key would be taken if it was there after all.
    fn look(&mut self, chunk: &Chunk, stretches: &[Stretch]) -> Result<(), Uncommitted> {
        let Some(marks) = &self.link.ctx.marks else {
            return Ok(());
        };
        // Without transactions, the mark was there before the commit.
        if stretches.is_empty() || !chunk.table.is_transactional() {
            return Ok(());
        }
        match marks.committed(&mut self.link.conn, stretches) {
            Ok(None) => Err(Uncommitted::Vanished),
            // Reconnecting repeats this check.
            Err(error) if error.is_lost_connection() && !self.link.ctx.cancel.is_cancelled() => {
                Err(error.into())
            }
            // If the check fails, the server's answer stands.
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// Reports that rows have vanished, and waits before they are written again; an error if that
    /// has happened too often.
    pub(super) fn vanished(&self, chunk: &Chunk, patience: &mut Patience) -> Result<(), LoadError> {
        let table = chunk.table.label();
        if patience.tries() >= VANISHED_MAX {
            return Err(LoadError::CommitLost { table });
        }
        let rows = chunk.rows;
        self.link.ctx.events.warn(format!(
            "the server reported {rows} rows of table {table} as committed, but they are missing: \
            writing them again"
        ));
        self.link.ctx.note_retry();
        patience.wait(&self.link.ctx);
        Ok(())
    }

    /// What is committed of a chunk that had vanished (`gone`) and could not be written again: if
    /// its own mark was in the way, the check had been wrong.
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
