//! Recognises the processes that we started, and signals those only.

use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

const EXEC_POLL: Duration = Duration::from_millis(1);

/// A process that was started here, identified by PID and start time.
///
/// The system reuses PIDs, but not a PID with the same start time until the machine reboots. Before
/// we treat a process as ours, we also check the argument it was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process ID.
    pub pid: u32,
    /// Clock ticks from boot to the start of the process: field 22 of `/proc/<pid>/stat`, see
    /// proc(5).
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this PID now. `None` if there is none, or if it has ended.
    pub fn now(pid: u32) -> Option<Self> {
        let (state, start_time) = read_stat(pid)?;
        (!matches!(state, 'Z' | 'X' | 'x')).then_some(Self { pid, start_time })
    }

    /// Is it still running, and was it started with this argument?
    pub fn runs_with(self, argument: &str) -> bool {
        Self::now(self.pid) == Some(self) && has_argument(self.pid, argument)
    }

    /// Does it still hold anything open? This is also true of a process that can no longer be
    /// identified: a killed process gives up its memory first, and each of its threads then
    /// releases its share of the open files and ports.
    ///
    /// Call this only for a process that was seen running with the argument, or that was signalled.
    pub fn holds_on(self, argument: &str) -> bool {
        match read_stat(self.pid) {
            Some((state, start_time)) if start_time == self.start_time => match state {
                'Z' | 'X' | 'x' => thread_count(self.pid) > 1,
                _ => {
                    let line = command_line(self.pid);
                    line.is_empty() || contains(&line, argument)
                }
            },
            _ => false,
        }
    }

    /// Waits until the process runs the program with this argument, and is past the `wrappers` that
    /// exec it. Returns `false` if it ended, or did not get that far within `patience`.
    ///
    /// During exec, only some of the arguments are visible, or none. On a busy machine a starting
    /// server was read in that state and not recognised as one.
    pub fn becomes(self, argument: &str, wrappers: &[&str], patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while Self::now(self.pid) == Some(self) && Instant::now() < deadline {
            let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
            if !wrappers.contains(&name.trim_end()) && has_argument(self.pid, argument) {
                return true;
            }
            thread::sleep(EXEC_POLL);
        }
        false
    }

    /// Signals the process, but only if it `runs_with` the argument. Returns `false` if it is gone.
    pub fn signal(self, argument: &str, signal: Signal) -> bool {
        self.signal_if(signal, || self.runs_with(argument))
    }

    /// Signals the process, but only if its environment holds this setting (`NAME=value`), which
    /// children inherit. Returns `false` if it is gone.
    pub fn signal_marked(self, setting: &str, signal: Signal) -> bool {
        self.signal_if(signal, || {
            Self::now(self.pid) == Some(self) && has_setting(self.pid, setting)
        })
    }

    /// Is it stopped, by SIGSTOP or a similar signal?
    pub fn is_frozen(self) -> bool {
        matches!(read_stat(self.pid), Some(('T' | 't', start)) if start == self.start_time)
    }

    fn signal_if(self, signal: Signal, is_ours: impl FnOnce() -> bool) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return false;
        };
        // The descriptor pins one process: the process checked below is the one that gets the
        // signal.
        let Ok(descriptor) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        is_ours() && rustix::process::pidfd_send_signal(descriptor, signal).is_ok()
    }

    /// Is it a zombie: ended, but not yet reaped?
    pub fn has_ended(self) -> bool {
        matches!(read_stat(self.pid), Some(('Z' | 'X' | 'x', start)) if start == self.start_time)
    }

    /// Reaps a child that has ended. Does nothing if the process is not our child.
    ///
    /// Returns `false` if it is our child and still holds its PID because not all of it has ended.
    pub fn reap(self) -> bool {
        if read_stat(self.pid).is_none_or(|(_, start_time)| start_time != self.start_time) {
            return true;
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return true;
        };
        !matches!(
            rustix::process::waitpid(Some(pid), WaitOptions::NOHANG),
            Ok(None)
        )
    }
}

/// Every process on this machine that was started with this argument.
pub fn find_with(argument: &str) -> Vec<ProcessId> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| has_argument(pid, argument))
        .filter_map(ProcessId::now)
        .collect()
}

/// The process that serves this data directory (`argument`). Servers that only recover or
/// initialise it do not count.
pub fn find_server(argument: &str) -> Option<ProcessId> {
    const PROGRAMS: [&str; 2] = ["mariadbd", "mysqld"];
    const ENDS_BY_ITSELF: [&str; 4] = [
        "--wsrep-recover",
        "--initialize-insecure",
        "--bootstrap",
        "--help",
    ];
    find_with(argument).into_iter().find(|process| {
        let line = command_line(process.pid);
        PROGRAMS
            .iter()
            .any(|one| program_of(&line) == one.as_bytes())
            && !ENDS_BY_ITSELF.iter().any(|word| contains(&line, word))
    })
}

/// The name of the program that a command line runs, directly or through an explicit dynamic
/// loader.
fn program_of(line: &[u8]) -> &[u8] {
    fn name(word: &[u8]) -> &[u8] {
        word.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }
    let mut words = line.split(|&byte| byte == 0);
    let first = name(words.next().unwrap_or_default());
    if !first.starts_with(b"ld-linux") {
        return first;
    }
    // See ld.so(8): options, some with a value, then the program.
    while let Some(word) = words.next() {
        match word {
            b"--library-path"
            | b"--argv0"
            | b"--preload"
            | b"--audit"
            | b"--inhibit-rpath"
            | b"--glibc-hwcaps-prepend"
            | b"--glibc-hwcaps-mask" => {
                words.next();
            }
            option if option.starts_with(b"--") => {}
            program => return name(program),
        }
    }
    first
}

/// Every process on this machine that was started with this setting (`NAME=value`) in its
/// environment. Root sees all processes; other users see only their own.
pub fn find_marked(setting: &str) -> Vec<ProcessId> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| has_setting(pid, setting))
        .filter_map(ProcessId::now)
        .collect()
}

/// Looks in the environment that the process was started with: see `/proc/<pid>/environ` in
/// proc(5).
fn has_setting(pid: u32, setting: &str) -> bool {
    let settings = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    contains(&settings, setting)
}

fn has_argument(pid: u32, argument: &str) -> bool {
    contains(&command_line(pid), argument)
}

/// Is `wanted` one of these NUL-terminated strings?
fn contains(strings: &[u8], wanted: &str) -> bool {
    strings
        .split(|&byte| byte == 0)
        .any(|one| one == wanted.as_bytes())
}

/// Empty if the process is gone or on its way out.
fn command_line(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The number of threads that have not ended. A zombie counts as one.
fn thread_count(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

fn read_stat(pid: u32) -> Option<(char, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// State and start time from `/proc/<pid>/stat`. The program name, in parentheses, may contain
/// anything.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is field 3, so field 22 is the eighteenth after it (counting from 0).
    let start_time = fields.nth(18)?.parse().ok()?;
    Some((state, start_time))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_start_time_is_field_22() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 23";
        assert_eq!(parse_stat(stat), Some(('S', 4242)));
        assert_eq!(parse_stat("7 (cut"), None);
    }

    #[test]
    fn a_program_is_known_behind_a_loader() {
        assert_eq!(
            program_of(b"/usr/sbin/mariadbd\0--user=mysql\0"),
            b"mariadbd"
        );
        assert_eq!(
            program_of(
                b"/t/lib/ld-linux-x86-64.so.2\0--inhibit-cache\0--library-path\0/t/lib\0/t/sbin/mariadbd\0--user=x\0"
            ),
            b"mariadbd"
        );
        assert_eq!(program_of(b"sh\0/usr/sbin/mariadbd\0"), b"sh");
        assert_eq!(program_of(b""), b"");
    }

    #[test]
    fn a_process_is_known_from_the_moment_that_it_has_its_program() {
        const MARK: &str = "86399.125";
        for _ in 0..50 {
            let mut child = Command::new("setsid")
                .args(["sleep", MARK])
                .spawn()
                .unwrap();
            let process = ProcessId::now(child.id()).unwrap();
            assert!(process.becomes(MARK, &["setsid"], Duration::from_secs(60)));
            for _ in 0..200 {
                assert!(process.runs_with(MARK));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!process.becomes(MARK, &["setsid"], Duration::from_secs(60)));
        }
    }

    #[test]
    fn this_process_is_found_and_another_start_time_is_not_it() {
        let me = ProcessId::now(std::process::id()).unwrap();
        let argument = std::env::args().next().unwrap();
        assert!(me.runs_with(&argument));
        assert!(!me.runs_with("--datadir=/nowhere"));
        let older = ProcessId {
            start_time: me.start_time + 1,
            ..me
        };
        assert!(!older.runs_with(&argument));
        assert!(!older.signal(&argument, Signal::KILL));
        assert!(find_with(&argument).contains(&me));
    }
}
