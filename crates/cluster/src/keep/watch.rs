//! Watches a node that holds write-sets for another: how much of its budget is used, and whether it
//! still has them.

use std::time::Instant;

use refloat_host::chain;
use refloat_run::Events;
use refloat_wire::{ConnectOptions, Connection, Error};

use super::{KeepError, SILENCE};
use crate::hold::{Holder, Way, safe_until};
use crate::member::{Member, impatient};
use crate::node::HEADER;

const COUNTERS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_replicated', 'wsrep_replicated_bytes', \
    'wsrep_received', 'wsrep_received_bytes', 'wsrep_local_cached_downto', 'wsrep_last_committed')";

/// A node that holds write-sets.
#[derive(Debug)]
pub(crate) struct Watched {
    name: String,
    connect: ConnectOptions,
    conn: Option<Connection>,
    way: Way,
    /// Bytes that may arrive before write-sets are discarded.
    bytes: u64,
    /// The byte counter when the hold began.
    base: u64,
    begun: Instant,
    /// Bytes that have arrived since.
    used: u64,
    /// `used` when the node left.
    before: u64,
    /// The oldest write-set that it keeps.
    pub oldest: u64,
    /// The newest write-set that it has.
    head: u64,
    /// Why it does not answer, and since when.
    silent: Option<(String, Instant)>,
}

/// Values of the server's counters.
struct Counted {
    bytes: u64,
    oldest: u64,
    head: u64,
}

impl Watched {
    /// Starts to count.
    pub fn begin(
        member: &Member,
        holder: &Holder,
        mut conn: Connection,
    ) -> Result<Self, KeepError> {
        let counted = count(&mut conn).map_err(|error| KeepError::NotHeld {
            node: holder.name.clone(),
            reason: chain(&error),
        })?;
        Ok(Self {
            name: holder.name.clone(),
            connect: impatient(&member.connect),
            conn: Some(conn),
            way: holder.way,
            bytes: holder.bytes,
            base: counted.bytes,
            begun: Instant::now(),
            used: 0,
            before: 0,
            oldest: counted.oldest,
            head: counted.head,
            silent: None,
        })
    }

    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// Queries the node again.
    pub fn look(&mut self, events: &Events) {
        match self.count() {
            Ok(counted) => {
                if self.silent.take().is_some() {
                    events.note(format!("{} answers again", self.name));
                }
                // Smaller counters belong to a new process, which keeps what it has recovered from
                // its ring.
                self.used = counted.bytes.saturating_sub(self.base).max(self.used);
                self.oldest = counted.oldest;
                self.head = counted.head;
            }
            Err(error) => {
                self.conn = None;
                let reason = chain(&error);
                if self.silent.is_none() {
                    events.warn(format!(
                        "{}, which keeps write-sets, does not answer: {reason}",
                        self.name
                    ));
                }
                let since = self
                    .silent
                    .take()
                    .map_or_else(Instant::now, |(_, since)| since);
                self.silent = Some((reason, since));
            }
        }
    }

    fn count(&mut self) -> Result<Counted, Error> {
        let conn = match &mut self.conn {
            Some(conn) => conn,
            none => none.insert(Connection::connect(&self.connect)?),
        };
        count(conn)
    }

    /// Whether it still keeps what comes after this write-set, with the distance from the oldest
    /// that Galera requires.
    pub fn keeps(&self, left: u64) -> bool {
        let frozen_full = self.way == Way::Freeze && self.used >= self.bytes;
        let silent = self.silent.as_ref();
        silent.is_none_or(|(_, since)| since.elapsed() < SILENCE)
            && !frozen_full
            && self.oldest <= left.saturating_add(1)
            && safe_until(self.oldest, left) >= self.head
    }

    /// Records that the node leaves now.
    pub fn leaves(&mut self) {
        self.before = self.used;
    }

    /// Records that it was told again to keep what arrives, with a full budget.
    pub fn again(&mut self) {
        self.bytes = self.bytes.saturating_add(self.used);
    }

    /// Bytes that have arrived since the node left.
    pub fn missed(&self) -> u64 {
        self.used - self.before
    }

    /// Why it does not keep the write-sets.
    pub fn why_not(&self) -> String {
        match &self.silent {
            Some((reason, _)) => format!("{} does not answer ({reason})", self.name),
            None if self.way == Way::Freeze && self.used >= self.bytes => format!(
                "{} has kept the {} bytes that were allowed",
                self.name, self.bytes
            ),
            None => format!(
                "{} keeps write-sets from {} on, after {} bytes of them",
                self.name, self.oldest, self.used
            ),
        }
    }

    /// How long it lasts at the average rate since the hold began, in seconds. `None`: nothing was
    /// written.
    pub fn seconds_left(&self) -> Option<f64> {
        let rate = self.used as f64 / self.begun.elapsed().as_secs_f64();
        (rate > 0.0).then(|| self.bytes.saturating_sub(self.used) as f64 / rate)
    }
}

fn count(conn: &mut Connection) -> Result<Counted, Error> {
    let counters = conn.query(COUNTERS)?;
    let number = |name| counters.count(name).unwrap_or(0);
    let sets = number("wsrep_replicated") + number("wsrep_received");
    Ok(Counted {
        bytes: number("wsrep_replicated_bytes") + number("wsrep_received_bytes") + sets * HEADER,
        oldest: number("wsrep_local_cached_downto"),
        head: number("wsrep_last_committed"),
    })
}
