//! The flags of a data directory that is filled, for `restore` and `rebuild`.

use std::path::PathBuf;

use clap::Args;
use refloat_physical::TargetOptions;
use serde::{Deserialize, Serialize};

use crate::connect::ConnectArgs;
use crate::context::Context;
use crate::sizes::parse_bytes;

/// The data directory, and the server that works in it afterwards.
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of its own")]
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[command(next_help_heading = "Data directory")]
pub struct DatadirArgs {
    /// The data directory
    #[arg(long = "to", value_name = "DATADIR")]
    pub to: PathBuf,

    /// Replace what the data directory holds, which is kept beside it
    #[arg(long)]
    pub replace: bool,

    /// Reuse blocks that the data directory already holds
    ///
    /// Its files are read and compared block by block.
    #[arg(long, requires = "replace")]
    pub delta: bool,

    /// Put files that the server kept in other directories into the data directory too
    ///
    /// Without this, a server with such settings is refused: its redo and undo logs, system
    /// tablespace or Aria log would end up where the new server does not look for them, and it
    /// would find old ones.
    #[arg(long)]
    pub all_in_datadir: bool,

    /// The option file of the new server, to check that it looks for its files in the data
    /// directory [default: those of this machine, if they name the data directory]
    ///
    /// Redo and undo logs, a system tablespace or an Aria log in other directories are refused. An
    /// old binary log in another directory causes a warning.
    #[arg(long, value_name = "FILE")]
    pub option_file: Option<PathBuf>,

    /// A command that then starts the server, such as 'systemctl start mariadb'
    #[arg(long, value_name = "COMMAND")]
    pub start: Option<String>,

    /// The new server: wait until it answers, and until a cluster node is in sync
    #[arg(long, value_name = "URL", requires = "start")]
    pub check: Option<String>,

    /// Remove the old data as soon as the new server answers, and a cluster node is in sync
    ///
    /// If it does not start or does not answer, they stay. Binary logs in the old data directory
    /// are removed with it.
    #[arg(long, requires = "replace", requires = "check")]
    pub remove_old: bool,

    /// The tool's program here [default: mariadb-backup or xtrabackup in the search path]
    #[arg(long, value_name = "PATH", help_heading = "Speed and safety")]
    pub tool: Option<PathBuf>,

    /// Memory for applying the redo log, such as 4G [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Speed and safety")]
    pub memory: Option<u64>,
}

impl DatadirArgs {
    /// As the library takes them. `connect` are the options for `--check`.
    ///
    /// # Errors
    /// `--check` is not the URL of a server, or option files cannot be read.
    pub fn options(
        &self,
        connect: &ConnectArgs,
        context: &Context,
    ) -> anyhow::Result<TargetOptions> {
        let check = self
            .check
            .as_ref()
            .map(|url| connect.resolve_flag("--check", url, context));
        Ok(TargetOptions {
            datadir: self.to.clone(),
            replace: self.replace,
            remove_old: self.remove_old,
            delta: self.delta,
            all_in_datadir: self.all_in_datadir,
            option_file: self.option_file.clone(),
            tool: self.tool.clone(),
            memory: self.memory,
            start: self.start.clone(),
            check: check.transpose()?,
        })
    }
}
