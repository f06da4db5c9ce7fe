//! One change to a cluster at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::Context as _;

use crate::context::Context;
use crate::exit::{Exit, ProgramError};

/// As long as it lasts no other process with this state directory changes the cluster.
#[derive(Debug)]
pub struct ClusterLock {
    _file: File,
}

impl ClusterLock {
    /// Takes it.
    ///
    /// # Errors
    /// Another process has it, or its file cannot be made.
    pub fn take(cluster: &str, context: &Context) -> anyhow::Result<Self> {
        let folder = context.state_dir().join("clusters");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        // Whatever people call their clusters, it is one file.
        let name: String = cluster
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let path = folder.join(format!("{name}.lock"));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(ProgramError::new(
                Exit::Refused,
                format!("another refloat is changing the cluster {cluster} just now"),
            )
            .hint("`ps` shows it. One that was begun with --begin is ended with --end.")
            .into()),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }
}
