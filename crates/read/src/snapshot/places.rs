//! Snapshots of MariaDB that have one place in the binary log.
//!
//! Of several readers that proves nothing: a transaction that is not logged (`sql_log_bin=0`, as loads without a log do it;
//! `binlog_do_db`, `binlog_ignore_db`) is committed without moving the place, and nobody can see afterwards that there was one.

use std::time::{Duration, Instant};

use refloat_run::Cancel;
use refloat_source::manifest::SnapshotInfo;
use refloat_wire::Connection;

use super::{BEGIN, no_warning, not_opened, position};
use crate::error::ReadError;

/// How long snapshots are opened anew until all tell the same place; on a server with thousands of commits per second they seldom do.
const EQUAL_TIME: Duration = Duration::from_millis(300);
/// What it is worth where one reader reads all.
pub const OF_ONE: &str =
    "one reader's own snapshot, with the place in the binary log that it has; no lock";
/// What it is worth where several do.
pub const OF_MANY: &str = "no lock (the account lacks RELOAD and LOCK TABLES): all threads have the same place in the binary log, but transactions that are \
     not logged (sql_log_bin=0, binlog_ignore_db) may be seen by some and not by others; --threads 1 sees one moment";

/// Opens the snapshots until all of them tell the same place in the log; not where it is off.
pub fn equal(
    readers: &mut [Connection],
    info: &mut SnapshotInfo,
    cancel: &Cancel,
) -> Result<bool, ReadError> {
    let since = Instant::now();
    while since.elapsed() < EQUAL_TIME {
        let mut places = Vec::with_capacity(readers.len());
        // All are asked before the first has answered, so that little time lies between them.
        for reader in readers.iter_mut() {
            reader.send_query(BEGIN.as_bytes()).map_err(not_opened)?;
        }
        for reader in readers.iter_mut() {
            let ok = reader.read_result().map_err(not_opened)?;
            no_warning(reader, &ok)?;
        }
        for reader in readers.iter_mut() {
            match position::of_snapshot(reader)? {
                Some(place) => places.push(place),
                None => return rolled_back(readers),
            }
        }
        if places.windows(2).all(|pair| pair[0] == pair[1]) {
            let (file, at) = places.swap_remove(0);
            (info.binlog_file, info.binlog_position) = (Some(file), Some(at));
            return Ok(true);
        }
        if cancel.is_cancelled() {
            return Err(ReadError::interrupted(cancel));
        }
        rolled_back(readers)?;
    }
    Ok(false)
}

fn rolled_back(readers: &mut [Connection]) -> Result<bool, ReadError> {
    for reader in readers {
        reader
            .exec("ROLLBACK")
            .map_err(|error| ReadError::server("giving a snapshot back", error))?;
    }
    Ok(false)
}
