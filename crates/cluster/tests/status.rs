//! The status of a real cluster: whole, with a node away, frozen or killed, and with all nodes
//! down.

#[path = "nodes/control.rs"]
mod control;
#[path = "nodes/looking.rs"]
mod looking;
mod nodes;
#[path = "nodes/slow.rs"]
mod slow;

use std::path::Path;
use std::time::{Duration, Instant};

use refloat_cluster::{ClusterView, Member, RejoinKind, Role, Severity, WantedTables, discover};
use refloat_host::StartAs;
use refloat_sandbox::{EphemeralCluster, GaleraNode, GaleraOptions, NodeStart, ServerKind};
use refloat_testkit::servers;
use refloat_wire::ConnectOptions;

use looking::{LONG, look_for, until};
use nodes::{connect, members};
use slow::others_take_long;

fn look(members: &[Member]) -> ClusterView {
    look_for(members, Duration::from_millis(200), WantedTables::Always)
}

fn look_until(
    members: &[Member],
    what: &str,
    wanted: impl Fn(&ClusterView) -> bool,
) -> ClusterView {
    until(what, || look(members), wanted)
}

fn finding<'a>(view: &'a ClusterView, words: &str) -> &'a refloat_cluster::Finding {
    let found = view
        .findings
        .iter()
        .find(|finding| finding.text.contains(words));
    found.unwrap_or_else(|| panic!("no finding says {words:?}: {:#?}", view.findings))
}

fn says(view: &ClusterView, words: &str) -> bool {
    view.findings
        .iter()
        .any(|finding| finding.text.contains(words))
}

/// Writes `transactions` transactions of about `bytes` bytes each.
fn write(node: &GaleraNode, transactions: u64, bytes: usize) {
    let begun = Instant::now();
    let mut server = connect(node);
    let sql = format!("INSERT INTO shop.t (v) VALUES (REPEAT('x', {bytes}))");
    for _ in 0..transactions {
        // After a node was thawed, the members renegotiate and refuse writes for a moment.
        while let Err(error) = server.exec(&sql) {
            assert!(begun.elapsed() < LONG, "{error}");
            std::thread::sleep(Duration::from_millis(100));
            server = connect(node);
        }
    }
}

#[test]
fn a_cluster_is_shown_as_it_is() {
    let options = GaleraOptions::new(servers::nodes(), 3)
        .provider_option("gcache.size", "4M")
        .node_provider_option(3, "gcache.size", "8M")
        .node_provider_option(3, "gcs.fc_limit", "20")
        .node_option(2, "wsrep_slave_threads", "3")
        .node_option(2, "wsrep_max_ws_rows", "1000");
    let cluster = servers::sandbox()
        .start_cluster_ephemeral(&options)
        .unwrap();
    let members = members(&cluster);
    let node = |number: u32| cluster.node(number).unwrap();
    let mut server = connect(node(1));
    for sql in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT)",
        "CREATE TABLE shop.without (a INT, UNIQUE KEY (a))",
        // InnoDB uses this key as the primary key.
        "CREATE TABLE shop.unique_key (a INT NOT NULL, UNIQUE KEY (a))",
        "CREATE TABLE shop.old (a INT PRIMARY KEY) ENGINE=MyISAM",
    ] {
        server.exec(sql).unwrap();
    }

    whole(&members, &cluster);
    copies_differ(&members, node(3));
    found_from_one(&cluster);
    listed_twice(&members);
    ddl_takes_long(&members, node(1));
    without_pace(&members, node(2));
    frozen(&members, node(2));
    away(&members, node(1), node(2));
    stopped_in_turn(&members, &cluster);
    down(&members, &cluster);
    split(&members, &cluster);
}

fn whole(members: &[Member], cluster: &EphemeralCluster) {
    let view = look_until(members, "all synced and in step", |view| {
        let in_step = view.nodes.iter().all(|node| node.behind == Some(0));
        view.quorum.synced == 3 && in_step
    });
    assert_eq!(
        (view.quorum.listed, view.quorum.primary, view.quorum.size),
        (3, 3, Some(3))
    );
    assert!(
        view.quorum.uuid.is_some() && view.quorum.view.is_some() && view.quorum.seqno >= Some(4)
    );
    for (at, node) in view.nodes.iter().enumerate() {
        let state = node.state.as_ref().unwrap();
        assert_eq!(
            (state.role, state.ready, node.behind),
            (Role::Synced, true, Some(0)),
            "{node:?}"
        );
        assert_eq!(state.gcache.capacity, if at == 2 { 8 } else { 4 } << 20);
        let oldest = state.gcache.oldest;
        assert!(
            oldest > Some(0) && oldest <= state.seqno,
            "{:?}",
            state.gcache
        );
        assert_eq!(state.limits.write_set_rows, (at == 1).then_some(1000));
        assert_eq!(state.limits.write_set_bytes, Some((2 << 30) - 1));
        assert_eq!(
            (state.sst.method.as_str(), state.sst.has_account),
            ("rsync", false)
        );
        let address = cluster.nodes()[at].sst_address();
        assert_eq!(state.sst.receive_address, Some(address));
        assert!(state.sst.bytes > Some(10 << 20), "{:?}", state.sst);
        assert_eq!((&node.rejoin, &node.grastate), (&None, &None));
    }
    let tables = view.tables.as_ref().unwrap();
    assert_eq!(
        (tables.all, tables.without_key_names.as_slice()),
        (4, &["shop.without".to_owned()][..])
    );
    assert_eq!(tables.other_engine_names, ["shop.old"]);
    for words in [
        "gcache capacity differs",
        "wsrep_max_ws_rows differs",
        "wsrep_slave_threads differs",
        "gcs.fc_limit differs",
        "1 table without a primary key: shop.without",
        "1 table of engines other",
    ] {
        assert_eq!(finding(&view, words).severity, Severity::Warning);
    }
    assert!(!says(&view, "wsrep_sst_method differs"));
    assert!(
        view.findings
            .iter()
            .all(|finding| finding.severity < Severity::Critical),
        "{:#?}",
        view.findings
    );
}

/// A node has another SST method than the others, and an account of which only the presence is
/// shown.
fn copies_differ(members: &[Member], node: &GaleraNode) {
    let tell = |method: &str, account: &str| {
        let sql = format!(
            "SET GLOBAL wsrep_sst_method = '{method}'; SET GLOBAL wsrep_sst_auth = '{account}'"
        );
        node.query(&sql).unwrap();
    };
    let words = [
        "wsrep_sst_method differs",
        "the account for copies (wsrep_sst_auth) differs",
    ];
    tell("mariabackup", "somebody:secret");
    let view = look(members);
    let sst = &view.nodes[2].state.as_ref().unwrap().sst;
    assert_eq!(
        (sst.method.as_str(), sst.has_account),
        ("mariabackup", true)
    );
    for words in words {
        assert_eq!(finding(&view, words).severity, Severity::Warning);
    }
    let all = format!("{view:?}");
    assert!(
        !all.contains("secret") && !all.contains("somebody"),
        "{all}"
    );
    tell("rsync", "");
    let view = look(members);
    assert!(
        !words.iter().any(|words| says(&view, words)),
        "{:#?}",
        view.findings
    );
}

fn found_from_one(cluster: &EphemeralCluster) {
    let seed = ConnectOptions::from_url(&cluster.node(2).unwrap().url()).unwrap();
    let found = discover(&seed).unwrap();
    assert_eq!(
        (found.name.as_str(), found.members.len(), found.unnamed),
        (cluster.name(), 3, 0)
    );
    let view = look(&found.members);
    assert_eq!(view.quorum.synced, 3, "{view:#?}");
    let alone = servers::server(ServerKind::MariaDb1011);
    let error = discover(&servers::target(alone)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is not a node of a Galera cluster"),
        "{error}"
    );
}

/// A list that has one node under two names, as a list of load balancer addresses does.
fn listed_twice(members: &[Member]) {
    let mut again = members[0].clone();
    "again".clone_into(&mut again.name);
    let view = look(&[members[0].clone(), again, members[2].clone()]);
    let found = finding(&view, "these are one node");
    assert_eq!(found.severity, Severity::Critical);
    assert_eq!(found.nodes, [members[0].name.as_str(), "again"]);
    assert_eq!((view.quorum.synced, view.quorum.primary), (2, 2));
}

/// A DDL statement that blocks all writers is named, with the nodes that run it.
fn ddl_takes_long(members: &[Member], node: &GaleraNode) {
    let mut server = connect(node);
    for sql in [
        "CREATE TABLE shop.slow (id INT PRIMARY KEY)",
        "INSERT INTO shop.slow SELECT seq FROM shop.seq_1_to_400",
    ] {
        server.exec(sql).unwrap();
    }
    // Slow for every row.
    let alter =
        "ALTER TABLE shop.slow ADD COLUMN sum CHAR(32) AS (MD5(REPEAT(id, 2000000))) STORED";
    std::thread::scope(|scope| {
        scope.spawn(|| server.exec(alter).unwrap());
        let view = look_until(members, "a long DDL statement", |view| {
            says(view, "a DDL statement has run for")
        });
        let found = finding(&view, "a DDL statement has run for");
        assert_eq!(found.severity, Severity::Critical);
        assert!(found.text.contains(": ALTER TABLE shop.slow"), "{found:?}");
    });
    connect(node).exec("DROP TABLE shop.slow").unwrap();
    look_until(members, "nothing runs any more", |view| {
        view.quorum.synced == 3 && !says(view, "a DDL statement")
    });
}

/// A desynced node, which does not hold the others up.
fn without_pace(members: &[Member], node: &GaleraNode) {
    node.query("SET GLOBAL wsrep_desync = ON").unwrap();
    let view = look_until(members, "it keeps no pace", |view| {
        let state = view.nodes[1].state.as_ref();
        state.is_some_and(|state| state.role == Role::Donor && state.desync)
    });
    assert_eq!(view.quorum.synced, 2);
    let found = finding(&view, "it was told not to keep pace (wsrep_desync=ON)");
    assert_eq!(found.nodes, [view.nodes[1].name.clone()]);
    node.query("SET GLOBAL wsrep_desync = OFF").unwrap();
    look_until(members, "it keeps pace", |view| view.quorum.synced == 3);
}

/// Nodes that apply more slowly than the first one writes hold it up. Status shows the lag, the
/// queue, who sends flow control, and how long the writer is paused.
fn held_up(members: &[Member], writer: &GaleraNode) {
    let mut server = connect(writer);
    server.exec("USE shop").unwrap();
    let mut seen = [false; 4];
    let begun = Instant::now();
    // Flow control may set in between two looks, so repeat until each effect was seen.
    while seen != [true; 4] {
        assert!(
            begun.elapsed() < LONG,
            "behind, queue, sent, paused: {seen:?}"
        );
        others_take_long(&mut server, 8000);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| write(writer, 300, 10));
            while seen != [true; 4] && !load.is_finished() {
                let view = look(members);
                for node in &view.nodes[1..] {
                    let Some(state) = &node.state else { continue };
                    seen[0] |= node.behind > Some(0);
                    seen[1] |= state.receive_queue.now > 0;
                    seen[2] |= state.flow_control.sent > 0;
                }
                let first = view.nodes[0].state.as_ref().unwrap();
                seen[3] |= first.flow_control.paused > 0.2;
            }
        });
    }
    server.exec("DROP TABLE shop.no_key").unwrap();
    look_until(members, "all have applied it", |view| {
        view.nodes.iter().all(|node| node.behind == Some(0))
    });
}

/// A node stopped by a signal accepts connections and says nothing.
fn frozen(members: &[Member], node: &GaleraNode) {
    node.freeze().unwrap();
    let begun = Instant::now();
    let view = look(members);
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let silent = &view.nodes[1];
    assert!(
        silent.state.is_none() && silent.unreachable.is_some(),
        "{silent:?}"
    );
    // Only its grastate.dat can be known, which says no more than that the node runs.
    assert_eq!(silent.grastate.as_ref().unwrap().seqno, None);
    assert_eq!(silent.rejoin.as_ref().unwrap().kind, RejoinKind::Unknown);
    assert_eq!(
        finding(&view, "it does not answer").nodes,
        std::slice::from_ref(&silent.name)
    );
    node.thaw().unwrap();
    look_until(members, "thawed", |view| view.quorum.synced == 3);
}

/// The cost of a rejoin, before and after the write-sets are gone.
fn away(members: &[Member], writer: &GaleraNode, node: &GaleraNode) {
    // Move far enough away from the oldest write-set.
    write(writer, 50, 10_000);
    look_until(members, "all have applied it", |view| {
        view.nodes.iter().all(|node| node.behind == Some(0))
    });
    let control = control::of(node);
    assert_eq!(control.is_running().unwrap(), Some(true));
    control.stop().unwrap();
    assert_eq!(control.is_running().unwrap(), Some(false));
    write(writer, 25, 10_000);
    let view = look_until(members, "two are left", |view| view.quorum.size == Some(2));
    let rejoin = view.nodes[1].rejoin.as_ref().unwrap();
    let RejoinKind::Ist {
        write_sets,
        bytes,
        donors,
    } = &rejoin.kind
    else {
        panic!("{rejoin:?}");
    };
    // One more than the rows: the departure is an event of its own.
    assert_eq!((*write_sets, donors.len()), (26, 2), "{rejoin:?}");
    assert!((100_000..500_000).contains(&bytes.unwrap()), "{rejoin:?}");
    let position = view.nodes[1].grastate.as_ref().unwrap();
    assert_eq!(position.seqno.map(|seqno| seqno + 26), view.quorum.seqno);

    // Overwrites a ring of 4 MiB but not one of 8 MiB: one donor is left. In many write-sets,
    // because nodes agree only from time to time on what may be purged.
    write(writer, 600, 10_000);
    let view = look(members);
    let rejoin = view.nodes[1].rejoin.as_ref().unwrap();
    let RejoinKind::Ist {
        write_sets, donors, ..
    } = &rejoin.kind
    else {
        panic!("{rejoin:?}");
    };
    assert_eq!((*write_sets, donors.len()), (626, 1), "{rejoin:?}");
    assert_eq!(donors[0].name, view.nodes[2].name);
    write(writer, 600, 10_000);
    let view = look(members);
    let rejoin = view.nodes[1].rejoin.as_ref().unwrap();
    assert!(
        matches!(rejoin.kind, RejoinKind::Sst { bytes: Some(bytes), seconds: None } if bytes > 10 << 20),
        "{rejoin:?}"
    );
    assert!(
        rejoin
            .reason
            .contains("the oldest write-set that anybody keeps"),
        "{rejoin:?}"
    );
    control.start(StartAs::Member, &[]).unwrap();
    look_until(members, "the node is back", |view| view.quorum.synced == 3);
    held_up(members, writer);
    control.stop().unwrap();
}

/// All nodes were stopped, one after the other: the last one holds the newest data and is safe to
/// bootstrap.
fn stopped_in_turn(members: &[Member], cluster: &EphemeralCluster) {
    let node = |number: u32| cluster.node(number).unwrap();
    // A node that is down claims to be safe to bootstrap while the cluster runs.
    let file = node(2).grastate();
    let text = std::fs::read_to_string(&file).unwrap();
    let insists = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
    assert_ne!(insists, text);
    std::fs::write(&file, insists).unwrap();
    let view = look(members);
    let found = finding(
        &view,
        "says safe_to_bootstrap: 1, but the cluster runs: it must join",
    );
    assert_eq!(found.nodes, [view.nodes[1].name.clone()]);
    std::fs::write(&file, text).unwrap();
    node(3).stop().unwrap();
    node(1).stop().unwrap();
    let view = look(members);
    let newest = finding(
        &view,
        "holds the newest data, and is the one to bootstrap from",
    );
    assert!(newest.text.starts_with(&view.nodes[0].name), "{newest:?}");
    let safe = |at: usize| view.nodes[at].grastate.as_ref().unwrap().safe_to_bootstrap;
    assert_eq!([0, 1, 2].map(safe), [Some(true), Some(false), Some(false)]);
    node(1).start_with(&NodeStart::bootstrap()).unwrap();
    node(3).start().unwrap();
    let view = look_until(members, "two nodes serve", |view| view.quorum.synced == 2);
    // Nobody has opened the tables since the start.
    let bytes = view.nodes[0].state.as_ref().unwrap().sst.bytes.unwrap();
    let file = node(1).grastate();
    let folder = file.parent().unwrap();
    let files = tablespaces(folder) + tablespaces(&folder.join("shop"));
    assert!(files > 10 << 20 && bytes >= files, "{bytes} of {files}");
}

/// Bytes of the tablespaces in a folder.
fn tablespaces(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let spaces = files.filter(|file| {
        file.extension().is_some_and(|end| end == "ibd") || file.ends_with("ibdata1")
    });
    spaces.map(|file| file.metadata().unwrap().len()).sum()
}

/// The cluster is down: which node holds the newest data?
fn down(members: &[Member], cluster: &EphemeralCluster) {
    let node = |number: u32| cluster.node(number).unwrap();
    // One of two nodes is left, without a majority.
    node(3).kill().unwrap();
    let view = look_until(members, "no primary component", |view| {
        view.quorum.primary == 0
    });
    let left = view.nodes[0].state.as_ref().unwrap();
    assert!(!left.primary && left.view.is_none(), "{left:?}");
    assert_eq!(
        finding(&view, "it is not in the primary component").nodes,
        [view.nodes[0].name.clone()]
    );
    assert!(says(
        &view,
        "tables were not looked through: no node serves"
    ));
    assert!(
        says(&view, "the most advanced node is not known"),
        "{:#?}",
        view.findings
    );
    node(1).stop().unwrap();
    let view = look(members);
    assert_eq!(view.quorum.answering, 0);
    assert!(says(
        &view,
        "no node that answers belongs to a primary component"
    ));
    // The killed node recorded no position.
    assert!(
        says(&view, "the most advanced node is not known"),
        "{:#?}",
        view.findings
    );
    let position = node(3).recover().unwrap();
    assert!(position.is_known());
}

/// Two nodes have each bootstrapped a cluster: first in one history, then in two.
fn split(members: &[Member], cluster: &EphemeralCluster) {
    let node = |number: u32| cluster.node(number).unwrap();
    let begin = |number: u32, history: Option<&str>| {
        let file = node(number).grastate();
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text
            .lines()
            .map(|line| match (line.split_once(':'), history) {
                (Some(("safe_to_bootstrap", _)), _) => "safe_to_bootstrap: 1\n".to_owned(),
                (Some(("uuid", _)), Some(uuid)) => format!("uuid: {uuid}\n"),
                (Some(("seqno", _)), Some(_)) => "seqno: -1\n".to_owned(),
                _ => format!("{line}\n"),
            });
        // Written in place, so that the server's account still owns it.
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        node(number).start_with(&NodeStart::bootstrap()).unwrap();
    };
    begin(1, None);
    begin(3, None);
    let view = look_until(members, "two clusters of one node", |view| {
        view.quorum.primary == 2
    });
    let split = finding(
        &view,
        "the cluster is split, and its parts run independently",
    );
    assert_eq!(split.severity, Severity::Critical);
    assert_eq!(
        split.nodes,
        [view.nodes[0].name.clone(), view.nodes[2].name.clone()]
    );

    node(3).stop().unwrap();
    begin(3, Some("00000000-0000-0000-0000-000000000000"));
    let view = look_until(members, "a history of its own", |view| {
        view.quorum.primary == 2
    });
    let several = finding(
        &view,
        "these are several clusters, with histories of their own",
    );
    assert_eq!(several.severity, Severity::Critical);
    assert_eq!(view.quorum.uuid, None, "none is taken for the other");
    // The cost of the third node's rejoin depends on which cluster it joins.
    let rejoin = view.nodes[1].rejoin.as_ref().unwrap();
    assert!(matches!(rejoin.kind, RejoinKind::Unknown), "{rejoin:?}");

    // All nodes are down, and only a person can say which history is the right one.
    node(1).stop().unwrap();
    node(3).stop().unwrap();
    let view = look(members);
    finding(&view, "the nodes hold the data of different histories");
}
