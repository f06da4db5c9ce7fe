//! One module per command. Each has an argument struct, whose doc comments are the help text, and a
//! `run` function that reads as a recipe: it takes the arguments and the
//! [`Context`](crate::context::Context) and returns the exit code.

pub mod backup;
pub mod backups;
pub mod binlog;
pub mod cluster;
pub mod completions;
pub mod copy;
pub mod copy_status;
pub mod datadir;
pub mod dump;
pub mod inspect;
pub mod load;
pub mod man;
pub mod private;
pub mod rebuild;
pub mod restore;
pub mod sandbox;
pub mod serve_host;
pub mod settings;
pub mod sst;
pub mod verify;
