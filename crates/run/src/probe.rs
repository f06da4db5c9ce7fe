//! Resource usage of processes: our own, and a server's if it runs on this machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use refloat_wire::{Connection, Error, Identity};

use crate::process::{after_name, start_of};

/// What a process has used since it started.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// CPU seconds of all its threads, including kernel time.
    pub cpu_seconds: f64,
    /// Bytes that it caused to be read from disks; 0 if unknown.
    pub read_bytes: u64,
    /// Bytes that it caused to be written to disks; 0 if unknown.
    pub written_bytes: u64,
    /// Seconds that its threads waited for disks; 0 if the kernel does not count them.
    pub disk_wait_seconds: f64,
}

/// A server process to be sampled repeatedly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerProbe {
    pid: u32,
    start: u64,
}

impl ServerProbe {
    /// Probes the process with this id. `None` if no such process is running.
    pub fn of_pid(pid: u32) -> Option<Self> {
        start_of(pid).map(|start| Self { pid, start })
    }

    /// Finds the process of a server if it runs on this machine: it has the name of a database
    /// server and works in the server's data directory. Sees only this user's processes, unless
    /// this is root.
    pub fn find(server: &Identity) -> Option<Self> {
        let datadir = Place::of_data(server)?;
        fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let command = fs::read(entry.path().join("cmdline")).ok()?;
            let here = is_server(&command) && Place::of(&entry.path().join("cwd"))? == datadir;
            here.then(|| Self::of_pid(pid)).flatten()
        })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Usage so far; `None` once the process is gone.
    pub fn usage(&self) -> Option<Usage> {
        (start_of(self.pid)? == self.start).then(|| usage_of(&self.pid.to_string()))?
    }
}

/// Identifies a directory itself rather than its path: the same path means another directory in a
/// container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// The directory at a path. `None`: there is none, or it is not visible.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }

    /// The data directory of a server, if it is on this machine.
    pub fn of_data(server: &Identity) -> Option<Self> {
        // A different name means a different machine.
        let is_here = rustix::system::uname().nodename().to_string_lossy() == server.hostname;
        is_here.then(|| Self::of(Path::new(&server.datadir)))?
    }
}

/// Whether a command line (words ended by NUL) belongs to a database server. Every word counts, not
/// only the first: a server may be started through another system's program loader.
fn is_server(command: &[u8]) -> bool {
    command.split(|b| *b == 0).any(|word| {
        let name = word.rsplit(|b| *b == b'/').next().unwrap_or_default();
        matches!(name, b"mysqld" | b"mariadbd")
    })
}

/// Usage of this process so far.
pub fn own_usage() -> Option<Usage> {
    usage_of("self")
}

/// Usage of the calling thread so far.
pub fn thread_usage() -> Option<Usage> {
    usage_of("thread-self")
}

fn usage_of(process: &str) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    parse(&stat, &io, ticks)
}

fn parse(stat: &str, io: &str, ticks: f64) -> Option<Usage> {
    // Fields are numbered from 1, and the first one after the name is field 3.
    let fields: Vec<&str> = after_name(stat)?.split_ascii_whitespace().collect();
    let field = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let line = |name: &str| {
        io.lines()
            .find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or(0)
    };
    Some(Usage {
        cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
        read_bytes: line("read_bytes:"),
        written_bytes: line("write_bytes:"),
        disk_wait_seconds: field(42).unwrap_or(0) as f64 / ticks,
    })
}

/// When the server was started, in seconds since 1970 by its own clock. `None` if it does not
/// report its uptime.
pub fn server_started(conn: &mut Connection) -> Result<Option<i64>, Error> {
    let up = conn.query("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
    let up: Option<i64> = up.str(0, 1).and_then(|seconds| seconds.parse().ok());
    let now = conn.query_value("SELECT UNIX_TIMESTAMP()")?;
    let now: Option<i64> = now.and_then(|now| now.split('.').next()?.parse().ok());
    Ok(now.zip(up).map(|(now, up)| now - up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_proc() {
        let stat = "7 (a) b c) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 40 0 900 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 0 25 0";
        let usage = parse(
            stat,
            "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\n",
            100.0,
        )
        .unwrap();
        assert!((usage.cpu_seconds - 2.0).abs() < 1e-9);
        assert_eq!((usage.read_bytes, usage.written_bytes), (4096, 8192));
        assert!((usage.disk_wait_seconds - 0.25).abs() < 1e-9);
        assert_eq!(parse("nonsense", "", 100.0), None);
    }

    #[test]
    fn this_process_uses_something_and_is_no_server() {
        let spin = std::time::Instant::now();
        while spin.elapsed() < std::time::Duration::from_millis(60) {}
        assert!(own_usage().unwrap().cpu_seconds > 0.0);
        let here = std::env::current_dir().unwrap();
        let server = Identity {
            uuid: None,
            hostname: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            port: 1,
            datadir: here.to_str().unwrap().to_owned(),
            version: String::new(),
        };
        assert_eq!(ServerProbe::find(&server), None);
    }
}
