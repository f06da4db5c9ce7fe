//! What one node says of itself.

use std::collections::HashMap;
use std::time::Duration;

use refloat_run::settings::{GCACHE_MEMORY, GCACHE_PURGE, ProviderOptions, provider_variable};
use serde::Serialize;

/// What the provider keeps beside the bytes of each write-set: its header, and what is lost to alignment (`BufferHeader` in Galera's
/// `gcache_bh.hpp` has 40 bytes).
pub(crate) const HEADER: u64 = 64;

/// What one node of a cluster says of itself.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own, under the name that the server gives it"
)]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeState {
    /// `wsrep_node_name`.
    pub node_name: String,
    /// The server's version.
    pub version: String,
    /// The provider's version.
    pub provider: String,
    /// `wsrep_cluster_name`.
    pub cluster_name: String,
    /// `wsrep_cluster_state_uuid`: the history that it follows.
    pub cluster_uuid: String,
    /// Whether it belongs to the primary component: only there anything may be read or written.
    pub primary: bool,
    /// `wsrep_cluster_size`: how many members it sees, itself included.
    pub size: u64,
    /// `wsrep_gcomm_uuid`: no two members of a cluster have the same. Empty outside of one.
    pub member: String,
    /// `wsrep_cluster_conf_id`: the number of the view; all members of a component have the same. `None` outside of one.
    pub view: Option<u64>,
    /// What it is doing.
    pub role: Role,
    /// `wsrep_local_state_comment`, in the server's words.
    pub state: String,
    /// `wsrep_ready`: whether it takes statements.
    pub ready: bool,
    /// `wsrep_connected`.
    pub connected: bool,
    /// `wsrep_last_committed`: the last write-set that it has applied.
    pub seqno: Option<u64>,
    /// Write-sets that came and wait to be applied.
    pub receive_queue: Queue,
    /// Write-sets that wait to be sent.
    pub send_queue: Queue,
    /// Write-sets per second that clients of this node make: the node that applications write to has the most.
    pub own_write_sets_per_second: f64,
    /// How much the cluster waits, and because of whom.
    pub flow_control: FlowControl,
    /// Write-sets kept for nodes that come back.
    pub gcache: Gcache,
    /// What a transaction may hold.
    pub limits: Limits,
    /// How full copies are made.
    pub sst: Sst,
    /// `wsrep_desync`: it was told not to hold the others up.
    pub desync: bool,
    /// `read_only`.
    pub read_only: bool,
    /// `wsrep_reject_queries`, when it rejects any.
    pub rejects_queries: Option<String>,
    /// `wsrep_on`: whether what is written here goes to the others.
    pub replicates: bool,
    /// `gmcast.segment`: nodes of one segment are near each other.
    pub segment: u64,
    /// `wsrep_slave_threads` (`wsrep_applier_threads`).
    pub appliers: u64,
    /// Rows written by statement or by row: Galera needs ROW.
    pub binlog_format: String,
    /// `innodb_autoinc_lock_mode`: Galera needs 2.
    pub autoinc_lock_mode: Option<u64>,
    /// `datadir`.
    pub datadir: String,
    /// `log_error`; empty: what the server writes goes to whoever has started it.
    pub log_error: String,
    /// Since when the server runs, in seconds.
    pub uptime: u64,
    /// A statement that changes a definition, and has run here for a while.
    pub ddl: Option<LongDdl>,
    /// `wsrep_incoming_addresses`: where clients reach the members of its view, as far as they say so.
    pub members: Vec<String>,
}

/// A statement that changes a definition and has run for a while. Applied in total order, it keeps every node from committing anything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LongDdl {
    /// Its first words.
    pub statement: String,
    /// How long it has run.
    pub seconds: f64,
    /// Whether it came from another node, and is applied here.
    pub applied: bool,
    /// How many sessions of this node wait to commit, or to begin a DDL statement of their own.
    pub waiting: u64,
}

/// What a node is doing, by `wsrep_local_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Not connected to a primary component.
    Undefined,
    /// It receives a copy of the data, or is about to.
    Joiner,
    /// It gives a copy to another node, or was told to keep no pace (`wsrep_desync`).
    Donor,
    /// It has its data, and catches up.
    Joined,
    /// It keeps pace.
    Synced,
}

/// A queue of write-sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Queue {
    /// How many wait now.
    pub now: u64,
    /// How many waited on average since somebody reset the counters.
    pub average: f64,
}

/// Flow control: a node whose receive queue is too long makes all of them wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FlowControl {
    /// The part of the time of the sample in which replication was paused, 0 to 1.
    pub paused: f64,
    /// The same since the counters began.
    pub paused_before: f64,
    /// How often this node made the others wait, during the sample.
    pub sent: u64,
    /// How long its receive queue may get: `gcs.fc_limit`, before it is scaled by the number of nodes.
    pub limit: Option<u64>,
}

/// The write-sets that a node keeps, for nodes that come back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Gcache {
    /// The oldest write-set that is kept.
    pub oldest: Option<u64>,
    /// Bytes that can be kept: the memory that is allowed for it, or else the ring.
    pub capacity: u64,
    /// `gcache.size`, the ring on disk, in bytes.
    pub ring: u64,
    /// `gcache.mem_size`, in bytes.
    pub memory: u64,
    /// Whether the provider can be told not to throw write-sets away (`gcache.freeze_purge_at_seqno`).
    pub can_freeze: bool,
    /// Whether options of the provider are changed by variables of their own (`wsrep_provider_gcache_mem_size`), and not in one text.
    pub by_variables: bool,
    /// From which write-set on none is thrown away, when somebody has told it so.
    pub frozen_at: Option<u64>,
    /// Bytes of write-sets per second that come to this node and from it.
    pub bytes_per_second: f64,
    /// Write-sets per second.
    pub write_sets_per_second: f64,
    /// Whether the rates were measured just now; else nothing was written meanwhile, and they are averages since the counters began.
    pub measured: bool,
    /// How long a node can be away from now on and still come back by IST, in seconds. `None`: nothing is ever written.
    pub covers_seconds: Option<f64>,
    /// Bytes of a write-set, on average of those that are kept, as far as that can be told, else since the counters began.
    pub bytes_per_write_set: Option<f64>,
}

/// What a transaction may hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `wsrep_max_ws_size`, in bytes.
    pub write_set_bytes: Option<u64>,
    /// `wsrep_max_ws_rows`; `None`: as many as one likes.
    pub write_set_rows: Option<u64>,
}

/// How full copies (SST) are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sst {
    /// `wsrep_sst_method`.
    pub method: String,
    /// `wsrep_sst_donor`: who is asked for a copy first.
    pub donor: Option<String>,
    /// `wsrep_sst_receive_address`, unless it is left to the server.
    pub receive_address: Option<String>,
    /// Whether an account is set (`wsrep_sst_auth`); never which.
    pub has_account: bool,
    /// `wsrep_sst_donor_rejects_queries`.
    pub donor_rejects_queries: bool,
    /// Bytes of the tablespaces of InnoDB on this node, where the account may ask: what a copy has to bring over.
    pub bytes: Option<u64>,
}

impl Sst {
    /// The names in `wsrep_sst_donor`, in order.
    pub fn donor_names(&self) -> impl Iterator<Item = &str> {
        names_of(self.donor.as_deref().unwrap_or_default())
    }
}

/// The names in a list that is parted by commas, as Galera takes it apart.
pub(crate) fn names_of(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|one| !one.is_empty())
}

/// Names and values, as `SHOW` gives them, with names in lower case.
pub(crate) type Values = HashMap<String, String>;

/// Status values of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// When it was taken, since some moment that all samples of a node share.
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

    fn queue(&self, name: &str) -> Queue {
        Queue {
            now: self.count(name).unwrap_or(0),
            average: self.number(&format!("{name}_avg")).unwrap_or(0.0),
        }
    }
}

impl NodeState {
    /// What two samples and the settings mean.
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
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        let grown = |name: &str| {
            let of = |sample: &Sample| sample.count(name).unwrap_or(0);
            of(last).saturating_sub(of(first))
        };
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
            // 2^64 - 1 outside of a component.
            member: last.text("wsrep_gcomm_uuid"),
            ddl: None,
            view: last
                .count("wsrep_cluster_conf_id")
                .filter(|view| *view != u64::MAX),
            role: match last.count("wsrep_local_state") {
                Some(1) => Role::Joiner,
                Some(2) => Role::Donor,
                Some(3) => Role::Joined,
                Some(4) => Role::Synced,
                _ => Role::Undefined,
            },
            state: last.text("wsrep_local_state_comment"),
            ready: last.text("wsrep_ready") == "ON",
            connected: last.text("wsrep_connected") == "ON",
            seqno: last
                .count("wsrep_last_committed")
                .filter(|seqno| *seqno != u64::MAX),
            receive_queue: last.queue("wsrep_local_recv_queue"),
            send_queue: last.queue("wsrep_local_send_queue"),
            own_write_sets_per_second: if seconds > 0.0 {
                grown("wsrep_replicated") as f64 / seconds
            } else {
                0.0
            },
            flow_control: FlowControl {
                paused: if seconds > 0.0 {
                    (grown("wsrep_flow_control_paused_ns") as f64 / 1e9 / seconds).min(1.0)
                } else {
                    0.0
                },
                paused_before: last.number("wsrep_flow_control_paused").unwrap_or(0.0),
                sent: grown("wsrep_flow_control_sent"),
                limit: options
                    .get("gcs.fc_limit")
                    .and_then(|limit| limit.parse().ok()),
            },
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
            // Since MariaDB 12 it has more values than ON and OFF.
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

/// How long the write-sets last. What is written from now on goes over the oldest, so a node that leaves now has until the whole capacity
/// was written once: how full it is does not matter.
fn gcache(first: &Sample, last: &Sample, options: &ProviderOptions) -> Gcache {
    let size = |name: &str| options.bytes(name).unwrap_or(0);
    let (ring, memory) = (size("gcache.size"), size("gcache.mem_size"));
    let written = |sample: &Sample, what: &str| {
        let of = |name: String| sample.number(&name).unwrap_or(0.0);
        of(format!("wsrep_replicated{what}")) + of(format!("wsrep_received{what}"))
    };
    let (all_bytes, all_sets) = (written(last, "_bytes"), written(last, ""));
    let seconds = last.at.saturating_sub(first.at).as_secs_f64();
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
    // Where memory is allowed, write-sets go there as long as it lasts, and what is in the ring goes before the oldest in memory does; only
    // what is larger than the memory goes to the ring. (Galera: GCache::malloc, MemStore::have_free_space.)
    let capacity = if memory > 0 { memory } else { ring };
    let oldest = last
        .count("wsrep_local_cached_downto")
        .filter(|oldest| *oldest != u64::MAX);
    // What is kept is what was written last, and it fills the capacity when more than that was written: its average is nearer to what a node
    // has missed than the one since the counters began.
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
        // -1 when it is not.
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
