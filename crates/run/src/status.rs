//! Samples a server while a run works on it or next to it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use refloat_wire::{ConnectOptions, Connection, Error};

/// How long a server may take to answer, and how long to pause after one that did not.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait for sampling to end: one connection and two answers.
const ENDS_WITHIN: Duration = Duration::from_secs(8);

/// Repeats a query on a server, on a separate thread and connection, until it is dropped. A server
/// that has not answered within two seconds is queried again two seconds later, on a new
/// connection.
pub struct Sampler {
    end: Option<Sender<()>>,
    /// Disconnected once the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl Sampler {
    /// Starts sampling. `look` queries the server on a connection without a default database, and
    /// `seen` receives each answer or error. `every` is the time between an answer and the next
    /// query.
    pub fn start<T>(
        server: &ConnectOptions,
        every: Duration,
        mut look: impl FnMut(&mut Connection) -> Result<T, Error> + Send + 'static,
        mut seen: impl FnMut(Result<T, Error>) + Send + 'static,
    ) -> Self {
        let server = ConnectOptions {
            database: None,
            connect_timeout: server.connect_timeout.min(PATIENCE),
            read_timeout: Some(PATIENCE),
            write_timeout: Some(PATIENCE),
            // Samples commit nothing.
            commits: None,
            ..server.clone()
        };
        let (end, asked_to_end) = channel();
        let (running, ended) = channel();
        thread::spawn(move || {
            let _running: Sender<()> = running;
            let mut conn = None;
            loop {
                let answer = match &mut conn {
                    Some(conn) => look(conn),
                    none => Connection::connect(&server).and_then(|new| look(none.insert(new))),
                };
                let mut wait = every;
                if answer.is_err() {
                    (conn, wait) = (None, PATIENCE);
                }
                seen(answer);
                match asked_to_end.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(()) => {
                        if let Some(conn) = &mut conn {
                            seen(look(conn));
                        }
                        return;
                    }
                }
            }
        });
        Self {
            end: Some(end),
            ended: Mutex::new(ended),
        }
    }

    /// Queries once more if the server answered the last time, and stops.
    pub fn finish(self) {
        // A thread that panicked receives nothing.
        let _ = self.end.as_ref().map(|end| end.send(()));
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end = None;
        // It connects and queries within its limits. If the system itself waits longer (for a name
        // server, or a full queue of a unix socket), the thread is left to end on its own.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(ENDS_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_reported_and_keeps_nobody_waiting() {
        let server = ConnectOptions::from_url("mysql://nobody@127.0.0.1:1/").unwrap();
        let (sender, receiver) = channel();
        let seen = move |answer: Result<(), Error>| sender.send(answer.is_err()).unwrap();
        let sampler = Sampler::start(&server, Duration::MAX, Connection::ping, seen);
        assert!(receiver.recv_timeout(PATIENCE * 10).unwrap());
        let began = Instant::now();
        sampler.finish();
        assert!(began.elapsed() < PATIENCE);
        assert!(receiver.recv().is_err(), "it is asked no more");
    }
}
