//! A sandbox per test, and helpers that look at processes from outside.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use refloat_sandbox::{Sandbox, ServerKind};
use tempfile::TempDir;

/// All tests, and later runs, share the initialised data directories.
fn cache() -> PathBuf {
    // Servers started by root run as another user, who may not be able to enter the build
    // directory.
    if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        PathBuf::from("/var/lib/refloat/test-cache")
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
    }
}

/// A directory that is deleted with the test, and that every user can enter.
pub fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("sandbox-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir()
        .unwrap()
}

pub fn sandbox_in(folder: &Path) -> Sandbox {
    Sandbox::new(folder).with_cache_dir(cache())
}

/// The server that starts fastest, for tests where the kind does not matter.
pub const QUICK: ServerKind = ServerKind::MariaDb1011;

/// The processes that were started with this data directory.
pub fn processes_of(datadir: &Path) -> Vec<u32> {
    let mark = format!("--datadir={}", datadir.display());
    let numbers = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.split(|&b| b == 0).any(|one| one == mark.as_bytes()))
        })
        .collect()
}

/// A field of `/proc/<pid>/stat` by its number in proc(5), from 3 on.
pub fn stat_field(pid: u32, number: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = &stat[stat.rfind(')').unwrap() + 1..];
    after_name
        .split_whitespace()
        .nth(number - 3)
        .unwrap()
        .to_owned()
}

pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Asserts that no instance is left in the sandbox.
pub fn assert_nothing_left(sandbox: &Sandbox) {
    let left: Vec<_> = fs::read_dir(sandbox.state_dir().join("instances"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
