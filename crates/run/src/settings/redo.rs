//! Resizes MariaDB's redo log without waiting for its clock.
//!
//! From 10.9 on, `SET GLOBAL innodb_log_file_size` returns once a checkpoint past the start of the
//! new file has been written. An idle server writes one every second or so, and only if something
//! was changed: the statement takes two seconds, whatever the sizes (10.11.19, 11.8.6). A second
//! session that changes something and requests the checkpoint lets it return in 0.04 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use refloat_wire::{Connection, Error, ShutdownHandle};

use super::{SettingsError, journal};
use crate::RunId;

/// Size of MariaDB's log, and of each log file of older MySQL.
pub(super) const LOG_FILE_SIZE: &str = "innodb_log_file_size";
/// Requests a checkpoint. Release builds have it since 10.11; before, only debug builds had it.
pub(super) const CHECKPOINT_NOW: &str = "innodb_log_checkpoint_now";
/// Interval between two requests. The first one comes this long after the statement, which must be
/// running by then.
const AGAIN: Duration = Duration::from_millis(20);
/// How long the second session may take to end by itself.
const ENDING: Duration = Duration::from_millis(500);

/// Ends the second session, even if this thread panics.
struct Ending<'a> {
    done: &'a AtomicBool,
    hang_up: ShutdownHandle,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.hang_up.shutdown();
    }
}

/// Runs the statement that resizes the log, and requests checkpoints until it returns.
pub(super) fn resize(
    conn: &mut Connection,
    run: &RunId,
    statement: &str,
) -> Result<(), SettingsError> {
    // Whatever prevents the second session (no more connections, say) only makes the resize slower.
    let Ok(mut helper) = conn.reconnect() else {
        conn.exec(statement)?;
        return Ok(());
    };
    let done = AtomicBool::new(false);
    let (ended, has_ended) = mpsc::channel();
    let session = helper.server().connection_id;
    std::thread::scope(|scope| {
        let ending = Ending {
            done: &done,
            hang_up: helper.shutdown_handle(),
        };
        scope.spawn(|| {
            // An error here does not concern the resize.
            drop(help(&mut helper, run, &done));
            helper.close();
            let _ = ended.send(());
        });
        let result = conn.exec(statement);
        done.store(true, Ordering::Release);
        if has_ended.recv_timeout(ENDING).is_err() && !conn.is_closed() {
            drop(conn.exec(format!("KILL {session}")));
        }
        drop(ending);
        result
    })?;
    Ok(())
}

/// Requests checkpoints until `done`.
fn help(helper: &mut Connection, run: &RunId, done: &AtomicBool) -> Result<(), Error> {
    loop {
        let before = lsn(helper)?;
        std::thread::sleep(AGAIN);
        if done.load(Ordering::Acquire) {
            return Ok(());
        }
        // While others write, checkpoints come by themselves, and the request would not return
        // before they stop.
        if lsn(helper)? != before {
            continue;
        }
        // Without a row of ours to change, the log position stays where it is, and the server takes
        // its time.
        drop(journal::touch(helper, run));
        helper.exec(format!("SET GLOBAL {CHECKPOINT_NOW} = ON"))?;
    }
}

fn lsn(conn: &mut Connection) -> Result<Option<u64>, Error> {
    Ok(conn
        .query("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")?
        .u64(0, 1))
}
