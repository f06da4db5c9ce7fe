//! One change to a cluster at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::context::Context;
use crate::exit::{Exit, ProgramError};

/// How long one that was killed a moment ago may seem to have it still: a child that it had just forked holds every file of
/// its until it has taken on its own program, which takes a busy machine a while.
const PATIENCE: Duration = Duration::from_secs(5);

/// As long as it lasts no other process with this state directory changes the cluster.
#[derive(Debug)]
pub struct ClusterLock {
    _file: File,
}

impl ClusterLock {
    /// Its file.
    pub fn path(cluster: &str, context: &Context) -> PathBuf {
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
        context
            .state_dir()
            .join("clusters")
            .join(format!("{name}.lock"))
    }

    /// Takes it.
    ///
    /// # Errors
    /// Another process has it, or its file cannot be made.
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
            // For whoever comes meanwhile; the lock itself does not depend on it.
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

/// Locks the file, or says that somebody else has it, and goes on having it.
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
        // Who has it for longer is not waited for without end.
        assert!(!locked(&open(), &path).expect("no error"));
    }
}
