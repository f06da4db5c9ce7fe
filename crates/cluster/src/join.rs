//! Follows a node from the request to start it until it is synced with the others.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use refloat_host::{Control, ControlError, LogMark, plain};
use refloat_run::{Events, Refusal};
use refloat_wire::{Connection, Error, Phase};

use crate::journal;
use crate::member::{Member, Observation, WantedTables, impatient};
use crate::node::{NodeState, Role};
use crate::observe::ask;
use crate::proof::{gave_up, has_asked, has_started};

/// The operating system's message for a full disk.
const FULL: &str = "No space left on device";
/// How long a node's process may be missing before it counts as ended. Right after the request to
/// start it there is none yet.
const GONE_PATIENCE: Duration = Duration::from_secs(10);

/// How long a node that was told to stop may keep answering.
const DOWN_PATIENCE: Duration = Duration::from_secs(600);
/// How often the node is checked.
const POLL: Duration = Duration::from_millis(200);

/// How often to report that a node is still starting.
const TELL: Duration = Duration::from_secs(30);

/// How often to report that a node has not stopped yet.
const STOP_TELL: Duration = Duration::from_secs(60);

/// How often its log is searched.
const READ: Duration = Duration::from_secs(3);
/// How often to query a node that answers but is not synced yet. Each connection counts, and may
/// add a line to its log.
const ANSWERS: Duration = Duration::from_secs(1);

/// A node that was told to start.
pub(crate) struct Joining<'a> {
    member: &'a Member,
    control: &'a Control,
    log: Option<LogMark>,
    gone: Option<Instant>,
    /// When it first reported that it has left its cluster.
    apart: Option<Instant>,
    /// The other nodes, and where their logs ended before it was started.
    others: Vec<(&'a Member, LogMark)>,
    /// When it last answered without being synced.
    answered: Option<Instant>,
    /// When its log was last searched.
    read: Option<Instant>,
    begun: Instant,
    last_report: Instant,
}

/// The state of a starting node.
pub(crate) enum Seen {
    /// It is synced with the others.
    There(Box<NodeState>),
    /// It is still starting.
    Coming,
    /// Its process has been missing for a while.
    Ended,
    /// It will not join, although its process may exist; the text says why.
    Failed(String),
}

impl<'a> Joining<'a> {
    /// Follows a node, and reads its log from the mark on.
    pub fn new(member: &'a Member, control: &'a Control, log: Option<&'a LogMark>) -> Self {
        let now = Instant::now();
        Self {
            member,
            control,
            log: log.cloned(),
            others: Vec::new(),
            gone: None,
            apart: None,
            answered: None,
            read: None,
            begun: now,
            last_report: now,
        }
    }

    /// The node is started again. Discards what was seen so far.
    pub fn again(&mut self, log: Option<&LogMark>) {
        self.log = log.cloned();
        (self.gone, self.apart, self.read) = (None, None, None);
        self.answered = None;
    }

    /// Adds other nodes, whose logs may say more about a failed copy than this node's own.
    pub fn beside(self, others: Vec<(&'a Member, LogMark)>) -> Self {
        Self { others, ..self }
    }

    /// Reports every [`TELL`] that the node is still starting, and whether its end could go
    /// unnoticed.
    pub fn report(&mut self, events: &Events) {
        if self.last_report.elapsed() < TELL {
            return;
        }
        self.last_report = Instant::now();
        let doing = self.doing();
        let unknown = match self.control.is_running() {
            Ok(Some(_)) => String::new(),
            Ok(None) => {
                "; whether its process is there is not known, because no command is given that tells it (running): Ctrl-C ends the waiting"
                    .to_owned()
            }
            Err(error) => format!(
                "; whether its process is there is not known ({error}): Ctrl-C ends the waiting"
            ),
        };
        events.note(format!(
            "{} has been starting for {} s: {doing}{unknown}",
            self.member.name,
            self.begun.elapsed().as_secs()
        ));
    }

    /// What the node is doing or waiting for, in words.
    fn doing(&self) -> String {
        if let Ok(state) = look(self.member) {
            return match state.state.as_str() {
                "" => "it answers, and belongs to no cluster yet".to_owned(),
                name => {
                    format!("it answers and is {name}; waiting until it is Synced")
                }
            };
        }
        match self.log() {
            None => "it does not answer yet".to_owned(),
            Some(log) if has_asked(&log) => {
                "it has asked the others for what it misses; waiting until it has that and \
                answers"
                    .to_owned()
            }
            Some(log) if has_started(&log) => {
                "its server has started, and has not asked the others for what it misses yet"
                    .to_owned()
            }
            Some(_) => "its server has not reached the cluster yet".to_owned(),
        }
    }

    /// Why it will not join, although its process may exist. `None`: nothing indicates a failure.
    fn failed(&mut self, answer: Option<&NodeState>) -> Option<String> {
        let left = answer.and_then(|now| Some((has_left(&now.state)?, &now.state)));
        self.apart = left.map(|_| self.apart.unwrap_or_else(Instant::now));
        let over = left
            .zip(self.apart)
            .filter(|((patience, _), since)| since.elapsed() >= *patience)
            .map(|((_, state), _)| state);
        if let (Some(state), true) = (over, left.is_some_and(|(patience, _)| patience.is_zero())) {
            return Some(format!("it says that it is {state}{}", self.last_words()));
        }
        if self.read.is_some_and(|read| read.elapsed() < READ) {
            return None;
        }
        self.read = Some(Instant::now());
        let log = self.log();
        if let Some(line) = log.as_deref().and_then(gave_up) {
            return Some(plain(line));
        }
        over.map(|state| format!("it says that it is {state}{}", self.last_words()))
    }

    pub fn look(&mut self) -> Seen {
        if self.answered.is_some_and(|last| last.elapsed() < ANSWERS) {
            return Seen::Coming;
        }
        let answer = look(self.member).ok();
        self.answered = answer.as_ref().map(|_| Instant::now());
        if let Some(now) = &answer
            && now.primary
            && now.role == Role::Synced
            && now.ready
        {
            return Seen::There(Box::new(now.clone()));
        }
        let failed = self.failed(answer.as_ref());
        if self.control.is_running().ok().flatten() != Some(false) {
            self.gone = None;
            return failed.map_or(Seen::Coming, Seen::Failed);
        }
        let gone = self.gone.get_or_insert_with(Instant::now);
        if gone.elapsed() > GONE_PATIENCE {
            Seen::Ended
        } else {
            Seen::Coming
        }
    }

    /// What it has logged since the mark.
    fn log(&self) -> Option<String> {
        let (mark, host) = self.log.as_ref().zip(self.member.host.as_ref())?;
        mark.since(host)
    }

    /// Whether it has requested a state transfer, or already received one. From then on it is
    /// decided whether it comes by IST or SST. `false` if its log cannot be read.
    pub fn has_asked(&self) -> bool {
        self.log().is_some_and(|text| has_asked(&text))
    }

    /// Whether its log proves that it has not requested a transfer yet.
    pub fn has_surely_not_asked(&self) -> bool {
        self.log().is_some_and(|text| !has_asked(&text))
    }

    /// The refusal for a node that is still starting after `limit`.
    pub fn is_late(&self, limit: Option<Duration>) -> Option<Refusal> {
        let limit = limit.filter(|limit| self.begun.elapsed() > *limit)?;
        Some(late(limit, &format!(": {}", self.doing())))
    }

    /// The log of its last start. If the mark does not cover that, the end of the log file that the
    /// running node names.
    pub fn log_of(&self, now: &NodeState) -> Option<String> {
        let text = self.log().filter(|text| has_started(text));
        text.or_else(|| journal::last_part(self.member.host.as_ref()?, now))
    }

    /// The first and the last error in its log, as the end of a sentence.
    pub fn last_words(&self) -> String {
        let log = self.log().unwrap_or_default();
        let words = words_of_errors(&log);
        let here = cause_of_copy(&log);
        if here.is_some_and(|line| line.contains(FULL)) {
            return words;
        }
        let mut others = self.others.iter();
        let cause = others.find_map(|(member, mark)| {
            let log = mark.since(member.host.as_ref()?)?;
            Some((&member.name, plain(cause_of_copy(&log)?)))
        });
        // The receiver of a copy logs at most that its script was killed.
        match cause {
            Some((name, line)) if here.is_none() || line.contains(FULL) => {
                format!("{words} (the log of {name} says: {line})")
            }
            _ => words,
        }
    }
}

/// The refusal for a node that is not synced within `limit` and keeps starting. `more` ends the
/// sentence.
pub(crate) fn late(limit: Duration, more: &str) -> Refusal {
    Refusal::new(format!(
        "it is not in sync after {} s (--start-limit){more}",
        limit.as_secs()
    ))
    .hint("It continues by itself; the same command waits again.")
}

/// How long a node may report in `wsrep_local_state_comment` that it has left its cluster before it
/// counts as failed. A node that was voted out does not rejoin by itself. `None`: it reports
/// nothing of the kind.
fn has_left(state: &str) -> Option<Duration> {
    match state {
        "Inconsistent" => Some(Duration::ZERO),
        "Disconnected" => Some(GONE_PATIENCE),
        _ => None,
    }
}

/// The line that says why a copy failed: a full disk, or else the first error of the transfer
/// script. Programs that move files report a full disk in the operating system's words, and with
/// `rsync` only the sender's log says what went wrong at the receiver.
fn cause_of_copy(text: &str) -> Option<&str> {
    let line = |words: &str| text.lines().find(|line| line.contains(words));
    line(FULL)
        .or_else(|| line("WSREP_SST: [ERROR]"))
        .map(str::trim)
}

/// Marks at the ends of the logs of all other nodes that answer.
pub(crate) fn ends_of_logs(members: &[Member], at: usize) -> Vec<(&Member, LogMark)> {
    let others = members.iter().enumerate().filter(|(other, _)| *other != at);
    others
        .filter_map(|(_, member)| {
            let state = look(member).ok()?;
            Some((member, journal::of_node_that_answers(member, &state)?))
        })
        .collect()
}

/// The last error of a log, which says that the node gave up, and the first one, which says why.
/// Errors of the transfer script take precedence.
fn words_of_errors(text: &str) -> String {
    let errors: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("[ERROR]") || line.contains("[Fatal"))
        .collect();
    let Some(last) = errors.last() else {
        return String::new();
    };
    let first = cause_of_copy(text).unwrap_or(errors[0]);
    if first == *last {
        format!(": {}", plain(last))
    } else {
        format!(": {} (it began with: {})", plain(last), plain(first))
    }
}

/// Stops a node by `how`, and reports every [`STOP_TELL`] that it has not stopped yet: a server can
/// hang in its shutdown, and the command that stops it waits for it.
///
/// # Errors
/// What `how` returns.
pub(crate) fn stopped(
    events: &Events,
    node: &str,
    how: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    stop_with_notes(events, node, STOP_TELL, how)
}

fn stop_with_notes(
    events: &Events,
    node: &str,
    every: Duration,
    how: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    let begun = Instant::now();
    let (ended, still) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while still.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                events.note(format!(
                    "{node} has not stopped after {} s; its error log says why. If you end its \
                     process yourself, this run continues",
                    begun.elapsed().as_secs()
                ));
            }
        });
        let result = how();
        drop(ended);
        result
    })
}

/// Waits until a node that was told to stop no longer answers and its process is gone. Returns
/// whether it is down. Stops waiting when `given_up` returns true.
///
/// # Errors
/// [`ControlError`]: it is still unknown whether the node is down.
pub(crate) fn is_down(
    control: &Control,
    member: &Member,
    mut given_up: impl FnMut() -> bool,
) -> Result<bool, ControlError> {
    let begun = Instant::now();
    loop {
        let runs = runs(control, member);
        if matches!(runs, Ok(false)) {
            return Ok(true);
        }
        if begun.elapsed() > DOWN_PATIENCE || given_up() {
            return runs.map(|runs| !runs);
        }
        std::thread::sleep(POLL);
    }
}

/// Whether a node answers, or its process exists as far as that can be determined.
///
/// # Errors
/// [`ControlError`]: this cannot be determined now, which does not mean that the node is down.
pub(crate) fn runs(control: &Control, member: &Member) -> Result<bool, ControlError> {
    let process = control.is_running();
    if matches!(process, Ok(Some(true))) {
        return Ok(true);
    }
    let answers = Connection::connect(&impatient(&member.connect));
    match (process, answers) {
        // Whatever refuses the login (wrong account, too many connections) is a server.
        (_, Ok(_) | Err(Error::Server { .. } | Error::Auth { .. })) => Ok(true),
        (Err(unknown), Err(_)) => Err(unknown),
        // The kernel still accepts connections for a process that hangs.
        (Ok(None), Err(Error::Timeout { phase, .. })) if phase != Phase::Connect => {
            Err(ControlError::new(
                &member.name,
                "looking at",
                "it accepts connections but does not answer, and no command is given that says \
                whether it runs (running)"
                    .to_owned(),
            ))
        }
        (Ok(_), Err(_)) => Ok(false),
    }
}

/// The shortest observation of a node.
pub(crate) fn brief() -> Observation {
    Observation {
        sample: Duration::ZERO,
        tables: WantedTables::Never,
        ..Observation::default()
    }
}

pub(crate) fn look(member: &Member) -> Result<NodeState, String> {
    let view = ask(member, &brief());
    view.state
        .ok_or_else(|| view.unreachable.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use refloat_run::events::Record;
    use refloat_run::{Event, EventSink};

    use super::*;

    #[test]
    fn a_node_that_does_not_stop_is_reported() {
        struct Heard(mpsc::SyncSender<String>);
        impl EventSink for Heard {
            fn event(&self, record: &Record) {
                if let Event::Note { message } = &record.event {
                    let _ = self.0.try_send(message.clone());
                }
            }
        }
        let events = Events::new();
        let (sender, heard) = mpsc::sync_channel(9);
        events.add(Arc::new(Heard(sender)));
        let result = stop_with_notes(&events, "galera-1", Duration::from_millis(5), || {
            for _ in 0..2 {
                let message = heard.recv().unwrap();
                assert!(message.contains("galera-1 has not stopped"), "{message}");
            }
            Err(ControlError::new(
                "galera-1",
                "stopping",
                "killed".to_owned(),
            ))
        });
        assert!(result.is_err());
    }

    #[test]
    fn who_is_voted_out_is_not_waited_for() {
        assert_eq!(has_left("Inconsistent"), Some(Duration::ZERO));
        assert_eq!(has_left("Disconnected"), Some(GONE_PATIENCE));
        for on_its_way in [
            "",
            "Joining: receiving State Transfer",
            "Joined",
            "Initialized",
        ] {
            assert_eq!(has_left(on_its_way), None, "{on_its_way}");
        }
    }

    #[test]
    fn the_first_error_is_reported_beside_the_last_one() {
        assert_eq!(words_of_errors("1 [Note] all is well\n"), "");
        assert_eq!(
            words_of_errors("1 [Note] a\n2 [ERROR] b\n"),
            ": 2 [ERROR] b"
        );
        let log = "1 [ERROR] WSREP: noise\nWSREP_SST: [ERROR] the port has been taken\n3 [ERROR] WSREP: failed\n4 [Note] bye\n";
        assert_eq!(
            words_of_errors(log),
            ": 3 [ERROR] WSREP: failed (it began with: WSREP_SST: [ERROR] the port has been taken)"
        );
        let log = "1 [Note] WSREP: asks\nrsync: [receiver] write failed on \"ibdata1\": No space left on device (28)\nWSREP_SST: [ERROR] rsync returned code 11\n";
        assert_eq!(
            cause_of_copy(log),
            Some("rsync: [receiver] write failed on \"ibdata1\": No space left on device (28)")
        );
        assert_eq!(cause_of_copy("1 [ERROR] WSREP: noise\n"), None);
    }
}
