//! Live output of a run: a drawn block on a terminal, or a few plain lines elsewhere.
//!
//! The faces receive events through an [`EventSink`], to be added to the run's events. A single
//! thread draws, ten times a second, from the run's progress. Workers never wait for a terminal. A
//! heartbeat emits progress snapshots for whatever records them.

use std::io::{self, Stderr, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use refloat_run::events::{Event, EventSink, Events, Record, RunResult};
use refloat_run::progress::{Progress, Snapshot, TableState};

use crate::human;
use crate::progress::{Style, TABLE_LINES_MAX, TableView, View, lines};
use crate::terminal::{Block, fit, stderr_size};

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Runs that end sooner draw nothing.
const FIRST_FRAME: Duration = Duration::from_millis(250);
/// Number of warnings printed live. Later ones are counted, and listed in the summary.
const WARNINGS_SHOWN: u32 = 20;
/// Maximum width of a message, in cells.
const MESSAGE_WIDTH: usize = 500;

/// The drawn display. Stopping or dropping it clears it from the screen.
pub struct TerminalFace {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    progress: Progress,
    style: Style,
    screen: Mutex<Screen>,
    stop: Stop,
}

struct Screen {
    block: Block<Stderr>,
    warnings: u32,
    /// Writing failed, so the terminal is gone. Write nothing more.
    gone: bool,
}

impl TerminalFace {
    /// Starts drawing `progress` on stderr, which must be a terminal.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(progress: &Progress, style: Style) -> io::Result<Self> {
        let screen = Screen {
            block: Block::new(io::stderr()),
            warnings: 0,
            gone: false,
        };
        let shared = Arc::new(Shared {
            progress: progress.clone(),
            style,
            screen: Mutex::new(screen),
            stop: Stop::default(),
        });
        let thread = thread::Builder::new().name("progress".into()).spawn({
            let shared = shared.clone();
            move || shared.draw_until_stopped()
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The sink to add to the run's events. It prints messages above the block.
    pub fn sink(&self) -> Arc<dyn EventSink> {
        self.shared.clone()
    }

    /// A function that prints a line above the block. It may be called from any thread.
    pub fn printer(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let shared = self.shared.clone();
        move |text: &str| shared.print(text)
    }

    /// Clears the block from the screen.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop.now();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed its message. Clear the screen either way.
            drop(thread.join());
        }
        let _ = self.shared.screen().block.clear(stderr_size());
    }
}

impl Drop for TerminalFace {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw_until_stopped(&self) {
        let mut wait = FIRST_FRAME;
        while !self.stop.wait(wait) {
            wait = FRAME;
            let view = view(&self.progress.snapshot());
            let size = stderr_size();
            let frame = lines(&view, size.columns, size.rows, self.style);
            let mut screen = self.screen();
            if screen.gone {
                return;
            }
            screen.gone = screen.block.draw(&frame, size).is_err();
        }
    }

    fn print(&self, text: &str) {
        let mut screen = self.screen();
        if !screen.gone {
            screen.gone = screen.block.print_above(text, stderr_size()).is_err();
        }
    }
}

impl EventSink for Shared {
    fn event(&self, record: &Record) {
        let Some((is_warning, text)) = message(&record.event) else {
            return;
        };
        if is_warning {
            let mut screen = self.screen();
            screen.warnings = screen.warnings.saturating_add(1);
            let count = screen.warnings;
            drop(screen);
            if count == WARNINGS_SHOWN + 1 {
                self.print("refloat: more warnings follow; the summary lists them");
            }
            if count > WARNINGS_SHOWN {
                return;
            }
        }
        self.print(&text);
    }
}

/// The face for logs and pipes: a line at the start of a run, warnings and notes, and a line at the
/// end.
#[derive(Debug, Default)]
pub struct PlainFace {
    warnings: Mutex<u32>,
}

impl PlainFace {
    /// A face that writes to stderr.
    pub fn new() -> Self {
        Self::default()
    }
}

impl EventSink for PlainFace {
    fn event(&self, record: &Record) {
        let text = match &record.event {
            Event::RunStarted {
                run,
                command,
                source,
                target,
                ..
            } => {
                // A comparison writes into neither side.
                let way = if command == "verify" { "and" } else { "into" };
                format!("refloat: {command} of {source} {way} {target} begins, run {run}")
            }
            Event::Finished { outcome } => {
                let how = match outcome.result {
                    RunResult::Done if left_out(&outcome.summary) => {
                        "done, without what was left out on purpose,"
                    }
                    RunResult::Done => "done and proven",
                    RunResult::Failed => "failed",
                    // The command also started the cluster; only a node was refused.
                    RunResult::Refused if !outcome.summary["begun"].is_null() => {
                        "the cluster serves, and a node was refused"
                    }
                    RunResult::Refused => "refused, nothing was touched",
                    RunResult::ProofFailed => "the proof failed",
                    RunResult::Interrupted => "interrupted",
                    RunResult::SettingsLeft => "settings are still to be put back",
                };
                format!(
                    "refloat: {how} after {}",
                    human::seconds(duration(outcome.seconds))
                )
            }
            event => {
                let Some((is_warning, text)) = message(event) else {
                    return;
                };
                if is_warning {
                    let mut count = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
                    *count = count.saturating_add(1);
                    if *count > WARNINGS_SHOWN {
                        return;
                    }
                }
                text
            }
        };
        // A closed stderr must not fail the run.
        let _ = writeln!(io::stderr(), "{}", fit(&text, MESSAGE_WIDTH));
    }
}

/// Whether statements were left out because the user said so.
fn left_out(summary: &serde_json::Value) -> bool {
    summary["skipped"]["total"]
        .as_u64()
        .is_some_and(|total| total > 0)
}

/// The text to print for an event, and whether it is a warning, which are limited in number.
fn message(event: &Event) -> Option<(bool, String)> {
    let (is_warning, text) = match event {
        Event::Warning {
            code,
            message,
            table,
        } => {
            let about = table
                .as_ref()
                .map_or_else(String::new, |table| format!("{table}: "));
            let code = code.map_or_else(String::new, |code| format!(" ({code})"));
            (true, format!("refloat: warning: {about}{message}{code}"))
        }
        Event::StatementFailed {
            file,
            line,
            offset,
            head,
            message,
            ..
        } => {
            let message = message.strip_prefix("refused: ").unwrap_or(message);
            // Statements that Refloat itself runs for the source are on no line of it.
            let place = match line {
                0 => String::new(),
                _ => format!("line {line}, byte {offset}: "),
            };
            (
                true,
                format!("refloat: refused: {file}: {place}{message}: {head}"),
            )
        }
        Event::Note { message } => (false, format!("refloat: {message}")),
        _ => return None,
    };
    Some((is_warning, fit(&text, MESSAGE_WIDTH)))
}

/// Emits [`Event::Progress`] at a fixed interval, for JSON output and the record of the run. Stops
/// when dropped.
pub struct Heartbeat {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts emitting a snapshot of `progress` every `period`.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(progress: &Progress, events: &Events, period: Duration) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let thread = thread::Builder::new().name("heartbeat".into()).spawn({
            let (stop, progress, events) = (stop.clone(), progress.clone(), events.clone());
            move || {
                while !stop.wait(period) {
                    events.emit(Event::Progress {
                        snapshot: Box::new(progress.snapshot()),
                    });
                }
            }
        })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.now();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A stop flag that wakes a sleeping thread at once.
#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn now(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Sleeps for `time` or until stopped. Returns whether it is stopped.
    fn wait(&self, time: Duration) -> bool {
        let guard = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        *self
            .changed
            .wait_timeout_while(guard, time, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// The content of a frame for a progress snapshot.
fn view(snapshot: &Snapshot) -> View {
    let tables: Vec<TableView> = snapshot
        .active
        .iter()
        .take(TABLE_LINES_MAX)
        .map(|table| TableView {
            name: table.table.clone(),
            what: match table.state {
                TableState::Loading => "rows",
                TableState::Indexing => "indexes",
                TableState::ForeignKeys => "foreign keys",
                TableState::Checking => "check",
            }
            .to_owned(),
            fraction: None,
            rows: table.rows,
            bytes: table.bytes,
            elapsed: duration(table.seconds),
        })
        .collect();
    View {
        phase: snapshot.phase.to_string(),
        fraction: snapshot.fraction,
        bytes: if snapshot.source_total.is_some() {
            snapshot.source_done
        } else {
            snapshot.bytes_done
        },
        bytes_total: snapshot.source_total,
        rows: snapshot.rows_done,
        byte_rate: snapshot.bytes_rate,
        elapsed: duration(snapshot.elapsed),
        eta: snapshot.eta.map(duration),
        more_tables: snapshot.active.len() - tables.len() + snapshot.active_more as usize,
        tables,
        warnings: snapshot.warnings,
        history: snapshot.history_length,
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the progress events that it receives.
    #[derive(Default)]
    struct Counter(Mutex<u32>);

    impl EventSink for Counter {
        fn event(&self, record: &Record) {
            if matches!(record.event, Event::Progress { .. }) {
                *self.0.lock().expect("nobody panics with it") += 1;
            }
        }
    }

    #[test]
    fn the_heartbeat_beats_and_stops_at_once() {
        let (progress, events, counter) =
            (Progress::new(), Events::new(), Arc::new(Counter::default()));
        events.add(counter.clone());
        let heart = Heartbeat::start(&progress, &events, Duration::from_millis(5))
            .expect("a thread can be started");
        while *counter.0.lock().expect("nobody panics with it") < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(heart);
        let after = *counter.0.lock().expect("nobody panics with it");
        thread::sleep(Duration::from_millis(30));
        assert_eq!(*counter.0.lock().expect("nobody panics with it"), after);

        let slow = Heartbeat::start(&progress, &events, Duration::from_secs(3600))
            .expect("a thread can be started");
        let began = std::time::Instant::now();
        drop(slow);
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "a beat of an hour does not hold up the end"
        );
    }

    #[test]
    fn a_view_shows_what_the_run_does() {
        let progress = Progress::new();
        let tables: Vec<_> = (0..12)
            .map(|n| progress.table(&format!("shop.t{n}"), TableState::Loading))
            .collect();
        tables[0].add(7, 700);
        let view = view(&progress.snapshot());
        assert_eq!(
            (view.tables.len(), view.more_tables, view.rows),
            (TABLE_LINES_MAX, 4, 7)
        );
        assert_eq!((view.bytes, view.bytes_total), (700, None));
    }

    #[test]
    fn messages_are_one_line() {
        let event = Event::Warning {
            code: Some(1265),
            message: "data\ntruncated\x1b[2J".into(),
            table: Some("a.b".into()),
        };
        assert_eq!(
            message(&event),
            Some((
                true,
                "refloat: warning: a.b: data?truncated?[2J (1265)".to_owned()
            ))
        );
    }
}
