//! Deaths while nodes go away and come back: of donors and joiners during IST, of the program
//! between two nodes, of a node that is being stopped.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use refloat_sandbox::NodeStart;
use refloat_testkit::servers;
use refloat_testkit::wait_until;

use crate::maintenance::{LONG, Place, Running, goes_on_alone};
use crate::restore::gone;
use crate::support::{Run, command, with_control};

#[test]
fn whoever_dies_while_a_node_goes_or_comes_nothing_is_missing() {
    let place = Place::new(false);
    let before = place.kept();
    place.ask(
        0,
        "CREATE TABLE app.large (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB) ENGINE=InnoDB",
    );
    place.beside_an_application(|_| {
        a_joiner_is_killed_while_it_receives(&place);
        assert_eq!(place.kept(), before);
        a_donor_is_killed_while_it_sends(&place);
        assert_eq!(place.kept(), before);
        a_node_is_killed_by_what_is_to_stop_it(&place);
        assert_eq!(place.kept(), before);
        the_program_is_killed_between_two_nodes(&place, &before);
        assert_eq!(place.kept(), before);
        a_node_is_out_of_step_before_its_turn(&place);
    });
    assert_eq!(place.kept(), before);
}

/// A maintenance whose node is receiving what it missed. That is too much to have arrived already,
/// and the node is frozen. Returns the program and the index of the donor.
fn receives(place: &Place, at: usize) -> (Running, usize) {
    let [here, go] = ["here", "go"].map(|name| place.state.path().join(name));
    let _ = (fs::remove_file(&here), fs::remove_file(&go));
    let script = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.1; done",
        here.display(),
        go.display()
    );
    let command = place.cluster(
        &["maintain", place.name(at), "--for", "1m", "--hold", "128M"],
        &["--sample", "0.2s", "--", "sh", "-c", &script],
    );
    let running = Running::start(command);
    wait_until("the node is down", || here.exists());
    for _ in 0..20 {
        place.ask(
            0,
            "INSERT INTO app.large (v) VALUES (REPEAT(MD5(RAND()), 62500))",
        );
    }
    let node = place.node(at);
    let was = log(&node.error_log()).len();
    let since = || log(&node.error_log())[was..].to_owned();
    fs::write(&go, "").expect("a file");
    // The whole IST takes a fraction of a second, so poll often.
    let begun = Instant::now();
    while !since().contains("Receiving IST: ") {
        assert!(begun.elapsed() < LONG, "it does not receive");
        std::thread::sleep(Duration::from_millis(2));
    }
    node.freeze().expect("it can be frozen");
    let text = since();
    assert!(!text.contains("IST received: "), "{text}");
    let (_, selected) = text.rsplit_once(" Selected ").expect("a donor");
    let selected = selected.lines().next().unwrap_or_default();
    let donor = (0..3).find(|&at| selected.contains(place.name(at)));
    (running, donor.expect("one of them"))
}

fn log(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The node dies while it receives; it is started again, and continues with what is kept for it.
fn a_joiner_is_killed_while_it_receives(place: &Place) {
    let (mut running, donor) = receives(place, 1);
    // The node that keeps the most is asked first.
    let plan = running.stderr();
    let holder = plan
        .lines()
        .find_map(|line| line.trim().strip_prefix("kept by "));
    let holder = holder
        .and_then(|line| line.split(':').next())
        .map(str::trim);
    assert_eq!(holder, Some(place.name(donor)), "{plan}");
    place.node(1).kill().expect("it can be killed");
    running.says("What it misses is still kept");
    let started = place.node(1).begin(&NodeStart::join());
    started.expect("it can be started");
    let stderr = running.ends(0);
    assert!(stderr.contains("done and proven"), "{stderr}");
    place.all_are_in_step();
}

/// The donor dies while it sends. Its joiner gives up for good and exits, so two of three are gone:
/// the last node has no majority and rightly serves nobody until a person says that the others are
/// gone. The joiner is restarted automatically as soon as a node serves, and takes no full copy.
// Hazard of clusters: A joiner that is killed while it receives an IST, and its donor while it
//   sends that: two of three are gone, the last one serves nobody until an operator says so; no
//   full copy is taken
fn a_donor_is_killed_while_it_sends(place: &Place) {
    let (mut running, donor) = receives(place, 1);
    let third = (0..3).find(|&at| at != 1 && at != donor).expect("another");
    place.node(donor).kill().expect("it can be killed");
    place.node(1).thaw().expect("it goes on");
    running.says(&format!("{} has failed while it started: ", place.name(1)));
    running.says("Its server is ended and started again; what it misses is still kept");
    goes_on_alone(place.node(third));
    // The donor is still down: that is reported, and the node is back without it.
    let stderr = running.ends(6);
    assert!(
        stderr.contains(&format!(
            "{} may still keep write-sets: ",
            place.name(donor)
        )),
        "{stderr}"
    );
    servers::start_killed(place.node(donor));
    let ended = place.run(&["maintain", place.name(1)], &["--end"]).exits(0);
    assert!(ended.stdout.contains("by IST"), "{}", ended.stdout);
    place.all_are_in_step();
}

/// The stop command kills the node, so it does not record its position: its tables know it, and the
/// node comes back by IST. A node that has lost its position altogether stays down, because it
/// would take a full copy.
// Hazard of clusters: The command that should stop a node kills it: its position is recovered, or
//   it stays down if that is lost
fn a_node_is_killed_by_what_is_to_stop_it(place: &Place) {
    let (node, name) = (place.node(1), place.name(1));
    let maintain = |more: &str| {
        let pid = node.pid().expect("a node").expect("it runs");
        let listed = fs::read_to_string(place.cluster.toml()).expect("a list");
        let start_line = listed.lines().find(|line| {
            line.starts_with("control.start = ") && line.contains(&format!(" {name} "))
        });
        let control = format!(
            "{}\ncontrol.stop = \"kill -KILL {pid}; {}{more}\"",
            start_line.expect("a command"),
            gone(&pid.to_string()),
        );
        let text = with_control(&listed, name, &control);
        let file = place.state.path().join("killing.toml");
        fs::write(&file, text).expect("a list can be written");
        let mut command = command(place.state.path());
        command.args(["cluster", "maintain", name, "--no-defaults", "--cluster"]);
        command.arg(file);
        command.args(["--for", "1m", "--sample", "0.2s", "--", "true"]);
        Run::of(&mut command)
    };
    let unclean = format!("{name} has not recorded its position: it did not end cleanly");
    let run = maintain("").exits(0).says(&unclean);
    assert!(run.stdout.contains("by IST"), "{}", run.stdout);
    place.all_are_in_step();

    let grastate = node.grastate();
    let forgets = format!(
        "; sed -i.kept 's/^uuid: .*/uuid:    00000000-0000-0000-0000-000000000000/' {}",
        grastate.display()
    );
    maintain(&forgets)
        .exits(1)
        .says(&unclean)
        .says("it is down, and was not started, because it would take a full copy (SST)");
    assert!(node.pid().expect("a node").is_none());
    fs::rename(grastate.with_extension("dat.kept"), &grastate).expect("it is put back");
    place.run(&["rejoin", name], &[]).exits(0);
    place.all_are_in_step();
}

/// The program dies while a node is away: the same command finds that maintenance, and starts no
/// other beside it.
// Hazard of clusters: `kill -9` of `rolling` while its second node is away
fn the_program_is_killed_between_two_nodes(place: &Place, before: &[String]) {
    let [here, both] = [
        place.state.path().join("rolled"),
        place.state.path().join("both"),
    ];
    let nodes = [place.name(1), place.name(2)].join(",");
    let rolling = |script: &str| {
        place.cluster(
            &[
                "rolling", "--for", "1m", "--sample", "0.2s", "--nodes", &nodes,
            ],
            &["--", "sh", "-c", script],
        )
    };
    // Sleeps only while the second node is away.
    let script = format!(
        "[ -e {0} ] && touch {1}; touch {0}; [ ! -e {1} ] || sleep 5",
        here.display(),
        both.display()
    );
    let running = Running::start(rolling(&script));
    wait_until("a second node is down", || both.exists());
    running.kill();
    let away = (0..3)
        .find(|&at| place.node(at).pid().is_ok_and(|pid| pid.is_none()))
        .expect("one of them is down");
    let name = place.name(away);
    let claim = place.node(away).datadir().join("refloat-maintain.json");
    assert!(claim.exists(), "nothing says who maintains {name}");
    let again = || Run::of(&mut rolling("true"));
    again()
        .exits(3)
        .says(&format!("the maintenance of {name}, begun at "))
        .says("--end");
    let ended = place.run(&["maintain", name], &["--end"]).exits(0);
    assert!(ended.stdout.contains("by IST"), "{}", ended.stdout);
    assert!(!claim.exists(), "who has maintained {name} is there still");
    place.all_are_in_step();
    assert_eq!(place.kept(), before);
    let stdout = again().exits(0).stdout;
    assert!(
        stdout.contains("went away and came back by IST"),
        "{stdout}"
    );
    place.all_are_in_step();
}

/// Another node falls out of step while the first is away: no further node goes away, and those
/// still to come are named.
fn a_node_is_out_of_step_before_its_turn(place: &Place) {
    let [here, go] = ["first", "on"].map(|name| place.state.path().join(name));
    let script = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.1; done",
        here.display(),
        go.display()
    );
    let nodes = [place.name(1), place.name(2)].join(",");
    let running = Running::start(place.cluster(
        &[
            "rolling", "--for", "1m", "--sample", "0.2s", "--nodes", &nodes,
        ],
        &["--", "sh", "-c", &script],
    ));
    wait_until("the first node is down", || here.exists());
    let down = |at: usize| place.node(at).pid().is_ok_and(|pid| pid.is_none());
    let away = (0..3).find(|&at| down(at)).expect("one of them is down");
    let next = 3 - away;
    let pids = [0, next].map(|at| place.node(at).pid().expect("a node"));
    place.ask(next, "SET GLOBAL wsrep_desync = ON");
    fs::write(&go, "").expect("a file");
    let stderr = running.ends(3);
    for words in [
        format!("{} is Donor/Desynced and not Synced", place.name(next)),
        format!("Not touched: {}", place.name(next)),
    ] {
        assert!(stderr.contains(&words), "{words}: {stderr}");
    }
    place.ask(next, "SET GLOBAL wsrep_desync = OFF");
    assert_eq!(
        [0, next].map(|at| place.node(at).pid().expect("a node")),
        pids
    );
    place.all_are_in_step();
}
