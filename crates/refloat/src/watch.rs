//! Puts a run and its faces together: what is emitted, who shows it, and how Ctrl-C reaches it.

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

/// Time between two snapshots in JSON output and in the record of a run.
const BEAT: Duration = Duration::from_secs(1);
/// What is said at the first Ctrl-C, and at the second.
const STOPPING: &str = "refloat: stopping: what is open is rolled back, settings are put back";
const STOPPING_HARD: &str = "refloat: stopping already, now without waiting for the server; once more ends the program at once";

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// A drawn block on a terminal, a few lines elsewhere.
    Best,
    /// A few lines.
    Lines,
    /// Events as JSON lines on stdout; nothing on stderr but errors and the answer to Ctrl-C.
    Json,
}

/// The handles of a run, with the faces that follow it. Everything ends when it is stopped or dropped.
pub struct Watch {
    /// Ends the run early; signals set it.
    pub cancel: Cancel,
    /// Where the run stands.
    pub progress: Progress,
    /// What the run says.
    pub events: Events,
    face: Option<TerminalFace>,
    heart: Mutex<Option<Heartbeat>>,
    _hooks: [HookGuard; 2],
    _signals: SignalGuard,
}

impl Watch {
    /// Begins a run of `command` with its record, and starts the faces.
    pub fn begin(command: &str, show: Show, context: &Context) -> anyhow::Result<(Self, Run)> {
        let dir = RunDir::create(context.state_dir(), command)
            .context("cannot begin the record of the run")?;
        Self::of(dir, show, context)
    }

    /// Begins or goes on with a run whose folder is there already, and starts the faces.
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

    /// Installs the signal handlers and starts the faces.
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

    /// Ends the beat of snapshots, so that the event that is emitted next is the last one.
    pub fn quiet(&self) {
        drop(
            self.heart
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// Takes the progress off the screen; the signal handlers go too.
    pub fn stop(self) {
        if let Some(face) = self.face {
            face.stop();
        }
    }
}

/// A function that prints a line above the drawn block, or on plain stderr where there is none.
fn printer(face: Option<&TerminalFace>) -> Box<dyn Fn(&str) + Send + Sync> {
    match face {
        Some(face) => Box::new(face.printer()),
        None => Box::new(|text| {
            let _ = writeln!(std::io::stderr(), "{text}");
        }),
    }
}
