//! A node of a Galera cluster as the target: what it allows, and how the load adapts to it.

use std::time::{Duration, Instant};

use refloat_run::Refusal;
use refloat_run::settings::{Durability, Facts};
use refloat_wire::{Connection, Error};

use super::options::{GaleraMode, GaleraOptions};
use super::pace::When;
use crate::options::{BinlogMode, IndexMode, LoadOptions, WritePath};

/// How long to watch for writes by applications before the load begins.
const LISTEN: Duration = Duration::from_millis(500);
const LISTEN_POLL: Duration = Duration::from_millis(50);
/// A transaction's dump text may have `wsrep_max_ws_size` divided by this. A row's image and its
/// certification keys can be larger than its text (`(1,2),` is six bytes, its values are eight, and
/// a key adds some twenty).
const TEXT_PER_WRITE_SET: u64 = 16;
/// Bytes of dump text per transaction while an application is running. Every node applies a
/// transaction as a whole, and commits of the application wait behind it for that long.
pub const CHUNK_BYTES_PACED: usize = 1 << 20;
/// The same without an application. Above about 4 MiB the provider keeps a write-set in a file
/// while it is collected, and the other nodes start late (three nodes on two cores, 10.11.19, 400
/// MB: all in step after 30.1 s with this, 33.2 s with 16 MiB, 34.0 s with 2 MiB).
const CHUNK_BYTES_FREE: usize = 4 << 20;
/// Bytes of dump text per piece of a transaction that may be held back: it can shrink to one piece.
const PIECE_BYTES_PACED: usize = 32 << 10;
/// One in this many of `wsrep_max_ws_rows` is left for the progress marks in the same transaction.
const ROWS_FOR_MARKS: u64 = 8;

/// How much one transaction may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteSet {
    /// Bytes of dump text.
    pub bytes: usize,
    /// Bytes of dump text in each piece that it is made of.
    pub piece: usize,
    /// Rows. `None` if the cluster does not limit them.
    pub rows: Option<u64>,
}

impl WriteSet {
    /// The most rows that a transaction may have, for a piece of `rows` rows in `bytes` of dump
    /// text. `None`: the piece may stay as it is.
    pub fn rows_of(self, rows: u64, bytes: usize) -> Option<u64> {
        let by_bytes = (bytes > self.piece).then(|| {
            let share = u128::from(rows) * self.piece as u128 / bytes.max(1) as u128;
            u64::try_from(share).unwrap_or(u64::MAX).max(1)
        });
        match (self.rows, by_bytes) {
            (Some(rows), Some(bytes)) => Some(rows.min(bytes)),
            (rows, bytes) => rows.or(bytes),
        }
    }
}

/// A server that is or was a node of a cluster.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one node"
)]
pub struct Node {
    /// `wsrep_cluster_name`.
    pub cluster: String,
    /// `wsrep_cluster_size`.
    pub size: u64,
    /// `wsrep_cluster_state_uuid`.
    pub history: String,
    /// Whether it belongs to a cluster now.
    pub connected: bool,
    /// Whether transactions are being committed in the cluster.
    others_write: bool,
    /// `wsrep_cluster_status` and `wsrep_local_state_comment`, as text for messages.
    state: String,
    ready: bool,
    replicates: bool,
    max_bytes: u64,
    max_rows: u64,
    needs_keys: Option<String>,
    splits_load_data: bool,
    definitions: String,
    engines: String,
}

impl Node {
    /// Queries the server. `None`: it has no wsrep provider.
    pub fn of(conn: &mut Connection, facts: &Facts) -> Result<Option<Self>, Error> {
        if !facts.is_node() {
            return Ok(None);
        }
        let status = conn.query("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")?;
        let value_of = |name: &str| {
            (0..status.len())
                .find(|&row| {
                    status
                        .str(row, 0)
                        .is_some_and(|found| found.eq_ignore_ascii_case(name))
                })
                .and_then(|row| status.str(row, 1))
                .unwrap_or_default()
                .to_owned()
        };
        let is_on = |name: &str| matches!(value_of(name).to_ascii_uppercase().as_str(), "ON" | "1");
        let connected = is_on("wsrep_connected");
        let others_write = connected && writes_go_on(conn)?;
        let primary = value_of("wsrep_cluster_status").eq_ignore_ascii_case("primary");
        let text = |name: &str| facts.get(name).unwrap_or_default().to_owned();
        let strict = text("pxc_strict_mode");
        Ok(Some(Self {
            cluster: text("wsrep_cluster_name"),
            size: value_of("wsrep_cluster_size").parse().unwrap_or(0),
            history: value_of("wsrep_cluster_state_uuid"),
            connected,
            others_write,
            state: format!(
                "its cluster status is {}, its state {}",
                value_of("wsrep_cluster_status"),
                value_of("wsrep_local_state_comment")
            ),
            ready: is_on("wsrep_ready") && primary,
            replicates: facts.is_on("wsrep_on"),
            max_bytes: facts.number("wsrep_max_ws_size").unwrap_or(0),
            max_rows: facts.number("wsrep_max_ws_rows").unwrap_or(0),
            needs_keys: if matches!(strict.as_str(), "ENFORCING" | "MASTER") {
                Some(format!("pxc_strict_mode is {strict}"))
            } else if facts
                .get("wsrep_certify_nonpk")
                .is_some_and(|value| matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0"))
            {
                Some("wsrep_certify_nonPK is OFF".to_owned())
            } else {
                None
            },
            splits_load_data: splits_load_data(facts),
            definitions: text("wsrep_osu_method"),
            engines: format!(
                "{},{}",
                text("wsrep_mode"),
                if facts.is_on("wsrep_replicate_myisam") {
                    "REPLICATE_MYISAM"
                } else {
                    ""
                }
            )
            .to_ascii_uppercase(),
        }))
    }

    /// When to hold back a load into this node. Writes by others can be noticed only if all other
    /// nodes are watched and the load's own writes can be told from them.
    pub fn when(&self, galera: &GaleraOptions) -> When {
        match galera.max_paused {
            Some(share) if share >= 1.0 => When::Never,
            None if !self.others_write
                && galera.watches_all(self.size)
                && !galera.through_proxy =>
            {
                When::OthersWrite
            }
            _ => When::Always,
        }
    }

    /// Why the load cannot go into this node. Empty if it can.
    pub fn refusals(&self, options: &LoadOptions) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut refuse = |reason: String, hint: &str| {
            refusals.push(Refusal {
                reason,
                hint: hint.to_owned(),
            });
        };
        let local = options.galera.mode == Some(GaleraMode::Local);
        if !self.connected {
            if !local {
                refuse(
                    "the server is a node that has left its Galera cluster (wsrep_provider is set, \
                    but it is connected to no other node): the rows would be on this node alone, \
                    and its position would not count them, so that it would join the others as if \
                    it held the same data"
                        .to_owned(),
                    "Load into a node that is in its cluster; or use `refloat cluster restore`, which loads here and builds the other nodes from it; \
                     --galera local says that you do the same by hand.",
                );
            }
            return refusals;
        }
        if local {
            refuse(
                format!(
                    "--galera local: the server is a node of a running cluster ({}, {} nodes). Rows that are on this node alone make it differ from the others, \
                     and no node would know: the position of the cluster counts replicated transactions only",
                    self.cluster, self.size
                ),
                "`refloat cluster restore` takes the nodes down, loads into one of them alone, and builds the others from it. --galera replicate loads into \
                 the cluster as it runs.",
            );
        }
        if !self.replicates {
            refuse(
                "wsrep_on is OFF on this node of a running cluster: the rows would be on this node alone".to_owned(),
                "SET GLOBAL wsrep_on = ON, after finding out who switched it off and what this node lacks or has more than the others.",
            );
        }
        if !self.ready {
            refuse(
                format!("the node takes no writes: {}", self.state),
                "`refloat cluster status` shows all nodes; load into one that is Synced in a primary component.",
            );
        }
        if self.definitions.eq_ignore_ascii_case("RSU") {
            refuse(
                "wsrep_OSU_method is RSU: the dump's definitions would be made on this node alone"
                    .to_owned(),
                "SET GLOBAL wsrep_OSU_method = 'TOI'.",
            );
        }
        if options.durability == Some(Durability::Disposable) {
            refuse(
                "--durability disposable: a crash of this node would take it out of the cluster for a full copy, and without a binary log its rows may not \
                 reach the others"
                    .to_owned(),
                "Use --durability relaxed; `refloat cluster restore` has a way that gives up more.",
            );
        }
        if options.binlog == BinlogMode::Off {
            refuse(
                "--binlog off: not every version replicates what is not written to the binary log"
                    .to_owned(),
                "Omit --binlog off.",
            );
        }
        if options.galera.through_proxy && options.galera.local_engines {
            refuse(
                "--local-engines with --through-proxy: rows that are not replicated would be on whichever node their connection landed on".to_owned(),
                "Name a node with --to.",
            );
        }
        if options.write_path == WritePath::Bulk && !self.keeps_bulk_whole() {
            refuse(
                "--write-path bulk: a node that rolls an array-bound insert back, because another \
                transaction or DDL statement of the cluster won, does not report it, and the rows \
                after it would be committed without those before it"
                    .to_owned(),
                "Use --write-path auto.",
            );
        }
        if self.splits_load_data && options.write_path == WritePath::LoadData {
            refuse(
                "wsrep_load_data_splitting is ON: the server would commit every 10,000 rows of a \
                LOAD DATA separately, and a failed one could not be rolled back"
                    .to_owned(),
                "SET GLOBAL wsrep_load_data_splitting = OFF; or use --write-path auto.",
            );
        }
        refusals
    }

    /// Whether an array-bound insert that a node rolls back reports that. In a cluster it does not.
    /// At the end of a command the server replaces its result with the error of an aborted
    /// transaction (`wsrep_override_error`, `sql/wsrep_thd.h`), but only if the result is unset, an
    /// error, `OK` or `EOF`. The result of an array-bound insert is `DA_OK_BULK`. Seen on 10.11.19
    /// and 11.8.
    pub fn keeps_bulk_whole(&self) -> bool {
        !self.connected
    }

    /// Whether `LOAD DATA` is one transaction.
    pub fn keeps_load_data_whole(&self) -> bool {
        !self.splits_load_data
    }

    /// How much a transaction may write. `wanted` is how many bytes of dump text the user wants in
    /// each.
    pub fn write_set(&self, galera: &GaleraOptions, wanted: Option<usize>) -> WriteSet {
        let allowed = match self.max_bytes {
            0 => u64::MAX,
            bytes => (bytes / TEXT_PER_WRITE_SET).max(1),
        };
        let bytes = usize::try_from(allowed).unwrap_or(usize::MAX);
        let when = self.when(galera);
        let bytes = match wanted {
            Some(wanted) => bytes.min(wanted),
            None if when == When::Always => bytes.min(CHUNK_BYTES_PACED),
            None => bytes.min(CHUNK_BYTES_FREE),
        };
        WriteSet {
            bytes,
            // Transactions that may shrink are made of small pieces.
            piece: if when == When::Never {
                bytes
            } else {
                bytes.min(PIECE_BYTES_PACED)
            },
            rows: (self.max_rows > 0).then(|| {
                let marks = (self.max_rows / ROWS_FOR_MARKS).max(2);
                self.max_rows.saturating_sub(marks).max(1)
            }),
        }
    }

    /// Why this cluster refuses tables without a primary key. `None` if it accepts them.
    pub fn needs_keys(&self) -> Option<&str> {
        self.needs_keys.as_deref()
    }

    /// Whether rows of a table of this engine reach the other nodes.
    pub fn replicates_engine(&self, engine: &str) -> bool {
        let is = |name: &str| engine.eq_ignore_ascii_case(name);
        is("InnoDB")
            || (is("MyISAM") && self.engines.contains("REPLICATE_MYISAM"))
            || (is("Aria") && self.engines.contains("REPLICATE_ARIA"))
    }
}

/// The refusal for rows of an engine that is not replicated.
pub fn local_engine(table: &str, engine: &str) -> Refusal {
    Refusal {
        reason: format!(
            "{table} has engine {engine}, whose rows a Galera cluster does not replicate: they would be on this node alone"
        ),
        hint: "Change the engine in the dump; or leave the table out with --tables; or let its rows stay on this node with --local-engines (load and copy). \
               `refloat cluster restore --way rebuild` brings them to all nodes."
            .to_owned(),
    }
}

/// Advice on loading into a cluster this way: what could be faster, and what to expect.
pub fn advice(options: &LoadOptions, node: Option<&Node>) -> Vec<String> {
    let mut advice = Vec::new();
    let Some(node) = node.filter(|node| node.connected) else {
        return advice;
    };
    if node.when(&options.galera) == When::Always {
        advice.push(format!(
            "the load is replicated to {} nodes, and is held back when they fall behind, for \
            applications that write meanwhile (--max-paused {:.0}); --max-paused 100 does not hold \
            it back",
            node.size,
            options.galera.share() * 100.0
        ));
    }
    if options.indexes != IndexMode::Inline {
        advice.push(
            "indexes are built after the rows: each build blocks all writes of the cluster while \
            it runs (--indexes inline does not)"
                .to_owned(),
        );
    }
    if options.galera.through_proxy {
        advice.push(
            "connections go through a load balancer to different nodes: every one waits for the others' writes before each of its own, which is the \
             slowest way into a cluster"
                .to_owned(),
        );
    }
    advice
}

/// Whether the server commits each 10,000 rows of a `LOAD DATA` separately.
pub fn splits_load_data(facts: &Facts) -> bool {
    facts.is_on("wsrep_load_data_splitting")
}

/// Whether anything is committed in the cluster within [`LISTEN`].
fn writes_go_on(conn: &mut Connection) -> Result<bool, Error> {
    let committed = |conn: &mut Connection| {
        conn.query("SHOW GLOBAL STATUS LIKE 'wsrep_last_committed'")
            .map(|status| status.u64(0, 1))
    };
    let before = committed(conn)?;
    let until = Instant::now() + LISTEN;
    while Instant::now() < until {
        std::thread::sleep(LISTEN_POLL);
        if committed(conn)? != before {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The options of a load, with what the cluster decides about them.
pub fn settle(options: &LoadOptions, node: Option<&Node>) -> LoadOptions {
    let mut options = options.clone();
    let in_cluster = node.filter(|node| node.connected);
    if options.indexes == IndexMode::Auto {
        // Building an index stops the writes of the whole cluster for as long as it takes.
        options.indexes = match in_cluster {
            Some(node) => match node.when(&options.galera) {
                When::Always => IndexMode::Inline,
                // Deferred only as long as nobody else writes.
                When::OthersWrite => IndexMode::Auto,
                When::Never => IndexMode::Deferred,
            },
            None => IndexMode::Deferred,
        };
    }
    if in_cluster.is_some() && options.galera.through_proxy {
        // A setting would be changed on whichever node a connection lands on, and put back on
        // another.
        options.durability = Some(Durability::Keep);
    }
    options
}

/// Refuses `--galera replicate` for a server that is not a node. `--galera local` is fine there:
/// every load into such a server is local.
pub fn refuse_elsewhere(options: &LoadOptions) -> Option<Refusal> {
    (options.galera.mode == Some(GaleraMode::Replicate)).then(|| Refusal {
        reason: "--galera replicate: the server is not a node of a Galera cluster: it has no \
            wsrep_provider"
            .to_owned(),
        hint: "Omit --galera.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use refloat_wire::ConnectOptions;

    use super::*;

    fn node() -> Node {
        Node {
            cluster: "c".to_owned(),
            size: 3,
            history: "u".to_owned(),
            connected: true,
            others_write: true,
            state: String::new(),
            ready: true,
            replicates: true,
            max_bytes: 2 << 30,
            max_rows: 0,
            needs_keys: None,
            splits_load_data: false,
            definitions: "TOI".to_owned(),
            engines: ",".to_owned(),
        }
    }

    fn options() -> LoadOptions {
        LoadOptions::new("a.sql", ConnectOptions::default())
    }

    fn reasons(node: &Node, change: impl Fn(&mut LoadOptions)) -> Vec<String> {
        let mut options = options();
        change(&mut options);
        let refusals = node.refusals(&options);
        refusals.into_iter().map(|one| one.reason).collect()
    }

    #[test]
    fn a_node_of_a_running_cluster_takes_replicated_rows_only() {
        assert!(reasons(&node(), |_| ()).is_empty());
        let local = |options: &mut LoadOptions| options.galera.mode = Some(GaleraMode::Local);
        assert!(reasons(&node(), local)[0].contains("no node would know"));
        let left = Node {
            connected: false,
            ..node()
        };
        assert!(reasons(&left, local).is_empty());
        assert!(reasons(&left, |_| ())[0].contains("left its Galera cluster"));
    }

    #[test]
    fn what_would_stay_on_one_node_is_refused() {
        let alone = Node {
            replicates: false,
            definitions: "RSU".to_owned(),
            ready: false,
            splits_load_data: true,
            ..node()
        };
        let found = reasons(&alone, |options| {
            options.binlog = BinlogMode::Off;
            options.durability = Some(Durability::Disposable);
            options.write_path = WritePath::LoadData;
        });
        assert_eq!(found.len(), 6, "{found:?}");
        let bulk = |options: &mut LoadOptions| options.write_path = WritePath::Bulk;
        assert!(reasons(&node(), bulk)[0].contains("does not report it"));
    }

    #[test]
    fn transactions_stay_below_the_limits() {
        let small = Node {
            max_bytes: 1 << 20,
            max_rows: 1000,
            ..node()
        };
        let set = small.write_set(&GaleraOptions::default(), None);
        assert_eq!(
            (set.bytes, set.piece, set.rows),
            (1 << 16, 1 << 15, Some(875))
        );
        // 5,000 rows in 1 MiB: 156 rows in 32 KiB.
        assert_eq!(set.rows_of(5000, 1 << 20), Some(156));
        assert_eq!(set.rows_of(5000, 1 << 10), Some(875));
        let free = GaleraOptions {
            max_paused: Some(1.0),
            ..GaleraOptions::default()
        };
        assert_eq!(node().write_set(&free, None).rows_of(5000, 1 << 20), None);
        assert_eq!(
            node().write_set(&GaleraOptions::default(), None).bytes,
            CHUNK_BYTES_PACED
        );
        let quiet = Node {
            others_write: false,
            ..node()
        };
        let known = GaleraOptions {
            others: vec![ConnectOptions::default(); 2],
            ..GaleraOptions::default()
        };
        let set = quiet.write_set(&known, None);
        assert_eq!(
            (set.bytes, set.piece),
            (CHUNK_BYTES_FREE, PIECE_BYTES_PACED)
        );
    }

    #[test]
    fn indexes_are_built_with_the_rows_where_applications_run() {
        assert_eq!(settle(&options(), None).indexes, IndexMode::Deferred);
        assert_eq!(settle(&options(), Some(&node())).indexes, IndexMode::Inline);
        let mut free = options();
        free.galera.others = vec![ConnectOptions::default(); 2];
        free.galera.max_paused = Some(1.0);
        assert_eq!(settle(&free, Some(&node())).indexes, IndexMode::Deferred);
        let quiet = Node {
            others_write: false,
            ..node()
        };
        assert_eq!(settle(&options(), Some(&quiet)).indexes, IndexMode::Inline);
        let mut known = options();
        known.galera.others = vec![ConnectOptions::default(); 2];
        assert_eq!(settle(&known, Some(&quiet)).indexes, IndexMode::Auto);
        known.galera.through_proxy = true;
        assert_eq!(settle(&known, Some(&quiet)).indexes, IndexMode::Inline);
        let mut asked = options();
        asked.indexes = IndexMode::Deferred;
        assert_eq!(settle(&asked, Some(&node())).indexes, IndexMode::Deferred);
    }

    #[test]
    fn engines_that_reach_the_others() {
        assert!(node().replicates_engine("InnoDB"));
        assert!(!node().replicates_engine("MyISAM"));
        let more = Node {
            engines: "REPLICATE_MYISAM,".to_owned(),
            ..node()
        };
        assert!(more.replicates_engine("MyISAM"));
        assert!(!more.replicates_engine("Aria"));
    }
}
