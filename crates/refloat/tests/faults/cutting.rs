//! A way to a server that breaks at a chosen moment, when the server has done what it was asked for and before anybody hears of it; or one
//! on which a commit becomes a rollback that looks like a commit; or one that changes what is sent.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use refloat_sandbox::Instance;

/// Forwards connections to a server, and cuts one of them instead of forwarding the answer to the `nth` request that contains
/// `words`, or has the server roll back when it is asked to commit. It takes no connection any more when it is dropped.
pub struct Cutter {
    port: u16,
    state: Arc<State>,
}

/// A packet of the protocol: its length, its number, the command "query", the text.
const ROLLBACK: &[u8] = b"\x09\x00\x00\x00\x03ROLLBACK";

struct State {
    words: Vec<u8>,
    /// Roll back instead of cutting.
    undo: bool,
    /// Send this instead of the words, wherever they are.
    becomes: Option<Vec<u8>>,
    /// Not only one request, but every one with these words.
    every: bool,
    left: AtomicU64,
    cut: AtomicBool,
    ended: AtomicBool,
}

impl Cutter {
    /// A way that is cut at the `nth` request with these words.
    pub fn start(server: &Instance, words: &[u8], nth: u64) -> Self {
        Self::begin(server, words, nth, false, None)
    }

    /// A way on which these words become others of the same length, in rows as well.
    pub fn changing(server: &Instance, words: &[u8], becomes: &[u8]) -> Self {
        assert_eq!(words.len(), becomes.len());
        Self::begin(server, words, 0, false, Some(becomes.to_vec()))
    }

    /// A way on which the `nth` commit is a rollback.
    pub fn undoing(server: &Instance, nth: u64) -> Self {
        Self::begin(server, b"COMMIT", nth, true, None)
    }

    /// A way on which every commit is a rollback.
    pub fn undoing_all(server: &Instance) -> Self {
        Self::begin(server, b"COMMIT", 0, true, None)
    }

    /// All requests with these words are meant where `nth` is 0.
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

    /// The server, by this way. Without TLS, so that requests can be read.
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/?ssl-mode=disabled", self.port)
    }

    pub fn has_cut(&self) -> bool {
        self.state.cut.load(Ordering::Relaxed)
    }
}

impl State {
    /// Whether this is the request that was meant.
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
                if buffer[at..].starts_with(words) {
                    buffer[at..at + words.len()].copy_from_slice(becomes);
                    state.cut.store(true, Ordering::Relaxed);
                }
            }
        }
        let request = &buffer[..read];
        // A request for its own: what comes in the middle of rows is none.
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
