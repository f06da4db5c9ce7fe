//! Writes a folder once: on disk, as a tar archive on a stream, or into a [`FolderSink`]. Many
//! files, then a last one that completes it.

mod archive;
mod sink;
mod writer;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use twox_hash::XxHash3_128;

use archive::ArchiveWriter;
pub use sink::FolderSink;
use sink::SinkFile;
use writer::{BLOCK, Buffer, Handles, Writer};

/// Errors of writing a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder exists and is not empty.
    #[error("{} already exists and is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A file could not be made or written.
    #[error("{}: {doing} failed", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A name that leads out of the folder.
    #[error("{0:?} is not a name within a folder")]
    Outside(String),
}

impl FolderError {
    fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            path,
            doing,
            source,
        }
    }

    /// Whether the disk, or a quota on it, is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// A folder that is being written.
pub struct Folder {
    root: PathBuf,
    place: Place,
}

/// Destination of the files.
enum Place {
    Disk(Writer),
    Archive(ArchiveWriter),
    Sink(Arc<dyn FolderSink>),
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Path relative to the folder, with `/` between parts.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// XXH3-128 of the content, in 32 hexadecimal digits.
    pub checksum: String,
}

impl Folder {
    /// Creates the folder, or uses an existing empty one. A new folder is accessible to its owner
    /// only.
    pub fn create(root: &Path) -> Result<Self, FolderError> {
        match DirBuilder::new().recursive(false).mode(0o700).create(root) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut entries =
                    std::fs::read_dir(root).map_err(FolderError::io(root, "reading the folder"))?;
                if entries.next().is_some() {
                    return Err(FolderError::NotEmpty(root.to_owned()));
                }
            }
            Err(error) => return Err(FolderError::io(root, "making the folder")(error)),
        }
        Ok(Self {
            root: root.to_owned(),
            place: Place::Disk(Writer::start()),
        })
    }

    /// Writes an archive to standard output instead of a folder. Each file stays in memory until it
    /// is complete, because its size precedes it.
    pub fn stdout() -> Result<Self, FolderError> {
        let root = PathBuf::from("standard output");
        let out = io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .map_err(FolderError::io(&root, "opening it"))?;
        Ok(Self::archive(root, File::from(out)))
    }

    fn archive(root: PathBuf, out: File) -> Self {
        let place = Place::Archive(ArchiveWriter::new(&root, out));
        Self { root, place }
    }

    /// Writes into `sink` instead of a folder; messages refer to it by `name`. Sealing it writes
    /// the last file and nothing else: the owner of the sink completes what it has taken.
    pub fn into_sink(name: &Path, sink: Arc<dyn FolderSink>) -> Self {
        Self {
            root: name.to_owned(),
            place: Place::Sink(sink),
        }
    }

    /// Path of the folder, `standard output`, or the name of the sink.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Creates a subfolder, unless it exists.
    pub fn make(&self, name: &str) -> Result<(), FolderError> {
        let path = self.within(name)?;
        if !matches!(self.place, Place::Disk(_)) {
            // Elsewhere folders are there because files have them in their names.
            return Ok(());
        }
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(FolderError::io(&path, "making the folder")(error))
            }
            _ => Ok(()),
        }
    }

    /// Starts a file, whose name must be new.
    pub fn file(&self, name: &str) -> Result<NewFile<'_>, FolderError> {
        let path = self.within(name)?;
        let file = match &self.place {
            Place::Archive(archive) => WriteState::InMemory(archive, Vec::new()),
            Place::Sink(sink) => WriteState::Sink(SinkFile::begin(sink)),
            Place::Disk(writer) => {
                let file = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path)
                    .map_err(FolderError::io(&path, "making the file"))?;
                WriteState::Small(writer, file)
            }
        };
        Ok(NewFile {
            name: name.to_owned(),
            path,
            file,
            buffer: None,
            submitted: 0,
            bytes: 0,
            hash: XxHash3_128::new(),
        })
    }

    /// Writes a whole file at once.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<Written, FolderError> {
        let mut file = self.file(name)?;
        file.write(bytes)?;
        file.finish()
    }

    /// Syncs everything to disk, then writes the last file, which appears as a whole or not at all.
    pub fn seal(self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        if let Place::Sink(_) = self.place {
            return self.write(name, bytes).map(drop);
        }
        let path = self.within(name)?;
        let temporary = self.within(&format!("{name}.tmp"))?;
        let Self {
            root: folder,
            place,
        } = self;
        match place {
            Place::Archive(archive) => {
                archive.append(name, bytes)?;
                return archive.finish();
            }
            Place::Disk(writer) => writer.finish()?,
            Place::Sink(_) => {}
        }
        let root = File::open(&folder).map_err(FolderError::io(&folder, "opening the folder"))?;
        rustix::fs::syncfs(&root)
            .map_err(|error| FolderError::io(&folder, "bringing it to the disk")(error.into()))?;
        let sealed = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .and_then(|()| std::fs::rename(&temporary, &path))
            .and_then(|()| root.sync_all());
        sealed.map_err(FolderError::io(&path, "writing the file"))?;
        // The folder's own directory entry is in its parent.
        let above = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(above)
            .and_then(|folder| folder.sync_all())
            .map_err(FolderError::io(above, "bringing it to the disk"))
    }

    fn within(&self, name: &str) -> Result<PathBuf, FolderError> {
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if inside && !name.is_empty() {
            Ok(self.root.join(name))
        } else {
            Err(FolderError::Outside(name.to_owned()))
        }
    }
}

/// A file being written.
pub struct NewFile<'a> {
    name: String,
    path: PathBuf,
    file: WriteState<'a>,
    /// Bytes not yet submitted.
    buffer: Option<Buffer>,
    /// Number of bytes submitted.
    submitted: u64,
    bytes: u64,
    hash: XxHash3_128,
}

/// Most files are small and never need the second handle that large ones get.
enum WriteState<'a> {
    Small(&'a Writer, File),
    Large(&'a Writer, Arc<Handles>),
    InMemory(&'a ArchiveWriter, Vec<u8>),
    Sink(SinkFile),
    Taken,
}

impl NewFile<'_> {
    /// Appends bytes. They are written later; a later call reports errors, [`Folder::seal`] at the
    /// latest.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FolderError> {
        self.hash.write(bytes);
        self.bytes += bytes.len() as u64;
        let writer = match &mut self.file {
            WriteState::Small(writer, _) | WriteState::Large(writer, _) => *writer,
            WriteState::InMemory(_, held) => {
                held.extend_from_slice(bytes);
                return Ok(());
            }
            WriteState::Sink(file) => return file.write(&self.path, bytes),
            WriteState::Taken => return Ok(()),
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut buffer = match self.buffer.take() {
                Some(buffer) => buffer,
                None => writer.buffer()?,
            };
            rest = &rest[buffer.fill(rest)..];
            if buffer.is_full() {
                self.submit(buffer);
            } else {
                self.buffer = Some(buffer);
            }
        }
        Ok(())
    }

    fn submit(&mut self, buffer: Buffer) {
        let (writer, handles) = match std::mem::replace(&mut self.file, WriteState::Taken) {
            WriteState::Large(writer, handles) => (writer, handles),
            WriteState::Small(writer, file) => (writer, Arc::new(Handles::new(file, &self.path))),
            WriteState::InMemory(..) | WriteState::Sink(_) | WriteState::Taken => return,
        };
        let at = self.submitted;
        self.submitted += buffer.filled().len() as u64;
        writer.submit(&handles, buffer, at);
        self.file = WriteState::Large(writer, handles);
    }

    /// Completes the file. [`Folder::seal`] syncs it to disk.
    pub fn finish(mut self) -> Result<Written, FolderError> {
        if let Some(buffer) = self.buffer.take() {
            match &mut self.file {
                WriteState::Small(writer, file) if buffer.filled().len() < BLOCK => {
                    let written = file.write_all(buffer.filled());
                    writer.give_back(buffer);
                    written.map_err(FolderError::io(&self.path, "writing the file"))?;
                }
                _ => self.submit(buffer),
            }
        }
        match self.file {
            WriteState::Small(writer, _) | WriteState::Large(writer, _) => writer.check()?,
            WriteState::InMemory(archive, held) => archive.append(&self.name, &held)?,
            WriteState::Sink(file) => file.finish(&self.path, &self.name)?,
            WriteState::Taken => {}
        }
        Ok(Written {
            path: self.name,
            bytes: self.bytes,
            checksum: format!("{:032x}", self.hash.finish_128()),
        })
    }

    /// Number of bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_holds_what_a_folder_would_and_is_whole_with_its_last_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let folder = Folder::archive("a.tar".into(), File::create(&path).unwrap());
        folder.make("a").unwrap();
        let long = format!("a/{}", "n".repeat(180));
        let (mut one, mut two) = (folder.file("a/one").unwrap(), folder.file(&long).unwrap());
        one.write(b"some").unwrap();
        two.write(b"other").unwrap();
        one.write(b" text").unwrap();
        assert_eq!(two.finish().unwrap().bytes, 5);
        let written = one.finish().unwrap();
        assert_eq!(
            written.checksum,
            format!("{:032x}", XxHash3_128::oneshot(b"some text"))
        );
        assert!(matches!(folder.file("../x"), Err(FolderError::Outside(_))));
        let unpack = || crate::unpack(crate::Input::open(&path).unwrap(), dir.path());
        assert!(unpack().is_err(), "it is not sealed");
        folder.seal("last.json", b"{}").unwrap();
        let unpacked = unpack().unwrap();
        for (name, text) in [
            ("a/one", "some text"),
            (&long, "other"),
            ("last.json", "{}"),
        ] {
            assert_eq!(
                std::fs::read_to_string(unpacked.root().join(name)).unwrap(),
                text
            );
        }
    }

    #[test]
    fn files_stay_within_and_the_last_one_comes_last() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("dump");
        let folder = Folder::create(&root).unwrap();
        for name in ["../x", "/x", "", "a/../../x", "."] {
            assert!(
                matches!(folder.file(name), Err(FolderError::Outside(_))),
                "{name}"
            );
        }
        folder.make("a").unwrap();
        let written = folder.write("a/b", b"text").unwrap();
        assert_eq!((written.path.as_str(), written.bytes), ("a/b", 4));
        assert_eq!(
            written.checksum,
            format!("{:032x}", XxHash3_128::oneshot(b"text"))
        );
        assert!(
            folder.write("a/b", b"again").is_err(),
            "a name is used once"
        );
        assert!(matches!(
            Folder::create(&root),
            Err(FolderError::NotEmpty(_))
        ));
        // Larger than one write, and not a multiple of the sector size.
        let large: Vec<u8> = (0..BLOCK * 5 / 2 + 77).map(|at| (at % 251) as u8).collect();
        let mut file = folder.file("large").unwrap();
        for part in large.chunks(100_003) {
            file.write(part).unwrap();
        }
        let checksum = file.finish().unwrap().checksum;
        assert_eq!(checksum, format!("{:032x}", XxHash3_128::oneshot(&large)));
        folder.seal("last.json", b"{}").unwrap();
        assert_eq!(std::fs::read(root.join("large")).unwrap(), large);
        assert_eq!(std::fs::read(root.join("last.json")).unwrap(), b"{}");
        assert!(!root.join("last.json.tmp").exists());
    }
}
