//! How fast a copy may run: at the rate that is set, and more slowly while the server's own work
//! suffers.
//!
//! A thread checks the server twice a second, by a connection of its own. The server suffers when
//! write-sets of its cluster pile up, when a statement that does nothing takes long, or when
//! statements pile up, all compared with how it was before the copy. The rate is then halved at
//! each check, and grows by a quarter at each check at which nothing is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_run::desync::CAUGHT_UP;
use refloat_run::{Cancel, CancelReason, Events};
use refloat_wire::{ConnectOptions, Connection};

use crate::error::PhysicalError;

/// The lowest rate, in bytes per second. mariadb-backup writes pieces of 10 MiB from several
/// threads and the redo log between them, and gives up when that makes no progress for five
/// seconds: at a lower rate that time would pass.
pub const RATE_MIN: u64 = 8 << 20;
/// How often the server is checked.
const LOOK: Duration = Duration::from_millis(500);
/// How often to check whether the copy must hurry. A server that writes 40 MiB of redo log per
/// second has filled half of a log of 8 MiB, the smallest possible, in that time.
const HURRY: Duration = Duration::from_millis(100);
/// Number of checks before a copy, and the time between them.
const LOOKS_BEFORE: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(50);
/// A statement that does nothing takes long when it takes this many times as long as before, and
/// this long at least: a server with nothing else to do answers in less than a millisecond, and
/// people begin to notice a twentieth of a second.
const SLOWER: u32 = 5;
const SLOW: Duration = Duration::from_millis(50);
/// Statements pile up when there are twice as many as before, and this many more. Below that, it
/// may be chance.
const MORE_RUNNING: u64 = 8;
/// How many checks in a row must find something, so that chance does not slow a copy down.
const IN_A_ROW: u32 = 2;
/// The shortest time between two notes.
const NOTE: Duration = Duration::from_secs(10);

/// The state of a server at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Health {
    /// How long a statement took that does nothing.
    answer: Duration,
    /// Running statements, including the one that asks.
    running: u64,
    /// Write-sets waiting to be applied, if the cluster waits for the node.
    queue: u64,
}

impl Health {
    fn look(conn: &mut Connection) -> Result<Self, refloat_wire::Error> {
        let asked = Instant::now();
        conn.exec("DO 0")?;
        let answer = asked.elapsed();
        let status = conn.query(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'wsrep_local_recv_queue')",
        )?;
        let number = |name: &str| status.named(name).and_then(|value| value.parse().ok());
        let mut queue = number("wsrep_local_recv_queue").unwrap_or(0);
        if queue > CAUGHT_UP {
            // A desynced node holds up nobody.
            let desync = conn.query("SHOW GLOBAL VARIABLES LIKE 'wsrep_desync'")?;
            if desync.str(0, 1) == Some("ON") {
                queue = 0;
            }
        }
        Ok(Self {
            answer,
            running: number("Threads_running").unwrap_or(0),
            queue,
        })
    }

    /// What is wrong, compared with how it was before.
    fn complaint(&self, before: &Self) -> Option<String> {
        if self.queue > CAUGHT_UP {
            let queue = self.queue;
            return Some(format!(
                "{queue} write-sets of the cluster are waiting there"
            ));
        }
        if self.answer > SLOW.max(before.answer * SLOWER) {
            let millis = self.answer.as_millis();
            return Some(format!("it takes {millis} ms to answer"));
        }
        (self.running > before.running * 2 + MORE_RUNNING)
            .then(|| format!("{} statements are running", self.running))
    }
}

/// A server before the copy, and the connection through which it is checked.
pub struct Calm {
    conn: Connection,
    before: Health,
    /// Statements of the copy itself.
    of_copy: u64,
}

impl Calm {
    /// Checks the server for a quarter of a second. `of_copy` is the number of connections of the
    /// copy itself that will have a running statement.
    pub fn look(connect: &ConnectOptions, of_copy: usize) -> Result<Self, PhysicalError> {
        let mut conn = Connection::connect(connect)
            .map_err(PhysicalError::server("connecting to the server"))?;
        let mut before = Health::default();
        for _ in 0..LOOKS_BEFORE {
            let now = Health::look(&mut conn)
                .map_err(PhysicalError::server("asking how busy the server is"))?;
            before.answer = before.answer.max(now.answer);
            before.running = before.running.max(now.running);
            std::thread::sleep(BETWEEN);
        }
        Ok(Self {
            conn,
            before,
            of_copy: of_copy as u64,
        })
    }
}

/// The rule by which the rate falls and rises.
#[derive(Debug)]
struct Rule {
    /// The highest rate, in bytes per second.
    ceiling: Option<u64>,
    /// The rate now; `None`: as fast as it goes.
    rate: Option<u64>,
    /// The highest rate that was seen.
    fastest: u64,
    /// Checks in a row at which something was wrong.
    wrong: u32,
}

impl Rule {
    fn new(ceiling: Option<u64>) -> Self {
        Self {
            ceiling,
            rate: ceiling,
            fastest: 0,
            wrong: 0,
        }
    }

    /// The rate after a check. `passed` is the number of bytes per second since the previous check.
    fn next(&mut self, is_wrong: bool, passed: u64) -> Option<u64> {
        self.fastest = self.fastest.max(passed);
        self.wrong = if is_wrong { self.wrong + 1 } else { 0 };
        if self.wrong >= IN_A_ROW {
            let floor = self.ceiling.map_or(RATE_MIN, |top| top.min(RATE_MIN));
            let now = self.rate.map_or(passed, |rate| rate.min(passed));
            self.rate = Some((now / 2).max(floor));
        } else if let (false, Some(rate)) = (is_wrong, self.rate) {
            let faster = rate.saturating_add(rate / 4);
            // A rate far above what the server can do limits nothing.
            self.rate = match self.ceiling {
                Some(top) => Some(faster.min(top)),
                None => (faster <= self.fastest.saturating_mul(2)).then_some(faster),
            };
        }
        self.rate
    }

    /// Whether the rate is below what was asked for.
    fn is_slowed(&self) -> bool {
        self.rate != self.ceiling
    }
}

#[derive(Default)]
struct Shared {
    /// Bytes per second; 0: as fast as it goes.
    rate: AtomicU64,
    /// Bytes so far.
    passed: AtomicU64,
    /// Whether the rate is suspended at the moment.
    hurries: AtomicBool,
}

/// The rate of a copy, which a thread adjusts until it is dropped.
pub struct Pacer {
    shared: Arc<Shared>,
    ends: Cancel,
}

impl Pacer {
    /// Begins with a rate in bytes per second, or without one. If `calm` is given, the rate falls
    /// while the server suffers. `hurries` is called at each check, with a connection, and says
    /// whether the rate must be suspended. A server that cannot be queried is copied without a
    /// rate.
    pub fn start(
        ceiling: Option<u64>,
        calm: Option<Calm>,
        connect: &ConnectOptions,
        events: &Events,
        hurries: impl FnMut(&mut Connection) -> bool + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        shared.rate.store(ceiling.unwrap_or(0), Ordering::Relaxed);
        let ends = Cancel::new();
        if ceiling.is_some() || calm.is_some() {
            let watch = Watch {
                rule: Rule::new(ceiling),
                shared: Arc::clone(&shared),
                ends: ends.clone(),
                events: events.clone(),
                noted: None,
            };
            let connect = connect.clone();
            std::thread::spawn(move || watch.run(calm, &connect, hurries));
        }
        Self { shared, ends }
    }

    /// Bytes per second; `None`: as fast as it goes.
    pub fn rate(&self) -> Option<u64> {
        let rate = self.shared.rate.load(Ordering::Relaxed);
        let hurries = self.shared.hurries.load(Ordering::Relaxed);
        Some(rate).filter(|rate| *rate > 0 && !hurries)
    }

    /// Counts bytes of the copy.
    pub fn count(&self, bytes: usize) {
        self.shared
            .passed
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.ends.cancel(CancelReason::Failed("ended".to_owned()));
    }
}

struct Watch {
    rule: Rule,
    shared: Arc<Shared>,
    ends: Cancel,
    events: Events,
    noted: Option<Instant>,
}

impl Watch {
    fn run(
        mut self,
        calm: Option<Calm>,
        connect: &ConnectOptions,
        mut hurries: impl FnMut(&mut Connection) -> bool,
    ) {
        let (mut conn, before) = match calm {
            Some(calm) => (calm.conn, Some((calm.before, calm.of_copy))),
            None => match Connection::connect(connect) {
                Ok(conn) => (conn, None),
                Err(error) => return self.gives_up(&error),
            },
        };
        let (mut since, mut passed) = (Instant::now(), 0);
        // Lets it note the server's position at the beginning.
        hurries(&mut conn);
        while !self.ends.is_cancelled() {
            if let Some((before, of_copy)) = &before {
                let mut now = match Health::look(&mut conn) {
                    Ok(now) => now,
                    Err(error) => return self.gives_up(&error),
                };
                now.running = now.running.saturating_sub(*of_copy);
                let so_far = self.shared.passed.load(Ordering::Relaxed);
                let seconds = since.elapsed().as_secs_f64().max(0.001);
                let speed = ((so_far - passed) as f64 / seconds) as u64;
                (since, passed) = (Instant::now(), so_far);
                self.adjust(now.complaint(before), speed);
            }
            let looked = Instant::now();
            while looked.elapsed() < LOOK && !self.ends.is_cancelled() {
                self.ends.sleep(HURRY);
                let is_late = hurries(&mut conn);
                self.shared.hurries.store(is_late, Ordering::Relaxed);
            }
        }
    }

    /// The server's progress is no longer known, so a copy that is held back may fail.
    fn gives_up(&self, error: &refloat_wire::Error) {
        self.shared.hurries.store(true, Ordering::Relaxed);
        self.events.warn(format!(
            "the server can no longer be watched; the copy continues at full speed: {}",
            refloat_host::chain(error)
        ));
    }

    fn adjust(&mut self, complaint: Option<String>, speed: u64) {
        let was_slowed = self.rule.is_slowed();
        let rate = self.rule.next(complaint.is_some(), speed);
        self.shared.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
        let is_due = self.noted.is_none_or(|noted| noted.elapsed() > NOTE);
        match (was_slowed, self.rule.is_slowed(), complaint) {
            (false, true, Some(complaint)) if is_due => {
                self.events.note(format!(
                    "the server is busy ({complaint}): the copy slows down"
                ));
                self.noted = Some(Instant::now());
            }
            (true, false, _) if self.noted.is_some() => {
                self.events
                    .note("the server is less busy: the copy is back at full speed".to_owned());
                self.noted = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Health, RATE_MIN, Rule};

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_rate_falls_to_its_floor_and_comes_back() {
        let mut rule = Rule::new(None);
        assert_eq!(rule.next(false, 200 * MIB), None);
        // A single check may be chance.
        assert_eq!(rule.next(true, 200 * MIB), None);
        assert_eq!(rule.next(false, 200 * MIB), None);
        let mut rates = Vec::new();
        for passed in [200, 200, 100, 50, 25, 12, 8] {
            rates.extend(rule.next(true, passed * MIB).map(|rate| rate / MIB));
        }
        assert_eq!(rates, [100, 50, 25, 12, 8, 8]);
        assert!(rule.is_slowed());
        let mut looks = 0;
        let mut last = RATE_MIN;
        while let Some(rate) = rule.next(false, last.min(200 * MIB)) {
            assert!(rate > last);
            (last, looks) = (rate, looks + 1);
        }
        // A quarter each half second: from the floor to 400 MiB per second within 10 seconds.
        assert!(looks < 20, "{looks}");
        assert!(!rule.is_slowed());
    }

    #[test]
    fn a_rate_that_was_asked_for_is_the_ceiling() {
        let mut rule = Rule::new(Some(50 * MIB));
        for _ in 0..2 {
            rule.next(true, 50 * MIB);
        }
        assert_eq!(rule.rate, Some(25 * MIB));
        for _ in 0..10 {
            rule.next(false, 25 * MIB);
        }
        assert_eq!(rule.rate, Some(50 * MIB));
        assert!(!rule.is_slowed());
        let mut rule = Rule::new(Some(MIB));
        for _ in 0..5 {
            rule.next(true, MIB);
        }
        assert_eq!(rule.rate, Some(MIB), "below the floor already");
    }

    #[test]
    fn a_server_suffers_when_it_is_far_from_what_it_was() {
        let quiet = Health {
            answer: Duration::from_micros(200),
            running: 2,
            queue: 0,
        };
        let busy = Health {
            answer: Duration::from_millis(40),
            running: 30,
            queue: 0,
        };
        let wrong = |now: Health, before: Health| now.complaint(&before).is_some();
        assert!(!wrong(quiet, quiet));
        assert!(!wrong(busy, busy));
        assert!(wrong(busy, quiet), "statements pile up");
        let slow = |millis| Health {
            answer: Duration::from_millis(millis),
            ..quiet
        };
        assert!(!wrong(slow(40), quiet));
        assert!(wrong(slow(60), quiet));
        assert!(!wrong(
            Health {
                running: 30,
                ..slow(150)
            },
            busy
        ));
        assert!(wrong(
            Health {
                running: 30,
                ..slow(250)
            },
            busy
        ));
        assert!(wrong(Health { queue: 9, ..quiet }, quiet));
        assert!(!wrong(Health { queue: 8, ..quiet }, quiet));
    }
}
