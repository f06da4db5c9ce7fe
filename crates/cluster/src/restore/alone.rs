//! Chooses the options for the start of a standalone node.

use std::collections::BTreeSet;
use std::path::PathBuf;

use refloat_host::{Host, StartOption};
use refloat_load::{BinlogMode, LoadOptions};
use refloat_run::settings::{Durability, Facts, Hints, plan_for};
use refloat_wire::Target;

use crate::member::Member;
use crate::restore::examined_host::{Seen, datadir_of};
use crate::view::ClusterView;

/// The longest path of a Unix socket (`sockaddr_un`).
const SOCKET_MOST: usize = 107;
/// The socket of a standalone server, in its data directory.
const SOCKET: &str = "refloat-standalone.sock";
/// The first port to try for a standalone server whose own port is unknown.
const PORT: u16 = 23_306;

/// The options, port and socket for the start of the chosen node as a standalone server: cut off
/// from the cluster and from applications, with those settings for the load that can only change at
/// a start.
pub(super) fn alone(
    member: &Member,
    seen: &[Seen],
    view: &ClusterView,
    at: usize,
    load: &LoadOptions,
    text: Option<u64>,
) -> Result<(Vec<StartOption>, u16, Option<PathBuf>), String> {
    let facts = seen[at].facts.as_ref();
    let usual_port = match member.connect.target() {
        Target::Tcp(_, port) => Some(port),
        Target::Unix(_) => None,
    };
    // A separate port keeps applications and proxies out, but not the load.
    let mut taken: BTreeSet<u16> = view
        .nodes
        .iter()
        .filter_map(|node| node.address.rsplit_once(':')?.1.parse().ok())
        .collect();
    taken.extend(member.host.iter().flat_map(Host::listening));
    let first = usual_port.unwrap_or(PORT).checked_add(7).unwrap_or(PORT);
    let port = (first..=u16::MAX)
        .chain(PORT..=u16::MAX)
        .find(|port| !taken.contains(port))
        .unwrap_or(PORT);
    let mut options = vec![
        StartOption::new("wsrep-on", "OFF"),
        StartOption::new("wsrep-provider", "none"),
        StartOption::new("port", port.to_string()),
        StartOption::switch("skip-slave-start"),
        StartOption::new("event-scheduler", "OFF"),
        StartOption::new("innodb-autoinc-lock-mode", "2"),
    ];
    let folder = match &seen[at].folder {
        Some(Ok(folder)) => folder.path.clone(),
        _ => datadir_of(member, &view.nodes[at]),
    };
    let socket = Some(folder.join(SOCKET)).filter(|path| {
        let option = StartOption::new("socket", path.to_string_lossy());
        path.as_os_str().len() <= SOCKET_MOST && option.word().is_some()
    });
    match &socket {
        Some(path) => options.push(StartOption::new("socket", path.to_string_lossy())),
        None if usual_port.is_none() => {
            return Err(format!(
                "the socket of the standalone server would be {}, which is too long or has odd characters: give the node a url with a host",
                folder.join(SOCKET).display()
            ));
        }
        None => {}
    }
    if let Some(facts) = facts {
        // A replica of another node continues from this binary log once that node is a copy of this
        // one.
        let unread = seen.iter().all(|seen| {
            seen.facts
                .as_ref()
                .is_some_and(|facts| facts.replicas == Some(0))
        });
        options.extend(for_load(facts, load, text, unread));
    }
    Ok((options, port, socket))
}

/// Settings that speed up a load and can only change at a start, by the same rules as for any load.
fn for_load(
    facts: &Facts,
    load: &LoadOptions,
    text: Option<u64>,
    unread: bool,
) -> Vec<StartOption> {
    let level = load.durability.unwrap_or(Durability::Relaxed);
    let hints = Hints {
        dump_bytes: text,
        skip_binlog: false,
        ..Hints::default()
    };
    let mut options = Vec::new();
    for advice in plan_for(facts, level, &hints).advice {
        let name = advice.name.as_str();
        let wanted = advice.restart
            && match name {
                // A machine crash may tear pages, so this needs a disposable server.
                "innodb_doublewrite" => level == Durability::Disposable,
                "innodb_log_file_size" | "innodb_buffer_pool_size_max" => {
                    level >= Durability::Relaxed
                }
                _ => false,
            };
        if wanted {
            options.push(StartOption::new(&name.replace('_', "-"), advice.better));
        }
    }
    let binlog_off = match load.binlog {
        BinlogMode::Keep => false,
        // The other nodes get these rows by full copies, but a replica that reads the binary log
        // would miss them.
        _ => facts.is_on("log_bin") && unread,
    };
    if binlog_off {
        options.push(StartOption::switch("skip-log-bin"));
    }
    options
}
