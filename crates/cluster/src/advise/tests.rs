//! Advice from facts written by hand.

// Hazard of copies: G-26 versions of servers and tools

use std::collections::BTreeMap;
use std::time::Duration;

use super::inspect::Facts;
use super::reach::Reach;
use super::*;
use crate::node::{NodeState, Role, Sample};

const GIB: u64 = 1 << 30;

/// A node without problems: 32 GiB of memory, 8 processors, 100 GiB of data and as much free space.
fn node(name: &str) -> NodeFacts {
    let sample = Sample {
        at: Duration::ZERO,
        status: [
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_local_state", "4"),
            ("wsrep_ready", "ON"),
            ("wsrep_cluster_size", "3"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    };
    let variables = [
        ("version", "10.11.19-MariaDB"),
        ("wsrep_node_name", name),
        ("wsrep_sst_method", "mariabackup"),
        ("wsrep_sst_auth", "********"),
        ("wsrep_sst_receive_address", "AUTO"),
        ("wsrep_provider_options", "gcache.size = 128M"),
        ("wsrep_slave_threads", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let programs = [
        "wsrep_sst_mariabackup",
        "wsrep_sst_rsync",
        "mariadb-backup",
        "mbstream",
        "socat",
        "rsync",
        "ss",
        "zstd",
        "pigz",
        "pv",
    ];
    let knows = ["backup-threads", "use-memory"];
    NodeFacts {
        name: name.to_owned(),
        state: Some(NodeState::new(&sample, &sample, &variables)),
        machine: Some(MachineFacts {
            memory: Memory {
                total: Some(32 * GIB),
                available: Some(10 * GIB),
                server: Some(20 * GIB),
            },
            cores: Some(8),
            space: Space {
                size: Some(300 * GIB),
                free: Some(100 * GIB),
                used: Some(100 * GIB),
                kept: Some(0),
                has_gcache: true,
            },
            programs: programs
                .map(|name| (name.to_owned(), format!("/usr/bin/{name}")))
                .into(),
            knows: knows
                .map(|name| ("mariabackup".to_owned(), name.to_owned()))
                .into(),
            account: Some(Account {
                name: "sst".to_owned(),
                from: AccountFrom::SstAuth,
                refused: None,
                grants: vec!["RELOAD, PROCESS, REPLICATION CLIENT ON *.*".to_owned()],
            }),
            ..MachineFacts::default()
        }),
        ..NodeFacts::default()
    }
}

fn set(node: &mut NodeFacts, group: &str, option: &str, value: &str) {
    let options = &mut machine(node).options.0;
    let group = options.entry(group.to_owned()).or_default();
    group.insert(option.to_owned(), value.to_owned());
}

fn machine(node: &mut NodeFacts) -> &mut MachineFacts {
    node.machine.as_mut().unwrap()
}

fn state(node: &mut NodeFacts) -> &mut NodeState {
    node.state.as_mut().unwrap()
}

/// Advice for copies to node `j` from donors `a` and `b`, after a change of the facts.
fn advice(change: impl FnOnce(&mut Facts)) -> Advice {
    let mut facts = Facts {
        nodes: ["a", "b", "j"].map(node).into(),
        reaches: Vec::new(),
    };
    change(&mut facts);
    let options = AdviseOptions {
        joiner: Some("j".to_owned()),
        window: Some(Duration::from_secs(7200)),
        ..AdviseOptions::default()
    };
    judge("shop", facts, &options)
}

fn kinds(advice: &Advice) -> Vec<(MistakeKind, Effect)> {
    let all = advice.mistakes.iter();
    all.map(|one| (one.kind, one.effect))
        .filter(|(kind, _)| *kind != MistakeKind::NoTls)
        .collect()
}

fn better(advice: &Advice, option: &str) -> Option<String> {
    let one = advice.suggestions.iter().find(|one| one.option == option);
    one.map(|one| one.better.clone())
}

#[test]
fn nodes_that_are_well() {
    let advice = advice(|_| {});
    assert_eq!(kinds(&advice), []);
    assert!(!advice.fails());
    // 70 % of the 30 GiB that the machine has while the server waits.
    assert_eq!(better(&advice, "use-memory").as_deref(), Some("21504M"));
    assert_eq!(better(&advice, "backup-threads").as_deref(), Some("8"));
    assert_eq!(
        better(&advice, "wsrep_slave_threads").as_deref(),
        Some("32")
    );
    assert_eq!(better(&advice, "wsrep_sst_donor").as_deref(), Some("a,b,"));
    assert_eq!(better(&advice, "gcache.size"), None, "nothing is written");
    let threads = advice
        .suggestions
        .iter()
        .find(|one| one.option == "backup-threads");
    assert_eq!(threads.unwrap().nodes, ["j", "a", "b"]);
}

#[test]
fn donors_are_chosen_by_distance_then_by_what_they_do() {
    let advice = advice(|facts| {
        state(&mut facts.nodes[0]).segment = 1;
        state(&mut facts.nodes[1]).receive_queue.now = 50;
    });
    assert_eq!(better(&advice, "wsrep_sst_donor").as_deref(), Some("b,a,"));
    let advice = self::advice(|facts| state(&mut facts.nodes[2]).sst.donor = Some("b".to_owned()));
    assert_eq!(better(&advice, "wsrep_sst_donor").as_deref(), Some("b,"));
    let advice = self::advice(|facts| {
        let list = Some("b".to_owned());
        state(&mut facts.nodes[2]).sst.donor = list;
        state(&mut facts.nodes[1]).primary = false;
    });
    assert_eq!(kinds(&advice), [(MistakeKind::DonorName, Effect::Fails)]);
    // A name that no node has is reported and not suggested.
    for (list, effect, proposed) in [
        ("nosuch", Effect::Fails, "a,b,"),
        ("nosuch,", Effect::Unsafe, "a,b,"),
        ("nosuch,b", Effect::Unsafe, "b,"),
    ] {
        let advice = self::advice(|facts| {
            let list = Some(list.to_owned());
            state(&mut facts.nodes[2]).sst.donor = list;
        });
        assert_eq!(kinds(&advice), [(MistakeKind::DonorName, effect)], "{list}");
        assert!(advice.mistakes[0].text.contains("names nosuch,"), "{list}");
        assert_eq!(
            better(&advice, "wsrep_sst_donor").as_deref(),
            Some(proposed)
        );
    }
}

#[test]
fn certificates_that_are_over_by_what_they_are_for() {
    let over = |option: &str, group: &str, mode: &str| {
        let advice = advice(|facts| {
            let node = &mut facts.nodes[2];
            let options = format!("socket.ssl_cert = {group}");
            node.variables
                .insert("wsrep_provider_options".to_owned(), options);
            for (name, value) in [
                ("ssl-cert", option),
                ("ssl-key", "k.pem"),
                ("ssl-ca", "ca.pem"),
                ("ssl-mode", mode),
            ] {
                set(node, "sst", name, value);
                machine(node).readable.insert(value.to_owned());
            }
            let ending = Ending {
                over: true,
                when: "Jan".to_owned(),
            };
            machine(node).ending.insert("x.pem".to_owned(), ending);
        });
        let found = advice
            .mistakes
            .into_iter()
            .find(|one| one.kind == MistakeKind::Certificate);
        found.map(|one| (one.effect, one.text))
    };
    let (effect, text) = over("c.pem", "x.pem", "DISABLED").unwrap();
    assert_eq!(effect, Effect::Fails);
    assert!(
        text.contains(
            "its certificate x.pem ended at Jan: since then no node that starts is let in"
        ),
        "{text}"
    );
    assert_eq!(
        over("x.pem", "g.pem", "VERIFY_CA").unwrap().0,
        Effect::Fails
    );
    assert_eq!(
        over("x.pem", "g.pem", "REQUIRED").unwrap().0,
        Effect::Unsafe
    );
    let (effect, text) = over("c.pem", "g.pem", "VERIFY_CA").unwrap();
    assert!(
        effect == Effect::Unsafe && text.contains("clients"),
        "{text}"
    );
}

#[test]
fn an_account_that_was_set_while_the_server_ran_is_not_that_of_its_files() {
    let advice = advice(|facts| {
        let node = &mut facts.nodes[0];
        machine(node).account.as_mut().unwrap().refused = Some("no".to_owned());
        let origin = ("wsrep_sst_auth_origin".to_owned(), "SQL".to_owned());
        node.variables.extend([origin]);
    });
    assert_eq!(kinds(&advice), [(MistakeKind::Account, Effect::Unsafe)]);
    let text = &advice.mistakes[0].text;
    assert!(
        text.contains("was set while it ran") && text.contains("refused (no)"),
        "{text}"
    );
    // Written after the start.
    let later = |group: &'static str| {
        super::tests::advice(|facts| {
            let node = &mut facts.nodes[0];
            state(node).sst.has_account = false;
            set(node, group, "wsrep-sst-auth", "set");
        })
    };
    let advice = later("server");
    assert_eq!(kinds(&advice), [(MistakeKind::Account, Effect::Unsafe)]);
    let text = &advice.mistakes[0].text;
    assert!(text.contains("its server runs without"), "{text}");
    assert!(
        later("sst")
            .mistakes
            .iter()
            .all(|one| one.kind != MistakeKind::Account)
    );
}

#[test]
fn compression_where_the_network_is_what_holds_a_copy_up() {
    let with_network = |speed: Option<u64>, within: bool| {
        advice(|facts| {
            facts.reaches = ["a", "b"]
                .map(|donor| Reach {
                    donor: donor.to_owned(),
                    joiner: "j".to_owned(),
                    bytes_per_second: speed,
                    within,
                    ..Reach::default()
                })
                .into();
        })
    };
    let slow = with_network(Some(125_000_000), false);
    assert_eq!(better(&slow, "compressor").as_deref(), Some("zstd -1 -T8"));
    assert_eq!(better(&slow, "decompressor").as_deref(), Some("zstd -dc"));
    assert_eq!(better(&slow, "rlimit").as_deref(), Some("95m"));
    let one = slow
        .suggestions
        .iter()
        .find(|one| one.option == "compressor")
        .unwrap();
    assert!(one.sure && one.nodes == ["j", "a", "b"], "{one:?}");
    assert!(one.gain.text.starts_with("up to 2.9 times"), "{one:?}");
    assert_eq!(
        better(&with_network(Some(1_250_000_000), false), "compressor"),
        None
    );
    assert_eq!(better(&with_network(None, true), "compressor"), None);
    let unknown = with_network(None, false);
    let one = unknown
        .suggestions
        .iter()
        .find(|one| one.option == "compressor");
    assert!(!one.unwrap().sure);
    // On one side only it is useless, so the one that both have is chosen.
    let other = advice(|facts| drop(machine(&mut facts.nodes[1]).programs.remove("zstd")));
    assert_eq!(
        better(&other, "compressor").as_deref(),
        Some("pigz --fast -p 8")
    );
}

#[test]
fn write_sets_for_a_window() {
    let advice = advice(|facts| {
        for node in &mut facts.nodes {
            let cache = &mut state(node).gcache;
            (cache.bytes_per_second, cache.measured) = (1_000_000.0, true);
        }
        set(
            &mut facts.nodes[0],
            "server",
            "wsrep-provider-options",
            "gmcast.segment=1;gcache.size=128M",
        );
    });
    // 1 MB × 7200 × 1.25, in steps of 64 MiB.
    let of = |node: &str| {
        let mut all = advice.suggestions.iter();
        all.find(|one| one.option == "gcache.size" && one.nodes.iter().any(|one| one == node))
            .unwrap()
    };
    assert_eq!(of("a").better, "8640M");
    assert_eq!(
        of("a").line,
        "wsrep_provider_options=\"gmcast.segment=1;gcache.size=8640M\""
    );
    assert_eq!(of("j").line, "wsrep_provider_options=gcache.size=8640M");
}

#[test]
fn values_that_were_set_with_less_care() {
    let advice = advice(|facts| {
        set(&mut facts.nodes[2], "mariabackup", "use-memory", "64G");
        set(&mut facts.nodes[2], "sst", "sst-initial-timeout", "60");
        set(&mut facts.nodes[2], "sst", "backup-threads", "8");
        facts.nodes[0].deps_distance = Some(3.4);
        set(&mut facts.nodes[0], "sst", "rlimit", "100m");
        machine(&mut facts.nodes[0]).programs.remove("pv");
        machine(&mut facts.nodes[1]).knows.clear();
        set(
            &mut facts.nodes[1],
            "sst",
            "inno-backup-opts",
            "--rsync --parallel=2",
        );
    });
    assert_eq!(better(&advice, "use-memory").as_deref(), Some("21504M"));
    assert_eq!(
        better(&advice, "sst-initial-timeout").as_deref(),
        Some("300")
    );
    assert_eq!(better(&advice, "wsrep_slave_threads").as_deref(), Some("4"));
    assert_eq!(
        better(&advice, "inno-backup-opts").as_deref(),
        Some("--rsync --parallel=8")
    );
    assert_eq!(kinds(&advice), [(MistakeKind::RateLimit, Effect::Unsafe)]);
}

#[test]
fn versions_of_servers_and_of_the_backup_program() {
    let with = |change: fn(&mut Facts)| kinds(&advice(change));
    let older = with(|facts| state(&mut facts.nodes[2]).version = "10.6.20-MariaDB".to_owned());
    assert_eq!(older, [(MistakeKind::Version, Effect::Fails); 2]);
    let newer = with(|facts| state(&mut facts.nodes[2]).version = "11.4.2-MariaDB".to_owned());
    assert_eq!(newer, [(MistakeKind::Version, Effect::Unsafe); 2]);
    let tool = with(|facts| {
        let text = "mariadb-backup based on MariaDB server 10.6.20-MariaDB Linux (x86_64)";
        let versions = &mut machine(&mut facts.nodes[0]).versions;
        versions.insert("mariadb-backup".to_owned(), text.to_owned());
    });
    assert_eq!(tool, [(MistakeKind::Version, Effect::Fails)]);
    // Nothing has revealed where the programs of a stopped node are.
    let down = |version: &'static str| {
        kinds(&advice(|facts| {
            facts.nodes[2].state = None;
            set(
                &mut facts.nodes[2],
                "server",
                "wsrep-sst-method",
                "mariabackup",
            );
            let machine = machine(&mut facts.nodes[2]);
            machine.pid = None;
            let versions = &mut machine.versions;
            versions.insert(
                "mariadb-backup".to_owned(),
                "mariadb-backup based on MariaDB server 10.6.20-MariaDB".to_owned(),
            );
            versions.insert(
                "server".to_owned(),
                format!("mariadbd  Ver {version}-MariaDB for Linux"),
            );
            super::inspect::doubt_programs(&mut facts.nodes);
        }))
    };
    assert!(down("10.11.19").contains(&(MistakeKind::Version, Effect::Fails)));
    assert!(!down("10.6.20").contains(&(MistakeKind::Version, Effect::Fails)));
}

#[test]
fn space_that_the_method_takes() {
    let with_free = |free: u64, change: fn(&mut Facts)| {
        kinds(&advice(|facts| {
            machine(&mut facts.nodes[2]).space.free = Some(free);
            change(facts);
        }))
    };
    // Its own old data makes room.
    assert_eq!(with_free(GIB, |_| {}), []);
    let fails = [(MistakeKind::Space, Effect::Fails); 2];
    let without_data = |facts: &mut Facts| machine(&mut facts.nodes[2]).space.used = Some(0);
    assert_eq!(with_free(99 * GIB, without_data), fails);
    assert_eq!(with_free(100 * GIB, without_data), []);
    // A new node also creates its gcache file.
    let new = |facts: &mut Facts| {
        machine(&mut facts.nodes[2]).space.used = Some(0);
        machine(&mut facts.nodes[2]).space.has_gcache = false;
    };
    assert_eq!(with_free(100 * GIB, new), fails);
    let compressed = |facts: &mut Facts| {
        for node in &mut facts.nodes {
            set(node, "mariabackup", "compress", "quicklz");
        }
    };
    assert_eq!(with_free(49 * GIB, compressed), fails);
    assert_eq!(with_free(51 * GIB, compressed), []);
}

#[test]
fn certificates_and_what_nobody_looks_at() {
    let with_tls = |mode: &str, readable: bool| {
        advice(|facts| {
            for node in &mut facts.nodes {
                for (option, file) in [
                    ("ssl-ca", "/ca"),
                    ("ssl-cert", "/cert"),
                    ("ssl-key", "/key"),
                ] {
                    set(node, "server", option, file);
                    if readable || option == "ssl-ca" {
                        machine(node).readable.insert(file.to_owned());
                    }
                }
                set(node, "sst", "ssl-mode", mode);
            }
        })
    };
    let verified = with_tls("VERIFY_CA", true);
    assert_eq!(verified.mistakes, []);
    let unverified = with_tls("required", true);
    assert_eq!(unverified.mistakes.len(), 1, "{:#?}", unverified.mistakes);
    assert!(
        unverified.mistakes[0]
            .text
            .contains("certificates are not verified")
    );
    assert_eq!(
        kinds(&with_tls("REQUIRED", false)),
        [(MistakeKind::Encryption, Effect::Fails); 3]
    );
}

#[test]
fn accounts_ports_and_donors() {
    let with = |change: fn(&mut Facts)| advice(change);
    let nobody = with(|facts| {
        for node in &mut facts.nodes {
            state(node).ready = false;
        }
    });
    assert_eq!(kinds(&nobody), [(MistakeKind::NoDonor, Effect::Fails)]);
    let busy = with(|facts| state(&mut facts.nodes[1]).role = Role::Donor);
    assert_eq!(kinds(&busy), [(MistakeKind::Busy, Effect::Unsafe)]);
    let receives = with(|facts| {
        state(&mut facts.nodes[2]).role = Role::Joiner;
        machine(&mut facts.nodes[2])
            .listens
            .push(Listener::default());
        state(&mut facts.nodes[1]).role = Role::Donor;
    });
    assert_eq!(kinds(&receives), [], "a copy is on its way");
    let root = with(|facts| {
        state(&mut facts.nodes[2]).sst.method = "rsync".to_owned();
        let machine = machine(&mut facts.nodes[2]);
        (machine.pid, machine.user) = (Some(1), "root".to_owned());
    });
    assert_eq!(kinds(&root)[0], (MistakeKind::SystemAccount, Effect::Fails));
    let none = with(|facts| {
        machine(&mut facts.nodes[0]).account = Some(Account {
            name: "mysql".to_owned(),
            refused: Some("Access denied\x1b[2J".to_owned()),
            ..Account::default()
        });
        state(&mut facts.nodes[0]).sst.has_account = false;
    });
    assert_eq!(kinds(&none), [(MistakeKind::Account, Effect::Fails)]);
    let text = &none.mistakes[0].text;
    assert!(
        text.contains("no account is named") && !text.contains('\x1b'),
        "{text}"
    );
}

#[test]
fn starts_that_systemd_gives_up() {
    let of = |kind: &str, limit: &str, manager: u64, version: &str| {
        advice(|facts| {
            state(&mut facts.nodes[2]).version = version.to_owned();
            for donor in &mut facts.nodes[..2] {
                state(donor).version = version.to_owned();
            }
            machine(&mut facts.nodes[2]).unit = Some(Unit {
                name: "mariadb".to_owned(),
                kind: kind.to_owned(),
                notify_access: "main".to_owned(),
                start_timeout: limit.to_owned(),
                manager: Some(manager),
            });
        })
    };
    let new = "10.11.19-MariaDB";
    let unit = |kind: &str, limit: &str| of(kind, limit, 252, new);
    // The server asks for more time.
    assert_eq!(kinds(&unit("notify", "15min")), []);
    assert_eq!(kinds(&unit("notify", "1min 30s")), []);
    let fails = [(MistakeKind::StartTimeout, Effect::Fails)];
    let late = unit("notify", "20s");
    assert_eq!(kinds(&late), fails);
    let one = &late.mistakes[0];
    for words in [
        "after 20s",
        "unit mariadb",
        "100 GiB takes about 1024 s",
        "too late",
    ] {
        assert!(one.text.contains(words), "{words}: {}", one.text);
    }
    let words = "TimeoutStartSec=infinity into /etc/systemd/system/mariadb.service.d/zz-sst.conf";
    assert!(one.remedy.contains(words), "{}", one.remedy);
    // It cannot ask for more time, or does not.
    assert_eq!(kinds(&unit("forking", "1min 30s")), fails);
    assert_eq!(
        kinds(&unit("forking", "15min")),
        [(MistakeKind::StartTimeout, Effect::Unsafe)]
    );
    assert_eq!(kinds(&unit("forking", "1h")), []);
    assert_eq!(kinds(&unit("forking", "infinity")), []);
    assert_eq!(kinds(&unit("simple", "1min 30s")), []);
    let old = of("notify", "1min 30s", 219, new);
    assert_eq!(kinds(&old), fails);
    assert!(old.mistakes[0].remedy.contains("TimeoutStartSec=0 "));
    let asks_not = of("notify", "1min 30s", 252, "10.4.11-MariaDB");
    assert_eq!(kinds(&asks_not), fails);
    assert!(asks_not.mistakes[0].text.contains("asks for no more time"));
}

#[test]
fn what_is_set_elsewhere_is_set_there() {
    let advice = advice(|facts| {
        set(&mut facts.nodes[2], "sst", "use-memory", "64M");
        set(&mut facts.nodes[2], "mariabackup", "backup-threads", "1");
    });
    let group = |option: &str| {
        let mut all = advice.suggestions.iter();
        let one = all.find(|one| one.option == option && one.nodes.contains(&"j".to_owned()));
        one.unwrap().group
    };
    assert_eq!(group("use-memory"), "sst");
    assert_eq!(group("backup-threads"), "mariabackup");
}

/// Breaks things that prevent copies but do not keep out a node that rejoins by IST.
fn break_other_things(facts: &mut Facts) {
    set(&mut facts.nodes[0], "server", "innodb-page-size", "8k");
    machine(&mut facts.nodes[2]).space.free = Some(0);
    machine(&mut facts.nodes[2]).space.used = Some(0);
    machine(&mut facts.nodes[1]).programs.remove("socat");
    state(&mut facts.nodes[2]).sst.method = "mariabackup".to_owned();
}

#[test]
fn what_stops_ist_too() {
    let of = |donors: &[usize]| {
        advice(|facts| {
            for donor in donors {
                set(&mut facts.nodes[*donor], "sst", "compressor", "zstd -1");
            }
            break_other_things(facts);
        })
    };
    let stops = |donors: &[usize]| {
        let advice = of(donors);
        let mut kinds: Vec<MistakeKind> =
            advice.keeps_away("j").iter().map(|one| one.kind).collect();
        kinds.dedup();
        kinds
    };
    assert_eq!(stops(&[0, 1]), [MistakeKind::Compressor]);
    // Another donor works.
    assert_eq!(stops(&[0]), []);
    let advice = of(&[0]);
    assert!(advice.failing().count() > 2, "{:#?}", advice.mistakes);
}

#[test]
fn nothing_of_a_server_begins_a_line_of_an_option_file() {
    let advice = advice(|facts| {
        let evil = "x\n[mysqld]\nplugin-load=evil#\"\\".to_owned();
        state(&mut facts.nodes[0]).node_name = evil.clone();
        state(&mut facts.nodes[2]).sst.donor = Some(evil.clone());
        state(&mut facts.nodes[1]).version = evil;
        state(&mut facts.nodes[1]).gcache.bytes_per_second = 1e6;
        set(
            &mut facts.nodes[1],
            "server",
            "wsrep-provider-options",
            "a=\"b\\;c#\n[x]",
        );
    });
    let text = fragment(&advice);
    let odd = |line: &&str| !line.starts_with('#') && !line.is_empty();
    for line in text.lines().filter(odd) {
        let known = line.starts_with('[')
            || [
                "wsrep_sst_donor=\"x [mysqld]",
                "wsrep_provider_options=\"",
                "use-memory=",
                "backup-threads=",
                "time=",
            ]
            .iter()
            .any(|begin| line.starts_with(begin));
        assert!(known, "{line}\n{text}");
    }
    let groups: BTreeMap<&str, usize> = text
        .lines()
        .filter(|line| line.starts_with('['))
        .map(|line| (line, 1))
        .collect();
    assert_eq!(groups.len(), 3, "{text}");
    assert_eq!(text.matches("\n[mysqld]").count(), 1, "{text}");
}

#[test]
fn rsync_by_tls_takes_a_program_of_its_own() {
    let missed = |has_it: [&str; 2]| {
        let advice = advice(|facts| {
            for node in &mut facts.nodes {
                state(node).sst.method = "rsync".to_owned();
                set(node, "sst", "ssl-mode", "REQUIRED");
                if has_it.contains(&node.name.as_str()) {
                    let (name, path) = ("stunnel", "/usr/bin/stunnel");
                    let programs = &mut machine(node).programs;
                    programs.insert(name.to_owned(), path.to_owned());
                }
            }
        });
        let mistakes = advice.mistakes.iter();
        let stunnel = mistakes.filter(|one| one.text.contains("needs stunnel, which is not there"));
        let stunnel = stunnel.inspect(|one| assert_eq!(one.effect, Effect::Fails));
        let mut nodes: Vec<String> = stunnel.flat_map(|one| one.nodes.clone()).collect();
        nodes.sort();
        nodes.join(" ")
    };
    assert_eq!(missed(["", ""]), "a b j");
    assert_eq!(missed(["a", "j"]), "b");
}
