//! Nodes go away and come back on a real cluster, while an application keeps overwriting the ring.
//!
//! `REFLOAT_MAINTAIN_ROUNDS` sets how often a node goes away under steady load.

// Hazard of clusters: G-08 the gap of IST: held, proven, given up in time; also while a node that
//   is down comes back | , `cluster/rejoin.rs`
// Hazard of clusters: G-09, G-10 the only copy is not wiped, the direction is said; old data are
//   set aside | , `program/restore.rs`

#[path = "nodes/application.rs"]
mod application;
#[path = "nodes/control.rs"]
mod control;
mod nodes;
#[path = "nodes/thaw.rs"]
mod thaw;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use refloat_cluster::{
    CameBy, HoldPlan, HoldWish, MaintainError, MaintainLimits, Maintained, Maintenance, Member,
    Observation, WantedTables, Way, Work, observe, open_maintenance, plan_hold,
};
use refloat_host::{Control, Host};
use refloat_run::events::{EventSink, Record};
use refloat_run::{Cancel, CancelReason, Events, Progress, Run, RunDir, settings};
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, NodeStart};
use refloat_testkit::servers;
use refloat_testkit::wait_until;
use refloat_wire::{ConnectOptions, Connection};

use application::{Application, LONG, ROW, memory, option};
use nodes::{connect, members};
use thaw::Thaw;

/// Ring size of every node, in bytes.
const RING: u64 = 1 << 20;

fn status(node: &GaleraNode, name: &str) -> String {
    let mut conn = connect(node);
    let answer = conn.query(format!("SHOW STATUS LIKE 'wsrep_{name}'"));
    answer.unwrap().str(0, 1).unwrap_or_default().to_owned()
}

/// Work that is a closure.
struct Doing<F: FnMut()>(F);

impl<F: FnMut()> Work for Doing<F> {
    fn begin(&mut self) -> Result<(), String> {
        (self.0)();
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        Some(Ok(()))
    }
}

/// Work that lasts until a condition holds, and then fails.
struct Until<'a>(&'a dyn Fn() -> bool);

impl Work for Until<'_> {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        (self.0)().then_some(Err("it went wrong".to_owned()))
    }
}

/// Work that never ends, not even when cancelled.
struct Endless;

impl Work for Endless {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        None
    }
}

/// Cancels the maintenance if the thread that is to let it continue panics; it would wait forever.
struct EndOnPanic<'a>(&'a Cancel);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel_hard(CancelReason::Signal(2));
        }
    }
}

/// Collects the events that a user would see.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl EventSink for Notes {
    fn event(&self, record: &Record) {
        self.0.lock().unwrap().push(format!("{record:?}"));
    }
}

struct Place<'a> {
    notes: Arc<Notes>,
    cluster: &'a EphemeralCluster,
    members: Vec<Member>,
    state: &'a Path,
    run: Run,
}

impl<'a> Place<'a> {
    fn new(cluster: &'a EphemeralCluster, state: &'a Path) -> Self {
        let (notes, events) = (Arc::new(Notes::default()), Events::new());
        events.add(Arc::clone(&notes) as Arc<dyn EventSink>);
        Self {
            notes,
            cluster,
            // No datadir is configured: the servers report theirs.
            members: members(cluster)
                .into_iter()
                .map(|member| Member {
                    datadir: None,
                    ..member
                })
                .collect(),
            state,
            run: Run {
                dir: RunDir::create(state, "cluster maintain").unwrap(),
                cancel: Cancel::new(),
                events,
                progress: Progress::new(),
            },
        }
    }

    fn plan(&self, node: usize, bytes: Option<u64>) -> HoldPlan {
        self.plan_for(Duration::from_secs(5), node, bytes)
    }

    fn plan_for(&self, away: Duration, node: usize, bytes: Option<u64>) -> HoldPlan {
        let how = Observation {
            sample: Duration::from_millis(500),
            tables: WantedTables::Never,
            ..Observation::default()
        };
        let view = observe("c", &self.members, &how);
        let wish = HoldWish {
            away,
            bytes,
            available: vec![None; self.members.len()],
            disk: vec![None; self.members.len()],
        };
        plan_hold(&view, &self.members[node].name, &wish).unwrap()
    }

    fn with<T>(
        &self,
        node: usize,
        limits: MaintainLimits,
        body: impl FnOnce(&Maintenance<'_>) -> T,
    ) -> T {
        let control = control::of(&self.cluster.nodes()[node]);
        body(&Maintenance {
            members: &self.members,
            control: &control,
            state_dir: self.state,
            run: &self.run,
            limits,
        })
    }

    fn maintain(
        &self,
        node: usize,
        plan: &HoldPlan,
        limits: MaintainLimits,
        work: &mut dyn Work,
    ) -> Result<Maintained, MaintainError> {
        let result = self.with(node, limits, |maintenance| maintenance.run("c", plan, work));
        if result.is_err() {
            // Print the end of each log for a failing test: the files go away with the cluster.
            for node in self.cluster.nodes() {
                let log = std::fs::read_to_string(node.error_log()).unwrap();
                let all: Vec<&str> = log.lines().collect();
                println!(
                    "{}:\n{}",
                    node.name(),
                    all[all.len().saturating_sub(60)..].join("\n")
                );
            }
        }
        result
    }

    /// Runs a maintenance after which the node is back by IST and no setting is left changed.
    fn comes_back(&self, node: usize, plan: &HoldPlan, work: &mut dyn Work) -> Maintained {
        let outcome = self.maintain(node, plan, LIMITS, work).unwrap();
        assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
        assert_eq!(outcome.given_up, None, "{outcome:?}");
        assert!(outcome.not_released.is_empty(), "{outcome:?}");
        self.nothing_is_left();
        outcome
    }

    /// Asserts that a message said why write-sets are no longer kept for the node.
    fn was_warned(&self, node: usize, reason: &str) {
        let words = format!(
            "write-sets are no longer kept for {}: {reason}",
            self.members[node].name
        );
        let notes = self.notes.0.lock().unwrap();
        assert!(
            notes.iter().any(|one| one.contains(&words)),
            "{words}: {notes:#?}"
        );
    }

    fn nothing_is_left(&self) {
        for node in self.cluster.nodes() {
            assert_eq!(memory(node), "0", "{}", node.name());
            assert!(!is_frozen(node), "{}", node.name());
            let mut conn = connect(node);
            // A drop on one node may not be applied on the next yet; with wsrep_sync_wait = 1, SHOW
            // does not wait for it.
            conn.exec("SET SESSION wsrep_sync_wait = 15").unwrap();
            let left = conn.query("SHOW DATABASES LIKE 'refloat%'").unwrap();
            assert!(left.is_empty(), "{}: {}", node.name(), journal(&mut conn));
        }
        assert!(settings::list(self.state).unwrap().is_empty());
        assert_eq!(open_maintenance(&self.run.dir).unwrap(), None);
    }
}

/// The seqno from which a node purges nothing; `-1`: it purges. `None`: its provider lacks the
/// option.
fn frozen(node: &GaleraNode) -> Option<String> {
    option(node, "gcache.freeze_purge_at_seqno")
}

fn is_frozen(node: &GaleraNode) -> bool {
    frozen(node).is_some_and(|seqno| seqno != "-1")
}

/// The journals on a server, for the message of a failing test.
fn journal(conn: &mut Connection) -> String {
    let tables = "SELECT TABLE_NAME, TABLE_COMMENT, TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'refloat'";
    let rows = "SELECT run, journal FROM refloat.settings_journal";
    format!("{:?} {:?}", conn.query(tables), conn.query(rows))
}

const LIMITS: MaintainLimits = MaintainLimits {
    hold: LONG,
    start: None,
    allow_sst: false,
    keep_free: 0,
};

#[test]
fn a_node_that_goes_away_comes_back_by_what_it_missed() {
    let options =
        GaleraOptions::new(servers::nodes(), 3).provider_option("gcache.size", RING.to_string());
    let cluster = servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
    let state = tempfile::tempdir().unwrap();
    let rounds = std::env::var("REFLOAT_MAINTAIN_ROUNDS").map_or(2, |text| text.parse().unwrap());
    under_a_steady_load(&cluster, state.path(), rounds);
    a_node_that_does_not_stop_is_given_up(&cluster, state.path());
    a_node_that_hangs_is_not_taken_for_down(&cluster, state.path());
    a_holder_is_killed(&cluster, state.path());
    the_others_are_silent_for_a_moment(&cluster, state.path());
    a_node_does_not_start_until_it_is_mended(&cluster, state.path());
    a_hold_runs_out(&cluster, state.path());
    nothing_is_begun_where_it_would_not_last(&cluster, state.path());
    a_machine_has_little_left(&cluster, state.path());
    an_account_without_super(&cluster, state.path());
}

/// What could not be put back is not changed: the node is not told whom to ask first.
fn an_account_without_super(cluster: &EphemeralCluster, state: &Path) {
    let mut root = connect(&cluster.nodes()[0]);
    root.exec("CREATE USER plain@'%'").unwrap();
    root.exec("GRANT PROCESS, SELECT ON *.* TO plain@'%'")
        .unwrap();
    let mut place = Place::new(cluster, state);
    for member in &mut place.members {
        "plain".clone_into(&mut member.connect.user);
    }
    let plan = place.plan(2, Some(1));
    assert!(plan.holders.iter().all(|one| one.way == Way::Unchanged));
    // The others keep what they keep, which may not last.
    let limits = MaintainLimits {
        allow_sst: true,
        ..LIMITS
    };
    place.maintain(2, &plan, limits, &mut Doing(|| ())).unwrap();
    place.nothing_is_left();
    let notes = place.notes.0.lock().unwrap();
    assert!(
        notes.iter().any(|one| one.contains("is not told to ask")),
        "{notes:#?}"
    );
    root.exec("DROP USER plain@'%'").unwrap();
}

/// Waiting for a node that does not stop can be ended.
fn a_node_that_does_not_stop_is_given_up(cluster: &EphemeralCluster, state: &Path) {
    let place = Place::new(cluster, state);
    let plan = place.plan(1, Some(64 << 20));
    let control = Control::Commands {
        host: Host::Local,
        start: "true".to_owned(),
        stop: "true".to_owned(),
        bootstrap: None,
        standalone: None,
        running: None,
        kill: None,
        recover: None,
    };
    let maintenance = Maintenance {
        members: &place.members,
        control: &control,
        state_dir: state,
        run: &place.run,
        limits: LIMITS,
    };
    let name = &place.members[1].name;
    let says = |words: String| {
        wait_until(&words, || {
            let notes = place.notes.0.lock().unwrap();
            notes.iter().any(|one| one.contains(&words))
        });
    };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = EndOnPanic(&place.run.cancel);
            says(format!("stopping {name}"));
            place.run.cancel.cancel(CancelReason::Signal(2));
            // The first Ctrl-C does not abandon a node that may stop at any moment.
            says(format!("waiting until {name} has stopped"));
            std::thread::sleep(Duration::from_secs(2));
            place.run.cancel.cancel_hard(CancelReason::Signal(2));
        });
        maintenance.run("c", &plan, &mut Doing(|| unreachable!("it has not left")))
    })
    .unwrap_err();
    assert!(matches!(error, MaintainError::StillUp { .. }), "{error}");
    place.nothing_is_left();
}

/// A node that hangs is as silent as one that is down, but the work for a node that is down does
/// not run.
fn a_node_that_hangs_is_not_taken_for_down(cluster: &EphemeralCluster, state: &Path) {
    let place = Place::new(cluster, state);
    let plan = place.plan(1, Some(64 << 20));
    let node = &cluster.nodes()[1];
    let pid = node.pid().unwrap().unwrap();
    for running in [None, Some("exit 255".to_owned())] {
        let control = Control::Commands {
            host: Host::Local,
            start: "true".to_owned(),
            stop: format!("kill -STOP {pid}"),
            bootstrap: None,
            standalone: None,
            running,
            kill: None,
            recover: None,
        };
        let maintenance = Maintenance {
            members: &place.members,
            control: &control,
            state_dir: state,
            run: &Place::new(cluster, state).run,
            limits: LIMITS,
        };
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                let cancel = &maintenance.run.cancel;
                let _ended = EndOnPanic(cancel);
                let stat = format!("/proc/{pid}/stat");
                let stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
                wait_until("it hangs", stopped);
                std::thread::sleep(Duration::from_secs(2));
                cancel.cancel_hard(CancelReason::Signal(2));
            });
            maintenance.run("c", &plan, &mut Doing(|| unreachable!("it has not left")))
        });
        node.thaw().unwrap();
        let error = error.unwrap_err();
        assert!(matches!(error, MaintainError::Unseen { .. }), "{error}");
        // After the thaw the node still reports its old state until it notices; a causal read says
        // more.
        wait_until("all are in step again", || {
            cluster.nodes().iter().all(|node| {
                let options = ConnectOptions::from_url(&node.url()).unwrap();
                let mut conn = Connection::connect(&options).unwrap();
                let causal = "SET SESSION wsrep_sync_wait = 15";
                conn.exec(causal).is_ok() && conn.query("SHOW DATABASES").is_ok()
            })
        });
        place.nothing_is_left();
    }
}

fn under_a_steady_load(cluster: &EphemeralCluster, state: &Path, rounds: usize) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        application.writes(RING);
        for round in 0..rounds {
            let place = Place::new(cluster, state);
            let node = 1 + round % 2;
            let plan = place.plan(node, None);
            assert!(
                plan.holders.iter().all(|holder| holder.way == Way::Memory),
                "{plan:?}"
            );
            let mut held = String::new();
            let mut work = Doing(|| {
                held = memory(&cluster.nodes()[0]);
                application.writes(3 * RING);
            });
            let outcome = place.comes_back(node, &plan, &mut work);
            assert_eq!(held, "64M", "round {round}: {plan:?}");
            // The write-sets missed match what was counted: each is one row.
            let missed = outcome.back - outcome.left;
            assert!(missed * ROW > 3 * RING, "{outcome:?}");
            let bytes = outcome.bytes.unwrap();
            assert!(bytes.abs_diff(missed * ROW) < bytes / 5, "{outcome:?}");
            println!(
                "round {}: {} was away for {:.1} s, missed {missed} write-sets of {bytes} B by a ring of {RING} B, came back by IST in {:.1} s",
                round + 1,
                outcome.node,
                outcome.away_seconds.unwrap(),
                outcome.join_seconds
            );
        }
    });
}

/// A holder crashes and loses what it kept; the other holder has it too. The crashed node was half
/// of the remaining cluster, so nothing can be written until it is back.
fn a_holder_is_killed(cluster: &EphemeralCluster, state: &Path) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        let place = Place::new(cluster, state);
        let plan = place.plan_for(Duration::from_secs(15), 1, Some(64 << 20));
        let warns = |words: &str| plan.warnings.iter().any(|warning| warning.contains(words));
        assert!(
            warns("is away, 2 nodes are left: if one of them crashes"),
            "{plan:?}"
        );
        let third = &cluster.nodes()[2];
        let mut work = Doing(|| {
            application.writes(2 * RING);
            third.crash().unwrap();
            servers::start_killed(third);
            assert_eq!(memory(third), "0");
            application.writes(RING);
        });
        place.comes_back(1, &plan, &mut work);
    });
}

/// The other nodes are silent when the node is to be started, so nobody reports what is kept. It is
/// kept anyway, and the node comes back by it.
fn the_others_are_silent_for_a_moment(cluster: &EphemeralCluster, state: &Path) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        let place = Place::new(cluster, state);
        let plan = place.plan_for(Duration::from_secs(15), 1, Some(64 << 20));
        let others = [&cluster.nodes()[0], &cluster.nodes()[2]];
        std::thread::scope(|scope| {
            let mut work = Doing(|| {
                application.writes(2 * RING);
                let frozen = others.map(Thaw);
                for other in others {
                    other.freeze().unwrap();
                }
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_secs(8));
                    drop(frozen);
                });
            });
            place.comes_back(1, &plan, &mut work);
        });
    });
}

/// A start that fails before the node has asked for the missed write-sets leaves its position
/// intact. (A later failure does not: an option that the server does not know is found only then,
/// and makes Galera forget the node's position.)
fn a_node_does_not_start_until_it_is_mended(cluster: &EphemeralCluster, state: &Path) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        let place = Place::new(cluster, state);
        // The longer the absence, the more distance Galera wants from the oldest write-set kept.
        let plan = place.plan_for(Duration::from_secs(40), 1, Some(256 << 20));
        let node = &cluster.nodes()[1];
        let config = std::fs::read_to_string(node.config()).unwrap();
        std::thread::scope(|scope| {
            let mend = scope.spawn(|| {
                let _ended = EndOnPanic(&place.run.cancel);
                let log = || std::fs::read_to_string(node.error_log()).unwrap();
                wait_until("it fails", || log().contains("no-such-provider"));
                // The failure is reported only after a while; write-sets are kept throughout.
                application.writes(2 * RING);
                std::thread::sleep(Duration::from_secs(11));
                std::fs::write(node.config(), &config).unwrap();
                node.begin(&NodeStart::join()).unwrap();
            });
            let broken = format!("{config}\n[mysqld]\nwsrep_provider=/no-such-provider.so\n");
            let mut work = Doing(|| std::fs::write(node.config(), &broken).unwrap());
            place.comes_back(1, &plan, &mut work);
            mend.join().unwrap();
        });
    });
}

/// Holders are told to stop when others need the memory. They still have what they had kept by
/// then.
// Hazard of clusters: A machine that keeps write-sets runs low on memory
fn a_machine_has_little_left(cluster: &EphemeralCluster, state: &Path) {
    let place = Place::new(cluster, state);
    let plan = place.plan(1, Some(64 << 20));
    let limits = MaintainLimits {
        keep_free: u64::MAX,
        ..LIMITS
    };
    let holders = [0, 2].map(|node| &cluster.nodes()[node]);
    let work = &mut Until(&|| holders.iter().all(|node| memory(node) == "0"));
    let outcome = place.maintain(1, &plan, limits, work).unwrap();
    // Memory ran short; the hold did not run out.
    assert_eq!(outcome.given_up, None, "{outcome:?}");
    assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
    place.nothing_is_left();
}

/// Writes until none of the kept write-sets are left, then pauses. They stay in memory until the
/// ring has been overwritten. The pause is for the full copy: under writes that overwrite the ring
/// within a second it fails, because the donor no longer has the write-sets that must follow it.
fn forgets(application: &Application<'_>) {
    application.writes(4 * RING);
    application.pause.store(true, Ordering::SeqCst);
}

/// More is written than may be kept: the maintenance notices, no setting is left changed, and the
/// node takes a full copy.
fn a_hold_runs_out(cluster: &EphemeralCluster, state: &Path) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        let place = Place::new(cluster, state);
        let plan = place.plan(1, Some(2 << 20));
        let limits = MaintainLimits {
            allow_sst: true,
            ..LIMITS
        };
        let mut lost = Until(&|| {
            application.writes(RING / 4);
            let given_up = [0, 2]
                .iter()
                .all(|node| memory(&cluster.nodes()[*node]) == "0");
            if given_up {
                forgets(application);
            }
            given_up
        });
        let outcome = place.maintain(1, &plan, limits, &mut lost).unwrap();
        let reason = outcome.given_up.as_deref().unwrap_or_default();
        assert!(reason.contains("keeps write-sets from"), "{outcome:?}");
        place.was_warned(1, reason);
        assert_eq!(outcome.proof.by, CameBy::Sst, "{outcome:?}");
        assert_eq!(outcome.work_failed.as_deref(), Some("it went wrong"));
        place.nothing_is_left();
        // Time is a limit as well, and a full copy that was not allowed is not started.
        application.pause.store(false, Ordering::SeqCst);
        let place = Place::new(cluster, state);
        let plan = place.plan(1, Some(64 << 20));
        let limits = MaintainLimits {
            hold: Duration::from_secs(2),
            ..LIMITS
        };
        let error = place.maintain(1, &plan, limits, &mut lost).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("was not started, because it would take a full copy"),
            "{text}"
        );
        place.was_warned(
            1,
            "the time for it is over (2 s). It will need a full copy (SST) unless",
        );
        let node = &cluster.nodes()[1];
        assert_eq!(node.pid().unwrap(), None);
        assert!(node.state().is_some_and(|state| state.is_known()), "{text}");
        node.start().unwrap();
        place.nothing_is_left();
    });
}

/// A start outlasts the hold while the ring is overwritten: the node comes back by what is kept, or
/// not at all.
#[test]
fn a_slow_start_takes_no_copy() {
    let options =
        GaleraOptions::new(servers::nodes(), 3).provider_option("gcache.size", RING.to_string());
    let cluster = &servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        application.writes(RING);
        let node = &cluster.nodes()[1];
        // In the first round the kept write-sets last; in the second they are taken away.
        for lasts in [true, false] {
            let place = Place::new(cluster, state);
            let plan = place.plan_for(Duration::from_secs(1), 1, Some(64 << 20));
            let limits = MaintainLimits {
                hold: Duration::from_secs(2),
                start: None,
                allow_sst: false,
                keep_free: 0,
            };
            let before = node.pid().unwrap();
            let away = AtomicBool::new(false);
            let result = std::thread::scope(|scope| {
                scope.spawn(|| {
                    wait_until("it leaves", || away.load(Ordering::SeqCst));
                    wait_until("it starts", || {
                        node.pid().unwrap().is_some_and(|pid| Some(pid) != before)
                    });
                    let _thawed = Thaw(node);
                    node.freeze().unwrap();
                    std::thread::sleep(Duration::from_secs(3));
                    if !lasts {
                        for holder in [0, 2] {
                            let holder = &cluster.nodes()[holder];
                            servers::set_provider_option(holder, "gcache.mem_size", "0");
                        }
                    }
                    // Write-sets in memory stay until the ring has been overwritten.
                    application.writes(if lasts { 4 * RING } else { 12 * RING });
                    // A full copy would fail under such writes, and so go unnoticed.
                    application.pause.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_secs(2));
                    // The maintenance may have ended it while frozen.
                    let thawed = node.thaw();
                    assert!(thawed.is_ok() || !lasts, "{thawed:?}");
                });
                let mut work = Doing(|| away.store(true, Ordering::SeqCst));
                place.maintain(1, &plan, limits, &mut work)
            });
            match result {
                Ok(outcome) => {
                    assert!(lasts, "{outcome:?}");
                    assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
                }
                Err(error) => {
                    assert!(!lasts, "{error}");
                    let text = error.to_string();
                    assert!(text.contains("it was stopped again"), "{text}");
                    assert_eq!(node.pid().unwrap(), None);
                    let position = node.recover().unwrap();
                    assert!(position.seqno > 0, "nothing was wiped: {position}");
                    node.start().unwrap();
                }
            }
            application.pause.store(false, Ordering::SeqCst);
            place.nothing_is_left();
        }
    });
}

fn nothing_is_begun_where_it_would_not_last(cluster: &EphemeralCluster, state: &Path) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        application.writes(RING);
        let place = Place::new(cluster, state);
        let plan = place.plan_for(Duration::from_secs(60), 1, Some(2 << 20));
        assert!(!plan.lasts(), "{plan:?}");
        let before = cluster.nodes()[1].pid().unwrap();
        let error = place
            .maintain(
                1,
                &plan,
                LIMITS,
                &mut Doing(|| unreachable!("nothing is begun")),
            )
            .unwrap_err();
        assert!(matches!(error, MaintainError::Short { .. }), "{error}");
        assert_eq!(cluster.nodes()[1].pid().unwrap(), before);
        // Another live run has told a node what to keep: that must not be changed.
        let other = Place::new(cluster, state);
        let mut theirs = settings::AppliedSettings::new(&other.run.dir);
        let change = settings::PlannedChange {
            name: settings::GCACHE_MEMORY.to_owned(),
            old: String::new(),
            new: (80 << 20).to_string(),
            reason: String::new(),
            gain: String::new(),
        };
        let changes = settings::SettingsPlan {
            changes: vec![change],
            ..settings::SettingsPlan::default()
        };
        let mut conn = connect(&cluster.nodes()[2]);
        theirs
            .apply(&mut conn, &changes, &other.run.events)
            .unwrap();
        let plan = place.plan(1, Some(128 << 20));
        let error = place
            .maintain(
                1,
                &plan,
                LIMITS,
                &mut Doing(|| unreachable!("nothing is begun")),
            )
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains(other.run.dir.id().as_str()), "{text}");
        assert_eq!(
            memory(&cluster.nodes()[0]),
            "0",
            "what was told before that is undone"
        );
        theirs.revert(&mut conn, &other.run.events).unwrap();
        assert_eq!(status(&cluster.nodes()[1], "local_state_comment"), "Synced");
    });
}

/// A provider that can freeze purging is told to. What it keeps then grows beside its data: within
/// the allowed bytes, as long as there is room and someone watches.
// Hazard of clusters: A provider that throws nothing away (`gcache.freeze_purge_at_seqno`): within
//   its budget, while there is room, and while somebody watches | (by hand: `make test-freeze`)
#[test]
#[ignore = "needs a provider that can freeze its cache: make test-freeze PROVIDER=FILE"]
fn a_provider_that_can_freeze_is_told_to() {
    let options = servers::freezing(3).provider_option("gcache.size", RING.to_string());
    let cluster = &servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let others = [&cluster.nodes()[0], &cluster.nodes()[2]];
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        application.writes(RING);
        what_is_frozen_outlasts_the_ring(&Place::new(cluster, state), application);
        // The application writes more than may be kept.
        let place = Place::new(cluster, state);
        let plan = place.plan(1, Some(2 << 20));
        let limits = MaintainLimits {
            allow_sst: true,
            ..LIMITS
        };
        let mut lost = Until(&|| {
            application.writes(RING / 4);
            let thawed = others.iter().all(|node| !is_frozen(node));
            if thawed {
                forgets(application);
            }
            thawed
        });
        let outcome = place.maintain(1, &plan, limits, &mut lost).unwrap();
        let reason = outcome.given_up.as_deref().unwrap_or_default();
        let words = format!("has kept the {} bytes that were allowed", 2 << 20);
        assert!(reason.contains(&words), "{outcome:?}");
        place.was_warned(1, reason);
        place.nothing_is_left();
    });
    // The disk is almost full: what is kept by then stays, and nobody writes.
    let place = Place::new(cluster, state);
    let plan = place.plan(1, Some(64 << 20));
    let limits = MaintainLimits {
        keep_free: u64::MAX,
        ..LIMITS
    };
    let mut work = Until(&|| others.iter().all(|node| !is_frozen(node)));
    let outcome = place.maintain(1, &plan, limits, &mut work).unwrap();
    assert_eq!(outcome.given_up, None, "{outcome:?}");
    assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
    let notes = format!("{:?}", place.notes.0.lock().unwrap());
    assert!(notes.contains("bytes left on its disk"), "{notes}");
    place.nothing_is_left();
    nobody_watches_any_more(&Place::new(cluster, state), others);
}

fn what_is_frozen_outlasts_the_ring(place: &Place<'_>, application: &Application<'_>) {
    let nodes = place.cluster.nodes();
    let plan = place.plan_for(Duration::from_secs(15), 1, None);
    let ways: Vec<Way> = plan.holders.iter().map(|holder| holder.way).collect();
    assert_eq!(ways, [Way::Freeze; 2], "{plan:?}");
    let mut work = Doing(|| {
        for other in [0, 2] {
            let seqno: u64 = frozen(&nodes[other]).unwrap().parse().unwrap();
            assert!(seqno > 0 && memory(&nodes[other]) == "0");
        }
        application.writes(6 * RING);
        // Nobody else can begin another hold in the meantime.
        let how = Observation {
            tables: WantedTables::Never,
            ..Observation::default()
        };
        let view = observe("c", &place.members, &how);
        let wish = HoldWish {
            away: Duration::from_secs(5),
            bytes: None,
            available: vec![None; 3],
            disk: vec![None; 3],
        };
        let against = plan_hold(&view, &place.members[0].name, &wish).unwrap_err();
        assert!(
            against[0].reason.contains("holds write-sets from"),
            "{against:?}"
        );
    });
    let outcome = place.comes_back(1, &plan, &mut work);
    assert!(
        (outcome.back - outcome.left) * ROW > 6 * RING,
        "{outcome:?}"
    );
}

/// A run that gives up watching leaves no node behind that keeps write-sets until its disk is full.
fn nobody_watches_any_more(place: &Place<'_>, others: [&GaleraNode; 2]) {
    let plan = place.plan(1, Some(64 << 20));
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = EndOnPanic(&place.run.cancel);
            wait_until("it is frozen", || others.iter().all(|node| is_frozen(node)));
            wait_until("it is down", || {
                place.cluster.nodes()[1].pid().unwrap().is_none()
            });
            std::thread::sleep(Duration::from_secs(1));
            place.run.cancel.cancel_hard(CancelReason::Signal(2));
        });
        place.maintain(1, &plan, LIMITS, &mut Endless)
    })
    .unwrap_err();
    assert!(matches!(error, MaintainError::NotBack { .. }), "{error}");
    assert!(others.iter().all(|node| !is_frozen(node)), "{error}");
    let mut state = open_maintenance(&place.run.dir).unwrap().unwrap();
    let goes_on = Place::new(place.cluster, place.state);
    let run = Run {
        dir: RunDir::open(place.state, place.run.dir.id()).unwrap(),
        ..goes_on.run
    };
    let goes_on = Place { run, ..goes_on };
    let outcome = goes_on.with(1, LIMITS, |maintenance| maintenance.finish(&mut state));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
    goes_on.nothing_is_left();
}
