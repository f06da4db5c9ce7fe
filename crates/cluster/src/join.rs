//! A node on its way: from the moment that its process is asked for until it is in step with the others.

use std::time::{Duration, Instant};

use crate::control::Control;
use crate::journal::LogMark;
use crate::node::{NodeState, Role};
use crate::observe::{Member, Observation, WantedTables, ask};

/// How long a node's process may be away before it counts as ended: one that was asked to start has not got one at once.
const GONE_PATIENCE: Duration = Duration::from_secs(10);

/// A node that was asked to start.
pub(crate) struct Joining<'a> {
    member: &'a Member,
    control: &'a Control,
    log: Option<&'a LogMark>,
    gone: Option<Instant>,
}

/// Where it is.
pub(crate) enum Seen {
    /// It is in step with the others.
    There(Box<NodeState>),
    /// It is on its way.
    Coming,
    /// Its process is not there, and has not been for a while.
    Ended,
}

impl<'a> Joining<'a> {
    /// A node whose log is looked at from this mark on.
    pub const fn new(member: &'a Member, control: &'a Control, log: Option<&'a LogMark>) -> Self {
        Self {
            member,
            control,
            log,
            gone: None,
        }
    }

    /// Looks once.
    pub fn look(&mut self) -> Seen {
        if let Ok(now) = look(self.member)
            && now.primary
            && now.role == Role::Synced
            && now.ready
        {
            return Seen::There(Box::new(now));
        }
        if self.control.is_running().ok().flatten() != Some(false) {
            self.gone = None;
            return Seen::Coming;
        }
        let gone = self.gone.get_or_insert_with(Instant::now);
        if gone.elapsed() > GONE_PATIENCE {
            Seen::Ended
        } else {
            Seen::Coming
        }
    }

    /// What it has written to its log since the mark.
    pub fn log(&self) -> Option<String> {
        let (mark, host) = self.log.zip(self.member.host.as_ref())?;
        mark.since(host)
    }

    /// The last error in its log, to be put behind a sentence.
    pub fn last_words(&self) -> String {
        let text = self.log();
        let line = text.as_deref().and_then(|text| {
            let mut lines = text.lines().rev();
            lines.find(|line| line.contains("[ERROR]") || line.contains("[Fatal"))
        });
        line.map_or_else(String::new, |line| format!(": {}", line.trim()))
    }
}

/// A look that takes no longer than it has to.
pub(crate) fn brief() -> Observation {
    Observation {
        sample: Duration::ZERO,
        tables: WantedTables::Never,
        ..Observation::default()
    }
}

/// What a node says now.
pub(crate) fn look(member: &Member) -> Result<NodeState, String> {
    let view = ask(member, &brief());
    view.state
        .ok_or_else(|| view.unreachable.unwrap_or_default())
}
