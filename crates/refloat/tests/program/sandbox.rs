//! `refloat sandbox` from start to remove, on a real server, as a person or a script uses it.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use refloat_sandbox::Sandbox;
use refloat_testkit::servers;
use refloat_testkit::wait_until;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Run, command, state_folder};
use crate::time_limits::{KillOnDrop, output_of};

/// A state directory whose servers are removed on drop, so also when a test fails.
struct State(TempDir);

impl State {
    fn new() -> Self {
        Self(state_folder())
    }

    /// With the initialised data that all tests share.
    fn filled() -> Self {
        let state = Self::new();
        let folder = state.0.path().join("sandbox");
        std::fs::create_dir(&folder).expect("a folder can be made");
        // Whoever starts the first server of a sandbox makes the folder.
        let shared = servers::cache();
        std::fs::create_dir_all(&shared).expect("a folder can be made");
        symlink(shared, folder.join("cache")).expect("a link can be made");
        state
    }

    fn sandbox(&self, args: &[&str]) -> Run {
        self.sandbox_with_input(args, "")
    }

    fn sandbox_with_input(&self, args: &[&str], input: &str) -> Run {
        let mut sandbox = command(self.0.path());
        sandbox
            .arg("sandbox")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = KillOnDrop::start(&mut sandbox);
        let mut stdin = child.stdin.take().expect("stdin is piped");
        // A command that reads nothing may have ended already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Run::new(output_of(child))
    }

    /// A command's output with `--json`.
    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let run = self.sandbox(&args).exits(0);
        assert!(run.stderr.is_empty(), "{args:?}: {}", run.stderr);
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
    }

    /// The answer of the server's own client to statements on its standard input.
    fn answer(&self, name: &str, sql: &str) -> String {
        let args = ["shell", name, "--", "--batch", "--skip-column-names"];
        let run = self.sandbox_with_input(&args, sql).exits(0);
        run.stdout.trim_end().to_owned()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let sandbox = Sandbox::new(self.0.path().join("sandbox"));
            for entry in sandbox.list().unwrap_or_default() {
                if let Ok(server) = sandbox.get(&entry.name) {
                    eprintln!("{}", server.last_words());
                }
            }
        }
        self.sandbox(&["remove", "--all"]);
    }
}

/// Processes with this folder in their command line.
fn processes_in(folder: &Path) -> Vec<String> {
    let mark = folder.to_str().expect("the path is UTF-8");
    std::fs::read_dir("/proc")
        .expect("/proc is there")
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(mark))
        .collect()
}

#[test]
fn a_server_lives_from_start_to_remove() {
    let state = State::new();
    let none = state.sandbox(&["list"]).exits(0);
    assert!(none.stdout.is_empty() && none.stderr.contains("sandbox start"));
    let one = is_started_and_listed(&state);
    tells_how_it_is_reached(&state, &one);
    answers_its_client(&state, &one);
    is_stopped(&state);
    keeps_its_data_and_place(&state, &one);
    is_removed(&state, &one);
}

/// Returns its entry in the list.
fn is_started_and_listed(state: &State) -> Value {
    let start = ["start", "--server", "mariadb-10.11", "--name", "one"];
    let started = state
        .sandbox(&[&start[..], &["-o", "max_connections=33"]].concat())
        .exits(0);
    assert!(
        started.stdout.starts_with("one: 10.11."),
        "{}",
        started.stdout
    );
    assert!(started.stdout.contains(" is ready\n"), "{}", started.stdout);
    let again = state.sandbox(&start).exits(3);
    assert!(
        again.stderr.contains("refloat sandbox remove one"),
        "{}",
        again.stderr
    );

    let listed = state.json(&["list"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let one = &listed[0];
    assert_eq!(
        (&one["name"], &one["status"]),
        (&"one".into(), &"running".into())
    );
    assert_eq!(one["options"]["max_connections"], "33");
    let pid = one["pid"].as_u64().expect("a process");
    let url = one["url"].as_str().expect("a URL");
    assert!(started.stdout.contains(url), "{}", started.stdout);
    let table = state.sandbox(&["list"]).exits(0).stdout;
    let row: Vec<&str> = table
        .lines()
        .nth(1)
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(
        row,
        ["one", "mariadb-10.11", "running", &pid.to_string(), url]
    );
    one.clone()
}

fn tells_how_it_is_reached(state: &State, one: &Value) {
    let port = one["port"].as_u64().expect("a port");
    let url = one["url"].as_str().expect("a URL");
    // The name is optional while there is one server.
    assert_eq!(
        state.sandbox(&["env", "--url"]).exits(0).stdout.trim_end(),
        url
    );
    let socket_url = state
        .sandbox(&["env", "one", "--socket-url"])
        .exits(0)
        .stdout;
    assert_eq!(socket_url.trim_end(), one["socket_url"]);
    assert_eq!(&state.json(&["env", "--name", "one"]), one);
    let exports = state.sandbox(&["env", "one"]).exits(0).stdout;
    let script = format!(
        "{exports}printf '%s %s %s' \"$REFLOAT_URL\" \"$REFLOAT_PORT\" \"$REFLOAT_SOCKET\""
    );
    let shell = std::process::Command::new("sh")
        .args(["-c", &script])
        .output();
    let shell = String::from_utf8(shell.expect("sh is there").stdout).expect("UTF-8");
    assert_eq!(
        shell,
        format!("{url} {port} {}", one["socket"].as_str().expect("a socket"))
    );
}

fn answers_its_client(state: &State, one: &Value) {
    let port = &one["port"];
    let settings = format!("SELECT @@port, @@max_connections;\n{FILL}");
    assert_eq!(state.answer("one", &settings), format!("{port}\t33"));
    let refused = state
        .sandbox_with_input(&["shell", "one"], "SELECT FROM;\n")
        .exits(1);
    assert!(refused.stderr.contains("ERROR 1064"), "{}", refused.stderr);
}

fn is_stopped(state: &State) {
    assert_eq!(
        state.json(&["stop", "one"]),
        serde_json::json!({ "stopped": ["one"] })
    );
    assert!(processes_in(state.0.path()).is_empty());
    for args in [&["env", "one"][..], &["shell", "one"]] {
        let run = state.sandbox(args).exits(3);
        assert!(
            run.stderr.contains("refloat sandbox restart one"),
            "{}",
            run.stderr
        );
    }
    let listed = state.json(&["list"]);
    assert_eq!(
        (&listed[0]["status"], &listed[0]["pid"]),
        (&"stopped".into(), &Value::Null)
    );
}

/// It is started again after a stop, and after a kill.
fn keeps_its_data_and_place(state: &State, one: &Value) {
    for kill in [false, true] {
        let again = state.json(&["restart", "one"]);
        assert_eq!((&again["port"], &again["url"]), (&one["port"], &one["url"]));
        assert_ne!(again["pid"], one["pid"]);
        assert_eq!(state.answer("one", "SELECT SUM(a) FROM kept.t;"), "3");
        if !kill {
            let killed = state.sandbox(&["stop", "one", "--kill"]).exits(0);
            assert_eq!(killed.stdout, "one: stopped\n");
        }
    }
}

fn is_removed(state: &State, one: &Value) {
    let port = one["port"].as_u64().expect("a port");
    let removed = state.sandbox(&["remove", "one"]).exits(0);
    assert_eq!(removed.stdout, "one: removed\n");
    // The kernel frees a killed process's port a moment after its end.
    wait_until("nobody listens at its port", || {
        TcpStream::connect(("127.0.0.1", port as u16)).is_err()
    });
    assert_nothing_left(state);
    let gone = state.sandbox(&["remove", "one"]).exits(3);
    assert!(
        gone.stderr.contains("refloat sandbox list"),
        "{}",
        gone.stderr
    );
}

/// Data that must survive a stop or a kill.
const FILL: &str = "CREATE DATABASE kept;
CREATE TABLE kept.t (a INT PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO kept.t VALUES (1), (2);
";

#[test]
fn commands_for_all_servers_and_for_one_of_two() {
    let state = State::filled();
    for name in ["mariadb-10.11", "mariadb-10.11-2"] {
        assert_eq!(state.json(&["start"])["name"], name);
    }
    for command in ["stop", "restart", "remove", "env", "shell"] {
        let which = state.sandbox(&[command]).exits(2);
        assert!(
            which.stderr.contains("mariadb-10.11, mariadb-10.11-2"),
            "{}",
            which.stderr
        );
    }
    assert_eq!(state.json(&["list"]).as_array().map(Vec::len), Some(2));
    let stopped = state.json(&["stop", "--all", "--kill"]);
    assert_eq!(stopped["stopped"].as_array().map(Vec::len), Some(2));
    let removed = state.json(&["remove", "--all"]);
    assert_eq!(removed["removed"].as_array().map(Vec::len), Some(2));
    assert_nothing_left(&state);
}

#[test]
fn what_cannot_be_started_is_refused_and_leaves_nothing() {
    let state = State::new();
    for (args, code) in [
        (&["start", "--server", "mysql-1.0"][..], 2),
        (&["start", "--name", "../x"], 2),
        (&["start", "-o", "datadir=/var/lib/mysql"], 2),
        (&["start", "-o", "no_such_option=1"], 1),
        (&["stop", "x"], 3),
        (&["stop"], 3),
    ] {
        let run = state.sandbox(args).exits(code);
        assert!(
            run.stderr.starts_with("refloat: error: "),
            "{args:?}: {}",
            run.stderr
        );
        assert!(run.stdout.is_empty(), "{args:?}: {}", run.stdout);
    }
    assert_nothing_left(&state);
}

/// Asserts that no process and no instance is left, and nothing in the state directory but what
/// later starts reuse.
fn assert_nothing_left(state: &State) {
    assert_eq!(processes_in(state.0.path()), [""; 0]);
    assert_eq!(state.json(&["list"]), serde_json::json!([]));
    let instances = state.0.path().join("sandbox/instances");
    if let Ok(entries) = std::fs::read_dir(instances) {
        let left: Vec<_> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

const SIZE: &str = "SHOW STATUS LIKE 'wsrep_cluster_size'";

/// One cluster for all commands but those that bring nodes back: starting one takes seconds.
#[test]
fn a_cluster_lives_from_start_to_remove() {
    let state = State::filled();
    wrong_clusters_are_refused(&state);
    let started = a_cluster_is_started(&state);
    let file = started["file"].as_str().expect("a file");
    let url_of = |at: usize| started["nodes"][at]["url"].as_str().expect("a URL");
    crate::cluster::is_shown(state.0.path(), file, url_of(0));
    crate::cluster::is_maintained(state.0.path(), file, url_of(1));
    a_cluster_tells_how_it_is_reached(&state, &started);
    a_node_is_handled(&state);
    a_cluster_is_stopped_and_removed(&state);
    assert!(!Path::new(file).exists());
}

#[test]
fn nodes_of_a_cluster_come_back() {
    let state = State::filled();
    let start = ["start", "--galera", "2", "--name", "c"];
    let small = ["-o", "wsrep_provider_options=gcache.size=8M"];
    let started = state.json(&[&start[..], &small].concat());
    let file = started["file"].as_str().expect("a file");
    crate::cluster::nodes_come_back(state.0.path(), file);
}

fn wrong_clusters_are_refused(state: &State) {
    let mysql = state.sandbox(&["start", "--galera", "3", "--server", "mysql-9.7"]);
    mysql.exits(2).says("mysql-9.7 has no Galera");
    for args in [
        &["start", "--galera", "10"][..],
        &[
            "start",
            "--galera",
            "2",
            "--node-option",
            "3:max_connections=5",
        ],
        &[
            "start",
            "--galera",
            "2",
            "--node-option",
            "max_connections=5",
        ],
        &["start", "--isolated"],
    ] {
        state.sandbox(args).exits(2);
    }
}

fn a_cluster_is_started(state: &State) -> Value {
    let start = ["start", "--galera", "2", "--name", "c", "--with-haproxy"];
    let options = [
        "-o",
        "wsrep_provider_options=gcache.size=8M",
        "--node-option",
        "2:max_connections=44",
    ];
    let started = state.json(&[&start[..], &options].concat());
    assert_eq!(
        (&started["cluster"], &started["sst"]),
        (&"c".into(), &"rsync".into())
    );
    let nodes = started["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 2);
    let second = &nodes[1];
    assert_eq!(
        (&second["name"], &second["cluster"]),
        (&"c-2".into(), &"c".into())
    );
    assert_eq!(state.answer("c-1", SIZE), "wsrep_cluster_size\t2");
    assert_eq!(state.answer("c-2", "SELECT @@max_connections"), "44");
    let file = started["file"].as_str().expect("a file");
    let text = std::fs::read_to_string(file).expect("the file is there");
    for line in ["start c-2 --no-wait", "stop c-2", "kill c-2", "recover c-2"] {
        let line = format!(" sandbox node {line}");
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(
        text.contains(second["url"].as_str().expect("a URL")),
        "{text}"
    );
    started
}

fn a_cluster_tells_how_it_is_reached(state: &State, started: &Value) {
    let proxy = started["haproxy"]["url"].as_str().expect("a URL");
    let url = state.sandbox(&["env", "c", "--url"]).exits(0).stdout;
    assert_eq!(url.trim_end(), proxy);
    let exports = state.sandbox(&["env", "c"]).exits(0).stdout;
    assert!(
        exports.contains("REFLOAT_CLUSTER_FILE=") && exports.contains(proxy),
        "{exports}"
    );
    let second = &started["nodes"][1];
    assert_eq!(&state.json(&["env", "c-2"])["url"], &second["url"]);
    state.sandbox(&["shell", "c"]).exits(2).says("c-1, c-2");
    let table = state.sandbox(&["list"]).exits(0).stdout;
    let table: Vec<&str> = table.lines().skip(1).collect();
    assert!(
        table[0].starts_with("c ") && table[0].contains("2 of 2"),
        "{table:?}"
    );
    assert!(
        table[2].starts_with("c-2 ") && table[2].contains("running"),
        "{table:?}"
    );
}

/// A node is frozen and thawed, killed, recovered and started again.
fn a_node_is_handled(state: &State) {
    let node = |command: &str, status: &str| {
        let done = state.json(&["node", command, "c-2"]);
        assert_eq!(done, serde_json::json!({ "name": "c-2", "status": status }));
    };
    node("freeze", "frozen");
    state
        .sandbox(&["shell", "c-2"])
        .exits(3)
        .says("refloat sandbox node thaw c-2");
    state
        .sandbox(&["node", "stop", "c-2"])
        .exits(3)
        .says("refloat sandbox node thaw c-2");
    node("thaw", "running");
    state
        .sandbox(&["node", "cut", "c-2"])
        .exits(3)
        .says("--isolated");
    state.sandbox(&["node", "recover", "c-2"]).exits(3);
    node("kill", "stopped");
    let recovered = state.json(&["node", "recover", "c-2"]);
    assert_eq!(
        recovered["uuid"].as_str().map(str::len),
        Some(36),
        "{recovered}"
    );
    let stdout = state.sandbox(&["node", "recover", "c-2"]).exits(0).stdout;
    let position = format!(
        "{}:{}",
        recovered["uuid"].as_str().unwrap_or(""),
        recovered["seqno"]
    );
    assert_eq!(stdout, format!("c-2: {position}\n"));
    let status = state.json(&["node", "start", "c-2", "--no-wait"])["status"].clone();
    assert!(status == "starting" || status == "running", "{status}");
    assert_eq!(state.json(&["node", "start", "c-2"])["status"], "running");
    assert_eq!(state.answer("c-2", SIZE), "wsrep_cluster_size\t2");
}

fn a_cluster_is_stopped_and_removed(state: &State) {
    state
        .sandbox(&["remove", "c-2"])
        .exits(3)
        .says("refloat sandbox remove c");
    state.sandbox(&["start", "--name", "c"]).exits(3);
    let stopped = state.json(&["stop", "c"]);
    assert_eq!(stopped["stopped"], serde_json::json!(["c-2", "c-1"]));
    let again = state.json(&["restart", "c"]);
    assert_eq!(again["nodes"][1]["status"], "running");
    assert_eq!(state.answer("c-1", SIZE), "wsrep_cluster_size\t2");
    assert_eq!(
        state.json(&["remove"]),
        serde_json::json!({ "removed": ["c"] })
    );
    assert_nothing_left(state);
}

/// Nodes with mariadb-backup as SST method, each with its own network namespace: a cable is
/// unplugged and plugged in again.
#[test]
fn a_node_of_a_cluster_is_cut_off_and_healed() {
    let state = State::filled();
    let start = ["start", "--galera", "2", "--name", "far", "--isolated"];
    let started = state.json(&[&start[..], &["--sst", "mariabackup"]].concat());
    assert_eq!(started["sst"], "mariabackup");
    let method = "SELECT @@wsrep_sst_method";
    assert_eq!(state.answer("far-2", method), "mariabackup");
    let url = started["nodes"][1]["url"].as_str().expect("a URL");
    let address = url.strip_prefix("mysql://root@").expect("an account");
    let address = address.trim_end_matches('/').parse().expect("an address");
    let patience = Duration::from_secs(1);
    let is_reached = || TcpStream::connect_timeout(&address, patience).is_ok();
    assert!(is_reached(), "{address}");
    let node = |command: &str, status: &str| {
        let done = state.json(&["node", command, "far-2"]);
        let expected = serde_json::json!({ "name": "far-2", "status": status });
        assert_eq!(done, expected);
    };
    node("cut", "cut");
    assert!(!is_reached(), "{address}");
    let table = state.sandbox(&["list"]).exits(0).stdout;
    let line = table.lines().find(|line| line.starts_with("far-2 "));
    assert!(line.is_some_and(|line| line.contains(" cut ")), "{table}");
    // Its Unix socket does not go through the cable.
    assert_eq!(state.answer("far-2", "SELECT 1"), "1");
    node("heal", "running");
    wait_until("it is reached, and is one of two", || {
        is_reached() && state.answer("far-2", SIZE) == "wsrep_cluster_size\t2"
    });
    state.json(&["remove", "far"]);
    assert_nothing_left(&state);
}
