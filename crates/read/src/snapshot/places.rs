//! MariaDB snapshots that share one binary log position.
//!
//! For several readers an equal position proves nothing: an unlogged transaction (`sql_log_bin=0`,
//! as loads without binary logging use; `binlog_do_db`, `binlog_ignore_db`) commits without moving
//! the position, and leaves no trace afterwards.

use std::time::{Duration, Instant};

use refloat_run::Cancel;
use refloat_source::manifest::SnapshotInfo;
use refloat_wire::Connection;

use super::{BEGIN, no_warning, not_opened, position};
use crate::error::ReadError;

/// How long to reopen the snapshots until all report the same position. With thousands of commits
/// per second they seldom do.
const EQUAL_TIME: Duration = Duration::from_millis(300);
/// The method, and what it guarantees, with a single reader.
pub const OF_ONE: &str =
    "one reader's own snapshot, with the place in the binary log that it has; no lock";
/// The method, and what it guarantees, with several readers.
pub const OF_MANY: &str = "no lock (the account lacks RELOAD and LOCK TABLES): all threads have the same place in the binary log, but transactions that are \
     not logged (sql_log_bin=0, binlog_ignore_db) may be seen by some and not by others; --threads 1 sees one moment";

/// Reopens the snapshots until all report the same binary log position. False when time runs out or
/// the binary log is off.
pub fn equal(
    readers: &mut [Connection],
    info: &mut SnapshotInfo,
    cancel: &Cancel,
) -> Result<bool, ReadError> {
    let since = Instant::now();
    while since.elapsed() < EQUAL_TIME {
        let mut places = Vec::with_capacity(readers.len());
        // Send to all readers before the first reply is read, to keep the snapshots close together.
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
