//! What a run says: typed events for recorders and faces.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::progress::{Phase, Snapshot};
use crate::{RunDir, RunDirError, RunId};

/// One thing that happened.
///
/// In JSON the kind stands in the field `event`; the record around it adds `ts` and `elapsed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The run is about to change something; what comes before it only looked.
    RunStarted {
        /// The run.
        run: RunId,
        /// The command, such as `load`.
        command: String,
        /// Where bytes come from, without secrets.
        source: String,
        /// The server, without secrets.
        target: String,
        /// What will be done, as the command documents it.
        plan: serde_json::Value,
    },
    /// A phase began.
    PhaseStarted {
        /// Which.
        phase: Phase,
    },
    /// A phase ended well.
    PhaseFinished {
        /// Which.
        phase: Phase,
        /// How long it took.
        seconds: f64,
    },
    /// The first rows of a table are on their way.
    TableStarted {
        /// `database.table`.
        table: String,
    },
    /// All rows of a table are in.
    TableFinished {
        /// `database.table`.
        table: String,
        /// Rows sent.
        rows: u64,
        /// Bytes of the dump's text.
        bytes: u64,
        /// Since the table began.
        seconds: f64,
    },
    /// An index or foreign key is being built.
    BuildStarted {
        /// `database.table`.
        table: String,
        /// What is built, such as names of keys.
        what: String,
    },
    /// It is built.
    BuildFinished {
        /// `database.table`.
        table: String,
        /// What was built.
        what: String,
        /// How long it took.
        seconds: f64,
    },
    /// A setting of the server was changed (it was journalled before).
    SettingChanged {
        /// The server.
        server: String,
        /// Which setting.
        name: String,
        /// Its value before.
        old: String,
        /// Its value now, read back.
        new: String,
        /// Why.
        reason: String,
    },
    /// A setting was put back, or left alone.
    SettingReverted {
        /// The server.
        server: String,
        /// Which setting.
        name: String,
        /// Its value before it was put back.
        old: String,
        /// Its value now.
        new: String,
        /// What happened: `reverted`, or why it was left alone.
        reason: String,
    },
    /// Chunks have another size from now on.
    ChunkSizeChanged {
        /// Rows per chunk, where rows decide.
        rows: Option<u64>,
        /// Bytes per chunk.
        bytes: u64,
        /// Why, such as `climbing: 12 % more rows/s`.
        reason: String,
    },
    /// Something that a person should know.
    Warning {
        /// The server's code, when it is the server's warning.
        code: Option<u16>,
        /// The words.
        message: String,
        /// `database.table`, when it belongs to one.
        table: Option<String>,
    },
    /// A plain remark.
    Note {
        /// The words.
        message: String,
    },
    /// The server refused a statement.
    StatementFailed {
        /// The source's name.
        file: String,
        /// Line of the statement's first byte, from 1.
        line: u64,
        /// Offset of the statement's first byte in the decompressed source.
        offset: u64,
        /// The statement's first characters, without values of rows.
        head: String,
        /// The server's error code.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// Where the run stands.
    Progress {
        /// All figures.
        snapshot: Box<Snapshot>,
    },
    /// The last event of every run.
    Finished {
        /// How it ended.
        outcome: Outcome,
    },
}

/// How a run ended; also what stands in `outcome.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In one word.
    pub result: RunResult,
    /// How long the run took.
    pub seconds: f64,
    /// The error, when there is one.
    pub message: Option<String>,
    /// What the command documents.
    pub summary: serde_json::Value,
}

/// The end of a run in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// Done and proven.
    Done,
    /// Failed.
    Failed,
    /// Refused before anything was touched.
    Refused,
    /// Done, but the proof does not hold.
    ProofFailed,
    /// Stopped by a person.
    Interrupted,
    /// Done, but settings of a server are still changed.
    SettingsLeft,
}

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When: RFC 3339, UTC.
    pub ts: String,
    /// Seconds since the run began.
    pub elapsed: f64,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// Takes events: a recorder or a face.
///
/// Called in the thread that emits, one event at a time, while others who emit wait: be quick, and emit nothing.
pub trait EventSink: Send + Sync {
    /// One event.
    fn event(&self, record: &Record);
}

struct Inner {
    started: Instant,
    /// Held from the moment an event gets its time until every listener has it: events come in the order of their
    /// times, and in the same order to all listeners.
    sinks: Mutex<Vec<Arc<dyn EventSink>>>,
}

/// The handle through which a run says things. Cheap to clone; may be used by any thread.
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
    /// A handle that nobody listens to yet. Its clock starts now.
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            sinks: Mutex::default(),
        }))
    }

    /// Adds a listener; it gets every event from now on.
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

    /// Says one thing to everyone.
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

    /// Says a warning that belongs to no table.
    pub fn warn(&self, message: impl Into<String>) {
        self.emit(Event::Warning {
            code: None,
            message: message.into(),
            table: None,
        });
    }

    /// Says a remark.
    pub fn note(&self, message: impl Into<String>) {
        self.emit(Event::Note {
            message: message.into(),
        });
    }
}

/// Records events as JSON lines.
///
/// A disk that is full does not stop a load: the first write error is kept, see [`JsonLines::failure`].
pub struct JsonLines {
    out: Mutex<Lines>,
}

/// The writer and the first error of it.
struct Lines {
    out: BufWriter<Box<dyn Write + Send>>,
    failure: Option<String>,
}

impl JsonLines {
    /// Records into the run's `events.jsonl`.
    pub fn in_dir(dir: &RunDir) -> Result<Self, RunDirError> {
        let file: File = dir.append(RunDir::EVENTS)?;
        Ok(Self::new(Box::new(file)))
    }

    /// Records into any writer.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self {
            out: Mutex::new(Lines {
                out: BufWriter::new(out),
                failure: None,
            }),
        }
    }

    /// The first error of writing, when there was one.
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
        // Each line is flushed: after kill -9 everything that was said is there.
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
    fn records_are_read_back_as_they_were_said() {
        let state = tempfile::tempdir().unwrap();
        let dir = RunDir::create(state.path(), "load").unwrap();
        let events = Events::new();
        events.add(Arc::new(JsonLines::in_dir(&dir).unwrap()));
        let said = vec![
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
                    summary: serde_json::Value::Null,
                },
            },
        ];
        for event in &said {
            events.emit(event.clone());
        }
        let text = std::fs::read_to_string(dir.path().join(RunDir::EVENTS)).unwrap();
        let read: Vec<Record> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(
            read.iter().map(|r| &r.event).collect::<Vec<_>>(),
            said.iter().collect::<Vec<_>>()
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
