//! The output file of a dump as SQL, under a temporary name until it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use refloat_store::Compression;

use crate::error::DumpError;
use crate::options::{DumpOptions, RowCompression};

/// Suffix of the file until it is complete.
const PARTIAL: &str = ".partial";
/// Write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// Destination of the SQL text.
pub struct Output {
    writer: Option<Writer>,
    /// Final path; `None` for standard output.
    path: Option<PathBuf>,
    written: u64,
}

enum Writer {
    Plain(BufWriter<File>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Stdout(BufWriter<io::Stdout>),
}

impl Output {
    /// Opens the output. Never overwrites an existing file.
    pub fn open(options: &DumpOptions) -> Result<Self, DumpError> {
        if options.to_stdout() {
            let writer = BufWriter::with_capacity(BUFFER, io::stdout());
            return Ok(Self {
                writer: Some(Writer::Stdout(writer)),
                path: None,
                written: 0,
            });
        }
        let path = options.out.clone();
        if path.exists() {
            return Err(DumpError::refused(
                format!("{} already exists", path.display()),
                "Name a file that does not exist yet: a dump never overwrites another.",
            ));
        }
        let failed = |source| DumpError::File {
            path: path.clone(),
            doing: "making it",
            source,
        };
        // Rows are private, hence the mode. `create_new` writes into nothing that exists, not even
        // through a symlink.
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(partial(&path));
        let file = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(DumpError::refused(
                    format!("{} already exists", partial(&path).display()),
                    "Another dump is writing it, or left it behind when it was killed: then remove \
                    it.",
                ));
            }
            made => BufWriter::with_capacity(BUFFER, made.map_err(failed)?),
        };
        let level = match options.compression {
            RowCompression::Zstd { level } => level,
            RowCompression::None => 1,
        };
        let writer = match options.out_compression() {
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(file, level).map_err(failed)?;
                encoder.include_checksum(true).map_err(failed)?;
                Writer::Zstd(encoder)
            }
            Compression::Gzip => {
                let level = level.clamp(1, 9).unsigned_abs();
                Writer::Gzip(flate2::GzBuilder::new().write(file, flate2::Compression::new(level)))
            }
            _ => Writer::Plain(file),
        };
        Ok(Self {
            writer: Some(writer),
            path: Some(path),
            written: 0,
        })
    }

    pub fn write(&mut self, text: &[u8]) -> Result<(), DumpError> {
        let result = match &mut self.writer {
            Some(Writer::Plain(file)) => file.write_all(text),
            Some(Writer::Zstd(file)) => file.write_all(text),
            Some(Writer::Gzip(file)) => file.write_all(text),
            Some(Writer::Stdout(out)) => out.write_all(text),
            None => Ok(()),
        };
        self.written += text.len() as u64;
        result.map_err(|source| self.failed("writing it", source))
    }

    /// Appends a line.
    pub fn line(&mut self, text: &str) -> Result<(), DumpError> {
        self.write(text.as_bytes())?;
        self.write(b"\n")
    }

    /// Flushes the file to the disk and renames it to its final name. Returns its size in bytes.
    pub fn finish(mut self) -> Result<u64, DumpError> {
        let flushed = match self.writer.take() {
            Some(Writer::Plain(file)) => file.into_inner().map_err(io::Error::from).map(Some),
            Some(Writer::Zstd(file)) => file
                .finish()
                .and_then(|file| file.into_inner().map_err(io::Error::from))
                .map(Some),
            Some(Writer::Gzip(file)) => file
                .finish()
                .and_then(|file| file.into_inner().map_err(io::Error::from))
                .map(Some),
            Some(Writer::Stdout(mut out)) => out.flush().map(|()| None),
            None => Ok(None),
        };
        let file = flushed.map_err(|source| self.failed("writing it", source))?;
        let (Some(file), Some(path)) = (file, self.path.take()) else {
            return Ok(self.written);
        };
        let done = || -> io::Result<u64> {
            file.sync_all()?;
            let bytes = file.metadata()?.len();
            fs::rename(partial(&path), &path)?;
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
            Ok(bytes)
        };
        done().map_err(|source| DumpError::File {
            path: path.clone(),
            doing: "writing it to the disk",
            source,
        })
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> DumpError {
        DumpError::File {
            path: self
                .path
                .clone()
                .unwrap_or_else(|| PathBuf::from("standard output")),
            doing,
            source,
        }
    }
}

impl Drop for Output {
    /// Removes a file that was not finished: it is not a dump.
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            self.writer = None;
            let _ = fs::remove_file(partial(path));
        }
    }
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PARTIAL);
    PathBuf::from(name)
}
