//! Resizing MariaDB's redo log without waiting for its clock.
//!
//! From 10.9 on `SET GLOBAL innodb_log_file_size` returns when a checkpoint behind the beginning of the new file has been written.
//! An idle server writes one every second or so, and only when something was changed: the statement takes two seconds, whatever the sizes
//! (10.11.19, 11.8.6). A second session that changes something and asks for the checkpoint lets it return in 0.04 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use refloat_wire::Connection;

use super::{SettingsError, journal};

/// The size of the log of MariaDB, and of one of the files of older MySQL.
pub(super) const LOG_FILE_SIZE: &str = "innodb_log_file_size";
/// Asks for a checkpoint. Every user's servers have it since 10.11; before, it was the developers'.
pub(super) const CHECKPOINT_NOW: &str = "innodb_log_checkpoint_now";
/// Between two such requests. The first one comes this long after the statement, which has to be at work by then.
const AGAIN: Duration = Duration::from_millis(20);

/// Runs the statement that resizes the log, and has checkpoints written until it returns.
pub(super) fn resize(conn: &mut Connection, statement: &str) -> Result<(), SettingsError> {
    // Whatever hinders the second session (no more connections, say) only makes it slower.
    let Ok(mut helper) = conn.reconnect() else {
        conn.exec(statement)?;
        return Ok(());
    };
    let hang_up = helper.shutdown_handle();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let checkpoint = format!("SET GLOBAL {CHECKPOINT_NOW} = ON");
            std::thread::sleep(AGAIN);
            while !done.load(Ordering::Acquire) {
                // Without a row of ours to change, other changes to the server will do, if there are any.
                drop(journal::touch(&mut helper));
                if helper.exec(&checkpoint).is_err() {
                    break;
                }
                std::thread::sleep(AGAIN);
            }
        });
        let result = conn.exec(statement);
        done.store(true, Ordering::Release);
        // A checkpoint that nobody waits for any more may take as long as all changed pages take to the disk.
        hang_up.shutdown();
        result
    })?;
    Ok(())
}
