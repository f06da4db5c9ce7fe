//! An application that writes to a node all the time, and what the nodes of its cluster keep meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_sandbox::{EphemeralCluster, GaleraNode};
use refloat_wire::{ConnectOptions, Connection, Error};

use crate::nodes::connect;

/// Nothing here takes longer.
pub const LONG: Duration = Duration::from_secs(90);
/// Bytes of a row of the application.
pub const ROW: u64 = 20_000;

/// `gcache.mem_size` of a node, as it shows it.
pub fn memory(node: &GaleraNode) -> String {
    option(node, "gcache.mem_size").expect("every provider has it")
}

/// An option of a node's provider, as it shows it. `None`: it has none of that name.
pub fn option(node: &GaleraNode, name: &str) -> Option<String> {
    let mut conn = connect(node);
    let options = conn
        .query_value("SELECT @@wsrep_provider_options")
        .unwrap()
        .unwrap();
    let (_, rest) = options.split_once(&format!("{name} = "))?;
    Some(rest.split(';').next().unwrap().to_owned())
}

/// Waits until something is so.
#[track_caller]
pub fn wait(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LONG, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An application that writes a dense sequence on one node all the time, and knows what was acknowledged.
pub struct Application<'a> {
    node: &'a GaleraNode,
    /// The last row that was acknowledged.
    pub written: AtomicU64,
    /// It rests.
    pub pause: AtomicBool,
    stop: AtomicBool,
}

impl<'a> Application<'a> {
    /// One that goes on where the last one has ended.
    pub fn new(node: &'a GaleraNode) -> Self {
        let mut conn = connect(node);
        conn.exec("CREATE DATABASE IF NOT EXISTS app").unwrap();
        conn.exec(
            "CREATE TABLE IF NOT EXISTS app.seq (n BIGINT UNSIGNED PRIMARY KEY, v MEDIUMTEXT)",
        )
        .unwrap();
        let last = conn
            .query_value("SELECT COALESCE(MAX(n), 0) FROM app.seq")
            .unwrap();
        Self {
            node,
            written: AtomicU64::new(last.unwrap().parse().unwrap()),
            pause: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    fn run(&self) {
        let mut options = ConnectOptions::from_url(&self.node.url()).unwrap();
        // A node that lies frozen answers nothing, and must not keep a test from its end.
        options.read_timeout = Some(Duration::from_secs(10));
        let mut conn = None;
        while !self.stop.load(Ordering::SeqCst) {
            if self.pause.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(8));
                continue;
            }
            let Some(open) = &mut conn else {
                conn = Connection::connect(&options).ok();
                std::thread::sleep(Duration::from_millis(8));
                continue;
            };
            let next = self.written.load(Ordering::SeqCst) + 1;
            let sql = format!("INSERT INTO app.seq VALUES ({next}, REPEAT('x', {ROW}))");
            match open.exec(sql) {
                // One that is there had come through when the answer was lost.
                Ok(_) | Err(Error::Server { code: 1062, .. }) => {
                    self.written.store(next, Ordering::SeqCst);
                }
                // While a node is lost the others take nothing for a moment.
                Err(_) => conn = None,
            }
            std::thread::sleep(Duration::from_millis(8));
        }
    }

    /// Works while `body` does; at the end every node has everything that was acknowledged.
    pub fn during<T>(self, cluster: &EphemeralCluster, body: impl FnOnce(&Self) -> T) -> T {
        let result = std::thread::scope(|scope| {
            let worker = scope.spawn(|| self.run());
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // What is measured while it still connects is not the rate that follows.
                self.writes(8 * ROW);
                body(&self)
            }));
            self.stop.store(true, Ordering::SeqCst);
            worker.join().unwrap();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let written = self.written.load(Ordering::SeqCst);
        for node in cluster.nodes() {
            let mut conn = connect(node);
            conn.exec("SET SESSION wsrep_sync_wait = 1").unwrap();
            let count = conn.query("SELECT COUNT(*), MAX(n) FROM app.seq").unwrap();
            let has = (count.u64(0, 0).unwrap(), count.u64(0, 1).unwrap());
            assert!(
                has == (written, written) || has == (written + 1, written + 1),
                "{}: {has:?} of {written}",
                node.name()
            );
        }
        result
    }

    /// Waits until so many bytes more were written.
    pub fn writes(&self, bytes: u64) {
        let until = self.written.load(Ordering::SeqCst) + bytes / ROW;
        wait("the application writes", || {
            self.written.load(Ordering::SeqCst) >= until
        });
    }
}
