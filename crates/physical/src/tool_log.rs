//! What a tool says while it copies a server.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use refloat_host::plain;

/// The last message of a tool that has succeeded.
pub const DONE: &str = "completed OK!";
/// The message of a tool whose copy of the redo log may be incomplete.
const TORN: &str = "no parse limit";
/// Lines of the tool that are kept for a message.
const LAST_LINES: usize = 12;

/// How far mariadb-backup is (`BACKUP STAGE` of `MariaDB`; the manual's page of that name).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Tablespaces of `InnoDB` and Aria tables are copied, and nobody is held up.
    Start = 0,
    /// Tables that nobody uses are closed.
    Flush = 1,
    /// Definitions cannot change.
    BlockDdl = 2,
    /// Nothing can be committed.
    BlockCommit = 3,
    /// The locks are released.
    End = 4,
}

impl Stage {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Start, "START"),
        (Self::Flush, "FLUSH"),
        (Self::BlockDdl, "BLOCK_DDL"),
        (Self::BlockCommit, "BLOCK_COMMIT"),
        (Self::End, "END"),
    ];

    /// The stage that a line announces.
    fn started_by(line: &str) -> Option<Self> {
        if line.contains("Finished") || line.contains("Finishing") {
            return None;
        }
        let (_, name) = line.split_once("BACKUP STAGE ")?;
        let found = Self::ALL.iter().find(|(_, word)| name.trim() == *word);
        found.map(|(stage, _)| *stage)
    }
}

/// For how long commits are held up.
#[derive(Debug, Default)]
struct Blocked {
    since: Option<Instant>,
    sum: Duration,
}

/// What a tool has said so far.
#[derive(Debug)]
pub struct ToolLog {
    stage: AtomicU8,
    scanned: AtomicU64,
    /// Whether its last message reports success.
    pub done: AtomicBool,
    /// Whether it has said that its copy of the redo log may be incomplete.
    pub torn: AtomicBool,
    /// Whether its disk is full.
    pub full: AtomicBool,
    blocked: Mutex<Blocked>,
    last: Mutex<VecDeque<String>>,
}

impl ToolLog {
    /// The log of a tool that has said nothing yet.
    pub fn new() -> Self {
        Self {
            stage: AtomicU8::new(0),
            scanned: AtomicU64::new(0),
            done: AtomicBool::new(false),
            torn: AtomicBool::new(false),
            full: AtomicBool::new(false),
            blocked: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        let index = usize::from(self.stage.load(Ordering::Relaxed));
        Stage::ALL
            .get(index)
            .map_or(Stage::End, |(stage, _)| *stage)
    }

    /// Up to which LSN it has copied the redo log; 0: it has not said.
    pub fn scanned(&self) -> u64 {
        self.scanned.load(Ordering::Relaxed)
    }

    /// For how long it has held up commits.
    pub fn blocked(&self) -> Duration {
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.sum
            + blocked
                .since
                .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether it holds up commits.
    pub fn blocks_commits(&self) -> bool {
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        blocked.since.is_some()
    }

    /// Takes one line of its output.
    pub fn hear(&self, line: &str) {
        if let Some(stage) = Stage::started_by(line) {
            self.stage.store(stage as u8, Ordering::Relaxed);
            let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
            if stage == Stage::BlockCommit {
                blocked.since.get_or_insert_with(Instant::now);
            } else if let Some(since) = blocked.since.take() {
                blocked.sum += since.elapsed();
            }
        }
        if let Some(lsn) = scanned_in(line) {
            self.scanned.store(lsn, Ordering::Relaxed);
            return;
        }
        if line.contains(TORN) {
            self.torn.store(true, Ordering::Relaxed);
        }
        self.done
            .store(line.trim_end().ends_with(DONE), Ordering::Relaxed);
        // These come for each file.
        if line.contains("Streaming ")
            || line.contains("...done")
            || line.contains(" is copied successfully")
        {
            return;
        }
        // What a tool adds that has failed already.
        if line.contains("my_thread_global_end()") || line.contains("srv_start() returned") {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(plain(line));
    }

    /// The line that says best why it failed: its last complaint, or its last line.
    pub fn reason(&self) -> String {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let found = |words: &[&str]| {
            last.iter().rev().find(|line| {
                let lower = line.to_ascii_lowercase();
                words.iter().any(|word| lower.contains(word))
            })
        };
        // Damage, and keys that are not there, are reported some lines before the copy fails
        // because of them.
        let complaint = found(&["corrupt", "encryption key"])
            .or_else(|| found(&["error", "fail", "cannot", "can't", "only able"]));
        let line = complaint.or_else(|| last.back());
        line.map_or_else(|| "it says nothing".to_owned(), |line| without_clock(line))
    }
}

/// The LSN in "[00] 2026-… >> log scanned up to (44760)".
fn scanned_in(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("log scanned up to (")?;
    rest.split_once(')')?.0.parse().ok()
}

/// A line without thread number and time: `[00] 2026-11-28 06:50:25 `, `[00] FATAL ERROR: 2026-…`.
fn without_clock(line: &str) -> String {
    let rest = match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => line,
    };
    let shape = "0000-00-00 00:00:00 ".as_bytes();
    let is_clock = |bytes: &[u8]| {
        bytes
            .iter()
            .zip(shape)
            .all(|(byte, like)| byte == like || (*like == b'0' && byte.is_ascii_digit()))
    };
    let clock = rest.as_bytes().windows(shape.len()).position(is_clock);
    match clock {
        Some(at) => format!("{}{}", &rest[..at], &rest[at + shape.len()..]),
        None => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_says_is_understood() {
        let log = ToolLog::new();
        for (line, stage) in [
            (
                "[00] 2026-11-28 06:50:25 Starting BACKUP STAGE START",
                Stage::Start,
            ),
            (
                "[00] 2026-11-28 06:50:26 >> log scanned up to (44760)",
                Stage::Start,
            ),
            (
                "[00] 2026-11-28 06:50:26 Finished BACKUP STAGE START",
                Stage::Start,
            ),
            (
                "[00] 2026-11-28 06:50:26 Starting BACKUP STAGE FLUSH",
                Stage::Flush,
            ),
            (
                "[00] 2026-11-28 06:50:26 Started BACKUP STAGE BLOCK_DDL",
                Stage::BlockDdl,
            ),
            (
                "[00] 2026-11-28 06:50:26 Acquired locks for BACKUP STAGE BLOCK_DDL",
                Stage::BlockDdl,
            ),
            (
                "[00] 2026-11-28 06:50:26 Starting BACKUP STAGE BLOCK_COMMIT",
                Stage::BlockCommit,
            ),
            (
                "[00] 2026-11-28 06:50:26 Executing BACKUP STAGE END",
                Stage::End,
            ),
        ] {
            log.hear(line);
            assert_eq!(log.stage(), stage, "{line}");
        }
        assert_eq!(log.scanned(), 44760);
        assert!(!log.done.load(Ordering::Relaxed));
        log.hear("[00] 2026-11-28 06:50:26 completed OK!");
        assert!(log.done.load(Ordering::Relaxed));
        log.hear("[00] FATAL ERROR: 2026-11-28 06:50:26 disk full");
        assert!(!log.done.load(Ordering::Relaxed), "not its last word");
        log.hear("[00] 2026-11-28 06:50:26 Streaming ./a.ibd");
        assert_eq!(log.reason(), "FATAL ERROR: disk full");
    }
}
