//! `refloat cluster healthd`: answers the health checks of proxies.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use refloat_cluster::healthd::{Healthd, HealthdOptions, Rules};
use refloat_run::Cancel;
use refloat_run::signals::install_signal_handlers;

use super::seconds;
use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
EXAMPLES:
  For the node on this machine, and proxies on other machines:
      refloat cluster healthd --node mysql://healthd@127.0.0.1/ \\
          --listen 0.0.0.0:9200

  With HAProxy's agent checks too, which drain a donor instead of taking it down:
      refloat cluster healthd --node mysql://healthd@127.0.0.1/ \\
          --listen 0.0.0.0:9200 \\
          --agent-listen 0.0.0.0:9201

  Ask it:
      curl -i http://127.0.0.1:9200/

PATHS:
  /, /write   200 when the node may be read and written, else 503
  /read       200 when it may be read: also when it is read-only
  /alive      200 also while the node drains: for use beside agent checks
  /status     what is known, as JSON, always with 200

503 is returned while the node is a donor, desynced, joining, catching up, behind by more than \
--max-queue write-sets, read-only, outside of the primary component, rejecting queries, or silent; \
the body says which. The account needs no privilege but to connect (USAGE). In HAProxy:

  backend galera
      option httpchk GET /alive
      server db1 10.0.0.1:3306 check port 9200 inter 1s fall 2 rise 2 agent-check agent-port 9201";

/// Answer health checks of HAProxy and others (HTTP, agent check) for one node
///
/// A node that is a donor or lags behind still accepts connections, but is slow or blocked, which a
/// check of its port cannot see. This service asks the node, and answers for it.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct HealthdArgs {
    /// Answer HTTP checks at this address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9200")]
    listen: SocketAddr,

    /// Answer HAProxy's agent checks at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    agent_listen: Option<SocketAddr>,

    /// Seconds between two queries of the node
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = seconds)]
    interval: f64,

    /// Take a node out when more write-sets than this wait to be applied
    #[arg(long, value_name = "N", default_value_t = Rules::default().max_queue)]
    max_queue: u64,

    /// Keep a donor in service: for copies that do not block it
    #[arg(long)]
    donor_serves: bool,

    /// The node
    ///
    /// mysql://USER@HOST:PORT/, with ?socket=PATH for its unix socket, which is best on the node's
    /// own machine.
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    node: String,

    #[command(flatten)]
    options: ConnectArgs,
}

pub fn run(args: &HealthdArgs, context: &Context) -> anyhow::Result<Exit> {
    let options = HealthdOptions {
        node: args.options.resolve_flag("--node", &args.node, context)?,
        listen: args.listen,
        agent_listen: args.agent_listen,
        rules: Rules {
            max_queue: args.max_queue,
            donor_serves: args.donor_serves,
        },
        interval: Duration::from_secs_f64(args.interval),
    };
    let cancel = Cancel::new();
    let _signals = install_signal_handlers(&cancel).context("cannot handle signals")?;
    // Answer checks even after stderr has been closed.
    let say = |line: &str| drop(writeln!(std::io::stderr(), "refloat: {line}"));
    let healthd = Healthd::start(&options, &cancel, say).with_context(|| {
        let agent = args
            .agent_listen
            .map_or(String::new(), |address| format!(" and {address}"));
        format!("cannot listen on {}{agent}", args.listen)
    })?;
    say(&format!("answering at http://{}/", healthd.address()));
    if let Some(address) = healthd.agent_address() {
        say(&format!("answering agent checks at {address}"));
    }
    healthd.join();
    Ok(Exit::Done)
}
