//! Physical backups: the files of a data directory, rather than the rows in them.
//!
//! A backup is made by the server's own tool (mariadb-backup, xtrabackup), which copies the files
//! of a running server and the redo log that makes them consistent. The tool runs on the server's
//! machine and sends one stream, which is taken apart here, file by file, and written to a
//! [`Repository`](refloat_repository::Repository) in blocks that backups share. A restore fetches
//! the files into a folder beside the data directory, has the tool prepare them there, and swaps
//! the two by rename. The reasons are in `docs/design/physical.md`.
//!
//! This crate must not print, and must not decide where a repository lies or how it is opened.
//!
//! Start with [`backup()`], [`restore()`] and [`About`] (what a backup says of the server that it
//! is of).

mod about;
mod agent;
pub mod backup;
pub mod binlog;
mod check;
mod clone;
mod desync;
mod donor;
mod error;
mod files;
mod find;
mod folder;
#[doc(hidden)]
pub mod fuzzing;
mod held;
mod incoming;
mod option_file;
mod outcome;
mod outside_files;
mod own_folder;
mod pace;
mod partial_copy;
mod preflight;
mod prepare;
mod private;
mod producer;
pub mod rebuild;
mod replica;
pub mod restore;
mod serve;
mod server;
mod server_options;
mod sparse;
mod spool;
pub mod sst;
mod stall;
mod stream;
mod swap;
mod tables;
mod target;
mod throttle;
mod tool;
mod tool_bugs;
mod tool_log;
mod transfer;
mod verify;

pub use about::{About, BinlogPosition, GaleraPosition, KIND, Lsn, ServerFacts};
pub use backup::{BackupOptions, BackupPlan, backup};
pub use donor::DonorOptions;
pub use error::PhysicalError;
pub use outcome::{BackupOutcome, CheckedBackup, RebuildOutcome, RestoreOutcome, VerifyOutcome};
pub use own_folder::OwnFolder;
pub use pace::RATE_MIN;
pub use private::{Candidate, PrivateOptions, PrivateServer};
pub use rebuild::{Listen, RebuildOptions, RebuildPlan, rebuild};
pub use replica::ReplicaAccount;
pub use restore::{RestoreOptions, RestorePlan, restore};
pub use serve::{SendAnswer, SendRequest, serve};
pub use tables::Chosen;
pub use target::TargetOptions;
pub use tool::{Tool, ToolKind};
pub use transfer::Secret as TransferSecret;
pub use verify::verify;
