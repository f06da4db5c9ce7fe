//! Nodes that are down come back on a real cluster, while an application keeps overwriting the
//! ring.

#[path = "nodes/application.rs"]
mod application;
#[path = "nodes/control.rs"]
mod control;
mod nodes;
#[path = "nodes/slow.rs"]
mod slow;
#[path = "nodes/thaw.rs"]
mod thaw;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use refloat_cluster::{
    CameBy, Leave, Member, Observation, RejoinError, RejoinKind, RejoinPlan, Rejoined, Rejoining,
    WantedTables, Way, observe, plan_hold_for_start, plan_rejoin,
};
use refloat_host::Control;
use refloat_run::settings::{self, AppliedSettings, PlannedChange, SettingsPlan};
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions};
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use application::{Application, LONG, memory};
use nodes::{connect, members};
use slow::others_take_long;
use thaw::Thaw;

/// Ring size of every node: room for more than nodes write before they tell each other what they
/// have applied. So no page files are used; when those go, everything older goes with them.
const RING: u64 = 8 << 20;
/// Index of the node that comes back.
const NODE: usize = 1;
/// Indexes of the nodes that keep what it misses; applications write to the first.
const OTHERS: [usize; 2] = [0, 2];

struct Place<'a> {
    cluster: &'a EphemeralCluster,
    members: Vec<Member>,
    control: Control,
    state: &'a Path,
    run: Run,
    start_limit: Option<Duration>,
}

impl<'a> Place<'a> {
    fn new(cluster: &'a EphemeralCluster, state: &'a Path) -> Self {
        Self {
            cluster,
            members: members(cluster),
            control: control::of(&cluster.nodes()[NODE]),
            state,
            run: Run {
                dir: RunDir::create(state, "cluster rejoin").unwrap(),
                cancel: Cancel::new(),
                events: Events::new(),
                progress: Progress::new(),
            },
            start_limit: None,
        }
    }

    fn node(&self) -> &GaleraNode {
        &self.cluster.nodes()[NODE]
    }

    fn plan(&self) -> RejoinPlan {
        let how = Observation {
            sample: Duration::from_millis(500),
            tables: WantedTables::Never,
            ..Observation::default()
        };
        let view = observe("c", &self.members, &how);
        let name = &self.members[NODE].name;
        let mut plan = plan_rejoin(&view, &self.members, name, &self.control, &how).unwrap();
        // The plan takes a quarter of this: 64 MiB.
        let available = vec![Some(256 << 20); 3];
        plan.hold = plan_hold_for_start(&view, &plan, None, (available, vec![None; 3]));
        assert!(
            matches!(plan.forecast.kind, RejoinKind::Ist { .. }),
            "{plan:?}"
        );
        plan
    }

    fn bring_back(&self, plan: &RejoinPlan) -> Result<Rejoined, RejoinError> {
        let rejoining = Rejoining {
            members: &self.members,
            control: &self.control,
            state_dir: self.state,
            run: &self.run,
            start_limit: self.start_limit,
        };
        rejoining.bring_back(plan, &Leave::default())
    }

    /// Brings the node back with its server frozen from its first moment until `meanwhile` has
    /// ended.
    fn bring_back_slowly(
        &self,
        plan: &RejoinPlan,
        meanwhile: impl FnOnce() + Send,
    ) -> Result<Rejoined, RejoinError> {
        let node = self.node();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let starts = || node.pid().unwrap().is_some();
                wait_until("it starts", || starts() || over.load(Ordering::SeqCst));
                if starts() {
                    let _thawed = Thaw(node);
                    node.freeze().unwrap();
                    meanwhile();
                }
            });
            let result = self.bring_back(plan);
            over.store(true, Ordering::SeqCst);
            result
        })
    }

    /// Stops the node while the others still have what it will miss. Under the application's load
    /// they would lose it within a second, so the application pauses.
    fn stop_node(&self, application: &Application<'_>) {
        application.pause.store(true, Ordering::SeqCst);
        self.node().stop().unwrap();
    }

    /// Asserts that no node keeps extra write-sets and that no journal is open.
    fn nothing_is_left(&self) {
        for node in self.cluster.nodes() {
            assert_eq!(memory(node), "0", "{}", node.name());
        }
        assert!(settings::list(self.state).unwrap().is_empty());
    }

    fn tell_memory(&self, size: &str) {
        for other in OTHERS {
            let other = &self.cluster.nodes()[other];
            servers::set_provider_option(other, "gcache.mem_size", size);
        }
    }
}

/// A start takes so long that the ring is overwritten before the node asks for what it missed.
#[test]
fn what_a_node_misses_is_kept_while_it_starts() {
    let options =
        GaleraOptions::new(servers::nodes(), 3).provider_option("gcache.size", RING.to_string());
    let cluster = &servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let application = Application::new(&cluster.nodes()[0]);
    application.during(cluster, |application| {
        application.writes(RING);
        a_slow_start_is_waited_for(cluster, folder.path(), application);
        what_another_run_keeps_is_left_alone(cluster, folder.path(), application);
        a_node_that_takes_too_long_is_not_waited_for(cluster, folder.path(), application);
        a_node_that_has_given_up_is_not_waited_for(cluster, folder.path(), application);
        a_node_is_ended_before_it_takes_a_copy(cluster, folder.path(), application);
    });
    a_node_that_has_left_is_not_waited_for(cluster, folder.path());
}

/// Resumes the application until it has written `bytes` more.
fn writes(application: &Application<'_>, bytes: u64) {
    application.pause.store(false, Ordering::SeqCst);
    application.writes(bytes);
}

fn a_slow_start_is_waited_for(
    cluster: &EphemeralCluster,
    state: &Path,
    application: &Application<'_>,
) {
    let place = Place::new(cluster, state);
    place.stop_node(application);
    who_is_behind_is_asked_last(&place);
    let plan = place.plan();
    let hold = plan.hold.as_ref().unwrap();
    let memories = hold.holders.iter().map(|holder| (holder.at, holder.way));
    let mut memories: Vec<_> = memories.collect();
    memories.sort_by_key(|(at, _)| *at);
    assert_eq!(memories, OTHERS.map(|at| (at, Way::Memory)));
    let outcome = place
        .bring_back_slowly(&plan, || {
            let kept = OTHERS.map(|other| memory(&cluster.nodes()[other]));
            assert_eq!(kept, ["64M", "64M"]);
            // Journaled in case of a kill -9: two memory settings, and the donor that the node is
            // told to ask.
            assert_eq!(settings::list(state).unwrap().len(), 3);
            writes(application, 2 * RING);
        })
        .unwrap();
    assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
    assert!(outcome.not_released.is_empty(), "{outcome:?}");
    place.nothing_is_left();
}

/// Of two holders that nobody writes to, the one with nothing left to apply is asked first.
fn who_is_behind_is_asked_last(place: &Place<'_>) {
    let [behind, other] = OTHERS.map(|at| &place.cluster.nodes()[at]);
    let limit = |writes: &str| {
        for node in [behind, other] {
            servers::set_provider_option(node, "gcs.fc_limit", writes);
        }
    };
    limit("10000");
    let mut conn = connect(other);
    for sql in [
        "USE app",
        "CREATE TABLE later (n INT AUTO_INCREMENT PRIMARY KEY)",
    ] {
        conn.exec(sql).unwrap();
    }
    others_take_long(&mut conn, 6000);
    for _ in 0..50 {
        conn.exec("INSERT INTO later VALUES ()").unwrap();
    }
    let plan = place.plan();
    let asked: Vec<&str> = plan.donors.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(asked, [other.name(), behind.name()], "{plan:?}");
    assert!(
        plan.donors[1].why.contains(" write-sets behind"),
        "{plan:?}"
    );
    conn.exec("DROP TABLE no_key, later").unwrap();
    let mut conn = connect(behind);
    conn.exec("SET SESSION wsrep_sync_wait = 15").unwrap();
    conn.query("SHOW TABLES FROM app").unwrap();
    limit("16");
}

fn what_another_run_keeps_is_left_alone(
    cluster: &EphemeralCluster,
    state: &Path,
    application: &Application<'_>,
) {
    let place = Place::new(cluster, state);
    place.stop_node(application);
    let plan = place.plan();
    let change = PlannedChange {
        name: settings::GCACHE_MEMORY.to_owned(),
        old: String::new(),
        new: (32 << 20).to_string(),
        reason: String::new(),
        gain: String::new(),
    };
    let changes = SettingsPlan {
        changes: vec![change],
        ..SettingsPlan::default()
    };
    let theirs = OTHERS.map(|other| {
        let dir = RunDir::create(state, "cluster hold").unwrap();
        let mut applied = AppliedSettings::new(&dir);
        let mut conn = connect(&cluster.nodes()[other]);
        applied
            .apply(&mut conn, &changes, &place.run.events)
            .unwrap();
        (applied, conn)
    });
    let outcome = place.bring_back_slowly(&plan, || writes(application, 2 * RING));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.proof.by, CameBy::Ist, "{outcome:?}");
    for other in OTHERS {
        assert_eq!(memory(&cluster.nodes()[other]), "32M");
    }
    for (mut applied, mut conn) in theirs {
        applied.revert(&mut conn, &place.run.events).unwrap();
    }
    place.nothing_is_left();
}

fn a_node_is_ended_before_it_takes_a_copy(
    cluster: &EphemeralCluster,
    state: &Path,
    application: &Application<'_>,
) {
    let place = Place::new(cluster, state);
    place.stop_node(application);
    let plan = place.plan();
    let error = place
        .bring_back_slowly(&plan, || {
            place.tell_memory("0");
            // Write-sets in memory stay until the ring has been overwritten.
            writes(application, 3 * RING);
            // A full copy would fail under such writes, and so go unnoticed.
            application.pause.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_secs(2));
        })
        .unwrap_err()
        .to_string();
    assert!(error.contains("it was stopped again"), "{error}");
    let node = place.node();
    assert_eq!(node.pid().unwrap(), None);
    let position = node.recover().unwrap();
    assert!(position.seqno > 0, "nothing was wiped: {position}");
    node.start().unwrap();
    application.pause.store(false, Ordering::SeqCst);
    place.nothing_is_left();
}

fn a_node_that_takes_too_long_is_not_waited_for(
    cluster: &EphemeralCluster,
    state: &Path,
    application: &Application<'_>,
) {
    let mut place = Place::new(cluster, state);
    place.stop_node(application);
    place.start_limit = Some(Duration::from_secs(4));
    let plan = place.plan();
    let error = place
        .bring_back_slowly(&plan, || std::thread::sleep(Duration::from_secs(8)))
        .unwrap_err()
        .to_string();
    for words in [
        "it is not in sync after 4 s (--start-limit)",
        "it was stopped again, because it would have taken a full copy",
    ] {
        assert!(error.contains(words), "{error}");
    }
    let node = place.node();
    assert_eq!(node.pid().unwrap(), None);
    node.start().unwrap();
    application.pause.store(false, Ordering::SeqCst);
    place.nothing_is_left();
}

/// The provider gives up but the server process stays, here by hanging: the log line is enough. (It
/// comes from a joiner that could not read what a donor of another version had sent.)
fn a_node_that_has_given_up_is_not_waited_for(
    cluster: &EphemeralCluster,
    state: &Path,
    application: &Application<'_>,
) {
    const LINE: &str = "0 [ERROR] WSREP: Receiving IST failed, node restart required: Unsupported CC action version: 71 (Protocol error)";
    let place = Place::new(cluster, state);
    place.stop_node(application);
    let plan = place.plan();
    let path = place.node().error_log();
    let starts = || {
        let log = std::fs::read_to_string(&path).unwrap();
        log.matches("Setting GCS initial position to").count()
    };
    let before = starts();
    let begun = Instant::now();
    let over = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let is_over = || over.load(Ordering::SeqCst);
            wait_until("it asks for its place", || starts() > before || is_over());
            if is_over() {
                return;
            }
            let node = place.node();
            let _thawed = Thaw(node);
            node.freeze().unwrap();
            let mut log = OpenOptions::new().append(true).open(&path).unwrap();
            writeln!(log, "{LINE}").unwrap();
            wait_until("it is given up", is_over);
        });
        let result = place.bring_back(&plan);
        over.store(true, Ordering::SeqCst);
        result
    });
    let error = result.unwrap_err().to_string();
    assert!(begun.elapsed() < LONG / 2, "{error}");
    assert!(
        error.contains("it has failed while it started")
            && error.contains(LINE)
            && error.contains("its server was ended"),
        "{error}"
    );
    let node = place.node();
    assert_eq!(node.pid().unwrap(), None);
    servers::start_killed(node);
    application.pause.store(false, Ordering::SeqCst);
    place.nothing_is_left();
}

/// The node failed to apply another node's write, declared itself inconsistent, and keeps running
/// outside the cluster.
fn a_node_that_has_left_is_not_waited_for(cluster: &EphemeralCluster, state: &Path) {
    let place = Place::new(cluster, state);
    let mut first = connect(&cluster.nodes()[0]);
    let mut node = connect(place.node());
    first.exec("CREATE DATABASE left_behind").unwrap();
    first
        .exec("CREATE TABLE left_behind.a (a INT PRIMARY KEY)")
        .unwrap();
    node.exec("SET SESSION wsrep_sync_wait = 15").unwrap();
    node.query("SELECT * FROM left_behind.a").unwrap();
    node.exec("SET SESSION wsrep_on = OFF").unwrap();
    node.exec("DROP TABLE left_behind.a").unwrap();
    first.exec("INSERT INTO left_behind.a VALUES (1)").unwrap();
    wait_until("it leaves", || {
        let connected = place.node().query("SHOW STATUS LIKE 'wsrep_connected'");
        connected.is_ok_and(|connected| connected.ends_with("OFF"))
    });
    let how = Observation {
        tables: WantedTables::Never,
        ..Observation::default()
    };
    let view = observe("c", &place.members, &how);
    let name = &place.members[NODE].name;
    let refused = plan_rejoin(&view, &place.members, name, &place.control, &how);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("runs, and has left its cluster (Inconsistent)"),
        "{refused}"
    );
}
