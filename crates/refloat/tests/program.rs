//! The program as people and scripts meet it: help, exit codes, messages and generated files.

#[path = "program/support.rs"]
mod support;
#[path = "program/time_limits.rs"]
mod time_limits;

#[path = "program/binlog.rs"]
mod binlog;
#[path = "program/cluster.rs"]
mod cluster;
#[path = "program/completions.rs"]
mod completions;
#[path = "program/docs.rs"]
mod docs;
#[path = "program/errors.rs"]
mod errors;
#[path = "program/help.rs"]
mod help;
#[path = "program/kills.rs"]
mod kills;
#[path = "program/maintenance.rs"]
mod maintenance;
#[path = "program/messages.rs"]
mod messages;
#[path = "program/parted_histories.rs"]
mod parted_histories;
#[path = "program/rebuild.rs"]
mod rebuild;
#[path = "program/replicas.rs"]
mod replicas;
#[path = "program/replicated_loads.rs"]
mod replicated_loads;
#[path = "program/restore.rs"]
mod restore;
#[path = "program/restore_after_crash.rs"]
mod restore_after_crash;
#[path = "program/restore_ways.rs"]
mod restore_ways;
#[path = "program/sandbox.rs"]
mod sandbox;
#[path = "program/servers.rs"]
mod servers;
#[path = "program/sst.rs"]
mod sst;
#[path = "program/systemd_units.rs"]
mod systemd_units;
#[path = "program/tables.rs"]
mod tables;
