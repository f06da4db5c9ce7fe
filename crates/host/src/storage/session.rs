//! A session with an SFTP server, with many requests in flight at once.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use super::packet::{Answer, Attributes, Fields, PACKET_MOST, Request, code, kind};

/// The protocol version. OpenSSH supports no other.
const VERSION: u32 = 3;
/// Size of a read or write in bytes if the server reports no limit. Every server accepts it.
const PIECE_LEAST: usize = 32 * 1024;
/// Maximum size of a read or write in bytes: a packet, less the header before the data.
const PIECE_MOST: usize = PACKET_MOST - 1024;
/// Bytes in flight in one transfer: twice the window of `ssh`, which is 2 MiB.
const UNDER_WAY: usize = 4 << 20;

/// Renames a file atomically over another.
pub const RENAME: &str = "posix-rename@openssh.com";
/// Gives a file a second name, unless that is taken.
pub const LINK: &str = "hardlink@openssh.com";
/// Syncs a file to disk.
pub const SYNC: &str = "fsync@openssh.com";
const SPACE: &str = "statvfs@openssh.com";
const LIMITS: &str = "limits@openssh.com";
/// The extensions in use, with the supported version of each.
const KNOWN: [(&str, &str); 5] = [
    (RENAME, "1"),
    (LINK, "1"),
    (SYNC, "1"),
    (SPACE, "2"),
    (LIMITS, "1"),
];

/// How a file is opened.
pub mod flags {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const CREATE: u32 = 8;
    pub const NEW: u32 = 32;
}

/// A session over a stream that reports its end as an error.
///
/// An error that the server reports leaves the session usable. Any other error makes it unusable
/// ([`Session::is_lost`]).
pub struct Session<S> {
    stream: S,
    next: u32,
    /// Requests without an answer yet, and whether the answer is wanted.
    waiting: HashMap<u32, bool>,
    arrived: HashMap<u32, Answer>,
    offers: Vec<&'static str>,
    piece: usize,
    lost: bool,
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server {what}, which is not SFTP"),
    )
}

impl<S: Read + Write> Session<S> {
    /// Opens the session and asks the server for its limits.
    ///
    /// # Errors
    /// Those of the stream; the server speaks another version, or is no SFTP server.
    pub fn begin(stream: S) -> io::Result<Self> {
        let mut session = Self {
            stream,
            next: 0,
            waiting: HashMap::new(),
            arrived: HashMap::new(),
            offers: Vec::new(),
            piece: PIECE_LEAST,
            lost: false,
        };
        session.put(&Request::new(kind::INIT, VERSION).packet())?;
        let greeting = session.packet().map_err(|error| {
            if error.kind() != io::ErrorKind::InvalidData {
                return error;
            }
            let hint = "does a startup file of the account's shell print something?";
            io::Error::new(error.kind(), format!("{error}; {hint}"))
        })?;
        session.offers = Self::greeted(&greeting)?;
        if session.offers(LIMITS) {
            let id = session.send(kind::EXTENDED, |request| request.bytes(LIMITS))?;
            if let Answer::Reply(limits) = session.receive(id)? {
                session.piece = piece(&limits);
            }
        }
        Ok(session)
    }

    fn greeted(greeting: &[u8]) -> io::Result<Vec<&'static str>> {
        let mut fields = Fields(greeting);
        if fields.byte() != Some(kind::VERSION) {
            return Err(nonsense("greets with something else than its version"));
        }
        match fields.number() {
            Some(VERSION) => {}
            Some(other) => {
                let words = format!("the server speaks version {other} of SFTP, not {VERSION}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, words));
            }
            None => return Err(nonsense("names no version")),
        }
        let mut offers = Vec::new();
        while let (Some(name), Some(version)) = (fields.bytes(), fields.bytes()) {
            let known = KNOWN
                .iter()
                .find(|known| known.0.as_bytes() == name && known.1.as_bytes() == version);
            offers.extend(known.map(|known| known.0));
        }
        Ok(offers)
    }

    /// The underlying stream.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Whether the server has this extension.
    pub fn offers(&self, extension: &str) -> bool {
        self.offers.contains(&extension)
    }

    /// Whether the session is no longer usable.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Marks the session as unusable.
    pub fn give_up(&mut self) {
        self.lost = true;
    }

    /// Size of a read or write in bytes.
    pub fn piece(&self) -> usize {
        self.piece
    }

    /// How many reads or writes are in flight at the same time.
    pub fn depth(&self) -> usize {
        UNDER_WAY / self.piece
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, kind: u8, build: impl FnOnce(Request) -> Request) -> io::Result<u32> {
        let id = self.id();
        self.put(&build(Request::new(kind, id)).packet())?;
        Ok(id)
    }

    /// Reserves an id for a request that the caller sends with [`Session::put`].
    pub fn id(&mut self) -> u32 {
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.waiting.insert(id, true);
        id
    }

    pub fn put(&mut self, packet: &[u8]) -> io::Result<()> {
        if self.lost {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let sent = self.stream.write_all(packet);
        self.lost |= sent.is_err();
        sent
    }

    /// The answer to this request. Answers to other requests are kept for later calls.
    pub fn receive(&mut self, id: u32) -> io::Result<Answer> {
        loop {
            if let Some(answer) = self.arrived.remove(&id) {
                return Ok(answer);
            }
            let packet = self.packet()?;
            let Some((id, answer)) = Answer::parse(packet) else {
                self.lost = true;
                return Err(nonsense("sends a packet that ends too early"));
            };
            match self.waiting.remove(&id) {
                Some(true) => drop(self.arrived.insert(id, answer)),
                Some(false) => {}
                None => {
                    self.lost = true;
                    return Err(nonsense("answers what nobody asked"));
                }
            }
        }
    }

    /// Discards the answer to this request.
    pub fn forget(&mut self, id: u32) {
        if self.arrived.remove(&id).is_none() {
            self.waiting.insert(id, false);
        }
    }

    fn packet(&mut self) -> io::Result<Vec<u8>> {
        let read = self.read_packet();
        self.lost |= read.is_err();
        read
    }

    fn read_packet(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 || length > PACKET_MOST {
            return Err(nonsense(&format!("announces a packet of {length} bytes")));
        }
        let mut packet = Vec::with_capacity(length);
        let mut stream = (&mut self.stream).take(length as u64);
        stream.read_to_end(&mut packet)?;
        if packet.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(packet)
    }

    /// The answer to a request that returns only a status.
    pub fn done(&mut self, id: u32) -> io::Result<()> {
        match self.receive(id)? {
            Answer::Status { code: code::OK, .. } => Ok(()),
            other => Err(self.refused(other)),
        }
    }

    /// The answer to a request that returns a handle.
    pub fn handle(&mut self, id: u32) -> io::Result<Vec<u8>> {
        match self.receive(id)? {
            Answer::Handle(handle) => Ok(handle),
            other => Err(self.refused(other)),
        }
    }

    fn attributes(&mut self, id: u32) -> io::Result<Attributes> {
        match self.receive(id)? {
            Answer::Attributes(attributes) => Ok(attributes),
            other => Err(self.refused(other)),
        }
    }

    /// The error for an unexpected answer. One that is not a failure status ends the session: such
    /// a server cannot be trusted.
    pub fn refused(&mut self, answer: Answer) -> io::Error {
        let is_status = matches!(&answer, Answer::Status { code, .. } if *code != code::OK);
        self.lost |= !is_status;
        answer.refusal()
    }

    /// Requests the attributes of a path. `kind` is `STAT` (follows links) or `LSTAT`.
    pub fn look(&mut self, kind: u8, path: &str) -> io::Result<Attributes> {
        let id = self.send(kind, |request| request.bytes(path))?;
        self.attributes(id)
    }

    /// Requests the attributes of an open file.
    pub fn look_at_open(&mut self, handle: &[u8]) -> io::Result<Attributes> {
        let id = self.send(kind::FSTAT, |request| request.bytes(handle))?;
        self.attributes(id)
    }

    /// Opens a file. Only its owner has access to a new file.
    pub fn open(&mut self, path: &str, flags: u32) -> io::Result<Vec<u8>> {
        let id = self.send(kind::OPEN, |request| {
            let request = request.bytes(path).number(flags);
            if flags & flags::CREATE == 0 {
                request.number(0)
            } else {
                request.mode(0o600)
            }
        })?;
        self.handle(id)
    }

    /// Closes a file or a folder, without waiting.
    pub fn close(&mut self, handle: &[u8]) -> io::Result<()> {
        let id = self.send(kind::CLOSE, |request| request.bytes(handle))?;
        self.forget(id);
        Ok(())
    }

    /// Sends a request that takes a path and returns a status: `REMOVE`, `RMDIR`.
    pub fn act(&mut self, kind: u8, path: &str) -> io::Result<()> {
        let id = self.send(kind, |request| request.bytes(path))?;
        self.done(id)
    }

    /// Creates a folder to which only its owner has access.
    pub fn make_folder(&mut self, path: &str) -> io::Result<()> {
        let id = self.send(kind::MKDIR, |request| request.bytes(path).mode(0o700))?;
        self.done(id)
    }

    /// Gives a file another name, with [`RENAME`] or [`LINK`].
    pub fn name(&mut self, how: &str, old: &str, new: &str) -> io::Result<()> {
        let id = self.send(kind::EXTENDED, |request| {
            request.bytes(how).bytes(old).bytes(new)
        })?;
        self.done(id)
    }

    /// Requests a sync of an open file. Returns the id of the request.
    pub fn sync(&mut self, handle: &[u8]) -> io::Result<u32> {
        self.send(kind::EXTENDED, |request| request.bytes(SYNC).bytes(handle))
    }

    /// Bytes that may still be written to the file system of this path. `None`: unknown.
    pub fn free(&mut self, path: &str) -> Option<u64> {
        if self.lost || !self.offers(SPACE) {
            return None;
        }
        let id = self
            .send(kind::EXTENDED, |request| request.bytes(SPACE).bytes(path))
            .ok()?;
        let Answer::Reply(reply) = self.receive(id).ok()? else {
            return None;
        };
        let mut fields = Fields(&reply);
        let [_, size, _, _, blocks, files, _, free_files] =
            std::array::from_fn(|_| fields.long().unwrap_or_default());
        // Some file systems do not count files.
        let no_file = files > 0 && free_files == 0;
        Some(if no_file {
            0
        } else {
            blocks.saturating_mul(size)
        })
    }

    /// Whether the file system of this path is full. `None`: unknown.
    pub fn is_full(&mut self, path: &str) -> Option<bool> {
        let free = self.free(path)?;
        Some(free < self.piece as u64)
    }
}

/// Size of a read or write in bytes, from a server's answer about its limits.
fn piece(limits: &[u8]) -> usize {
    let mut fields = Fields(limits);
    let [packet, read, write] = std::array::from_fn(|_| match fields.long() {
        // No limit is reported.
        Some(0) | None => PIECE_LEAST,
        Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
    });
    let most = read.min(write).min(packet.saturating_sub(1024));
    most.clamp(PIECE_LEAST, PIECE_MOST)
}
