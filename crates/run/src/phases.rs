//! Tracks which phase a run is in, and how long each phase took.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;

use crate::progress::Phase;
use crate::{Event, Events, Progress};

/// Wall time of one phase.
#[derive(Debug, Clone, Serialize)]
pub struct PhaseTime {
    /// Name of the phase, as [`Phase`] displays it.
    pub phase: String,
    /// Seconds in this phase, summed over all times it was entered.
    pub seconds: f64,
}

/// Measures phases. A phase may be entered more than once: a barrier in the dump interrupts the
/// rows.
pub struct Phases {
    state: Mutex<State>,
    events: Events,
    progress: Progress,
}

#[derive(Default)]
struct State {
    current: Option<(Phase, Instant)>,
    times: Vec<PhaseTime>,
}

impl Phases {
    /// Starts outside any phase.
    pub fn new(events: &Events, progress: &Progress) -> Self {
        Self {
            state: Mutex::default(),
            events: events.clone(),
            progress: progress.clone(),
        }
    }

    /// Ends the current phase and begins another. Entering the current phase again changes nothing.
    pub fn enter(&self, phase: Phase) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state
            .current
            .as_ref()
            .is_some_and(|(current, _)| *current == phase)
        {
            return;
        }
        self.leave(&mut state);
        self.progress.set_phase(phase);
        self.events.emit(Event::PhaseStarted { phase });
        state.current = Some((phase, Instant::now()));
    }

    /// Ends the current phase; returns the times of all phases.
    pub fn end(&self) -> Vec<PhaseTime> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.leave(&mut state);
        std::mem::take(&mut state.times)
    }

    fn leave(&self, state: &mut State) {
        let Some((phase, started)) = state.current.take() else {
            return;
        };
        let seconds = started.elapsed().as_secs_f64();
        self.events.emit(Event::PhaseFinished { phase, seconds });
        let name = phase.to_string();
        match state.times.iter_mut().find(|time| time.phase == name) {
            Some(time) => time.seconds += seconds,
            None => state.times.push(PhaseTime {
                phase: name,
                seconds,
            }),
        }
    }
}
