//! Allows one change to a cluster at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::context::Context;
use crate::exit::{Exit, ProgramError};

/// How long a process that was just killed may seem to hold the lock. A child that it had just
/// forked holds all its open files until it calls exec, which can take a while on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// While it exists, no other process with this state directory changes the cluster.
#[derive(Debug)]
pub struct ClusterLock {
    _file: File,
}

impl ClusterLock {
    /// Path of the lock file.
    pub fn path(cluster: &str, context: &Context) -> PathBuf {
        // Any cluster name must give a single valid file name.
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
        context
            .state_dir()
            .join("clusters")
            .join(format!("{name}.lock"))
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// Another process holds it, or its file cannot be created.
    pub fn take(cluster: &str, context: &Context) -> anyhow::Result<Self> {
        let path = Self::path(cluster, context);
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        if locked(&file, &path)? {
            // Only informs whoever finds the lock taken; the lock does not depend on it.
            let _ = file
                .set_len(0)
                .and_then(|()| writeln!(&file, "{}", std::process::id()));
            return Ok(Self { _file: file });
        }
        let owner = std::fs::read_to_string(&path).unwrap_or_default();
        let owner = owner
            .trim()
            .parse::<u32>()
            .map_or_else(|_| String::new(), |pid| format!(" (process {pid})"));
        Err(ProgramError::new(
            Exit::Refused,
            format!("another refloat is changing the cluster {cluster} just now{owner}"),
        )
        .hint("`ps` shows it. One that was begun with --begin is ended with --end.")
        .into())
    }
}

/// Tries to lock the file, for up to [`PATIENCE`]. Returns `false` if another process still holds
/// it then.
fn locked(file: &File, path: &Path) -> anyhow::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_about_to_go_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("name.lock");
        let open = || File::create(&path).expect("a file");
        let theirs = open();
        assert!(locked(&theirs, &path).expect("no error"));
        let release = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            drop(theirs);
        });
        let ours = open();
        assert!(locked(&ours, &path).expect("no error"));
        release.join().expect("it ends");
        // Does not wait for a lock that is held longer.
        assert!(!locked(&open(), &path).expect("no error"));
    }
}
