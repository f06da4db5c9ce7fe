//! Trying again what met somebody else: deadlocks and lock waits.

use std::time::Duration;

use refloat_wire::{Connection, Error, OkInfo, RetryStatus};

use super::context::Context;

/// How often something is tried again after a deadlock or a lock wait.
const RETRIES_MAX: u32 = 20;
/// Wait before the first retry; it doubles up to [`RETRY_WAIT_MAX`].
const RETRY_WAIT: Duration = Duration::from_millis(20);
/// Longest wait before a retry.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);

/// How often something was tried again, and how long the next wait is.
pub struct Patience {
    tries: u32,
    wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 0,
            wait: RETRY_WAIT,
        }
    }
}

impl Patience {
    /// Whether the error is one of two transactions that met (a deadlock, a lock wait), and was not met too often.
    pub fn may_retry(&self, error: &Error) -> bool {
        matches!(error.retry(), RetryStatus::SameConnection) && self.tries < RETRIES_MAX
    }

    /// How often it was tried again.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    pub fn wait(&mut self, ctx: &Context) {
        self.tries += 1;
        ctx.cancel.sleep(self.wait);
        self.wait = (self.wait * 2).min(RETRY_WAIT_MAX);
    }
}

/// Changes a definition, and does it again when it met another session that changed one: a deadlock of the server's own catalogue
/// undoes the whole statement.
pub fn alter(conn: &mut Connection, ctx: &Context, statement: &str) -> Result<OkInfo, Error> {
    let mut patience = Patience::default();
    loop {
        let _stall = ctx.cluster.as_ref().map(|cluster| cluster.stall(statement));
        match conn.exec(statement) {
            Err(error) if patience.may_retry(&error) && !ctx.cancel.is_cancelled() => {
                ctx.events
                    .note(format!("{error}: it is tried again: {statement}"));
                patience.wait(ctx);
            }
            other => return other,
        }
    }
}
