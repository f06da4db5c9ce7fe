//! Locks that stop writers while snapshots open.
//!
//! While such a lock waits behind a long query, every other session queues up behind it. So each
//! attempt is short, and every wait is reported.

use std::time::{Duration, Instant};

use refloat_run::{Cancel, Events, Refusal};
use refloat_wire::codes::PARSE_ERROR;
use refloat_wire::{Connection, Error, Vendor};

use crate::error::ReadError;
use crate::options::{Consistency, ReadOptions};

/// Seconds that one attempt may hold up the writers behind it.
const ATTEMPT_SECONDS: u64 = 2;
/// How long the server is left alone between two attempts.
const PAUSE: Duration = Duration::from_secs(3);
/// A query that has already run this many seconds is unlikely to end soon, so the lock is not even
/// tried.
const LONG_QUERY_SECONDS: u64 = 2;
/// Shown when the session that blocks a lock cannot be identified.
const UNSEEN: &str = "what holds it cannot be seen (PROCESS is missing, or its connection sleeps)";

/// A lock that stops writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// `BACKUP STAGE` up to `BLOCK_COMMIT`: MariaDB 10.4 and newer.
    BackupStage,
    /// `FLUSH TABLES WITH READ LOCK`.
    ReadLock,
    /// `LOCK TABLES … READ` on every table.
    Tables,
}

/// A lock that the control connection holds.
pub struct Lock {
    /// Which lock it is.
    pub kind: LockKind,
}

impl Lock {
    /// Releases the lock.
    pub fn release(self, control: &mut Connection) -> Result<(), Error> {
        let statement = match self.kind {
            LockKind::BackupStage => "BACKUP STAGE END",
            LockKind::ReadLock | LockKind::Tables => "UNLOCK TABLES",
        };
        control.exec(statement).map(drop)
    }

    fn statements(kind: LockKind, tables: &[String]) -> Vec<String> {
        match kind {
            LockKind::BackupStage => ["START", "BLOCK_DDL", "BLOCK_COMMIT"]
                .iter()
                .map(|stage| format!("BACKUP STAGE {stage}"))
                .collect(),
            LockKind::ReadLock => vec!["FLUSH TABLES WITH READ LOCK".to_owned()],
            LockKind::Tables if tables.is_empty() => Vec::new(),
            LockKind::Tables => vec![format!("LOCK TABLES {} READ", tables.join(" READ, "))],
        }
    }
}

/// Blocks DDL until the connection ends, where the server can do so without blocking anything else.
/// Returns whether DDL is blocked.
///
/// One attempt only: sessions that want to change a definition queue up behind it, and without the
/// lock a change is still detected.
pub fn block_ddl(control: &mut Connection, events: &Events) -> Result<bool, ReadError> {
    if !control.server().is_mysql_since((8, 0, 0)) {
        return Ok(false);
    }
    let failed = |error| ReadError::server("locking definitions", error);
    be_brief(control).map_err(failed)?;
    match control.exec("LOCK INSTANCE FOR BACKUP") {
        Ok(_) => Ok(true),
        Err(error) if error.is_lock_wait() => {
            let in_the_way = longest_query(control, ATTEMPT_SECONDS - 1).map_err(failed)?;
            events.warn(format!(
                "definitions are not locked: {}; a definition that changes meanwhile is noticed, and fails the dump",
                in_the_way.unwrap_or_else(|| UNSEEN.to_owned())
            ));
            Ok(false)
        }
        Err(error) if error.server_code().is_some() => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Limits every lock wait of the session to one attempt.
fn be_brief(control: &mut Connection) -> Result<(), Error> {
    control
        .exec(format!("SET SESSION lock_wait_timeout = {ATTEMPT_SECONDS}"))
        .map(drop)
}

/// Takes the best lock that the account may take. Also returns the moment from which writers may
/// have been waiting. The lock is `None` when the account may take none.
pub fn acquire(
    control: &mut Connection,
    options: &ReadOptions,
    (tables, may_flush): (&[String], bool),
    (cancel, events): (&Cancel, &Events),
) -> Result<(Option<Lock>, Instant), ReadError> {
    if options.consistency == Consistency::None {
        return Ok((None, Instant::now()));
    }
    let kinds: &[LockKind] = match control.server().vendor {
        Vendor::MariaDb => &[LockKind::BackupStage, LockKind::ReadLock, LockKind::Tables],
        Vendor::MySql => &[LockKind::ReadLock, LockKind::Tables],
    };
    for kind in kinds {
        let patient = Patience {
            began: Instant::now(),
            whole: options.lock_patience,
            cancel,
            events,
        };
        if let Some(since) = patient.try_kind(control, *kind, (tables, may_flush))? {
            return Ok((Some(Lock { kind: *kind }), since));
        }
    }
    if options.consistency == Consistency::Require {
        return Err(ReadError::Refused(Refusal {
            reason: "the account may not take any lock that makes the snapshot consistent"
                .to_owned(),
            hint:
                "Grant it RELOAD (MySQL: RELOAD or FLUSH_TABLES), or LOCK TABLES on the databases."
                    .to_owned(),
        }));
    }
    Ok((None, Instant::now()))
}

/// Repeated short attempts to take one lock.
struct Patience<'a> {
    began: Instant,
    whole: Duration,
    cancel: &'a Cancel,
    events: &'a Events,
}

impl Patience<'_> {
    /// Returns the moment from which the lock may have blocked writers; `None` when the account may
    /// not take the lock or the server does not know it.
    fn try_kind(
        &self,
        control: &mut Connection,
        kind: LockKind,
        (tables, may_flush): (&[String], bool),
    ) -> Result<Option<Instant>, ReadError> {
        let failed = |error| ReadError::server("locking for the snapshot", error);
        loop {
            if self.cancel.is_cancelled() {
                return Err(ReadError::interrupted(self.cancel));
            }
            // Only the read lock waits for queries that merely read. For the others the attempt
            // itself will tell.
            let mut in_the_way = match kind {
                LockKind::ReadLock if may_flush => {
                    longest_query(control, LONG_QUERY_SECONDS).map_err(failed)?
                }
                // The read lock will be denied, so there is nothing to wait for.
                LockKind::ReadLock | LockKind::BackupStage | LockKind::Tables => None,
            };
            if in_the_way.is_none() {
                let since = Instant::now();
                be_brief(control).map_err(failed)?;
                let mut outcome = Ok(());
                let mut begun = false;
                for statement in Lock::statements(kind, tables) {
                    outcome = control.exec(statement).map(drop);
                    if outcome.is_err() {
                        break;
                    }
                    begun = true;
                }
                match outcome {
                    Ok(()) => return Ok(Some(since)),
                    Err(error) if error.is_lock_wait() => {
                        // If its first stage failed, there is no stage to end.
                        if kind == LockKind::BackupStage && begun {
                            control.exec("BACKUP STAGE END").map_err(failed)?;
                        }
                        // The blocking query has run at least as long as the attempt waited.
                        in_the_way = longest_query(control, ATTEMPT_SECONDS - 1).map_err(failed)?;
                        if kind == LockKind::Tables {
                            in_the_way = in_the_way.or_else(|| sleeping_writer(control));
                        }
                    }
                    Err(error)
                        if error.is_access_denied() || error.server_code() == Some(PARSE_ERROR) =>
                    {
                        return Ok(None);
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            let in_the_way = in_the_way.unwrap_or_else(|| UNSEEN.to_owned());
            if self.began.elapsed() >= self.whole {
                return Err(ReadError::NoLock {
                    seconds: self.whole.as_secs(),
                    in_the_way,
                });
            }
            self.events.warn(format!(
                "the lock of the snapshot is not taken yet: {in_the_way}; trying again in {} s",
                PAUSE.as_secs()
            ));
            self.cancel.sleep(PAUSE);
        }
    }
}

/// The longest-running query, if it has run for more than `seconds`.
fn longest_query(control: &mut Connection, seconds: u64) -> Result<Option<String>, Error> {
    let longest = control.query(format!(
        "SELECT ID, USER, TIME, LEFT(REPLACE(COALESCE(INFO, ''), '\\n', ' '), 60) FROM information_schema.PROCESSLIST \
         WHERE COMMAND IN ('Query', 'Execute') AND ID <> CONNECTION_ID() AND TIME > {seconds} \
         AND USER NOT IN ('system user', 'event_scheduler') ORDER BY TIME DESC LIMIT 1"
    ))?;
    let text = |column| longest.str(0, column).unwrap_or("?");
    Ok((!longest.is_empty()).then(|| {
        format!(
            "query {} of {} has run for {} s: {}",
            text(0),
            text(1),
            text(2),
            text(3)
        )
    }))
}

/// The connection that has changed rows in a transaction and has slept longest since: it keeps
/// others from locking the tables of those rows. Visible only with `PROCESS`.
fn sleeping_writer(control: &mut Connection) -> Option<String> {
    let sleeping = control
        .query(
            "SELECT p.ID, p.USER, p.TIME FROM information_schema.INNODB_TRX t \
             JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id \
             WHERE p.COMMAND = 'Sleep' AND t.trx_rows_modified > 0 ORDER BY p.TIME DESC LIMIT 1",
        )
        .ok()?;
    let text = |column| sleeping.str(0, column).unwrap_or("?");
    (!sleeping.is_empty()).then(|| {
        format!(
            "connection {} of {} has changed rows in a transaction, and slept for {} s",
            text(0),
            text(1),
            text(2)
        )
    })
}
