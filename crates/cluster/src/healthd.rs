//! Whether a node may take traffic, told over HTTP and by HAProxy's agent protocol.
//!
//! One thread asks the node again and again over one connection; checks are answered from what it said last, so that many proxies cost
//! the node no more than one. An answer that has become old counts as none.

mod agent;
mod http;
mod judge;
mod watch;

pub(crate) use http::path_of;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use refloat_run::Cancel;
use refloat_wire::ConnectOptions;

pub use judge::{Rules, Verdict};
pub use watch::Health;
use watch::Watched;

/// So many checks are answered at the same time; what comes beyond is closed at once.
const CHECKS_AT_ONCE: usize = 64;
/// How long a client may take to ask, and to take the answer.
const CLIENT_PATIENCE: Duration = Duration::from_secs(3);
/// How often it is looked whether it shall end.
const POLL: Duration = Duration::from_millis(50);

/// What is served, and of which node.
#[derive(Debug, Clone)]
pub struct HealthdOptions {
    /// The node.
    pub node: ConnectOptions,
    /// Where HTTP checks are answered.
    pub listen: SocketAddr,
    /// Where agent checks are answered.
    pub agent_listen: Option<SocketAddr>,
    /// What a node has to be like.
    pub rules: Rules,
    /// How often the node is asked.
    pub interval: Duration,
}

/// A service that runs.
#[derive(Debug)]
pub struct Healthd {
    watched: Arc<Watched>,
    address: SocketAddr,
    agent_address: Option<SocketAddr>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Healthd {
    /// Takes the addresses, and begins to answer. It ends when `cancel` says so.
    ///
    /// `said` gets one line each time when the verdict changes.
    ///
    /// # Errors
    /// An address cannot be taken.
    pub fn start(
        options: &HealthdOptions,
        cancel: &Cancel,
        said: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let http = listen(options.listen)?;
        let agent = options.agent_listen.map(listen).transpose()?;
        let watched = Arc::new(Watched::new(options));
        let mut healthd = Self {
            address: http.local_addr()?,
            agent_address: agent.as_ref().map(TcpListener::local_addr).transpose()?,
            threads: Vec::new(),
            watched: Arc::clone(&watched),
        };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.to_owned()).spawn(work)
        };
        let (node, stop) = (Arc::clone(&watched), cancel.clone());
        healthd
            .threads
            .push(spawn("node", Box::new(move || node.watch(&stop, said)))?);
        for (listener, answer) in [(Some(http), http::answer as Answer), (agent, agent::answer)] {
            let Some(listener) = listener else { continue };
            let (node, stop) = (Arc::clone(&watched), cancel.clone());
            healthd.threads.push(spawn(
                "checks",
                Box::new(move || serve(&listener, answer, &node, &stop)),
            )?);
        }
        Ok(healthd)
    }

    /// Where HTTP checks are answered: the port that was taken when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where agent checks are answered.
    pub fn agent_address(&self) -> Option<SocketAddr> {
        self.agent_address
    }

    /// What is known of the node now.
    pub fn health(&self) -> Health {
        self.watched.health()
    }

    /// Waits until it has ended.
    pub fn join(self) {
        for thread in self.threads {
            // What a thread had to say it has said.
            let _ = thread.join();
        }
    }
}

type Answer = fn(&mut TcpStream, &Health) -> io::Result<()>;

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A check that is answered.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers checks, each in a thread of its own, so that a client that says nothing keeps no other one waiting.
fn serve(listener: &TcpListener, answer: Answer, node: &Arc<Watched>, cancel: &Cancel) {
    let under_way = Arc::new(AtomicUsize::new(0));
    while !cancel.is_cancelled() {
        let Ok((mut client, _)) = listener.accept() else {
            // Nobody there; or too many open files, which passes.
            cancel.sleep(POLL);
            continue;
        };
        if under_way.fetch_add(1, Ordering::Relaxed) >= CHECKS_AT_ONCE {
            under_way.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (node, count) = (Arc::clone(node), Arc::clone(&under_way));
        let work = move || {
            let _slot = Slot(count);
            let ready = client
                .set_nonblocking(false)
                .and_then(|()| client.set_read_timeout(Some(CLIENT_PATIENCE)))
                .and_then(|()| client.set_write_timeout(Some(CLIENT_PATIENCE)));
            // A client that goes away in the middle misses its answer and nothing else.
            let _ = ready.and_then(|()| answer(&mut client, &node.health()));
        };
        if thread::Builder::new()
            .name("check".to_owned())
            .spawn(work)
            .is_err()
        {
            under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
