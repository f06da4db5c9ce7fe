//! What one node says about itself.

use std::collections::HashMap;
use std::time::Duration;

use refloat_run::settings::{GCACHE_MEMORY, GCACHE_PURGE, ProviderOptions, provider_variable};
use serde::Serialize;

/// Bytes that the provider stores with each write-set beside its data: a header of 40 bytes
/// (`BufferHeader` in Galera's `gcache_bh.hpp`), and padding for alignment.
pub(crate) const HEADER: u64 = 64;

/// What one node of a cluster says about itself.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own, under the name that the server gives it"
)]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeState {
    /// `wsrep_node_name`.
    pub node_name: String,
    /// Version of the server.
    pub version: String,
    /// Version of the provider.
    pub provider: String,
    /// `wsrep_cluster_name`.
    pub cluster_name: String,
    /// `wsrep_cluster_state_uuid`: the history that it follows.
    pub cluster_uuid: String,
    /// Whether it belongs to the primary component. Outside of it, a node accepts no reads or
    /// writes.
    pub primary: bool,
    /// `wsrep_cluster_size`: the number of members that it sees, itself included.
    pub size: u64,
    /// `wsrep_gcomm_uuid`, unique among the members of a cluster. Empty outside a component.
    pub member: String,
    /// `wsrep_cluster_conf_id`: the number of the view, which all members of a component share.
    /// `None` outside a component.
    pub view: Option<u64>,
    /// `wsrep_local_state`, decoded.
    pub role: Role,
    /// `wsrep_local_state_comment`, in the server's words.
    pub state: String,
    /// `wsrep_ready`: whether it accepts statements.
    pub ready: bool,
    /// `wsrep_connected`.
    pub connected: bool,
    /// `wsrep_last_committed`: the last write-set that it applied.
    pub seqno: Option<u64>,
    /// Write-sets received but not applied yet.
    pub receive_queue: Queue,
    /// Write-sets not sent yet.
    pub send_queue: Queue,
    /// Write-sets per second that clients of this node commit. The rate is highest on the node that
    /// applications write to.
    pub own_write_sets_per_second: f64,
    /// How long replication is paused, and how often by this node.
    pub flow_control: FlowControl,
    /// The write-sets kept for nodes that rejoin.
    pub gcache: Gcache,
    /// Limits on the size of a transaction.
    pub limits: Limits,
    /// How full copies (SST) are made.
    pub sst: Sst,
    /// `wsrep_desync`: whether it may lag without pausing the cluster.
    pub desync: bool,
    /// `read_only`: true for any value but OFF.
    pub read_only: bool,
    /// `wsrep_reject_queries`. `None`: it rejects none.
    pub rejects_queries: Option<String>,
    /// `wsrep_on`: whether writes on this node are replicated.
    pub replicates: bool,
    /// `gmcast.segment`: nodes of one segment are close to each other on the network.
    pub segment: u64,
    /// `wsrep_slave_threads` (`wsrep_applier_threads`).
    pub appliers: u64,
    /// `binlog_format`: Galera needs ROW.
    pub binlog_format: String,
    /// `innodb_autoinc_lock_mode`: Galera needs 2.
    pub autoinc_lock_mode: Option<u64>,
    /// `@@datadir`, where `grastate.dat` lies, too.
    pub datadir: String,
    /// `log_error`. Empty: the server writes to the standard error of whatever started it.
    pub log_error: String,
    /// How long the server has run, in seconds.
    pub uptime: u64,
    /// The DDL statement that has run longest on this node, if one has run for a while.
    pub ddl: Option<LongDdl>,
    /// `wsrep_incoming_addresses`: the client addresses of the members of its view, without empty
    /// entries.
    pub members: Vec<String>,
}

/// A DDL statement that has run for a while. Under total order isolation (TOI) it blocks commits on
/// every node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LongDdl {
    /// The start of the statement, on one line.
    pub statement: String,
    /// How long it has run, in seconds.
    pub seconds: f64,
    /// Whether it comes from another node and is being applied here.
    pub applied: bool,
    /// How many sessions of this node wait to commit, or to start DDL of their own.
    pub waiting: u64,
}

/// What a node is doing, from `wsrep_local_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Not connected to a primary component.
    Undefined,
    /// It receives a copy of the data, or is about to.
    Joiner,
    /// It is the donor of a copy, or is desynced (`wsrep_desync`).
    Donor,
    /// It has its data and is catching up.
    Joined,
    /// It has caught up with the cluster.
    Synced,
}

impl Role {
    fn of(local_state: Option<u64>) -> Self {
        match local_state {
            Some(1) => Self::Joiner,
            Some(2) => Self::Donor,
            Some(3) => Self::Joined,
            Some(4) => Self::Synced,
            _ => Self::Undefined,
        }
    }
}

/// A queue of write-sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Queue {
    /// Its length now.
    pub now: u64,
    /// Its average length since the counters were reset.
    pub average: f64,
}

/// Flow control: a node whose receive queue gets too long pauses replication on all nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FlowControl {
    /// Fraction of the sample during which replication was paused, 0 to 1.
    pub paused: f64,
    /// The same fraction since the counters were reset.
    pub paused_before: f64,
    /// How often this node paused replication during the sample.
    pub sent: u64,
    /// `gcs.fc_limit`: the length of the receive queue that triggers flow control, before it is
    /// scaled by the number of nodes.
    pub limit: Option<u64>,
}

/// The write-sets that a node keeps for nodes that rejoin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Gcache {
    /// The oldest write-set in the cache. `None`: unknown.
    pub oldest: Option<u64>,
    /// Bytes of write-sets that fit: `memory` if it is set, else `ring`.
    pub capacity: u64,
    /// `gcache.size`: the ring on disk, in bytes.
    pub ring: u64,
    /// `gcache.mem_size`, in bytes.
    pub memory: u64,
    /// Whether the provider has `gcache.freeze_purge_at_seqno`, which stops it from discarding
    /// write-sets.
    pub can_freeze: bool,
    /// Whether each provider option has a variable of its own (`wsrep_provider_gcache_mem_size`)
    /// instead of a place in one string.
    pub by_variables: bool,
    /// The cache keeps every write-set from this one on. `None`: nothing is frozen.
    pub frozen_at: Option<u64>,
    /// Bytes of write-sets per second, sent and received.
    pub bytes_per_second: f64,
    /// Write-sets per second, sent and received.
    pub write_sets_per_second: f64,
    /// Whether the rates come from this sample. If nothing was written during it, they are averages
    /// since the server started.
    pub measured: bool,
    /// How long a node that leaves now can be away and still rejoin by IST, in seconds. `None`:
    /// nothing was ever written.
    pub covers_seconds: Option<f64>,
    /// Average size of a write-set in bytes: of those in the cache if that is known, else since the
    /// server started.
    pub bytes_per_write_set: Option<f64>,
}

/// Limits on the size of a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `wsrep_max_ws_size`, in bytes.
    pub write_set_bytes: Option<u64>,
    /// `wsrep_max_ws_rows`. `None`: no limit.
    pub write_set_rows: Option<u64>,
}

/// How full copies (SST) are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sst {
    /// `wsrep_sst_method`.
    pub method: String,
    /// `wsrep_sst_donor`: the preferred donors.
    pub donor: Option<String>,
    /// `wsrep_sst_receive_address`. `None`: the server chooses.
    pub receive_address: Option<String>,
    /// Whether `wsrep_sst_auth` names an account. The account itself is not recorded.
    pub has_account: bool,
    /// `wsrep_sst_donor_rejects_queries`.
    pub donor_rejects_queries: bool,
    /// Bytes of InnoDB tablespaces on this node, which a copy must transfer. `None`: this account
    /// cannot see them.
    pub bytes: Option<u64>,
}

impl Sst {
    /// The names in `wsrep_sst_donor`, in order.
    pub fn donor_names(&self) -> impl Iterator<Item = &str> {
        names_of(self.donor.as_deref().unwrap_or_default())
    }
}

/// The names in a comma-separated list, split as Galera does.
pub(crate) fn names_of(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|one| !one.is_empty())
}

/// Names and values from a `SHOW` statement, names in lower case.
pub(crate) type Values = HashMap<String, String>;

/// Status values at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// When it was taken, relative to one moment for all samples of a node.
    pub at: Duration,
    /// `SHOW GLOBAL STATUS`.
    pub status: Values,
}

impl Sample {
    pub fn number(&self, name: &str) -> Option<f64> {
        self.status.get(name)?.parse().ok()
    }

    pub fn count(&self, name: &str) -> Option<u64> {
        self.status.get(name)?.parse().ok()
    }

    fn text(&self, name: &str) -> String {
        self.status.get(name).cloned().unwrap_or_default()
    }

    /// How much a counter grew since an earlier sample.
    fn grown_since(&self, first: &Self, name: &str) -> u64 {
        let of = |sample: &Self| sample.count(name).unwrap_or(0);
        of(self).saturating_sub(of(first))
    }

    fn seconds_since(&self, first: &Self) -> f64 {
        self.at.saturating_sub(first.at).as_secs_f64()
    }

    fn queue(&self, name: &str) -> Queue {
        Queue {
            now: self.count(name).unwrap_or(0),
            average: self.number(&format!("{name}_avg")).unwrap_or(0.0),
        }
    }
}

impl NodeState {
    /// Evaluates two samples and the settings.
    pub(crate) fn new(first: &Sample, last: &Sample, variables: &Values) -> Self {
        let variable = |name: &str| variables.get(name).cloned().unwrap_or_default();
        let number = |name: &str| {
            variables
                .get(name)
                .and_then(|value| value.parse::<u64>().ok())
        };
        let is_on = |name: &str| {
            variables
                .get(name)
                .is_some_and(|value| value == "ON" || value == "1")
        };
        let options = ProviderOptions::parse(&variable("wsrep_provider_options"));
        let not_empty = |text: String| Some(text).filter(|text| !text.is_empty());
        let seconds = last.seconds_since(first);
        Self {
            node_name: variable("wsrep_node_name"),
            version: variable("version"),
            provider: last.text("wsrep_provider_version"),
            cluster_name: variable("wsrep_cluster_name"),
            cluster_uuid: last.text("wsrep_cluster_state_uuid"),
            primary: last
                .text("wsrep_cluster_status")
                .eq_ignore_ascii_case("Primary"),
            size: last.count("wsrep_cluster_size").unwrap_or(0),
            // 2^64 - 1 outside a component.
            member: last.text("wsrep_gcomm_uuid"),
            ddl: None,
            view: last
                .count("wsrep_cluster_conf_id")
                .filter(|view| *view != u64::MAX),
            role: Role::of(last.count("wsrep_local_state")),
            state: last.text("wsrep_local_state_comment"),
            ready: last.text("wsrep_ready") == "ON",
            connected: last.text("wsrep_connected") == "ON",
            seqno: last
                .count("wsrep_last_committed")
                .filter(|seqno| *seqno != u64::MAX),
            receive_queue: last.queue("wsrep_local_recv_queue"),
            send_queue: last.queue("wsrep_local_send_queue"),
            own_write_sets_per_second: if seconds > 0.0 {
                last.grown_since(first, "wsrep_replicated") as f64 / seconds
            } else {
                0.0
            },
            flow_control: flow_control(first, last, &options),
            gcache: Gcache {
                by_variables: variables.contains_key(&provider_variable(GCACHE_MEMORY)),
                ..gcache(first, last, &options)
            },
            limits: Limits {
                write_set_bytes: number("wsrep_max_ws_size"),
                write_set_rows: number("wsrep_max_ws_rows").filter(|rows| *rows > 0),
            },
            sst: Sst {
                method: variable("wsrep_sst_method"),
                donor: not_empty(variable("wsrep_sst_donor")),
                receive_address: not_empty(variable("wsrep_sst_receive_address"))
                    .filter(|address| address != "AUTO"),
                has_account: !variable("wsrep_sst_auth").is_empty(),
                donor_rejects_queries: is_on("wsrep_sst_donor_rejects_queries"),
                bytes: None,
            },
            desync: is_on("wsrep_desync"),
            // Since MariaDB 12 there are more values than ON and OFF.
            read_only: !matches!(variable("read_only").as_str(), "" | "OFF" | "0"),
            rejects_queries: not_empty(variable("wsrep_reject_queries"))
                .filter(|which| which != "NONE"),
            replicates: is_on("wsrep_on"),
            segment: options
                .get("gmcast.segment")
                .and_then(|segment| segment.parse().ok())
                .unwrap_or(0),
            appliers: number("wsrep_slave_threads")
                .or_else(|| number("wsrep_applier_threads"))
                .unwrap_or(1),
            binlog_format: variable("binlog_format"),
            autoinc_lock_mode: number("innodb_autoinc_lock_mode"),
            datadir: variable("datadir"),
            log_error: variable("log_error"),
            uptime: last.count("uptime").unwrap_or(0),
            members: last
                .text("wsrep_incoming_addresses")
                .split(',')
                .map(|address| address.trim().to_owned())
                .filter(|address| !address.is_empty())
                .collect(),
        }
    }
}

/// How much the cluster was paused between two samples.
fn flow_control(first: &Sample, last: &Sample, options: &ProviderOptions) -> FlowControl {
    let seconds = last.seconds_since(first);
    let paused_ns = last.grown_since(first, "wsrep_flow_control_paused_ns");
    FlowControl {
        paused: if seconds > 0.0 {
            (paused_ns as f64 / 1e9 / seconds).min(1.0)
        } else {
            0.0
        },
        paused_before: last.number("wsrep_flow_control_paused").unwrap_or(0.0),
        sent: last.grown_since(first, "wsrep_flow_control_sent"),
        limit: options
            .get("gcs.fc_limit")
            .and_then(|limit| limit.parse().ok()),
    }
}

/// Computes how long the cache lasts. New write-sets overwrite the oldest, so a node that leaves
/// now has until the whole capacity has been written once, however full the cache is.
fn gcache(first: &Sample, last: &Sample, options: &ProviderOptions) -> Gcache {
    let size = |name: &str| options.bytes(name).unwrap_or(0);
    let (ring, memory) = (size("gcache.size"), size("gcache.mem_size"));
    let written = |sample: &Sample, what: &str| {
        let of = |name: String| sample.number(&name).unwrap_or(0.0);
        of(format!("wsrep_replicated{what}")) + of(format!("wsrep_received{what}"))
    };
    let (all_bytes, all_sets) = (written(last, "_bytes"), written(last, ""));
    let seconds = last.seconds_since(first);
    let (bytes, sets) = (
        all_bytes - written(first, "_bytes"),
        all_sets - written(first, ""),
    );
    let measured = seconds > 0.0 && sets > 0.0;
    let uptime = last.number("uptime").unwrap_or(0.0);
    let per_second = |now: f64, all: f64| match (measured, uptime > 0.0) {
        (true, _) => now / seconds,
        (false, true) => all / uptime,
        (false, false) => 0.0,
    };
    let bytes_per_second = per_second(bytes, all_bytes);
    // With `gcache.mem_size` set, write-sets go to memory while there is room, and those in the
    // ring are discarded before the oldest in memory. Only a write-set larger than the memory goes
    // to the ring. (Galera: GCache::malloc, MemStore::have_free_space.)
    let capacity = if memory > 0 { memory } else { ring };
    let oldest = last
        .count("wsrep_local_cached_downto")
        .filter(|oldest| *oldest != u64::MAX);
    // The cache holds the latest write-sets, and is full once more than its capacity was written.
    // So their average size is closer to what a node has missed than the average since the server
    // started.
    let header = HEADER as f64;
    let kept = last
        .count("wsrep_last_committed")
        .zip(oldest)
        .and_then(|(head, oldest)| Some(head.checked_sub(oldest)? + 1))
        .filter(|_| all_bytes + all_sets * header > 2.0 * capacity as f64);
    let kept = kept.map(|kept| (capacity as f64 / kept as f64 - header).max(1.0));
    Gcache {
        oldest,
        capacity,
        ring,
        memory,
        can_freeze: options.get(GCACHE_PURGE).is_some(),
        by_variables: false,
        // -1: not frozen.
        frozen_at: options
            .get(GCACHE_PURGE)
            .and_then(|seqno| seqno.parse().ok()),
        bytes_per_second,
        write_sets_per_second: per_second(sets, all_sets),
        measured,
        covers_seconds: (bytes_per_second > 0.0).then(|| capacity as f64 / bytes_per_second),
        bytes_per_write_set: kept.or_else(|| (all_sets > 0.0).then(|| all_bytes / all_sets)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: u64, values: &[(&str, &str)]) -> Sample {
        Sample {
            at: Duration::from_secs(at),
            status: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn the_window_lasts_until_the_capacity_was_written_once() {
        let first = sample(
            10,
            &[
                ("wsrep_replicated_bytes", "1000"),
                ("wsrep_received_bytes", "0"),
                ("wsrep_replicated", "10"),
            ],
        );
        let last = sample(
            12,
            &[
                ("wsrep_replicated_bytes", "3000"),
                ("wsrep_received_bytes", "2000"),
                ("wsrep_replicated", "20"),
                ("wsrep_received", "5"),
            ],
        );
        let options = ProviderOptions::parse(
            "gcache.size = 1M; gcache.mem_size = 1M; gcache.keep_pages_size = 0",
        );
        let window = gcache(&first, &last, &options);
        assert!(window.measured);
        assert!(
            (window.bytes_per_second - 2000.0).abs() < 0.001,
            "{window:?}"
        );
        assert!((window.covers_seconds.unwrap() - 1_048_576.0 / 2000.0).abs() < 0.001);
        assert_eq!(window.bytes_per_write_set, Some(200.0));
        let options = ProviderOptions::parse("gcache.size = 1M; gcache.mem_size = 64K");
        let window = gcache(&first, &last, &options);
        assert_eq!(
            window.capacity,
            64 << 10,
            "the ring is not used beside memory"
        );
    }

    #[test]
    fn without_writes_the_average_since_the_start_counts_and_without_any_nothing_is_promised() {
        let values = [
            ("wsrep_received_bytes", "5000"),
            ("wsrep_received", "50"),
            ("uptime", "100"),
        ];
        let options = ProviderOptions::parse("gcache.size = 1000000");
        let window = gcache(&sample(1, &values), &sample(2, &values), &options);
        assert!(!window.measured);
        assert!((window.bytes_per_second - 50.0).abs() < 0.001);
        assert!((window.covers_seconds.unwrap() - 20_000.0).abs() < 0.001);
        let silent = gcache(&sample(1, &[]), &sample(2, &[("uptime", "9")]), &options);
        assert_eq!(
            (silent.covers_seconds, silent.bytes_per_write_set),
            (None, None)
        );
    }
}
