//! Starts this program on the donor's machine, and reads its final answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use refloat_host::{Host, forwarded_port, last_line};
use refloat_run::Refusal;

use crate::error::PhysicalError;
use crate::serve::{SendAnswer, SendRequest};

/// How long the program at the other end may take to exit after its final answer.
const END: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// How long ssh may take to forward a port.
const FORWARDED: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Heard {
    answer: Option<SendAnswer>,
    complaint: Vec<u8>,
}

/// The program at the donor's end. Dropped, it ends.
pub struct Agent {
    name: String,
    child: Child,
    // It ends when this is closed.
    stdin: Option<ChildStdin>,
    heard: Arc<Mutex<Heard>>,
    listeners: Vec<JoinHandle<()>>,
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// Starts it. With `tunnel`, it sends to that address of this machine through ssh.
    pub fn start(
        host: &Host,
        program: &Path,
        mut request: SendRequest,
        tunnel: Option<SocketAddr>,
    ) -> Result<Self, PhysicalError> {
        let name = format!("{} serve-host on {}", program.display(), host.name());
        let failed = |reason: String| PhysicalError::Tool {
            tool: name.clone(),
            what: "could not be started".to_owned(),
            reason,
        };
        let script = Host::serve_host(program, "send");
        let forwarding = tunnel.and_then(|here| host.forwarding_shell(&script, here));
        let is_forwarding = forwarding.is_some();
        let mut command = forwarding.unwrap_or_else(|| host.long_shell(&script));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let mut listeners = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            let heard = Arc::clone(&heard);
            listeners.push(std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if let Ok(answer) = serde_json::from_str(&line) {
                        lock(&heard).answer = Some(answer);
                    }
                }
            }));
        }
        let (port, ports) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            let heard = Arc::clone(&heard);
            listeners.push(std::thread::spawn(move || {
                let port = port;
                let mut lines = BufReader::new(stderr);
                let mut line = Vec::new();
                while lines
                    .read_until(b'\n', &mut line)
                    .is_ok_and(|count| count > 0)
                {
                    match forwarded_port(&String::from_utf8_lossy(&line)) {
                        Some(number) if is_forwarding => drop(port.send(number)),
                        _ => lock(&heard).complaint.extend_from_slice(&line),
                    }
                    line.clear();
                }
            }));
        }
        // No port arrives if ssh has ended; its own message then says why.
        if is_forwarding && let Ok(port) = ports.recv_timeout(FORWARDED) {
            request = request.to(format!("127.0.0.1:{port}"));
        }
        let mut stdin = child.stdin.take();
        if let Some(stdin) = &mut stdin {
            let mut text = serde_json::to_vec(&request).unwrap_or_default();
            text.push(b'\n');
            // A program that has already exited reports the reason itself.
            let _ = stdin.write_all(&text);
        }
        Ok(Self {
            name,
            child,
            stdin,
            heard,
            listeners,
        })
    }

    /// Whether it still works.
    ///
    /// # Errors
    /// It has failed.
    pub fn is_alive(&mut self) -> Result<(), PhysicalError> {
        let answer = lock(&self.heard).answer.clone();
        match answer {
            Some(SendAnswer::Failed {
                refused,
                reason,
                hints,
            }) => Err(self.failed(refused, reason, &hints)),
            Some(SendAnswer::Done { .. }) => Ok(()),
            None => match self.child.try_wait() {
                Ok(Some(status)) => {
                    for listener in self.listeners.drain(..) {
                        let _ = listener.join();
                    }
                    // Its final answer may have arrived just now.
                    if lock(&self.heard).answer.is_some() {
                        return self.is_alive();
                    }
                    let complaint = std::mem::take(&mut lock(&self.heard).complaint);
                    Err(PhysicalError::Tool {
                        tool: self.name.clone(),
                        what: format!("ended: {status}"),
                        reason: last_line(&complaint),
                    })
                }
                _ => Ok(()),
            },
        }
    }

    /// Waits for its final answer: bytes of files, bytes that the receiver already had, bytes that
    /// were sent, and seconds for which commits waited.
    pub fn finish(mut self) -> Result<(u64, u64, u64, f64), PhysicalError> {
        let begun = Instant::now();
        loop {
            self.is_alive()?;
            if let Some(SendAnswer::Done {
                bytes,
                same,
                sent,
                blocked_seconds,
            }) = lock(&self.heard).answer
            {
                return Ok((bytes, same, sent, blocked_seconds));
            }
            if begun.elapsed() > END {
                return Err(PhysicalError::Tool {
                    tool: self.name.clone(),
                    what: "does not end".to_owned(),
                    reason: "it has sent everything".to_owned(),
                });
            }
            std::thread::sleep(POLL);
        }
    }

    fn failed(&self, refused: bool, reason: String, hints: &[String]) -> PhysicalError {
        if refused {
            return PhysicalError::refused(Refusal::new(reason).hint(hints.join(" ")));
        }
        PhysicalError::Tool {
            tool: self.name.clone(),
            what: "failed".to_owned(),
            reason,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let begun = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if begun.elapsed() > END {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(POLL);
        }
    }
}
