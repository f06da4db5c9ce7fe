//! Starts one server process and waits until it answers.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::galera::{network, programs};
use crate::options::argument;
use crate::process::ProcessId;
use crate::record::{Folder, Record};
use crate::user::ServerUser;
use crate::{Error, Installation, Result, Tls, files, stop, tls};

/// Recovering a big redo log, or starting on a busy disk, takes a while.
const START_PATIENCE: Duration = Duration::from_secs(180);

/// How often to try the socket. A server starts within a second or two.
const POLL: Duration = Duration::from_millis(20);

/// How long to wait after a listening server refused the query: it is about to be ready, or never
/// will be.
const AFTER_REFUSAL: Duration = Duration::from_millis(200);

/// Programs that the server's process runs first; each execs the next, and the last one the server.
const WRAPPERS: [&str; 2] = ["setsid", "nsenter"];

/// How long that may take: the server binary may come from a busy disk.
const EXEC_PATIENCE: Duration = Duration::from_secs(60);

/// What servers log when their port is in use: `MariaDB`'s message, then `MySQL`'s, which is the
/// operating system's text.
const PORT_TAKEN: [&str; 2] = ["Bind on TCP/IP port", "Address already in use"];

/// Why a start failed.
#[derive(Debug)]
pub enum Failure {
    /// Another program took the port after we had found it free.
    PortTaken,
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Starts the server of an instance. Returns its process and version once it answers a query. On
/// failure, nothing is left running.
pub fn launch(
    server: &Installation,
    folder: &Folder,
    record: &Record,
    user: Option<&ServerUser>,
) -> std::result::Result<(ProcessId, String), Failure> {
    let log = folder.error_log();
    let log_start = files::length(&log);
    let failed = |reason: String| start_error(record, folder, log_start, reason);
    let (mut child, process) = spawn(server, folder, record, user, &[])?;
    let deadline = Instant::now() + START_PATIENCE;
    let mut last_answer = "it does not listen".to_owned();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            let words = files::tail(&log, log_start);
            if PORT_TAKEN.iter().any(|sign| words.contains(sign)) {
                return Err(Failure::PortTaken);
            }
            return Err(failed(format!("it ended with {status}")).into());
        }
        if UnixStream::connect(folder.socket()).is_ok() {
            match ask(server, folder, "SELECT @@version") {
                Ok(version) => return Ok((process, version)),
                Err(error) => {
                    last_answer = error.to_string();
                    thread::sleep(AFTER_REFUSAL);
                }
            }
        }
        if Instant::now() > deadline {
            stop::end(process, folder);
            let reason = format!(
                "no answer within {} s: {last_answer}",
                START_PATIENCE.as_secs()
            );
            return Err(failed(reason).into());
        }
        thread::sleep(POLL);
    }
}

/// Starts the server of an instance, with `more` arguments after its own, and does not wait until
/// it answers.
pub fn spawn(
    server: &Installation,
    folder: &Folder,
    record: &Record,
    user: Option<&ServerUser>,
    more: &[String],
) -> Result<(Child, ProcessId)> {
    let log_start = files::length(&folder.error_log());
    let failed = |reason: String| start_error(record, folder, log_start, reason);
    // `MySQL` writes its PID next to the socket, and refuses to start if any process has that PID
    // now. A killed server leaves the file behind. The instance's lock guarantees that no server
    // runs here.
    match std::fs::remove_file(folder.socket_lock()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("remove", folder.socket_lock())(error));
        }
        _ => {}
    }
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.error_log())
        .map_err(Error::io("open", folder.error_log()))?;
    let again = log
        .try_clone()
        .map_err(Error::io("open", folder.error_log()))?;
    let mut child = command(server, folder, record, user)
        .args(more)
        .stdout(log)
        .stderr(again)
        .spawn()
        .map_err(|error| match without_data(folder, &error) {
            Some(missing) => missing,
            None => failed(format!("setsid: {error}")),
        })?;
    if let Some(process) = ProcessId::now(child.id())
        && process.becomes(&folder.mark(), &WRAPPERS, EXEC_PATIENCE)
    {
        return Ok((child, process));
    }
    let _ = child.kill();
    let reason = child.wait().map_or_else(
        |error| error.to_string(),
        |status| format!("it ended with {status}"),
    );
    Err(failed(reason))
}

/// The error for a server that did not start, with what it logged from byte `log_start` on.
pub fn start_error(record: &Record, folder: &Folder, log_start: u64, reason: String) -> Error {
    Error::Start {
        name: record.name.clone(),
        reason,
        log: if record.node.is_some() {
            files::errors_and_tail(&folder.error_log(), log_start)
        } else {
            files::tail(&folder.error_log(), log_start)
        },
    }
}

/// Runs a query that returns one row with one column, and returns the value.
pub fn ask(server: &Installation, folder: &Folder, query: &str) -> Result<String> {
    let mut command = client(server, server.client(), folder);
    command.args([
        "--connect-timeout=5",
        "--skip-column-names",
        "--batch",
        "-e",
        query,
    ]);
    crate::installation::run(&mut command, "the stock client")
        .map(|answer| answer.trim_end().to_owned())
}

/// One of the stock client programs, set up to connect to the instance's socket as root.
pub fn client(server: &Installation, mut program: Command, folder: &Folder) -> Command {
    let mut socket = OsString::from("--socket=");
    socket.push(folder.socket());
    program.arg("--no-defaults").args(server.client_paths());
    program
        .args(["--protocol=socket", "--user=root"])
        .arg(socket);
    if server.kind().is_mariadb() {
        // From 11.4 on, the client requires TLS even over a socket, unless told otherwise.
        program.arg("--skip-ssl");
    }
    program
}

/// The error for a missing data directory. The operating system reports it just like a missing
/// program.
pub fn without_data(folder: &Folder, error: &std::io::Error) -> Option<Error> {
    let missing = || std::io::Error::new(error.kind(), error.to_string());
    (!folder.data().is_dir()).then(|| Error::io("enter", folder.data())(missing()))
}

/// The server's complete command line.
pub fn command(
    server: &Installation,
    folder: &Folder,
    record: &Record,
    user: Option<&ServerUser>,
) -> Command {
    let program = server.server();
    // A session of its own lets the server outlive the terminal that it was started from.
    let mut command = Command::new("setsid");
    if let Some(namespace) = record
        .node
        .as_ref()
        .and_then(|node| node.namespace.as_ref())
    {
        command.arg("nsenter").arg(network::enter(namespace));
    }
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let path = |option: &str, path: std::path::PathBuf| {
        let mut text = OsString::from(option);
        text.push(path);
        text
    };
    let (setting, value) = folder.environment();
    command.env(setting, value);
    if let Some(node) = &record.node {
        // The state transfer scripts read the same file, and find programs through PATH only.
        command.arg(path("--defaults-file=", folder.config()));
        command.env("PATH", programs::search_path(&node.programs));
        command.env("TMPDIR", folder.temporary());
    } else {
        command.arg("--no-defaults");
    }
    command.args(server.server_paths());
    if let Some(base) = record
        .node
        .as_ref()
        .and_then(|node| programs::base(server, &node.programs))
    {
        command.arg(path("--basedir=", base));
    }
    command.arg(path("--tmpdir=", folder.temporary()));
    if !server.kind().is_mariadb() {
        // A tree lacks the directory that the packages create for this option.
        command.arg("--secure-file-priv=");
    }
    match (record.tls, server.kind().is_mariadb()) {
        (Tls::Off, true) => drop(command.arg("--skip-ssl")),
        (Tls::Off, false) => drop(command.arg("--tls-version=")),
        _ if folder.certificates().is_dir() => {
            for (option, file) in [
                ("--ssl-ca=", tls::CA),
                ("--ssl-cert=", tls::CERTIFICATE),
                ("--ssl-key=", tls::KEY),
            ] {
                command.arg(path(option, folder.certificates().join(file)));
            }
        }
        _ => {}
    }
    for (key, value) in &record.options {
        command.arg(argument(key, value.as_deref()));
    }
    // The options that keep instances apart go last, because the last one wins.
    if !server.kind().is_mariadb() {
        command.arg("--mysqlx=OFF");
    }
    if let Some(user) = user {
        command.arg(format!("--user={}", user.name));
    }
    command.arg(folder.mark());
    command.arg(path("--socket=", folder.socket()));
    command.arg(path("--pid-file=", folder.pid_file()));
    command
        .arg(format!("--bind-address={}", record.host()))
        .arg(format!("--port={}", record.port));
    if record.node.is_some() {
        // The address that nodes report to each other. By default, a server that listens on a
        // loopback address reports AUTO.
        command.arg(format!(
            "--wsrep-node-incoming-address={}:{}",
            record.host(),
            record.port
        ));
    }
    command.current_dir(folder.data());
    command.stdin(Stdio::null());
    command
}
