//! Brings to disk what was committed under relaxed durability, before anything reports success.
//!
//! This runs once the settings are back. InnoDB writes its redo log in order, so one sync covers
//! every earlier commit. The binary log is a separate file, and restoring `sync_binlog` syncs
//! nothing that is already in it.

use refloat_wire::Connection;

use super::journal::Journal;
use crate::Events;

const REDO: &str = "innodb_flush_log_at_trx_commit";
/// The setting that keeps commits off the disk, the statement that brings them there, and the log's
/// name.
const LOGS: &[(&str, &str, &str)] = &[
    (REDO, "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS", "redo log"),
    // Both vendors sync a binary log file when they close it. This statement starts a new one.
    (
        "sync_binlog",
        "FLUSH NO_WRITE_TO_BINLOG BINARY LOGS",
        "binary log",
    ),
];

/// Brings to disk the logs whose settings the run had changed.
///
/// If the account may not do so, this only warns: the server's and the system's own timers bring
/// them to disk too.
pub(super) fn bring_to_disk(conn: &mut Connection, journal: &Journal, events: &Events) {
    let changed = |name: &str| journal.changes.iter().any(|change| change.name == name);
    for (name, statement, what) in LOGS.iter().filter(|(name, ..)| changed(name)) {
        let done = conn.exec(*statement);
        // The journal's row is removed next, and that commit brings the redo log to disk as well.
        let follows = *name == REDO && journal.row;
        if let Err(error) = done
            && !follows
        {
            events.warn(format!(
                "the server's {what} was not flushed to disk ({error}): a crash of its machine in the next seconds may lose what was loaded"
            ));
        }
    }
}
