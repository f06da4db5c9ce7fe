//! A real proxy runs health checks against real nodes: a donor drains and comes back, and the
//! application does not notice.

// Hazard of clusters: G-28 a donor gets no traffic, and sessions that stay open on it do not fail

#[path = "nodes/slow.rs"]
mod slow;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use refloat_cluster::healthd::{Healthd, HealthdOptions, Rules};
use refloat_cluster::{Member, Observation, observe};
use refloat_host::Host;
use refloat_run::{Cancel, CancelReason};
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, HaproxyOptions, NodeStart};
use refloat_testkit::servers;
use refloat_testkit::stop::StopOnDrop;
use refloat_testkit::wait_until;
use refloat_wire::{ConnectOptions, Connection};

use slow::others_take_long;

/// Limit for every wait.
const LONG: Duration = Duration::from_secs(90);
/// Two proxy checks and a margin. By then the proxy has noticed, unless the machine is busy.
const NOTICED: Duration = Duration::from_millis(2500);

fn healthd(node: &GaleraNode, cancel: &Cancel, log: &Arc<Mutex<String>>) -> Healthd {
    let options = HealthdOptions {
        node: ConnectOptions::from_url(&node.url()).unwrap(),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        agent_listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        rules: Rules::default(),
        interval: Duration::from_millis(200),
    };
    let log = Arc::clone(log);
    Healthd::start(&options, cancel, move |line| {
        let _ = writeln!(log.lock().unwrap(), "{line}");
    })
    .unwrap()
}

fn talk(address: SocketAddr, question: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn http(healthd: &Healthd, path: &str) -> String {
    talk(healthd.address(), &format!("GET {path} HTTP/1.0\r\n\r\n"))
}

fn agent(healthd: &Healthd) -> String {
    talk(healthd.agent_address().unwrap(), "")
}

fn is_up(healthd: &Healthd) -> bool {
    http(healthd, "/").starts_with("HTTP/1.1 200 OK")
}

/// Options for a server that may hang: reads time out.
fn options_of(url: &str) -> ConnectOptions {
    let mut options = ConnectOptions::from_url(url).unwrap();
    options.read_timeout = Some(LONG);
    options
}

fn connect(node: &GaleraNode) -> Connection {
    Connection::connect(&options_of(&node.url())).unwrap()
}

/// What an application that never retries has seen: answers per node, and failures.
#[derive(Default)]
struct Seen {
    answers: BTreeMap<String, u64>,
    failed: Vec<String>,
}

/// Opens a new connection for each transaction, as many applications do.
fn application(url: &str, seen: &Mutex<Seen>, stop: &AtomicBool) {
    let options = options_of(url);
    while !stop.load(Ordering::Relaxed) {
        let result = Connection::connect(&options).and_then(|mut server| {
            server.exec("INSERT INTO shop.t (v) VALUES ('x')")?;
            server.query_value("SELECT @@wsrep_node_name")
        });
        let mut seen = seen.lock().unwrap();
        match result {
            Ok(node) => *seen.answers.entry(node.unwrap()).or_default() += 1,
            Err(error) => seen.failed.push(error.to_string()),
        }
        drop(seen);
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(pids: &[u32], signal: &str) {
    for pid in pids {
        let status = Command::new("kill")
            .args([signal, &pid.to_string()])
            .status()
            .unwrap();
        // A process that has ended in the meantime takes no signal.
        let _ = status;
    }
}

/// The donor's SST helpers, stopped until this is dropped: copying an empty server takes no time.
/// Writers on the donor may have to wait for them, so they are resumed even if a test fails.
struct HeldUp(Vec<u32>);

impl HeldUp {
    /// Starts a node that needs a full copy, and holds the copy up. On a busy machine the helpers
    /// may have ended it before they are stopped: then the node goes and comes once more.
    fn copy(cluster: &EphemeralCluster, donor: &GaleraNode, joiner: &GaleraNode) -> Self {
        for _ in 0..5 {
            std::fs::remove_file(joiner.grastate()).unwrap();
            joiner
                .begin(&NodeStart::join().argument("wsrep_sst_donor", donor.name()))
                .unwrap();
            wait_until("the copy begins", || !donor.helpers().is_empty());
            let held = Self(donor.helpers());
            signal(&held.0, "-STOP");
            // More than a donor needs to take note of a helper's last words.
            std::thread::sleep(Duration::from_millis(500));
            let state = "SELECT variable_value FROM information_schema.global_status \
                         WHERE variable_name = 'wsrep_local_state_comment'";
            let state = connect(donor).query_value(state).unwrap();
            if state.as_deref() == Some("Donor/Desynced") {
                return held;
            }
            drop(held);
            joiner.wait_ready(LONG).unwrap();
            // Applications must not notice that it goes.
            joiner.query("SET GLOBAL read_only=1").unwrap();
            wait_until("nobody uses it", || is_down(cluster, joiner));
            std::thread::sleep(NOTICED);
            joiner.stop().unwrap();
        }
        panic!("every copy ended before it was held up");
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        signal(&self.0, "-CONT");
    }
}

#[test]
fn a_donor_drains_and_comes_back_without_a_failed_query() {
    let options = GaleraOptions::new(servers::nodes(), 3);
    let cluster = servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
    let node = |number: u32| cluster.node(number).unwrap();
    let (cancel, log) = (Cancel::new(), Arc::new(Mutex::new(String::new())));
    let services: Vec<Healthd> = cluster
        .nodes()
        .iter()
        .map(|node| healthd(node, &cancel, &log))
        .collect();
    let health = |number: usize| &services[number - 1];
    let mut server = connect(node(1));
    server.exec("CREATE DATABASE shop").unwrap();
    server
        .exec("CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY, v TEXT)")
        .unwrap();
    wait_until("all are up", || services.iter().all(is_up));
    assert_eq!(agent(health(1)), "ready up 100%\n");
    assert!(http(health(1), "/").ends_with("\r\n\r\nup: synced: the node is synced\n"));
    let status = http(health(1), "/status");
    assert!(
        status.contains(r#""state":"synced""#) && status.contains("application/json"),
        "{status}"
    );

    read_only(health(2), node(2));
    desynced(health(2), node(2));
    frozen(health(2), node(2));
    goes_down(health(3), node(3));
    drained_by_its_health_checks(&cluster, &services, &log);
    drained_by_its_agent(&cluster, &services);
    lagging(&cluster, health(2));
    without_a_majority(&cluster, health(2));
    cancel.cancel(CancelReason::Signal(2));
    services.into_iter().for_each(Healthd::join);
}

fn goes_down(service: &Healthd, node: &GaleraNode) {
    node.stop().unwrap();
    wait_until("it is down", || !is_up(service));
    assert!(http(service, "/").contains("503 Service Unavailable"));
    assert!(
        agent(service).starts_with("ready down #"),
        "{}",
        agent(service)
    );
}

/// The third node, which is down, needs a full copy, from a known donor. The proxy sends clients to
/// that donor before and after the copy, and none during it.
fn drained_by_its_health_checks(
    cluster: &EphemeralCluster,
    services: &[Healthd],
    log: &Mutex<String>,
) {
    let node = |number: u32| cluster.node(number).unwrap();
    let health = |number: usize| &services[number - 1];
    let ports = services
        .iter()
        .map(|service| service.address().port())
        .collect();
    cluster
        .start_haproxy(&HaproxyOptions {
            http_check_ports: ports,
            ..HaproxyOptions::default()
        })
        .unwrap();
    let url = cluster.haproxy_url().unwrap();
    let (seen, stop) = (Mutex::new(Seen::default()), AtomicBool::new(false));
    let answers = |number: u32| {
        seen.lock()
            .unwrap()
            .answers
            .get(node(number).name())
            .copied()
            .unwrap_or(0)
    };
    std::thread::sleep(NOTICED);
    wait_until("the proxy has noticed", || is_down(cluster, node(3)));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let client = scope.spawn(|| application(&url, &seen, &stop));
        wait_until("both serve", || answers(1) > 5 && answers(2) > 5);
        // Hold the copy until the proxy and the health checks have noticed.
        let held = HeldUp::copy(cluster, node(2), node(3));
        wait_until("the donor drains", || {
            http(health(2), "/").contains("down: donor: the node gives a copy to another one")
        });
        assert_eq!(
            agent(health(2)),
            "up drain #the node gives a copy to another one\n"
        );
        wait_until("the proxy has noticed", || is_down(cluster, node(2)));
        // The application runs one transaction at a time: once another node has answered more than
        // once, its last transaction on the donor is over.
        let another_answers = || {
            let others = answers(1);
            wait_until("another one serves", || answers(1) > others + 1);
        };
        another_answers();
        let before = answers(2);
        std::thread::sleep(NOTICED);
        another_answers();
        assert_eq!(
            answers(2),
            before,
            "the proxy still sends clients to the donor"
        );
        drop(held);
        node(3).wait_ready(LONG).unwrap();
        wait_until("all are up again", || services.iter().all(is_up));
        wait_until("all serve again", || answers(2) > before && answers(3) > 0);
        stop.store(true, Ordering::Relaxed);
        client.join().unwrap();
    });
    let seen = seen.into_inner().unwrap();
    assert!(
        seen.failed.is_empty(),
        "{:?}\n{}",
        seen.failed,
        log.lock().unwrap()
    );
    let log = log.lock().unwrap().clone();
    assert!(
        log.contains(&format!(
            "{}: donor: ",
            ConnectOptions::from_url(&node(2).url()).unwrap().describe()
        )),
        "{log}"
    );
}

/// Keeps one connection to a node, as pools do, and never retries. `done` counts finished
/// transactions.
fn stays(
    url: &str,
    node: &GaleraNode,
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<(), refloat_wire::Error> {
    let options = options_of(url);
    let mut server = loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut server = Connection::connect(&options)?;
        let name = server.query_value("SELECT @@wsrep_node_name")?;
        if name.as_deref() == Some(node.name()) {
            break server;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    while !stop.load(Ordering::Relaxed) {
        for sql in ["BEGIN", "INSERT INTO shop.t (v) VALUES ('y')", "COMMIT"] {
            server.exec(sql)?;
        }
        done.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// With agent checks beside the HTTP checks, a donor gets no new clients, keeps those it has and
/// counts as up; a dead node counts as down.
fn drained_by_its_agent(cluster: &EphemeralCluster, services: &[Healthd]) {
    let ports = |address: fn(&Healthd) -> SocketAddr| {
        let ports = services.iter().map(|service| address(service).port());
        ports.collect()
    };
    let options = HaproxyOptions {
        http_check_ports: ports(Healthd::address),
        agent_check_ports: ports(|service| service.agent_address().unwrap()),
    };
    let [second, third] = [2, 3].map(|number| cluster.node(number).unwrap());
    third.stop().unwrap();
    cluster.start_haproxy(&options).unwrap();
    let url = cluster.haproxy_url().unwrap();
    let (seen, stop) = (Mutex::new(Seen::default()), AtomicBool::new(false));
    let done = AtomicU64::new(0);
    let answers = || {
        let seen = seen.lock().unwrap();
        seen.answers.get(second.name()).copied().unwrap_or(0)
    };
    let stayed = || done.load(Ordering::Relaxed);
    // Before the first agent check the proxy knows nothing.
    std::thread::sleep(NOTICED);
    wait_until("the proxy has noticed", || is_down(cluster, third));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let client = scope.spawn(|| application(&url, &seen, &stop));
        let session = scope.spawn(|| stays(&url, second, &done, &stop));
        wait_until("the second serves", || answers() > 5 && stayed() > 5);
        let held = HeldUp::copy(cluster, second, third);
        wait_until("it is drained", || {
            proxy_says(cluster, second.name()) == "DRAIN (agent)"
        });
        let before = answers();
        std::thread::sleep(NOTICED);
        let served = answers() - before;
        let status = proxy_says(cluster, second.name());
        assert!(
            served <= 1,
            "it gets {served} new clients, the proxy says {status}"
        );
        wait_until("the copy that it takes is seen", || receives_a_copy(third));
        drop(held);
        third.wait_ready(LONG).unwrap();
        let went_on = stayed();
        wait_until("it serves again", || {
            answers() > before + 5 && stayed() > went_on + 5
        });
        assert_eq!(proxy_says(cluster, second.name()), "UP");
        stop.store(true, Ordering::Relaxed);
        client.join().unwrap();
        let kept = session.join().unwrap();
        assert!(kept.is_ok(), "{kept:?}");
    });
    let failed = seen.into_inner().unwrap().failed;
    assert!(failed.is_empty(), "{failed:?}");
    second.freeze().unwrap();
    wait_until("it is down", || is_down(cluster, second));
    second.thaw().unwrap();
    wait_until("it is up", || proxy_says(cluster, second.name()) == "UP");
}

/// Whether an observation tells a node that receives a full copy from one that is down.
fn receives_a_copy(node: &GaleraNode) -> bool {
    let member = Member {
        name: node.name().to_owned(),
        connect: ConnectOptions::from_url(&node.url()).unwrap(),
        host: Some(Host::Local),
        datadir: Some(node.datadir()),
        log: None,
        defaults_file: None,
    };
    let view = observe("test", &[member], &Observation::default());
    let reports = |words: &str| view.findings.iter().any(|one| one.text.contains(words));
    assert!(!reports("is damaged"), "{view:#?}");
    view.nodes[0].receives.is_some() && reports("it receives a full copy")
}

fn is_down(cluster: &EphemeralCluster, node: &GaleraNode) -> bool {
    proxy_says(cluster, node.name()).starts_with("DOWN")
}

/// The proxy's `status` for a node, from its statistics.
fn proxy_says(cluster: &EphemeralCluster, node: &str) -> String {
    let mut stream = UnixStream::connect(cluster.haproxy_socket()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"show stat\n").unwrap();
    let mut statistics = String::new();
    stream.read_to_string(&mut statistics).unwrap();
    let mut rows = statistics
        .lines()
        .map(|line| line.split(',').collect::<Vec<&str>>());
    let names = rows.next().unwrap_or_default();
    let status = names.iter().position(|name| *name == "status").unwrap();
    let row = rows.find(|row| row.get(1) == Some(&node)).unwrap();
    row[status].to_owned()
}

fn read_only(service: &Healthd, node: &GaleraNode) {
    node.query("SET GLOBAL read_only=1").unwrap();
    wait_until("it is read-only", || {
        http(service, "/").contains("down: read_only: ")
    });
    assert!(http(service, "/read").starts_with("HTTP/1.1 200 OK"));
    assert!(http(service, "/write").contains("down: read_only: the node is read-only"));
    node.query("SET GLOBAL read_only=0").unwrap();
    wait_until("it is writable", || is_up(service));
}

fn desynced(service: &Healthd, node: &GaleraNode) {
    node.query("SET GLOBAL wsrep_desync=ON").unwrap();
    wait_until("it keeps no pace", || {
        agent(service).starts_with("up drain #")
    });
    assert!(http(service, "/").contains("down: desynced: "));
    node.query("SET GLOBAL wsrep_desync=OFF").unwrap();
    wait_until("it keeps pace", || is_up(service));
}

/// A node falls behind the writer, because flow control is set too lax to slow the writer down.
fn lagging(cluster: &EphemeralCluster, service: &Healthd) {
    let limit = |writes: u32| {
        for node in cluster.nodes() {
            servers::set_provider_option(node, "gcs.fc_limit", &writes.to_string());
        }
    };
    let mut first = connect(cluster.node(1).unwrap());
    limit(10_000);
    first.exec("USE shop").unwrap();
    others_take_long(&mut first, 6000);
    for _ in 0..300 {
        first.exec("INSERT INTO t (v) VALUES ('behind')").unwrap();
    }
    wait_until("it lags", || {
        http(service, "/").contains("down: lagging: ") && agent(service).starts_with("up drain #")
    });
    wait_until("it has caught up", || is_up(service));
    limit(16);
}

/// Two of three nodes are silent: the third must not serve data that may be stale.
fn without_a_majority(cluster: &EphemeralCluster, service: &Healthd) {
    let others = [1, 3].map(|number| cluster.node(number).unwrap());
    for node in &others {
        node.freeze().unwrap();
    }
    wait_until("it has no majority", || {
        http(service, "/").contains("down: non_primary: ")
    });
    assert!(http(service, "/read").contains("503 Service Unavailable"));
    assert!(agent(service).contains("down #"), "{}", agent(service));
    for node in &others {
        node.thaw().unwrap();
    }
    wait_until("they are together again", || is_up(service));
}

/// A silent node does not keep its last known state.
fn frozen(service: &Healthd, node: &GaleraNode) {
    node.freeze().unwrap();
    let begun = Instant::now();
    wait_until("it is silent", || !is_up(service));
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert!(http(service, "/").contains("down: unreachable: "));
    node.thaw().unwrap();
    wait_until("it is back", || is_up(service));
}
