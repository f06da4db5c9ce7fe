//! Reads or writes a file with many requests in flight, so that latency does not limit the rate.

use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Write};
use std::ops::Range;

use super::packet::{Answer, Request, code, kind};
use super::session::Session;

/// A file that is read.
pub struct Fetch {
    handle: Vec<u8>,
    /// Reads in flight, in the order of their bytes: id and range.
    asked: VecDeque<(u32, Range<u64>)>,
    /// The range that is not requested yet.
    left: Range<u64>,
}

impl Fetch {
    /// Reads these bytes of an open file.
    pub fn new(handle: Vec<u8>, range: Range<u64>) -> Self {
        Self {
            handle,
            asked: VecDeque::new(),
            left: range,
        }
    }

    /// Whether everything was received.
    pub fn is_done(&self) -> bool {
        self.asked.is_empty() && self.left.is_empty()
    }

    /// The next bytes. `None`: the end of the file, or of the requested range.
    pub fn next<S: Read + Write>(
        &mut self,
        session: &mut Session<S>,
    ) -> io::Result<Option<Cursor<Vec<u8>>>> {
        while self.asked.len() < session.depth() && !self.left.is_empty() {
            let end = self.left.end.min(self.left.start + session.piece() as u64);
            let range = self.left.start..end;
            self.left.start = end;
            let id = self.ask(session, &range)?;
            self.asked.push_back((id, range));
        }
        let Some((id, range)) = self.asked.pop_front() else {
            return Ok(None);
        };
        match session.receive(id)? {
            Answer::Data(data) => {
                let count = data.get_ref().len() as u64 - data.position();
                let end = range.start + count;
                if count == 0 || end > range.end {
                    session.give_up();
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("the server sends {count} bytes where {range:?} were asked for"),
                    ));
                }
                // A server may send less than was requested.
                if end < range.end {
                    let rest = end..range.end;
                    let id = self.ask(session, &rest)?;
                    self.asked.push_front((id, rest));
                }
                Ok(Some(data))
            }
            Answer::Status {
                code: code::EOF, ..
            } => {
                self.stop(session);
                Ok(None)
            }
            other => Err(session.refused(other)),
        }
    }

    fn ask<S: Read + Write>(
        &self,
        session: &mut Session<S>,
        range: &Range<u64>,
    ) -> io::Result<u32> {
        session.send(kind::READ, |request| {
            let length = (range.end - range.start) as u32;
            request.bytes(&self.handle).long(range.start).number(length)
        })
    }

    fn stop<S: Read + Write>(&mut self, session: &mut Session<S>) {
        self.left.start = self.left.end;
        for (id, _) in self.asked.drain(..) {
            session.forget(id);
        }
    }

    /// Drops all pending requests, and closes the file.
    pub fn close<S: Read + Write>(mut self, session: &mut Session<S>) {
        self.stop(session);
        // If the session is lost, the file is closed already.
        let _ = session.close(&self.handle);
    }
}

/// A file that is written.
pub struct Put {
    handle: Vec<u8>,
    /// The next request, with the bytes that are not sent yet.
    packet: Vec<u8>,
    /// Bytes of the packet before the data.
    head: usize,
    /// Offset of the packet's data in the file.
    at: u64,
    /// Writes in flight.
    asked: VecDeque<u32>,
}

impl Put {
    /// Writes an open file from its start.
    pub fn new(handle: Vec<u8>) -> Self {
        let head = 4 + 1 + 4 + 4 + handle.len() + 8 + 4;
        Self {
            handle,
            packet: vec![0; head],
            head,
            at: 0,
            asked: VecDeque::new(),
        }
    }

    pub fn handle(&self) -> &[u8] {
        &self.handle
    }

    /// Accepts some of these bytes, and returns how many. An error may concern earlier bytes.
    pub fn write<S: Read + Write>(
        &mut self,
        session: &mut Session<S>,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let room = self.head + session.piece() - self.packet.len();
        let count = room.min(bytes.len());
        self.packet.extend(&bytes[..count]);
        if count == room {
            self.send(session)?;
        }
        Ok(count)
    }

    fn send<S: Read + Write>(&mut self, session: &mut Session<S>) -> io::Result<()> {
        if self.asked.len() >= session.depth() {
            self.confirm(session)?;
        }
        let count = self.packet.len() - self.head;
        let id = session.id();
        let head = Request::new(kind::WRITE, id)
            .bytes(&self.handle)
            .long(self.at)
            .number(count as u32)
            .packet();
        self.packet[..self.head].copy_from_slice(&head);
        let length = (self.packet.len() - 4) as u32;
        self.packet[..4].copy_from_slice(&length.to_be_bytes());
        session.put(&self.packet)?;
        self.asked.push_back(id);
        self.at += count as u64;
        self.packet.truncate(self.head);
        Ok(())
    }

    fn confirm<S: Read + Write>(&mut self, session: &mut Session<S>) -> io::Result<()> {
        match self.asked.pop_front() {
            Some(id) => session.done(id),
            None => Ok(()),
        }
    }

    /// Sends the rest, and waits until everything is written and synced to disk.
    pub fn complete<S: Read + Write>(&mut self, session: &mut Session<S>) -> io::Result<()> {
        if self.packet.len() > self.head {
            self.send(session)?;
        }
        while !self.asked.is_empty() {
            self.confirm(session)?;
        }
        let id = session.sync(&self.handle)?;
        session.done(id)
    }

    /// Closes the file without waiting for its pending requests.
    pub fn close<S: Read + Write>(&mut self, session: &mut Session<S>) {
        for id in self.asked.drain(..) {
            session.forget(id);
        }
        // If the session is lost, the file is closed already.
        let _ = session.close(&self.handle);
    }
}
