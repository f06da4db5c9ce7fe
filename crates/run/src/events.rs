//! Typed events of a run, for recorders and user interfaces.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::progress::{Phase, Snapshot};
use crate::{RunDir, RunDirError, RunId};

/// Something that happened during a run.
///
/// In JSON the kind is in the field `event`; the record around it adds `ts` and `elapsed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run is about to change something; until now it only read.
    RunStarted {
        /// By which later commands find the run.
        run: RunId,
        /// Name of the command, such as `load`.
        command: String,
        /// Where the data comes from, without secrets.
        source: String,
        /// The target server, without secrets.
        target: String,
        /// What the run will do, in the form that the command documents.
        plan: serde_json::Value,
    },
    /// A phase began.
    PhaseStarted {
        /// The phase that began.
        phase: Phase,
    },
    /// A phase ended without an error.
    PhaseFinished {
        /// The phase that ended.
        phase: Phase,
        /// Wall time of the phase.
        seconds: f64,
    },
    /// The first rows of a table are being sent.
    TableStarted {
        /// `database.table`.
        table: String,
    },
    /// All rows of a table are in the server.
    TableFinished {
        /// `database.table`.
        table: String,
        /// Rows sent.
        rows: u64,
        /// Bytes of dump text.
        bytes: u64,
        /// Seconds since the table started.
        seconds: f64,
    },
    /// A build of indexes or foreign keys started.
    BuildStarted {
        /// `database.table`.
        table: String,
        /// What is being built, such as key names.
        what: String,
    },
    /// The indexes or foreign keys of a build are there.
    BuildFinished {
        /// `database.table`.
        table: String,
        /// What was built.
        what: String,
        /// Wall time of the build.
        seconds: f64,
    },
    /// A server setting was changed, after it was journalled.
    SettingChanged {
        /// The server, as the run connected to it.
        server: String,
        /// The global variable, or `redo_log`.
        name: String,
        /// Value before the change.
        old: String,
        /// Value read back after the change.
        new: String,
        /// Why the run changed it.
        reason: String,
    },
    /// A setting was put back, or left alone.
    SettingReverted {
        /// The server, as the run connected to it.
        server: String,
        /// The global variable, or `redo_log`.
        name: String,
        /// Value before it was put back.
        old: String,
        /// Value now.
        new: String,
        /// `reverted`, or why the setting was left alone or could not be put back.
        reason: String,
    },
    /// Chunks have a new size from now on.
    ChunkSizeChanged {
        /// Rows per chunk, if rows limit it.
        rows: Option<u64>,
        /// Bytes per chunk.
        bytes: u64,
        /// Why, such as `climbing: 12 % more rows/s`.
        reason: String,
    },
    /// Something the user should know.
    Warning {
        /// Server error code, if the warning came from the server.
        code: Option<u16>,
        /// Text of the warning.
        message: String,
        /// `database.table`, if the warning concerns one table.
        table: Option<String>,
    },
    /// An informational message.
    Note {
        /// Text of the message.
        message: String,
    },
    /// The server refused a statement.
    StatementFailed {
        /// Name of the source.
        file: String,
        /// Line of the statement's first byte, counted from 1.
        line: u64,
        /// Offset of the statement's first byte in the decompressed source.
        offset: u64,
        /// Start of the statement, without row values.
        head: String,
        /// Server error code.
        code: u16,
        /// Server error message.
        message: String,
    },
    /// Current progress of the run.
    Progress {
        /// All figures at the time of the event.
        snapshot: Box<Snapshot>,
    },
    /// The last event of every run.
    Finished {
        /// How the run ended.
        outcome: Outcome,
    },
}

/// How a run ended; also the content of `outcome.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The result in one word.
    pub result: RunResult,
    /// Wall time of the run.
    pub seconds: f64,
    /// The error message, if the run failed with one.
    pub message: Option<String>,
    /// What the user can do about that error: sentences.
    pub hints: Vec<String>,
    /// Summary in the form that the command documents.
    pub summary: serde_json::Value,
}

/// Result of a run in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Done, and the proof holds.
    Done,
    /// Failed with an error.
    Failed,
    /// Refused before anything was touched.
    Refused,
    /// Done, but the proof failed.
    ProofFailed,
    /// Stopped by the user or by a signal.
    Interrupted,
    /// Done, but some server settings are still changed.
    SettingsLeft,
}

/// An event with its timestamp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Wall-clock time: RFC 3339, UTC.
    pub ts: String,
    /// Seconds since the run began.
    pub elapsed: f64,
    /// The event, whose fields JSON shows next to the two above.
    #[serde(flatten)]
    pub event: Event,
}

/// Receives events: a recorder or a user interface.
///
/// Called on the emitting thread, one event at a time, while other emitters wait. Return quickly,
/// and emit nothing.
pub trait EventSink: Send + Sync {
    /// Handles one event.
    fn event(&self, record: &Record);
}

struct Inner {
    started: Instant,
    /// Held from the moment an event gets its timestamp until every sink has received it, so events
    /// arrive in timestamp order, and in the same order at every sink.
    sinks: Mutex<Vec<Arc<dyn EventSink>>>,
}

/// The handle through which a run emits events. Cheap to clone and usable from any thread.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

impl Events {
    /// A handle without sinks. Its clock starts now.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            sinks: Mutex::default(),
        }))
    }

    /// Adds a sink, which receives every event from now on.
    pub fn add(&self, sink: Arc<dyn EventSink>) {
        self.sinks().push(sink);
    }

    fn sinks(&self) -> MutexGuard<'_, Vec<Arc<dyn EventSink>>> {
        self.0.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// Sends an event to every sink.
    pub fn emit(&self, event: Event) {
        let sinks = self.sinks();
        let record = Record {
            ts: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
                .to_string(),
            elapsed: self.0.started.elapsed().as_secs_f64(),
            event,
        };
        for sink in sinks.iter() {
            sink.event(&record);
        }
    }

    /// Emits a warning that concerns no particular table.
    pub fn warn(&self, message: impl Into<String>) {
        self.emit(Event::Warning {
            code: None,
            message: message.into(),
            table: None,
        });
    }

    /// Emits an informational message.
    pub fn note(&self, message: impl Into<String>) {
        self.emit(Event::Note {
            message: message.into(),
        });
    }
}

/// Records events as JSON lines.
///
/// A full disk does not stop a load: the first write error is kept, see [`JsonLines::failure`].
pub struct JsonLines {
    out: Mutex<Lines>,
}

struct Lines {
    out: BufWriter<Box<dyn Write + Send>>,
    failure: Option<String>,
}

impl JsonLines {
    /// Appends to the run's `events.jsonl`.
    pub fn in_dir(dir: &RunDir) -> Result<Self, RunDirError> {
        let file: File = dir.append(RunDir::EVENTS)?;
        Ok(Self::new(Box::new(file)))
    }

    /// One line for each event, to standard output or any other writer.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self {
            out: Mutex::new(Lines {
                out: BufWriter::new(out),
                failure: None,
            }),
        }
    }

    /// The first write error, if any.
    pub fn failure(&self) -> Option<String> {
        self.out
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .failure
            .clone()
    }
}

impl EventSink for JsonLines {
    fn event(&self, record: &Record) {
        let mut guard = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let Lines { out, failure } = &mut *guard;
        // Flush every line, so that `kill -9` loses nothing that was emitted.
        let written = serde_json::to_writer(&mut *out, record)
            .map_err(std::io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        if let Err(e) = written {
            failure.get_or_insert_with(|| e.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_as_they_were_written() {
        let state = tempfile::tempdir().unwrap();
        let dir = RunDir::create(state.path(), "load").unwrap();
        let events = Events::new();
        events.add(Arc::new(JsonLines::in_dir(&dir).unwrap()));
        let emitted = vec![
            Event::RunStarted {
                run: dir.id().clone(),
                command: "load".into(),
                source: "a.sql".into(),
                target: "127.0.0.1:3306".into(),
                plan: serde_json::json!({"threads": 2, "bytes": u64::MAX}),
            },
            Event::PhaseStarted { phase: Phase::Data },
            Event::Progress {
                snapshot: Box::new(crate::Progress::new().snapshot()),
            },
            Event::ChunkSizeChanged {
                rows: None,
                bytes: 1 << 24,
                reason: "climbing".into(),
            },
            Event::Finished {
                outcome: Outcome {
                    result: RunResult::ProofFailed,
                    seconds: 1.5,
                    message: Some("one row is missing".into()),
                    hints: vec!["Load it again.".into()],
                    summary: serde_json::Value::Null,
                },
            },
        ];
        for event in &emitted {
            events.emit(event.clone());
        }
        let text = std::fs::read_to_string(dir.path().join(RunDir::EVENTS)).unwrap();
        let read: Vec<Record> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(
            read.iter().map(|r| &r.event).collect::<Vec<_>>(),
            emitted.iter().collect::<Vec<_>>()
        );
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["event"], "run_started");
        assert!(first["ts"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn events_of_many_threads_come_in_the_order_of_their_times_to_everyone() {
        #[derive(Default)]
        struct Heard(Mutex<Vec<(f64, String)>>);
        impl EventSink for Heard {
            fn event(&self, record: &Record) {
                if let Event::Note { message } = &record.event {
                    self.0
                        .lock()
                        .unwrap()
                        .push((record.elapsed, message.clone()));
                }
            }
        }
        let events = Events::new();
        let heard = [Arc::new(Heard::default()), Arc::new(Heard::default())];
        for one in &heard {
            events.add(one.clone());
        }
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let events = events.clone();
                scope.spawn(move || {
                    for n in 0..2_000 {
                        events.note(format!("{thread}.{n}"));
                    }
                });
            }
        });
        let first = heard[0].0.lock().unwrap();
        assert_eq!(first.len(), 16_000);
        assert!(first.windows(2).all(|w| w[0].0 <= w[1].0));
        assert_eq!(*first, *heard[1].0.lock().unwrap());
    }
}
