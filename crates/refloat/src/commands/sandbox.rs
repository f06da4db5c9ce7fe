//! `refloat sandbox`: runs real throw-away servers on this machine.

mod args;
mod cluster;
mod node;
mod refusal;

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;

use anyhow::Context as _;
use refloat_sandbox::{ClusterEntry, Entry, Instance, Sandbox, StartOptions, Status};

pub use args::SandboxArgs;
use args::{
    EnvArgs, ListArgs, RemoveArgs, RestartArgs, SandboxCommand, ShellArgs, StartArgs, StopArgs,
    Which,
};

use refusal::refusal;

use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::shell::{quoted, word};

pub fn run(args: SandboxArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut sandbox = Sandbox::new(context.state_dir().join("sandbox"));
    if let Some(folder) = context.servers_dir() {
        sandbox = sandbox.with_servers_dir(folder);
    }
    match args.command {
        SandboxCommand::Start(args) => {
            start(&sandbox.with_node_command(node_command(context)?), args)
        }
        SandboxCommand::Node(args) => node::run(&sandbox, args),
        SandboxCommand::List(args) => list(&sandbox, &args),
        SandboxCommand::Stop(args) => stop(&sandbox, args),
        SandboxCommand::Restart(args) => restart(&sandbox, args),
        SandboxCommand::Remove(args) => remove(&sandbox, args),
        SandboxCommand::Shell(args) => shell(&sandbox, args),
        SandboxCommand::Env(args) => env(&sandbox, &args),
    }
}

/// The command line of `refloat sandbox node` with this program and these folders, for lists of
/// nodes: whoever uses a list may be in another folder and have another environment.
fn node_command(context: &Context) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("the program's own file is not known")?;
    let state = std::path::absolute(context.state_dir())?;
    let mut words = format!("REFLOAT_STATE_DIR={} ", word(&state.to_string_lossy()));
    if let Some(folder) = context.servers_dir() {
        let folder = std::path::absolute(folder)?;
        let _ = write!(
            words,
            "REFLOAT_SERVERS={} ",
            word(&folder.to_string_lossy())
        );
    }
    let _ = write!(words, "{} sandbox node", word(&program.to_string_lossy()));
    Ok(words)
}

fn start(sandbox: &Sandbox, args: StartArgs) -> anyhow::Result<Exit> {
    if let Some(nodes) = args.galera {
        return cluster::start(sandbox, nodes, args);
    }
    let options = StartOptions {
        name: args.name,
        options: args.options,
        tls: args.tls.unwrap_or_default(),
        ..StartOptions::new(args.server)
    };
    let instance = sandbox.start(&options).map_err(refusal)?;
    print_instance(&instance, args.json)
}

fn list(sandbox: &Sandbox, args: &ListArgs) -> anyhow::Result<Exit> {
    let entries = sandbox.list().map_err(refusal)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        print_json(&entries.iter().map(entry_as_json).collect::<Vec<_>>().into())?;
        return Ok(Exit::Done);
    }
    let clusters = sandbox.clusters().map_err(refusal)?;
    if entries.is_empty() && clusters.is_empty() {
        eprintln!("No servers. Start one with: refloat sandbox start");
        return Ok(Exit::Done);
    }
    let mut rows: Vec<[String; 5]> = entries.iter().map(row).collect();
    for entry in &clusters {
        rows.push(cluster_row(entry)?);
    }
    rows.sort_by(|a, b| a[0].cmp(&b[0]));
    let width = rows.iter().map(|row| row[0].len()).max();
    let width = width.unwrap_or(0).max(4);
    let head = ["NAME", "SERVER", "STATUS", "PID", "URL"].map(str::to_owned);
    for [name, server, status, pid, url] in std::iter::once(head).chain(rows) {
        writeln!(
            out,
            "{name:width$}  {server:13}  {status:8}  {pid:7}  {url}"
        )?;
    }
    Ok(Exit::Done)
}

fn row(entry: &Entry) -> [String; 5] {
    let instance = entry.instance.as_ref();
    let none = || "-".to_owned();
    let pid = instance
        .filter(|_| entry.status.is_alive())
        .and_then(Instance::pid);
    [
        entry.name.clone(),
        instance.map_or_else(none, |instance| instance.kind().to_string()),
        entry.status.name().to_owned(),
        pid.map_or_else(none, |pid| pid.to_string()),
        instance.map_or_else(none, Instance::url),
    ]
}

fn cluster_row(entry: &ClusterEntry) -> anyhow::Result<[String; 5]> {
    let none = || "-".to_owned();
    let name = entry.name.clone();
    let Some(cluster) = &entry.cluster else {
        return Ok([
            name,
            none(),
            Status::Broken.name().to_owned(),
            none(),
            none(),
        ]);
    };
    Ok([
        name,
        cluster.kind().to_string(),
        cluster::summary(cluster)?,
        cluster
            .haproxy_pid()
            .map_or_else(none, |pid| pid.to_string()),
        cluster.haproxy_url().unwrap_or_else(none),
    ])
}

fn stop(sandbox: &Sandbox, args: StopArgs) -> anyhow::Result<Exit> {
    let instances = if args.all {
        sandbox
            .list()
            .map_err(refusal)?
            .into_iter()
            .filter_map(|entry| entry.instance)
            .collect()
    } else {
        let name = name_of(args.which, &instance_names(sandbox)?)?;
        match cluster::find(sandbox, &name)? {
            // Stop the first node last: it is the one to start again first.
            Some(cluster) => cluster
                .nodes()
                .iter()
                .rev()
                .map(|node| (**node).clone())
                .collect(),
            None => vec![sandbox.get(&name).map_err(refusal)?],
        }
    };
    let mut stopped = Vec::new();
    for mut instance in instances {
        if args.kill {
            instance.kill()
        } else {
            instance.stop()
        }
        .map_err(refusal)?;
        stopped.push(instance.name().to_owned());
    }
    print_names("stopped", &stopped, args.json)
}

fn restart(sandbox: &Sandbox, args: RestartArgs) -> anyhow::Result<Exit> {
    let name = name_of(args.which, &instance_names(sandbox)?)?;
    if let Some(cluster) = cluster::find(sandbox, &name)? {
        cluster
            .stop()
            .and_then(|()| cluster.start())
            .map_err(refusal)?;
        return cluster::print(&cluster, args.json);
    }
    let mut instance = sandbox.get(&name).map_err(refusal)?;
    instance.restart().map_err(refusal)?;
    print_instance(&instance, args.json)
}

fn remove(sandbox: &Sandbox, args: RemoveArgs) -> anyhow::Result<Exit> {
    let clusters = sandbox.clusters().map_err(refusal)?;
    let clusters: Vec<String> = clusters.into_iter().map(|entry| entry.name).collect();
    let entries = sandbox.list().map_err(refusal)?;
    // Nodes are removed with their cluster.
    let alone = entries
        .into_iter()
        .filter(|entry| entry.cluster.is_none())
        .map(|entry| entry.name);
    let all: Vec<String> = clusters.iter().cloned().chain(alone).collect();
    let names = if args.all {
        all
    } else {
        // Not through `get`: a half-created server must be removable too.
        vec![name_of(args.which, &all)?]
    };
    for name in &names {
        if clusters.contains(name) {
            sandbox.remove_cluster(name)
        } else {
            sandbox.remove(name)
        }
        .map_err(refusal)?;
    }
    print_names("removed", &names, args.json)
}

fn shell(sandbox: &Sandbox, args: ShellArgs) -> anyhow::Result<Exit> {
    let name = name_of(args.which, &instance_names(sandbox)?)?;
    if let Some(cluster) = cluster::find(sandbox, &name)? {
        return Err(cluster::one_node(&cluster));
    }
    let instance = find_running(sandbox, &name)?;
    let mut client = instance.client_command().map_err(refusal)?;
    // Returns only on failure.
    Err(client.args(args.arguments).exec()).context("cannot start the client")
}

fn env(sandbox: &Sandbox, args: &EnvArgs) -> anyhow::Result<Exit> {
    let name = name_of(args.which.clone(), &instance_names(sandbox)?)?;
    if let Some(cluster) = cluster::find(sandbox, &name)? {
        return cluster::env(&cluster, args);
    }
    let instance = find_running(sandbox, &name)?;
    let mut out = std::io::stdout().lock();
    if args.url {
        writeln!(out, "{}", instance.url())?;
    } else if args.socket_url {
        writeln!(out, "{}", instance.socket_url())?;
    } else if args.json {
        print_json(&as_json(&instance, instance.status()))?;
    } else {
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let mut export = |name: &str, value: &str| writeln!(out, "export {name}={}", quoted(value));
        export("REFLOAT_URL", &instance.url())?;
        export("REFLOAT_SOCKET_URL", &instance.socket_url())?;
        export("REFLOAT_PORT", &instance.port().to_string())?;
        export("REFLOAT_SOCKET", &path(&instance.socket()))?;
        if let Some(ca) = instance.ca_file() {
            export("REFLOAT_CA_FILE", &path(ca))?;
        }
    }
    Ok(Exit::Done)
}

fn instance_names(sandbox: &Sandbox) -> anyhow::Result<Vec<String>> {
    let entries = sandbox.list().map_err(refusal)?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

/// The given name, or the only one that exists.
fn name_of(which: Which, names: &[String]) -> anyhow::Result<String> {
    if let Some(name) = which.name.or(which.name_option) {
        return Ok(name);
    }
    match names {
        [] => Err(
            ProgramError::new(Exit::Refused, "there are no servers in the sandbox")
                .hint("Start one with: refloat sandbox start")
                .into(),
        ),
        [name] => Ok(name.clone()),
        _ => {
            Err(ProgramError::usage(format!("which server? there are {}", names.join(", "))).into())
        }
    }
}

fn find_running(sandbox: &Sandbox, name: &str) -> anyhow::Result<Instance> {
    let instance = sandbox.get(name).map_err(refusal)?;
    let (what, way_out) = match instance.status() {
        Status::Running | Status::Cut => return Ok(instance),
        Status::Frozen => (
            "frozen",
            format!("Resume it with: refloat sandbox node thaw {name}"),
        ),
        Status::Starting => (
            "starting",
            format!("Wait for it with: refloat sandbox node start {name}"),
        ),
        _ => (
            "not running",
            format!("Start it again with: refloat sandbox restart {name}"),
        ),
    };
    Err(
        ProgramError::new(Exit::Refused, format!("the server {name:?} is {what}"))
            .hint(way_out)
            .into(),
    )
}

fn print_instance(instance: &Instance, json: bool) -> anyhow::Result<Exit> {
    print_instance_as(instance, Status::Running, json)
}

fn print_instance_as(instance: &Instance, status: Status, json: bool) -> anyhow::Result<Exit> {
    if json {
        print_json(&as_json(instance, status))?;
        return Ok(Exit::Done);
    }
    let mut out = std::io::stdout().lock();
    let state = match status {
        Status::Running => "ready",
        other => other.name(),
    };
    writeln!(
        out,
        "{}: {} is {state}",
        instance.name(),
        instance.version()
    )?;
    writeln!(out, "  url     {}", instance.url())?;
    writeln!(out, "  socket  {}", instance.socket().display())?;
    writeln!(out, "  log     {}", instance.error_log().display())?;
    Ok(Exit::Done)
}

fn print_names(what: &str, names: &[String], json: bool) -> anyhow::Result<Exit> {
    if json {
        print_json(&serde_json::json!({ what: names }))?;
        return Ok(Exit::Done);
    }
    let mut out = std::io::stdout().lock();
    for name in names {
        writeln!(out, "{name}: {what}")?;
    }
    Ok(Exit::Done)
}

fn print_json(value: &serde_json::Value) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{value:#}")
}

fn entry_as_json(entry: &Entry) -> serde_json::Value {
    match &entry.instance {
        Some(instance) => as_json(instance, entry.status),
        None => serde_json::json!({ "name": entry.name, "status": entry.status }),
    }
}

fn as_json(instance: &Instance, status: Status) -> serde_json::Value {
    let options: serde_json::Map<_, _> = instance
        .options()
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    serde_json::json!({
        "name": instance.name(),
        "server": instance.kind(),
        "version": instance.version(),
        "status": status,
        "pid": instance.pid().filter(|_| status.is_alive()),
        "cluster": instance.cluster(),
        "host": instance.host(),
        "port": instance.port(),
        "socket": instance.socket(),
        "url": instance.url(),
        "socket_url": instance.socket_url(),
        "datadir": instance.datadir(),
        "error_log": instance.error_log(),
        "ca_file": instance.ca_file(),
        "options": options,
    })
}
