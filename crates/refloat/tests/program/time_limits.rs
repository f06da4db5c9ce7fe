//! Programs that tests start: none is waited for forever, and none outlives its test.

use std::io::{self, BufRead as _, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Limit for every run of a program.
pub const LIMIT: Duration = Duration::from_secs(600);

const POLL: Duration = Duration::from_millis(5);

/// A process that is killed on drop, so also when a test fails.
pub struct KillOnDrop(Child);

impl KillOnDrop {
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let program = command.get_program().to_owned();
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("{}: {error}", program.display())))
    }

    /// Waits for its end. `None`: it still runs at the deadline.
    pub fn ends_by(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            let status = self.0.try_wait().expect("a state");
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            thread::sleep(POLL);
        }
    }
}

impl Deref for KillOnDrop {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for KillOnDrop {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program without input and returns its output. Kills it if it takes too long.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    output_of(KillOnDrop::start(command))
}

/// Like [`output`], for a running program whose stdout and stderr are pipes.
#[track_caller]
pub fn output_of(mut child: KillOnDrop) -> Output {
    let stdout = Printed::by(child.stdout.take().expect("it is a pipe"));
    let stderr = Printed::by(child.stderr.take().expect("it is a pipe"));
    let deadline = Instant::now() + LIMIT;
    let status = child.ends_by(deadline);
    // Its child processes may still hold its pipes open.
    let is_whole = || stdout.is_whole() && stderr.is_whole();
    while !is_whole() && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    match status {
        Some(status) if is_whole() => Output {
            status,
            stdout: stdout.bytes().clone(),
            stderr: stderr.bytes().clone(),
        },
        _ => panic!(
            "no end after {} s ({status:?}); stdout:\n{}\nstderr:\n{}",
            LIMIT.as_secs(),
            String::from_utf8_lossy(&stdout.bytes()),
            String::from_utf8_lossy(&stderr.bytes())
        ),
    }
}

/// Output of a pipe so far, read by a thread.
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Printed {
    fn by(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut part = [0; 1 << 13];
            while let Ok(count @ 1..) = pipe.read(&mut part) {
                lock(&into).extend_from_slice(&part[..count]);
            }
        });
        Self { bytes, reader }
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.bytes)
    }

    fn is_whole(&self) -> bool {
        self.reader.is_finished()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines of a pipe as they arrive, read by a thread.
pub struct Lines {
    received: Receiver<io::Result<String>>,
    deadline: Instant,
    /// All lines so far.
    pub text: String,
}

impl Lines {
    /// The lines of `pipe`. Iterating panics if they have not ended by the deadline.
    pub fn of(pipe: impl Read + Send + 'static, deadline: Instant) -> Self {
        let (tell, received) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(pipe).lines();
            // The receiver may be gone.
            let _ = lines.into_iter().try_for_each(|line| tell.send(line));
        });
        Self {
            received,
            deadline,
            text: String::new(),
        }
    }
}

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let received = if left.is_zero() {
            Err(RecvTimeoutError::Timeout)
        } else {
            self.received.recv_timeout(left)
        };
        match received {
            Ok(line) => {
                let line = line.expect("text");
                self.text.push_str(&line);
                self.text.push('\n');
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it goes on too long:\n{}", self.text),
        }
    }
}
