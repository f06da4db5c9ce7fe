//! `refloat cluster`: Galera clusters.

mod advise;
mod healthd;
mod members;
mod status;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
EXAMPLES:
  How does the cluster do, as seen by each of its nodes?
      refloat cluster status --cluster mysql://root@db1/

  The same with nodes that are down, which only a list of all nodes can tell:
      refloat cluster status --cluster shop.toml

  Watch it:
      refloat cluster status --cluster shop.toml --watch

  Before a node is brought back by a full copy: what would go wrong, what would be slow?
      refloat cluster advise db2 --cluster shop.toml

  Let HAProxy know when a node had better be left alone:
      refloat cluster healthd --node mysql://healthd@127.0.0.1/ --listen 0.0.0.0:9200

A list of nodes, shop.toml:
  name = \"shop\"
  [[node]]
  name = \"db1\"
  url = \"mysql://root@10.0.0.1/\"
  ssh = \"root@10.0.0.1\"      # to look at its files when it is down; none: this machine
  [[node]]
  name = \"db2\"
  url = \"mysql://root@10.0.0.2/\"
  ssh = \"root@10.0.0.2\"";

/// See how a Galera cluster does, prepare full copies (SST), and tell proxies which nodes to use
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    Status(status::StatusArgs),
    Advise(advise::AdviseArgs),
    Healthd(healthd::HealthdArgs),
}

pub fn run(args: &ClusterArgs, context: &Context) -> anyhow::Result<Exit> {
    match &args.command {
        ClusterCommand::Status(args) => status::run(args, context),
        ClusterCommand::Advise(args) => advise::run(args, context),
        ClusterCommand::Healthd(args) => healthd::run(args, context),
    }
}

/// An argument in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err("give seconds between 0.1 and 3600".to_owned()),
    }
}
