//! A health service: reports over HTTP and HAProxy's agent protocol whether a node may take
//! traffic.
//!
//! One thread polls the node over one connection, and checks are answered from its last answer, so
//! many proxies cost the node no more than one. An answer that is too old counts as none.

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

/// How many checks are answered at the same time. Any beyond that are closed at once.
const CHECKS_AT_ONCE: usize = 64;
/// How long a client may take to send its request, and to read the answer.
const CLIENT_PATIENCE: Duration = Duration::from_secs(3);
/// How often each loop checks whether to stop.
const POLL: Duration = Duration::from_millis(50);

/// What to serve, and for which node.
#[derive(Debug, Clone)]
pub struct HealthdOptions {
    /// The node to poll.
    pub node: ConnectOptions,
    /// Address for HTTP checks.
    pub listen: SocketAddr,
    /// Address for agent checks. `None`: no agent checks.
    pub agent_listen: Option<SocketAddr>,
    /// The conditions for taking traffic.
    pub rules: Rules,
    /// How often the node is polled.
    pub interval: Duration,
}

/// A running health service.
#[derive(Debug)]
pub struct Healthd {
    watched: Arc<Watched>,
    address: SocketAddr,
    agent_address: Option<SocketAddr>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Healthd {
    /// Binds the addresses and starts to answer. The service ends when `cancel` is set.
    ///
    /// `report` receives a line whenever the verdict changes.
    ///
    /// # Errors
    /// An address cannot be bound.
    pub fn start(
        options: &HealthdOptions,
        cancel: &Cancel,
        report: impl Fn(&str) + Send + 'static,
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
            .push(spawn("node", Box::new(move || node.watch(&stop, report)))?);
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

    /// Address for HTTP checks. If port 0 was requested, it has the port that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address for agent checks. `None`: no agent checks.
    pub fn agent_address(&self) -> Option<SocketAddr> {
        self.agent_address
    }

    /// What is currently known about the node.
    pub fn health(&self) -> Health {
        self.watched.health()
    }

    /// Waits until the service has ended.
    pub fn join(self) {
        for thread in self.threads {
            // A thread that panicked has already reported why.
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

/// A check that is being answered; dropping it frees its place.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers each check in a separate thread, so that a silent client does not block others.
fn serve(listener: &TcpListener, answer: Answer, node: &Arc<Watched>, cancel: &Cancel) {
    let under_way = Arc::new(AtomicUsize::new(0));
    while !cancel.is_cancelled() {
        let Ok((mut client, _)) = listener.accept() else {
            // No client is waiting, or too many files are open, which passes.
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
            // A client that disconnects early misses only its own answer.
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
