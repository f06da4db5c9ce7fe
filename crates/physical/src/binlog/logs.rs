//! Binary logs in a folder, or in an archive of a repository.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use refloat_repository::{Journal, JournalFile, Repository};
use refloat_run::Refusal;

use crate::about::ServerFacts;
use crate::binlog::about::ArchiveAbout;
use crate::binlog::event::{Failure, MAGIC};
use crate::binlog::kept::none;
use crate::binlog::until::number_of;
use crate::error::PhysicalError;

/// Where the logs are that are replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogsPlace {
    /// A folder of this machine with a server's files.
    Folder(PathBuf),
    /// An archive in the repository of the backup; `None`: the one of the server.
    Archive(Option<String>),
}

impl fmt::Display for LogsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "logs in {}", folder.display()),
            Self::Archive(None) => f.write_str("the archive of its server"),
            Self::Archive(Some(name)) => write!(f, "archive {name}"),
        }
    }
}

/// Binary logs of one server, sorted by their numbers.
#[derive(Debug)]
pub struct Logs {
    /// Where they are, for messages.
    pub shown: String,
    /// Sorted by number. Numbers may be missing.
    pub files: Vec<LogFile>,
    archive: Option<(Journal, ArchiveAbout)>,
}

/// A log file, in a folder or an archive.
#[derive(Debug, Clone)]
pub struct LogFile {
    /// Its name, without the folder.
    pub name: String,
    /// The number at its end.
    pub number: u64,
    /// Its size in bytes.
    pub size: u64,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Path(PathBuf),
    Journal(JournalFile),
}

impl Logs {
    /// Finds the logs.
    ///
    /// # Errors
    /// There are none, or they are of another server.
    pub fn find(
        place: &LogsPlace,
        repository: &Repository,
        server: &ServerFacts,
    ) -> Result<Self, PhysicalError> {
        let logs = match place {
            LogsPlace::Folder(folder) => Self::folder(folder)?,
            LogsPlace::Archive(name) => Self::archive_of(repository, name.as_deref(), server)?,
        };
        if logs.files.is_empty() {
            return Err(PhysicalError::refused(
                Refusal::new(format!("{} holds no binary logs", logs.shown)).hint(
                    "They are the files that SHOW BINARY LOGS lists on the server; \
                     `refloat binlog archive` keeps them.",
                ),
            ));
        }
        Ok(logs)
    }

    fn folder(folder: &Path) -> Result<Self, PhysicalError> {
        let failed = || PhysicalError::file(folder, "listing the binary logs");
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let (name, path) = (entry.file_name(), entry.path());
            let Some((name, number)) = name
                .to_str()
                .and_then(|name| Some((name, number_of(name)?)))
            else {
                continue;
            };
            let looked = PhysicalError::file(&path, "looking at the binary log");
            let look = || -> io::Result<Option<u64>> {
                let mut magic = [0; MAGIC.len()];
                let mut file = File::open(&path)?;
                let meta = file.metadata()?;
                // Another file may have such a name; a log that MySQL has encrypted is reported
                // later.
                let is_log = meta.is_file()
                    && file.read_exact(&mut magic).is_ok()
                    && magic[1..] == MAGIC[1..];
                Ok(Some(meta.len()).filter(|_| is_log))
            };
            if let Some(size) = look().map_err(looked)? {
                files.push(LogFile {
                    name: name.to_owned(),
                    number,
                    size,
                    place: Place::Path(path),
                });
            }
        }
        Ok(Self::of(folder.display().to_string(), files, None))
    }

    fn of(
        shown: String,
        mut files: Vec<LogFile>,
        archive: Option<(Journal, ArchiveAbout)>,
    ) -> Self {
        files.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        Self {
            shown,
            files,
            archive,
        }
    }

    /// The logs of an archive.
    ///
    /// # Errors
    /// The repository fails, or the archive cannot be understood.
    pub fn archive(journal: Journal, about: ArchiveAbout) -> Result<Self, PhysicalError> {
        let files = journal.files()?.into_iter().filter_map(|file| {
            Some(LogFile {
                number: number_of(&file.name)?,
                name: file.name.clone(),
                size: file.size(),
                place: Place::Journal(file),
            })
        });
        let files = files.collect();
        let url = journal.repository().storage().url();
        let shown = format!("archive {} in {url}", journal.name());
        Ok(Self::of(shown, files, Some((journal, about))))
    }

    fn archive_of(
        repository: &Repository,
        name: Option<&str>,
        server: &ServerFacts,
    ) -> Result<Self, PhysicalError> {
        let url = repository.storage().url();
        if let Some(name) = name {
            let journal = Journal::new(repository, name)?;
            let about = ArchiveAbout::read(&journal)?.ok_or_else(|| none(repository, name))?;
            if let Some(why) = about.differs_from(server) {
                return Err(PhysicalError::refused(
                    Refusal::new(format!("archive {name} belongs to another server: {why}")).hint(
                        "Only the logs of the server that was backed up can be replayed after its backup.",
                    ),
                ));
            }
            return Self::archive(journal, about);
        }
        let mut of_server = Vec::new();
        for name in repository.journals()? {
            let journal = Journal::new(repository, &name)?;
            if let Some(about) = ArchiveAbout::read(&journal)?
                && about.differs_from(server).is_none()
            {
                of_server.push((journal, about));
            }
        }
        let count = of_server.len();
        match of_server.pop() {
            Some((journal, about)) if count == 1 => Self::archive(journal, about),
            None => Err(PhysicalError::refused(
                Refusal::new(format!(
                    "{url} has no archive of the binary logs of {}:{}",
                    server.hostname, server.port
                ))
                .hint("`refloat binlog archive` makes one. If the logs are elsewhere, name their folder with --binlogs FOLDER."),
            )),
            Some(_) => Err(PhysicalError::refused(
                Refusal::new(format!("{url} has {count} archives of this server's logs"))
                    .hint("Choose one with --binlogs archive:NAME; `refloat binlog list` shows them."),
            )),
        }
    }

    /// Whether it is known which server they belong to.
    pub fn is_known(&self) -> bool {
        self.archive.is_some()
    }

    /// Keeps the files of one name only: others may lie in the folder, such as relay logs.
    pub fn keep_like(&mut self, name: &str) {
        let base = |name: &str| name.rsplit_once('.').map(|(base, _)| base.to_owned());
        let wanted = base(name);
        self.files.retain(|file| base(&file.name) == wanted);
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(&self, file: &LogFile) -> Result<Box<dyn Read>, PhysicalError> {
        match (&file.place, &self.archive) {
            (Place::Journal(file), Some((journal, _))) => Ok(Box::new(journal.read(file)?)),
            (Place::Path(path), _) => {
                let failed = PhysicalError::file(path, "opening the binary log");
                let file = File::open(path).map_err(failed)?;
                Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
            }
            (Place::Journal(_), None) => Err(self.failed(file, 0, Failure::Torn)),
        }
    }

    /// The path of a file for a program. One of an archive is written to `scratch`.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn path(&self, file: &LogFile, scratch: &Path) -> Result<PathBuf, PhysicalError> {
        if let Place::Path(path) = &file.place {
            return Ok(path.clone());
        }
        let path = scratch.join(&file.name);
        let mut source = self.open(file)?;
        // The server's account can write there, so a file of this name may be a link.
        let _ = fs::remove_file(&path);
        let copied = File::create_new(&path).and_then(|mut to| io::copy(&mut source, &mut to));
        copied.map_err(PhysicalError::file(&path, "writing the binary log"))?;
        Ok(path)
    }

    /// The error for a file that cannot be read any further.
    pub fn failed(&self, file: &LogFile, at: u64, failure: Failure) -> PhysicalError {
        let reason = match failure {
            Failure::Io(error) => refloat_host::chain(&error),
            Failure::Damaged(words) => words,
            Failure::Torn => "it ends in the middle of an event".to_owned(),
        };
        PhysicalError::Binlog {
            place: format!("{}, {} at byte {at}", self.shown, file.name),
            reason,
        }
    }
}
