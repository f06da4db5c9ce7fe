//! Streams rows in with `LOAD DATA LOCAL INFILE`.
//!
//! The server answers the statement with a file name. The client sends the content in packets,
//! ended by an empty one. The protocol cannot report a failed source: at the end packet, the server
//! loads whatever arrived. So a failure drops the connection instead, and the server rolls back.

use crate::connection::{COM_QUERY, Connection};
use crate::error::{Error, Phase, SourceError};
use crate::result::OkInfo;

/// Writes smaller than this are buffered; larger ones are sent as they are.
const GATHER: usize = 64 << 10;
/// Longest packet of a stream: the server keeps a buffer of this size per connection.
const PACKET: usize = 1 << 20;

/// The stream of one LOAD DATA statement.
#[derive(Debug)]
pub struct LocalInfile<'a> {
    connection: &'a mut Connection,
    small: Vec<u8>,
    failed: Option<Error>,
    sent: u64,
}

impl LocalInfile<'_> {
    /// Sends bytes of the file. They may be split anywhere.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        if self.failed.is_some() {
            return Err("the connection has failed".into());
        }
        self.sent += bytes.len() as u64;
        let sent = if self.small.len() + bytes.len() < GATHER {
            self.small.extend_from_slice(bytes);
            Ok(())
        } else {
            self.flush()
                .and_then(|()| self.connection.load_write(bytes))
        };
        sent.map_err(|error| {
            self.failed = Some(error);
            "the connection has failed".into()
        })
    }

    /// Number of bytes written so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    fn flush(&mut self) -> Result<(), Error> {
        if !self.small.is_empty() {
            self.connection.load_write(&self.small)?;
            self.small.clear();
        }
        Ok(())
    }
}

impl std::io::Write for LocalInfile<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LocalInfile::write(self, bytes).map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Connection {
    /// Runs a `LOAD DATA LOCAL INFILE 'name' …` statement, with what `send` writes as the file's
    /// content. The name is only a label: it must equal the one that the server requests, and no
    /// file is opened.
    ///
    /// If `send` fails, the connection is dropped without the end packet, so that nothing is loaded
    /// ([`Error::Source`]). The caller must check [`OkInfo::info_count`] before committing: `LOCAL`
    /// makes the server skip bad rows with a warning.
    pub fn load_data(
        &mut self,
        sql: impl AsRef<[u8]>,
        send: &mut dyn FnMut(&mut LocalInfile<'_>) -> Result<(), SourceError>,
    ) -> Result<OkInfo, Error> {
        self.load_begin(sql)?;
        let mut stream = LocalInfile {
            connection: self,
            small: Vec::with_capacity(GATHER),
            failed: None,
            sent: 0,
        };
        let outcome = send(&mut stream);
        let flushed = if outcome.is_ok() {
            stream.flush()
        } else {
            Ok(())
        };
        let failed = stream.failed.take();
        match (failed, outcome, flushed) {
            (None, Ok(()), Ok(())) => self.load_finish(),
            (Some(error), ..) | (None, Ok(()), Err(error)) => {
                self.abort();
                Err(error)
            }
            (None, Err(source), _) => {
                self.abort();
                Err(Error::Source(source))
            }
        }
    }

    /// The first half of [`Connection::load_data`]: sends the statement and waits until the server
    /// requests the file. Follow it with any number of [`Connection::load_write`] calls, then
    /// [`Connection::load_finish`] or [`Connection::abort`]. Dropping the connection aborts too.
    pub fn load_begin(&mut self, sql: impl AsRef<[u8]>) -> Result<(), Error> {
        let sql = sql.as_ref();
        let named = infile_name(sql).ok_or_else(|| Error::LoadData {
            reason: "the statement has no LOCAL INFILE with a quoted name".to_owned(),
        })?;
        if !self.pending.is_empty() {
            return Err(Error::Busy {
                what: "answers to earlier commands were not read",
            });
        }
        self.send_command(&[COM_QUERY], sql)?;
        self.begin_answer()?;
        let place = self.link.receive(Phase::Receive)?;
        let payload = self.link.framed.payload(&place);
        match payload.first() {
            Some(0xff) => Err(self.link.server_error(payload)),
            Some(0xfb) if payload[1..] == named[..] => {
                self.loading = true;
                Ok(())
            }
            Some(0xfb) => {
                let asked = String::from_utf8_lossy(&payload[1..]).into_owned();
                self.abort();
                Err(Error::LocalInfileRefused { asked })
            }
            _ => {
                let error = self
                    .link
                    .protocol("the server did not ask for the file of the statement");
                self.abort();
                Err(error)
            }
        }
    }

    /// Sends bytes of the open LOAD DATA stream, best in blocks of 64 KiB or more.
    pub fn load_write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if !self.loading {
            return Err(Error::Busy {
                what: "no LOAD DATA stream is open",
            });
        }
        self.link.check_open()?;
        // An empty packet would end the stream, but `chunks` never yields an empty chunk.
        for part in bytes.chunks(PACKET.min(self.max_allowed_packet.saturating_sub(1)).max(1)) {
            self.link.send(Phase::Send, part, &[])?;
        }
        Ok(())
    }

    /// Ends the open LOAD DATA stream and waits for the server's answer.
    pub fn load_finish(&mut self) -> Result<OkInfo, Error> {
        if !self.loading {
            return Err(Error::Busy {
                what: "no LOAD DATA stream is open",
            });
        }
        self.link.check_open()?;
        self.link.send(Phase::Send, &[], &[])?;
        self.loading = false;
        self.pending.push_back(self.link.framed.sequence());
        self.read_result()
    }
}

/// The unescaped file name of a LOAD DATA LOCAL statement: the quoted text after the first `INFILE`
/// outside quotes and comments.
fn infile_name(sql: &[u8]) -> Option<Vec<u8>> {
    const WORD: &[u8] = b"INFILE";
    let mut i = 0;
    while i < sql.len() {
        match sql[i] {
            quote @ (b'\'' | b'"' | b'`') => i = skip_quoted(sql, i, quote)?.1,
            b'/' if sql[i..].starts_with(b"/*") && !matches!(sql.get(i + 2), Some(b'!' | b'M')) => {
                i += 2 + sql[i + 2..].windows(2).position(|w| w == b"*/")? + 2;
            }
            b if b.is_ascii_alphabetic() || b == b'_' => {
                let end = sql[i..]
                    .iter()
                    .position(|b| !b.is_ascii_alphanumeric() && *b != b'_')
                    .map_or(sql.len(), |n| i + n);
                if sql[i..end].eq_ignore_ascii_case(WORD) {
                    let from = end + sql[end..].iter().position(|b| !b.is_ascii_whitespace())?;
                    let quote = sql[from];
                    return matches!(quote, b'\'' | b'"')
                        .then(|| skip_quoted(sql, from, quote))
                        .flatten()
                        .map(|(name, _)| name);
                }
                i = end;
            }
            _ => i += 1,
        }
    }
    None
}

/// The text of the quoted string that starts at `start`, and the position after it.
fn skip_quoted(sql: &[u8], start: usize, quote: u8) -> Option<(Vec<u8>, usize)> {
    let mut text = Vec::new();
    let mut i = start + 1;
    loop {
        match *sql.get(i)? {
            b'\\' if quote != b'`' => {
                text.push(match *sql.get(i + 1)? {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'0' => 0,
                    b'b' => 8,
                    b'Z' => 26,
                    other => other,
                });
                i += 2;
            }
            b if b == quote && sql.get(i + 1) == Some(&quote) => {
                text.push(b);
                i += 2;
            }
            b if b == quote => return Some((text, i + 1)),
            b => {
                text.push(b);
                i += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_of_statements() {
        let name = |sql: &str| infile_name(sql.as_bytes()).map(|n| String::from_utf8(n).unwrap());
        assert_eq!(
            name("LOAD DATA LOCAL INFILE 'refloat:1' INTO TABLE t"),
            Some("refloat:1".into())
        );
        assert_eq!(
            name("load data concurrent local\n infile  \"a\\\\b''c\" into table `x`"),
            Some("a\\b''c".into())
        );
        assert_eq!(
            name("/* INFILE 'no' */ LOAD DATA LOCAL INFILE 'it''s' INTO TABLE t"),
            Some("it's".into())
        );
        assert_eq!(name("SELECT 'INFILE ''x'''"), None);
        assert_eq!(name("LOAD DATA LOCAL INFILE"), None);
        assert_eq!(name("LOAD DATA LOCAL INFILE 'open"), None);
    }
}
