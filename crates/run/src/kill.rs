//! A connection whose statement ends with the run.

use std::sync::mpsc;
use std::time::Duration;

use refloat_wire::Connection;

use crate::Cancel;
use crate::cancel::HookGuard;

/// How long a connection that is to end waits for its statement to be killed: Ctrl-C works within two seconds.
const KILL_WAIT: Duration = Duration::from_millis(1200);

/// Kills what the connection is doing when `cancel` is, and closes it.
pub fn kill_on_cancel(cancel: &Cancel, conn: &Connection) -> HookGuard {
    let killer = conn.killer();
    let shutdown = conn.shutdown_handle();
    cancel.on_cancel(move || {
        // Connections are ended side by side: each of them may have a server that does not answer.
        std::thread::spawn(move || {
            let (sender, done) = mpsc::channel();
            std::thread::spawn(move || {
                let _ = killer.kill_query();
                let _ = sender.send(());
            });
            // The query ends on the server first, so that its rollback has begun when the connection goes.
            let _ = done.recv_timeout(KILL_WAIT);
            shutdown.shutdown();
        });
    })
}
