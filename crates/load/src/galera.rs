//! Loads into a Galera cluster node, and what they do to the other nodes.
//!
//! What the load commits on one node is certified and applied on all of them. So its transactions
//! stay within the cluster's limits, and its definitions block every client of the cluster while
//! they run. When nodes fall behind, flow control stops every application: [`pace`] holds the load
//! back before that.

mod node;
mod options;
pub mod others;
mod outcome;
pub mod pace;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use refloat_run::Events;
use refloat_run::outcome::Bounded;
use refloat_wire::{ConnectOptions, Connection};

use super::error::LoadError;
use super::options::LoadOptions;
pub use node::{
    CHUNK_BYTES_PACED, Node, WriteSet, advice, local_engine, refuse_elsewhere, settle,
    splits_load_data,
};
pub use options::{GaleraMode, GaleraOptions, MAX_PAUSED_DEFAULT};
pub use outcome::GaleraOutcome;
use refloat_run::Refusal;

use pace::{Pace, Rule};

/// What a load does to the cluster that it is replicated in.
pub struct Replicated {
    /// How much a transaction may write.
    pub write_set: WriteSet,
    /// Holds writers back when nodes fall behind.
    pub pace: Pace,
    node: Node,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    keyless: Bounded<String>,
    local: Bounded<String>,
    stalls: u64,
    stalled_seconds: f64,
    longest: Option<(f64, String)>,
}

/// A change of a definition that the whole cluster waits for. Dropping it ends and counts the wait.
pub struct Stall<'a> {
    cluster: &'a Replicated,
    statement: &'a str,
    began: Instant,
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut notes = self.cluster.notes();
        notes.stalls += 1;
        notes.stalled_seconds += seconds;
        if notes
            .longest
            .as_ref()
            .is_none_or(|(most, _)| seconds > *most)
        {
            notes.longest = Some((seconds, refloat_sqltext::head(self.statement.as_bytes())));
        }
    }
}

impl Replicated {
    /// Starts watching the nodes. `None`: the rows are not replicated.
    pub fn begin(options: &LoadOptions, node: Option<&Node>, events: &Events) -> Option<Self> {
        let node = node.filter(|node| node.connected)?;
        let galera = &options.galera;
        // Behind a load balancer it is unknown which node answers.
        let write_set = node.write_set(galera, options.chunk_bytes);
        let target = (!galera.through_proxy).then_some(&options.target);
        let own_first = target.is_some();
        let rule = Rule {
            max_paused: galera.share(),
            bytes: (
                match options.chunk_bytes {
                    Some(_) => write_set.bytes,
                    None => write_set.bytes.min(CHUNK_BYTES_PACED),
                },
                write_set.bytes,
            ),
            when: node.when(galera),
        };
        if !galera.watches_all(node.size) {
            events.warn(format!(
                "the cluster has {} nodes, but only the addresses of {} are known: the load \
                neither watches the others nor waits for them (set wsrep_node_incoming_address on \
                them)",
                node.size,
                galera.others.len() + 1
            ));
        }
        let nodes: Vec<ConnectOptions> =
            target.into_iter().chain(&galera.others).cloned().collect();
        Some(Self {
            write_set,
            pace: Pace::start(&nodes, own_first, rule, events),
            node: node.clone(),
            notes: Mutex::default(),
        })
    }

    /// The most rows that a transaction with rows of `piece` may have. `wanted` is the user's own
    /// limit.
    pub fn rows_of(&self, piece: &super::chunk::Piece, wanted: Option<u64>) -> Option<u64> {
        match (self.write_set.rows_of(piece.rows, piece.len()), wanted) {
            (Some(most), Some(wanted)) => Some(wanted.min(most)),
            (most, wanted) => most.or(wanted),
        }
    }

    /// Checks that a connection has reached a node of this cluster.
    pub fn expect_member(&self, conn: &mut Connection) -> Result<(), LoadError> {
        let status = conn
            .query("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'")
            .map_err(|error| LoadError::server("asking which cluster a node is of", error))?;
        let found = status.str(0, 1).unwrap_or_default();
        if found == self.node.history {
            return Ok(());
        }
        Err(LoadError::Stopped(vec![Refusal {
            reason: format!(
                "the load balancer led to a server outside cluster {}: its history is {}, not {}",
                self.node.cluster,
                if found.is_empty() { "none" } else { found },
                self.node.history
            ),
            hint: "Take it out of the load balancer, or name a node with --to; the same command \
                resumes."
                .to_owned(),
        }]))
    }

    /// Checks whether rows of a table may go into the cluster.
    pub fn admit(
        &self,
        options: &LoadOptions,
        events: &Events,
        label: &str,
        engine: &str,
        keyless: bool,
    ) -> Result<(), LoadError> {
        if !self.node.replicates_engine(engine) {
            if !options.galera.local_engines {
                let refusal = local_engine(&format!("table {label}"), engine);
                return Err(LoadError::Refused(vec![refusal]));
            }
            events.warn(format!(
                "table {label} has engine {engine}: its rows are on this node alone"
            ));
            self.notes().local.push(label.to_owned());
        }
        if keyless {
            if let Some(why) = self.node.needs_keys() {
                return Err(LoadError::Refused(vec![Refusal {
                    reason: format!(
                        "table {label} has no primary key, and {why}: the cluster refuses its rows"
                    ),
                    hint:
                        "Give the table a primary key in the dump, or leave it out with --tables."
                            .to_owned(),
                }]));
            }
            events.warn(format!(
                "table {label} has no primary key: on the other nodes each UPDATE and DELETE scans \
                the whole table, and its rows may be in a different order there"
            ));
            self.notes().keyless.push(label.to_owned());
        }
        Ok(())
    }

    /// Checks whether rows of a view may go into the cluster. Any of `tables`, given by name and
    /// engine, may be the one that takes them.
    pub fn admit_view(
        &self,
        options: &LoadOptions,
        events: &Events,
        label: &str,
        tables: &[(String, String)],
    ) -> Result<(), LoadError> {
        let mut local = tables
            .iter()
            .filter(|(_, engine)| !self.node.replicates_engine(engine));
        let Some((table, engine)) = local.next() else {
            return Ok(());
        };
        if options.galera.local_engines {
            events.warn(format!(
                "rows of view {label} are on this node alone if they end in table {table}, which has engine {engine}, or another such table"
            ));
            self.notes().local.push(label.to_owned());
            return Ok(());
        }
        Err(LoadError::Refused(vec![Refusal {
            reason: format!(
                "rows of view {label} may end in table {table}, which has engine {engine}, whose rows a Galera cluster does not replicate: they would be on this node alone"
            ),
            hint: "Change the dump so that it inserts into the table of the view; or let such rows stay on this node with --local-engines (load and copy)."
                .to_owned(),
        }]))
    }

    /// Checks whether rows of the server's own schema may go into the cluster.
    pub fn admit_system(options: &LoadOptions, label: &str) -> Result<(), LoadError> {
        if options.galera.local_engines {
            return Ok(());
        }
        Err(LoadError::Refused(vec![Refusal {
            reason: format!(
                "rows of {label}: a Galera cluster does not replicate rows of the server's own schema, they would be on this node alone"
            ),
            hint: "Create accounts with CREATE USER and GRANT, which all nodes run; \
                --system-schema skip leaves these rows out; --local-engines keeps them on this \
                node."
                .to_owned(),
        }]))
    }

    /// Starts timing a change of a definition.
    pub fn stall<'a>(&'a self, statement: &'a str) -> Stall<'a> {
        Stall {
            cluster: self,
            statement,
            began: Instant::now(),
        }
    }

    /// What was done to the nodes so far.
    pub fn outcome(&self) -> GaleraOutcome {
        let notes = self.notes();
        GaleraOutcome {
            cluster: self.node.cluster.clone(),
            size: self.node.size,
            paced: self.pace.is_on(),
            held_seconds: self.pace.held_seconds(),
            nodes: self.pace.nodes(),
            stalls: notes.stalls,
            stalled_seconds: notes.stalled_seconds,
            longest_stall: notes.longest.clone(),
            without_primary_key: notes.keyless.clone(),
            not_replicated: notes.local.clone(),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets `wsrep_sync_wait` on the first connection. With `wait` it sees the marks that an earlier
/// process wrote on another node.
pub fn read_all_marks(
    options: &LoadOptions,
    conn: &mut Connection,
    wait: bool,
) -> Result<(), LoadError> {
    if options.galera.others.is_empty() {
        return Ok(());
    }
    let value = if wait { "15" } else { "DEFAULT" };
    conn.exec(format!("SET SESSION wsrep_sync_wait = {value}"))
        .map(drop)
        .map_err(|error| LoadError::server("asking the node to wait for the others", error))
}
