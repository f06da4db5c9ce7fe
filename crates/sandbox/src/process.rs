//! Processes: whether one is still the one that was started, and signals to that one only.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use serde::{Deserialize, Serialize};

/// How often a process that takes on its program is looked at.
const EXEC_POLL: Duration = Duration::from_millis(1);

/// A process that was started here: its number and the moment of its start.
///
/// Numbers are used again by the system; number and start together are not, until the machine starts anew.
/// What the process was started with is checked as well before it is believed to be ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The process number.
    pub pid: u32,
    /// Clock ticks between the start of the machine and the start of the process: field 22 of
    /// `/proc/<pid>/stat`, see proc(5).
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this number now. `None`: there is none, or it has ended.
    pub fn now(pid: u32) -> Option<Self> {
        let (state, start_time) = read_stat(pid)?;
        (!matches!(state, 'Z' | 'X' | 'x')).then_some(Self { pid, start_time })
    }

    /// Does it run still, and was it started with this argument?
    pub fn runs_with(self, argument: &str) -> bool {
        Self::now(self.pid) == Some(self) && has_argument(self.pid, argument)
    }

    /// Has it anything open yet? It may be past the point where it can be told apart: a process that is killed gives
    /// up its memory first, then each thread its share of the open files and ports.
    ///
    /// Ask this of a process only after it was seen to run with the argument, or was signalled.
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

    /// Waits until it is the program that was started with this argument, and none of those that `wrappers` names and
    /// that become the program. `false`: it ended, or did not come so far within `patience`.
    ///
    /// While a process takes on a program its arguments are there in part, or not at all: read on a busy machine, a server
    /// that begins looked like none.
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

    /// Sends a signal, but only to the process that `runs_with` the argument. `false`: it is gone.
    pub fn signal(self, argument: &str, signal: Signal) -> bool {
        self.signal_if(signal, || self.runs_with(argument))
    }

    /// Sends a signal, but only to the process that runs with this setting (`NAME=value`) in its environment, which
    /// children inherit. `false`: it is gone.
    pub fn signal_marked(self, setting: &str, signal: Signal) -> bool {
        self.signal_if(signal, || {
            Self::now(self.pid) == Some(self) && has_setting(self.pid, setting)
        })
    }

    /// Is it stopped by SIGSTOP or the like?
    pub fn is_frozen(self) -> bool {
        matches!(read_stat(self.pid), Some(('T' | 't', start)) if start == self.start_time)
    }

    fn signal_if(self, signal: Signal, is_ours: impl FnOnce() -> bool) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return false;
        };
        // The descriptor holds on to one process: what is checked after it was opened is what is signalled.
        let Ok(descriptor) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else {
            return false;
        };
        is_ours() && rustix::process::pidfd_send_signal(descriptor, signal).is_ok()
    }

    /// Has it ended, with nobody having waited for it yet?
    pub fn has_ended(self) -> bool {
        matches!(read_stat(self.pid), Some(('Z' | 'X' | 'x', start)) if start == self.start_time)
    }

    /// Takes the exit status of a child that has ended. Does nothing for a process that is no child of ours.
    ///
    /// `false`: it is a child of ours, and its number stays taken, because it has not ended as a whole.
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

/// Every process of this machine that was started with this argument.
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

/// The server that was started with this argument and goes on serving, which one that only recovers or initialises does not.
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

/// The name of the program that a command line runs, by itself or through a dynamic loader that is given by name.
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

/// Every process of this machine that was started with this setting (`NAME=value`) in its environment, as far as it
/// may be looked at: root may look at all, others at their own.
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

/// See environ(5) in proc(5): what the process was started with.
fn has_setting(pid: u32, setting: &str) -> bool {
    let settings = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    contains(&settings, setting)
}

fn has_argument(pid: u32, argument: &str) -> bool {
    contains(&command_line(pid), argument)
}

/// Is there this one among strings that end with NUL?
fn contains(strings: &[u8], wanted: &str) -> bool {
    strings
        .split(|&byte| byte == 0)
        .any(|one| one == wanted.as_bytes())
}

/// Empty for a process that is gone or going.
fn command_line(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// How many threads of a process have not ended; a process that ended and was not waited for counts as one.
fn thread_count(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

fn read_stat(pid: u32) -> Option<(char, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// State and start time out of `/proc/<pid>/stat`. The program's name, in parentheses, may hold anything.
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
