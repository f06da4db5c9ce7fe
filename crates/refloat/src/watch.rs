//! Connects a run with its output: where events go, how progress is shown, and how Ctrl-C cancels
//! it.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use refloat_report::live::{Heartbeat, PlainFace, TerminalFace};
use refloat_report::progress::Style;
use refloat_run::cancel::HookGuard;
use refloat_run::events::JsonLines;
use refloat_run::signals::{SignalGuard, install_signal_handlers};
use refloat_run::{Cancel, Events, Progress, Run, RunDir};

use crate::context::Context;

/// Interval between progress snapshots in JSON output and in a run's record.
const BEAT: Duration = Duration::from_secs(1);
/// Printed at the first Ctrl-C; the next one at the second.
const STOPPING: &str = "refloat: stopping: what is open is rolled back, settings are put back";
const STOPPING_HARD: &str = "refloat: stopping already, now without waiting for the server; once more ends the program at once";

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// A live display on a terminal, a few lines elsewhere.
    Best,
    /// A few lines.
    Lines,
    /// Events as JSON lines on stdout; on stderr only errors and the answer to Ctrl-C.
    Json,
}

/// The handles of a run, with the displays that follow it. They end when this is stopped or
/// dropped.
pub struct Watch {
    /// Cancels the run; signals set it.
    pub cancel: Cancel,
    /// Progress of the run.
    pub progress: Progress,
    /// Events of the run.
    pub events: Events,
    face: Option<TerminalFace>,
    heart: Mutex<Option<Heartbeat>>,
    _hooks: [HookGuard; 2],
    _signals: SignalGuard,
}

impl Watch {
    /// Starts a run of `command`, with its record and its displays.
    pub fn begin(command: &str, show: Show, context: &Context) -> anyhow::Result<(Self, Run)> {
        let dir = RunDir::create(context.state_dir(), command)
            .context("cannot begin the record of the run")?;
        Self::of(dir, show, context)
    }

    /// Starts or resumes a run whose folder exists, with its displays.
    pub fn of(dir: RunDir, show: Show, context: &Context) -> anyhow::Result<(Self, Run)> {
        let watch = Self::start(show, context)?;
        watch.events.add(Arc::new(JsonLines::in_dir(&dir)?));
        let run = Run {
            dir,
            cancel: watch.cancel.clone(),
            events: watch.events.clone(),
            progress: watch.progress.clone(),
        };
        Ok((watch, run))
    }

    /// Installs the signal handlers and starts the displays.
    pub fn start(show: Show, context: &Context) -> anyhow::Result<Self> {
        let (cancel, progress, events) = (Cancel::new(), Progress::new(), Events::new());
        let signals = install_signal_handlers(&cancel).context("cannot handle signals")?;
        let heart = Heartbeat::start(&progress, &events, BEAT).context("cannot start a thread")?;
        let mut face = None;
        match show {
            Show::Json => events.add(Arc::new(JsonLines::new(Box::new(std::io::stdout())))),
            Show::Best if context.stderr_is_terminal() => {
                let style = Style {
                    ascii: !context.utf8(),
                    colour: context.colour(),
                };
                let terminal =
                    TerminalFace::start(&progress, style).context("cannot start a thread")?;
                events.add(terminal.sink());
                face = Some(terminal);
            }
            Show::Best | Show::Lines => events.add(Arc::new(PlainFace::new())),
        }
        let hooks = [(STOPPING, false), (STOPPING_HARD, true)].map(|(text, hard)| {
            let say = printer(face.as_ref());
            if hard {
                cancel.on_hard(move || say(text))
            } else {
                cancel.on_cancel(move || say(text))
            }
        });
        Ok(Self {
            cancel,
            progress,
            events,
            face,
            heart: Mutex::new(Some(heart)),
            _hooks: hooks,
            _signals: signals,
        })
    }

    /// Ends the progress snapshots, so that the next event is the last one.
    pub fn quiet(&self) {
        drop(
            self.heart
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// Removes the progress display and the signal handlers.
    pub fn stop(self) {
        if let Some(face) = self.face {
            face.stop();
        }
    }
}

/// Returns a function that prints a line above the live display, or to plain stderr without one.
fn printer(face: Option<&TerminalFace>) -> Box<dyn Fn(&str) + Send + Sync> {
    match face {
        Some(face) => Box::new(face.printer()),
        None => Box::new(|text| {
            let _ = writeln!(std::io::stderr(), "{text}");
        }),
    }
}
