//! Events of a binary log: their heads, their checksums, and what is read of a few of them.
//!
//! Source: `sql/log_event.h` of MariaDB, and `libs/mysql/binlog/event` of MySQL.

use std::io::{self, Read};

use crate::binlog::gtid::{Gtid, Seen};

/// First bytes of a file.
pub const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];
/// First bytes of a file that MySQL encrypts.
const MAGIC_ENCRYPTED: [u8; 4] = [0xfd, b'b', b'i', b'n'];
/// Bytes of the head of an event.
const HEAD: usize = 19;
/// Bytes of the checksum after an event.
const SUM: usize = 4;
/// No server accepts a larger event: the largest `max_allowed_packet`, and the overhead around it.
const SIZE_MAX: usize = (1 << 30) + (1 << 20);
/// `LOG_EVENT_BINLOG_IN_USE_F`: the checksum does not cover it.
const IN_USE: u16 = 1;
/// `LOG_EVENT_ARTIFICIAL_F`: the event is not in the file.
const ARTIFICIAL: u16 = 0x20;

/// Numbers of the kinds of events that are looked at.
pub mod kind {
    /// A statement.
    pub const QUERY: u8 = 2;
    /// The server was stopped.
    pub const STOP: u8 = 3;
    /// Another file follows.
    pub const ROTATE: u8 = 4;
    /// The format of the file's events; always the first one.
    pub const FORMAT: u8 = 15;
    /// The end of a transaction.
    pub const XID: u8 = 16;
    /// Events were lost.
    pub const INCIDENT: u8 = 26;
    /// Sent to replicas when nothing is left to send; never in a file.
    pub const HEARTBEAT: u8 = 27;
    /// The beginning of a transaction.
    pub const GTID: u8 = 33;
    /// The same, without a number.
    pub const ANONYMOUS: u8 = 34;
    /// The GTIDs of all earlier files.
    pub const PREVIOUS_GTIDS: u8 = 35;
    /// The end of the first half of a distributed transaction.
    pub const XA_PREPARE: u8 = 38;
    /// A whole transaction, compressed.
    pub const PAYLOAD: u8 = 40;
    /// A heartbeat with a position of 64 bits (MySQL 8.0.26).
    pub const HEARTBEAT_2: u8 = 41;
    /// The beginning of a transaction whose number has a tag.
    pub const GTID_TAGGED: u8 = 42;
    /// MariaDB: up to where transactions are safe.
    pub const CHECKPOINT: u8 = 161;
    /// MariaDB: the beginning of a transaction.
    pub const MARIADB_GTID: u8 = 162;
    /// MariaDB: the GTIDs of earlier files.
    pub const GTID_LIST: u8 = 163;
    /// MariaDB: what follows is encrypted.
    pub const ENCRYPTION: u8 = 164;
    /// MariaDB: a statement, compressed.
    pub const QUERY_COMPRESSED: u8 = 165;
}

/// The head of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// When it happened, in seconds since 1970.
    pub time: u32,
    /// See [`kind`].
    pub kind: u8,
    /// `server_id` of the server that it came from.
    pub server: u32,
    /// Its bytes, with head and checksum.
    pub size: u32,
    /// The byte behind it in its file, modulo 2^32. 0: it does not say, as events within a
    /// transaction of MariaDB 11.8.
    pub next: u32,
    flags: u16,
}

impl Head {
    /// Reads the head of an event.
    pub fn of(event: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD] = event.first_chunk()?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Some(Self {
            time: word(0),
            kind: head[4],
            server: word(5),
            size: word(9),
            next: word(13),
            flags: u16::from_le_bytes([head[17], head[18]]),
        })
    }

    /// Whether the event is sent to replicas and stands in no file.
    pub fn is_artificial(&self) -> bool {
        self.flags & ARTIFICIAL != 0
            || self.kind == kind::FORMAT && self.next == 0
            || matches!(self.kind, kind::HEARTBEAT | kind::HEARTBEAT_2)
    }
}

/// Whether the last four bytes of an event are the checksum of the others.
fn has_right_sum(event: &[u8]) -> bool {
    let Some((bytes, sum)) = event.split_last_chunk::<SUM>() else {
        return false;
    };
    let mut hasher = crc32fast::Hasher::new();
    let flags = u16::from_le_bytes([bytes[17], bytes[18]]) & !IN_USE;
    let is_format = bytes[4] == kind::FORMAT;
    if is_format {
        hasher.update(&bytes[..17]);
        hasher.update(&flags.to_le_bytes());
        hasher.update(&bytes[HEAD..]);
    } else {
        hasher.update(bytes);
    }
    hasher.finalize() == u32::from_le_bytes(*sum)
}

/// The file that an artificial rotation says follows. Only whoever has the event before it knows
/// whether it has a checksum.
pub fn next_file(event: &[u8]) -> Option<String> {
    let event = if event.len() > HEAD + 8 + SUM && has_right_sum(event) {
        &event[..event.len() - SUM]
    } else {
        event
    };
    let name = event.get(HEAD + 8..)?;
    Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
}

/// Checks the events of one file as they come: each begins where the one before it ends, and has
/// the checksum that it says.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    has_sums: bool,
    /// The first event, which says whether there are checksums, was seen.
    knows_format: bool,
    /// The byte at which the next one begins.
    pub at: u64,
}

impl Checks {
    /// Takes the event that begins at [`Checks::at`].
    ///
    /// # Errors
    /// What is wrong with it, as words.
    pub fn take(&mut self, event: &[u8]) -> Result<Head, String> {
        let head = self.look(event)?;
        let ends = self.at + u64::from(head.size);
        if head.next != 0 && head.next != ends as u32 {
            return Err(format!(
                "the event says that it ends at byte {}, but it ends at {ends}",
                head.next
            ));
        }
        self.at = ends;
        Ok(head)
    }

    /// Checks an event without taking it as the next one of the file.
    ///
    /// # Errors
    /// What is wrong with it, as words.
    pub fn look(&mut self, event: &[u8]) -> Result<Head, String> {
        let head = Head::of(event).filter(|head| head.size as usize == event.len());
        let head = head.ok_or("an event has an impossible length")?;
        if head.kind == kind::FORMAT {
            // Its checksum has a place since servers write checksums at all: MySQL 5.6.1 and
            // MariaDB 5.3.
            let algorithm = event.len().checked_sub(SUM + 1).map(|at| event[at]);
            self.has_sums = match algorithm {
                Some(0) => false,
                Some(1) => true,
                _ => return Err("its checksums are of an unknown type".to_owned()),
            };
            self.knows_format = true;
        }
        if !self.knows_format {
            return Err("the first event does not describe the format of the others".to_owned());
        }
        if self.has_sums && (event.len() < HEAD + SUM || !has_right_sum(event)) {
            return Err("the checksum of the event is wrong".to_owned());
        }
        if head.kind == kind::ENCRYPTION {
            return Err("what follows is encrypted by the server".to_owned());
        }
        Ok(head)
    }

    /// What an event holds between its head and its checksum.
    pub fn body<'e>(&self, event: &'e [u8]) -> &'e [u8] {
        let sum = if self.has_sums { SUM } else { 0 };
        event.get(HEAD..event.len() - sum).unwrap_or_default()
    }
}

/// Why no further event can be read.
#[derive(Debug)]
pub enum Failure {
    /// The file cannot be read.
    Io(io::Error),
    /// It is damaged, in these words.
    Damaged(String),
    /// It ends within an event.
    Torn,
}

/// Reads the events of a file.
pub struct Events<R> {
    source: R,
    /// What was checked so far.
    pub checks: Checks,
    event: Vec<u8>,
}

impl<R: Read> Events<R> {
    /// Of a file that begins here.
    ///
    /// # Errors
    /// It is no binary log, or one that the server encrypts.
    pub fn of(mut source: R) -> Result<Self, Failure> {
        let mut magic = [0; MAGIC.len()];
        source.read_exact(&mut magic).map_err(ended)?;
        match magic {
            MAGIC => {
                let mut events = Self::within(source, MAGIC.len() as u64);
                events.checks.knows_format = false;
                Ok(events)
            }
            MAGIC_ENCRYPTED => Err(Failure::Damaged("it is encrypted by the server".to_owned())),
            _ => Err(Failure::Damaged("it is not a binary log".to_owned())),
        }
    }

    /// Of a file from this byte on, where an event begins. Until a format is read, checksums are
    /// not looked at.
    pub fn within(source: R, at: u64) -> Self {
        Self {
            source,
            checks: Checks {
                has_sums: false,
                knows_format: true,
                at,
            },
            event: Vec::new(),
        }
    }

    /// The next event and where it begins. `None`: the file ends.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn next(&mut self) -> Result<Option<(u64, Head)>, Failure> {
        self.event.resize(HEAD, 0);
        let mut found = 0;
        while found < HEAD {
            match self.source.read(&mut self.event[found..]) {
                Ok(0) if found == 0 => return Ok(None),
                Ok(0) => return Err(Failure::Torn),
                Ok(count) => found += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Io(error)),
            }
        }
        let size = Head::of(&self.event).map_or(0, |head| head.size as usize);
        if !(HEAD..=SIZE_MAX).contains(&size) {
            let words = "an event has an impossible length".to_owned();
            return Err(Failure::Damaged(words));
        }
        // Not all at once: a damaged length would take memory for bytes that never come.
        let rest = (size - HEAD) as u64;
        let mut body = self.source.by_ref().take(rest);
        let read = body.read_to_end(&mut self.event).map_err(ended)?;
        if read as u64 != rest {
            return Err(Failure::Torn);
        }
        let begins = self.checks.at;
        let head = self.checks.take(&self.event).map_err(Failure::Damaged)?;
        Ok(Some((begins, head)))
    }

    /// The event that was read last, with head and checksum.
    pub fn event(&self) -> &[u8] {
        &self.event
    }

    /// The event without its header and checksum.
    pub fn body(&self) -> &[u8] {
        self.checks.body(&self.event)
    }
}

fn ended(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        Failure::Torn
    } else {
        Failure::Io(error)
    }
}

/// Whether an event begins a transaction, or a statement that is one by itself.
pub fn begins_group(kind: u8) -> bool {
    matches!(
        kind,
        kind::GTID | kind::ANONYMOUS | kind::GTID_TAGGED | kind::MARIADB_GTID
    )
}

/// Whether an event stands between transactions.
pub fn is_between(kind: u8) -> bool {
    matches!(
        kind,
        kind::FORMAT
            | kind::ROTATE
            | kind::STOP
            | kind::PREVIOUS_GTIDS
            | kind::GTID_LIST
            | kind::CHECKPOINT
    )
}

/// The number of a transaction that begins with this event.
pub fn gtid_of(head: &Head, body: &[u8]) -> Option<Gtid> {
    let number = |at: usize| Some(u64::from_le_bytes(*body.get(at..)?.first_chunk()?));
    match head.kind {
        kind::MARIADB_GTID => Some(Gtid::MariaDb {
            sequence: number(0)?,
            domain: u32::from_le_bytes(*body.get(8..)?.first_chunk()?),
            server: head.server,
        }),
        kind::GTID => Some(Gtid::MySql {
            source: uuid(body.get(1..17)?),
            number: number(17)?,
        }),
        _ => None,
    }
}

/// Whether a MariaDB transaction is one event, without an end of its own.
pub fn is_standalone(body: &[u8]) -> bool {
    body.get(12).is_some_and(|flags| flags & 1 != 0)
}

/// What stands in earlier files, by an event that says so.
pub fn seen_before(kind: u8, body: &[u8]) -> Option<Seen> {
    let number = |at: usize| Some(u64::from_le_bytes(*body.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*body.get(at..)?.first_chunk()?));
    let mut seen = Seen::default();
    if kind == kind::GTID_LIST {
        // The upper four bits are flags.
        let count = (word(0)? & 0x0fff_ffff) as usize;
        for at in (0..count).map(|index| 4 + 16 * index) {
            seen.add(&Gtid::MariaDb {
                domain: word(at)?,
                server: word(at + 4)?,
                sequence: number(at + 8)?,
            });
        }
        return Some(seen);
    }
    let first = *body.first()?;
    let is_tagged = first == 1 && *body.get(7)? == 1;
    let count = if is_tagged {
        (number(0)? >> 8) & 0xffff_ffff_ffff
    } else {
        number(0)?
    };
    let mut at = 8;
    for _ in 0..count {
        let mut source = uuid(body.get(at..at + 16)?);
        at += 16;
        if is_tagged {
            // A length of less than 64 in one byte, shifted by the bit that says so.
            let length = usize::from(body.get(at)? >> 1);
            let tag = String::from_utf8_lossy(body.get(at + 1..at + 1 + length)?);
            if length > 0 {
                source = format!("{source}:{tag}");
            }
            at += 1 + length;
        }
        let ranges = number(at)?;
        at += 8;
        for _ in 0..ranges {
            seen.add_range(&source, (number(at)?, number(at + 8)?));
            at += 16;
        }
    }
    Some(seen)
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let digits = b"0123456789abcdef";
        text.push(char::from(digits[usize::from(byte >> 4)]));
        text.push(char::from(digits[usize::from(byte & 15)]));
    }
    text
}

/// The statement of an event of kind [`kind::QUERY`].
pub fn statement(body: &[u8]) -> Option<&[u8]> {
    let database = usize::from(*body.get(8)?);
    let status = usize::from(u16::from_le_bytes(*body.get(11..)?.first_chunk()?));
    body.get(13 + status + database + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without a pattern.
    fn noise(seed: u32, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut reader = blake3::Hasher::new();
        reader.update(&seed.to_le_bytes());
        reader.finalize_xof().fill(&mut bytes);
        bytes
    }

    /// A whole event with a checksum, which begins at `at`.
    fn event(kind: u8, at: u64, body: &[u8]) -> Vec<u8> {
        let size = (19 + body.len() + 4) as u32;
        let mut bytes = vec![0; 4];
        bytes.push(kind);
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((at as u32 + size).to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(body);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn damage_is_seen_wherever_it_is() {
        let mut file = MAGIC.to_vec();
        let mut body = vec![7; 60];
        body.push(1);
        file.extend(event(kind::FORMAT, 4, &body));
        for _ in 0..3 {
            file.extend(event(kind::QUERY, file.len() as u64, &[9; 50]));
        }
        let read = |bytes: &[u8]| {
            let mut events = Events::of(bytes)?;
            let mut count = 0;
            while events.next()?.is_some() {
                count += 1;
            }
            Ok::<_, Failure>(count)
        };
        assert_eq!(read(&file).unwrap(), 4);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 4;
            assert!(read(&damaged).is_err(), "byte {at}");
        }
        // An event is missing.
        let gap = [&file[..84 + 4], &file[84 + 4 + 73..]].concat();
        assert!(matches!(read(&gap), Err(Failure::Damaged(_))));
    }

    #[test]
    fn no_bytes_make_a_reader_panic() {
        for seed in 0..20_000 {
            let bytes = noise(seed, seed as usize % 97);
            let _ = Checks::default().look(&bytes);
            let _ = next_file(&bytes);
            let _ = statement(&bytes);
            for kind in [kind::GTID_LIST, kind::PREVIOUS_GTIDS] {
                let _ = seen_before(kind, &bytes);
            }
            if let Some(mut head) = Head::of(&bytes) {
                for kind in [kind::GTID, kind::MARIADB_GTID] {
                    head.kind = kind;
                    let _ = gtid_of(&head, &bytes);
                }
            }
        }
    }
}
