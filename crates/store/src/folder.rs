//! A folder that is written once: many files, and one last file that makes them a whole.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use twox_hash::XxHash3_128;

/// What went wrong with a folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It holds something already.
    #[error("{} is there already and not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A file could not be made or written.
    #[error("{}: {doing} failed", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A name that leads out of the folder.
    #[error("{0:?} is no name within a folder")]
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

    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// A folder that is being written.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where it stands, seen from the folder; `/` between parts.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// XXH3-128 of its bytes: 32 hexadecimal digits.
    pub checksum: String,
}

impl Folder {
    /// Makes the folder, or takes it when it is empty. Only its owner may look into it.
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
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Makes a folder within it; one that is there already is good.
    pub fn make(&self, name: &str) -> Result<(), FolderError> {
        let path = self.within(name)?;
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(FolderError::io(&path, "making the folder")(error))
            }
            _ => Ok(()),
        }
    }

    /// Begins a file; its name must be new.
    pub fn file(&self, name: &str) -> Result<NewFile, FolderError> {
        let path = self.within(name)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(FolderError::io(&path, "making the file"))?;
        Ok(NewFile {
            name: name.to_owned(),
            path,
            file,
            bytes: 0,
            hash: XxHash3_128::new(),
        })
    }

    /// Writes a file in one go.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<Written, FolderError> {
        let mut file = self.file(name)?;
        file.write(bytes)?;
        file.finish()
    }

    /// Brings everything to the disk, and then the last file, which appears as a whole or not at all.
    pub fn seal(self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let root =
            File::open(&self.root).map_err(FolderError::io(&self.root, "opening the folder"))?;
        rustix::fs::syncfs(&root).map_err(|error| {
            FolderError::io(&self.root, "bringing it to the disk")(error.into())
        })?;
        let path = self.within(name)?;
        let temporary = self.within(&format!("{name}.tmp"))?;
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
        // The folder's own name stands in the one above.
        let above = match self.root.parent() {
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

/// A file that is being written.
pub struct NewFile {
    name: String,
    path: PathBuf,
    file: File,
    bytes: u64,
    hash: XxHash3_128,
}

impl NewFile {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FolderError> {
        self.file
            .write_all(bytes)
            .map_err(FolderError::io(&self.path, "writing the file"))?;
        self.hash.write(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Ends the file. It reaches the disk with [`Folder::seal`].
    pub fn finish(self) -> Result<Written, FolderError> {
        Ok(Written {
            path: self.name,
            bytes: self.bytes,
            checksum: format!("{:032x}", self.hash.finish_128()),
        })
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        folder.seal("last.json", b"{}").unwrap();
        assert_eq!(std::fs::read(root.join("last.json")).unwrap(), b"{}");
        assert!(!root.join("last.json.tmp").exists());
    }
}
