//! `refloat sandbox node`: kills, stops and starts single nodes of a cluster.

use std::io::Write as _;

use refloat_host::Position;
use refloat_sandbox::{GaleraNode, NodeStart, Sandbox};

use super::args::{NodeArgs, NodeCommand, NodeKillArgs, NodeName, NodeStartArgs};
use super::{print_instance_as, print_json, refusal};
use crate::exit::Exit;

pub fn run(sandbox: &Sandbox, args: NodeArgs) -> anyhow::Result<Exit> {
    match args.command {
        NodeCommand::Start(args) => start(sandbox, args),
        NodeCommand::Status(args) => change(sandbox, &args, |_| Ok(())),
        NodeCommand::Stop(args) => change(sandbox, &args, GaleraNode::stop),
        NodeCommand::Kill(NodeKillArgs { node, server_only }) => {
            let kill = if server_only {
                GaleraNode::kill
            } else {
                GaleraNode::crash
            };
            change(sandbox, &node, kill)
        }
        NodeCommand::Freeze(args) => change(sandbox, &args, GaleraNode::freeze),
        NodeCommand::Thaw(args) => change(sandbox, &args, GaleraNode::thaw),
        NodeCommand::Cut(args) => change(sandbox, &args, GaleraNode::cut),
        NodeCommand::Heal(args) => change(sandbox, &args, GaleraNode::heal),
        NodeCommand::Recover(args) => recover(sandbox, &args),
    }
}

fn start(sandbox: &Sandbox, args: NodeStartArgs) -> anyhow::Result<Exit> {
    let node = sandbox.node(&args.node.name).map_err(refusal)?;
    let how = NodeStart {
        bootstrap: args.bootstrap,
        arguments: args.options,
    };
    if args.no_wait {
        node.begin(&how)
    } else {
        node.start_with(&how)
    }
    .map_err(refusal)?;
    let status = node.status().map_err(refusal)?;
    let instance = sandbox.get(&args.node.name).map_err(refusal)?;
    print_instance_as(&instance, status, args.node.json)
}

/// Applies `act` to a node and prints the node's new status.
fn change(
    sandbox: &Sandbox,
    args: &NodeName,
    act: impl FnOnce(&GaleraNode) -> refloat_sandbox::Result<()>,
) -> anyhow::Result<Exit> {
    let node = sandbox.node(&args.name).map_err(refusal)?;
    act(&node).map_err(refusal)?;
    let status = node.status().map_err(refusal)?;
    if args.json {
        print_json(&serde_json::json!({ "name": args.name, "status": status }))?;
    } else {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}: {}", args.name, status.name())?;
    }
    Ok(Exit::Done)
}

fn recover(sandbox: &Sandbox, args: &NodeName) -> anyhow::Result<Exit> {
    let node = sandbox.node(&args.name).map_err(refusal)?;
    let position = node.recover().map_err(refusal)?;
    if args.json {
        let Position { uuid, seqno } = position;
        print_json(&serde_json::json!({ "name": args.name, "uuid": uuid, "seqno": seqno }))?;
    } else {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}: {position}", args.name)?;
    }
    Ok(Exit::Done)
}
