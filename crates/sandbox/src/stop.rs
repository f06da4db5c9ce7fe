//! Ends the processes of an instance, and waits until they are gone.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::{ProcessId, find_marked, find_with};
use crate::record::Folder;
use crate::{Error, Result};

const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// How often to look whether a process is gone.
const POLL: Duration = Duration::from_millis(20);

/// How many times to look for helpers until none is left, and the pause in between.
const HELPER_ROUNDS: u32 = 50;
const HELPER_PAUSE: Duration = Duration::from_millis(20);

/// Kills every process that runs on this instance's data directory, recorded or not.
pub fn end_all(folder: &Folder, name: &str) -> Result<()> {
    // The servers go first: once killed, they start no more helpers.
    for process in find_with(&folder.mark()) {
        if !end(process, folder) {
            return Err(Error::StillRunning {
                name: name.to_owned(),
                pid: process.pid,
                waited: KILL_PATIENCE,
            });
        }
    }
    end_helpers(folder);
    Ok(())
}

/// Kills everything that the servers of this instance have started: state transfer scripts and
/// their children.
pub fn end_helpers(folder: &Folder) {
    let setting = folder.setting();
    // A helper that was just being started can be missed in the first round.
    for _ in 0..HELPER_ROUNDS {
        let found = find_marked(&setting);
        if found.is_empty() {
            return;
        }
        for process in found {
            process.signal_marked(&setting, Signal::KILL);
            process.reap();
        }
        thread::sleep(HELPER_PAUSE);
    }
}

/// Kills a process of this instance and waits until it is gone. Returns `false` if it is still
/// there.
pub fn end(process: ProcessId, folder: &Folder) -> bool {
    signal_and_wait(process, folder, Signal::KILL, KILL_PATIENCE)
}

/// Signals a process of this instance and waits until it is gone. Leaves any other process alone.
/// Returns `false` if the process is still there.
pub fn signal_and_wait(
    process: ProcessId,
    folder: &Folder,
    signal: Signal,
    patience: Duration,
) -> bool {
    let is_ours = process.signal(&folder.mark(), signal);
    let deadline = Instant::now() + patience;
    let mark = folder.mark();
    // A zombie child still has its PID, and `MySQL` takes it for a running server.
    while process.holds_on(&mark) || ((is_ours || process.has_ended()) && !process.reap()) {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}
