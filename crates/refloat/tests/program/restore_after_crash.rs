//! `refloat cluster restore` of a crashed cluster while nodes die.

// Hazard of clusters: G-12 a full copy that cannot work, of a cluster that was down when the plan
//   was made

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use refloat_sandbox::GaleraOptions;
use refloat_testkit::disk::SmallDisk;
use refloat_testkit::servers;
use refloat_wire::{ConnectOptions, Connection};

use crate::restore::{LONG, Numbers, Place, ROWS, at_words};
use crate::support::{Run, among_own_mounts, command, signal, state_folder};

/// Limit for leftovers of a copy to end by themselves: later than that they are stuck.
const STUCK: Duration = Duration::from_secs(15);

#[test]
fn a_cluster_that_crashed_is_restored_although_nodes_die() {
    // Commits survive the crash of a node that serves alone.
    let options = GaleraOptions::new(servers::nodes(), 3);
    let place = Place::with(&options.option("innodb_flush_log_at_trx_commit", "1"));
    let settings = place.settings();
    let numbers = Numbers::begin(&place);
    place.ask(
        0,
        "CREATE DATABASE kept; CREATE TABLE kept.k (id INT PRIMARY KEY); INSERT INTO kept.k VALUES (1), (2)",
    );
    place.all_are_in_step();
    place.cluster.crash().expect("it crashes");
    for at in 0..3 {
        let text = fs::read_to_string(place.node(at).grastate()).expect("a state");
        assert!(text.contains("-1"), "{text}");
    }
    // From here on applications write as soon as a node serves.
    numbers.while_written(&place, || nodes_die(&place));
    a_node_that_is_silent_is_not_taken_for_none(&place);
    place.cluster.crash().expect("it crashes");
    let other = on_two_machines(&place);
    place.is_whole();
    numbers.are_there(&place, 100);
    assert_eq!(place.settings(), settings);
    write_sets_are_kept_for_one(&place, other.path());
    assert_eq!(
        place.ask(2, "SELECT COUNT(*), SUM(id) FROM shop.t"),
        format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2)
    );
    assert_eq!(place.ask(1, "SELECT COUNT(*) FROM kept.k"), "2");
}

/// Kills the node that is loaded into, the donor, the joiner, and then the program as well.
fn nodes_die(place: &Place) {
    let (first, second) = (place.name(0), place.name(1));
    the_chosen_one_dies(place);
    place
        .restore(&["--node", first, "--stop-before", "rejoin"])
        .exits(5);
    let again = || place.restore_by(&place.cluster.toml(), &[]);

    // At the time of the plan no node was up to be asked what would make a copy fail.
    let taken = TcpListener::bind(place.node(1).sst_address()).expect("the port is free");
    place
        .restore(&[])
        .exits(1)
        .says(&format!(
            "{second}: a full copy to it would fail, so it was not started: "
        ))
        .says("--ignore-advice");
    assert!(place.node(1).pid().expect("a node").is_none());
    drop(taken);

    // The donor dies in the middle of the copy, and the next time the joiner.
    let words = format!("starting {second}");
    for at in [0, 1] {
        let (code, all) = at_words(&mut again(), &words, |_| dies_amid_a_copy(place, at));
        assert_eq!(code, Some(1), "{all}");
        assert_eq!(
            all.contains(&format!(
                "{first} is down, and the others are to take copies of it"
            )),
            at == 1,
            "{all}"
        );
        // SST helpers outlive their server, and the next copy would be told to wait for them.
        for node in [0, 1].map(|at| place.node(at)) {
            end_all(&node.helpers());
        }
    }
    // The program dies with the donor: the joiner waits forever.
    let (code, all) = at_words(&mut again(), &words, |child| {
        dies_amid_a_copy(place, 0);
        child.kill().expect("it can be killed");
    });
    assert_eq!(code, None, "{all}");
    end_all(&place.node(0).helpers());
    let waits = place.node(1).pid().expect("a node");
    assert!(waits.is_some(), "{all}");
    // The same command ends the waiting joiner, and is killed once the node is back.
    let begun = Instant::now();
    let (_, all) = at_words(
        &mut again(),
        &format!("{second} is back by a full copy"),
        |child| child.kill().expect("it can be killed"),
    );
    assert!(all.contains(&words), "{all}");
    assert!(
        all.contains(&format!("ending {second}: it waits for a copy")),
        "{all}"
    );
    // A plain stop would first wait for the copy.
    assert!(begun.elapsed() < LONG, "{all}");
}

/// Kills a node while the first one gives a copy. The SST helpers are stopped until it is dead,
/// because copying so little takes no time.
// Hazard of clusters: The node that gives the copy of a restore dies in the middle of it, the one
//   that takes it, and the one that gives it with the program
fn dies_amid_a_copy(place: &Place, at: usize) {
    let donor = place.node(0);
    let begun = Instant::now();
    let moves = loop {
        let helpers = donor.helpers();
        if !helpers.is_empty() {
            break helpers;
        }
        assert!(begun.elapsed() < LONG, "no copy is given");
        std::thread::sleep(Duration::from_millis(5));
    };
    signal_all("-STOP", &moves);
    let state = place.ask(0, "SHOW STATUS LIKE 'wsrep_local_state_comment'");
    assert!(state.ends_with("Donor/Desynced"), "{state}");
    place.node(at).kill().expect("it can be killed");
    signal_all("-CONT", &moves);
}

/// Sends a signal to those of the processes that still exist.
fn signal_all(which: &str, processes: &[u32]) {
    let processes = processes.iter().map(u32::to_string);
    let sent = Command::new("kill").arg(which).args(processes).output();
    sent.expect("kill is there");
}

/// Kills processes and waits until they are gone.
fn end_all(processes: &[u32]) {
    if processes.is_empty() {
        return;
    }
    signal_all("-KILL", processes);
    let begun = Instant::now();
    for process in processes {
        while Path::new(&format!("/proc/{process}")).exists() {
            assert!(begun.elapsed() < LONG, "{process} does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The node that is loaded into dies in the middle of the load, and while it bootstraps the
/// cluster: the same command resumes.
// Hazard of clusters: The chosen node dies in the middle of the load, and while it begins the
//   cluster
fn the_chosen_one_dies(place: &Place) {
    let first = place.name(0);
    let command = || place.restore_by(&place.cluster.toml(), &["--node", first]);
    let dies_at = |words: &str, ready: fn(&Place)| {
        let (code, all) = at_words(&mut command(), words, |_| {
            let begun = Instant::now();
            while place.node(0).pid().expect("a node").is_none() {
                assert!(begun.elapsed() < LONG, "it is not started");
                std::thread::sleep(Duration::from_millis(20));
            }
            ready(place);
            place.node(0).kill().expect("it can be killed");
        });
        assert_eq!(code, Some(1), "{all}");
        all
    };
    let all = dies_at("refloat: load of ", some_rows_are_in);
    assert!(
        all.contains("The same command resumes at this step"),
        "{all}"
    );
    let all = dies_at(&format!("{first} bootstraps the cluster"), |_| ());
    assert!(
        all.contains("resuming the restore") && all.contains("it has ended while it bootstrapped"),
        "{all}"
    );
}

/// Waits for the first rows on the standalone node.
pub fn some_rows_are_in(place: &Place) {
    let options = ConnectOptions {
        socket: Some(place.node(0).datadir().join("refloat-standalone.sock")),
        user: "root".to_owned(),
        read_timeout: Some(LONG),
        ..ConnectOptions::default()
    };
    let begun = Instant::now();
    let some = || {
        let mut conn = Connection::connect(&options).ok()?;
        let answer = conn.query("SELECT 1 FROM shop.t LIMIT 1").ok()?;
        (!answer.is_empty()).then_some(())
    };
    while some().is_none() {
        assert!(begun.elapsed() < LONG, "no rows come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The donor is gone, and a node that has taken a copy is silent: it may serve alone.
// Hazard of clusters: A silent node of the new history is not taken for an absent one, and the
//   history is not begun again beside it
fn a_node_that_is_silent_is_not_taken_for_none(place: &Place) {
    let (first, second) = (place.name(0), place.node(1));
    let pid = second.pid().expect("a node");
    assert!(pid.is_some());
    second.freeze().expect("it can be frozen");
    place.node(0).kill().expect("it can be killed");
    place.restore(&[]).exits(1).says(&format!(
        "{first}: it is down, and {} runs, has been in the new history and does not answer",
        second.name()
    ));
    assert_eq!(second.pid().expect("a node"), pid);
    assert!(place.node(0).pid().expect("a node").is_none());
    second.thaw().expect("it goes on");
}

/// Runs a command as from another machine that sees the same nodes, with runs and locks of its own.
fn elsewhere(place: &Place, other: &Path, here: &Command) -> Run {
    among_own_mounts(
        "mount --bind \"$0/runs\" \"$1/runs\" && mount --bind \"$0/clusters\" \"$1/clusters\"",
        [other, place.state.path()],
        here,
    )
}

/// The run's folder is copied to another machine while its program is stopped, and again used there
/// once it has ended.
fn on_two_machines(place: &Place) -> tempfile::TempDir {
    let other = state_folder();
    fs::create_dir(other.path().join("clusters")).expect("a folder");
    let elsewhere = |args: &[&str]| {
        let here = place.restore_by(&place.cluster.toml(), args);
        elsewhere(place, other.path(), &here)
    };
    let mut pid = String::new();
    let mut here = place.restore_by(&place.cluster.toml(), &[]);
    let left = place.node(0).datadir().join("refloat-restore.json");
    let (code, all) = at_words(&mut here, "refloat: step rejoin", |child| {
        pid = child.id().to_string();
        signal("-STOP", &pid);
        let copied = Command::new("cp")
            .arg("-a")
            .args([place.state.path().join("runs"), other.path().join("runs")])
            .status();
        assert!(copied.expect("cp").success());
        elsewhere(&[])
            .exits(3)
            .says(&format!("process {pid} on "))
            .says(" drives a restore of ");
        nobody_else_starts_a_node(place, &pid);
        // Whether a process on an unreachable machine has ended is unknown.
        let claim = fs::read_to_string(&left).expect("who drives it");
        let field = |text: &str| format!("\"{text}\":\"");
        let (boot, host) = (field("boot_id"), field("host"));
        let strange = claim
            .replace(&boot, &format!("{boot}x"))
            .replace(&host, &format!("{host}far-"));
        assert_ne!(claim, strange);
        fs::write(&left, strange).expect("it can be written");
        elsewhere(&[])
            .exits(3)
            .says(" on far-")
            .says("--take-over says that it has");
        child.kill().expect("it can be killed");
    });
    assert_eq!(code, None, "{all}");
    // A user knows that it has ended, and says so.
    elsewhere(&["--take-over"]).exits(0);
    assert!(!left.exists(), "who has driven it is there still");
    // The folder left behind knows nothing of that, and finds everything done.
    let behind = place.restore(&[]).exits(0);
    assert!(!behind.stderr.contains("LOST"), "{}", behind.stderr);
    other
}

/// A machine that knows nothing of the restore sees that it is under way.
fn nobody_else_starts_a_node(place: &Place, pid: &str) {
    let other = state_folder();
    for folder in ["runs", "clusters"] {
        fs::create_dir_all(other.path().join(folder)).expect("a folder");
    }
    for verb in ["rejoin", "maintain"] {
        let mut command = command(place.state.path());
        command.args(["cluster", verb, place.name(1), "--plan", "--no-defaults"]);
        command.arg("--cluster").arg(place.cluster.toml());
        elsewhere(place, other.path(), &command)
            .exits(3)
            .says(&format!("process {pid} on "))
            .says(" drives a restore of the cluster that ");
    }
}

/// A maintenance on another machine has raised what a node keeps: that is not ours to use, and goes
/// when the maintenance ends.
// Hazard of clusters: Two maintenances, or one and a rejoin, a rolling maintenance or a restore,
//   from two machines | , `program/maintenance.rs`: `nobody_begins_beside_it`
fn write_sets_are_kept_for_one(place: &Place, other: &Path) {
    let (second, third) = (place.name(1), place.name(2));
    let maintain = |node: &str, args: &[&str]| {
        let mut command = command(place.state.path());
        command.args(["cluster", "maintain", node, "--no-defaults", "--cluster"]);
        command.arg(place.cluster.toml()).args(args);
        command
    };
    let here = |args: &[&str]| Run::of(&mut maintain(second, args)).exits(0);
    here(&["--hold", "200M", "--begin"]);
    elsewhere(place, other, &maintain(third, &["--", "true"]))
        .exits(3)
        .says("keeps write-sets for another run (");
    here(&["--end"]);
    // The rings alone are enough, so no node is told anything: the mark on the node's machine is
    // the only sign.
    here(&["--for", "1s", "--begin"]);
    let mut rejoin = command(place.state.path());
    rejoin.args(["cluster", "rejoin", second, "--no-defaults", "--cluster"]);
    rejoin.arg(place.cluster.toml());
    for other_one in [maintain(third, &["--", "true"]), rejoin] {
        elsewhere(place, other, &other_one)
            .exits(3)
            .says(&format!("{second}: process "))
            .says(" drives a maintenance of it");
    }
    here(&["--end"]);
    assert!(
        !place
            .node(1)
            .datadir()
            .join("refloat-maintain.json")
            .exists()
    );
}

#[test]
fn a_restore_goes_on_whatever_becomes_of_the_others() {
    let place = Place::new();
    let before = place.settings();
    let numbers = Numbers::begin(&place);
    let mut grown = None;
    numbers.while_written(&place, || {
        killed_while_rows_are_replicated(&place);
        assert_eq!(place.settings(), before);
        place.ask(0, "DROP DATABASE shop");
        place.all_are_in_step();
        one_dies_while_it_is_stopped(&place);
        grown = Some(one_has_no_room_for_its_copy(&place));
        one_dies_while_it_is_compared(&place);
    });
    place.is_whole();
    all_rows_are_there(&place);
    numbers.are_there(&place, 500);
    assert_eq!(place.settings(), before);
    drop(grown);
}

#[track_caller]
fn all_rows_are_there(place: &Place) {
    for at in 0..3 {
        let sql = "SET wsrep_sync_wait = 15; SELECT COUNT(*), SUM(id) FROM shop.t";
        assert_eq!(
            place.ask(at, sql),
            format!("{ROWS}\t{}", ROWS * (ROWS + 1) / 2),
            "{}",
            place.name(at)
        );
    }
}

/// The program dies in the middle of a load into the running cluster, and the next time one of the
/// nodes that receive the rows.
// Hazard of clusters: `kill -9` of a restore that replicates rows, and of a node that receives
//   them: no row twice, none missing
fn killed_while_rows_are_replicated(place: &Place) {
    // Without `--node` the node with the most space is taken, which on one disk may be any.
    let args = ["--way", "replicate", "--node", place.name(0)];
    let again = || place.restore_of(&place.dump, &place.cluster.toml(), &args);
    let rows = |at: usize| {
        let count = place.node(at).query("SELECT COUNT(*) FROM shop.t");
        count.ok().and_then(|rows| rows.parse::<u64>().ok())
    };
    let some_came = |at: usize, more_than: u64| {
        let begun = Instant::now();
        while rows(at).is_none_or(|rows| rows <= more_than) {
            assert!(begun.elapsed() < LONG, "no rows come");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let (code, all) = at_words(&mut again(), "refloat: load of ", |child| {
        some_came(2, 0);
        child.kill().expect("it can be killed");
    });
    assert_eq!(code, None, "{all}");
    let had = rows(0).expect("rows");
    assert!(had > 0 && had < ROWS, "not in the middle: {had}");
    let third = place.name(2);
    let (code, all) = at_words(&mut again(), "refloat: load of ", |_| {
        place.node(2).kill().expect("it can be killed");
    });
    assert_eq!(code, Some(1), "{all}");
    assert!(all.contains(&format!("error: verify {third}: ")), "{all}");
    servers::start_killed(place.node(2));
    let done = Run::of(&mut again()).exits(0);
    assert!(
        done.stdout.contains("the same on all 3 nodes"),
        "{}",
        done.stdout
    );
    all_rows_are_there(place);
}

/// It has not recorded its position, but its tables know it.
// Hazard of clusters: A node that is killed while a restore stops it, and while it is compared | ,
//   `one_dies_while_it_is_compared`
fn one_dies_while_it_is_stopped(place: &Place) {
    let (first, second) = (place.name(0), place.name(1));
    let pid = place.node(1).pid().expect("a node").expect("it runs");
    let mut restore = place.restore_by(
        &place.cluster.toml(),
        &["--node", first, "--stop-before", "rejoin"],
    );
    // A server stops within a second, so the killer must be running beforehand.
    let mut killer = Command::new("sh")
        .args(["-c", &format!("read _; kill -KILL {pid}")])
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh is there");
    let (code, all) = at_words(&mut restore, &format!("stopping {second}"), |_| {
        let now = killer.stdin.take().expect("a pipe").write_all(b"\n");
        now.expect("it reads");
    });
    killer.wait().expect("it ends");
    assert_eq!(code, Some(5), "{all}");
    assert!(
        all.contains(&format!("{second} did not end cleanly: its tables are at ")),
        "{all}"
    );
}

/// The file system that a node takes its copy on is full. That is reported before the start, and by
/// the node itself if a user insists. Its old data are set aside and stay. With more room the same
/// command resumes.
// Hazard of clusters: A joiner's disk that fills up with the copy of a restore: reported
//   beforehand, and with its donor's message; half a copy is no reason to give up
fn one_has_no_room_for_its_copy(place: &Place) -> SmallDisk {
    let second = place.name(1);
    let small = SmallDisk::mount_over(&place.node(1).datadir(), 60).expect("a small disk");
    place
        .restore(&[])
        .exits(1)
        .says(&format!(
            "{second}: a full copy to it would fail, so it was not started: "
        ))
        .says("there is too little space for a copy of ");
    assert!(place.node(1).pid().expect("a node").is_none());
    let failed = place.restore(&["--ignore-advice"]).exits(1);
    // The receiving helper's error reaches us through the sender.
    let failed = failed
        .says(&format!(
            "{second} is not back: it has ended while it started"
        ))
        .says("The same command resumes");
    assert!(failed.stderr.contains("No space left"), "{}", failed.stderr);
    let folder = fs::read_dir(place.node(1).folder()).expect("a folder");
    let aside: Vec<_> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains("data.refloat-"))
        .collect();
    assert!(
        aside.len() == 1 && aside[0].join("ibdata1").exists(),
        "{aside:?}"
    );
    small.grow(1000);
    // A helper that waits for the rest of a copy may do so forever, and block the next copy: it is
    // named. Most end by themselves.
    let begun = Instant::now();
    let mut left = place.node(1).helpers();
    while !left.is_empty() && begun.elapsed() < STUCK {
        std::thread::sleep(Duration::from_millis(100));
        left = place.node(1).helpers();
    }
    if !left.is_empty() {
        place
            .restore(&[])
            .exits(1)
            .says("an earlier copy still runs (process ");
        end_all(&left);
    }
    small
}

/// It dies while its rows are compared. A node that is gone after its comparison is found as well.
fn one_dies_while_it_is_compared(place: &Place) {
    let second = place.name(1);
    let mut again = place.restore_by(&place.cluster.toml(), &[]);
    let (code, all) = at_words(&mut again, "refloat: the first is read as of ", |_| {
        place.node(1).kill().expect("it can be killed");
    });
    assert_eq!(code, Some(1), "{all}");
    assert!(
        all.contains(&format!("error: comparing {second}: "))
            || all.contains(&format!("error: verify {second}: ")),
        "{all}"
    );
    let mut done = place.restore(&[]);
    // Galera occasionally starts an IST beyond what a killed node expects.
    if done.code == 1 {
        done.says("node restart required");
        done = place.restore(&[]);
    }
    let done = done.exits(0);
    let compared = format!("comparing {second} with {}", place.name(0));
    let done = done
        .says(&format!("{second} is back by what it has missed (IST)"))
        .says(&compared);
    assert!(
        done.stdout.contains("the same on all 3 nodes"),
        "{}",
        done.stdout
    );
}
