//! `refloat cluster`: Galera clusters.

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

/// Look at a Galera cluster, node by node
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    Status(status::StatusArgs),
}

pub fn run(args: &ClusterArgs, context: &Context) -> anyhow::Result<Exit> {
    match &args.command {
        ClusterCommand::Status(args) => status::run(args, context),
    }
}
