//! Flags of `refloat sandbox`.

mod node;

pub use node::{NodeArgs, NodeCommand, NodeKillArgs, NodeName, NodeStartArgs};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use refloat_sandbox::{Error, ServerKind, SstMethod, Tls};

const AFTER_HELP: &str = "\
EXAMPLES:
  Start a server, load a dump into it, look at it, throw it away:
      refloat sandbox start --server mariadb-11.8 --name try
      refloat load shop.sql.gz --to \"$(refloat sandbox env try --url)\"
      refloat sandbox shell try
      refloat sandbox remove try

  A server with settings of your own:
      refloat sandbox start --server mysql-9.7 \\
          -o innodb_buffer_pool_size=2G -o local_infile=ON

  A Galera cluster of three nodes, one of which crashes:
      refloat sandbox start --galera 3 --name c
      refloat sandbox node kill c-2
      refloat sandbox remove c

  What is there, for a script:
      refloat sandbox list --json

A server keeps running when the shell that started it ends, and is the same after `restart`. It \
listens on 127.0.0.1 only; its account is root without a password. Servers outside the sandbox are \
never touched. Missing servers are installed by `scripts/install-servers NAME`.";

const START_HELP: &str = "\
EXAMPLES:
  The quickest way to a server; its name will be mariadb-10.11:
      refloat sandbox start

  By name, with settings of the server's own command line:
      refloat sandbox start --server mysql-9.7 --name target \\
          -o local_infile=ON -o max_connections=50

  With a certificate that can be verified, for tests of --ssl-mode=verify-identity:
      refloat sandbox start --server mariadb-11.8 --tls generated

  A Galera cluster, with options for all nodes and for one:
      refloat sandbox start --galera 3 --name c --server mariadb-11.8 \\
          --sst mariabackup \\
          -o wsrep_provider_options=gcache.size=16M \\
          --node-option 2:max_connections=50

  With a proxy in front, and a network for each node that can be cut (as root):
      refloat sandbox start --galera 3 --name c --isolated --with-haproxy

The nodes of a cluster are named c-1, c-2 and so on, and are servers of the sandbox like others. \
The printed file describes the cluster, and is removed with it.";

const LIST_HELP: &str = "\
EXAMPLES:
  For people:
      refloat sandbox list

  The ports of all that run:
      refloat sandbox list --json | jq '.[] |
          select(.status == \"running\") | .port'

STATUS:
  running   its process is there
  starting  a node that does not answer yet: it recovers, or waits for a state transfer
  frozen    a node that was frozen
  cut       a node that was cut off from its network
  stopped   it was stopped, or it died; `restart` brings it back with its data
  busy      another command is starting, stopping or removing it
  broken    its start was interrupted; it can only be removed

A cluster has a line of its own: how many of its nodes run, and the process and URL of its proxy.";

const STOP_HELP: &str = "\
EXAMPLES:
  Cleanly; the data stay:
      refloat sandbox stop try

  As a crash would, to test recovery:
      refloat sandbox stop try --kill
      refloat sandbox restart try";

const RESTART_HELP: &str = "\
EXAMPLES:
  With the same port, socket, data and options as before:
      refloat sandbox restart try

  A whole cluster, starting with the node that was stopped last:
      refloat sandbox restart c";

const REMOVE_HELP: &str = "\
EXAMPLES:
  One server and all its files:
      refloat sandbox remove try

  A whole cluster:
      refloat sandbox remove c

  All servers of the sandbox:
      refloat sandbox remove --all";

const SHELL_HELP: &str = "\
EXAMPLES:
  The server's own client, as root:
      refloat sandbox shell try

  With arguments for the client:
      refloat sandbox shell try -- shop -e 'SHOW TABLES'
      refloat sandbox shell try -- shop < dump.sql";

const ENV_HELP: &str = "\
EXAMPLES:
  Set REFLOAT_URL and its companions in this shell:
      eval \"$(refloat sandbox env try)\"
      refloat load shop.sql.gz --to \"$REFLOAT_URL\"

  Only the URL:
      refloat load shop.sql.gz --to \"$(refloat sandbox env try --url)\"

  Over the unix socket:
      refloat load shop.sql.gz --to \"$(refloat sandbox env try \\
          --socket-url)\"";

/// Start and stop real throw-away servers on this machine
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct SandboxArgs {
    #[command(subcommand)]
    pub command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Start a new server and wait until it answers queries
    #[command(after_long_help = START_HELP)]
    Start(StartArgs),
    /// Start, stop, crash and cut off the nodes of a cluster
    Node(NodeArgs),
    /// List the servers, running or not
    #[command(after_long_help = LIST_HELP)]
    List(ListArgs),
    /// Shut a server down; its data stay
    #[command(after_long_help = STOP_HELP)]
    Stop(StopArgs),
    /// Start a stopped server again, or stop and start a running one
    #[command(after_long_help = RESTART_HELP)]
    Restart(RestartArgs),
    /// Stop a server and delete all its files
    #[command(after_long_help = REMOVE_HELP)]
    Remove(RemoveArgs),
    /// Open the server's own client, as root
    #[command(after_long_help = SHELL_HELP)]
    Shell(ShellArgs),
    /// Print a server's address, for a shell to evaluate
    #[command(after_long_help = ENV_HELP)]
    Env(EnvArgs),
}

#[derive(Debug, Args)]
pub struct StartArgs {
    /// Which server
    #[arg(long, value_name = "SERVER", default_value = "mariadb-10.11", value_parser = server_kinds())]
    pub server: ServerKind,

    /// A name for it [default: that of the server, with a number appended if it is taken]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// An option for the server's command line: key=value, or key; may be given several times
    #[arg(short = 'o', long = "option", value_name = "KEY=VALUE", value_parser = server_option)]
    pub options: Vec<(String, Option<String>)>,

    /// Which certificates the server has [default: usual; off for nodes of a cluster]
    #[arg(long, value_name = "WHICH", value_enum)]
    pub tls: Option<Tls>,

    /// Start a Galera cluster of this many nodes, 1 to 9
    #[arg(long, value_name = "NODES", help_heading = "Clusters")]
    pub galera: Option<u32>,

    /// How nodes take a full copy of the data (SST)
    #[arg(long, value_name = "WAY", value_enum, default_value_t = SstMethod::Rsync, requires = "galera", help_heading = "Clusters")]
    pub sst: SstMethod,

    /// Give every node a network of its own, for `node cut` and `node heal`; needs root
    #[arg(long, requires = "galera", help_heading = "Clusters")]
    pub isolated: bool,

    /// Put HAProxy in front
    #[arg(long, requires = "galera", help_heading = "Clusters")]
    pub with_haproxy: bool,

    /// An option for one node's command line: number:key=value; may be given several times
    #[arg(long = "node-option", value_name = "NODE:KEY=VALUE", value_parser = node_option, requires = "galera", help_heading = "Clusters")]
    pub node_options: Vec<NodeOption>,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Number of a node, and an option for it.
pub type NodeOption = (u32, (String, Option<String>));

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// The server that a command is about.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// The server's name; may be left out when there is only one
    #[arg(value_name = "NAME")]
    pub name: Option<String>,

    /// The same, as an option
    #[arg(long = "name", value_name = "NAME", conflicts_with = "name")]
    pub name_option: Option<String>,
}

#[derive(Debug, Args)]
pub struct StopArgs {
    #[command(flatten)]
    pub which: Which,

    /// All servers of the sandbox
    #[arg(long, conflicts_with_all = ["name", "name_option"])]
    pub all: bool,

    /// End it by SIGKILL, as a crash does, instead of shutting it down
    #[arg(long)]
    pub kill: bool,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RestartArgs {
    #[command(flatten)]
    pub which: Which,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub which: Which,

    /// All servers of the sandbox
    #[arg(long, conflicts_with_all = ["name", "name_option"])]
    pub all: bool,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShellArgs {
    #[command(flatten)]
    pub which: Which,

    /// Arguments for the client
    #[arg(last = true, value_name = "CLIENT ARGUMENTS")]
    pub arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct EnvArgs {
    #[command(flatten)]
    pub which: Which,

    /// Print only the URL, over TCP
    #[arg(long, conflicts_with_all = ["socket_url", "json"])]
    pub url: bool,

    /// Print only the URL, over the unix socket
    #[arg(long, conflicts_with = "json")]
    pub socket_url: bool,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

fn server_kinds() -> impl clap::builder::TypedValueParser<Value = ServerKind> {
    PossibleValuesParser::new(ServerKind::ALL.map(ServerKind::name))
        .try_map(|name| name.parse::<ServerKind>())
}

fn server_option(text: &str) -> Result<(String, Option<String>), Error> {
    refloat_sandbox::parse_server_option(text)
}

fn start_option(text: &str) -> Result<(String, Option<String>), Error> {
    refloat_sandbox::parse_start_option(text)
}

fn node_option(text: &str) -> Result<NodeOption, String> {
    let number = text
        .split_once(':')
        .and_then(|(number, option)| Some((number.parse().ok()?, option)));
    let Some((number, option)) = number else {
        return Err(format!("{text:?} is not of the form 2:key=value"));
    };
    let option = server_option(option).map_err(|error| error.to_string())?;
    Ok((number, option))
}
