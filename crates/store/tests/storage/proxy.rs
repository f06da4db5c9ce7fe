//! A line that fails: forwards connections to a server, and cuts some.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// When a connection is cut.
#[derive(Clone, Copy)]
pub enum Cut {
    /// Once so many bytes have come from the server.
    Answers(u64),
    /// Once so many bytes have gone to the server.
    Requests(u64),
    /// When the server answers a request that begins so: it has done it, and nobody learns of it.
    AnswerTo(&'static str),
}

/// Accepts no more connections once it is dropped.
pub struct Proxy {
    pub port: u16,
    state: Arc<State>,
}

struct State {
    target: u16,
    cut: Cut,
    /// How many are still to be cut.
    left: AtomicU64,
    ended: AtomicBool,
}

impl Proxy {
    /// Cuts so many connections.
    pub fn start(target: u16, cut: Cut, times: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            target,
            cut,
            left: AtomicU64::new(times),
            ended: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                shared.forward(client.unwrap());
            }
        });
        Self { port, state }
    }

    /// How many connections are still to be cut.
    pub fn left(&self) -> u64 {
        self.state.left.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    /// Whether this connection is one of those to cut. Counts it.
    fn takes_one(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        let order = Ordering::SeqCst;
        self.left.fetch_update(order, order, less).is_ok()
    }

    fn forward(self: &Arc<Self>, client: TcpStream) {
        let server = TcpStream::connect(("127.0.0.1", self.target)).unwrap();
        let asked = Arc::new(AtomicBool::new(false));
        let ways = [
            (
                client.try_clone().unwrap(),
                server.try_clone().unwrap(),
                true,
            ),
            (server, client, false),
        ];
        for (from, to, is_request) in ways {
            let (state, asked) = (Arc::clone(self), Arc::clone(&asked));
            std::thread::spawn(move || {
                state.pass(&from, &to, is_request, &asked);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    }

    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream, is_request: bool, asked: &AtomicBool) {
        let mut buffer = vec![0; 64 * 1024];
        let mut passed = 0;
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let bytes = &buffer[..count];
            passed += count as u64;
            let cuts = match self.cut {
                Cut::Answers(limit) => !is_request && passed > limit,
                Cut::Requests(limit) => is_request && passed > limit,
                Cut::AnswerTo(begin) if is_request => {
                    asked.fetch_or(bytes.starts_with(begin.as_bytes()), Ordering::SeqCst);
                    false
                }
                Cut::AnswerTo(_) => asked.swap(false, Ordering::SeqCst),
            };
            if (cuts && self.takes_one()) || to.write_all(bytes).is_err() {
                return;
            }
        }
    }
}
