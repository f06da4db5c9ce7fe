//! SFTP version 3 as bytes: requests and answers.
//!
//! draft-ietf-secsh-filexfer-02; the extensions are in OpenSSH's PROTOCOL file. An answer is
//! hostile until it is parsed: every length must fit its packet, and no length causes an
//! allocation.

use std::io::{self, Cursor};

/// Packet types.
pub mod kind {
    pub const INIT: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const CLOSE: u8 = 4;
    pub const READ: u8 = 5;
    pub const WRITE: u8 = 6;
    pub const LSTAT: u8 = 7;
    pub const FSTAT: u8 = 8;
    pub const OPENDIR: u8 = 11;
    pub const READDIR: u8 = 12;
    pub const REMOVE: u8 = 13;
    pub const MKDIR: u8 = 14;
    pub const RMDIR: u8 = 15;
    pub const STAT: u8 = 17;
    pub const STATUS: u8 = 101;
    pub const HANDLE: u8 = 102;
    pub const DATA: u8 = 103;
    pub const NAME: u8 = 104;
    pub const ATTRS: u8 = 105;
    pub const EXTENDED: u8 = 200;
    pub const EXTENDED_REPLY: u8 = 201;
}

/// Longest packet, without its length field. OpenSSH neither sends nor accepts longer ones.
pub const PACKET_MOST: usize = 256 * 1024;
/// Longest handle.
const HANDLE_MOST: usize = 256;

/// Status codes.
pub mod code {
    pub const OK: u32 = 0;
    pub const EOF: u32 = 1;
    pub const NO_SUCH_FILE: u32 = 2;
    pub const PERMISSION_DENIED: u32 = 3;
    pub const UNSUPPORTED: u32 = 8;
}

/// Flags for the attributes that are present.
pub mod given {
    pub const SIZE: u32 = 1;
    pub const OWNER: u32 = 2;
    pub const MODE: u32 = 4;
    pub const TIMES: u32 = 8;
    pub const EXTENDED: u32 = 1 << 31;
}

/// A packet under construction.
pub struct Request(Vec<u8>);

impl Request {
    /// `number` is the request id, or the version in the first packet.
    pub fn new(kind: u8, number: u32) -> Self {
        Self(vec![0, 0, 0, 0, kind]).number(number)
    }

    pub fn number(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub fn long(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let mut request = self.number(bytes.len() as u32);
        request.0.extend(bytes);
        request
    }

    /// Attributes with the mode alone.
    pub fn mode(self, mode: u32) -> Self {
        self.number(given::MODE).number(mode)
    }

    /// The packet with its length field.
    pub fn packet(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }
}

/// A file's attributes from a server, which may leave out any of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub size: Option<u64>,
    pub mode: Option<u32>,
    /// Seconds since 1970.
    pub modified: Option<u32>,
}

impl Attributes {
    /// Whether it is a folder. `None`: unknown.
    pub fn is_folder(&self) -> Option<bool> {
        self.mode.map(|mode| mode & 0o170_000 == 0o040_000)
    }

    /// Whether it is a regular file. `None`: unknown.
    pub fn is_file(&self) -> Option<bool> {
        self.mode.map(|mode| mode & 0o170_000 == 0o100_000)
    }
}

/// An answer from the server.
#[derive(Debug)]
pub enum Answer {
    Status {
        code: u32,
        words: Vec<u8>,
    },
    Handle(Vec<u8>),
    /// Positioned at the first byte of data.
    Data(Cursor<Vec<u8>>),
    Names(Vec<(Vec<u8>, Attributes)>),
    Attributes(Attributes),
    Reply(Vec<u8>),
}

impl Answer {
    /// Parses the request id and the answer. `None`: it is not a valid answer.
    pub fn parse(packet: Vec<u8>) -> Option<(u32, Self)> {
        let mut fields = Fields(&packet);
        let (kind, id) = (fields.byte()?, fields.number()?);
        let answer = match kind {
            kind::STATUS => Self::Status {
                code: fields.number()?,
                // Old servers send only a code.
                words: fields.bytes().unwrap_or_default().to_vec(),
            },
            kind::HANDLE => {
                let handle = fields.bytes().filter(|it| it.len() <= HANDLE_MOST)?;
                Self::Handle(handle.to_vec())
            }
            kind::DATA => {
                let length = fields.number()? as usize;
                if fields.0.len() != length {
                    return None;
                }
                let at = packet.len() - length;
                let mut data = Cursor::new(packet);
                data.set_position(at as u64);
                Self::Data(data)
            }
            kind::NAME => {
                let mut names = Vec::new();
                for _ in 0..fields.number()? {
                    let name = fields.bytes()?.to_vec();
                    let _for_people = fields.bytes()?;
                    names.push((name, fields.attributes()?));
                }
                Self::Names(names)
            }
            kind::ATTRS => Self::Attributes(fields.attributes()?),
            kind::EXTENDED_REPLY => Self::Reply(fields.0.to_vec()),
            _ => return None,
        };
        Some((id, answer))
    }

    /// An unsuccessful answer as an error.
    pub fn refusal(self) -> io::Error {
        let Self::Status { code, words } = self else {
            return io::Error::new(
                io::ErrorKind::InvalidData,
                "the server's answer does not fit the request",
            );
        };
        let kind = match code {
            code::NO_SUCH_FILE => io::ErrorKind::NotFound,
            code::PERMISSION_DENIED => io::ErrorKind::PermissionDenied,
            code::UNSUPPORTED => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        let words = crate::plain(&String::from_utf8_lossy(&words));
        io::Error::new(kind, format!("the server says {words:?} (status {code})"))
    }
}

/// The rest of a packet.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub fn number(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    pub fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*first))
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let flags = self.number()?;
        let mut found = Attributes::default();
        if flags & given::SIZE != 0 {
            found.size = Some(self.long()?);
        }
        if flags & given::OWNER != 0 {
            self.long()?;
        }
        if flags & given::MODE != 0 {
            found.mode = Some(self.number()?);
        }
        if flags & given::TIMES != 0 {
            self.number()?;
            found.modified = Some(self.number()?);
        }
        if flags & given::EXTENDED != 0 {
            for _ in 0..self.number()? {
                let _name_and_value = (self.bytes()?, self.bytes()?);
            }
        }
        Some(found)
    }
}
