//! Runs a tool that copies a server: its stream, and its messages.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use refloat_host::Host;
use refloat_run::Cancel;
use refloat_run::cancel::HookGuard;
use refloat_wire::{ConnectOptions, SslMode, Target};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::PhysicalError;
use crate::server::Server;
use crate::tool::{Tool, ToolKind};
use crate::tool_log::{DONE, ToolLog};

/// What `InnoDB` says when it cannot write because the disk is full (`ENOSPC`). It then retries
/// forever.
const FULL: &str = "IO Error: 28 during write";
/// How long a tool may take to end after it was asked to.
const END: Duration = Duration::from_secs(5);
/// What became of a tool that has ended by itself; its exit status follows.
pub const FAILED: &str = "failed with exit status";
/// Marks the end of the option file in the input of the script.
const OPTIONS_END: &str = "# END OF OPTIONS";
/// Size of the pipe from the tool: the largest that an unprivileged process may ask for.
const PIPE: usize = 1 << 20;

/// Standard input of a tool.
pub enum Input<'i> {
    /// The text that it reads.
    Text(&'i str),
    /// A file that it merely keeps open.
    Held(File),
}

/// The standard input of the script that runs a tool. Once it is closed, the script kills the tool.
#[derive(Debug, Clone, Default)]
pub struct Lifeline(Arc<Mutex<Option<ChildStdin>>>);

impl Lifeline {
    pub fn of(stdin: Option<ChildStdin>) -> Self {
        Self(Arc::new(Mutex::new(stdin)))
    }

    /// Ends the tool.
    pub fn cut(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A tool that runs.
pub struct Producer {
    child: Child,
    name: String,
    log: Arc<ToolLog>,
    listener: Option<JoinHandle<()>>,
    /// It is closed when this program ends, or gives the tool up.
    lifeline: Lifeline,
    _hook: HookGuard,
}

impl Producer {
    /// Starts a tool that copies a server and sends the stream to standard output. The server is
    /// named, with the password, in an option file that exists while the tool runs, readable by its
    /// account only.
    pub fn back_up(
        host: &Host,
        tool: &Tool,
        (server, connect): (&Server, &ConnectOptions),
        parallel: usize,
        cancel: &Cancel,
    ) -> Result<(Self, ChildStdout), PhysicalError> {
        let mut flags = vec![
            "--backup".to_owned(),
            "--stream=xbstream".to_owned(),
            format!("--parallel={parallel}"),
        ];
        if server.is_node {
            flags.push("--galera-info".to_owned());
        }
        if server.is_replica {
            flags.push("--slave-info".to_owned());
        }
        let script = script(&tool.program, &flags);
        let options = format!("{}\n{OPTIONS_END}\n", option_file(tool.kind, connect));
        let (producer, stdout) = Self::start(host, tool, &script, &Input::Text(&options), cancel)?;
        // With a smaller pipe, the tool and this program would wait for each other at every piece.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, PIPE);
        Ok((producer, stdout))
    }

    /// Starts a script that runs a tool.
    pub fn start(
        host: &Host,
        tool: &Tool,
        script: &str,
        input: &Input<'_>,
        cancel: &Cancel,
    ) -> Result<(Self, ChildStdout), PhysicalError> {
        let program = tool.kind.program();
        let name = match host {
            Host::Local => program.to_owned(),
            Host::Ssh(host) => format!("{program} on {host}"),
        };
        let failed = |reason: std::io::Error| PhysicalError::Tool {
            tool: name.clone(),
            what: "could not be started".to_owned(),
            reason: reason.to_string(),
        };
        let mut command = host.long_shell(script);
        let mut child = command
            .stdin(match input {
                Input::Text(_) => Stdio::piped(),
                Input::Held(file) => Stdio::from(file.try_clone().map_err(failed)?),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let hook = cancel.on_cancel(move || end_group(group));
        let log = Arc::new(ToolLog::new());
        let listener = child.stderr.take().map(|stderr| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || listen(stderr, &log, group))
        });
        let mut stdin = child.stdin.take();
        if let (Some(stdin), Input::Text(text)) = (&mut stdin, input) {
            // A tool that has already ended reports the reason itself.
            let _ = stdin.write_all(text.as_bytes());
        }
        let stdout = child.stdout.take();
        let mut producer = Self {
            child,
            name,
            log,
            listener,
            lifeline: Lifeline::of(stdin),
            _hook: hook,
        };
        match stdout {
            Some(stdout) => Ok((producer, stdout)),
            None => Err(producer.failed("has no output".to_owned())),
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What to close to end it.
    pub fn lifeline(&self) -> Lifeline {
        self.lifeline.clone()
    }

    /// What it has said so far.
    pub fn log(&self) -> Arc<ToolLog> {
        Arc::clone(&self.log)
    }

    /// Waits for its end, and checks that it succeeded: by its exit status **and** its own last
    /// message, because tools that failed have reported success by either one.
    pub fn finish(mut self, cancel: &Cancel) -> Result<(), PhysicalError> {
        let status = self.child.wait();
        self.hear_out();
        if let Some(reason) = cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        match status {
            Err(error) => Err(self.failed(format!("could not be waited for: {error}"))),
            Ok(_) if self.log.full.load(Ordering::Relaxed) => {
                Err(self.failed("was stopped: there is no space left on the disk".to_owned()))
            }
            Ok(status) if !status.success() => Err(self.failed(match status.code() {
                Some(code) => format!("{FAILED} {code}"),
                None => format!("ended: {status}"),
            })),
            Ok(_) if self.log.torn.load(Ordering::Relaxed) => {
                Err(self.failed("copied a redo log that may be incomplete".to_owned()))
            }
            Ok(_) if !self.log.done.load(Ordering::Relaxed) => {
                Err(self.failed(format!("ended without {DONE:?}")))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Stops it because its stream cannot be used, and returns the reason.
    pub fn give_up(
        mut self,
        error: PhysicalError,
        stream: ChildStdout,
        cancel: &Cancel,
    ) -> PhysicalError {
        // mariadb-backup blocks the signals that ask it to end, but ends when nobody reads its
        // output.
        if let Some(reason) = cancel.reason() {
            drop(stream);
            return PhysicalError::Cancelled(reason);
        }
        // A tool that failed by itself says more than its truncated stream.
        let ended = (0..20).find_map(|_| {
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_none() {
                std::thread::sleep(Duration::from_millis(50));
            }
            ended
        });
        drop(stream);
        if let Some(reason) = cancel.reason() {
            return PhysicalError::Cancelled(reason);
        }
        match ended {
            Some(status) if !status.success() => {
                self.hear_out();
                let how = match status.code() {
                    Some(code) => format!("failed with exit status {code}"),
                    None => format!("ended: {status}"),
                };
                self.failed(how)
            }
            _ => error,
        }
    }

    fn hear_out(&mut self) {
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }

    fn failed(&mut self, what: String) -> PhysicalError {
        PhysicalError::Tool {
            tool: self.name.clone(),
            what,
            reason: self.log.reason(),
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            end_group(group);
            let _ = self.child.wait();
        }
        self.hear_out();
    }
}

/// The script that copies a server (`producer.sh`). It reads an option file up to [`OPTIONS_END`].
fn script(program: &Path, flags: &[String]) -> String {
    let program = program.to_string_lossy();
    let words = [OPTIONS_END, &*program].into_iter();
    let words: Vec<String> = words
        .chain(flags.iter().map(String::as_str))
        .map(Host::word)
        .collect();
    format!(
        "set -- {}\n{}",
        words.join(" "),
        include_str!("producer.sh")
    )
}

/// Asks a process group to end, so that its script removes what it has made, and kills what is left
/// of it a little later.
fn end_group(group: Option<Pid>) {
    let Some(group) = group else { return };
    let _ = kill_process_group(group, Signal::TERM);
    std::thread::spawn(move || {
        std::thread::sleep(END);
        let _ = kill_process_group(group, Signal::KILL);
    });
}

fn listen(stderr: ChildStderr, log: &ToolLog, group: Option<Pid>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        log.hear(line.trim_end());
        if line.contains(FULL)
            && let Some(group) = group
            && !log.full.swap(true, Ordering::Relaxed)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// An option file with which a tool reaches the server.
fn option_file(kind: ToolKind, connect: &ConnectOptions) -> String {
    let mut lines = vec![format!("[{}]", kind.group())];
    let mut set = |name: &str, value: &str| lines.push(format!("{name}={}", quoted(value)));
    set("user", &connect.user);
    if let Some(password) = &connect.password {
        set("password", &String::from_utf8_lossy(password.expose()));
    }
    match connect.target() {
        Target::Unix(path) => set("socket", &path.to_string_lossy()),
        Target::Tcp(host, port) => {
            set("host", &host);
            set("port", &port.to_string());
            set("protocol", "tcp");
        }
    }
    let files = [
        ("ssl-ca", &connect.ssl_ca),
        ("ssl-cert", &connect.ssl_cert),
        ("ssl-key", &connect.ssl_key),
    ];
    for (name, path) in files {
        if let Some(path) = path {
            set(name, &path.to_string_lossy());
        }
    }
    match (kind, connect.ssl_mode) {
        (ToolKind::Xtrabackup | ToolKind::Clone, mode) => set(
            "ssl-mode",
            &mode.to_string().to_uppercase().replace('-', "_"),
        ),
        (ToolKind::MariadbBackup, SslMode::Disabled) => lines.push("skip-ssl".to_owned()),
        (ToolKind::MariadbBackup, SslMode::Preferred | SslMode::Required) => {
            lines.push("skip-ssl-verify-server-cert".to_owned());
        }
        (ToolKind::MariadbBackup, SslMode::VerifyCa | SslMode::VerifyIdentity) => {
            lines.push("ssl-verify-server-cert".to_owned());
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A value of an option file. Escapes are those of the servers' `mysys/my_default.c`
/// (`search_default_file_with_ext`).
fn quoted(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    // Hazard of files: an ssh connection that is lost while the tool waits for a lock: the tool
    //   ends with it, and leaves nothing behind
    #[test]
    fn a_tool_ends_with_who_has_asked_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let (tool, report) = (folder.path().join("tool"), folder.path().join("told"));
        // It writes nothing, and ignores every signal that could ask it to end.
        let text = format!(
            "#!/bin/sh\ntrap '' HUP INT TERM PIPE\necho $$ >'{0}.new'; echo \"$1\" >>'{0}.new'\nmv '{0}.new' '{0}'\nexec sleep 600\n",
            report.display()
        );
        std::fs::write(&tool, text).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&tool, open).unwrap();
        let mut child = Host::Local
            .long_shell(&script(&tool, &["--backup".to_owned()]))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        write!(stdin, "[client]\npassword=x\n{OPTIONS_END}\n").unwrap();
        let reported = loop {
            match std::fs::read_to_string(&report) {
                Ok(reported) => break reported,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let (process, option) = reported.trim().split_once('\n').unwrap();
        let file = Path::new(option.strip_prefix("--defaults-file=").unwrap());
        assert_eq!(
            std::fs::read_to_string(file).unwrap(),
            "[client]\npassword=x\n"
        );
        assert!(child.try_wait().unwrap().is_none());
        drop(stdin);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(128 + 9));
        assert!(!file.parent().unwrap().exists());
        let is_gone = || !Path::new("/proc").join(process).exists();
        let begun = Instant::now();
        while !is_gone() && begun.elapsed() < END {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(is_gone());
    }

    #[test]
    fn an_option_file_holds_any_password() {
        let connect = ConnectOptions {
            password: Some("a\"b\\c#d 'e'\nf".into()),
            ..ConnectOptions::unix("/run/x y.sock", "me")
        };
        let text = option_file(ToolKind::MariadbBackup, &connect);
        assert!(
            text.starts_with("[mariadb-backup]\nuser=\"me\"\n"),
            "{text}"
        );
        assert!(
            text.contains("password=\"a\\\"b\\\\c#d 'e'\\nf\"\n"),
            "{text}"
        );
        assert!(text.contains("socket=\"/run/x y.sock\"\n"), "{text}");
    }
}
