//! Where an archive resumes, and whether the server still has what comes next.

use refloat_repository::{Journal, JournalFile};
use refloat_run::Refusal;
use refloat_wire::Connection;

use crate::binlog::archive::denied;
use crate::binlog::archive::history::{History, is_of_head};
use crate::binlog::event::{Events, Head, kind};
use crate::binlog::until::number_of;
use crate::error::PhysicalError;

/// Where the first event of a file begins.
const FIRST: u64 = 4;
/// Bytes that an encrypted file of MySQL has before its first event.
const ENCRYPTION_HEAD: u64 = 512;

/// A log that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLog {
    pub name: String,
    pub number: u64,
    /// Its bytes, as positions count them.
    pub size: u64,
}

/// The logs that the server has, the oldest first.
pub fn server_logs(conn: &mut Connection) -> Result<Vec<ServerLog>, PhysicalError> {
    let rows = conn.query("SHOW BINARY LOGS").map_err(denied)?;
    let mut logs = Vec::new();
    for row in 0..rows.len() {
        let name = rows.str(row, 0).unwrap_or_default().to_owned();
        let head = match rows.get(row, "Encrypted") {
            Some("Yes") => ENCRYPTION_HEAD,
            _ => 0,
        };
        logs.push(ServerLog {
            number: number_of(&name).unwrap_or(0),
            size: rows.u64(row, 1).unwrap_or(0).saturating_sub(head),
            name,
        });
    }
    Ok(logs)
}

/// Where an archive resumes.
#[derive(Debug)]
pub struct Resume {
    /// The file to request from the server.
    pub file: String,
    /// The byte from which to request it.
    pub ask: u32,
    /// Bytes of the file that are stored.
    pub stored: u64,
    /// Where the last stored event begins, and its bytes.
    pub last: Option<(u64, Vec<u8>)>,
    /// The transactions that are stored, as far as they are needed to tell whether others continue
    /// them.
    pub history: History,
}

impl Resume {
    fn fresh(file: &str, history: History) -> Self {
        Self {
            file: file.to_owned(),
            ask: FIRST as u32,
            stored: 0,
            last: None,
            history,
        }
    }

    /// Finds where to resume.
    ///
    /// # Errors
    /// The server no longer has what comes next, or has less than was stored.
    pub fn find(journal: &Journal, logs: &[ServerLog]) -> Result<Self, PhysicalError> {
        let (Some(oldest), Some(newest)) = (logs.first(), logs.last()) else {
            return Err(PhysicalError::refused(Refusal::new(
                "the server has no binary logs",
            )));
        };
        let mut files = journal.files()?;
        files.sort_by_key(|file| (number_of(&file.name), file.name.clone()));
        let Some(last) = files.last() else {
            return Ok(Self::fresh(&oldest.name, History::default()));
        };
        let (begins, event) = last_event(journal, last)?;
        let stored = last.size();
        let here = format!("archive {} ends at {}:{stored}", journal.name(), last.name);
        if let Some(same) = logs.iter().find(|log| log.name == last.name) {
            if stored > same.size {
                return Err(PhysicalError::refused(
                    Refusal::new(format!(
                        "{here}, and that file of the server has {} bytes: it is another one, or has lost its end in a crash",
                        same.size
                    ))
                    .hint("Its logs do not continue the archive. Make a new backup and start another archive: --name NAME."),
                ));
            }
            let history = match files.as_slice() {
                [.., before, last] if is_of_head(&event) => History::of(journal, &[before, last])?,
                _ => History::default(),
            };
            // The request has four bytes for the offset.
            let ask = u32::try_from(begins).unwrap_or(FIRST as u32);
            return Ok(Self {
                file: last.name.clone(),
                ask,
                stored,
                last: Some((begins, event)),
                history,
            });
        }
        // The last event of a complete file says that it is complete.
        let is_complete =
            Head::of(&event).is_some_and(|head| matches!(head.kind, kind::ROTATE | kind::STOP));
        let next = number_of(&last.name).unwrap_or(0) + 1;
        match logs.iter().find(|log| log.number == next) {
            Some(next) if is_complete => {
                let history = History::of(journal, &[last])?;
                Ok(Self::fresh(&next.name, history))
            }
            _ => Err(PhysicalError::refused(
                Refusal::new(format!(
                    "{here}, but the server has only {} to {}: the logs in between are lost",
                    oldest.name, newest.name
                ))
                .hint(
                    "If a backup of the server's machine has these files, keep them: a restore reads logs from a folder, too. \
                     Make a new backup and start another archive: --name NAME. \
                     To prevent this, raise binlog_expire_logs_seconds, and see that the archive keeps running.",
                ),
            )),
        }
    }
}

/// The last event of a file, and where it begins.
fn last_event(journal: &Journal, file: &JournalFile) -> Result<(u64, Vec<u8>), PhysicalError> {
    let first = file.pieces.last().map_or(0, |piece| piece.begins);
    let source = journal.read_last(file)?;
    let failed = |at, failure| PhysicalError::Binlog {
        place: format!("archive {}, {} at byte {at}", journal.name(), file.name),
        reason: format!("{failure:?}"),
    };
    let mut events = if first == 0 {
        Events::of(source).map_err(|failure| failed(0, failure))?
    } else {
        Events::within(source, first)
    };
    let mut found = None;
    loop {
        let next = events.next();
        match next.map_err(|failure| failed(events.checks.at, failure))? {
            Some((begins, _)) => {
                let place = found.get_or_insert_with(|| (0, Vec::new()));
                place.0 = begins;
                place.1.clear();
                place.1.extend_from_slice(events.event());
            }
            None => break,
        }
    }
    found.ok_or_else(|| PhysicalError::Binlog {
        place: format!("archive {}, {}", journal.name(), file.name),
        reason: "its last piece has no event".to_owned(),
    })
}
