//! One consistent snapshot across all reader connections.
//!
//! The methods, best first:
//!
//! - A single reader always sees one moment, and MariaDB reports the binary log position of its
//!   snapshot: no lock is needed.
//! - Several readers see one moment if writers are stopped while their snapshots open: with
//!   `BACKUP STAGE` (MariaDB), `FLUSH TABLES WITH READ LOCK`, or `LOCK TABLES` on every table if
//!   the account may do no more.
//! - If the account may take no lock at all, the dump states what is not guaranteed.

mod locks;
mod places;
pub mod position;
mod replica;

use std::time::{Duration, Instant};

use refloat_run::{Cancel, Events, Refusal};
use refloat_source::manifest::SnapshotInfo;
use refloat_wire::codes::LOCK_WAIT_TIMEOUT;
use refloat_wire::{Connection, Error, OkInfo, Vendor};

use super::error::ReadError;
use super::identity::Identities;
use super::options::{Consistency, ReadOptions};
use super::session;
use locks::{Lock, LockKind, block_ddl};

/// Starts a transaction whose snapshot is taken by the statement itself, not by the first read.
const BEGIN: &str = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// What [`Snapshot::take`] needs to know to choose a method.
pub struct Wanted<'a> {
    /// Every table, quoted as `LOCK TABLES` expects it.
    pub tables: &'a [String],
    /// Whether some tables keep no old row versions, so that they must be read while writers are
    /// stopped.
    pub locked_reads: bool,
    /// Whether the account's privileges allow a global read lock.
    pub may_flush: bool,
    /// Number of connections that will read.
    pub readers: usize,
}

/// Connections that share one snapshot.
pub struct Snapshot {
    /// The reader connections, each inside its snapshot transaction.
    pub readers: Vec<Connection>,
    /// Position and time of the snapshot, for the manifest.
    pub info: SnapshotInfo,
    /// Whether DDL is blocked until the control connection ends.
    pub ddl_blocked: bool,
    /// When the snapshot was opened; with a lock, when the lock was acquired.
    pub opened_at: Instant,
    /// Which table each name referred to when the snapshot was taken.
    pub identities: Identities,
    lock: Option<Lock>,
    locked_at: Option<Instant>,
    /// Whether `release` has already tried to block DDL; it tries only once.
    released: bool,
    events: Events,
}

impl Snapshot {
    /// A connection that may read definitions of any kind: the one that holds locks on tables
    /// (`LOCK TABLES`) sees nothing else, not even their views.
    pub fn unlocked<'a>(&'a mut self, control: &'a mut Connection) -> &'a mut Connection {
        match &self.lock {
            Some(lock) if lock.kind == LockKind::Tables => {
                self.readers.first_mut().unwrap_or(control)
            }
            _ => control,
        }
    }

    /// Opens the snapshot. `control` takes the locks. `lists` runs while nothing can change and
    /// returns whatever must belong to the same moment.
    pub fn take<T>(
        control: &mut Connection,
        options: &ReadOptions,
        wanted: &Wanted<'_>,
        (cancel, events): (&Cancel, &Events),
        mut lists: impl FnMut(&mut Connection) -> Result<T, ReadError>,
    ) -> Result<(Self, T), ReadError> {
        let mut readers = Vec::with_capacity(wanted.readers);
        for _ in 0..wanted.readers.max(1) {
            let mut reader = session::another(control, options)
                .map_err(|error| ReadError::server("connecting a reader", error))?;
            session::prepare_reader(&mut reader)
                .map_err(|error| ReadError::server("preparing a reader's session", error))?;
            readers.push(reader);
        }
        catch_up(control, &mut readers)?;
        let mut info = SnapshotInfo::default();
        let before = replica::before(control)?;
        let alone = readers.len() == 1;
        let logged = options.consistency != Consistency::None
            && !wanted.locked_reads
            && logs_everything(control)?;
        if alone && logged && places::equal(&mut readers, &mut info, cancel)? {
            (info.consistent, info.method) = (true, places::OF_ONE.to_owned());
            position::complete(control, &mut info)?;
            replica::complete(control, &mut readers[0], &mut info, before.as_ref(), true)?;
            let listed = lists(control)?;
            return Ok((
                Self {
                    readers,
                    info,
                    ddl_blocked: false,
                    opened_at: Instant::now(),
                    identities: Identities::default(),
                    lock: None,
                    locked_at: None,
                    released: false,
                    events: events.clone(),
                },
                listed,
            ));
        }
        let (lock, waited_from) = locks::acquire(
            control,
            options,
            (wanted.tables, wanted.may_flush),
            (cancel, events),
        )?;
        let locked_at = Instant::now();
        // Better than nothing when writers cannot be stopped.
        let equal = lock.is_none() && logged && places::equal(&mut readers, &mut info, cancel)?;
        if !equal {
            for reader in &mut readers {
                begin(reader)?;
            }
            position::read(control, &mut info)?;
        }
        position::complete(control, &mut info)?;
        replica::complete(
            control,
            &mut readers[0],
            &mut info,
            before.as_ref(),
            lock.is_some() || alone,
        )?;
        let listed = lists(control)?;
        (info.consistent, info.method) = match lock.as_ref().map(|lock| lock.kind) {
            Some(kind) => (true, kind.method().to_owned()),
            None if options.consistency == Consistency::None => {
                (false, "no lock, as asked for: threads may see different moments".to_owned())
            }
            None if alone && !wanted.locked_reads => (
                false,
                "one reader's own snapshot: its rows are of one moment, but the account may take no lock that would tell the position of it"
                    .to_owned(),
            ),
            None if equal => (false, places::OF_MANY.to_owned()),
            None => (
                false,
                "no lock (the account lacks RELOAD and LOCK TABLES): threads may see different moments".to_owned(),
            ),
        };
        let mut snapshot = Self {
            readers,
            info,
            ddl_blocked: false,
            opened_at: locked_at,
            identities: Identities::default(),
            locked_at: lock.is_some().then_some(waited_from.min(locked_at)),
            lock,
            released: false,
            events: events.clone(),
        };
        if !wanted.locked_reads {
            snapshot.release(control)?;
        }
        Ok((snapshot, listed))
    }

    /// Lets writers continue and, where the server can, blocks DDL from here on.
    ///
    /// DDL is not blocked while writers are stopped, nor before: a session that changes a
    /// definition would hold one lock and wait for the other, and become a deadlock victim (seen
    /// with `RENAME TABLE` on MySQL 9.7.4). A change made in between is detected: for tables when
    /// their rows are read, for everything else when it is read again after this call.
    pub fn release(&mut self, control: &mut Connection) -> Result<(), ReadError> {
        self.unlock(control)?;
        if !std::mem::replace(&mut self.released, true) {
            self.ddl_blocked = block_ddl(control, &self.events)?;
        }
        Ok(())
    }

    /// Releases every lock.
    pub fn give_up(mut self, control: &mut Connection) -> Result<(), ReadError> {
        self.unlock(control)?;
        if self.ddl_blocked {
            control
                .exec("UNLOCK INSTANCE")
                .map_err(|error| ReadError::server("releasing the lock on definitions", error))?;
        }
        Ok(())
    }

    fn unlock(&mut self, control: &mut Connection) -> Result<(), ReadError> {
        let Some(lock) = self.lock.take() else {
            return Ok(());
        };
        let unlocked = lock.release(control);
        if let Some(since) = self.locked_at.take() {
            self.info.locked_seconds = round_up(since.elapsed());
        }
        unlocked.map_err(|error| ReadError::server("releasing the lock of the snapshot", error))
    }
}

/// Makes a Galera node, which may lag behind, apply everything that the cluster has confirmed so
/// far. Later reads do not wait: while writers are stopped, they and the writers would wait for
/// each other.
fn catch_up(control: &mut Connection, readers: &mut [Connection]) -> Result<(), ReadError> {
    const WAIT: &str = "SET SESSION wsrep_sync_wait = 1";
    const GO_ON: &str = "SET SESSION wsrep_sync_wait = 0";
    // Only servers that can be Galera nodes know the variable.
    if control.exec(WAIT).is_ok() {
        control
            .query("SELECT 1")
            .map_err(|error| match error.server_code() {
                Some(LOCK_WAIT_TIMEOUT) => ReadError::Behind,
                _ => ReadError::server("waiting for what the cluster has confirmed", error),
            })?;
        let _ = control.exec(GO_ON);
    }
    for reader in readers {
        let _ = reader.exec(GO_ON);
    }
    Ok(())
}

/// Seconds, in whole milliseconds: at least one, so that a lock never shows as zero.
fn round_up(time: Duration) -> f64 {
    time.as_millis().max(1) as f64 / 1000.0
}

fn begin(reader: &mut Connection) -> Result<(), ReadError> {
    let ok = reader.exec(BEGIN).map_err(not_opened)?;
    no_warning(reader, &ok)
}

fn not_opened(error: Error) -> ReadError {
    ReadError::server("opening a consistent snapshot", error)
}

fn no_warning(reader: &mut Connection, ok: &OkInfo) -> Result<(), ReadError> {
    if ok.warnings > 0 {
        let warnings = reader.warnings().map_err(not_opened)?;
        let words = warnings
            .first()
            .map_or_else(String::new, |warning| warning.message.clone());
        return Err(ReadError::Refused(Refusal {
            reason: format!("the server does not give a consistent snapshot: {words}"),
            hint: "A storage engine with transactions and the isolation level REPEATABLE READ are needed.".to_owned(),
        }));
    }
    Ok(())
}

/// Whether the binary log has every transaction, and no other position must match the snapshot: a
/// Galera position is known only while nothing commits.
fn logs_everything(control: &mut Connection) -> Result<bool, ReadError> {
    Ok(control.server().vendor == Vendor::MariaDb
        && !replica::is_node(control)?
        && !replica::commits_unlogged(control)?)
}

impl LockKind {
    /// The method as the manifest describes it.
    fn method(self) -> &'static str {
        match self {
            Self::BackupStage => "BACKUP STAGE BLOCK_COMMIT while the snapshots were opened",
            Self::ReadLock => "FLUSH TABLES WITH READ LOCK while the snapshots were opened",
            Self::Tables => "LOCK TABLES of all tables while the snapshots were opened",
        }
    }
}
