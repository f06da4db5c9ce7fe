//! The flags of a private server, which works on a copy of a backup for a while.

use std::path::{Path, PathBuf};

use clap::Args;
use refloat_physical::PrivateOptions;
use serde::{Deserialize, Serialize};

use crate::exit::ProgramError;

/// Where the private server works, and with which program.
#[derive(Debug, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[command(next_help_heading = "Private server")]
pub struct PrivateArgs {
    /// A folder with room for its files [default: that of temporary files]
    ///
    /// They are removed at the end. An account that servers run under must be able to reach the
    /// folder, and its path must be short.
    #[arg(long, value_name = "FOLDER")]
    pub scratch: Option<PathBuf>,

    /// Its program, of the backup's series [default: mariadbd or mysqld in the search path]
    #[arg(long, value_name = "PATH")]
    pub server: Option<PathBuf>,
}

impl PrivateArgs {
    /// Refuses these flags where no private server starts. `what` is the flag that starts one.
    ///
    /// # Errors
    /// One of them is given.
    pub fn refuse_without(&self, what: &str) -> anyhow::Result<()> {
        let given = [
            (self.scratch.is_some(), "--scratch"),
            (self.server.is_some(), "--server"),
        ];
        match given.iter().find(|(given, _)| *given) {
            None => Ok(()),
            Some((_, flag)) => {
                let error = ProgramError::usage(format!("{flag} has no effect without {what}"));
                Err(error.into())
            }
        }
    }

    /// As the library takes them.
    pub fn options(
        &self,
        tool: Option<&Path>,
        memory: Option<u64>,
        threads: usize,
    ) -> PrivateOptions {
        PrivateOptions {
            folder: self.scratch.clone().unwrap_or_else(std::env::temp_dir),
            server: self.server.clone(),
            tool: tool.map(Path::to_path_buf),
            memory,
            threads,
        }
    }
}
