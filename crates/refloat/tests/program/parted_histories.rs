//! What nodes hold is compared before they join. If somebody bootstraps a node that did not hold
//! the newest data, the history keeps its UUID and seqnos are assigned twice.

// Hazard of clusters: G-03, G-04 positions after a total outage: recovered, compared, two
//   candidates and what cannot be seen refused; a node whose history has diverged from the
//   cluster's is refused before it joins, and nodes that differ are named

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_sandbox::{GaleraNode, NodeStart};
use refloat_testkit::wait_until;

use crate::maintenance::{LONG, Place, Running};
use crate::support::{Run, command, with_control};

/// Attempts at catching a node in the middle of its start.
const ROUNDS: usize = 20;
/// How often a starting node is asked whether it is up.
const RARELY: Duration = Duration::from_millis(500);

#[test]
fn what_nodes_hold_is_compared_before_they_join() {
    let place = Place::new(false);
    place.all_are_in_step();
    a_joiner_that_dies_before_it_gets_anything_keeps_its_place(&place);
    nodes_that_have_parted_are_told_apart(&place);
    what_is_not_known_is_not_proven(&place);
    nodes_that_differ_are_named(&place);
    a_cluster_begins_again_where_all_is_held(&place);
}

fn forgets(node: &GaleraNode) -> bool {
    let text = fs::read_to_string(node.grastate()).unwrap_or_default();
    text.contains("00000000-0000-0000-0000-000000000000")
}

fn uuid(place: &Place, at: usize) -> String {
    place.ask(at, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_cluster_state_uuid'")
}

fn insert(place: &Place, at: usize, from: u32, to: u32) {
    for id in from..to {
        place.ask(at, &format!("INSERT INTO app.t VALUES ({id}, 'node {at}')"));
    }
}

/// Makes every acknowledged write survive a kill of the server.
fn lasts(place: &Place) {
    for at in 0..3 {
        place.ask(at, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    }
}

/// Bootstraps a node by hand, whichever node left last.
fn begin_by_hand(node: &GaleraNode) {
    let text = fs::read_to_string(node.grastate()).expect("a place");
    let insisted = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
    fs::write(node.grastate(), insisted).expect("it can be written");
    node.start_with(&NodeStart::bootstrap())
        .expect("it begins a cluster");
}

/// From a joiner's request until the answer, its grastate.dat holds no position.
fn a_joiner_that_dies_before_it_gets_anything_keeps_its_place(place: &Place) {
    let (node, name) = (place.node(2), place.name(2));
    let gets_it_back = "gets back the position that its grastate.dat has lost: ";
    dies_early(place, &|| {
        place
            .run(&["maintain", name], &["--for", "1m", "--begin"])
            .exits(0);
    });
    let ended = place.run(&["maintain", name], &["--end"]).exits(0);
    assert!(
        ended.stderr.contains(gets_it_back) && ended.stderr.contains(" is back by IST"),
        "{}{}",
        ended.stderr,
        ended.stdout
    );
    place.all_are_in_step();
    place.ask(0, "DELETE FROM app.t");
    dies_early(place, &|| node.stop().expect("it stops"));
    let plan = place.run(&["rejoin", name], &["--plan"]).exits(0).stdout;
    assert!(
        plan.contains("comes     by IST: ")
            && plan.contains("  position  its grastate.dat lost it"),
        "{plan}"
    );
    let back = place
        .run(&["rejoin", name], &["--verify"])
        .exits(0)
        .says(gets_it_back);
    for words in [
        "is back by IST: 3",
        "hold the same ",
        "all nodes hold the same\n",
    ] {
        assert!(back.stdout.contains(words), "{words}: {}", back.stdout);
    }
}

/// The third node is stopped, misses something, is started by hand, and dies once it has asked for
/// it.
fn dies_early(place: &Place, stop: &dyn Fn()) {
    let (node, name) = (place.node(2), place.name(2));
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        stop();
        insert(place, 0, 0, 34);
        node.begin(&NodeStart::join()).expect("it starts");
        until_it_asks_or_is_there(place);
        node.freeze().expect("it can be stopped");
        let caught = forgets(node);
        if caught {
            node.crash().expect("it can be killed");
            if forgets(node) {
                return;
            }
            seen.push("it was answered before it died");
        } else {
            node.thaw().expect("it goes on");
            seen.push("it was answered before it was stopped");
        }
        place.ask(0, "DELETE FROM app.t");
        place.run(&["maintain", name], &["--end"]);
        place.run(&["rejoin", name], &[]);
        place.all_are_in_step();
    }
    let grastate = fs::read_to_string(node.grastate());
    panic!("never caught: {seen:#?}, now {grastate:?}");
}

/// The file shows only for a moment that the node asks, and querying the server takes longer, so
/// that is done rarely.
fn until_it_asks_or_is_there(place: &Place) {
    let begun = Instant::now();
    let mut next_look = begun + RARELY;
    while !forgets(place.node(2)) {
        assert!(begun.elapsed() < LONG, "it neither asks nor is there");
        if Instant::now() >= next_look {
            if place.in_step(2) {
                return;
            }
            next_look = Instant::now() + RARELY;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The first node is killed, the others carry on and are killed, and somebody bootstraps the first.
fn nodes_that_have_parted_are_told_apart(place: &Place) {
    lasts(place);
    place.node(0).kill().expect("it can be killed");
    wait_until("the others go on", || {
        let size = place.node(1).query("SHOW STATUS LIKE 'wsrep_cluster_size'");
        size.is_ok_and(|size| size.ends_with("\t2"))
    });
    insert(place, 1, 100, 102);
    place.ask(
        2,
        "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*) FROM app.t",
    );
    place.node(1).kill().expect("it can be killed");
    place.node(2).kill().expect("it can be killed");

    // What should have been done.
    place
        .run(&["rejoin", place.name(1)], &[])
        .exits(3)
        .says("`refloat cluster bootstrap --plan --cluster ");
    let plan = place.run(&["bootstrap"], &["--plan"]).exits(0).stdout;
    assert!(
        plan.contains(&format!("  begins    {} at ", place.name(1))),
        "{plan}"
    );
    assert_eq!(
        plan.matches("(recovered from its tables").count(),
        3,
        "{plan}"
    );

    // What was done instead.
    begin_by_hand(place.node(0));
    insert(place, 0, 200, 207);
    let history = uuid(place, 0);
    place
        .run(&["verify"], &[])
        .exits(3)
        .says(&format!("{} alone is in sync", place.name(0)));
    place
        .run(&["bootstrap"], &["--plan"])
        .exits(3)
        .says("the cluster already serves (")
        .says(&format!(
            "`refloat cluster rejoin {} --cluster ",
            place.name(1)
        ));
    for at in [1, 2] {
        let name = place.name(at);
        let rejoin = |more: &[&str]| place.run(&["rejoin", name], more);
        rejoin(&[])
            .exits(3)
            .says(&format!(
                "{name} and the cluster have diverged: both hold the same up to "
            ))
            .says("has 2 write-sets (app.t; written ")
            .says("Z) that the cluster does not have")
            .says("`refloat verify URL-OF-A-NODE URL-OF-IT` names the rows");
        assert!(place.node(at).pid().expect("a node").is_none());
        if at == 1 {
            // Where its write-sets cannot be read, the beginning of the cluster's view tells.
            let ring = place.node(at).datadir().join("galera.cache");
            fs::rename(&ring, aside(&ring)).expect("it can be renamed");
            rejoin(&[])
                .exits(3)
                .says("went on without it from an earlier position");
            fs::rename(aside(&ring), &ring).expect("it can be renamed");
        }
        rejoin(&["--allow-sst"])
            .exits(3)
            .says("2 write-sets (app.t; written ")
            .says(&format!("--allow-sst --discard {history}"));
        let back = rejoin(&["--allow-sst", "--discard", &history, "--verify=quick"]).exits(0);
        assert!(
            back.stdout.contains("by a FULL COPY (SST)")
                && back.stdout.contains(&format!("{name} holds the same as")),
            "{}",
            back.stdout
        );
    }
    place.all_are_the_same();
}

/// Where a file is when it is not where it is looked for.
fn aside(file: &Path) -> PathBuf {
    file.with_extension("aside")
}

/// A node of which neither the write-sets nor the log can be read joins, and nothing is proven of
/// what it held.
fn what_is_not_known_is_not_proven(place: &Place) {
    let node = place.node(2);
    node.stop().expect("it stops");
    for file in [node.datadir().join("galera.cache"), node.error_log()] {
        fs::rename(&file, aside(&file)).expect("it can be renamed");
    }
    let run = place.run(&["rejoin", place.name(2)], &[]).exits(4);
    assert!(
        run.stdout.contains("POSITIONS ONLY: whether what it held"),
        "{}",
        run.stdout
    );
    place.run(&["verify"], &["--quick"]).exits(0);
}

fn nodes_that_differ_are_named(place: &Place) {
    let verify = |more: &[&str]| place.run(&["verify"], more);
    for how in [&[][..], &["--quick"]] {
        let run = verify(how).exits(0);
        let stdout = run.stdout;
        assert!(stdout.contains("all nodes hold the same"), "{stdout}");
        for at in [1, 2] {
            let note = format!("comparing {} with {}", place.name(at), place.name(0));
            assert!(run.stderr.contains(&note), "{}", run.stderr);
        }
    }
    place.ask(2, "SET SESSION wsrep_on = OFF; UPDATE app.t SET v = 'other' WHERE id = 200; CREATE TABLE app.only (id INT PRIMARY KEY)");
    for how in [&[][..], &["--quick"]] {
        let stdout = verify(how).exits(4).stdout;
        let (of_second, of_third) = stdout
            .split_once(&format!(
                "  {} DIFFERS from {} in\n",
                place.name(2),
                place.name(0)
            ))
            .expect("the third is named");
        assert!(of_second.contains("holds the same as"), "{stdout}");
        for what in ["    app.t\n", "app.only\n"] {
            assert!(of_third.contains(what), "{what}: {stdout}");
        }
    }
    let stdout = verify(&["--quick", "--json"]).exits(4).stdout;
    assert!(stdout.contains(r#""differ":["app.t""#), "{stdout}");
    gets_a_copy_all_the_same(place);
    verify(&["--quick"]).exits(0);

    // Rows that no server can read have no checksum: NULL on both nodes proves nothing.
    place.ask(
        0,
        "CREATE TABLE app.torn (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=MyISAM",
    );
    for at in 0..3 {
        place.ask(at, "SET SESSION wsrep_sync_wait = 15; SELECT COUNT(*) FROM app.torn; SET SESSION wsrep_on = OFF; INSERT INTO app.torn VALUES (1, 'a'), (2, 'b'); FLUSH LOCAL TABLES app.torn");
        let rows = place.node(at).grastate().with_file_name("app/torn.MYD");
        fs::write(rows, b"torn").expect("it can be written");
    }
    let run = verify(&["--quick"]);
    assert_ne!(run.code, 0, "{}", run.stdout);
    assert!(run.stderr.contains("app.torn"), "{}", run.stderr);
    place.ask(0, "DROP TABLE app.torn");
    verify(&["--quick"]).exits(0);
    what_an_account_does_not_see_is_not_the_same(place);
}

/// An account without SELECT sees no table, and so no difference.
fn what_an_account_does_not_see_is_not_the_same(place: &Place) {
    place.ask(
        0,
        "CREATE USER blind; GRANT PROCESS, REPLICATION CLIENT ON *.* TO blind",
    );
    let list = fs::read_to_string(place.cluster.toml()).expect("the list of nodes");
    let blind = place.state.path().join("blind.toml");
    fs::write(&blind, list.replace("root@", "blind@")).expect("it can be written");
    let run = |words: &[&str]| {
        let mut command = command(place.state.path());
        command
            .arg("cluster")
            .args(words)
            .arg("--cluster")
            .arg(&blind);
        Run::of(command.arg("--no-defaults"))
    };
    let stdout = run(&["verify", "--quick"]).exits(4).stdout;
    assert!(stdout.contains("no SELECT on all databases"), "{stdout}");
    let stdout = run(&["status", "--tables"]).stdout;
    assert!(stdout.contains("no SELECT on all databases"), "{stdout}");
    place.ask(0, "DROP USER blind");
}

/// The others still keep what it missed, so IST would work, but would leave its data as it is.
fn gets_a_copy_all_the_same(place: &Place) {
    let name = place.name(2);
    let copy = format!("--allow-sst --discard {}", uuid(place, 0));
    let command = format!("`refloat cluster rejoin {name} {copy} --cluster ");
    let stdout = place.run(&["verify"], &["--quick"]).exits(4).stdout;
    assert!(stdout.contains(&command), "{stdout}");
    place.node(2).stop().expect("it stops");
    let copy: Vec<&str> = copy.split(' ').collect();
    let plan = place.run(&["rejoin", name], &["--plan"]).exits(0).stdout;
    assert!(plan.contains("comes     by IST"), "{plan}");
    let back = place.run(&["rejoin", name], &copy).exits(0);
    assert!(
        back.stderr
            .contains("position  is removed, so that it takes a full copy")
            && back.stdout.contains("is back by a FULL COPY (SST)"),
        "{}{}",
        back.stderr,
        back.stdout
    );
}

fn a_cluster_begins_again_where_all_is_held(place: &Place) {
    // The third node carries on alone, and the others without it.
    place.node(2).stop().expect("it stops");
    insert(place, 0, 300, 303);
    place.node(1).stop().expect("it stops");
    place.node(0).stop().expect("it stops");
    begin_by_hand(place.node(2));
    insert(place, 2, 400, 402);
    let history = uuid(place, 2);
    place.node(2).stop().expect("it stops");
    let bootstrap = |more: &[&str]| place.run(&["bootstrap"], more);
    place
        .run(&["status"], &[])
        .exits(1)
        .says("`refloat cluster bootstrap --plan --cluster ");
    let unclear = bootstrap(&[])
        .exits(3)
        .says("it is not clear which node to bootstrap from")
        .says("write-sets (app.t; written ")
        .says("--node NODE bootstraps from that one");
    for at in 0..3 {
        let stands = format!("{} is at {history}:", place.name(at));
        assert!(unclear.stderr.contains(&stands), "{}", unclear.stderr);
    }
    assert!((0..3).all(|at| place.node(at).pid().expect("a node").is_none()));
    what_cannot_be_seen_is_left_out_by_name(place);
    let begun = bootstrap(&["--node", place.name(0)]).exits(3);
    for words in [
        format!(
            "{} has bootstrapped the cluster at {history}:",
            place.name(0)
        ),
        format!("{} is back by IST", place.name(1)),
        format!("{} is NOT BACK: ", place.name(2)),
    ] {
        assert!(begun.stdout.contains(&words), "{words}: {}", begun.stdout);
    }
    let begun = begun
        .says("the cluster serves, and a node was refused after ")
        .says("hint: The cluster serves, and this node was not started.");
    for words in ["nothing was touched", "Nothing was started"] {
        assert!(!begun.stderr.contains(words), "{words}: {}", begun.stderr);
    }
    let discard = ["--allow-sst", "--discard", &history];
    place.run(&["rejoin", place.name(2)], &discard).exits(0);
    place.all_are_in_step();

    // All nodes are killed, and then the program that bootstraps the cluster.
    lasts(place);
    insert(place, 0, 500, 503);
    for at in 0..3 {
        place.node(at).kill().expect("it can be killed");
    }
    let without = ["--without", place.name(2)];
    let mut running = Running::start(place.cluster(&["bootstrap"], &without));
    running.says(" bootstraps the cluster at ");
    running.kill();
    let serves = |at: usize| {
        let ready = place.node(at).query("SHOW STATUS LIKE 'wsrep_ready'");
        ready.is_ok_and(|ready| ready.ends_with("ON"))
    };
    let verified = loop {
        wait_until("the node is there, or was not started", || {
            let runs = |at| place.node(at).pid().is_ok_and(|pid| pid.is_some());
            (0..3).all(|at| !runs(at) || serves(at))
        });
        if (0..3).any(serves) {
            bootstrap(&[])
                .exits(3)
                .says(" has not ended: it was begun as --node ")
                .says("and now nobody is left out");
        }
        let run = bootstrap(&["--verify", without[0], without[1]]);
        // What the killed program had asked for may start the node a moment later.
        if !run
            .stderr
            .contains("does not answer, but its process is there")
        {
            break run;
        }
    };
    let begun = verified.exits(0).stdout;
    for words in [
        " is back by IST",
        &format!("{} was left out\n", place.name(2)),
        "all nodes hold the same\n",
    ] {
        assert!(begun.contains(words), "{words}: {begun}");
    }
    place.run(&["rejoin", place.name(2)], &[]).exits(0);
    place.all_are_in_step();
    assert_eq!(
        place.ask(2, "SELECT COUNT(*) FROM app.t WHERE id >= 500"),
        "3",
        "what was acknowledged is there"
    );
}

/// The position of a node that cannot be examined is unknown: nothing is bootstrapped beside it
/// unless the user names it.
fn what_cannot_be_seen_is_left_out_by_name(place: &Place) {
    let name = place.name(2);
    let listed = fs::read_to_string(place.cluster.toml()).expect("a list");
    let text = with_control(&listed, name, "ssh = \"no-such-machine.invalid\"");
    let file = place.state.path().join("unseen.toml");
    fs::write(&file, text).expect("a list can be written");
    let plan = |more: &[&str]| {
        let mut command: Command = crate::support::command(place.state.path());
        command.args([
            "cluster",
            "bootstrap",
            "--plan",
            "--no-defaults",
            "--cluster",
        ]);
        Run::of(command.arg(&file).args(more))
    };
    plan(&[])
        .exits(3)
        .says(&format!("the position of {name} is not known"))
        .says(&format!("--without {name} continues all the same"));
    let page = plan(&["--without", name]).exits(0).stdout;
    assert!(
        page.contains(&format!("  begins    {} at ", place.name(0))),
        "{page}"
    );
    plan(&["--node", "nobody"])
        .exits(3)
        .says("no node is called nobody");
}
