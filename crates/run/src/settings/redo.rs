//! Resizing MariaDB's redo log without waiting for its clock.
//!
//! From 10.9 on `SET GLOBAL innodb_log_file_size` returns when a checkpoint behind the beginning of the new file has been written.
//! An idle server writes one every second or so, and only when something was changed: the statement takes two seconds, whatever the sizes
//! (10.11.19, 11.8.6). A second session that changes something and asks for the checkpoint lets it return in 0.04 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use refloat_wire::{Connection, Error, ShutdownHandle};

use super::{SettingsError, journal};
use crate::RunId;

/// The size of the log of MariaDB, and of one of the files of older MySQL.
pub(super) const LOG_FILE_SIZE: &str = "innodb_log_file_size";
/// Asks for a checkpoint. Every user's servers have it since 10.11; before, it was the developers'.
pub(super) const CHECKPOINT_NOW: &str = "innodb_log_checkpoint_now";
/// Between two such requests. The first one comes this long after the statement, which has to be at work by then.
const AGAIN: Duration = Duration::from_millis(20);
/// How long the second session gets to end by itself.
const ENDING: Duration = Duration::from_millis(500);

/// Ends the second session, also when this thread panics.
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

/// Runs the statement that resizes the log, and has checkpoints written until it returns.
pub(super) fn resize(
    conn: &mut Connection,
    run: &RunId,
    statement: &str,
) -> Result<(), SettingsError> {
    // Whatever hinders the second session (no more connections, say) only makes it slower.
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
            // An error here is none of the resize.
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

/// Has a checkpoint written, again and again.
fn help(helper: &mut Connection, run: &RunId, done: &AtomicBool) -> Result<(), Error> {
    loop {
        let before = lsn(helper)?;
        std::thread::sleep(AGAIN);
        if done.load(Ordering::Acquire) {
            return Ok(());
        }
        // Where others write, checkpoints come by themselves, and the request would not end before they do.
        if lsn(helper)? != before {
            continue;
        }
        // Without a row of ours to change, the log stays where it is, and the server takes its time.
        drop(journal::touch(helper, run));
        helper.exec(format!("SET GLOBAL {CHECKPOINT_NOW} = ON"))?;
    }
}

/// How far the log is written.
fn lsn(conn: &mut Connection) -> Result<Option<u64>, Error> {
    Ok(conn
        .query("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")?
        .u64(0, 1))
}
