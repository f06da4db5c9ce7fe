//! Retries after conflicts with other sessions: deadlocks and lock wait timeouts.

use std::time::Duration;

use refloat_wire::{Connection, Error, OkInfo, RetryStatus};

use super::context::Context;

/// How often a statement is retried after a deadlock or a lock wait timeout.
const RETRIES_MAX: u32 = 20;
/// Wait before the first retry; doubles up to [`RETRY_WAIT_MAX`].
const RETRY_WAIT: Duration = Duration::from_millis(20);
/// Longest wait before a retry.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);

/// Number of retries so far, and the next wait.
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
    /// Whether the error comes from a conflict with another transaction (a deadlock, a lock wait
    /// timeout) and there are retries left.
    pub fn may_retry(&self, error: &Error) -> bool {
        matches!(error.retry(), RetryStatus::SameConnection) && self.tries < RETRIES_MAX
    }

    /// Number of retries so far.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    pub fn wait(&mut self, ctx: &Context) {
        self.tries += 1;
        ctx.cancel.sleep(self.wait);
        self.wait = (self.wait * 2).min(RETRY_WAIT_MAX);
    }
}

/// Changes a definition, and retries after a conflict with another session that changes one: a
/// deadlock in the server's own catalogue undoes the whole statement.
pub fn alter(conn: &mut Connection, ctx: &Context, statement: &str) -> Result<OkInfo, Error> {
    let mut patience = Patience::default();
    loop {
        let _stall = ctx.cluster.as_ref().map(|cluster| cluster.stall(statement));
        match conn.exec(statement) {
            Err(error) if patience.may_retry(&error) && !ctx.cancel.is_cancelled() => {
                ctx.events
                    .note(format!("{error}; trying again: {statement}"));
                patience.wait(ctx);
            }
            other => return other,
        }
    }
}
