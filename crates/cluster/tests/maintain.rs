//! Nodes that go away and come back, on a real cluster whose ring is overwritten again and again by an application.
//!
//! `REFLOAT_MAINTAIN_ROUNDS` says how often a node goes away under the steady load.

#[path = "nodes/application.rs"]
mod application;
mod nodes;
#[path = "nodes/thaw.rs"]
mod thaw;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use refloat_cluster::{
    CameBy, Control, HoldPlan, HoldWish, Host, MaintainError, MaintainLimits, Maintained,
    Maintenance, Member, Observation, WantedTables, Way, Work, observe, open_maintenance,
    plan_hold,
};
use refloat_run::events::{EventSink, Record};
use refloat_run::{Cancel, CancelReason, Events, Progress, Run, RunDir, settings};
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, NodeStart};
use refloat_testkit::servers;
use refloat_wire::{ConnectOptions, Connection};

use application::{Application, LONG, ROW, memory, option, wait};
use nodes::{connect, members};
use thaw::Thaw;

/// The ring of every node.
const RING: u64 = 1 << 20;

fn status(node: &GaleraNode, name: &str) -> String {
    let mut conn = connect(node);
    let answer = conn.query(format!("SHOW STATUS LIKE 'wsrep_{name}'"));
    answer.unwrap().str(0, 1).unwrap_or_default().to_owned()
}

/// What is done while a node is away.
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

/// What is done while a node is away, until a moment.
struct Until<'a>(&'a dyn Fn() -> bool);

impl Work for Until<'_> {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        (self.0)().then_some(Err("it went wrong".to_owned()))
    }
}

/// What is done while a node is away, without an end, and not ended when one asks.
struct Endless;

impl Work for Endless {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        None
    }
}

/// Ends a maintenance if the thread fails that was to have it go on: it would wait forever.
struct EndOnPanic<'a>(&'a Cancel);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel_hard(CancelReason::Signal(2));
        }
    }
}

/// What a person is told.
#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl EventSink for Said {
    fn event(&self, record: &Record) {
        self.0.lock().unwrap().push(format!("{record:?}"));
    }
}

struct Place<'a> {
    said: Arc<Said>,
    cluster: &'a EphemeralCluster,
    members: Vec<Member>,
    state: &'a Path,
    run: Run,
}

impl<'a> Place<'a> {
    fn new(cluster: &'a EphemeralCluster, state: &'a Path) -> Self {
        let (said, events) = (Arc::new(Said::default()), Events::new());
        events.add(Arc::clone(&said) as Arc<dyn EventSink>);
        Self {
            said,
            cluster,
            // Nobody has said where the data are: the servers do.
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
        let control = Control::Sandbox(Box::new(self.cluster.nodes()[node].clone()));
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
            // What a test that fails says of it; the logs go with the cluster.
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

    /// A maintenance after which the node came back by what was kept for it, and nothing stays changed.
    fn comes_back(&self, node: usize, plan: &HoldPlan, work: &mut dyn Work) -> Maintained {
        let outcome = self.maintain(node, plan, LIMITS, work).unwrap();
        assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
        assert_eq!(outcome.given_up, None, "{outcome:?}");
        assert!(outcome.not_released.is_empty(), "{outcome:?}");
        self.nothing_is_left();
        outcome
    }

    /// It was said in clear words that nothing is kept for the node any more, and why.
    fn was_told(&self, node: usize, reason: &str) {
        let words = format!(
            "write-sets are not kept for {} any more: {reason}",
            self.members[node].name
        );
        let said = self.said.0.lock().unwrap();
        assert!(
            said.iter().any(|one| one.contains(&words)),
            "{words}: {said:#?}"
        );
    }

    fn nothing_is_left(&self) {
        for node in self.cluster.nodes() {
            assert_eq!(memory(node), "0", "{}", node.name());
            assert!(!is_frozen(node), "{}", node.name());
            let mut conn = connect(node);
            // What was removed on one node may not be gone on the next one yet; 1 alone does not wait for what is shown.
            conn.exec("SET SESSION wsrep_sync_wait = 15").unwrap();
            let left = conn.query("SHOW DATABASES LIKE 'refloat%'").unwrap();
            assert!(left.is_empty(), "{}: {}", node.name(), journal(&mut conn));
        }
        assert!(settings::list(self.state).unwrap().is_empty());
        assert_eq!(open_maintenance(&self.run.dir).unwrap(), None);
    }
}

/// From which write-set on a node throws none away; `-1`: it does. `None`: its provider cannot be told that.
fn frozen(node: &GaleraNode) -> Option<String> {
    option(node, "gcache.freeze_purge_at_seqno")
}

/// Whether a node was told to throw nothing away.
fn is_frozen(node: &GaleraNode) -> bool {
    frozen(node).is_some_and(|seqno| seqno != "-1")
}

/// What the journals on a server look like, for a test that fails.
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
}

/// Nobody has to wait for a node that does not stop.
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
        wait(&words, || {
            let said = place.said.0.lock().unwrap();
            said.iter().any(|one| one.contains(&words))
        });
    };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = EndOnPanic(&place.run.cancel);
            says(format!("stopping {name}"));
            place.run.cancel.cancel(CancelReason::Signal(2));
            // The first Ctrl-C does not leave a node behind that may stop in a moment.
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

/// A node that hangs answers as little as one that is down: what was to be done while it is down is not done.
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
                wait("it hangs", stopped);
                std::thread::sleep(Duration::from_secs(2));
                cancel.cancel_hard(CancelReason::Signal(2));
            });
            maintenance.run("c", &plan, &mut Doing(|| unreachable!("it has not left")))
        });
        node.thaw().unwrap();
        let error = error.unwrap_err();
        assert!(matches!(error, MaintainError::Unseen { .. }), "{error}");
        // It is as it was before it has noticed anything; what waits for all others says more.
        wait("all are in step again", || {
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
            // What it missed is what was counted: each write-set is a row.
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

/// One of those that keep what is missed crashes, and takes what it kept along: the other one has it too. It was half of what was left, so
/// nothing can be written before it is back.
fn a_holder_is_killed(cluster: &EphemeralCluster, state: &Path) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        let place = Place::new(cluster, state);
        let plan = place.plan_for(Duration::from_secs(15), 1, Some(64 << 20));
        let told = |words: &str| plan.warnings.iter().any(|warning| warning.contains(words));
        assert!(
            told("is away, 2 nodes are left: if one of them crashes"),
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

/// Nobody answers when the node is to be started, so nobody says what is kept: it is kept all the same, and the node comes by it.
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

/// A start that fails before the node has asked for what it missed leaves it where it was. (One that fails later does not: an option that the
/// server does not know is found only then, and makes Galera forget where the node stands.)
fn a_node_does_not_start_until_it_is_mended(cluster: &EphemeralCluster, state: &Path) {
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        let place = Place::new(cluster, state);
        // Galera wants the more distance from the oldest write-set that is kept the longer this takes.
        let plan = place.plan_for(Duration::from_secs(40), 1, Some(256 << 20));
        let node = &cluster.nodes()[1];
        let config = std::fs::read_to_string(node.config()).unwrap();
        std::thread::scope(|scope| {
            let mend = scope.spawn(|| {
                let _ended = EndOnPanic(&place.run.cancel);
                let log = || std::fs::read_to_string(node.error_log()).unwrap();
                wait("it fails", || log().contains("no-such-provider"));
                // It is said only after a while, and kept all the time.
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

/// Those that keep write-sets are told to stop when others need the memory. What they have by then they have still.
fn a_machine_has_little_left(cluster: &EphemeralCluster, state: &Path) {
    let place = Place::new(cluster, state);
    let plan = place.plan(1, Some(64 << 20));
    let limits = MaintainLimits {
        keep_free: u64::MAX,
        ..LIMITS
    };
    let told = [0, 2].map(|node| &cluster.nodes()[node]);
    let work = &mut Until(&|| told.iter().all(|node| memory(node) == "0"));
    let outcome = place.maintain(1, &plan, limits, work).unwrap();
    // Not because the time was over.
    assert_eq!(outcome.given_up, None, "{outcome:?}");
    assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
    place.nothing_is_left();
}

/// Writes until nothing that was kept is left, and rests then. What was kept stays where it is until the ring has been written over; and a full
/// copy under writes that overwrite the ring within a second is none: the donor has lost what the copy begins with.
fn forgets(application: &Application<'_>) {
    application.writes(4 * RING);
    application.pause.store(true, Ordering::SeqCst);
}

/// More is written than is allowed to be kept: that is noticed, nothing stays changed, and the node takes a full copy.
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
        place.was_told(1, reason);
        assert_eq!(outcome.proof.by, CameBy::Sst, "{outcome:?}");
        assert_eq!(outcome.work_failed.as_deref(), Some("it went wrong"));
        place.nothing_is_left();
        // The time is a limit as well; and a full copy that nobody has allowed is not begun.
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
        place.was_told(
            1,
            "the time for it is over (2 s). It will need a full copy (SST) unless",
        );
        let node = &cluster.nodes()[1];
        assert_eq!(node.pid().unwrap(), None);
        assert!(
            node.state().is_some_and(|state| state.position.is_known()),
            "{text}"
        );
        node.start().unwrap();
        place.nothing_is_left();
    });
}

/// A start takes longer than the hold was to last, and the ring is written over meanwhile: the node comes by what is kept, or not at all.
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
        // What is kept lasts, and then somebody takes it away.
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
                    wait("it leaves", || away.load(Ordering::SeqCst));
                    wait("it starts", || {
                        node.pid().unwrap().is_some_and(|pid| Some(pid) != before)
                    });
                    let _thawed = Thaw(node);
                    node.freeze().unwrap();
                    std::thread::sleep(Duration::from_secs(3));
                    if !lasts {
                        for holder in [0, 2] {
                            let holder = &cluster.nodes()[holder];
                            servers::tell_provider(holder, "gcache.mem_size", "0");
                        }
                    }
                    // What is in memory stays until the ring has been written over.
                    application.writes(if lasts { 4 * RING } else { 12 * RING });
                    // A full copy under such writes comes to grief, and would not be seen.
                    application.pause.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_secs(2));
                    // It is ended as it lies there.
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
        // Another run that lives has told a node what to keep: that is not to be changed.
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

/// A provider that can be told to throw nothing away is told so, and what it keeps grows beside its data: within the bytes that are allowed, as long
/// as there is room, and as long as somebody watches.
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
        // More is written than is allowed.
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
        place.was_told(1, reason);
        place.nothing_is_left();
    });
    // Its disk has little left: what is kept by then is kept still, and nobody writes.
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
    let said = format!("{:?}", place.said.0.lock().unwrap());
    assert!(said.contains("bytes left on its disk"), "{said}");
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
        // Nobody else begins the same meanwhile.
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
        assert!(against[0].contains("holds write-sets from"), "{against:?}");
    });
    let outcome = place.comes_back(1, &plan, &mut work);
    assert!(
        (outcome.back - outcome.left) * ROW > 6 * RING,
        "{outcome:?}"
    );
}

/// Whoever gives up watching leaves nobody behind who keeps write-sets until the disk is full.
fn nobody_watches_any_more(place: &Place<'_>, others: [&GaleraNode; 2]) {
    let plan = place.plan(1, Some(64 << 20));
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = EndOnPanic(&place.run.cancel);
            wait("it is frozen", || others.iter().all(|node| is_frozen(node)));
            wait("it is down", || {
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
