//! Lets the server's tool print logs as statements, and runs these.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use refloat_host::last_line;
use refloat_run::{Cancel, Run};
use refloat_wire::{Connection, Error};

use crate::binlog::logs::Logs;
use crate::binlog::replay::programs::Programs;
use crate::binlog::survey::{Part, Stretch};
use crate::error::PhysicalError;
use crate::held::open_file;

/// How much of a statement a message shows, in characters.
const SHOWN: usize = 300;
/// How many statements, and how many bytes of them, are sent before the first is answered. Answers
/// are small, so the two sides do not block each other.
const AHEAD: usize = 64;
const AHEAD_BYTES: usize = 256 << 10;
/// Before each event the tool prints where it begins.
const AT: &[u8] = b"# at ";
/// In the tool's comment on a statement: the error with which the server logged it.
const CODE: &[u8] = b"\terror_code=";
/// Errors that say nothing about what the statement did (`ER_LOCK_WAIT_TIMEOUT`,
/// `ER_LOCK_DEADLOCK`, `ER_XA_RBDEADLOCK`): replicas let such a statement succeed.
const OF_ITS_TIME: [u16; 3] = [1205, 1213, 1614];
const DELIMITER: &[u8] = b"DELIMITER ";
/// A command of the stock client within a comment. A variable says the same.
const CHARSET: &[u8] = b"/*!\\C ";
const LOAD: &[u8] = b"LOAD DATA LOCAL INFILE '";

/// Replays a part of the logs.
///
/// # Errors
/// [`PhysicalError::Replay`] names the statement that the server refuses; others, if a log cannot
/// be read or the tool fails.
pub fn apply(
    (programs, logs): (&Programs, &Logs),
    stretch: &Stretch,
    (conn, scratch): (&mut Connection, &Path),
    run: &Run,
) -> Result<(), PhysicalError> {
    for part in &stretch.parts {
        let path = logs.path(&part.file, scratch)?;
        let mut tool = Tool::start(programs, part, &path, scratch)?;
        let sent = feed(&mut tool, part, (conn, scratch), &run.cancel);
        let ended = tool.finish();
        if let Some(reason) = run.cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        // Once its output is no longer read, the tool fails too, so this error comes first.
        sent?;
        ended?;
        if path.starts_with(scratch) {
            std::fs::remove_file(&path).map_err(PhysicalError::file(&path, "removing it"))?;
        }
    }
    Ok(())
}

/// The tool, which prints a part of a log.
struct Tool {
    child: Child,
    name: String,
    output: BufReader<ChildStdout>,
    errors: File,
}

impl Tool {
    fn start(
        programs: &Programs,
        part: &Part,
        path: &Path,
        scratch: &Path,
    ) -> Result<Self, PhysicalError> {
        let name = programs.tool.display().to_string();
        let failed = |reason: String| PhysicalError::Tool {
            tool: name.clone(),
            what: "could not be started".to_owned(),
            reason,
        };
        let errors = tempfile::tempfile_in(scratch).map_err(|error| failed(error.to_string()))?;
        let stderr = errors
            .try_clone()
            .map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(&programs.tool);
        command
            .arg("--no-defaults")
            .arg("--verify-binlog-checksum")
            .arg(format!("--local-load={}", scratch.display()));
        if programs.is_mariadb {
            // Otherwise, logs of a server without strict mode would be refused.
            command.arg("--loose-gtid-strict-mode=0");
        }
        if part.from > 0 {
            command.arg(format!("--start-position={}", part.from));
        }
        if let Some(to) = part.to {
            command.arg(format!("--stop-position={to}"));
        }
        let mut child = command
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(stderr))
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let Some(output) = child.stdout.take() else {
            return Err(failed("it has no output".to_owned()));
        };
        Ok(Self {
            child,
            output: BufReader::with_capacity(1 << 20, output),
            name,
            errors,
        })
    }

    fn finish(self) -> Result<(), PhysicalError> {
        let Self {
            mut child,
            name,
            output,
            mut errors,
        } = self;
        drop(output);
        let failed = |what: String, reason: String| PhysicalError::Tool {
            tool: name.clone(),
            what,
            reason,
        };
        let status = child
            .wait()
            .map_err(|error| failed("could not be waited for".to_owned(), error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        let mut stderr = Vec::new();
        let _ = std::io::Seek::rewind(&mut errors).and_then(|()| errors.read_to_end(&mut stderr));
        Err(failed(format!("failed ({status})"), last_line(&stderr)))
    }
}

/// Runs what the tool prints.
///
/// The tool ends a statement with a delimiter of its own at the end of a line. If a statement
/// itself contains such a line, the server rejects its first half: that is an error, and not
/// another statement.
fn feed(
    tool: &mut Tool,
    part: &Part,
    (conn, scratch): (&mut Connection, &Path),
    cancel: &Cancel,
) -> Result<(), PhysicalError> {
    let mut lookahead = Lookahead {
        conn,
        file: &part.file.name,
        sent: VecDeque::new(),
        bytes: 0,
    };
    let (mut delimiter, mut at, mut code) = (b";".to_vec(), part.from, 0);
    let (mut statement, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let read = tool.output.read_until(b'\n', &mut line);
        let count = read.map_err(|error| PhysicalError::Tool {
            tool: tool.name.clone(),
            what: "cannot be read".to_owned(),
            reason: error.to_string(),
        })?;
        if count == 0 || cancel.is_cancelled() {
            break;
        }
        let text = line.trim_ascii_end();
        if statement.is_empty() {
            if let Some(place) = text.strip_prefix(AT) {
                let place = std::str::from_utf8(place)
                    .ok()
                    .and_then(|it| it.parse().ok());
                at = place.unwrap_or(at);
                code = 0;
            }
            code = error_code(text).unwrap_or(code);
            if let Some(new) = text.strip_prefix(DELIMITER) {
                delimiter = new.to_vec();
                continue;
            }
            if text.is_empty() || text.starts_with(b"#") {
                continue;
            }
        }
        let Some(last) = text.strip_suffix(delimiter.as_slice()) else {
            statement.extend_from_slice(&line);
            continue;
        };
        statement.extend_from_slice(last);
        let whole = statement.trim_ascii();
        if !whole.is_empty() && !whole.starts_with(CHARSET) {
            lookahead.execute((at, code), whole, scratch)?;
        }
        statement.clear();
    }
    lookahead.settle(0, 0)?;
    if statement.trim_ascii().is_empty() || cancel.is_cancelled() {
        return Ok(());
    }
    Err(PhysicalError::Tool {
        tool: tool.name.clone(),
        what: "ends in the middle of a statement".to_owned(),
        reason: shown(&statement),
    })
}

/// Statements whose answers have not been read yet. Those after a failed one may have run, but then
/// everything that the server has is discarded.
struct Lookahead<'a> {
    conn: &'a mut Connection,
    file: &'a str,
    sent: VecDeque<Sent>,
    bytes: usize,
}

/// A statement that was sent.
struct Sent {
    /// Where it begins in the file.
    at: u64,
    /// The error with which the server logged it; 0: none.
    code: u16,
    /// Its first bytes, for messages.
    first: Vec<u8>,
    /// Its length in bytes.
    size: usize,
}

impl Lookahead<'_> {
    fn failed(&self, at: u64, statement: &[u8]) -> impl FnOnce(Error) -> PhysicalError + use<> {
        let (file, statement) = (self.file.to_owned(), shown(statement));
        move |source| PhysicalError::Replay {
            file,
            at,
            statement,
            source,
        }
    }

    /// Reads the oldest answers until at most this many are outstanding.
    fn settle(&mut self, statements: usize, bytes: usize) -> Result<(), PhysicalError> {
        while self.sent.len() > statements || self.bytes > bytes {
            let Some(sent) = self.sent.pop_front() else {
                break;
            };
            self.bytes -= sent.size;
            let failed = self.conn.read_result().err();
            match (failed, sent.code) {
                (Some(error), code) if code == 0 || error.server_code() != Some(code) => {
                    return Err(self.failed(sent.at, &sent.first)(error));
                }
                (None, code) if must_fail(code, &sent.first) => {
                    return Err(PhysicalError::Binlog {
                        place: format!("{} at byte {}", self.file, sent.at),
                        reason: format!(
                            "the server logged this statement with error {code}, but now it succeeds: {}",
                            shown(&sent.first)
                        ),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn execute(
        &mut self,
        (at, code): (u64, u16),
        statement: &[u8],
        scratch: &Path,
    ) -> Result<(), PhysicalError> {
        // The tool has written the rows of a `LOAD DATA` statement to a file.
        let rows = statement.strip_prefix(LOAD).and_then(|rest| {
            let end = rest.iter().position(|byte| *byte == b'\'')?;
            let path = Path::new(std::str::from_utf8(&rest[..end]).ok()?);
            path.starts_with(scratch).then(|| path.to_owned())
        });
        if let Some(path) = rows {
            self.settle(0, 0)?;
            let loaded = self.conn.load_data(statement, &mut |stream| {
                std::io::copy(&mut open_file(&path)?, stream)?;
                Ok(stream.flush()?)
            });
            return loaded.map(drop).map_err(self.failed(at, statement));
        }
        self.settle(AHEAD - 1, AHEAD_BYTES)?;
        let sent = self.conn.send_query(statement);
        sent.map_err(self.failed(at, statement))?;
        let first = &statement[..statement.len().min(4 * SHOWN)];
        self.sent.push_back(Sent {
            at,
            code,
            first: first.to_vec(),
            size: statement.len(),
        });
        self.bytes += statement.len();
        Ok(())
    }
}

/// The error that the tool's comment on an event names. Rows have comments too, with text of users.
fn error_code(line: &[u8]) -> Option<u16> {
    if !line.get(1)?.is_ascii_digit() {
        return None;
    }
    let at = line.windows(CODE.len()).position(|part| part == CODE)?;
    let rest = line[at + CODE.len()..].split(|byte| !byte.is_ascii_digit());
    std::str::from_utf8(rest.into_iter().next()?)
        .ok()?
        .parse()
        .ok()
}

/// Whether success of a statement means that it has done something else than on the original
/// server. The tool's own statements come before it.
fn must_fail(code: u16, statement: &[u8]) -> bool {
    let prefixes: [&[u8]; 4] = [b"SET ", b"use ", b"/*!", b"BEGIN"];
    code != 0
        && !OF_ITS_TIME.contains(&code)
        && !prefixes.iter().any(|prefix| statement.starts_with(prefix))
}

/// The beginning of a statement, on one line.
fn shown(statement: &[u8]) -> String {
    let text = String::from_utf8_lossy(statement);
    let mut words = refloat_host::plain(&text.replace('\n', " "));
    if let Some((end, _)) = words.char_indices().nth(SHOWN) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{error_code, must_fail};

    #[test]
    fn a_statement_may_have_failed_before() {
        let note = b"#261128 16:00:00 server id 1  end_log_pos 500 CRC32 0x01020304 \tQuery\tthread_id=5\texec_time=0\terror_code=1062\txid=0";
        assert_eq!(error_code(note), Some(1062));
        assert_eq!(
            error_code(b"#Q> INSERT INTO a VALUES ('\terror_code=1062')"),
            None
        );
        assert_eq!(error_code(b"#"), None);
        assert!(must_fail(1062, b"INSERT INTO a VALUES (1)"));
        assert!(!must_fail(1062, b"SET TIMESTAMP=1") && !must_fail(0, b"INSERT"));
        assert!(!must_fail(1213, b"INSERT INTO a VALUES (1)"));
    }
}
