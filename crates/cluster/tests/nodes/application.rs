//! An application that writes to a node all the time, and what the nodes keep in the meantime.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use refloat_sandbox::{EphemeralCluster, GaleraNode};
use refloat_testkit::wait_until;
use refloat_wire::{ConnectOptions, Connection, Error};

use crate::nodes::connect;

/// Limit for every wait.
pub const LONG: Duration = Duration::from_secs(90);
/// Bytes per row of the application.
pub const ROW: u64 = 20_000;

/// `gcache.mem_size`, as the node shows it.
pub fn memory(node: &GaleraNode) -> String {
    option(node, "gcache.mem_size").expect("every provider has it")
}

/// A provider option, as the node shows it. `None`: the provider has no such option.
pub fn option(node: &GaleraNode, name: &str) -> Option<String> {
    let mut conn = connect(node);
    let options = conn
        .query_value("SELECT @@wsrep_provider_options")
        .unwrap()
        .unwrap();
    let (_, rest) = options.split_once(&format!("{name} = "))?;
    Some(rest.split(';').next().unwrap().to_owned())
}

/// An application that writes a dense sequence to one node and knows what was acknowledged.
pub struct Application<'a> {
    node: &'a GaleraNode,
    /// The last acknowledged row.
    pub written: AtomicU64,
    /// Suspends writing while set.
    pub pause: AtomicBool,
    stop: AtomicBool,
}

impl<'a> Application<'a> {
    /// Continues where the previous application has ended.
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
        // A frozen node answers nothing, and must not keep the test from ending.
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
                // On 1062 the row is there: an earlier attempt was committed, but its answer was
                // lost.
                Ok(_) | Err(Error::Server { code: 1062, .. }) => {
                    self.written.store(next, Ordering::SeqCst);
                }
                // While the others drop a lost node, they refuse writes for a moment.
                Err(_) => conn = None,
            }
            std::thread::sleep(Duration::from_millis(8));
        }
    }

    /// Writes while `body` runs; then asserts that every node has everything that was acknowledged.
    pub fn during<T>(self, cluster: &EphemeralCluster, body: impl FnOnce(&Self) -> T) -> T {
        let result = std::thread::scope(|scope| {
            let worker = scope.spawn(|| self.run());
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                // The rate while the application still connects is not the rate that follows.
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

    /// Waits until `bytes` more have been written.
    pub fn writes(&self, bytes: u64) {
        let until = self.written.load(Ordering::SeqCst) + bytes / ROW;
        wait_until("the application writes", || {
            self.written.load(Ordering::SeqCst) >= until
        });
    }
}
