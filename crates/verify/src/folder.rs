//! Reads the folder of a dump with code of its own, independent of the code that wrote it.
//!
//! Nothing in the folder is trusted: names must stay within it, every file must have the size and
//! checksum that the manifest gives, and every file of rows the number of rows.

mod counted;
mod fields;

use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use refloat_run::{Cancel, Refusal};
use refloat_source::manifest::{
    ChunkEntry, FileEntry, MANIFEST, Manifest, ManifestError, TableEntry,
};
use refloat_source::{folder, manifest};
use refloat_store::Unpacked;
use refloat_store::files::{self, OpenFile};
use twox_hash::XxHash3_128;

use super::error::VerifyError;
use counted::{Counted, adds_up};
pub use fields::Fields;

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;
/// Limit for a file of definitions, which is read into memory whole. A hundred thousand large
/// tables need less.
const DEFINITIONS_MAX: u64 = 1 << 30;
/// Largest window that a frame may allocate, as a power of two: that of zstd's `--ultra`.
const WINDOW_MAX: u32 = 27;

/// An open dump folder.
#[derive(Debug)]
pub struct DumpFolder {
    root: PathBuf,
    /// The unpacked archive, removed on drop.
    _unpacked: Option<Unpacked>,
    /// The parsed manifest.
    pub manifest: Manifest,
}

impl DumpFolder {
    /// Reads the manifest and checks that all files exist with the right sizes. For an archive,
    /// `unpacked` holds its content.
    pub fn open(root: &Path, unpacked: Option<Unpacked>) -> Result<Self, VerifyError> {
        let root = unpacked.as_ref().map_or(root, Unpacked::root).to_owned();
        let root = root.as_path();
        let path = root.join(MANIFEST);
        if let Err(error) = files::stat(&path)
            && matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            )
        {
            return Err(VerifyError::Refused(Refusal {
                reason: format!("{} is not a finished dump: it has no {MANIFEST}", root.display()),
                hint: "Name the folder of a dump that `refloat dump` has ended, or the URL of a server (mysql://…).".to_owned(),
            }));
        }
        let text = folder::read(&path)?;
        let manifest = manifest::parse(&text).map_err(|error| match error {
            ManifestError::Other(_) => {
                VerifyError::Refused(Refusal::new(format!("{}: {error}", path.display())))
            }
            error => VerifyError::damaged(&path, format!("the manifest cannot be read: {error}")),
        })?;
        let folder = Self {
            root: root.to_owned(),
            _unpacked: unpacked,
            manifest,
        };
        for file in folder.files() {
            let path = folder.path(file)?;
            let found = match files::stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(VerifyError::damaged(&path, "the file is missing"));
                }
                other => other.map_err(VerifyError::file(&path, "looking at the file"))?,
            };
            if found.bytes != file.bytes {
                return Err(wrong_size(&path, file, found.bytes));
            }
        }
        for database in &folder.manifest.databases {
            for table in &database.tables {
                adds_up(table).map_err(|what| {
                    let label = format!("table {}.{}", database.name, table.name);
                    VerifyError::damaged(&path, format!("{label}: {what}"))
                })?;
            }
        }
        Ok(folder)
    }

    fn files(&self) -> impl Iterator<Item = &FileEntry> {
        let manifest = &self.manifest;
        let of_databases = manifest.databases.iter().flat_map(|database| {
            let chunks = database.tables.iter().flat_map(|table| &table.chunks);
            std::iter::once(&database.schema).chain(chunks.map(|chunk| &chunk.file))
        });
        manifest
            .programs
            .iter()
            .chain(&manifest.users)
            .chain(of_databases)
    }

    /// Path of a file; refuses names that leave the folder.
    fn path(&self, file: &FileEntry) -> Result<PathBuf, VerifyError> {
        let inside = Path::new(&file.path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if inside && !file.path.is_empty() {
            return Ok(self.root.join(&file.path));
        }
        Err(VerifyError::damaged(
            &self.root.join(MANIFEST),
            format!("{:?} is not a name within the folder", file.path),
        ))
    }

    /// Reads a small file whole and verifies its checksum.
    pub fn read(&self, file: &FileEntry) -> Result<Vec<u8>, VerifyError> {
        let path = self.path(file)?;
        // The manifest gives the size, but the manifest itself may be forged.
        let most = DEFINITIONS_MAX + 1;
        let mut text = Vec::new();
        let read = files::open(&path, 0).and_then(|file| file.take(most).read_to_end(&mut text));
        read.map_err(VerifyError::file(&path, "reading"))?;
        if text.len() as u64 == most {
            let what = format!("it has more than {DEFINITIONS_MAX} bytes of definitions");
            return Err(VerifyError::damaged(&path, what));
        }
        let checksum = XxHash3_128::oneshot(&text);
        check(&path, file, text.len() as u64, checksum)?;
        Ok(text)
    }

    /// Reads the rows of a file, with cells in the order of the file's columns. If the closure
    /// breaks, the rest is not read.
    ///
    /// # Errors
    /// The file does not match the manifest. That is known only at its end: rows may have been
    /// handed out by then.
    pub fn rows(
        &self,
        table: &TableEntry,
        chunk: &ChunkEntry,
        cancel: &Cancel,
        each: &mut dyn FnMut(&Fields) -> ControlFlow<()>,
    ) -> Result<(), VerifyError> {
        let path = self.path(&chunk.file)?;
        let file = files::open(&path, 0).map_err(VerifyError::file(&path, "opening"))?;
        let mut hashed = Hashed {
            file,
            hash: XxHash3_128::new(),
            bytes: 0,
        };
        let packed = path.extension().is_some_and(|ending| ending == "zst");
        let mut counted = Counted::new(table).map_err(|what| VerifyError::damaged(&path, what))?;
        let complete = if packed {
            let mut decoder = zstd::stream::read::Decoder::new(&mut hashed)
                .map_err(VerifyError::file(&path, "preparing decompression"))?;
            decoder
                .window_log_max(WINDOW_MAX)
                .map_err(VerifyError::file(&path, "preparing decompression"))?;
            let mut input = BufReader::with_capacity(BLOCK, decoder);
            counted.read(&path, table, &mut input, cancel, each)?
        } else {
            let mut input = BufReader::with_capacity(BLOCK, &mut hashed);
            counted.read(&path, table, &mut input, cancel, each)?
        };
        if !complete {
            return Ok(());
        }
        check(&path, &chunk.file, hashed.bytes, hashed.hash.finish_128())?;
        counted
            .proves(chunk)
            .map_err(|what| VerifyError::damaged(&path, what))
    }
}

/// Hashes and counts the bytes that pass through.
struct Hashed {
    file: OpenFile,
    hash: XxHash3_128,
    bytes: u64,
}

impl Read for &mut Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hash.write(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

fn check(path: &Path, file: &FileEntry, bytes: u64, checksum: u128) -> Result<(), VerifyError> {
    if bytes != file.bytes {
        return Err(wrong_size(path, file, bytes));
    }
    let found = format!("{checksum:032x}");
    if found.eq_ignore_ascii_case(&file.checksum) {
        return Ok(());
    }
    Err(VerifyError::damaged(
        path,
        format!(
            "the checksum is {found}, but the manifest says {}",
            file.checksum
        ),
    ))
}

fn wrong_size(path: &Path, file: &FileEntry, found: u64) -> VerifyError {
    VerifyError::damaged(
        path,
        format!(
            "the file has {found} bytes, but the manifest says {}",
            file.bytes
        ),
    )
}
