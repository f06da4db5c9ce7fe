//! Flags of `refloat sandbox node`.

use clap::{Args, Subcommand};

use super::start_option;

const NODE_HELP: &str = "\
EXAMPLES:
  What happens to a cluster when a node dies, and when it comes back:
      refloat sandbox node kill c-2
      refloat sandbox node start c-2

  When it hangs:
      refloat sandbox node freeze c-2
      refloat sandbox node thaw c-2

  When its network is gone (clusters that were started with --isolated):
      refloat sandbox node cut c-2
      refloat sandbox node heal c-2";

const START_HELP: &str = "\
EXAMPLES:
  Join the others, and wait until the node is in sync with them:
      refloat sandbox node start c-2

  Bootstrap after all nodes were stopped, from the one that was stopped last:
      refloat sandbox node start c-1 --bootstrap

  Do not wait for the state transfer:
      refloat sandbox node start c-2 --no-wait

  As a standalone server, just this once:
      refloat sandbox node start c-2 -o wsrep_provider=none

A node that crashed first recovers its position, as a service unit does.";

const STATUS_HELP: &str = "\
EXAMPLES:
  Whether it runs, starts, hangs or is stopped:
      refloat sandbox node status c-2";

const STOP_HELP: &str = "\
EXAMPLES:
  Cleanly: it leaves the others and records its position:
      refloat sandbox node stop c-2";

const KILL_HELP: &str = "\
EXAMPLES:
  As when the power fails:
      refloat sandbox node kill c-2

  As when memory runs out: processes that the server started keep running:
      refloat sandbox node kill c-2 --server-only";

const FREEZE_HELP: &str = "\
EXAMPLES:
  Freeze all processes of a node by SIGSTOP; its connections stay open, but do not answer:
      refloat sandbox node freeze c-2";

const THAW_HELP: &str = "\
EXAMPLES:
  Resume a frozen node:
      refloat sandbox node thaw c-2";

const CUT_HELP: &str = "\
EXAMPLES:
  Pull the cable of a node; `shell` still reaches it over its unix socket:
      refloat sandbox start --galera 3 --isolated --name c
      refloat sandbox node cut c-2";

const HEAL_HELP: &str = "\
EXAMPLES:
  Plug the cable in again:
      refloat sandbox node heal c-2";

const RECOVER_HELP: &str = "\
EXAMPLES:
  The position of a stopped node in the history of its cluster:
      refloat sandbox node recover c-2";

/// Start, stop, crash and cut off the nodes of a cluster
#[derive(Debug, Args)]
#[command(after_long_help = NODE_HELP)]
pub struct NodeArgs {
    #[command(subcommand)]
    pub command: NodeCommand,
}

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Start a stopped node: it joins the others
    #[command(after_long_help = START_HELP)]
    Start(NodeStartArgs),
    /// Show what a node is doing
    #[command(after_long_help = STATUS_HELP)]
    Status(NodeName),
    /// Shut a node down cleanly
    #[command(after_long_help = STOP_HELP)]
    Stop(NodeName),
    /// End a node by SIGKILL
    #[command(after_long_help = KILL_HELP)]
    Kill(NodeKillArgs),
    /// Freeze a node by SIGSTOP, like a machine that hangs
    #[command(after_long_help = FREEZE_HELP)]
    Freeze(NodeName),
    /// Resume a frozen node
    #[command(after_long_help = THAW_HELP)]
    Thaw(NodeName),
    /// Cut a node off from its network
    #[command(after_long_help = CUT_HELP)]
    Cut(NodeName),
    /// Give a node its network back
    #[command(after_long_help = HEAL_HELP)]
    Heal(NodeName),
    /// Find the position of a stopped node
    #[command(after_long_help = RECOVER_HELP)]
    Recover(NodeName),
}

#[derive(Debug, Args)]
pub struct NodeName {
    /// The node's name, such as c-2
    #[arg(value_name = "NODE")]
    pub name: String,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct NodeStartArgs {
    #[command(flatten)]
    pub node: NodeName,

    /// Bootstrap a new cluster instead of joining the others
    #[arg(long)]
    pub bootstrap: bool,

    /// Return when its process runs, without waiting until it is ready
    #[arg(long)]
    pub no_wait: bool,

    /// An option for this start alone: key=value, or key; may be given several times
    #[arg(short = 'o', long = "option", value_name = "KEY=VALUE", value_parser = start_option)]
    pub options: Vec<(String, Option<String>)>,
}

#[derive(Debug, Args)]
pub struct NodeKillArgs {
    #[command(flatten)]
    pub node: NodeName,

    /// Leave the server's child processes running, such as the scripts of a state transfer
    #[arg(long)]
    pub server_only: bool,
}
