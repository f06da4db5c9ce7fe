//! Examines the nodes and their machines without changing anything: with queries, and read-only
//! programs.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use refloat_host::{Host, chain, scripts};
use refloat_wire::{Connection, Target};

use super::candidate::Candidate;
use super::encryption::GROUP_FILES;
use super::facts::{
    Account, AccountFrom, Ending, Listener, MachineFacts, NodeFacts, SST_PORT, TEXT_MOST, Unit,
    clean,
};
use super::pairs::series;
use super::reach::{Reach, reaches};
use super::script::run;
use crate::member::{Member, Observation, WantedTables, impatient};
use crate::memory::memory;
use crate::observe::{observe, values};
use crate::view::NodeView;

/// The script for a node's machine.
const LOOK: &str = include_str!("look.sh");

/// Options whose values may leave a machine.
const PUBLIC: &str = "wsrep-sst-method wsrep-sst-donor wsrep-sst-receive-address wsrep-cluster-name wsrep-node-name wsrep-node-address wsrep-provider-options \
    wsrep-slave-threads wsrep-applier-threads innodb-page-size innodb-data-file-path innodb-undo-tablespaces lower-case-table-names \
    innodb-log-file-size innodb-buffer-pool-size innodb-data-home-dir innodb-undo-directory innodb-log-group-home-dir log-bin \
    streamfmt transferfmt compressor decompressor encrypt encrypt-algo encrypt-format ssl-mode tca tcert tkey ssl-ca ssl-cert ssl-key \
    sockopt progress time rlimit sst-initial-timeout sst-log-archive sst-syslog use-memory backup-threads compress compress-threads \
    inno-backup-opts inno-apply-opts inno-move-opts tmpdir user basedir";
/// Options for which only the fact that they are set may leave a machine.
const SECRET: &str = "wsrep-sst-auth encrypt-key encrypt-key-file";

/// Server variables that affect copies.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_page_size', 'innodb_data_file_path', \
    'innodb_undo_tablespaces', 'lower_case_table_names', 'innodb_log_file_size', 'innodb_buffer_pool_size', 'wsrep_node_address', \
    'wsrep_provider_options', 'ssl_ca', 'ssl_cert', 'ssl_key', 'basedir', 'socket', 'datadir', 'hostname', 'innodb_data_home_dir', \
    'innodb_undo_directory')";
const STATUS: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_cert_deps_distance'";
/// Where the account for copies was set; its name is hidden. Only MariaDB reports this.
const ORIGIN: &str = "SELECT 'wsrep_sst_auth_origin', GLOBAL_VALUE_ORIGIN FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = 'WSREP_SST_AUTH'";

/// What all nodes report, and which of them reach each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub nodes: Vec<NodeFacts>,
    pub reaches: Vec<Reach>,
}

impl Facts {
    /// Whether no node of the cluster has this name. `false` if an unlisted node may have it.
    pub fn lacks(&self, name: &str) -> bool {
        let sizes = self
            .nodes
            .iter()
            .filter_map(|node| Some(node.state.as_ref()?.size));
        let all_known = self.nodes.len() as u64 >= sizes.max().unwrap_or(0);
        all_known && !self.nodes.iter().any(|node| node.cluster_name() == name)
    }
}

/// Examines all nodes at the same time. `joiner` is the name of the node that would take the copy.
/// `None`: any node.
pub(crate) fn inspect(
    name: &str,
    candidates: &[Candidate],
    joiner: Option<&str>,
    sample: Duration,
) -> Facts {
    let members: Vec<Member> = candidates
        .iter()
        .map(|candidate| candidate.member.clone())
        .collect();
    let how = Observation {
        sample,
        tables: WantedTables::Never,
        ..Observation::default()
    };
    let view = observe(name, &members, &how);
    let methods = methods(&view.nodes);
    let nodes = thread::scope(|scope| {
        let threads: Vec<_> = candidates
            .iter()
            .zip(view.nodes)
            .map(|(candidate, view)| {
                let methods = &methods;
                scope.spawn(move || node(candidate, view, methods))
            })
            .collect();
        let answers = candidates.iter().zip(threads).map(|(candidate, thread)| {
            thread.join().unwrap_or_else(|_| NodeFacts {
                name: candidate.member.name.clone(),
                unseen: vec!["looking at it ended in a defect of this program".to_owned()],
                ..NodeFacts::default()
            })
        });
        answers.collect::<Vec<_>>()
    });
    let mut nodes = nodes;
    doubt_programs(&mut nodes);
    let reaches = reaches(candidates, &nodes, joiner);
    Facts { nodes, reaches }
}

/// Marks programs that cannot belong to a node's server. If a server is down and has revealed
/// nothing about itself, and the server in its machine's search path is of another series than all
/// that run in its cluster, then it must have been started from another place. The programs found
/// or missed in the search path then say nothing about it.
pub(super) fn doubt_programs(nodes: &mut [NodeFacts]) {
    let serve: Vec<_> = nodes
        .iter()
        .filter_map(|node| series(&node.state.as_ref()?.version))
        .collect();
    for node in nodes.iter_mut().filter(|node| node.state.is_none()) {
        let Some(machine) = &mut node.machine else {
            continue;
        };
        let found = machine.versions.get("server");
        let found = found.and_then(|version| series(version.split_once("Ver ")?.1));
        if let Some((major, minor)) =
            found.filter(|found| !serve.is_empty() && !serve.contains(found))
        {
            machine.programs_elsewhere = true;
            node.unseen.push(format!(
                "its programs: the server in the search path of its machine is {major}.{minor}, \
                and no node of its cluster is, so it is started from elsewhere"
            ));
        }
    }
}

/// The methods of all nodes, as words that are safe in a shell.
fn methods(nodes: &[NodeView]) -> String {
    let word = |method: &&str| {
        !method.is_empty()
            && method
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    let mut methods: Vec<&str> = nodes
        .iter()
        .filter_map(|node| Some(node.state.as_ref()?.sst.method.as_str()))
        .filter(word)
        .collect();
    methods.sort_unstable();
    methods.dedup();
    methods.join(" ")
}

fn node(candidate: &Candidate, view: NodeView, methods: &str) -> NodeFacts {
    let mut facts = NodeFacts {
        name: view.name,
        unreachable: view.unreachable.map(|why| clean(&why, TEXT_MOST)),
        state: view.state,
        ..NodeFacts::default()
    };
    if facts.state.is_some() {
        match ask(&candidate.member) {
            Ok((variables, deps_distance)) => {
                facts.variables = variables;
                facts.deps_distance = deps_distance;
            }
            Err(error) => facts.unseen.push(format!("its settings: {error}")),
        }
    }
    let Some(host) = &candidate.member.host else {
        facts.unseen.push(
            "its machine (memory, space, programs, option files, ports): no ssh is given for it, and its address is not of this machine"
                .to_owned(),
        );
        return facts;
    };
    match look(host, candidate, &facts, methods) {
        Ok(machine) => {
            let other = facts
                .variables
                .get("hostname")
                .filter(|hostname| machine.pid.is_none() && **hostname != machine.hostname);
            match other {
                // A container's files are not at the same paths on this machine.
                Some(hostname) => facts.unseen.push(format!(
                    "its machine: the server calls it {}, and {} is {}, on which no such server runs",
                    clean(hostname, TEXT_MOST),
                    host.name(),
                    machine.hostname
                )),
                None => facts.machine = Some(machine),
            }
        }
        Err(reason) => facts.unseen.push(format!("its machine: {reason}")),
    }
    if let Some(machine) = &mut facts.machine {
        note_unseen(machine, facts.state.is_some(), &mut facts.unseen);
    }
    facts
}

/// Notes what an examination of a machine could not see.
fn note_unseen(machine: &mut MachineFacts, answers: bool, unseen: &mut Vec<String>) {
    if let Some(reason) = machine
        .options
        .0
        .remove("unreadable")
        .and_then(|mut one| one.remove(""))
    {
        unseen.push(format!("its option files: {reason}"));
    }
    if answers && machine.pid.is_none() {
        unseen.push("its process, and so the option files that it was started with: those that servers usually read were taken".to_owned());
    }
    if machine.space.used.is_none() {
        unseen.push("the size of its data directory: it is not there, may not be read, or takes too long to look through".to_owned());
    }
}

type Answers = (std::collections::BTreeMap<String, String>, Option<f64>);

fn ask(member: &Member) -> Result<Answers, String> {
    let failed = |error: refloat_wire::Error| chain(&error);
    let mut server = Connection::connect(&impatient(&member.connect)).map_err(failed)?;
    let variables = values(&mut server, VARIABLES).map_err(failed)?;
    let status = values(&mut server, STATUS).map_err(failed)?;
    let origin = values(&mut server, ORIGIN).unwrap_or_default();
    let distance = status
        .get("wsrep_cert_deps_distance")
        .and_then(|value| value.parse::<f64>().ok())
        .filter(|distance| *distance > 0.0);
    Ok((variables.into_iter().chain(origin).collect(), distance))
}

fn look(
    host: &Host,
    candidate: &Candidate,
    facts: &NodeFacts,
    methods: &str,
) -> Result<MachineFacts, String> {
    let variable = |name: &str| facts.variables.get(name).cloned().unwrap_or_default();
    let member = &candidate.member;
    let datadir = match &facts.state {
        Some(_) => member.folder_by(facts.state.as_ref()),
        None => member.known_folder().map_err(|unknown| unknown.reason)?,
    };
    let datadir = datadir.to_string_lossy().into_owned();
    let mut socket = variable("socket");
    if let Target::Unix(path) = candidate.member.connect.target()
        && socket.is_empty()
    {
        socket = path.to_string_lossy().into_owned();
    }
    if !socket.is_empty() && !socket.starts_with('/') {
        socket = format!("{}/{socket}", datadir.trim_end_matches('/'));
    }
    let needs_account = facts.can_give()
        && methods.split(' ').any(|method| method != "rsync")
        && !methods.is_empty();
    let shown = &candidate.shown;
    let defaults = shown.defaults_file.as_ref().map(PathBuf::from);
    let defaults = defaults.or_else(|| candidate.member.defaults_file.clone());
    let basedir = facts.variables.get("basedir").or(shown.basedir.as_ref());
    let variables = [
        ("datadir", datadir.trim_end_matches('/').to_owned()),
        (
            "defaults",
            defaults.map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
        ),
        (
            "basedir",
            basedir.map_or_else(String::new, |path| path.trim_end_matches('/').to_owned()),
        ),
        ("certificates", certificates(facts).join("\n")),
        ("known_path", shown.path.clone().unwrap_or_default()),
        ("socket", socket),
        // The option files of a stopped node give the port, and the script reads those.
        (
            "port",
            facts
                .state
                .as_ref()
                .map_or_else(String::new, |_| facts.receives_at().1.to_string()),
        ),
        ("port_by_default", SST_PORT.to_string()),
        ("methods", methods.to_owned()),
        ("account", if needs_account { "1" } else { "" }.to_owned()),
        ("unit", candidate.unit.clone().unwrap_or_default()),
        ("public", PUBLIC.to_owned()),
        ("secret", SECRET.to_owned()),
    ];
    let lines = run(host, &variables, &[scripts::SERVER, LOOK].concat())?;
    let mut machine = read(&lines);
    if let Some((total, available)) = memory(host, machine.pid) {
        machine.memory.total = Some(total);
        machine.memory.available = Some(available);
    }
    Ok(machine)
}

/// Certificate files that the server itself reports.
fn certificates(facts: &NodeFacts) -> Vec<String> {
    let of_server = ["ssl_ca", "ssl_cert"].map(|name| facts.variables.get(name).cloned());
    let group = GROUP_FILES.map(|name| facts.provider_option(name));
    of_server.into_iter().chain(group).flatten().collect()
}

/// Parses the output of an examination. Unknown lines are ignored.
fn read(lines: &[Vec<String>]) -> MachineFacts {
    let mut machine = MachineFacts::default();
    let mut account = Account::default();
    let mut unit = Unit::default();
    for line in lines {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let number = |text: &str| text.parse::<u64>().ok();
        match words.as_slice() {
            ["hostname", name] => (*name).clone_into(&mut machine.hostname),
            ["pid", pid] => machine.pid = pid.parse().ok(),
            ["user", user] => (*user).clone_into(&mut machine.user),
            ["defaults", file] if !file.is_empty() => {
                machine.defaults_file = Some((*file).to_owned());
            }
            ["path", path] => machine.path = Some((*path).to_owned()),
            ["unreadable", reason] => {
                let one = machine
                    .options
                    .0
                    .entry("unreadable".to_owned())
                    .or_default();
                one.insert(String::new(), (*reason).to_owned());
            }
            ["option", group, name, value] => {
                let group = machine.options.0.entry((*group).to_owned()).or_default();
                group.insert((*name).to_owned(), without_password(value));
            }
            ["program", name, path] => drop(
                machine
                    .programs
                    .insert((*name).to_owned(), (*path).to_owned()),
            ),
            ["version", name, text] => drop(
                machine
                    .versions
                    .insert((*name).to_owned(), (*text).to_owned()),
            ),
            ["knows", method, option] => drop(
                machine
                    .knows
                    .insert(((*method).to_owned(), (*option).to_owned())),
            ),
            ["readable", file] => drop(machine.readable.insert((*file).to_owned())),
            ["certificate", file, state @ ("soon" | "over"), when] => {
                let ending = Ending {
                    over: *state == "over",
                    when: (*when).to_owned(),
                };
                machine.ending.insert((*file).to_owned(), ending);
            }
            ["memory", "VmRSS:", bytes] => machine.memory.server = number(bytes),
            ["cores", count] => machine.cores = number(count),
            ["disk", all, free] => {
                (machine.space.size, machine.space.free) = (number(all), number(free));
            }
            ["data", used, kept] => {
                (machine.space.used, machine.space.kept) = (number(used), number(kept));
            }
            ["unit", "name", name] => (*name).clone_into(&mut unit.name),
            ["unit", "LoadState", "loaded"] => machine.unit = Some(std::mem::take(&mut unit)),
            ["unit", "Type", kind] => (*kind).clone_into(&mut unit.kind),
            ["unit", "NotifyAccess", who] => (*who).clone_into(&mut unit.notify_access),
            ["unit", "TimeoutStartUSec", time] => (*time).clone_into(&mut unit.start_timeout),
            ["unit", "manager", version] => unit.manager = number(version),
            ["gcache", _] => machine.space.has_gcache = true,
            ["address", address] => drop(machine.addresses.insert((*address).to_owned())),
            ["leftover", name] => machine.leftovers.push((*name).to_owned()),
            ["running", name, pid] => machine.running.push(format!("process {pid}, by {name}")),
            ["listens", pid, program] => machine.listens.push(Listener {
                pid: pid.parse().ok(),
                program: (*program).to_owned(),
            }),
            ["account-from", "auth"] => account.from = AccountFrom::SstAuth,
            ["account-from", _] => account.from = AccountFrom::BackupOptions,
            ["account", name] => (*name).clone_into(&mut account.name),
            ["account-is", "accepted"] => machine.account = Some(std::mem::take(&mut account)),
            ["account-is", reason] => {
                account.refused = Some(reason.trim_start_matches("refused: ").to_owned());
                machine.account = Some(std::mem::take(&mut account));
            }
            ["grant", text] => {
                if let Some(account) = &mut machine.account {
                    account.grants.push((*text).to_owned());
                }
            }
            _ => {}
        }
    }
    machine
}

/// Options for the backup program as people write them, without a password in them.
fn without_password(value: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in value.split(' ') {
        let plain = word.trim_start_matches(['"', '\'']);
        let short = plain.starts_with("-p") && plain.len() > 2;
        let key = plain
            .split('=')
            .next()
            .unwrap_or_default()
            .replace('_', "-");
        let long = matches!(key.as_str(), "--password" | "--encrypt-key" | "--pass");
        words.push(match (short, long && plain.contains('=')) {
            (true, _) => "-p…".to_owned(),
            (_, true) => format!("{key}=…"),
            _ => word.to_owned(),
        });
    }
    words.join(" ")
}

#[cfg(test)]
mod tests;
