//! Memory, cores and disk space of this machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory and cores that a process on this machine (or in this container) may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Number of cores, within affinity and container quotas.
    pub cores: usize,
    /// Memory available without swapping, in bytes, within container limits.
    pub memory_available: u64,
    /// Total memory in bytes, within container limits.
    pub memory_total: u64,
}

impl Machine {
    /// Reads `/proc/meminfo` and the control groups of this process. `None` without
    /// `/proc/meminfo`.
    pub fn here() -> Option<Self> {
        let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
        let (total, available) = parse_meminfo(&meminfo)?;
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let groups = groups(&own, Path::new("/sys/fs/cgroup"));
        let (total, available) = within(&groups, (total, available));
        Some(Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_available: available,
            memory_total: total,
        })
    }
}

/// Bytes that an unprivileged process may still write to the file system of a path.
pub fn disk_available(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

fn parse_meminfo(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        let kib: u64 = line
            .trim_start_matches(':')
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()?;
        kib.checked_mul(1024)
    };
    Some((field("MemTotal")?, field("MemAvailable")?))
}

/// Total and available memory within the limits of control groups. Any group may be the tightest:
/// others use an outer one as well.
fn within(groups: &[PathBuf], (mut total, mut available): (u64, u64)) -> (u64, u64) {
    for (limit, used) in groups.iter().filter_map(|group| limit_of(group)) {
        total = total.min(limit);
        available = available.min(limit.saturating_sub(used));
    }
    (total, available)
}

/// The control groups that a process is in, from its own up to the root: each of them may set a
/// limit. `own` is what `/proc/self/cgroup` says, `mount` is `/sys/fs/cgroup`.
fn groups(own: &str, mount: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let root = match controllers {
            "" => mount.to_owned(),
            c if c.split(',').any(|c| c == "memory") => mount.join("memory"),
            _ => continue,
        };
        let mut group = root.join(path.trim_start_matches('/'));
        while group.starts_with(&root) {
            found.push(group.clone());
            if !group.pop() {
                break;
            }
        }
    }
    found
}

/// Limit and usage of a group, in bytes, from the files of cgroup version 2 or 1. Page cache that
/// can be dropped does not count as used.
fn limit_of(group: &Path) -> Option<(u64, u64)> {
    let number = |name: &str| {
        fs::read_to_string(group.join(name))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let inactive = stat
        .lines()
        .find_map(|l| l.strip_prefix("inactive_file ")?.trim().parse().ok());
    Some((limit, used.saturating_sub(inactive.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        let machine = Machine::here().unwrap();
        assert!(machine.cores > 0);
        assert!(machine.memory_available > 0 && machine.memory_available <= machine.memory_total);
        assert!(disk_available(Path::new("/")).unwrap() > 0);
        assert_eq!(disk_available(Path::new("/no such folder")), None);
    }

    #[test]
    fn limits_of_groups() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put("memory.max", "max\n");
        put("memory.current", "700\n");
        assert_eq!(limit_of(dir.path()), None, "no limit");
        put("memory.max", "1000\n");
        put("memory.stat", "anon 400\ninactive_file 200\n");
        assert_eq!(limit_of(dir.path()), Some((1000, 500)));
        // The outer group has a higher limit, and others use most of it.
        let own = dir.path().join("a/b");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("memory.max"), "800\n").unwrap();
        fs::write(own.join("memory.current"), "100\n").unwrap();
        let all = groups("4:cpu:/x\n0::/a/b\n", dir.path());
        assert_eq!(all.len(), 3);
        assert_eq!(within(&all, (5000, 4000)), (800, 500));
        assert_eq!(
            within(&all, (5000, 300)),
            (800, 300),
            "the machine has less"
        );
        // Version 1, whose way of saying that there is no limit is a huge one.
        let own = dir.path().join("memory/c");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("memory.limit_in_bytes"), "600\n").unwrap();
        fs::write(own.join("memory.usage_in_bytes"), "200\n").unwrap();
        let above = dir.path().join("memory");
        fs::write(above.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        fs::write(above.join("memory.usage_in_bytes"), "4000\n").unwrap();
        let all = groups("4:cpu,memory:/c\n", dir.path());
        assert_eq!(within(&all, (5000, 4500)), (600, 400));
        assert_eq!(
            parse_meminfo("MemTotal:  10 kB\nMemAvailable:   4 kB\n"),
            Some((10240, 4096))
        );
    }
}
