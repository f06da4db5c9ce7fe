//! Making sure that nothing of the process that began a load is at work any more.
//!
//! A process may be gone while its connections still are not: the server notices only when it reads from them or writes to them, and an
//! index build may take an hour until then. So each connection of a load holds a lock of the server, which ends with it.

use std::time::Duration;

use refloat_wire::{Connection, Error};

use super::About;

/// Time that a connection gets to end after it was killed, in seconds.
const END_WAIT: u64 = 60;
/// Time between the first look and the kill: a connection whose process has just ended may be about to end itself.
const GRACE: Duration = Duration::from_millis(500);

/// Who still works on a load.
#[derive(Debug, PartialEq, Eq)]
pub enum Gone {
    /// Nobody.
    Yes,
    /// The process that began it lives, or nobody can tell that it does not; its first connection has this number.
    No {
        /// Connection.
        connection: String,
        /// The host that it ran on.
        host: String,
        /// Process.
        pid: u32,
    },
    /// A connection does not end, although it was killed.
    Stays(String),
}

/// The name of the lock of a connection of a load: 0 is the one that began it.
pub fn lock_name(run: &str, slot: usize) -> String {
    format!("{}.{run}.{slot}", super::SCHEMA)
}

/// Takes a lock for as long as the connection lives, waiting for `seconds`; whether it was given. Where the server has no such locks for this
/// account or mode, it is taken for given: they protect, and are needed for nothing else.
pub fn hold(conn: &mut Connection, run: &str, slot: usize, seconds: u64) -> Result<bool, Error> {
    let sql = format!("SELECT GET_LOCK('{}', {seconds})", lock_name(run, slot));
    match conn.query_value(sql) {
        Ok(given) => Ok(given.as_deref() != Some("0")),
        Err(error) if error.is_lost_connection() => Err(error),
        Err(_) => Ok(true),
    }
}

/// Does something while other loads are kept from making or removing the tables of marks; without the lock after a while, rather than not at
/// all.
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
    // It ends with the connection in any case.
    let _ = conn.query_value(format!("SELECT RELEASE_LOCK('{}')", super::SCHEMA));
    done
}

/// Takes a lock that an older connection of this process may still have, which is to end.
pub fn hold_or_end(conn: &mut Connection, run: &str, slot: usize) -> Result<(), Error> {
    if hold(conn, run, slot, 0)? {
        return Ok(());
    }
    let holder = conn.query_value(format!("SELECT IS_USED_LOCK('{}')", lock_name(run, slot)))?;
    if let Some(holder) = holder {
        // It may end by itself between the two.
        let _ = conn.exec(format!("KILL {holder}"));
    }
    hold(conn, run, slot, END_WAIT).map(drop)
}

/// Ends what is left of the process that worked on a load, and takes its place: `conn` holds its first lock from then on.
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
            // It may end by itself between the two.
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
