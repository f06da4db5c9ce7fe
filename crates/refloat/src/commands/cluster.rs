//! `refloat cluster`: commands for Galera clusters.

mod advise;
mod bootstrap;
mod busy;
mod copies;
mod healthd;
mod install_sst;
mod lock;
mod maintain;
pub mod members;
mod rejoin;
mod restore;
mod rolling;
mod status;
mod verify;

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use refloat_cluster::Rates;
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
EXAMPLES:
  How is the cluster doing, as seen by each of its nodes?
      refloat cluster status --cluster mysql://root@db1/

  The same, including nodes that are down, which only a list of all nodes knows:
      refloat cluster status --cluster shop.toml

  Watch it:
      refloat cluster status --cluster shop.toml --watch

  Take a node down for an upgrade, and have it back without a full copy:
      refloat cluster maintain db2 --cluster shop.toml --for 10m \\
          -- ssh root@db2 apt-get upgrade -y

  Start a node that is down, unless it would need a full copy:
      refloat cluster rejoin db2 --cluster shop.toml

  All nodes are down: bootstrap the cluster from the most advanced one
      refloat cluster bootstrap --cluster shop.toml --plan

  Do all nodes hold the same data?
      refloat cluster verify --cluster shop.toml

  Restore the whole cluster from a dump:
      refloat cluster restore shop.sql.gz --cluster shop.toml --plan

  Before a node is brought back by a full copy: what would go wrong, what would be slow?
      refloat cluster advise db2 --cluster shop.toml

  Tell HAProxy when to keep traffic away from a node:
      refloat cluster healthd --node mysql://healthd@127.0.0.1/ \\
          --listen 0.0.0.0:9200

A list of nodes, shop.toml:
  name = \"shop\"
  [[node]]
  name = \"db1\"
  url = \"mysql://root@10.0.0.1/\"
  ssh = \"root@10.0.0.1\"      # to read its files when it is down; omit for this machine
  control = { systemd = \"mariadb\" }   # how it is started and stopped
  [[node]]
  name = \"db2\"
  url = \"mysql://root@10.0.0.2/\"
  ssh = \"root@10.0.0.2\"";

/// Check a Galera cluster, take nodes down and bring them back, restore all of it, guide proxies
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    Status(status::StatusArgs),
    Maintain(maintain::MaintainArgs),
    Rolling(rolling::RollingArgs),
    Rejoin(rejoin::RejoinArgs),
    Bootstrap(bootstrap::BootstrapArgs),
    Verify(verify::VerifyArgs),
    Restore(Box<restore::RestoreArgs>),
    Advise(advise::AdviseArgs),
    Healthd(healthd::HealthdArgs),
    InstallSst(install_sst::InstallSstArgs),
}

pub fn run(args: &ClusterArgs, context: &Context) -> anyhow::Result<Exit> {
    match &args.command {
        ClusterCommand::Status(args) => status::run(args, context),
        ClusterCommand::Maintain(args) => maintain::run(args, context),
        ClusterCommand::Rolling(args) => rolling::run(args, context),
        ClusterCommand::Rejoin(args) => rejoin::run(args, context),
        ClusterCommand::Bootstrap(args) => bootstrap::run(args, context),
        ClusterCommand::Verify(args) => verify::run(args, context),
        ClusterCommand::Restore(args) => restore::run(args, context),
        ClusterCommand::Advise(args) => advise::run(args, context),
        ClusterCommand::Healthd(args) => healthd::run(args, context),
        ClusterCommand::InstallSst(args) => install_sst::run(args),
    }
}

/// How long a node may take from its start until it is in sync. A full copy has no limit of its
/// own.
fn start_limit(given: Option<Duration>, by_copy: bool) -> Option<Duration> {
    /// Crash recovery takes minutes, and so does IST after a long absence.
    const USUAL: Duration = Duration::from_secs(3600);
    given.or((!by_copy).then_some(USUAL))
}

/// Parses an argument in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=3600.0).contains(&value) => Ok(value),
        _ => Err("give seconds between 0.1 and 3600".to_owned()),
    }
}

/// Bytes per second of a full copy: as given, or as measured by the last restore or `rejoin` of the
/// cluster. `None` if neither is known.
fn sst_rate(given: Option<u64>, cluster: &str, context: &Context) -> Option<f64> {
    given.map(|rate| rate.max(1) as f64).or_else(|| {
        let copy = Rates::measured(context.state_dir(), cluster).copy;
        copy.is_known().then_some(copy.bytes_per_second)
    })
}

/// Prints the plan, as a page or as one line of JSON.
fn print_plan<P: Serialize>(
    plan: &P,
    page: impl Fn(&P) -> String,
    json: bool,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(plan)?)?;
    } else {
        write!(out, "{}", page(plan))?;
    }
    Ok(())
}
