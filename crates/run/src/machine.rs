//! Memory, cores and disk space of this machine, and memory of others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel says how much memory there is (`proc(5)`).
const MEMINFO: &str = "/proc/meminfo";
/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";
/// Files of a control group: its limit and what it uses, in version 2 and 1, and page cache in it.
const GROUP_FILES: [&str; 5] = [
    "memory.max",
    "memory.limit_in_bytes",
    "memory.current",
    "memory.usage_in_bytes",
    "memory.stat",
];

/// Small files by their paths. Those that cannot be read are missing.
pub type Texts = BTreeMap<PathBuf, String>;

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
        let (total, available) = memory("self", |paths| {
            let read = |path: &PathBuf| Some((path.clone(), fs::read_to_string(path).ok()?));
            paths.iter().filter_map(read).collect()
        })?;
        Some(Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_available: available,
            memory_total: total,
        })
    }
}

/// Total memory, and memory available without swapping, to a process and others in its control
/// groups, in bytes. `process` is its number, or `self`; `read` reads files of its machine. `None`
/// without `/proc/meminfo`.
pub fn memory(process: &str, read: impl Fn(&[PathBuf]) -> Texts) -> Option<(u64, u64)> {
    let file = PathBuf::from(format!("/proc/{process}/cgroup"));
    let texts = read(&[PathBuf::from(MEMINFO), file.clone()]);
    let all = parse_meminfo(texts.get(Path::new(MEMINFO))?)?;
    let memberships = texts.get(&file).map_or("", String::as_str);
    let groups = groups(memberships, Path::new(GROUPS));
    let files: Vec<PathBuf> = groups
        .iter()
        .flat_map(|group| GROUP_FILES.map(|name| group.join(name)))
        .collect();
    Some(within(&groups, &read(&files), all))
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
fn within(groups: &[PathBuf], texts: &Texts, (mut total, mut available): (u64, u64)) -> (u64, u64) {
    for (limit, used) in groups.iter().filter_map(|group| limit_of(group, texts)) {
        total = total.min(limit);
        available = available.min(limit.saturating_sub(used));
    }
    (total, available)
}

/// The control groups that a process is in, from its own up to the root: each of them may set a
/// limit. `memberships` is what `/proc/self/cgroup` says, `mount` is `/sys/fs/cgroup`.
fn groups(memberships: &str, mount: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in memberships.lines() {
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
fn limit_of(group: &Path, texts: &Texts) -> Option<(u64, u64)> {
    let number = |name: &str| texts.get(&group.join(name))?.trim().parse::<u64>().ok();
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = texts.get(&group.join("memory.stat"));
    let inactive = stat
        .map_or("", String::as_str)
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

    const OLD: &str = "/sys/fs/cgroup/memory/c";

    /// A machine with these files.
    fn machine(files: &[(&str, &str)]) -> Option<(u64, u64)> {
        let files: Texts = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect();
        memory("7", |paths| {
            let files = files.iter().filter(|(path, _)| paths.contains(path));
            files
                .map(|(path, text)| (path.clone(), text.clone()))
                .collect()
        })
    }

    #[test]
    fn limits_of_groups() {
        let free = (MEMINFO, "MemTotal:  10 kB\nMemAvailable:   4 kB\n");
        assert_eq!(machine(&[]), None);
        assert_eq!(machine(&[free]), Some((10240, 4096)), "no groups");
        let group = |name: &str| format!("{GROUPS}/{name}");
        let (max, current, stat) = (
            group("memory.max"),
            group("memory.current"),
            group("memory.stat"),
        );
        let memberships = ("/proc/7/cgroup", "4:cpu:/x\n0::/a/b\n");
        let none = [free, memberships, (&max, "max\n"), (&current, "700\n")];
        assert_eq!(machine(&none), Some((10240, 4096)), "no limit");
        // The outer group has a higher limit, and others use most of it.
        let (own_max, own_current) = (group("a/b/memory.max"), group("a/b/memory.current"));
        let mut both = vec![
            free,
            memberships,
            (&max, "1000\n"),
            (&current, "700\n"),
            (&stat, "anon 400\ninactive_file 200\n"),
            (&own_max, "800\n"),
            (&own_current, "100\n"),
        ];
        assert_eq!(machine(&both), Some((800, 500)));
        both[0] = (MEMINFO, "MemTotal: 10 kB\nMemAvailable: 0 kB\n");
        assert_eq!(machine(&both), Some((800, 0)), "the machine has less");
        // Version 1, whose way of saying that there is no limit is a huge one.
        let old = |name: &str| format!("{OLD}/{name}");
        let (limit, usage) = (old("memory.limit_in_bytes"), old("memory.usage_in_bytes"));
        let above = group("memory/memory.limit_in_bytes");
        let used = group("memory/memory.usage_in_bytes");
        let first = [
            free,
            ("/proc/7/cgroup", "4:cpu,memory:/c\n0::/\n"),
            (&limit, "600\n"),
            (&usage, "200\n"),
            (&above, "9223372036854771712\n"),
            (&used, "4000\n"),
        ];
        assert_eq!(machine(&first), Some((600, 400)));
    }
}
