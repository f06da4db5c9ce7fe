//! `refloat sandbox`: real throw-away servers on this machine.

mod args;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;

use anyhow::Context as _;
use refloat_sandbox::{Entry, Error, Instance, Sandbox, StartOptions, Status, Tls};

pub use args::SandboxArgs;
use args::{
    EnvArgs, ListArgs, RemoveArgs, RestartArgs, SandboxCommand, ShellArgs, StartArgs, StopArgs,
    TlsChoice, Which,
};

use crate::context::Context;
use crate::exit::{Exit, ProgramError};

pub fn run(args: SandboxArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut sandbox = Sandbox::new(context.state_dir().join("sandbox"));
    if let Some(folder) = context.servers_dir() {
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
