//! Writes row files: text, digest and compressed frames.

use refloat_source::manifest::{ChunkEntry, FileEntry, KeyValue};
use refloat_source::tsv;
use refloat_source::tsv::RowDigest;
use refloat_store::{Folder, FolderError, NewFile};
use refloat_wire::Row;
use zstd::bulk::Compressor;

use super::options::{DumpOptions, RowCompression};

/// Text per frame in bytes: enough to compress well, little enough to read on its own.
const FRAME_BYTES: usize = 4 << 20;
/// Text in the frames of all readers together, in bytes. With many readers, frames are smaller.
const FRAMES_BYTES: usize = 32 << 20;

/// Row text between two progress reports in bytes: small enough for even throttling.
pub const TELL_BYTES: u64 = 64 << 10;

/// Writes the rows of one range into files, and starts a new file when one is full.
pub struct ChunkWriter<'a> {
    folder: &'a Folder,
    /// Path without number and extension.
    stem: String,
    ending: &'static str,
    /// Text per frame in bytes.
    frame: usize,
    limit: u64,
    /// Indexes of the key columns in a row.
    key: Vec<usize>,
    compressor: Option<Compressor<'static>>,
    packed: Vec<u8>,
    /// Text of the current frame.
    text: Vec<u8>,
    last_row: usize,
    /// Bytes of text not reported yet.
    untold: u64,
    open: Option<Open<'a>>,
    done: Vec<ChunkEntry>,
}

/// The file being written.
struct Open<'a> {
    file: NewFile<'a>,
    first: Vec<KeyValue>,
    digest: RowDigest,
    /// Bytes of text in the finished frames.
    text_bytes: u64,
}

impl<'a> ChunkWriter<'a> {
    /// A writer for files named `stem-NNN.tsv` or `stem-NNN.tsv.zst`.
    pub fn new(
        folder: &'a Folder,
        stem: String,
        options: &DumpOptions,
        key: Vec<usize>,
    ) -> std::io::Result<Self> {
        let (compression, limit) = (options.compression, options.file_bytes());
        let frame = (FRAMES_BYTES / options.read.threads.max(1)).min(FRAME_BYTES);
        let compressor = match compression {
            RowCompression::None => None,
            RowCompression::Zstd { level } => {
                let mut compressor = Compressor::new(level)?;
                compressor.include_checksum(true)?;
                Some(compressor)
            }
        };
        Ok(Self {
            folder,
            stem,
            ending: if compressor.is_some() {
                "tsv.zst"
            } else {
                "tsv"
            },
            frame,
            limit,
            key,
            compressor,
            packed: Vec::new(),
            text: Vec::with_capacity(frame + (frame >> 2)),
            last_row: 0,
            untold: 0,
            open: None,
            done: Vec::new(),
        })
    }

    /// Appends a row. Returns the bytes of text since the last report once they reach
    /// [`TELL_BYTES`], otherwise 0.
    pub fn row(&mut self, row: Row<'_>) -> Result<u64, FolderError> {
        let filled = self.text.len() as u64;
        if self.text.len() >= self.frame || filled >= self.limit {
            let full = self
                .open
                .as_ref()
                .is_some_and(|open| open.text_bytes + filled >= self.limit);
            if full {
                self.end_file()?;
            } else {
                self.end_frame()?;
            }
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let name = format!("{}-{:03}.{}", self.stem, self.done.len(), self.ending);
                none.insert(Open {
                    file: self.folder.file(&name)?,
                    first: self
                        .key
                        .iter()
                        .map(|index| KeyValue::new(row.cell(*index).unwrap_or_default()))
                        .collect(),
                    digest: RowDigest::default(),
                    text_bytes: 0,
                })
            }
        };
        self.last_row = self.text.len();
        tsv::write_row(row.iter(), &mut self.text);
        open.digest
            .add(&self.text[self.last_row..self.text.len() - 1]);
        self.untold += (self.text.len() - self.last_row) as u64;
        Ok(if self.untold >= TELL_BYTES {
            std::mem::take(&mut self.untold)
        } else {
            0
        })
    }

    /// Finishes the last file. Returns all files, and the bytes of text not reported yet.
    pub fn finish(mut self) -> Result<(Vec<ChunkEntry>, u64), FolderError> {
        self.end_file()?;
        Ok((self.done, self.untold))
    }

    fn end_frame(&mut self) -> Result<(), FolderError> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if self.text.is_empty() {
            return Ok(());
        }
        let bytes = match &mut self.compressor {
            None => &self.text,
            Some(compressor) => {
                self.packed.clear();
                self.packed
                    .reserve(zstd::zstd_safe::compress_bound(self.text.len()));
                compressor
                    .compress_to_buffer(&self.text, &mut self.packed)
                    .map_err(|source| FolderError::Io {
                        path: self.folder.path().join(&self.stem),
                        doing: "compressing rows",
                        source,
                    })?;
                &self.packed
            }
        };
        open.file.write(bytes)?;
        open.text_bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }

    fn end_file(&mut self) -> Result<(), FolderError> {
        let last: Vec<KeyValue> = if self.key.is_empty() || self.text.is_empty() {
            Vec::new()
        } else {
            let fields: Vec<_> = tsv::fields(&self.text[self.last_row..]).collect();
            self.key
                .iter()
                .map(|index| KeyValue::new(fields[*index].as_deref().unwrap_or_default()))
                .collect()
        };
        self.end_frame()?;
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let written = open.file.finish()?;
        self.done.push(ChunkEntry {
            file: FileEntry {
                path: written.path,
                bytes: written.bytes,
                checksum: written.checksum,
            },
            rows: open.digest.rows(),
            text_bytes: open.text_bytes,
            digest: open.digest.hex(),
            first: open.first,
            last,
        });
        Ok(())
    }
}
