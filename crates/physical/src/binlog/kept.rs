//! What archives of binary logs hold: listed, written to a folder, and removed.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use refloat_repository::{Journal, JournalFile, Repository};
use refloat_run::{Cancel, Refusal};
use serde::Serialize;

use crate::about::{About, KIND};
use crate::binlog::about::ArchiveAbout;
use crate::binlog::archive::Verified;
use crate::binlog::until::number_of;
use crate::error::PhysicalError;

/// The archive of one server's binary logs, as `refloat binlog list` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Kept {
    /// Its name within the repository.
    pub name: String,
    /// The server whose logs they are.
    #[serde(flatten)]
    pub about: ArchiveAbout,
    /// Number of log files.
    pub files: u64,
    /// The first of them; empty: there is none.
    pub first: String,
    /// The last of them; empty: there is none.
    pub last: String,
    /// Bytes of the last one.
    pub position: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes that they take in the repository.
    pub stored: u64,
}

/// An archive and its files, sorted by number.
struct Archive {
    journal: Journal,
    about: ArchiveAbout,
    files: Vec<(u64, JournalFile)>,
}

fn open(repository: &Repository, name: Option<&str>) -> Result<Vec<Archive>, PhysicalError> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => repository.journals()?,
    };
    let mut all = Vec::new();
    for name in names {
        let journal = Journal::new(repository, &name)?;
        let about = ArchiveAbout::read(&journal)?.ok_or_else(|| none(repository, &name))?;
        let files = journal.files()?.into_iter();
        let mut files: Vec<_> = files
            .filter_map(|file| Some((number_of(&file.name)?, file)))
            .collect();
        files.sort_by_key(|(number, _)| *number);
        all.push(Archive {
            journal,
            about,
            files,
        });
    }
    Ok(all)
}

/// The error for an archive that is not there.
pub fn none(repository: &Repository, name: &str) -> PhysicalError {
    let url = repository.storage().url();
    PhysicalError::refused(
        Refusal::new(format!("{url} has no archive {name:?} of binary logs"))
            .hint("`refloat binlog list` shows what is there."),
    )
}

/// All archives of a repository.
///
/// # Errors
/// The repository fails, or bytes are missing within a file.
pub fn list(repository: &Repository) -> Result<Vec<Kept>, PhysicalError> {
    let all = open(repository, None)?.into_iter().map(|archive| {
        let files = || archive.files.iter().map(|(_, file)| file);
        let name = |file: Option<&JournalFile>| file.map_or_else(String::new, |it| it.name.clone());
        Kept {
            name: archive.journal.name().to_owned(),
            about: archive.about.clone(),
            files: archive.files.len() as u64,
            first: name(files().next()),
            last: name(files().next_back()),
            position: files().next_back().map_or(0, JournalFile::size),
            bytes: files().map(JournalFile::size).sum(),
            stored: files().map(JournalFile::stored).sum(),
        }
    });
    Ok(all.collect())
}

/// Writes the files of an archive to a folder, as the server had them; every event is checked.
/// Files that are there with their size are left. Returns the names of those that were written.
///
/// # Errors
/// There is no such archive, it cannot be read, or a file cannot be written.
pub fn fetch(
    repository: &Repository,
    name: &str,
    folder: &Path,
    cancel: &Cancel,
) -> Result<Vec<String>, PhysicalError> {
    fs::create_dir_all(folder).map_err(PhysicalError::file(folder, "making the folder"))?;
    let mut written = Vec::new();
    for archive in open(repository, Some(name))? {
        for (_, file) in &archive.files {
            if let Some(reason) = cancel.reason() {
                return Err(PhysicalError::Cancelled(reason));
            }
            let path = folder.join(&file.name);
            if fs::metadata(&path).is_ok_and(|found| found.len() == file.size()) {
                continue;
            }
            let part = folder.join(format!("{}.part", file.name));
            let mut source = Verified::new(archive.journal.read(file)?);
            let mut write = || -> io::Result<()> {
                let mut to = File::create(&part)?;
                io::copy(&mut source, &mut to)?;
                to.sync_all()?;
                fs::rename(&part, &path)
            };
            write().map_err(PhysicalError::file(&path, "writing the binary log"))?;
            written.push(file.name.clone());
        }
    }
    Ok(written)
}

/// What was, or would be, removed.
#[derive(Debug, Default)]
pub struct Pruned {
    /// Archive and name of each file.
    pub removed: Vec<(String, String)>,
    /// Archives that were left as they are, because their server has no backup there.
    pub left: Vec<Refusal>,
}

/// Removes the files that no backup of their server needs: those before the one in which its
/// oldest backup begins. With `is_plan` nothing is removed.
///
/// # Errors
/// There is no such archive, or the repository fails.
pub fn prune(
    repository: &Repository,
    name: Option<&str>,
    is_plan: bool,
) -> Result<Pruned, PhysicalError> {
    let backups = repository.backups()?;
    let backups: Vec<About> = backups
        .iter()
        .filter(|one| one.kind() == KIND)
        .map(|one| {
            About::read(one).map_err(|source| PhysicalError::Info {
                label: one.label.clone(),
                source,
            })
        })
        .collect::<Result<_, _>>()?;
    let (mut removed, mut against) = (Vec::new(), Vec::new());
    for archive in open(repository, name)? {
        let of_server = backups
            .iter()
            .filter(|about| archive.about.differs_from(&about.server).is_none());
        // A backup that does not record its position in the log may need all of them.
        let needed = of_server.map(|about| {
            let place = about.binlog.as_ref().or(about.binlog_began.as_ref());
            place.and_then(|place| number_of(&place.file)).unwrap_or(0)
        });
        let Some(needed) = needed.min() else {
            against.push(
                Refusal::new(format!(
                    "the repository has no backup of the server of archive {}",
                    archive.journal.name()
                ))
                .hint("The oldest backup decides which logs are needed. Nothing was removed from this archive."),
            );
            continue;
        };
        // The oldest files go first, so that what is left has no gap, even after an interruption.
        let last = archive.files.len().saturating_sub(1);
        for (number, file) in &archive.files[..last] {
            if *number >= needed {
                break;
            }
            if !is_plan {
                // Whenever this is interrupted, what is left of a file is its beginning.
                archive.journal.remove(&file.spare)?;
                let backwards: Vec<_> = file.pieces.iter().rev().cloned().collect();
                archive.journal.remove(&backwards)?;
            }
            removed.push((archive.journal.name().to_owned(), file.name.clone()));
        }
    }
    Ok(Pruned {
        removed,
        left: against,
    })
}
