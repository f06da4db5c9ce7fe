//! Ties a connection's statement to its run: cancelling the run ends it.

use std::sync::mpsc;
use std::time::Duration;

use refloat_wire::Connection;

use crate::Cancel;
use crate::cancel::HookGuard;

/// How long a connection waits for its statement to be killed before it is closed: Ctrl-C must work
/// within two seconds.
const KILL_WAIT: Duration = Duration::from_millis(1200);

/// When `cancel` fires, kills the statement that the connection is running, and closes the
/// connection.
pub fn kill_on_cancel(cancel: &Cancel, conn: &Connection) -> HookGuard {
    let killer = conn.killer();
    let shutdown = conn.shutdown_handle();
    cancel.on_cancel(move || {
        // Connections are ended in parallel: each of them may have a server that does not answer.
        std::thread::spawn(move || {
            let (sender, done) = mpsc::channel();
            std::thread::spawn(move || {
                let _ = killer.kill_query();
                let _ = sender.send(());
            });
            // The query ends on the server first, so that its rollback has begun when the
            // connection closes.
            let _ = done.recv_timeout(KILL_WAIT);
            shutdown.shutdown();
        });
    })
}
