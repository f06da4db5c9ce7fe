//! Makes sure that commits on a server do not wait for a storage or a network that accepts nothing.
//!
//! While mariadb-backup copies the end of the redo log, nothing can be committed, and a tool whose
//! output is not read holds its locks for just as long. It blocks the signals that ask it to end;
//! what ends it is its lifeline (see [`Lifeline`]), and then the server releases the locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use refloat_run::Events;

use crate::producer::Lifeline;
use crate::tool_log::ToolLog;

/// How long commits may wait while nothing is accepted.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Does `work`, which takes what a tool sends and counts it in `taken`, and ends the tool if
/// commits have waited for `limit` without anything being taken. Returns whether that was so.
pub fn watched<T>(
    (log, taken): (&ToolLog, &AtomicU64),
    (limit, lifeline): (Duration, &Lifeline),
    events: &Events,
    work: impl FnOnce() -> T,
) -> (T, bool) {
    let (over, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            while ended.recv_timeout(limit / 60) == Err(RecvTimeoutError::Timeout) {
                let now = taken.load(Ordering::Relaxed);
                if now != last || !log.blocks_commits() {
                    (last, since) = (now, Instant::now());
                } else if since.elapsed() > limit {
                    events.warn(format!(
                        "commits on the server have waited for {} s, and nothing was stored or sent meanwhile: the copy is aborted, so that they can continue",
                        limit.as_secs()
                    ));
                    lifeline.cut();
                    return true;
                }
            }
            false
        });
        let result = work();
        drop(over);
        (result, watch.join().unwrap_or(false))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::PathBuf;

    use refloat_host::Host;
    use refloat_run::Cancel;

    use super::*;
    use crate::producer::{Input, Producer};
    use crate::tool::{Tool, ToolKind};

    fn ends_it(stage: &str, limit: Duration, script: &str) -> bool {
        let tool = Tool {
            kind: ToolKind::MariadbBackup,
            program: PathBuf::from("mariadb-backup"),
            version: (10, 11, 19),
        };
        let script = format!("echo 'BACKUP STAGE {stage}' >&2; {script}");
        let cancel = Cancel::new();
        let (producer, mut stream) =
            Producer::start(&Host::Local, &tool, &script, &Input::Text(""), &cancel).unwrap();
        let (log, taken) = (producer.log(), AtomicU64::new(0));
        let (_, is_ended) = watched(
            (&log, &taken),
            (limit, &producer.lifeline()),
            &Events::new(),
            // Acts as if nothing could be stored, until the tool has ended.
            || stream.read_to_end(&mut Vec::new()),
        );
        is_ended
    }

    // Hazard of files: a storage or network that accepts nothing while commits are held up: the
    //   tool is stopped, and commits continue
    #[test]
    fn commits_do_not_wait_for_what_takes_nothing() {
        let soon = Duration::from_millis(300);
        // It ends when its input does, and only then.
        assert!(ends_it("BLOCK_COMMIT", soon, "cat >/dev/null"));
        // No commit waits for it.
        assert!(!ends_it("BLOCK_DDL", soon, "sleep 1"));
        // It ends soon by itself.
        assert!(!ends_it("BLOCK_COMMIT", LIMIT, "sleep 0.1"));
    }
}
