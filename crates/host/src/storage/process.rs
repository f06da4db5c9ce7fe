//! An `ssh` process that carries one session, and the reason for its end.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::url::SshUrl;
use crate::host::{SSH_OPTIONS, last_line};

/// One connection for each process: a shared one would share its window and its cipher. Nothing in
/// the user's configuration may run or open anything else.
const OPTIONS: [&str; 7] = [
    "-oControlMaster=no",
    "-oControlPath=none",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
];
/// Time limit for the login and the server's first packet.
const GREETING: Duration = Duration::from_secs(60);
/// How long a server may take to answer, for example while a slow disk syncs a gigabyte. `ssh`
/// itself notices within 15 seconds that the machine is gone.
const ANSWER: Duration = Duration::from_secs(300);
/// How long `ssh` may take to end once it has closed its output.
const END: Duration = Duration::from_secs(5);
/// How much of the error output of `ssh` is kept.
const SAID_MOST: usize = 8 * 1024;

/// A running `ssh`. When it ends, the error says why.
pub struct Process {
    child: Child,
    stream: UnixStream,
    /// The end of its standard error, available once that is closed.
    stderr_end: Receiver<Vec<u8>>,
    patience: Duration,
}

impl Process {
    /// Starts `ssh`, and in it the SFTP server of this account.
    pub fn start(program: &OsStr, url: &SshUrl) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(program);
        command.args(SSH_OPTIONS).args(OPTIONS);
        if let Some(user) = url.user() {
            command.args(["-l", user]);
        }
        if let Some(port) = url.port() {
            command.args(["-p", &port.to_string()]);
        }
        let mut child = command
            .args(["-T", "-s", "--", url.host(), "sftp"])
            .stdin(theirs.try_clone()?)
            .stdout(theirs)
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| {
                let program = program.display();
                io::Error::new(source.kind(), format!("cannot run {program}: {source}"))
            })?;
        let (sender, stderr_end) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                // Nothing waits for it if the process was dropped before its end.
                let _ = sender.send(end_of(stderr));
            });
        }
        let mut process = Self {
            child,
            stream,
            stderr_end,
            patience: GREETING,
        };
        process.wait_for(GREETING)?;
        Ok(process)
    }

    /// Switches from the time limit of the login to that of an answer.
    pub fn is_greeted(&mut self) -> io::Result<()> {
        self.wait_for(ANSWER)
    }

    fn wait_for(&mut self, patience: Duration) -> io::Result<()> {
        self.patience = patience;
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))
    }

    /// Kills it with everything that it started.
    fn kill(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Why a read or write failed.
    fn failed(&mut self, error: &io::Error) -> io::Error {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            self.kill();
            let seconds = self.patience.as_secs();
            let words = format!("the server did not answer within {seconds} s");
            return io::Error::new(ErrorKind::TimedOut, words);
        }
        self.ended()
    }

    fn ended(&mut self) -> io::Error {
        let begun = Instant::now();
        let mut status = None;
        while status.is_none() && begun.elapsed() < END {
            status = self.child.try_wait().ok().flatten();
            if status.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.kill();
        let stderr = self.stderr_end.recv_timeout(END).unwrap_or_default();
        reason(status, &stderr)
    }
}

/// An error made from the exit status of `ssh` and its error output.
fn reason(status: Option<ExitStatus>, stderr: &[u8]) -> io::Error {
    let message = last_line(stderr);
    let message = message.strip_prefix("ssh: ").unwrap_or(&message);
    let words = match status.map(|status| (status.code(), status.signal())) {
        // With status 255, the message of `ssh` is the reason.
        Some((Some(255), _)) => format!("ssh: {message}"),
        Some((Some(code), _)) => {
            format!("ssh: the server ended the session with status {code}: {message}")
        }
        Some((None, Some(signal))) => format!("ssh was ended by signal {signal}"),
        _ => format!("ssh lost the connection: {message}"),
    };
    let is = |words: &[&str]| words.iter().any(|words| message.contains(words));
    let kind = if is(&[
        "Permission denied",
        "Host key verification failed",
        "Too many authentication failures",
    ]) {
        ErrorKind::PermissionDenied
    } else if is(&[
        "Name or service not known",
        "subsystem request failed",
        "bad configuration option",
    ]) {
        ErrorKind::Other
    } else {
        ErrorKind::ConnectionAborted
    };
    io::Error::new(kind, words)
}

/// The last bytes of a stream.
fn end_of(mut stream: impl Read) -> Vec<u8> {
    let mut last = Vec::new();
    let mut some = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut some) {
        last.extend(&some[..count]);
        let too_much = last.len().saturating_sub(SAID_MOST);
        last.drain(..too_much);
    }
    last
}

impl Read for Process {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Ok(0) if !buffer.is_empty() => Err(self.ended()),
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(self.failed(&error)),
            other => other,
        }
    }
}

impl Write for Process {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.write(bytes) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(self.failed(&error)),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_is_understood() {
        let failed = Some(ExitStatus::from_raw(255 << 8));
        for (message, kind) in [
            (
                "root@h: Permission denied (publickey).",
                ErrorKind::PermissionDenied,
            ),
            (
                "No ED25519 host key is known for h.\r\nHost key verification failed.\r\n",
                ErrorKind::PermissionDenied,
            ),
            (
                "ssh: Could not resolve hostname h: Name or service not known",
                ErrorKind::Other,
            ),
            (
                "ssh: connect to host h port 22: Connection refused",
                ErrorKind::ConnectionAborted,
            ),
        ] {
            let error = reason(failed, message.as_bytes());
            assert_eq!(error.kind(), kind, "{error}");
            let words = error.to_string();
            assert!(
                words.starts_with("ssh: ") && !words.starts_with("ssh: ssh"),
                "{words}"
            );
        }
        let killed = reason(Some(ExitStatus::from_raw(9)), b"a greeting");
        assert_eq!(killed.to_string(), "ssh was ended by signal 9");
    }

    #[test]
    fn only_the_end_of_the_messages_is_kept() {
        let output: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
        assert_eq!(end_of(&output[..]), output[output.len() - SAID_MOST..]);
    }
}
