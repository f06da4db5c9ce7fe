//! Whether the server's files continue those in the archive: a server that was restored, or whose
//! logs were reset, may continue with matching names.

use refloat_repository::{Journal, JournalFile};
use refloat_run::Refusal;

use crate::binlog::event::{Events, Head, gtid_of, kind, seen_before};
use crate::binlog::gtid::{Gtid, Seen};
use crate::error::PhysicalError;

/// The transactions of the logs so far.
#[derive(Debug, Default)]
pub struct History {
    /// `None`: unknown, for example when reading begins in the middle of a file.
    seen: Option<Seen>,
}

impl History {
    /// The history of consecutive files. A file that cannot be read contributes nothing; its damage
    /// is reported when its pieces are merged.
    ///
    /// # Errors
    /// A file does not continue the one before it.
    pub fn of(journal: &Journal, files: &[&JournalFile]) -> Result<Self, PhysicalError> {
        let mut history = Self::default();
        for file in files {
            let Some(mut events) = journal.read(file).ok().and_then(|it| Events::of(it).ok())
            else {
                return Ok(Self::default());
            };
            loop {
                match events.next() {
                    Ok(Some((_, head))) => history.take(&head, events.body()),
                    Ok(None) => break,
                    Err(_) => return Ok(Self::default()),
                }
                .map_err(|why| another(journal, &file.name, &why))?;
            }
        }
        Ok(history)
    }

    pub fn is_known(&self) -> bool {
        self.seen.is_some()
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// Why it belongs to another history.
    pub fn take(&mut self, head: &Head, body: &[u8]) -> Result<(), String> {
        match head.kind {
            kind::PREVIOUS_GTIDS | kind::GTID_LIST => {
                match (seen_before(head.kind, body), &mut self.seen) {
                    (Some(list), Some(seen)) => {
                        if !seen.go_on(&list) {
                            return Err(format!(
                                "it follows transactions {list}, but the archive has {seen} before it"
                            ));
                        }
                    }
                    (list, seen) => *seen = list,
                }
            }
            // GTIDs with tags are not parsed.
            kind::GTID_TAGGED => self.seen = None,
            _ => {
                if let (Some(gtid), Some(seen)) = (gtid_of(head, body), &mut self.seen) {
                    // MariaDB does not guarantee this, and its lists show it.
                    if matches!(gtid, Gtid::MySql { .. }) && seen.has(&gtid) {
                        return Err(format!("it has transaction {gtid} a second time"));
                    }
                    seen.add(&gtid);
                }
            }
        }
        Ok(())
    }
}

/// Whether everything in a file up to this event belongs to its head.
pub fn is_of_head(event: &[u8]) -> bool {
    Head::of(event).is_some_and(|head| {
        matches!(
            head.kind,
            kind::FORMAT | kind::PREVIOUS_GTIDS | kind::GTID_LIST | kind::CHECKPOINT
        )
    })
}

/// The error for a file that does not continue those before it.
pub fn another(journal: &Journal, file: &str, why: &str) -> PhysicalError {
    PhysicalError::refused(
        Refusal::new(format!(
            "{file} on the server belongs to another history than archive {}: {why}",
            journal.name()
        ))
        .hint("The server was restored, or its logs were reset. Make a new backup and start another archive: --name NAME."),
    )
}
