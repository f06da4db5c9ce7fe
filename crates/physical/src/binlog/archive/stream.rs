//! The incoming events, and the pieces that they are stored in.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use refloat_repository::{Journal, JournalReader};
use refloat_run::Refusal;
use refloat_wire::{BinlogStream, Error, Phase};

use crate::binlog::archive::ArchiveOutcome;
use crate::binlog::archive::history::{History, another};
use crate::binlog::archive::resume::Resume;
use crate::binlog::event::{Checks, Events, Failure, Head, MAGIC, kind, next_file};
use crate::binlog::until::number_of;
use crate::error::PhysicalError;

/// With this many bytes, events are stored at once, however new they are.
const PIECE: usize = 16 << 20;

/// Stores the events of a server in an archive as they arrive.
pub struct Stream<'a> {
    journal: &'a Journal,
    source: BinlogStream,
    interval: Duration,
    file: String,
    number: u64,
    checks: Checks,
    /// Bytes of the file that are stored or waiting to be stored.
    known: u64,
    /// Events that have arrived and are not stored yet.
    pending: Vec<u8>,
    /// Since when the oldest of them has been waiting.
    since: Option<Instant>,
    /// The last stored event, which the server must send again, and where it begins.
    expected: Option<(u64, Vec<u8>)>,
    history: History,
    /// The server has said which file it sends.
    is_named: bool,
    added: u64,
}

/// What a step has produced.
#[derive(Debug, Default)]
pub struct Step {
    /// Everything that was asked for has arrived.
    pub is_done: bool,
    /// A file that is now complete.
    pub completed: Option<String>,
}

impl<'a> Stream<'a> {
    pub fn new(
        journal: &'a Journal,
        resume: Resume,
        source: BinlogStream,
        interval: Duration,
    ) -> Self {
        let mut new = Self {
            journal,
            source,
            interval,
            number: number_of(&resume.file).unwrap_or(0),
            file: resume.file,
            checks: Checks::default(),
            known: resume.stored,
            pending: Vec::new(),
            since: None,
            expected: resume.last,
            history: resume.history,
            is_named: false,
            added: 0,
        };
        new.checks.at = u64::from(resume.ask);
        new.begin_file();
        new
    }

    /// The first bytes of a file come before its events.
    fn begin_file(&mut self) {
        if self.known == 0 {
            self.pending.extend_from_slice(&MAGIC);
            self.known = MAGIC.len() as u64;
        }
    }

    /// Records the progress of the archive.
    pub fn report(&mut self, outcome: &mut ArchiveOutcome) {
        outcome.bytes += std::mem::take(&mut self.added);
        outcome.file.clone_from(&self.file);
        outcome.position = self.known - self.pending.len() as u64;
    }

    fn failed(&self, reason: String) -> PhysicalError {
        PhysicalError::Binlog {
            place: format!(
                "{} at byte {}, as the server sends it",
                self.file, self.checks.at
            ),
            reason,
        }
    }

    /// Waits for the next event. `target` is the number of a file and the byte in it up to which
    /// events are asked for.
    pub fn step(&mut self, target: Option<(u64, u64)>) -> Result<Step, PhysicalError> {
        let mut step = Step::default();
        let received = self.source.receive();
        let reading = PhysicalError::server("reading the binary log");
        let Some(event) = received.map_err(reading)? else {
            // A server does that when it is stopped.
            let ended = std::io::Error::other("the server has ended the stream");
            return Err(PhysicalError::Server {
                doing: "reading the binary log",
                source: Error::Io {
                    phase: Phase::Receive,
                    peer: self.file.clone(),
                    source: ended,
                },
            });
        };
        let event = event.to_vec();
        let Some(head) = Head::of(&event) else {
            return Err(self.failed("what arrived is not an event".to_owned()));
        };
        if head.is_artificial() {
            match head.kind {
                kind::ROTATE => step.completed = self.rotate(&event)?,
                kind::FORMAT => {
                    let looked = self.checks.look(&event);
                    looked.map_err(|reason| self.failed(reason))?;
                }
                // The server sends heartbeats only when it has sent everything in its logs.
                kind::HEARTBEAT | kind::HEARTBEAT_2 => step.is_done = target.is_some(),
                _ => {}
            }
        } else {
            self.take(event)?;
        }
        let is_old = self
            .since
            .is_some_and(|since| since.elapsed() >= self.interval);
        if is_old || self.pending.len() >= PIECE {
            self.flush()?;
        }
        step.is_done |= target.is_some_and(|target| (self.number, self.checks.at) >= target);
        Ok(step)
    }

    /// The server announces the file of the next events. Returns the file that is thereby complete.
    fn rotate(&mut self, event: &[u8]) -> Result<Option<String>, PhysicalError> {
        let Some(next) = next_file(event) else {
            return Err(self.failed("the server did not name a file".to_owned()));
        };
        let is_first = !std::mem::replace(&mut self.is_named, true);
        if next == self.file {
            return Ok(None);
        }
        if is_first || number_of(&next) != Some(self.number + 1) || self.expected.is_some() {
            let reason = format!("the server unexpectedly switched to {next}");
            return Err(self.failed(reason));
        }
        self.flush()?;
        if !self.history.is_known() {
            let files = self.journal.files()?;
            let last = files.iter().find(|file| file.name == self.file);
            self.history = History::of(self.journal, &Vec::from_iter(last))?;
        }
        let completed = std::mem::replace(&mut self.file, next);
        self.number += 1;
        self.checks = Checks::default();
        self.checks.at = MAGIC.len() as u64;
        self.known = 0;
        self.begin_file();
        Ok(Some(completed))
    }

    /// Takes an event that is part of the file.
    fn take(&mut self, mut event: Vec<u8>) -> Result<(), PhysicalError> {
        let begins = self.checks.at;
        let taken = self.checks.take(&event);
        let head = taken.map_err(|reason| self.failed(reason))?;
        if head.kind == kind::FORMAT {
            // The flag that says that the file is being written. It is not part of the checksum.
            event[17] &= !1;
        }
        if let Some((at, expected)) = &self.expected
            && begins >= *at
        {
            if begins != *at || event != *expected {
                return Err(PhysicalError::refused(
                    Refusal::new(format!(
                        "{} on the server is not the file in archive {}: they differ at byte {begins}",
                        self.file,
                        self.journal.name()
                    ))
                    .hint("Its logs were reset, or it is another server. Make a new backup and start another archive: --name NAME."),
                ));
            }
            self.expected = None;
        }
        if self.checks.at <= self.known {
            return Ok(());
        }
        if begins != self.known {
            return Err(self.failed("it does not continue where the archive ends".to_owned()));
        }
        if let Err(why) = self.history.take(&head, self.checks.body(&event)) {
            // Events of the other history that have arrived are not stored either, so that the next
            // run reports them again.
            self.known -= self.pending.len() as u64;
            self.pending.clear();
            self.since = None;
            return Err(another(self.journal, &self.file, &why));
        }
        self.pending.extend_from_slice(&event);
        self.known = self.checks.at;
        self.since.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Stores the pending events.
    pub fn flush(&mut self) -> Result<(), PhysicalError> {
        // The first four bytes alone are no event.
        if self.since.take().is_none() {
            return Ok(());
        }
        let place = (self.known - self.pending.len() as u64, self.known);
        self.journal
            .append(&self.file, place, &mut self.pending.as_slice())?;
        self.added += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// A file that is read back, and whose events are checked before they are returned.
pub struct Verified {
    source: Option<JournalReader>,
    events: Option<Events<JournalReader>>,
    /// Bytes of the event that were returned; at the beginning, bytes of the file's magic number.
    taken: usize,
    is_over: bool,
}

impl Verified {
    pub fn new(source: JournalReader) -> Self {
        Self {
            source: Some(source),
            events: None,
            taken: 0,
            is_over: false,
        }
    }

    fn next(&mut self) -> Result<(), Failure> {
        if let Some(source) = self.source.take() {
            self.events = Some(Events::of(source)?);
            return Ok(());
        }
        if let Some(events) = &mut self.events {
            self.is_over = events.next()?.is_none();
            self.taken = 0;
        }
        Ok(())
    }
}

impl Read for Verified {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_at_first = self.source.is_some();
        let bytes = self.events.as_ref().map_or(&[][..], Events::event);
        if self.taken == bytes.len() && !self.is_over {
            self.next().map_err(|failure| match failure {
                Failure::Io(error) => error,
                Failure::Damaged(words) => io::Error::other(words),
                Failure::Torn => io::ErrorKind::UnexpectedEof.into(),
            })?;
            if is_at_first {
                let count = MAGIC.len().min(buffer.len());
                buffer[..count].copy_from_slice(&MAGIC[..count]);
                return Ok(count);
            }
        }
        if self.is_over {
            return Ok(0);
        }
        let bytes = self.events.as_ref().map_or(&[][..], Events::event);
        let rest = &bytes[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}
