//! Reads logs from the position of a backup up to the end of the replay, before anything is
//! replayed. One pass answers four questions:
//!
//! - *Do they begin early enough?* The file of the backup is there, and a transaction begins or
//!   ends at the backup's byte (`Survey::event`, where `has_begun` becomes true).
//! - *Is there a gap?* The numbers of files follow each other (`Survey::read`), each announces the
//!   next one (`unended`), and the GTIDs that a file begins with are those read before it
//!   (`knows_seen`).
//! - *Do they reach far enough?* `stop` is found, or what was asked allows the end
//!   (`Survey::is_all_enough`, `is_reached`).
//! - *Are they of that server?* The caller compares [`Stretch::before`] with the backup's GTIDs.

use refloat_run::{Cancel, Refusal};

use crate::about::BinlogPosition;
use crate::binlog::event::{
    Events, Failure, Head, begins_group, gtid_of, is_between, is_standalone, kind, seen_before,
    statement,
};
use crate::binlog::gtid::{Gtid, Seen};
use crate::binlog::logs::{LogFile, Logs};
use crate::binlog::until::{Until, moment, number_of};
use crate::error::PhysicalError;

/// The part of a file that is replayed.
#[derive(Debug, Clone)]
pub struct Part {
    /// The log file, which may be replayed in part only.
    pub file: LogFile,
    /// From this byte on; 0: all of it.
    pub from: u64,
    /// Up to this byte; `None`: to its end.
    pub to: Option<u64>,
}

/// The part of the logs that is replayed.
#[derive(Debug, Clone, Default)]
pub struct Stretch {
    /// By file, in order.
    pub parts: Vec<Part>,
    /// File and byte at which it stops.
    pub stop: (String, u64),
    /// When the last transaction of it was committed, in seconds since 1970.
    pub last: Option<u64>,
    /// How many transactions are replayed.
    pub transactions: u64,
    /// The transactions in the logs before it.
    pub before: Seen,
    /// The transactions in the logs up to its end.
    pub seen: Seen,
}

/// A transaction that is being read.
struct Group {
    begins: u64,
    time: u32,
    gtid: Option<Gtid>,
    /// Whether an event of its own ends it.
    is_open: bool,
    is_complete: bool,
}

impl Group {
    fn new(begins: u64, head: &Head, body: &[u8]) -> Self {
        Self {
            begins,
            time: head.time,
            gtid: gtid_of(head, body),
            is_open: head.kind == kind::MARIADB_GTID && !is_standalone(body),
            is_complete: false,
        }
    }

    fn take(&mut self, head: &Head, body: &[u8]) {
        self.time = head.time;
        self.is_complete = match head.kind {
            kind::XID | kind::XA_PREPARE | kind::PAYLOAD => true,
            kind::QUERY => match statement(body).unwrap_or_default() {
                b"BEGIN" => {
                    self.is_open = true;
                    false
                }
                b"COMMIT" | b"ROLLBACK" => true,
                text => text.starts_with(b"XA ") || !self.is_open,
            },
            kind::QUERY_COMPRESSED => !self.is_open,
            _ => false,
        };
    }
}

struct Survey<'a> {
    logs: &'a Logs,
    start: &'a BinlogPosition,
    until: &'a Until,
    cancel: &'a Cancel,
    has_begun: bool,
    /// The latest time before it.
    time_before: u32,
    /// Whether an event at or after the time to stop at was seen.
    is_reached: bool,
    /// Whether the GTIDs up to here are known.
    knows_seen: bool,
    /// A file that does not announce a next one.
    unended: Option<String>,
    open: Option<Group>,
    stop: Option<u64>,
    found: Stretch,
}

/// Looks at the logs from the position of a backup on.
///
/// # Errors
/// [`PhysicalError::Refused`] if they do not fit the backup or do not reach as far as asked; others
/// if they cannot be read or are damaged.
pub fn survey(
    logs: &Logs,
    start: &BinlogPosition,
    until: &Until,
    cancel: &Cancel,
) -> Result<Stretch, PhysicalError> {
    let mut survey = Survey {
        logs,
        start,
        until,
        cancel,
        has_begun: false,
        time_before: 0,
        is_reached: false,
        knows_seen: false,
        unended: None,
        open: None,
        stop: None,
        found: Stretch::default(),
    };
    survey.read()?;
    Ok(survey.found)
}

impl Survey<'_> {
    fn refused(&self, reason: &str, hint: &str) -> PhysicalError {
        let reason = format!("{}: {reason}", self.logs.shown);
        PhysicalError::refused(Refusal::new(reason).hint(hint))
    }

    fn too_early(&self) -> PhysicalError {
        self.refused(
            &format!("the backup was made after {}", self.until),
            "Restore an older backup: `refloat backups list` shows them.",
        )
    }

    fn read(&mut self) -> Result<(), PhysicalError> {
        let files = &self.logs.files;
        let first = files.iter().position(|file| file.name == self.start.file);
        let Some(first) = first else {
            let names =
                |file: Option<&LogFile>| file.map_or_else(String::new, |it| it.name.clone());
            return Err(self.refused(
                &format!(
                    "{} is missing, and the backup was made at byte {} of it; the logs there are {} to {}",
                    self.start.file,
                    self.start.position,
                    names(files.first()),
                    names(files.last())
                ),
                "The logs must begin before the backup and come from its server. Get the missing ones (`refloat binlog archive` brings an archive up to date), or restore another backup.",
            ));
        };
        if let Until::Position(file, at) = self.until {
            let asked = (number_of(file), *at);
            if asked < (Some(files[first].number), self.start.position) {
                return Err(self.too_early());
            }
        }
        let mut before: Option<&LogFile> = None;
        for (index, file) in files.iter().enumerate().skip(first) {
            if let Some(before) = before
                && file.number != before.number + 1
            {
                return Err(self.refused(
                    &format!(
                        "files are missing between {} and {}",
                        before.name, file.name
                    ),
                    "Without them, the logs cannot be replayed any further. Get them, or stop before them.",
                ));
            }
            before = Some(file);
            let is_last = index + 1 == files.len();
            let from = if index == first {
                self.start.position
            } else {
                0
            };
            let end = self.file(file, is_last)?;
            let is_stop = self.stop.is_some();
            let end = self.stop.unwrap_or(end);
            self.found.stop = (file.name.clone(), end);
            self.found.parts.push(Part {
                file: file.clone(),
                from,
                to: Some(end),
            });
            if is_stop {
                return Ok(());
            }
        }
        self.is_all_enough()
    }

    /// Called when all files were read without reaching a place to stop at. Succeeds if that is
    /// enough.
    fn is_all_enough(&self) -> Result<(), PhysicalError> {
        let missing = match self.until {
            Until::Latest => return Ok(()),
            Until::Time(_) if self.is_reached => return Ok(()),
            Until::Time(_) => format!("they do not reach up to {}", self.until),
            Until::Before(gtid) | Until::After(gtid) => {
                format!("transaction {gtid} is not in them")
            }
            Until::Position(..) => format!("{} is not in them", self.until),
        };
        let (file, at) = &self.found.stop;
        let last = self.found.last.or(Some(u64::from(self.time_before)));
        let last = last
            .filter(|last| *last > 0)
            .map_or_else(String::new, |last| {
                format!(", with a last transaction of {}", moment(last))
            });
        Err(self.refused(
            &format!("{missing}: they end at {file}:{at}{last}"),
            "`--until latest` replays all of them.",
        ))
    }

    /// Reads a file, and returns the byte up to which it is complete.
    fn file(&mut self, file: &LogFile, is_last: bool) -> Result<u64, PhysicalError> {
        let source = self.logs.open(file)?;
        let failed = |failure| self.logs.failed(file, 0, failure);
        let mut events = Events::of(source).map_err(failed)?;
        let mut last = 0;
        loop {
            let (begins, head) = match events.next() {
                Ok(Some(found)) => found,
                Ok(None) => break,
                // The copy of a file that was being written.
                Err(Failure::Torn) if is_last => break,
                Err(failure) => return Err(self.logs.failed(file, events.checks.at, failure)),
            };
            if let Some(reason) = self.cancel.reason() {
                return Err(PhysicalError::Cancelled(reason));
            }
            last = head.kind;
            self.event(file, begins, &head, events.body())?;
            if self.stop.is_some() {
                return Ok(begins);
            }
        }
        let mut end = events.checks.at;
        if self.open.as_ref().is_some_and(|group| group.is_complete) {
            self.close(file, end)?;
        } else if let Some(group) = self.open.take() {
            // It was never committed, or is still
            end = group.begins;
        }
        if !self.has_begun {
            if end != self.start.position {
                return Err(self.refused(
                    &format!(
                        "{} ends at byte {end}, but the backup was made at byte {}",
                        file.name, self.start.position
                    ),
                    "It was copied earlier, or comes from another server. Get the file again; `refloat binlog archive` brings an archive up to date.",
                ));
            }
            self.begin()?;
        }
        if let Until::Position(name, at) = self.until
            && *name == file.name
            && self.stop.is_none()
        {
            if *at != end {
                return Err(self.no_position(file, end));
            }
            self.stop = Some(end);
        }
        if !is_last && !matches!(last, kind::ROTATE | kind::STOP) && !self.logs.is_known() {
            self.unended = Some(file.name.clone());
        }
        Ok(end)
    }

    /// `near` is the last place before it at which a transaction begins or ends.
    fn no_position(&self, file: &LogFile, near: u64) -> PhysicalError {
        self.refused(
            &format!("no transaction begins or ends at {}", self.until),
            &format!(
                "`--until {}:{near}` stops before the one that lies there.",
                file.name
            ),
        )
    }

    fn event(
        &mut self,
        file: &LogFile,
        begins: u64,
        head: &Head,
        body: &[u8],
    ) -> Result<(), PhysicalError> {
        let is_border = begins_group(head.kind) || is_between(head.kind);
        if is_border {
            self.close(file, begins)?;
            if self.stop.is_some() {
                return Ok(());
            }
        }
        if !self.has_begun && begins >= self.start.position {
            if begins != self.start.position || !is_border {
                return Err(self.refused(
                    &format!(
                        "no transaction begins at byte {} of {}, where the backup was made",
                        self.start.position, file.name
                    ),
                    "The logs belong to another server, or to another history of this one.",
                ));
            }
            self.begin()?;
        }
        if let Until::Position(name, at) = self.until
            && *name == file.name
            && begins >= *at
            && self.has_begun
        {
            if begins != *at || !is_border {
                let near = self.open.as_ref().map_or(begins, |group| group.begins);
                return Err(self.no_position(file, near));
            }
            self.stop = Some(begins);
            return Ok(());
        }
        if let Until::Time(time) = self.until
            && self.has_begun
        {
            self.is_reached |= u64::from(head.time) >= *time;
        }
        match head.kind {
            kind::PREVIOUS_GTIDS | kind::GTID_LIST => self.compare(file, head.kind, body),
            kind::INCIDENT if self.has_begun => Err(self.refused(
                &format!("the server says at byte {begins} of {} that it has lost events", file.name),
                "The logs cannot be replayed beyond that point. Stop before it, or restore a newer backup.",
            )),
            _ if begins_group(head.kind) => {
                // Numbers with tags are not read.
                self.knows_seen &= head.kind != kind::GTID_TAGGED;
                self.open = Some(Group::new(begins, head, body));
                self.is_continued(file)
            }
            _ if is_border => Ok(()),
            _ => match &mut self.open {
                Some(group) => {
                    group.take(head, body);
                    Ok(())
                }
                None => Err(self.refused(
                    &format!("an event of kind {} belongs to no transaction, at byte {begins} of {}", head.kind, file.name),
                    "Logs of MariaDB 10 and MySQL 5.7, and of later versions, can be replayed.",
                )),
            },
        }
    }

    /// The position of the backup is reached.
    fn begin(&mut self) -> Result<(), PhysicalError> {
        self.has_begun = true;
        self.found.before = self.found.seen.clone();
        let is_late = match self.until {
            Until::Time(time) => u64::from(self.time_before) >= *time,
            Until::Before(gtid) | Until::After(gtid) => self.found.before.has(gtid),
            Until::Latest | Until::Position(..) => false,
        };
        if is_late {
            return Err(self.too_early());
        }
        Ok(())
    }

    /// Ends the transaction that is being read: either it will be replayed, or the place to stop is
    /// found.
    fn close(&mut self, file: &LogFile, ends: u64) -> Result<(), PhysicalError> {
        let Some(group) = self.open.take() else {
            return Ok(());
        };
        if self.has_begun {
            let is_stop = match self.until {
                Until::Before(gtid) => group.gtid.as_ref() == Some(gtid),
                Until::Time(time) => u64::from(group.time) >= *time,
                _ => false,
            };
            if is_stop {
                self.stop = Some(group.begins);
                return Ok(());
            }
            self.found.transactions += 1;
            self.found.last = Some(u64::from(group.time));
        } else {
            self.time_before = self.time_before.max(group.time);
        }
        if let Some(gtid) = &group.gtid {
            if self.knows_seen && self.found.seen.has(gtid) {
                return Err(self.refused(
                    &format!(
                        "transaction {gtid} occurs a second time, or after a later one of its server, at byte {} of {}",
                        group.begins, file.name
                    ),
                    "The server was restored or its logs were reset, and it continued the old files: they hold two histories. Stop before that point.",
                ));
            }
            self.found.seen.add(gtid);
            if *self.until == Until::After(gtid.clone()) && self.has_begun {
                self.stop = Some(ends);
            }
        }
        Ok(())
    }

    /// Compares what a file says about the files before it with what was read there.
    fn compare(&mut self, file: &LogFile, kind: u8, body: &[u8]) -> Result<(), PhysicalError> {
        let Some(list) = seen_before(kind, body) else {
            let words = "its list of GTIDs cannot be understood".to_owned();
            return Err(self.logs.failed(file, 0, Failure::Damaged(words)));
        };
        let is_empty = list.is_empty();
        if !self.knows_seen {
            self.found.seen = list;
        } else if !self.found.seen.go_on(&list) {
            return Err(self.refused(
                &format!(
                    "{} does not continue where the file before it ends: it follows {list}, but that file ends at {}",
                    file.name, self.found.seen
                ),
                "A file before it is truncated, or one of the two belongs to another history.",
            ));
        }
        if !is_empty {
            self.unended = None;
        }
        self.knows_seen = true;
        Ok(())
    }

    fn is_continued(&self, file: &LogFile) -> Result<(), PhysicalError> {
        match &self.unended {
            Some(before) => Err(self.refused(
                &format!("{before} does not say that {} follows", file.name),
                "The server crashed there, or the file is a truncated copy. Without GTIDs the two cannot be told apart: get the file again, or stop before its end.",
            )),
            None => Ok(()),
        }
    }
}
