//! Finds what bound a run: the one resource that, had there been more of it, would have made the
//! run faster.
//!
//! The verdict is based on figures over a stretch of the run, such as the data phase: CPU seconds
//! of the server and of this process relative to the cores, time waited for disks and locks as the
//! kernel and the server count it, and how long the workers waited for the source and for the
//! server.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A core counts as busy above this share: the rest goes to scheduling and sampling.
const BUSY: f64 = 0.85;
/// Waiting that takes this share of the workers' time explains a run.
const SHARE: f64 = 0.4;
/// A shorter stretch gives no verdict.
const MIN_SECONDS: f64 = 0.5;

/// Figures over one stretch of a run. Times are in seconds; worker times are sums over all workers.
/// Unknown figures stay at 0 or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Length of the stretch.
    pub wall: f64,
    /// Cores of this machine.
    pub cores: f64,
    /// Workers that send to the server.
    pub workers: f64,
    /// CPU time of the server; `None` if it runs on another machine.
    pub server_cpu: Option<f64>,
    /// CPU time of this process.
    pub client_cpu: f64,
    /// Time that server threads waited for disks; `None` if it cannot be seen.
    pub server_disk_wait: Option<f64>,
    /// Row lock waits as the server counts them (growth of `Innodb_row_lock_time`, in seconds).
    pub lock_wait: f64,
    /// Time that workers waited for chunks: the source is slow.
    pub waiting_for_source: f64,
    /// Time that workers waited for the server's answers.
    pub waiting_for_server: f64,
    /// CPU time of our busiest single thread, which reads and cuts the source.
    pub reader_cpu: f64,
}

/// What bound a stretch of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// The server's CPU, which is the best case.
    ServerCpu,
    /// CPU of this process.
    ClientCpu,
    /// The single thread that reads and cuts the source.
    Reader,
    /// The server's disks.
    Disk,
    /// Locks, between our own workers or with other sessions.
    Locks,
    /// The source: a slow disk, pipe or decompressor.
    Source,
    /// The server, in a way that cannot be seen from here.
    Server,
    /// Nothing stands out, or the stretch was too short.
    Unclear,
}

impl fmt::Display for BoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ServerCpu => "server CPU",
            Self::ClientCpu => "client CPU",
            Self::Reader => "the reading thread",
            Self::Disk => "the server's disk",
            Self::Locks => "locks",
            Self::Source => "the source",
            Self::Server => "the server",
            Self::Unclear => "nothing in particular",
        })
    }
}

/// Decides what bound the stretch that these figures cover.
pub fn verdict(f: &Figures) -> BoundBy {
    if f.wall < MIN_SECONDS || f.cores < 1.0 {
        return BoundBy::Unclear;
    }
    let workers = f.workers.max(1.0);
    let worker_time = workers * f.wall;
    let share = |seconds: f64| seconds / worker_time;
    // Locks come first: they mask everything else, and CPUs may be busy besides.
    if share(f.lock_wait) > SHARE {
        return BoundBy::Locks;
    }
    // All cores of a shared machine are busy: whichever process used more of them is to blame.
    let local = f.server_cpu;
    let used = (local.unwrap_or(0.0) + f.client_cpu) / (f.wall * f.cores);
    if used > BUSY {
        return if local.unwrap_or(0.0) >= f.client_cpu {
            BoundBy::ServerCpu
        } else {
            BoundBy::ClientCpu
        };
    }
    // The workers have nothing to do, so the bottleneck is upstream of them.
    if share(f.waiting_for_source) > SHARE {
        return if f.reader_cpu / f.wall > BUSY {
            BoundBy::Reader
        } else {
            BoundBy::Source
        };
    }
    // The server runs one thread per worker, so it cannot use more cores than there are workers.
    if local.is_some_and(|cpu| cpu / f.wall > BUSY * workers.min(f.cores)) {
        return BoundBy::ServerCpu;
    }
    if f.server_disk_wait.is_some_and(|wait| share(wait) > SHARE) {
        return BoundBy::Disk;
    }
    if share(f.waiting_for_server) > SHARE {
        return match local {
            Some(cpu) if share(cpu) > SHARE => BoundBy::ServerCpu,
            // It waits without computing: log syncs, flushes, free space in the redo log.
            Some(_) if f.server_disk_wait.is_none_or(|w| share(w) > SHARE / 4.0) => BoundBy::Disk,
            Some(_) | None => BoundBy::Server,
        };
    }
    if f.client_cpu / f.wall > BUSY * (workers + 1.0).min(f.cores) {
        return BoundBy::ClientCpu;
    }
    BoundBy::Unclear
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Figures {
        Figures {
            wall: 10.0,
            cores: 4.0,
            workers: 2.0,
            server_cpu: Some(4.0),
            client_cpu: 2.0,
            server_disk_wait: Some(0.0),
            ..Figures::default()
        }
    }

    #[test]
    fn verdicts() {
        let b = base();
        let cases = [
            (
                Figures {
                    server_cpu: Some(28.0),
                    client_cpu: 9.0,
                    ..b
                },
                BoundBy::ServerCpu,
            ),
            (
                Figures {
                    server_cpu: Some(9.0),
                    client_cpu: 28.0,
                    ..b
                },
                BoundBy::ClientCpu,
            ),
            // Two workers keep two of the server's four cores busy.
            (
                Figures {
                    server_cpu: Some(18.5),
                    waiting_for_server: 17.0,
                    ..b
                },
                BoundBy::ServerCpu,
            ),
            (
                Figures {
                    waiting_for_source: 15.0,
                    ..b
                },
                BoundBy::Source,
            ),
            (
                Figures {
                    waiting_for_source: 15.0,
                    reader_cpu: 9.8,
                    ..b
                },
                BoundBy::Reader,
            ),
            (
                Figures {
                    server_disk_wait: Some(12.0),
                    waiting_for_server: 16.0,
                    ..b
                },
                BoundBy::Disk,
            ),
            (
                Figures {
                    lock_wait: 12.0,
                    waiting_for_server: 16.0,
                    ..b
                },
                BoundBy::Locks,
            ),
            (
                Figures {
                    server_cpu: None,
                    waiting_for_server: 17.0,
                    ..b
                },
                BoundBy::Server,
            ),
            (Figures { wall: 0.1, ..b }, BoundBy::Unclear),
            (b, BoundBy::Unclear),
        ];
        for (figures, expected) in cases {
            assert_eq!(verdict(&figures), expected, "{figures:?}");
        }
    }
}
