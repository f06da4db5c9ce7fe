//! `refloat cluster`: refusals, and how a real cluster is shown. The cluster is that of the
//! sandbox's own test.

use std::io::Read as _;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use refloat_sandbox::Sandbox;
use refloat_testkit::wait_until;
use refloat_wire::{ConnectOptions, Connection};
use serde_json::Value;

use crate::maintenance::{LONG, Running, goes_on_alone};
use crate::support::{Run, command, refloat, signal};
use crate::time_limits::{KillOnDrop, Lines};

#[test]
fn lists_that_cannot_be_used_are_refused_with_what_is_wrong() {
    let none = refloat(&["cluster", "status"]).exits(2);
    assert!(none.stderr.contains("--cluster"), "{}", none.stderr);
    refloat(&["cluster", "status", "--cluster", "no-such.toml"])
        .exits(2)
        .says("cannot read no-such.toml: No such file or directory")
        .says("the URL of a node");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(
        &file,
        "name = \"c\"\n[[node]]\nname = \"n1\"\nurl = \"mysql://root:pw@127.0.0.1/\"\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let run = refloat(&["cluster", "status", "--cluster", path]).exits(2);
    assert!(!run.stderr.contains(":pw@"), "{}", run.stderr);
    std::fs::write(
        &file,
        "name = \"c\"\n[[node]]\nname = \"n1\"\nurl = \"mysql://root@127.0.0.1:1/\"\n",
    )
    .unwrap();
    let run = refloat(&["cluster", "status", "--cluster", path])
        .exits(1)
        .says("no node answers: connecting failed");
    assert!(run.stdout.contains("n1    no answer"), "{}", run.stdout);
    refloat(&[
        "cluster",
        "status",
        "--cluster",
        "mysql://root@127.0.0.1:1/",
    ])
    .exits(1)
    .says("Check host, port or socket");
    refloat(&["cluster", "advise", "--cluster", path])
        .exits(1)
        .says("no node answers: connecting failed");
    refloat(&["cluster", "status", "--cluster", path, "--sample", "0"])
        .exits(2)
        .says("between 0.1 and 3600");
}

/// A healthy cluster of two, reached by its list and by its first node.
pub fn is_shown(state: &Path, file: &str, first: &str) {
    let cluster = |args: &[&str]| Run::of(command(state).arg("cluster").args(args));
    let page = cluster(&["status", "--cluster", file]).exits(0).stdout;
    assert!(
        page.starts_with("Cluster c: primary component of 2 of 2 listed nodes, 2 synced\n"),
        "{page}"
    );
    assert!(page.contains("Nothing found to be wrong."), "{page}");
    for of_node in ["  c-1   Synced", "  c-2   Synced"] {
        assert!(page.contains(of_node), "{page}");
    }
    let json = cluster(&["status", "--cluster", first, "--json"])
        .exits(0)
        .stdout;
    let seen: Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!(
        (&seen["quorum"]["synced"], &seen["quorum"]["size"]),
        (&2.into(), &2.into()),
        "{json}"
    );
    assert_eq!(
        seen["nodes"][0]["state"]["gcache"]["ring"],
        8 << 20,
        "{json}"
    );

    is_advised(file, &cluster);

    let watched = ended_by_ctrl_c(
        command(state).args([
            "cluster",
            "status",
            "--watch",
            "--json",
            "--sample",
            "0.1",
            "--cluster",
            file,
        ]),
        2,
    );
    assert!(
        watched.iter().all(|line| line.contains(r#""synced":2"#)),
        "{watched:?}"
    );
    // The same for people: one page after another.
    let lines = page.lines().count() + 5;
    let watched = ended_by_ctrl_c(
        command(state).args([
            "cluster",
            "status",
            "--watch",
            "--sample",
            "0.1",
            "--cluster",
            file,
        ]),
        lines,
    );
    let heads = watched
        .iter()
        .filter(|line| line.ends_with(" 2 of 2 listed nodes, 2 synced"));
    assert_eq!(heads.count(), 2, "{watched:?}");
    assert!(
        watched.iter().all(|line| !line.contains('\u{1b}')),
        "nothing is cleared that is no terminal: {watched:?}"
    );
    healthd_keeps_to_its_rules(state, file, first);
}

/// healthd keeps to its options: a donor may serve until it is too far behind.
fn healthd_keeps_to_its_rules(state: &Path, file: &str, first: &str) {
    let mut healthd = command(state);
    healthd.args(["cluster", "healthd", "--node", first]);
    healthd.args(["--listen", "127.0.0.1:0", "--agent-listen", "127.0.0.1:0"]);
    healthd.args(["--interval", "0.1", "--max-queue", "3", "--donor-serves"]);
    let mut healthd = Running::start(healthd);
    healthd.says("answering at http://127.0.0.1:");
    healthd.says("answering agent checks at ");
    healthd.says("synced: the node is synced");
    let stderr = healthd.stderr();
    let (_, agent) = stderr
        .split_once("answering agent checks at ")
        .expect("an address");
    let agent = || {
        let address = agent.lines().next().unwrap_or_default();
        let mut answer = String::new();
        let stream = TcpStream::connect(address);
        let read = stream.and_then(|mut stream| stream.read_to_string(&mut answer));
        read.expect("an answer");
        answer
    };
    assert_eq!(agent(), "ready up 100%\n");
    // The server then calls itself a donor and applies nothing.
    let mut locked = connect_to(file, 0);
    locked.exec("FLUSH TABLES WITH READ LOCK").unwrap();
    healthd.says("donor: the node gives a copy to another one, and may serve meanwhile");
    assert_eq!(agent(), "ready up 100%\n");
    let mut other = connect_to(file, 1);
    other.exec("CREATE DATABASE behind").unwrap();
    for n in 0..8 {
        let sql = format!("CREATE TABLE behind.t{n} (n INT PRIMARY KEY)");
        other.exec(&sql).unwrap();
    }
    healthd.says("lagging: ");
    wait_until("it drains", || agent().starts_with("up drain #"));
    let answer = agent();
    assert!(
        answer.ends_with(" write-sets wait on the node, more than 3\n"),
        "{answer}"
    );
    locked.exec("UNLOCK TABLES").unwrap();
    wait_until("it has caught up", || agent() == "ready up 100%\n");
    other.exec("DROP DATABASE behind").unwrap();
    signal("-INT", healthd.id());
    healthd.ends(0);
}

/// The advice on full copies to this cluster's nodes, as shown and as written; nothing would make a
/// copy fail.
fn is_advised(file: &str, cluster: &dyn Fn(&[&str]) -> Run) {
    let folder = tempfile::tempdir().unwrap();
    let tuned = folder.path().join("tuned.cnf");
    let tuned = tuned.to_str().unwrap();
    let all = ["advise", "c-2", "--cluster", file, "--write", tuned];
    let page = cluster(&all).exits(0).stdout;
    for words in [
        "Cluster c: copies (SST) to c-2\n",
        "without TLS",
        "  [sst] ssl-mode=VERIFY_CA  (now DISABLED; c-2, c-1)  to be decided",
        "Written to ",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let text = std::fs::read_to_string(tuned).unwrap();
    assert!(
        text.contains("\n[sst]\n") && text.contains("\n#ssl-mode=VERIFY_CA\n"),
        "{text}"
    );
    cluster(&all).exits(3).says("already exists");
    assert_eq!(std::fs::read_to_string(tuned).unwrap(), text);
    cluster(&["advise", "c-3", "--cluster", file])
        .exits(2)
        .says("has no node \"c-3\"");
    cluster(&["advise", "--cluster", file, "--window", "2 hours"])
        .exits(2)
        .says("unknown unit `hours`; use s, m, h or d");

    // One node is told to ask a donor that does not exist.
    let ask = |sql: &str| connect_to(file, 0).query_value(sql).unwrap();
    ask("SET GLOBAL wsrep_sst_donor = 'nobody'");
    let run = cluster(&["advise", "--cluster", file, "--json"]).exits(4);
    ask("SET GLOBAL wsrep_sst_donor = ''");
    let seen: Value = serde_json::from_str(&run.stdout).expect("one line of JSON");
    let first = &seen["mistakes"][0];
    assert_eq!(
        (&first["kind"], &first["effect"], &first["nodes"][0]),
        (&"donor_name".into(), &"fails".into(), &"c-1".into()),
        "{seen}"
    );
    let machine = &seen["nodes"][0]["machine"];
    assert!(
        machine["memory"]["total"].as_u64() > Some(1 << 20),
        "{seen}"
    );
}

/// Connects to the node at index `at` of the list.
fn connect_to(file: &str, at: usize) -> refloat_wire::Connection {
    let listed = std::fs::read_to_string(file).expect("the list is there");
    let url = listed
        .lines()
        .filter_map(|line| line.strip_prefix("url = \"")?.strip_suffix('"'))
        .nth(at);
    let mut options = refloat_wire::ConnectOptions::from_url(url.unwrap()).unwrap();
    options.read_timeout = Some(LONG);
    refloat_wire::Connection::connect(&options).unwrap()
}

/// The first `lines` lines of a command's output. The command then gets Ctrl-C and must end well.
fn ended_by_ctrl_c(command: &mut Command, lines: usize) -> Vec<String> {
    let mut child = KillOnDrop::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let deadline = Instant::now() + LONG;
    let printed = Lines::of(child.stdout.take().expect("it is a pipe"), deadline);
    let shown: Vec<String> = printed.take(lines).collect();
    signal("-INT", child.id());
    let status = child.ends_by(deadline).expect("it ends after Ctrl-C");
    assert_eq!(status.code(), Some(0));
    assert_eq!(shown.len(), lines, "it ended by itself: {shown:?}");
    shown
}

/// A node of a cluster of two goes away and comes back as a user would have it: with a command, in
/// two steps, and after kill -9.
pub fn is_maintained(state: &Path, file: &str, second: &str) {
    let maintain = |args: &[&str]| {
        let start = [
            "cluster",
            "maintain",
            "c-2",
            "--cluster",
            file,
            "--sample",
            "0.2s",
        ];
        Run::of(command(state).args(start).args(args))
    };
    maintenance_that_cannot_be(state, file, second, &maintain);
    a_node_comes_back_without_a_hold(state, file);
    maintenance_in_two_steps(state, &maintain);
    // The change on c-1 can be reverted, and the node comes back anyway, with the hold or without.
    for revert in [false, true] {
        the_watching_process_is_killed(state, file, revert, &maintain);
    }
    maintain(&["--end"]).exits(3);
}

/// Refusals, and a plan.
fn maintenance_that_cannot_be(
    state: &Path,
    file: &str,
    second: &str,
    maintain: &dyn Fn(&[&str]) -> Run,
) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    maintain(&[]).exits(2).says("--begin and later --end");
    refloat(&["cluster", "maintain", "c-9", "--cluster", file, "--plan"])
        .exits(2)
        .says("no node is called c-9; the nodes are c-1, c-2");
    refloat(&["cluster", "maintain", second, "--cluster", second, "--plan"])
        .exits(2)
        .says("no node is called");
    maintain(&["--end"])
        .exits(3)
        .says("no maintenance of c-2 has been begun");
    // These nodes have a ring of 8 MiB.
    let plan = maintain(&["--hold", "16M", "--plan"]).exits(0).stdout;
    assert!(
        plan.contains("kept by   c-1: is given 16.0 MiB of memory"),
        "{plan}"
    );
    assert!(plan.contains("c-1 is the only node that runs"), "{plan}");
}

/// No machine has that much memory left: the setting is reverted, and the ring alone is enough.
fn a_node_comes_back_without_a_hold(state: &Path, file: &str) {
    let [go, page] = ["go", "page"].map(|name| state.join(name));
    let script = format!(
        "while [ ! -e {} ]; do sleep 0.1; done; exit 3",
        go.display()
    );
    let mut maintain = command(state);
    maintain.args(["cluster", "maintain", "c-2", "--cluster", file]);
    maintain.args(["--sample", "0.2s", "--hold", "16M", "--keep-free", "1000G"]);
    maintain.args(["--", "sh", "-c", &script]);
    let result = std::fs::File::create(&page).expect("a file");
    let mut running = Running::start_into(maintain, result.into());
    running.says("1073741824000 have to stay (--keep-free): it keeps no more for c-2");
    std::fs::write(&go, "").expect("a file");
    let stderr = running.ends(1);
    let words = "write-sets are not kept for its start: the machine of c-1 has ";
    assert!(stderr.contains(words), "{stderr}");
    let page = std::fs::read_to_string(&page).expect("a result");
    assert!(page.starts_with("c-2 is back by IST: "), "{page}");
    assert!(
        page.contains("FAILED    what the node was down for: sh: exit status: 3"),
        "{page}"
    );
}

/// Changes of servers that are not put back yet.
fn open_changes(state: &Path) -> Vec<Value> {
    let listed = Run::of(command(state).args(["settings", "list", "--json"]));
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    listed["open"].as_array().expect("a list").clone()
}

fn maintenance_in_two_steps(state: &Path, maintain: &dyn Fn(&[&str]) -> Run) {
    let begun = maintain(&["--hold", "16M", "--begin"]).exits(0);
    assert!(
        begun
            .stdout
            .contains("c-2 is down, and what it misses is kept"),
        "{}",
        begun.stdout
    );
    assert_eq!(
        open_changes(state)[0]["journal"]["changes"][0]["name"],
        "gcache.mem_size"
    );
    maintain(&["--", "true"])
        .exits(3)
        .says("the maintenance of c-2, begun at")
        .says("--end");
    let ended = maintain(&["--end"]).exits(0).says("starting c-2");
    assert!(
        ended.stderr.contains("c-2 is back by IST"),
        "{}",
        ended.stderr
    );
    assert_eq!(open_changes(state).len(), 0);
}

fn the_watching_process_is_killed(
    state: &Path,
    file: &str,
    revert: bool,
    maintain: &dyn Fn(&[&str]) -> Run,
) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    maintain(&["--hold", "16M", "--begin"]).exits(0);
    let owner = open_changes(state)[0]["journal"]["owner"]["pid"]
        .as_u64()
        .expect("a process");
    signal("-KILL", owner);
    let process = format!("/proc/{owner}/exe");
    while std::fs::read_link(&process).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    if revert {
        let url = open_changes(state)[0]["journal"]["server"]["peer"].clone();
        let first = format!("mysql://{}/", url.as_str().expect("an address"));
        let reverted = refloat(&["settings", "revert", "--to", &first]).exits(0);
        assert!(
            reverted.stdout.contains("gcache.mem_size: 0  put back"),
            "{}",
            reverted.stdout
        );
    }
    refloat(&["cluster", "rejoin", "c-2", "--cluster", file])
        .exits(3)
        .says("the maintenance of c-2, begun at");
    let back = maintain(&["--end"]).exits(0).says("taking over from it");
    // A hold that was reverted while the node was away is set again until it is back.
    let again = "the others keep write-sets again until c-2 is back";
    assert_eq!(back.stderr.contains(again), revert, "{}", back.stderr);
    assert!(
        back.stdout.starts_with("c-2 is back by IST"),
        "{}",
        back.stdout
    );
    assert_eq!(open_changes(state).len(), 0);
}

/// The preferred donor goes away last, and the page names it.
fn donors_come_last(file: &str, cluster: &dyn Fn(&[&str]) -> Run) {
    let list = std::fs::read_to_string(file).expect("a list");
    let urls = list.lines().filter_map(|line| line.strip_prefix("url = "));
    let urls: Vec<&str> = urls.map(|url| url.trim_matches('"')).collect();
    let asks = |at: usize, donor: &str| {
        let options = ConnectOptions::from_url(urls[at]).expect("a URL");
        let mut conn = Connection::connect(&options).expect("a node");
        let sql = format!("SET GLOBAL wsrep_sst_donor = '{donor}'");
        conn.exec(&sql).expect("it is told");
    };
    for (asking, donor, order) in [(0, "c-2", "c-1, c-2"), (1, "c-1", "c-2, c-1")] {
        asks(asking, &format!("{donor},"));
        cluster(&["rolling", "--plan"])
            .exits(0)
            .says(&format!("Order: {order}\n"));
        let page = cluster(&["status"]).exits(0).stdout;
        let advice = page.lines().find(|line| {
            line.starts_with(&format!("c-{}: Full copies by ", asking + 1))
                && line.contains(&format!(", from {donor} and else any"))
        });
        assert!(advice.is_some(), "{page}");
        asks(asking, "");
    }
}

/// Both nodes go away in turn. A node that is down comes back by IST without further ado, by a full
/// copy only if that is allowed.
pub fn nodes_come_back(state: &Path, file: &str) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    let cluster = |args: &[&str]| refloat(&[&["cluster"], args, &["--cluster", file]].concat());
    both_go_away_in_turn(state, file, &cluster);
    let rejoin = |args: &[&str]| cluster(&[&["rejoin", "c-2"], args].concat());
    one_that_was_stopped_comes_back(state, &cluster, &rejoin);
    a_rejoin_is_killed(state, file);

    // The node crashes, so what it misses is known only once its position is recovered. The other
    // of the two has lost its majority.
    refloat(&["sandbox", "node", "kill", "c-2"]).exits(0);
    let first = Sandbox::new(state.join("sandbox"))
        .node("c-1")
        .expect("a node");
    goes_on_alone(&first);
    is_back("IST: ", rejoin(&[]));
    one_that_forgot_its_place_takes_a_copy(state, &rejoin);
    nobody_is_there_to_join(state, &rejoin);
    what_only_tables_know_is_not_wiped(state, file);
    a_cluster_beside_the_other_is_not_left(state, file);
}

fn both_go_away_in_turn(state: &Path, file: &str, cluster: &dyn Fn(&[&str]) -> Run) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    cluster(&["rolling"])
        .exits(2)
        .says("to run while a node is down");
    let plan = cluster(&["rolling", "--plan"]).exits(0).says("Order: c-");
    assert_eq!(
        plan.stdout.matches("Plan for c-").count(),
        2,
        "{}",
        plan.stdout
    );
    donors_come_last(file, cluster);
    let words = ["sh", "-c", "echo at $REFLOAT_NODE"];
    let all = refloat(
        &[
            &[
                "cluster",
                "rolling",
                "--sample",
                "0.2s",
                "--cluster",
                file,
                "--",
            ],
            &words[..],
        ]
        .concat(),
    )
    .exits(0);
    for line in [
        "at c-1\n",
        "at c-2\n",
        "c-1 is back by IST",
        "c-2 is back by IST",
    ] {
        assert!(all.stdout.contains(line), "{line}: {}", all.stdout);
    }
    let failed = refloat(&[
        "cluster",
        "rolling",
        "--sample",
        "0.2s",
        "--cluster",
        file,
        "--",
        "false",
    ])
    .exits(1);
    assert!(
        failed.stderr.contains("Not touched: c-"),
        "{}",
        failed.stderr
    );
}

#[track_caller]
fn is_back(by: &str, rejoined: Run) {
    let stdout = rejoined.exits(0).stdout;
    assert!(
        stdout.starts_with(&format!("c-2 is back by {by}")),
        "{stdout}"
    );
}

fn one_that_was_stopped_comes_back(
    state: &Path,
    cluster: &dyn Fn(&[&str]) -> Run,
    rejoin: &dyn Fn(&[&str]) -> Run,
) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    rejoin(&[])
        .exits(3)
        .says("c-2 is there, and in sync with the others");
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    is_shown_without_one(state, &cluster(&["status"]).exits(0).stdout);
    let plan = rejoin(&["--plan"]).exits(0).stdout;
    assert!(
        plan.contains("comes     by IST: ") && plan.contains("asks      c-1: "),
        "{plan}"
    );
    assert!(
        plan.contains("kept by   c-1: keeps enough as it is"),
        "{plan}"
    );
    let plan = rejoin(&["--plan", "--hold", "64M"]).exits(0).stdout;
    assert!(
        plan.contains("kept by   c-1: is given 64.0 MiB of memory"),
        "{plan}"
    );
    is_back("IST: ", rejoin(&[]));
}

/// Its grastate.dat has lost everything.
fn one_that_forgot_its_place_takes_a_copy(state: &Path, rejoin: &dyn Fn(&[&str]) -> Run) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    forget_the_place(state, "c-2");
    rejoin(&[])
        .exits(3)
        .says("c-2 needs a full copy (SST): it holds the data of no cluster")
        .says("--allow-sst");
    let listed = refloat(&["sandbox", "list"]).exits(0).stdout;
    let of_node = |line: &&str| line.starts_with("c-2 ");
    let line = listed.lines().find(of_node).expect("it is listed");
    assert!(line.contains("stopped"), "nothing was started: {line}");
    is_back("a FULL COPY (SST)", rejoin(&["--allow-sst"]));
}

/// With the other node down there is nothing to join, and nothing is started.
fn nobody_is_there_to_join(state: &Path, rejoin: &dyn Fn(&[&str]) -> Run) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    refloat(&["sandbox", "node", "stop", "c-1"]).exits(0);
    rejoin(&["--allow-sst"])
        .exits(3)
        .says("no node of a primary component answers: there is nothing to join");
    refloat(&["sandbox", "node", "start", "c-1", "--bootstrap"]).exits(0);
    let back = rejoin(&[]).exits(0);
    assert!(
        back.stdout.starts_with("c-2 is back by IST"),
        "{}",
        back.stdout
    );
}

/// The status page of a cluster of two whose second node was stopped.
fn is_shown_without_one(state: &Path, page: &str) {
    let grastate = state.join("sandbox/instances/c-2/data/grastate.dat");
    let text = std::fs::read_to_string(&grastate).expect("the file is there");
    let of = |field: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| *name == field);
        found.expect("a field").1.trim().to_owned()
    };
    let (uuid, seqno) = (of("uuid"), of("seqno"));
    for words in [
        "Cluster c: primary component of 1 of 2 listed nodes, 1 synced\n",
        &format!("  history {uuid}, view "),
        "  c-2   no answer ",
        "Write-sets kept for nodes that come back (gcache)\n  NODE  KEEPS ",
        "COVERS AN ABSENCE OF\n  c-1   8.00 MiB ",
        "Nodes outside, and what a rejoin would cost now\n  c-2: IST of ",
        ", from c-1 (",
        &format!("    grastate.dat: {uuid}:{seqno}, safe_to_bootstrap 0\n"),
        "A transaction may hold 2.00 GiB in any number of rows\n",
        // The donor that its start was given was put back once the node was up, so none is shown.
        "Full copies by rsync, without an account\n",
        "They are received by c-1 at 127.0.0.1:",
        "A full copy is of ",
        "critical  c-2: it does not answer: ",
    ] {
        assert!(page.contains(words), "{words:?}: {page}");
    }
}

/// The process that brings a node back is killed: a journal holds what the other node was told, so
/// that it can be reverted.
fn a_rejoin_is_killed(state: &Path, file: &str) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    let open = || open_changes(state);
    assert_eq!(open().len(), 0);
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    let rejoin = [
        "cluster",
        "rejoin",
        "c-2",
        "--hold",
        "64M",
        "--cluster",
        file,
    ];
    let begin = |into: Stdio| {
        let mut command = command(state);
        command.args(rejoin);
        Running::start_into(command, into)
    };
    let mut first = begin(Stdio::null());
    first.says("starting c-2");
    // The server is frozen from its first moment, so it cannot be up when the program is killed.
    let node = Sandbox::new(state.join("sandbox")).node("c-2").unwrap();
    wait_until("it has begun", || node.pid().unwrap().is_some());
    node.freeze().unwrap();
    beside_a_rejoin(state, file, first.id());
    first.kill();
    let left = open();
    let changed = |at: usize| left[at]["journal"]["changes"][0].clone();
    assert_eq!(changed(0)["name"], "gcache.mem_size");
    // The donor that it asks first is set on the server's command line, for this start only.
    let asks = ["name", "old", "new"].map(|field| changed(1)[field].clone());
    assert_eq!(asks, ["wsrep_sst_donor", "", "c-1,"]);
    refloat(&[&rejoin[..], &["--start-limit", "1s"]].concat())
        .exits(1)
        .says("c-2 runs already: waiting for it")
        .says("it is not in sync after 1 s (--start-limit): ")
        .says("hint: It continues by itself; the same command waits again.");
    let result = state.join("result");
    let mut again = begin(std::fs::File::create(&result).unwrap().into());
    again.says("c-2 runs already: waiting for it");
    node.thaw().unwrap();
    again.ends(0);
    let back = std::fs::read_to_string(&result).unwrap();
    assert!(back.starts_with("c-2 is back by IST"), "{back}");
    let url = left[0]["journal"]["server"]["peer"].clone();
    let first = format!("mysql://{}/", url.as_str().expect("an address"));
    let reverted = refloat(&["settings", "revert", "--to", &first]).exits(0);
    let line = "gcache.mem_size: 0  put back";
    assert!(reverted.stdout.contains(line), "{}", reverted.stdout);
    let asked = || node.query("SELECT @@wsrep_sst_donor").ok();
    assert_eq!((open().len(), asked().as_deref()), (0, Some("")));

    // The node comes up by itself when the program is killed, and must not keep that donor forever.
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    let mut killed = begin(Stdio::null());
    killed.says("starting c-2");
    wait_until("it has begun", || node.pid().unwrap().is_some());
    killed.kill();
    wait_until("it is there", || {
        let ready = node.query("SHOW STATUS LIKE 'wsrep_ready'");
        ready.is_ok_and(|status| status.ends_with("ON"))
    });
    assert_eq!(asked().as_deref(), Some("c-1,"));
    for url in [node.url(), first] {
        refloat(&["settings", "revert", "--to", &url]).exits(0);
    }
    assert_eq!((open().len(), asked().as_deref()), (0, Some("")));
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    let back = refloat(&rejoin).exits(0).stdout;
    assert!(back.starts_with("c-2 is back by IST"), "{back}");
    // The row comparison is offered.
    assert!(
        back.contains("  compare   refloat cluster verify "),
        "{back}"
    );
    assert_eq!(open().len(), 0);
}

/// Only one process changes a cluster at a time, whatever it does; the second is told which one
/// that is.
// Hazard of clusters: A maintenance or rejoin beside a rejoin on one machine
fn beside_a_rejoin(state: &Path, file: &str, process: u32) {
    let rejoin = ["rejoin", "c-2", "--cluster", file];
    let maintain = ["maintain", "c-1", "--cluster", file, "--", "true"];
    // Both wait for a while, because a process that was killed may seem alive for a moment.
    std::thread::scope(|scope| {
        for words in [&rejoin[..], &maintain] {
            scope.spawn(move || {
                let mut command = command(state);
                let message = format!(
                    "another refloat is changing the cluster c just now (process {process})"
                );
                Run::of(command.arg("cluster").args(words))
                    .exits(3)
                    .says(&message);
            });
        }
    });
}

/// A node told to bootstrap does so in the same history, beside the other cluster.
// Hazard of clusters: G-05 a bootstrap beside a live cluster is noticed, and no part of a split one
//   continues by itself | ; `program/maintenance.rs`: `a_partition_during_rolling_…`
fn a_cluster_beside_the_other_is_not_left(state: &Path, file: &str) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    // Only the last node to leave may bootstrap.
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    refloat(&["sandbox", "node", "stop", "c-1"]).exits(0);
    let folder = |node: &str| state.join(format!("sandbox/instances/{node}"));
    begin_with(state, "c-2");
    refloat(&["sandbox", "node", "start", "c-2", "--bootstrap"]).exits(0);
    // Put it ahead of the position that c-1 starts from.
    let mut server = connect_to(file, 1);
    server.exec("CREATE DATABASE IF NOT EXISTS test").unwrap();
    for n in 0..20 {
        let sql = format!("CREATE TABLE test.more{n} (n INT PRIMARY KEY)");
        server.exec(&sql).unwrap();
    }
    let path = find_option_file(&folder("c-1"));
    let options = std::fs::read_to_string(&path).expect("an option file");
    let alone: String = options
        .lines()
        .map(|line| match line.split_once('=') {
            Some(("wsrep_cluster_address", _)) => "wsrep_cluster_address=gcomm://\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect();
    assert_ne!(alone, options);
    std::fs::write(&path, alone).expect("it can be written");
    let rejoin = ["cluster", "rejoin", "c-1", "--cluster", file];
    refloat(&[&rejoin[..], &["--allow-sst"]].concat())
        .exits(1)
        .says("it has begun a cluster of its own beside that of the others: c-1 sees one member")
        .says("it was stopped again")
        .says("its position no longer counts and was set aside (grastate.dat.refloat-");
    let listed = refloat(&["sandbox", "list"]).exits(0).stdout;
    let line = listed.lines().find(|line| line.starts_with("c-1 "));
    assert!(
        line.is_some_and(|line| line.contains("stopped")),
        "{listed}"
    );

    // The option file is mended as advised. The position belonged to the node's own cluster and was
    // set aside.
    std::fs::write(&path, options).expect("it can be written");
    let place = std::fs::read_to_string(folder("c-1").join("data/grastate.dat"));
    assert!(
        place
            .expect("a file")
            .contains("uuid:    00000000-0000-0000-0000-000000000000")
    );
    refloat(&rejoin)
        .exits(3)
        .says("c-1 and the cluster have diverged: both hold the same up to ");
    refloat(&[&rejoin[..], &["--allow-sst", "--plan"]].concat()).exits(0);
    let uuid = server
        .query_value("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_cluster_state_uuid'")
        .unwrap()
        .expect("a history");
    the_first_begins_anew(state, file, &uuid);
}

/// The option file in a node's folder.
fn find_option_file(folder: &Path) -> std::path::PathBuf {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files = entries.map(|entry| entry.expect("an entry").path());
    let found = files.find(|path| path.extension().is_some_and(|kind| kind == "cnf"));
    found.expect("an option file")
}

/// Lets a node bootstrap although another one left last. Galera refuses that for good reason, and
/// people insist.
fn begin_with(state: &Path, node: &str) {
    let grastate = state.join(format!("sandbox/instances/{node}/data/grastate.dat"));
    let text = std::fs::read_to_string(&grastate).expect("the file is there");
    let insisted = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
    std::fs::write(&grastate, insisted).expect("it can be written");
}

/// The first node bootstraps a new history with its data, and the second takes a copy: two nodes as
/// before.
fn the_first_begins_anew(state: &Path, file: &str, old: &str) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    let zero = "# GALERA saved state\nversion: 2.1\nuuid:    00000000-0000-0000-0000-000000000000\nseqno:   -1\nsafe_to_bootstrap: 1\n";
    let grastate = state.join("sandbox/instances/c-1/data/grastate.dat");
    std::fs::write(grastate, zero).expect("it can be written");
    refloat(&["sandbox", "node", "start", "c-1", "--bootstrap"]).exits(0);
    let rejoin = ["cluster", "rejoin", "c-2", "--cluster", file, "--allow-sst"];
    refloat(&rejoin).exits(3).says(old);
    let back = refloat(&[&rejoin[..], &["--discard", old]].concat()).exits(0);
    let stdout = back.stdout;
    assert!(stdout.starts_with("c-2 is back by a FULL COPY"), "{stdout}");
}

/// Erases the position in a node's grastate.dat, as a start that fails late does.
fn forget_the_place(state: &Path, node: &str) {
    let grastate = state.join(format!("sandbox/instances/{node}/data/grastate.dat"));
    let text = std::fs::read_to_string(&grastate).expect("the file is there");
    let nowhere: String = text
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("uuid", _)) => "uuid:    00000000-0000-0000-0000-000000000000\n".to_owned(),
            Some(("seqno", _)) => "seqno:   -1\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect();
    std::fs::write(&grastate, nowhere).expect("it can be written");
}

/// The node that stopped last has more than the one bootstrapped since, but its grastate.dat has
/// lost its position.
fn what_only_tables_know_is_not_wiped(state: &Path, file: &str) {
    let refloat = |args: &[&str]| Run::of(command(state).args(args));
    let ask = |sql: &str| connect_to(file, 0).query_value(sql).unwrap();
    refloat(&["sandbox", "node", "stop", "c-2"]).exits(0);
    ask("CREATE DATABASE newest");
    for n in 0..5 {
        ask(&format!("CREATE TABLE newest.t{n} (n INT PRIMARY KEY)"));
    }
    let uuid = ask(
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_cluster_state_uuid'",
    );
    let uuid = uuid.expect("a history");
    refloat(&["sandbox", "node", "stop", "c-1"]).exits(0);
    forget_the_place(state, "c-1");
    begin_with(state, "c-2");
    refloat(&["sandbox", "node", "start", "c-2", "--bootstrap"]).exits(0);

    let rejoin =
        |args: &[&str]| refloat(&[&["cluster", "rejoin", "c-1", "--cluster", file], args].concat());
    rejoin(&["--allow-sst"])
        .exits(3)
        .says("its grastate.dat has lost its position")
        .says("it holds what nobody else does")
        .says(&format!("--discard {uuid}"));
    let tables = state.join("sandbox/instances/c-1/data/newest");
    assert!(tables.exists(), "nothing was wiped");
    let other = "00000000-0000-0000-0000-000000000000";
    rejoin(&["--allow-sst", "--discard", other]).exits(3);
    rejoin(&["--allow-sst", "--discard", &uuid, "--plan"]).exits(0);
    the_first_begins_anew(state, file, &uuid);
}
