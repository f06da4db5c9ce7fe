//! Handles a connection that was lost in the middle of a chunk.
//!
//! The chunk may have been committed although the answer never arrived. Its mark decides: it is
//! there together with the rows, or not at all.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use refloat_wire::Error;

use super::{Worker, Written};
use crate::chunk::Chunk;
use crate::error::LoadError;

/// How long to wait for a server that cannot be reached.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for one that refuses connections: it has shut down, and after a restart the load does
/// not continue by itself.
const PATIENCE_REFUSED: Duration = Duration::from_secs(3);
/// Wait before the first attempt; doubles up to [`WAIT_MAX`].
const WAIT: Duration = Duration::from_millis(100);
/// Longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// `ER_CON_COUNT_ERROR`.
const TOO_MANY_CONNECTIONS: u16 = 1040;

/// The outcome of a chunk whose connection was lost.
pub struct Done {
    /// Rows that are committed.
    pub written: Written,
    /// Rows that the server refused.
    pub refused: u64,
}

impl Worker {
    /// Connects again; returns what is committed of the chunk, if it was.
    pub(super) fn reconnect(
        &mut self,
        chunk: &Chunk,
        lost: Error,
    ) -> Result<Option<Done>, LoadError> {
        let ctx = std::sync::Arc::clone(&self.link.ctx);
        let label = chunk.table.label();
        ctx.events.warn(format!(
            "a connection was lost while it wrote rows of table {label} ({lost}): connecting again"
        ));
        let since = Instant::now();
        let mut wait = WAIT;
        loop {
            ctx.cancel.sleep(wait);
            if ctx.cancel.is_cancelled() {
                return Err(ctx.interrupted());
            }
            let error = match self.again(chunk) {
                Ok(done) => {
                    ctx.note_retry();
                    return Ok(done);
                }
                Err(error) => error,
            };
            let patience = match &error {
                LoadError::Server { source, .. } => patience_with(source),
                _ => None,
            };
            let Some(patience) = patience else {
                return Err(error);
            };
            if since.elapsed() >= patience {
                return Err(LoadError::server(
                    format!("writing rows of table {label}"),
                    lost,
                ));
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    fn again(&mut self, chunk: &Chunk) -> Result<Option<Done>, LoadError> {
        let failed = |error| LoadError::server("connecting again", error);
        self.kill = None;
        self.link.reopen()?;
        let ctx = std::sync::Arc::clone(&self.link.ctx);
        self.kill = Some(ctx.kill_on_cancel(&self.link.conn));
        ctx.expect_no_restart(&mut self.link.conn)?;
        let committed = match &ctx.marks {
            Some(marks) => marks
                .committed(&mut self.link.conn, &marks.stretches(&chunk.pieces))
                .map_err(failed)?,
            None => None,
        };
        self.link.enter(&chunk.session).map_err(failed)?;
        Ok(committed.map(|(written, refused)| Done { written, refused }))
    }
}

/// How long it is worth waiting after an error; `None` if waiting does not help.
fn patience_with(error: &Error) -> Option<Duration> {
    if let Error::Io { source, .. } = error
        && matches!(
            source.kind(),
            ErrorKind::ConnectionRefused | ErrorKind::NotFound
        )
    {
        return Some(PATIENCE_REFUSED);
    }
    let waits = error.is_lost_connection() || error.server_code() == Some(TOO_MANY_CONNECTIONS);
    waits.then_some(PATIENCE)
}
