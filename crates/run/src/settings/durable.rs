//! What was committed while the server's durability was relaxed is brought to the disk before anybody says "done".
//!
//! It runs when the settings are back. InnoDB writes its redo log in order, so one sync of it covers every commit before; the binary log is a
//! file of its own, and putting `sync_binlog` back syncs nothing of what is in it already.

use refloat_wire::Connection;

use super::journal::Journal;
use crate::Events;

const REDO: &str = "innodb_flush_log_at_trx_commit";
/// A setting that keeps commits from the disk, what brings them there, and what that is called.
const LOGS: &[(&str, &str, &str)] = &[
    (REDO, "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS", "redo log"),
    // Both vendors sync a file of the binary log when they close it. It begins a new one.
    (
        "sync_binlog",
        "FLUSH NO_WRITE_TO_BINLOG BINARY LOGS",
        "binary log",
    ),
];

/// Brings the logs whose setting the run had changed to the disk.
///
/// An account that may not do so is told of it: the server's own clock and the system's bring them there too.
pub(super) fn bring_to_disk(conn: &mut Connection, journal: &Journal, events: &Events) {
    let changed = |name: &str| journal.changes.iter().any(|change| change.name == name);
    for (name, statement, what) in LOGS.iter().filter(|(name, ..)| changed(name)) {
        let done = conn.exec(*statement);
        // The journal's row is removed next, and that commit brings the redo log to the disk with it.
        let follows = *name == REDO && journal.row;
        if let Err(error) = done
            && !follows
        {
            events.warn(format!(
                "the server's {what} was not brought to the disk ({error}): a crash of its machine in the next seconds may lose what was loaded"
            ));
        }
    }
}
