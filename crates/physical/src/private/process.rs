//! The process of a private server, which ends with this one.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use refloat_host::{Host, plain};
use refloat_run::Cancel;
use refloat_run::cancel::HookGuard;
use refloat_wire::{ConnectOptions, Connection};

use crate::error::PhysicalError;
use crate::held::open_file;

/// How long it may take to start: a redo log may have to be applied.
const START: Duration = Duration::from_secs(3600);
/// How often its socket is tried.
pub const POLL: Duration = Duration::from_millis(50);

/// The script that runs it.
pub struct Process {
    child: Child,
    input: Arc<Mutex<Option<ChildStdin>>>,
    _hook: HookGuard,
}

impl Process {
    /// Runs it; what it and the server say goes to `log`.
    pub fn spawn(script: &str, log: File, cancel: &Cancel) -> Result<Self, PhysicalError> {
        let mut command = Host::Local.long_shell(script);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::from(log))
            .process_group(0)
            .spawn();
        let mut child = child.map_err(|error| PhysicalError::Tool {
            tool: "the private server".to_owned(),
            what: "could not be started".to_owned(),
            reason: error.to_string(),
        })?;
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let held = Arc::clone(&input);
        let hook = cancel.on_cancel(move || release(&held));
        Ok(Self {
            child,
            input,
            _hook: hook,
        })
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Shuts it down in order, so that all changes are in its files.
    pub fn shut_down(
        &mut self,
        root: &ConnectOptions,
        log: &Path,
        cancel: &Cancel,
    ) -> Result<(), PhysicalError> {
        let asked = "ending the private server";
        let mut conn = Connection::connect(root).map_err(PhysicalError::server(asked))?;
        conn.exec("SHUTDOWN")
            .map_err(PhysicalError::server(asked))?;
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(None) if begun.elapsed() < START => {}
                _ => return Err(failed("did not apply the redo log of the backup", log)),
            }
            if cancel.sleep(POLL)
                && let Some(reason) = cancel.reason()
            {
                return Err(PhysicalError::Cancelled(reason));
            }
        }
    }

    /// Waits until it answers.
    pub fn wait_for(
        &mut self,
        root: &ConnectOptions,
        log: &Path,
        cancel: &Cancel,
    ) -> Result<(), PhysicalError> {
        let begun = Instant::now();
        let socket = root.socket.clone().unwrap_or_default();
        loop {
            if let Some(reason) = cancel.reason() {
                return Err(PhysicalError::Cancelled(reason));
            }
            if self.has_ended() {
                return Err(failed("does not start on the files of the backup", log));
            }
            if UnixStream::connect(&socket).is_ok() && Connection::connect(root).is_ok() {
                return Ok(());
            }
            if begun.elapsed() > START {
                return Err(failed("does not answer", log));
            }
            cancel.sleep(POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        release(&self.input);
        let _ = self.child.wait();
    }
}

fn failed(what: &str, log: &Path) -> PhysicalError {
    PhysicalError::Tool {
        tool: "the private server".to_owned(),
        what: what.to_owned(),
        reason: complaint(log, true),
    }
}

/// Ends the script, and the server with it.
fn release(input: &Mutex<Option<ChildStdin>>) {
    drop(input.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// A complaint in a server's log: the first, of which the others are consequences, or the last. If
/// there is none, its last line.
pub fn complaint(log: &Path, is_first: bool) -> String {
    let mut text = Vec::new();
    let _ = open_file(log).and_then(|mut file| file.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let mut all = text
        .lines()
        .filter(|line| line.contains("[ERROR]") && !line.ends_with("Aborting"));
    let one = if is_first {
        all.next()
    } else {
        all.next_back()
    };
    plain(
        one.or_else(|| text.lines().next_back())
            .unwrap_or("it says nothing"),
    )
}
