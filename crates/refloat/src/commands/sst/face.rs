//! Reports a transfer to the server's log, to its status and to `refloat cluster status`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use refloat_host::{Copying, plain};
use refloat_physical::sst::Caller;
use refloat_report::human;
use refloat_run::events::{EventSink, Record};
use refloat_run::progress::Phase;
use refloat_run::{Cancel, CancelReason, Event, Owner, Run};

use super::call::{Call, Role};
use crate::commands::copy_status::CopyStatus;

/// Interval between progress lines in the log.
const TELL: Duration = Duration::from_secs(10);
/// When the first of them comes: soon, so that an administrator learns the size and the rate.
const TELL_FIRST: Duration = Duration::from_secs(2);
/// Interval between checks whether the server is still running.
const LOOK: Duration = Duration::from_millis(200);

static OF_PERCONA: AtomicBool = AtomicBool::new(false);

/// Selects the vendor whose log format is used.
pub fn write_for(caller: Caller) {
    OF_PERCONA.store(caller == Caller::Percona, Ordering::Relaxed);
}

/// Writes a line into the server's log, in the form of the servers' own scripts.
pub fn line(grade: &str, text: &str) {
    let caller = if OF_PERCONA.load(Ordering::Relaxed) {
        Caller::Percona
    } else {
        Caller::MariaDb
    };
    eprintln!("{}", line_of(caller, grade, text));
}

fn line_of(caller: Caller, grade: &str, text: &str) -> String {
    let text = plain(text);
    match (caller, grade) {
        (Caller::MariaDb, _) => format!("WSREP_SST: [{grade}] {text}"),
        // Percona's servers take the severity from the first letters.
        (Caller::Percona, "ERROR") => format!("ERR:{text}"),
        (Caller::Percona, "WARNING") => format!("WRN:{text}"),
        (Caller::Percona, _) => format!("INF:{text}"),
    }
}

/// Writes notes and warnings into the server's log.
pub struct LogFace;

impl EventSink for LogFace {
    fn event(&self, record: &Record) {
        match &record.event {
            Event::Note { message } => line("INFO", message),
            Event::Warning { message, .. } => line("WARNING", message),
            _ => {}
        }
    }
}

/// Cancels a transfer when the server has ended. The pipe to the server does not show that: the
/// programs that a server starts inherit both of its ends.
pub fn end_with_the_server(call: &Call, cancel: &Cancel) {
    let Some(server) = call.parent.or_else(caller) else {
        return;
    };
    let server = Owner {
        pid: server,
        pid_start: 0,
        ..Owner::this()
    };
    let cancel = cancel.clone();
    std::thread::spawn(move || {
        while !cancel.is_cancelled() {
            if server.alive() == Some(false) {
                cancel.cancel(CancelReason::Failed(
                    "the server that asked for the transfer has ended".to_owned(),
                ));
            }
            std::thread::sleep(LOOK);
        }
    });
}

/// The process that started this one, directly or through a shell.
fn caller() -> Option<u32> {
    let of = |pid: u32, name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    let parent = |pid: u32| of(pid, "PPid:")?.parse::<u32>().ok();
    let direct = parent(std::process::id())?;
    if of(direct, "Name:")?.ends_with("sh") {
        parent(direct)
    } else {
        Some(direct)
    }
}

/// Reports the progress to the server and its log, until the status is ended.
pub fn copy_status(call: &Call, run: &Run) -> CopyStatus {
    let of = call.clone();
    let (mut next_report, mut total) = (Instant::now() + TELL_FIRST, None);
    CopyStatus::start(&call.datadir, call.role.name(), run, move |copying, now| {
        if Instant::now() >= next_report && now.phase <= Phase::Data {
            next_report = Instant::now() + TELL;
            line("INFO", &so_far(&of, copying, now.source_rate));
        }
        if of.progress {
            if total != now.source_total {
                total = now.source_total;
                let _ = super::say(&format!("total {}", total.unwrap_or(0)));
            }
            let _ = super::say(&format!("complete {}", now.source_done));
        }
    })
}

fn so_far(call: &Call, copying: &Copying, rate: f64) -> String {
    let done = match call.role {
        Role::Joiner => "received",
        Role::Donor => "read",
    };
    let of = copying.total.map_or_else(String::new, |total| {
        format!(" of about {}", human::bytes(total))
    });
    let left = copying.left.map(Duration::from_secs).map(human::clock);
    let left = left.map_or_else(String::new, |left| format!(", {left} left"));
    format!(
        "{done} {}{of}{left}, {}",
        human::bytes(copying.bytes),
        human::byte_rate(rate)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_servers_own_scripts() {
        for (caller, grade, line) in [
            (Caller::MariaDb, "INFO", "WSREP_SST: [INFO] it goes on"),
            (Caller::Percona, "INFO", "INF:it goes on"),
            (Caller::Percona, "WARNING", "WRN:it goes on"),
            (Caller::Percona, "ERROR", "ERR:it goes on"),
        ] {
            assert_eq!(line_of(caller, grade, "it goes on"), line);
        }
    }
}
