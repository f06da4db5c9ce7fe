//! `refloat sandbox`: real throw-away servers on this machine.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand, ValueEnum};
use refloat_sandbox::{Entry, Error, Instance, Sandbox, ServerKind, StartOptions, Status, Tls};

use crate::context::Context;
use crate::exit::{Exit, ProgramError};

/// Where the trees of servers are, when they are not in the usual place. The script that installs them reads the same.
const SERVERS_VARIABLE: &str = "REFLOAT_SERVERS";

const AFTER_HELP: &str = "\
EXAMPLES:
  Start a server, load a dump into it, look at it, throw it away:
      refloat sandbox start --server mariadb-11.8 --name try
      refloat load shop.sql.gz --to \"$(refloat sandbox env try --url)\"
      refloat sandbox shell try
      refloat sandbox remove try

  A server with settings of your own:
      refloat sandbox start --server mysql-9.7 -o innodb_buffer_pool_size=2G -o local_infile=ON

  What is there, for a script:
      refloat sandbox list --json

A server keeps running when the shell that started it ends, and is the same after `restart`.
It listens on 127.0.0.1 only; its account is root without a password. Servers that are not of the
sandbox are never touched. Missing servers are installed by `scripts/install-servers NAME`.";

const START_HELP: &str = "\
EXAMPLES:
  The quickest way to a server; its name will be mariadb-10.11:
      refloat sandbox start

  By name, with settings of the server's own command line:
      refloat sandbox start --server mysql-9.7 --name target -o local_infile=ON -o max_connections=50

  With a certificate that can be verified, for tests of --ssl-mode=verify-identity:
      refloat sandbox start --server mariadb-11.8 --tls generated";

const LIST_HELP: &str = "\
EXAMPLES:
  For people:
      refloat sandbox list

  The ports of all that run:
      refloat sandbox list --json | jq '.[] | select(.status == \"running\") | .port'

STATUS:
  running  its process is there
  stopped  it was stopped, or it died; `restart` brings it back with its data
  busy     another command is just starting, stopping or removing it
  broken   its start was cut off; it can only be removed";

const STOP_HELP: &str = "\
EXAMPLES:
  Cleanly; the data stay:
      refloat sandbox stop try

  As a crash would, to see what recovery makes of it:
      refloat sandbox stop try --kill
      refloat sandbox restart try";

const RESTART_HELP: &str = "\
EXAMPLES:
  With the same port, socket, data and options as before:
      refloat sandbox restart try";

const REMOVE_HELP: &str = "\
EXAMPLES:
  One server and everything that it had:
      refloat sandbox remove try

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
      refloat load shop.sql.gz --to \"$(refloat sandbox env try --socket-url)\"";

/// Start and stop real throw-away servers on this machine
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct SandboxArgs {
    #[command(subcommand)]
    command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
enum SandboxCommand {
    /// Start a new server and wait until it answers queries
    #[command(after_long_help = START_HELP)]
    Start(StartArgs),
    /// List the servers, running or not
    #[command(after_long_help = LIST_HELP)]
    List(ListArgs),
    /// Shut a server down; its data stay
    #[command(after_long_help = STOP_HELP)]
    Stop(StopArgs),
    /// Start a stopped server again, or stop and start a running one
    #[command(after_long_help = RESTART_HELP)]
    Restart(RestartArgs),
    /// Stop a server and delete everything that it had
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
struct StartArgs {
    /// Which server
    #[arg(long, value_name = "SERVER", default_value = "mariadb-10.11", value_parser = server_kinds())]
    server: ServerKind,

    /// A name for it; without one, the server's, with a number behind it when that is taken
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// An option for the server's command line: key=value, or key; may be given several times
    #[arg(short = 'o', long = "option", value_name = "KEY=VALUE", value_parser = server_option)]
    options: Vec<(String, Option<String>)>,

    /// Which certificates the server has
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = TlsChoice::Usual)]
    tls: TlsChoice,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TlsChoice {
    /// What the server makes by itself; on MariaDB 10.11, which makes none, the same as generated
    Usual,
    /// A CA of the sandbox, and a certificate for localhost and 127.0.0.1
    Generated,
    /// None: the server offers no TLS
    Off,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The server that a command is about.
#[derive(Debug, Args)]
struct Which {
    /// The server's name; may be left out when there is only one
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// The same, as an option
    #[arg(long = "name", value_name = "NAME", conflicts_with = "name")]
    name_option: Option<String>,
}

#[derive(Debug, Args)]
struct StopArgs {
    #[command(flatten)]
    which: Which,

    /// All servers of the sandbox
    #[arg(long, conflicts_with_all = ["name", "name_option"])]
    all: bool,

    /// End it by SIGKILL, as a crash does, instead of shutting it down
    #[arg(long)]
    kill: bool,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Args)]
struct RestartArgs {
    #[command(flatten)]
    which: Which,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    #[command(flatten)]
    which: Which,

    /// All servers of the sandbox
    #[arg(long, conflicts_with_all = ["name", "name_option"])]
    all: bool,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, Args)]
struct ShellArgs {
    #[command(flatten)]
    which: Which,

    /// Arguments for the client
    #[arg(last = true, value_name = "CLIENT ARGUMENTS")]
    arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
struct EnvArgs {
    #[command(flatten)]
    which: Which,

    /// Print only the URL, over TCP
    #[arg(long, conflicts_with_all = ["socket_url", "json"])]
    url: bool,

    /// Print only the URL, over the unix socket
    #[arg(long, conflicts_with = "json")]
    socket_url: bool,

    /// Print the result as JSON on stdout
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub fn run(args: SandboxArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut sandbox = Sandbox::new(context.state_dir().join("sandbox"));
    if let Some(folder) = std::env::var_os(SERVERS_VARIABLE).filter(|value| !value.is_empty()) {
        sandbox = sandbox.with_servers_dir(folder);
    }
    match args.command {
        SandboxCommand::Start(args) => start(&sandbox, args),
        SandboxCommand::List(args) => list(&sandbox, &args),
        SandboxCommand::Stop(args) => stop(&sandbox, args),
        SandboxCommand::Restart(args) => restart(&sandbox, args),
        SandboxCommand::Remove(args) => remove(&sandbox, args),
        SandboxCommand::Shell(args) => shell(&sandbox, args),
        SandboxCommand::Env(args) => env(&sandbox, args),
    }
}

fn start(sandbox: &Sandbox, args: StartArgs) -> anyhow::Result<Exit> {
    let options = StartOptions {
        name: args.name,
        options: args.options,
        tls: match args.tls {
            TlsChoice::Usual => Tls::Usual,
            TlsChoice::Generated => Tls::Generated,
            TlsChoice::Off => Tls::Off,
        },
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
    if entries.is_empty() {
        eprintln!("No servers. Start one with: refloat sandbox start");
        return Ok(Exit::Done);
    }
    let width = entries
        .iter()
        .map(|entry| entry.name.len())
        .max()
        .unwrap_or(0)
        .max(4);
    writeln!(
        out,
        "{:width$}  {:13}  {:7}  {:7}  URL",
        "NAME", "SERVER", "STATUS", "PID"
    )?;
    for entry in &entries {
        let running = entry
            .instance
            .as_ref()
            .filter(|_| entry.status == Status::Running);
        writeln!(
            out,
            "{:width$}  {:13}  {:7}  {:7}  {}",
            entry.name,
            entry
                .instance
                .as_ref()
                .map_or("-", |instance| instance.kind().name()),
            entry.status.name(),
            running
                .and_then(Instance::pid)
                .map_or("-".to_owned(), |pid| pid.to_string()),
            entry
                .instance
                .as_ref()
                .map_or("-".to_owned(), Instance::url),
        )?;
    }
    Ok(Exit::Done)
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
        vec![find(sandbox, args.which)?]
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
    let mut instance = find(sandbox, args.which)?;
    instance.restart().map_err(refusal)?;
    print_instance(&instance, args.json)
}

fn remove(sandbox: &Sandbox, args: RemoveArgs) -> anyhow::Result<Exit> {
    let names = if args.all {
        sandbox
            .list()
            .map_err(refusal)?
            .into_iter()
            .map(|entry| entry.name)
            .collect()
    } else {
        // Not through `get`: what is half there can be removed as well.
        vec![name_of(sandbox, args.which)?]
    };
    for name in &names {
        sandbox.remove(name).map_err(refusal)?;
    }
    print_names("removed", &names, args.json)
}

fn shell(sandbox: &Sandbox, args: ShellArgs) -> anyhow::Result<Exit> {
    let instance = find_running(sandbox, args.which)?;
    let mut client = instance.client_command().map_err(refusal)?;
    // Comes back only when it fails.
    Err(client.args(args.arguments).exec()).context("cannot start the client")
}

fn env(sandbox: &Sandbox, args: EnvArgs) -> anyhow::Result<Exit> {
    let instance = find_running(sandbox, args.which)?;
    let mut out = std::io::stdout().lock();
    if args.url {
        writeln!(out, "{}", instance.url())?;
    } else if args.socket_url {
        writeln!(out, "{}", instance.socket_url())?;
    } else if args.json {
        print_json(&as_json(&instance, Status::Running))?;
    } else {
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let mut export =
            |name: &str, value: &str| writeln!(out, "export {name}={}", shell_word(value));
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

/// The name that was given, or the only one that there is.
fn name_of(sandbox: &Sandbox, which: Which) -> anyhow::Result<String> {
    if let Some(name) = which.name.or(which.name_option) {
        return Ok(name);
    }
    let mut names: Vec<String> = sandbox
        .list()
        .map_err(refusal)?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    match names.len() {
        0 => Err(
            ProgramError::new(Exit::Refused, "there are no servers in the sandbox")
                .hint("Start one with: refloat sandbox start")
                .into(),
        ),
        1 => Ok(names.remove(0)),
        _ => {
            Err(ProgramError::usage(format!("which server? there are {}", names.join(", "))).into())
        }
    }
}

fn find(sandbox: &Sandbox, which: Which) -> anyhow::Result<Instance> {
    sandbox.get(&name_of(sandbox, which)?).map_err(refusal)
}

fn find_running(sandbox: &Sandbox, which: Which) -> anyhow::Result<Instance> {
    let instance = find(sandbox, which)?;
    if instance.status() == Status::Running {
        return Ok(instance);
    }
    let name = instance.name();
    Err(
        ProgramError::new(Exit::Refused, format!("the server {name:?} is not running"))
            .hint(format!(
                "Start it again with: refloat sandbox restart {name}"
            ))
            .into(),
    )
}

/// The sandbox's errors with the exit codes of the program.
fn refusal(error: Error) -> anyhow::Error {
    let exit = match &error {
        Error::BadName { .. } | Error::BadOption { .. } | Error::ReservedOption { .. } => {
            Exit::Usage
        }
        Error::NotInstalled { .. }
        | Error::WrongVersion { .. }
        | Error::NameTaken { .. }
        | Error::NoSuchInstance { .. }
        | Error::HalfStarted { .. }
        | Error::Unreachable { .. }
        | Error::NoUser { .. }
        | Error::SocketPathTooLong { .. } => Exit::Refused,
        _ => return error.into(),
    };
    let hint = match &error {
        Error::NameTaken { name } => Some(format!(
            "Give another --name, or: refloat sandbox remove {name}"
        )),
        Error::NoSuchInstance { .. } => Some("See what there is: refloat sandbox list".to_owned()),
        Error::HalfStarted { name } => {
            Some(format!("Remove it with: refloat sandbox remove {name}"))
        }
        Error::Unreachable { .. } | Error::SocketPathTooLong { .. } => {
            Some("Choose another state folder with REFLOAT_STATE_DIR.".to_owned())
        }
        _ => None,
    };
    let refusal = ProgramError::new(exit, error.to_string());
    match hint {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
    .into()
}

fn server_kinds() -> impl clap::builder::TypedValueParser<Value = ServerKind> {
    PossibleValuesParser::new(ServerKind::ALL.map(ServerKind::name))
        .try_map(|name| name.parse::<ServerKind>())
}

fn server_option(text: &str) -> Result<(String, Option<String>), Error> {
    refloat_sandbox::parse_server_option(text)
}

fn print_instance(instance: &Instance, json: bool) -> anyhow::Result<Exit> {
    if json {
        print_json(&as_json(instance, Status::Running))?;
        return Ok(Exit::Done);
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {} is ready", instance.name(), instance.version())?;
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
        "pid": instance.pid().filter(|_| status == Status::Running),
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

/// A value as one word of a POSIX shell.
fn shell_word(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_shell_reads_a_value_as_it_is() {
        let odd = "it's $HOME `x` \\";
        let output = std::process::Command::new("sh")
            .args(["-c", &format!("printf %s {}", shell_word(odd))])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), odd);
    }
}
