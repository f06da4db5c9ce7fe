//! A proxy that breaks a connection after the server has done what it was asked and before the
//! client learns of it, turns a commit into a rollback that looks like a commit, or changes what is
//! sent.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use refloat_sandbox::Instance;

/// Forwards connections to a server. Instead of forwarding the answer to the `nth` request that
/// contains `words`, it cuts the connection, or it makes the server roll back when asked to commit.
/// Accepts no more connections once dropped.
pub struct Cutter {
    port: u16,
    state: Arc<State>,
}

/// A protocol packet: length, sequence number, `COM_QUERY`, text.
const ROLLBACK: &[u8] = b"\x09\x00\x00\x00\x03ROLLBACK";

struct State {
    words: Vec<u8>,
    /// Roll back instead of cutting.
    undo: bool,
    /// Replaces the words.
    becomes: Option<Vec<u8>>,
    /// Applies to every request with these words, not just one.
    every: bool,
    left: AtomicU64,
    cut: AtomicBool,
    ended: AtomicBool,
}

impl Cutter {
    /// Cuts the connection at the `nth` request with these words.
    pub fn start(server: &Instance, words: &[u8], nth: u64) -> Self {
        Self::begin(server, words, nth, false, None)
    }

    /// Replaces these words by others of the same length, even within rows.
    pub fn changing(server: &Instance, words: &[u8], becomes: &[u8]) -> Self {
        assert_eq!(words.len(), becomes.len());
        Self::begin(server, words, 0, false, Some(becomes.to_vec()))
    }

    /// Replaces the first occurrence of these words by others of the same length.
    pub fn changing_once(server: &Instance, words: &[u8], becomes: &[u8]) -> Self {
        assert_eq!(words.len(), becomes.len());
        Self::begin(server, words, 1, false, Some(becomes.to_vec()))
    }

    /// Turns the `nth` commit into a rollback.
    pub fn undoing(server: &Instance, nth: u64) -> Self {
        Self::begin(server, b"COMMIT", nth, true, None)
    }

    /// Turns every commit into a rollback.
    pub fn undoing_all(server: &Instance) -> Self {
        Self::begin(server, b"COMMIT", 0, true, None)
    }

    /// With `nth` 0, every request with these words is affected, or every occurrence of words that
    /// become others.
    fn begin(
        server: &Instance,
        words: &[u8],
        nth: u64,
        undo: bool,
        becomes: Option<Vec<u8>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = server.url();
        let target: String = url
            .rsplit('@')
            .next()
            .unwrap()
            .trim_end_matches('/')
            .to_owned();
        let state = Arc::new(State {
            words: words.to_vec(),
            undo,
            becomes,
            every: nth == 0,
            left: AtomicU64::new(nth),
            cut: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&target)) else {
                    return;
                };
                let state = Arc::clone(&shared);
                std::thread::spawn(move || forward(&state, &client, &server));
            }
        });
        Self { port, state }
    }

    /// URL of the server through this proxy. Without TLS, so that requests can be read.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/?ssl-mode=disabled", self.port)
    }

    pub fn has_cut(&self) -> bool {
        self.state.cut.load(Ordering::Relaxed)
    }
}

impl State {
    /// Whether this is the request to act on.
    fn is_chosen(&self) -> bool {
        self.every || self.left.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn forward(state: &Arc<State>, client: &TcpStream, server: &TcpStream) {
    let cut = Arc::new(AtomicBool::new(false));
    let answers = {
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let (cut, state) = (Arc::clone(&cut), Arc::clone(state));
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(read) = from.read(&mut buffer) {
                if read == 0 {
                    break;
                }
                if cut.load(Ordering::SeqCst) {
                    state.cut.store(true, Ordering::Relaxed);
                    break;
                }
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        })
    };
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 {
            break;
        }
        if let Some(becomes) = &state.becomes {
            let words = state.words.as_slice();
            for at in 0..(read + 1).saturating_sub(words.len()) {
                if buffer[at..].starts_with(words) && state.is_chosen() {
                    buffer[at..at + words.len()].copy_from_slice(becomes);
                    state.cut.store(true, Ordering::Relaxed);
                }
            }
        }
        let request = &buffer[..read];
        // Only whole requests count, not the same words within rows.
        let hit = state.becomes.is_none()
            && request.len() < 64
            && request
                .windows(state.words.len())
                .any(|window| window == state.words.as_slice());
        let chosen = hit && state.is_chosen();
        let request = if chosen && state.undo {
            state.cut.store(true, Ordering::Relaxed);
            ROLLBACK
        } else {
            cut.fetch_or(chosen, Ordering::SeqCst);
            request
        };
        if to.write_all(request).is_err() {
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(10));
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
    let _ = answers.join();
}
