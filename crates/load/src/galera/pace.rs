//! Holds a load back before other nodes of a cluster fall behind.
//!
//! Every node is asked several times a second how many write-sets wait there to be applied, and how
//! long flow control has stopped writers so far. A worker that is about to write waits while too
//! many write-sets are waiting on any node, or while writers were stopped for more of the last
//! seconds than is allowed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use refloat_run::{Cancel, Events, Sampler};
use refloat_wire::{CommitCounter, ConnectOptions, ResultSet};
use serde::Serialize;

/// How often to query a node.
const LOOK: Duration = Duration::from_millis(50);
/// The period over which to measure how long flow control stopped writers.
const WINDOW: Duration = Duration::from_secs(5);
/// Part of the allowed share at which the load starts to wait, because what is in flight adds to
/// it.
const EARLY: f64 = 0.4;
/// The same for the share since throttling began.
const EARLY_IN_ALL: f64 = 0.7;
/// Part of the allowed share below which transactions may grow again.
const EASY: f64 = 0.1;
/// A share below this would let nothing through after the first pause.
const SHARE_LEAST: f64 = 0.001;
/// Time between two changes of the transaction size, so that each shows its effect.
const SETTLE: Duration = Duration::from_secs(2);
/// Bytes of dump text below which transactions do not shrink.
const BYTES_LEAST: usize = 64 << 10;
/// How often a waiting worker checks whether it may continue.
const PAUSE: Duration = Duration::from_millis(10);
/// Write-sets that may wait on a node. A commit on that node waits behind them.
const WAITING_MOST: u64 = 2;
/// A load that has waited this long writes one more transaction anyway: something else may be the
/// cause.
const HELD_MOST: Duration = Duration::from_secs(30);
/// Write-sets within [`WINDOW`] that the load's node may send beyond what the load has counted,
/// before they are taken for writes by others. A commit is counted when its answer arrives, and a
/// procedure may commit several times.
const OWN_SLACK: u64 = 16;

const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_flow_control_paused_ns', 'wsrep_local_recv_queue', 'wsrep_replicated')";

/// What a load did to one node.
#[derive(Debug, Clone, Serialize)]
pub struct PacedNode {
    /// The node's address.
    pub node: String,
    /// Seconds that flow control stopped writers there while rows were written.
    pub paused_seconds: f64,
    /// The same as a share of the time, from 0 to 1.
    pub paused_share: f64,
    /// The most write-sets that were seen waiting to be applied.
    pub waiting_most: u64,
    /// Whether the node did not answer at the end.
    pub silent: bool,
}

/// How to hold a load back.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Share of the time, from 0 to 1, that flow control may stop any node.
    pub max_paused: f64,
    /// Bytes of dump text that a transaction may have: with applications alongside, and without.
    pub bytes: (usize, usize),
    /// When to hold the load back.
    pub when: When,
}

/// When to hold a load back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// From the beginning.
    Always,
    /// From the moment others write, on any node.
    OthersWrite,
    /// Never: nodes are watched only for the report.
    Never,
}

/// Holds workers back while a node cannot keep up.
pub struct Pace {
    nodes: Vec<Arc<Watched>>,
    _samplers: Vec<Sampler>,
    /// Whether writers are held back.
    on: AtomicBool,
    when: When,
    max_paused: f64,
    bytes_free: usize,
    held_micros: AtomicU64,
    events: Events,
    warned: AtomicBool,
    size: Mutex<Size>,
}

/// How large transactions may be.
struct Size {
    bytes: usize,
    most: usize,
    changed: Instant,
}

/// Why a worker waits.
enum Reason {
    /// Write-sets are waiting on a node.
    Waiting(String),
    /// Flow control has stopped a node for too long.
    Stopped(String),
}

struct Watched {
    name: String,
    /// On the load's node: what the load may have committed there so far. Other nodes send only
    /// writes by others.
    ours: Option<CommitCounter>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// When, and nanoseconds that writers had been stopped by then. No older than [`WINDOW`].
    samples: VecDeque<(Instant, u64)>,
    first: Option<(Instant, u64)>,
    /// When throttling began, and nanoseconds that writers had been stopped by then.
    paced: Option<(Instant, u64)>,
    /// When, and write-sets by others that it had sent by then. No older than [`WINDOW`]. Only
    /// differences have a meaning.
    sent: VecDeque<(Instant, i64)>,
    waiting: u64,
    waiting_most: u64,
    silent: bool,
}

/// What a node answers.
#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    /// Nanoseconds that flow control has stopped writers there.
    paused: u64,
    /// Write-sets that are waiting there.
    waiting: u64,
    /// Write-sets that it has sent, without those of the load.
    sent: Option<i64>,
}

impl Seen {
    fn note(&mut self, now: Instant, answer: Answer) {
        let Answer {
            paused,
            waiting,
            sent,
        } = answer;
        self.silent = false;
        self.sent.extend(sent.map(|sent| (now, sent)));
        while self
            .sent
            .get(1)
            .is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW)
        {
            self.sent.pop_front();
        }
        self.first.get_or_insert((now, paused));
        self.samples.push_back((now, paused));
        while self
            .samples
            .get(1)
            .is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW)
        {
            self.samples.pop_front();
        }
        self.waiting = waiting;
        self.waiting_most = self.waiting_most.max(waiting);
    }

    /// Marks the node as silent. Nothing is known about it, so nothing waits for it.
    fn lose(&mut self) {
        self.silent = true;
        self.waiting = 0;
        self.samples.clear();
        self.sent.clear();
    }

    /// Whether the node sent more than `slack` write-sets by others in the last seconds.
    fn writes(&self, slack: u64) -> bool {
        let ends = self.sent.front().zip(self.sent.back());
        ends.is_some_and(|((_, first), (_, last))| {
            u64::try_from(last - first).is_ok_and(|sent| sent > slack)
        })
    }

    /// Share of the last seconds that writers were stopped. It is always relative to the whole
    /// window, so that a short pause at the beginning is not a large share.
    fn share(&self) -> f64 {
        match (self.samples.front(), self.samples.back()) {
            (Some((_, before)), Some((_, now))) => {
                now.saturating_sub(*before) as f64 / WINDOW.as_nanos() as f64
            }
            _ => 0.0,
        }
    }

    /// The same since throttling began.
    fn share_in_all(&self) -> f64 {
        match (self.paced.or(self.first), self.samples.back()) {
            (Some((since, before)), Some((until, now))) => {
                let time = until.duration_since(since).max(WINDOW);
                now.saturating_sub(before) as f64 / time.as_nanos() as f64
            }
            _ => 0.0,
        }
    }
}

impl Watched {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, status: &ResultSet) {
        let count = |name| status.count(name).unwrap_or(0);
        let ours = self.ours.as_ref().map_or(0, CommitCounter::get);
        let sent = status.count("wsrep_replicated");
        let answer = Answer {
            paused: count("wsrep_flow_control_paused_ns"),
            waiting: count("wsrep_local_recv_queue"),
            sent: sent.map(|sent| sent.wrapping_sub(ours).cast_signed()),
        };
        self.seen().note(Instant::now(), answer);
    }
}

impl Pace {
    /// Starts watching these nodes. The first one is the load's if `own_first`.
    pub fn start(nodes: &[ConnectOptions], own_first: bool, rule: Rule, events: &Events) -> Self {
        let (mut watched, mut samplers) = (Vec::new(), Vec::new());
        for (at, node) in nodes.iter().enumerate() {
            let one = Arc::new(Watched {
                name: node.target().to_string(),
                ours: (at == 0 && own_first).then(|| node.commits.clone().unwrap_or_default()),
                seen: Mutex::default(),
            });
            watched.push(Arc::clone(&one));
            let (events, mut warned) = (events.clone(), false);
            let seen = move |answer| match answer {
                Ok(status) => one.note(&status),
                Err(error) => {
                    one.seen().lose();
                    if !warned {
                        events.warn(format!(
                            "node {} does not say how far behind it is, so the load does not wait \
                            for it: {error}",
                            one.name
                        ));
                    }
                    warned = true;
                }
            };
            samplers.push(Sampler::start(node, LOOK, |conn| conn.query(STATUS), seen));
        }
        Self {
            nodes: watched,
            _samplers: samplers,
            on: AtomicBool::new(rule.when == When::Always),
            when: rule.when,
            max_paused: rule.max_paused.max(SHARE_LEAST),
            bytes_free: rule.bytes.1,
            held_micros: AtomicU64::new(0),
            events: events.clone(),
            warned: AtomicBool::new(false),
            size: Mutex::new(Size {
                bytes: rule.bytes.0,
                most: rule.bytes.0,
                changed: Instant::now(),
            }),
        }
    }

    /// Whether writers are held back when a node cannot keep up.
    pub fn is_on(&self) -> bool {
        let on = self.on.load(Ordering::Relaxed);
        if on || self.when != When::OthersWrite {
            return on;
        }
        let writes = |node: &&Arc<Watched>| {
            let slack = if node.ours.is_some() { OWN_SLACK } else { 0 };
            node.seen().writes(slack)
        };
        let Some(node) = self.nodes.iter().find(writes) else {
            return false;
        };
        if !self.on.swap(true, Ordering::Relaxed) {
            // Pauses until now affected nobody else, so they do not count.
            for node in &self.nodes {
                let mut seen = node.seen();
                seen.paced = seen.samples.back().copied();
            }
            self.events.note(format!(
                "somebody else writes on node {}: from now on the load is held back when nodes \
                fall behind, and indexes that are not deferred yet are built with the rows",
                node.name
            ));
        }
        true
    }

    /// Bytes of dump text that a transaction may have now.
    pub fn bytes(&self) -> usize {
        if !self.is_on() {
            return self.bytes_free;
        }
        self.size
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .bytes
    }

    /// Shrinks transactions while flow control stops nodes, and lets them grow again while there is
    /// room. A large transaction delays every commit behind it, on every node, for as long as it is
    /// applied there.
    fn resize(&self, stopped: bool) {
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        if size.changed.elapsed() < SETTLE {
            return;
        }
        let easy = || {
            let mut nodes = self.nodes.iter();
            nodes.all(|node| node.seen().share() <= self.max_paused * EASY)
        };
        let bytes = if stopped {
            (size.bytes / 2).max(BYTES_LEAST.min(size.most))
        } else if size.bytes < size.most && easy() {
            (size.bytes * 2).min(size.most)
        } else {
            size.bytes
        };
        if bytes != size.bytes {
            size.bytes = bytes;
            size.changed = Instant::now();
        }
    }

    /// Waits until the nodes keep up. Returns at once if they do.
    pub fn wait(&self, cancel: &Cancel, is_over: impl Fn() -> bool) {
        if !self.is_on() {
            return;
        }
        let began = Instant::now();
        let mut held = false;
        while !cancel.is_cancelled() && !is_over() {
            let reason = match self.reason() {
                None => {
                    self.resize(false);
                    break;
                }
                Some(Reason::Waiting(reason)) => reason,
                Some(Reason::Stopped(reason)) => {
                    self.resize(true);
                    reason
                }
            };
            held = true;
            if began.elapsed() >= HELD_MOST {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    self.events.warn(format!(
                        "the load has been held back for {0} s without effect: {reason}. Each \
                        writer now sends one transaction every {0} s",
                        HELD_MOST.as_secs(),
                    ));
                }
                break;
            }
            cancel.sleep(PAUSE);
        }
        if held {
            let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.held_micros.fetch_add(micros, Ordering::Relaxed);
        }
    }

    fn reason(&self) -> Option<Reason> {
        self.nodes.iter().find_map(|node| {
            let seen = node.seen();
            let (share, in_all) = (seen.share(), seen.share_in_all());
            if seen.waiting > WAITING_MOST {
                Some(Reason::Waiting(format!(
                    "{} write-sets wait at node {}",
                    seen.waiting, node.name
                )))
            } else if share > self.max_paused * EARLY {
                Some(Reason::Stopped(format!(
                    "flow control stopped node {} for {:.0} % of the last {} s",
                    node.name,
                    share * 100.0,
                    WINDOW.as_secs()
                )))
            } else if in_all > self.max_paused * EARLY_IN_ALL {
                Some(Reason::Stopped(format!(
                    "flow control stopped node {} for {:.1} % of the time since throttling began",
                    node.name,
                    in_all * 100.0,
                )))
            } else {
                None
            }
        })
    }

    /// Seconds that writers were held back, summed over all writers.
    pub fn held_seconds(&self) -> f64 {
        self.held_micros.load(Ordering::Relaxed) as f64 / 1e6
    }

    /// What the load did to the nodes so far.
    pub fn nodes(&self) -> Vec<PacedNode> {
        let report = |node: &Arc<Watched>| {
            let seen = node.seen();
            let (mut paused_seconds, mut time) = (0.0, 0.0);
            if let (Some((since, before)), Some((until, now))) = (seen.first, seen.samples.back()) {
                paused_seconds = now.saturating_sub(before) as f64 / 1e9;
                time = until.duration_since(since).as_secs_f64();
            }
            PacedNode {
                node: node.name.clone(),
                paused_seconds,
                paused_share: if time > 0.0 {
                    (paused_seconds / time).min(1.0)
                } else {
                    0.0
                },
                waiting_most: seen.waiting_most,
                silent: seen.silent,
            }
        };
        self.nodes.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_last_seconds() {
        let start = Instant::now();
        let mut seen = Seen::default();
        let at = |tenths: u64| start + Duration::from_millis(tenths * 100);
        let answer = |paused, waiting| Answer {
            paused,
            waiting,
            sent: Some(-7),
        };
        seen.note(at(0), answer(5_000_000_000, 0));
        assert!(seen.share().abs() < 1e-9);
        seen.note(at(10), answer(6_000_000_000, 3));
        assert!((seen.share() - 0.2).abs() < 1e-9);
        seen.note(at(30), answer(6_000_000_000, 1));
        assert!((seen.share() - 0.2).abs() < 1e-9);
        assert!((seen.share_in_all() - 0.2).abs() < 1e-9);
        seen.note(at(65), answer(6_000_000_000, 1));
        assert!(!seen.writes(0));
        seen.note(
            at(65),
            Answer {
                sent: Some(3),
                ..answer(6_000_000_000, 1)
            },
        );
        assert!(seen.writes(0) && seen.writes(9) && !seen.writes(10));
        assert!((seen.share_in_all() - 1.0 / 6.5).abs() < 1e-9);
        assert!(seen.share().abs() < 1e-9, "{}", seen.share());
        assert_eq!((seen.waiting, seen.waiting_most), (1, 3));
        seen.lose();
        assert_eq!(seen.waiting, 0);
        assert!(seen.share().abs() < 1e-9);
    }
}
