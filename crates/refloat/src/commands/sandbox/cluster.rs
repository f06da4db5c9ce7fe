//! Starts clusters for `refloat sandbox`, and describes them.

use std::collections::BTreeMap;
use std::io::Write as _;

use refloat_sandbox::{Error, GaleraCluster, GaleraOptions, HaproxyOptions, Sandbox, Status, Tls};

use super::args::{EnvArgs, StartArgs};
use super::{as_json, print_json, refusal};
use crate::exit::{Exit, ProgramError};
use crate::shell::quoted;

/// Starts a cluster of `nodes` nodes, as the arguments describe it.
pub fn start(sandbox: &Sandbox, nodes: u32, args: StartArgs) -> anyhow::Result<Exit> {
    let mut node_options: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for (number, option) in args.node_options {
        node_options.entry(number).or_default().push(option);
    }
    let options = GaleraOptions {
        name: args.name,
        options: args.options,
        node_options,
        sst: args.sst,
        tls: args.tls.unwrap_or(Tls::Off),
        isolated: args.isolated,
        haproxy: args.with_haproxy.then(HaproxyOptions::default),
        ..GaleraOptions::new(args.server, nodes)
    };
    let cluster = sandbox.start_cluster(&options).map_err(refusal)?;
    print(&cluster, args.json)
}

/// The cluster of this name. `None` if there is none: the name may be that of a server.
pub fn find(sandbox: &Sandbox, name: &str) -> anyhow::Result<Option<GaleraCluster>> {
    match sandbox.cluster(name) {
        Ok(cluster) => Ok(Some(cluster)),
        Err(Error::NoSuchCluster { .. }) => Ok(None),
        Err(error) => Err(refusal(error)),
    }
}

/// Prints a cluster that is ready.
pub fn print(cluster: &GaleraCluster, json: bool) -> anyhow::Result<Exit> {
    if json {
        print_json(&cluster_as_json(cluster)?)?;
        return Ok(Exit::Done);
    }
    let mut out = std::io::stdout().lock();
    let nodes = cluster.nodes();
    let version = nodes.first().map_or("", |node| node.version());
    writeln!(
        out,
        "{}: {version} is ready, {} node{}",
        cluster.name(),
        nodes.len(),
        if nodes.len() == 1 { "" } else { "s" }
    )?;
    let width = nodes.iter().map(|node| node.name().len()).max();
    let width = width.unwrap_or(0).max(7);
    for node in nodes {
        writeln!(out, "  {:width$}  {}", node.name(), node.url())?;
    }
    if let Some(url) = cluster.haproxy_url() {
        writeln!(out, "  {:width$}  {url}", "haproxy")?;
    }
    writeln!(out, "  {:width$}  {}", "file", cluster.toml().display())?;
    Ok(Exit::Done)
}

/// Prints a cluster's addresses for a shell.
pub fn env(cluster: &GaleraCluster, args: &EnvArgs) -> anyhow::Result<Exit> {
    if args.json {
        print_json(&cluster_as_json(cluster)?)?;
        return Ok(Exit::Done);
    }
    let mut out = std::io::stdout().lock();
    let proxy = cluster.haproxy_url();
    if args.url || args.socket_url {
        let url = proxy
            .filter(|_| args.url)
            .ok_or_else(|| one_node(cluster))?;
        writeln!(out, "{url}")?;
        return Ok(Exit::Done);
    }
    let file = cluster.toml().to_string_lossy().into_owned();
    writeln!(out, "export REFLOAT_CLUSTER_FILE={}", quoted(&file))?;
    if let Some(url) = proxy {
        writeln!(out, "export REFLOAT_URL={}", quoted(&url))?;
    }
    Ok(Exit::Done)
}

/// The error for naming a cluster where a single server is needed.
pub fn one_node(cluster: &GaleraCluster) -> anyhow::Error {
    let names: Vec<&str> = cluster.nodes().iter().map(|node| node.name()).collect();
    ProgramError::usage(format!(
        "{} is a cluster; which node? there are {}",
        cluster.name(),
        names.join(", ")
    ))
    .into()
}

/// How many of its nodes run, for a list.
pub fn summary(cluster: &GaleraCluster) -> anyhow::Result<String> {
    let mut running = 0;
    for node in cluster.nodes() {
        if node.status().map_err(refusal)? == Status::Running {
            running += 1;
        }
    }
    Ok(format!("{running} of {}", cluster.nodes().len()))
}

fn cluster_as_json(cluster: &GaleraCluster) -> anyhow::Result<serde_json::Value> {
    let mut nodes = Vec::new();
    for node in cluster.nodes() {
        nodes.push(as_json(node, node.status().map_err(refusal)?));
    }
    let folder = cluster.folder();
    let haproxy = cluster.haproxy_port().map(|port| {
        serde_json::json!({
            "port": port,
            "url": cluster.haproxy_url(),
            "pid": cluster.haproxy_pid(),
            "config": folder.haproxy_config(),
            "socket": folder.haproxy_socket(),
            "log": folder.haproxy_log(),
        })
    });
    Ok(serde_json::json!({
        "cluster": cluster.name(),
        "server": cluster.kind(),
        "sst": cluster.sst(),
        "isolated": cluster.is_isolated(),
        "file": cluster.toml(),
        "haproxy": haproxy,
        "nodes": nodes,
    }))
}
