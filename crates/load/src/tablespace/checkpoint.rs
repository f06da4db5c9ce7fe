//! Has the server write a checkpoint after an import.
//!
//! `MariaDB` keeps the number of a tablespace when it is discarded and imported, and makes no
//! checkpoint (`row_import_cleanup` of `MySQL` makes one). A server that crashes before the next
//! one applies the log of the empty table to the imported file, and its indexes are lost (seen with
//! every kill of 10.11.19; `faults/tablespaces`). So rows count as loaded only after a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use refloat_run::settings::Facts;
use refloat_wire::{Connection, Error, Vendor};

use crate::error::LoadError;
use crate::link::Link;

/// Requests a checkpoint. Release builds have it since 10.11.
const NOW: &str = "innodb_log_checkpoint_now";
/// How often to look how far the server is.
const POLL: Duration = Duration::from_millis(20);

/// Why checkpoints cannot be requested, if they are needed.
pub fn impossible(facts: &Facts) -> Option<&'static str> {
    if facts.vendor != Vendor::MariaDb {
        None
    } else if facts.get(NOW).is_none() {
        Some("the server has no innodb_log_checkpoint_now, which is needed after an import")
    } else if !facts.may(&["SUPER"]) {
        Some("the account lacks SUPER, which innodb_log_checkpoint_now needs after an import")
    } else {
        None
    }
}

/// Returns when the server would begin to recover after everything that was done until now.
pub fn checkpoint(link: &mut Link) -> Result<(), LoadError> {
    if link.conn.server().vendor != Vendor::MariaDb {
        return Ok(());
    }
    let failed = |error| LoadError::server("waiting for a checkpoint after an import", error);
    let until = lsn(&mut link.conn, "Innodb_lsn_current").map_err(failed)?;
    // While others write, the request does not return, although the checkpoint moves on.
    let mut helper = link.ctx.connect("for a checkpoint")?;
    let hang_up = helper.shutdown_handle();
    let has_returned = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let request = scope.spawn(|| {
            let result = helper.exec(format!("SET GLOBAL {NOW} = ON"));
            has_returned.store(true, Ordering::Release);
            result.map(drop)
        });
        let waited = loop {
            if has_returned.load(Ordering::Acquire) {
                break None;
            }
            match lsn(&mut link.conn, "Innodb_lsn_last_checkpoint") {
                Ok(last) if last < until && !link.ctx.cancel.is_cancelled() => {}
                other => break Some(other),
            }
            std::thread::sleep(POLL);
        };
        hang_up.shutdown();
        let requested = request.join();
        match waited {
            Some(Ok(_)) => link.ctx.check_cancel(),
            Some(Err(error)) => Err(failed(error)),
            None => requested
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                .map_err(failed),
        }
    })
}

fn lsn(conn: &mut Connection, name: &str) -> Result<u64, Error> {
    let found = conn.query(format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    Ok(found.u64(0, 1).unwrap_or(0))
}
