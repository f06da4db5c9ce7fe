//! Starts, joins, kills, freezes, cuts off, heals and removes clusters, and checks that nothing is
//! left.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use refloat_sandbox::{
    EphemeralCluster, Error, GaleraCluster, GaleraNode, GaleraOptions, HaproxyOptions, NodeStart,
    Sandbox, ServerKind, SstMethod, Status, Tls,
};

use crate::common::{assert_nothing_left, folder, processes_of, sandbox_in};
use crate::mishaps::edit_state;
use crate::owners::{given_folder, in_another_process};

/// How long a cluster may take to notice that a node has gone or come back.
const PATIENCE: Duration = Duration::from_secs(60);

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[track_caller]
fn ask(node: &GaleraNode, sql: &str) -> String {
    node.query(sql)
        .unwrap_or_else(|error| panic!("{}: {sql}: {error}", node.name()))
}

fn status(node: &GaleraNode, name: &str) -> String {
    let answer = ask(node, &format!("SHOW STATUS LIKE 'wsrep_{name}'"));
    answer.split('\t').nth(1).unwrap_or_default().to_owned()
}

fn size_is(node: &GaleraNode, size: &str) -> bool {
    status(node, "cluster_size") == size && status(node, "local_state_comment") == "Synced"
}

/// Counts the rows after the node has applied everything that was committed before.
const ROWS: &str = "SET SESSION wsrep_sync_wait = 1; SELECT COUNT(*) FROM t.a";

fn rows(node: &GaleraNode) -> String {
    ask(node, ROWS)
}

/// A node that was unreachable thinks for a moment that nothing has happened, and only then asks
/// for the write-sets it missed.
fn comes_back(node: &GaleraNode, among: &[GaleraNode], size: &str) {
    wait_until("it is back", || {
        among.iter().all(|node| size_is(node, size)) && node.query(ROWS).is_ok()
    });
}

fn insert(node: &GaleraNode) {
    ask(node, "INSERT INTO t.a VALUES (NULL)");
}

/// The log of a node from a given length on. Create it before the events of interest.
struct Log<'a>(&'a GaleraNode, usize);

impl<'a> Log<'a> {
    fn of(node: &'a GaleraNode) -> Self {
        Self(node, fs::read(node.error_log()).map_or(0, |log| log.len()))
    }

    fn says(&self, words: &str) -> bool {
        let log = fs::read(self.0.error_log()).unwrap_or_default();
        String::from_utf8_lossy(&log[self.1..]).contains(words)
    }
}

/// Everything that a cluster could leave behind: processes with its directory in their command line
/// or environment, namespaces and interfaces.
fn traces(folder: &Path) -> Vec<String> {
    let mark = folder.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            if String::from_utf8_lossy(&bytes).contains(&mark) {
                let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                found.push(format!("{} {name}", entry.file_name().display()));
            }
        }
    }
    found
}

/// The namespaces and interfaces that belong to sandboxes.
fn networks() -> Vec<String> {
    ["/run/netns", "/sys/class/net"]
        .iter()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("refloat-") || name.starts_with("rfl"))
        .collect()
}

/// The namespaces and interfaces that belong to this cluster.
fn networks_of(cluster: &GaleraCluster) -> Vec<String> {
    let state = fs::read_to_string(cluster.folder().path().join("cluster.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let Some(token) = state["network"]["token"].as_str() else {
        return Vec::new();
    };
    let all = networks().into_iter();
    all.filter(|name| name.contains(token)).collect()
}

fn reaches(node: &GaleraNode) -> bool {
    let address = SocketAddr::from((node.host(), node.port()));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

/// Queries through the proxy, as an application would: over TCP, with the stock client.
fn ask_proxy(cluster: &GaleraCluster, sql: &str) -> Result<String, String> {
    let port = cluster.haproxy_port().unwrap();
    let output = Command::new("mariadb")
        .args([
            "--no-defaults",
            "--skip-ssl",
            "--protocol=tcp",
            "--host=127.0.0.1",
        ])
        .args([
            "--user=root",
            "--batch",
            "--skip-column-names",
            "--connect-timeout=5",
        ])
        .args([&format!("--port={port}"), "-e", sql])
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The server for clusters in tests that do not name one.
fn nodes() -> ServerKind {
    std::env::var("REFLOAT_NODES").map_or(ServerKind::MariaDb1011, |name| name.parse().unwrap())
}

#[test]
fn a_cluster_goes_through_its_troubles() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let options = GaleraOptions::new(nodes(), 3)
        .name("c")
        .isolated()
        .haproxy(HaproxyOptions::default())
        .option("wsrep_provider_options", "gcache.size=16M")
        .provider_option("evs.keepalive_period", "PT0.5S")
        .provider_option("evs.suspect_timeout", "PT2S")
        .provider_option("evs.inactive_timeout", "PT4S")
        .node_option(2, "max_connections", "77");
    let cluster = sandbox.start_cluster_ephemeral(&options).unwrap();
    its_start_is_as_asked(&cluster);
    a_frozen_node_answers_nobody(&cluster);
    a_killed_node_comes_back_by_ist(&cluster);
    a_node_that_is_cut_off_comes_back(&cluster);
    a_start_that_nobody_wrote_down_is_not_made_twice(&cluster);
    a_node_without_a_past_comes_back_by_sst(&cluster);
    a_whole_cluster_begins_again(&cluster);
    let networks = networks_of(&cluster);
    // One for each of the three nodes, the bridge's, and the machine's own interface.
    assert_eq!(networks.len(), 5, "{networks:?}");
    assert!(!traces(folder.path()).is_empty());
    cluster.remove().unwrap();
    assert_gone(&sandbox, folder.path());
    for name in networks {
        assert!(!self::networks().contains(&name), "{name} is left");
    }
}

fn assert_gone(sandbox: &Sandbox, folder: &Path) {
    assert_eq!(traces(folder), Vec::<String>::new());
    assert_nothing_left(sandbox);
    let left: Vec<_> = fs::read_dir(sandbox.state_dir().join("clusters"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn its_start_is_as_asked(cluster: &EphemeralCluster) {
    let mysql = std::process::Command::new("id")
        .args(["-u", "mysql"])
        .output();
    let mysql = String::from_utf8(mysql.unwrap().stdout).unwrap();
    for node in cluster.nodes() {
        let pid = node.pid().unwrap().unwrap();
        let process = fs::metadata(format!("/proc/{pid}")).unwrap();
        let owner = std::os::unix::fs::MetadataExt::uid(&process);
        assert_eq!(owner.to_string(), mysql.trim(), "{}", node.name());
    }
    let [first, second, third] = cluster.nodes() else {
        panic!("three nodes");
    };
    assert!(cluster.nodes().iter().all(|node| size_is(node, "3")));
    assert_eq!(ask(second, "SELECT @@max_connections"), "77");
    assert_eq!(ask(third, "SELECT @@max_connections"), "100");
    assert!(ask(first, "SELECT @@wsrep_provider_options").contains("gcache.size = 16M"));
    ask(
        first,
        "CREATE DATABASE t; CREATE TABLE t.a (id INT AUTO_INCREMENT PRIMARY KEY)",
    );
    insert(first);
    assert_eq!(rows(third), "1");
    // Every node knows all members, and none has stored an argument that bootstraps a cluster.
    for node in cluster.nodes() {
        let config = fs::read_to_string(node.config()).unwrap();
        let members: Vec<String> = cluster
            .nodes()
            .iter()
            .map(GaleraNode::group_address)
            .collect();
        let line = format!("wsrep_cluster_address=gcomm://{}", members.join(","));
        assert!(config.contains(&line), "{config}");
        assert!(reaches(node));
    }
    let text = fs::read_to_string(cluster.toml()).unwrap();
    assert!(
        text.starts_with("name = \"c\"\n\n[[node]]\nname = \"c-1\"\n"),
        "{text}"
    );
    let line = format!("url = \"{}\"\nlocal = true\n", third.url());
    assert!(text.contains(&line), "{text}");
    let line = format!("defaults_file = \"{}\"\n", third.config().display());
    assert!(text.ends_with(&line), "{text}");
    // The proxy distributes connections to all nodes in turn.
    let mut seen: Vec<String> = (0..3)
        .map(|_| ask_proxy(cluster, "SELECT @@wsrep_node_name").unwrap())
        .collect();
    seen.sort();
    assert_eq!(seen, ["c-1", "c-2", "c-3"]);
}

fn a_frozen_node_answers_nobody(cluster: &EphemeralCluster) {
    let node = cluster.node(2).unwrap();
    node.freeze().unwrap();
    assert_eq!(node.status().unwrap(), Status::Frozen);
    assert!(matches!(node.stop(), Err(Error::Frozen { .. })));
    wait_until("the others go on without it", || {
        status(cluster.node(1).unwrap(), "cluster_size") == "2"
    });
    insert(cluster.node(1).unwrap());
    node.thaw().unwrap();
    comes_back(node, cluster.nodes(), "3");
    assert_eq!(rows(node), "2");
}

fn a_killed_node_comes_back_by_ist(cluster: &EphemeralCluster) {
    let [first, second, third] = cluster.nodes() else {
        panic!("three nodes");
    };
    let log = Log::of(third);
    third.kill().unwrap();
    assert_eq!(third.status().unwrap(), Status::Stopped);
    assert!(matches!(third.freeze(), Err(Error::NotRunning { .. })));
    // The proxy notices, and sends all connections to the other nodes.
    wait_until("the others go on without it", || size_is(first, "2"));
    wait_until("the proxy goes on without it", || {
        (0..3).all(|_| {
            ask_proxy(
                cluster,
                "INSERT INTO t.a VALUES (NULL); SELECT @@wsrep_node_name",
            )
            .is_ok_and(|name| name != "c-3")
        })
    });
    assert!(cluster.haproxy_pid().is_some());
    // The node does not know its position, but can recover it.
    assert_eq!(third.state().unwrap().seqno, None);
    let position = third.recover().unwrap();
    assert!(position.is_known(), "{position}");
    third.start().unwrap();
    assert!(log.says("Receiving IST"), "{}", third.error_log().display());
    assert_eq!(rows(third), rows(second));
    wait_until("the proxy sends connections to it again", || {
        ask_proxy(cluster, "SELECT @@wsrep_node_name").is_ok_and(|name| name == "c-3")
    });
}

fn a_node_that_is_cut_off_comes_back(cluster: &EphemeralCluster) {
    let [first, _, third] = cluster.nodes() else {
        panic!("three nodes");
    };
    third.cut().unwrap();
    assert_eq!(third.status().unwrap(), Status::Cut);
    assert!(!reaches(third));
    wait_until("the others go on without it", || size_is(first, "2"));
    // Its socket still works, and it knows that it is not part of the primary component.
    wait_until("it gives up", || {
        status(third, "cluster_status") == "non-Primary"
    });
    assert!(third.query("INSERT INTO t.a VALUES (NULL)").is_err());
    insert(first);
    third.heal().unwrap();
    assert_eq!(third.status().unwrap(), Status::Running);
    comes_back(third, cluster.nodes(), "3");
    assert_eq!(rows(third), rows(first));
}

/// The process that started the node was killed after spawning the server and before recording its
/// process.
fn a_start_that_nobody_wrote_down_is_not_made_twice(cluster: &EphemeralCluster) {
    let third = &cluster.nodes()[2];
    let datadir = third.datadir();
    let forget = || {
        edit_state(third.folder(), |state| {
            state["process"] = serde_json::Value::Null;
        });
    };
    let before = processes_of(&datadir);
    forget();
    third.start().unwrap();
    assert_eq!(processes_of(&datadir), before);
    forget();
    assert_eq!(third.status().unwrap(), Status::Running);
    third.stop().unwrap();
    assert!(processes_of(&datadir).is_empty());
    third.start().unwrap();
}

fn a_node_without_a_past_comes_back_by_sst(cluster: &EphemeralCluster) {
    let [first, second, third] = cluster.nodes() else {
        panic!("three nodes");
    };
    let donors = [Log::of(first), Log::of(third)];
    second.stop().unwrap();
    fs::remove_file(second.grastate()).unwrap();
    // Freeze the node and its helpers in the middle of the transfer, then kill them.
    second.begin(&NodeStart::join()).unwrap();
    assert_eq!(second.status().unwrap(), Status::Starting);
    wait_until("the state transfer begins", || second.helpers().len() > 1);
    second.freeze().unwrap();
    let frozen = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" T"))
    };
    // A signal takes time on a busy machine, and some helpers may have finished by then.
    wait_until("what it has started is frozen too", || {
        second.helpers().iter().all(frozen)
    });
    second.crash().unwrap();
    assert_eq!(second.helpers(), Vec::<u32>::new());
    wait_until("the donor is done with it", || {
        size_is(first, "2") && size_is(third, "2")
    });
    second.start().unwrap();
    assert_eq!(rows(second), rows(first));
    assert!(donors.iter().any(|log| log.says("SST sent")));
}

fn a_whole_cluster_begins_again(cluster: &EphemeralCluster) {
    let [first, second, third] = cluster.nodes() else {
        panic!("three nodes");
    };
    let before = rows(first);
    cluster.stop().unwrap();
    assert_eq!(first.state().unwrap().safe_to_bootstrap, Some(true));
    // A node that did not stop last must not bootstrap. The error contains the reason.
    let error = second.start_with(&NodeStart::bootstrap()).unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error}");
    assert!(error.to_string().contains("safe_to_bootstrap"), "{error}");
    // Start one as a standalone server for a moment.
    let alone = NodeStart::join().argument("wsrep_provider", "none");
    first.start_with(&alone).unwrap();
    assert_eq!(ask(first, "SELECT @@wsrep_provider"), "none");
    first.stop().unwrap();
    first.start_with(&NodeStart::bootstrap()).unwrap();
    second.start().unwrap();
    third.start().unwrap();
    assert_eq!(rows(third), before);
    // The node that bootstrapped the cluster joins it at its next start.
    first.stop().unwrap();
    first.start().unwrap();
    assert!(size_is(first, "3"));
    // The power fails.
    cluster.crash().unwrap();
    let positions = cluster.nodes().iter().map(|node| node.recover().unwrap());
    let positions: Vec<String> = positions.map(|position| position.uuid).collect();
    assert!(
        positions.iter().all(|uuid| *uuid == positions[0]),
        "{positions:?}"
    );
}

/// Does anything listen on this port on every address? See proc(5), `/proc/net/tcp`: 0A is the
/// state of a listener.
fn listens_everywhere(port: u16) -> bool {
    let ends = [
        format!("00000000:{port:04X}"),
        format!("{:032}:{port:04X}", 0),
    ];
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = fs::read_to_string(table).unwrap_or_default();
        table.lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(3) == Some(&"0A") && ends.iter().any(|end| fields[1] == end)
        })
    })
}

/// Both state transfer methods, to a node of this kind.
fn two_nodes(kind: ServerKind, tls: Tls) {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let options = GaleraOptions::new(kind, 2)
        .sst(SstMethod::Mariabackup)
        .tls(tls);
    let cluster = sandbox.start_cluster_ephemeral(&options).unwrap();
    let [first, second] = cluster.nodes() else {
        panic!("two nodes");
    };
    assert_eq!((cluster.name(), first.name()), ("galera", "galera-1"));
    assert!(size_is(first, "2"));
    assert!(Log(first, 0).says("wsrep_sst_mariabackup --role 'donor'"));
    assert!(Log(second, 0).says(",bind=127.0.0.1 stdio"));
    assert!(matches!(second.cut(), Err(Error::NotIsolated { .. })));
    let refused = sandbox.remove("galera-1");
    assert!(matches!(refused, Err(Error::NodeOfCluster { .. })));
    ask(
        first,
        "CREATE DATABASE t; CREATE TABLE t.a (id INT AUTO_INCREMENT PRIMARY KEY)",
    );
    // Now the other method: the joiner chooses it.
    second.stop().unwrap();
    insert(first);
    fs::remove_file(second.grastate()).unwrap();
    let by_rsync = NodeStart::join().argument("wsrep_sst_method", "rsync");
    second.begin(&by_rsync).unwrap();
    let address: SocketAddr = second.sst_address().parse().unwrap();
    let port = address.port();
    let deadline = Instant::now() + PATIENCE;
    while second.status().unwrap() == Status::Starting {
        assert!(
            Instant::now() < deadline,
            "{} is still starting after {} s",
            second.name(),
            PATIENCE.as_secs()
        );
        assert!(!listens_everywhere(port), "port {port} is open to all");
        std::thread::sleep(Duration::from_millis(20));
    }
    second.wait_ready(PATIENCE).unwrap();
    assert!(Log(first, 0).says("wsrep_sst_rsync --role 'donor'"));
    assert_eq!(rows(second), "1");
    // Restarting it like any other server also makes it join.
    sandbox.get("galera-2").unwrap().restart().unwrap();
    assert_eq!(rows(second), "1");
    let password = fs::read_to_string(first.config()).unwrap();
    assert!(password.contains("wsrep_sst_auth=sst:"));
    cluster.remove().unwrap();
    assert_gone(&sandbox, folder.path());
}

#[test]
fn data_go_both_ways_to_a_node_of_10_11() {
    two_nodes(ServerKind::MariaDb1011, Tls::Generated);
}

#[test]
fn data_go_both_ways_to_a_node_of_11_8() {
    two_nodes(ServerKind::MariaDb118, Tls::Off);
}

#[test]
#[ignore = "the part of a_cluster_dies_with_its_owner that runs in another process"]
fn start_a_cluster_and_wait() {
    let Some(folder) = given_folder() else {
        return;
    };
    let options = GaleraOptions::new(ServerKind::MariaDb1011, 2)
        .name("held")
        .isolated()
        .haproxy(HaproxyOptions::default());
    let cluster = sandbox_in(&folder).start_cluster_ephemeral(&options);
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(cluster);
}

#[test]
fn a_cluster_dies_with_its_owner() {
    let folder = folder();
    let sandbox = sandbox_in(folder.path());
    let mut owner = in_another_process("galera::start_a_cluster_and_wait", folder.path());
    // In the middle of its start.
    wait_until("its first node joins the others", || {
        sandbox
            .node("held-2")
            .is_ok_and(|node| node.status().is_ok_and(Status::is_alive))
    });
    let networks = networks_of(&sandbox.cluster("held").unwrap());
    assert_eq!(networks.len(), 4, "{networks:?}");
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("nothing is left", || {
        traces(folder.path()).is_empty()
            && sandbox.clusters().unwrap().is_empty()
            && !self::networks().iter().any(|name| networks.contains(name))
    });
    assert_gone(&sandbox, folder.path());
}
