//! Makes sure that nothing of the process that began a load is still at work.
//!
//! A process may be gone while its connections are not. The server notices only when it reads from
//! them or writes to them, and until then an index build may run for an hour. So each connection of
//! a load holds a server lock, which ends with the connection.

use std::time::Duration;

use refloat_wire::{Connection, Error};

use super::About;

/// Seconds that a killed connection gets to end.
const END_WAIT: u64 = 60;
/// Time between the first check and the kill: a connection whose process has just ended may be
/// about to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// Whether everything that worked on a load is gone.
#[derive(Debug, PartialEq, Eq)]
pub enum Gone {
    /// Yes: this process may take the load over.
    Yes,
    /// The process that began it is alive, or cannot be proven dead.
    No {
        /// The id of its first connection.
        connection: String,
        /// The host that it ran on.
        host: String,
        /// Its process id.
        pid: u32,
    },
    /// This connection did not end although it was killed.
    Stays(String),
}

/// The name of the lock of a connection of a load. Slot 0 is the connection that began it.
pub fn lock_name(run: &str, slot: usize) -> String {
    format!("{}.{run}.{slot}", super::SCHEMA)
}

/// Takes a lock for as long as the connection lives, and waits up to `seconds` for it. Returns
/// whether it was granted. If the server has no such locks for this account or mode, it counts as
/// granted: the locks are only a safeguard.
pub fn hold(conn: &mut Connection, run: &str, slot: usize, seconds: u64) -> Result<bool, Error> {
    let sql = format!("SELECT GET_LOCK('{}', {seconds})", lock_name(run, slot));
    match conn.query_value(sql) {
        Ok(given) => Ok(given.as_deref() != Some("0")),
        Err(error) if error.is_lost_connection() => Err(error),
        Err(_) => Ok(true),
    }
}

/// Runs `work` while other loads are kept from creating or removing the tables of marks. After
/// waiting [`END_WAIT`] seconds for the lock, runs it without.
pub fn with_schema<T>(
    conn: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    if let Err(error) =
        conn.query_value(format!("SELECT GET_LOCK('{}', {END_WAIT})", super::SCHEMA))
        && error.is_lost_connection()
    {
        return Err(error);
    }
    let done = work(conn);
    // The lock ends with the connection in any case.
    let _ = conn.query_value(format!("SELECT RELEASE_LOCK('{}')", super::SCHEMA));
    done
}

/// Takes a lock that an older connection of this process may still hold, and ends that connection.
pub fn hold_or_end(conn: &mut Connection, run: &str, slot: usize) -> Result<(), Error> {
    if hold(conn, run, slot, 0)? {
        return Ok(());
    }
    let holder = conn.query_value(format!("SELECT IS_USED_LOCK('{}')", lock_name(run, slot)))?;
    if let Some(holder) = holder {
        // It may end by itself in between.
        let _ = conn.exec(format!("KILL {holder}"));
    }
    hold(conn, run, slot, END_WAIT).map(drop)
}

/// Ends what is left of the process that worked on a load, and takes its place: `conn` holds the
/// first lock from then on.
pub fn take_over(conn: &mut Connection, run: &str, about: &About) -> Result<Gone, Error> {
    let dead = about.owner.alive() == Some(false);
    for slot in 0..=about.slots {
        if hold(conn, run, slot, 0)? {
            continue;
        }
        std::thread::sleep(GRACE);
        if hold(conn, run, slot, 0)? {
            continue;
        }
        let holder =
            conn.query_value(format!("SELECT IS_USED_LOCK('{}')", lock_name(run, slot)))?;
        if let Some(holder) = &holder {
            if slot == 0 && !dead {
                return Ok(Gone::No {
                    connection: holder.clone(),
                    host: about.owner.host.clone(),
                    pid: about.owner.pid,
                });
            }
            // It may end by itself in between.
            let _ = conn.exec(format!("KILL {holder}"));
        }
        if !hold(conn, run, slot, END_WAIT)? {
            return Ok(Gone::Stays(holder.unwrap_or_default()));
        }
    }
    for slot in 1..=about.slots {
        let _ = conn.query_value(format!("SELECT RELEASE_LOCK('{}')", lock_name(run, slot)));
    }
    Ok(Gone::Yes)
}
