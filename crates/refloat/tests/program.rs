//! The program as people and scripts meet it: help, exit codes, messages and generated files.

#[path = "program/limits.rs"]
mod limits;
#[path = "program/support.rs"]
mod support;

#[path = "program/cluster.rs"]
mod cluster;
#[path = "program/docs.rs"]
mod docs;
#[path = "program/errors.rs"]
mod errors;
#[path = "program/generated.rs"]
mod generated;
#[path = "program/help.rs"]
mod help;
#[path = "program/killed.rs"]
mod killed;
#[path = "program/maintained.rs"]
mod maintained;
#[path = "program/parted.rs"]
mod parted;
#[path = "program/replicas.rs"]
mod replicas;
#[path = "program/replicated.rs"]
mod replicated;
#[path = "program/restore.rs"]
mod restore;
#[path = "program/restored.rs"]
mod restored;
#[path = "program/sandbox.rs"]
mod sandbox;
#[path = "program/servers.rs"]
mod servers;
#[path = "program/units.rs"]
mod units;
#[path = "program/ways.rs"]
mod ways;
