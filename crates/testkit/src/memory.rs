//! Keeps files of tests in memory where there is plenty of it.
//!
//! Servers and `refloat` flush to disk at every definition, and tests do little else: on a busy
//! disk they wait for it a third of the time. What survives the end of a process survives in memory
//! too. Tests that cut the power bring a disk of their own.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A file system in memory, on every Linux.
const SHARED: &str = "/dev/shm";

/// Bytes that must be free there, and in the memory of the machine: the files of all test servers
/// that run at once, then the servers as well.
const FREE_THERE: u64 = 8 << 30;
const FREE_MEMORY: u64 = 12 << 30;

/// The folder for data of test servers and for their dumps: in memory if there is enough, else the
/// one for temporary files. It stays the same until the process ends.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if free_there() >= FREE_THERE && free_memory() >= FREE_MEMORY {
            PathBuf::from(SHARED)
        } else {
            std::env::temp_dir()
        }
    })
}

fn free_there() -> u64 {
    rustix::fs::statvfs(SHARED).map_or(0, |system| system.f_bavail * system.f_frsize)
}

fn free_memory() -> u64 {
    let all = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
