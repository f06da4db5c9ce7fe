//! Takes a stream apart, file by file, and passes the files on in blocks.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use refloat_repository::BLOCK;
use refloat_xbstream::{Dialect, Error, Operation, Reader};

use crate::about::{InfoFiles, is_info};
use crate::error::PhysicalError;
use crate::spool::Spool;

/// The files in which a tool describes the backup are never larger.
const INFO_MAX: usize = 1 << 20;
/// Aria logs change at their beginning while they are sent (`aria_backup_client.cc`,
/// `copy_log_tail`).
const OUT_OF_ORDER: &str = "aria_log.";

/// The redo log, as mariadb-backup sends it.
const LOG: &str = "ib_logfile0";
/// It begins with its format, "Phys" from MariaDB 10.8 on, and has the LSN of its byte `LOG_START`
/// at `LOG_LSN_AT` (`log0log.h`: `FORMAT_10_8`, `LOG_HEADER_START_LSN`, `START_OFFSET`). The bytes
/// behind belong to their LSN, whatever the log begins with.
const LOG_FORMAT: &[u8] = b"Phys";
const LOG_LSN_AT: std::ops::Range<usize> = 8..16;
const LOG_START: u64 = 12_288;

/// How long the first block of a redo log is, so that the others begin at a multiple of [`BLOCK`]
/// of the LSN.
fn first_cut(head: &[u8]) -> usize {
    let lsn = head.get(LOG_LSN_AT).and_then(|lsn| lsn.try_into().ok());
    let Some(lsn) = lsn.filter(|_| head.starts_with(LOG_FORMAT)) else {
        return BLOCK;
    };
    let begins = u64::from_be_bytes(lsn).wrapping_sub(LOG_START) % BLOCK as u64;
    BLOCK - begins as usize
}

/// Takes the blocks of files: a repository, or another machine. Threads share it.
pub trait Blocks: Sync {
    /// Names a file while blocks of it are put.
    type File: Copy + Send + Sync;
    /// Whether the redo log is cut where its LSN is a multiple of [`BLOCK`], so that logs that
    /// begin elsewhere have blocks in common.
    const CUTS_BY_LSN: bool = false;

    /// Begins a file. Its final name is known only when everything is complete.
    fn begin(&self, path: &Path) -> Self::File;

    /// An empty buffer for a block.
    fn buffer(&self) -> Vec<u8>;

    /// Takes bytes of a file, at most [`BLOCK`] and not across a multiple of it; those of a redo
    /// log that is cut by its LSN are not across a multiple of that.
    ///
    /// # Errors
    /// An earlier block could not be stored.
    fn put(&self, file: Self::File, begins: u64, bytes: Vec<u8>) -> Result<(), PhysicalError>;
}

/// A file of the stream.
struct Sent<F> {
    id: F,
    content: Content,
    /// Bytes so far, with holes.
    size: u64,
}

enum Content {
    /// It is sent in order. `block` is the one that is not full yet, and has `limit` bytes then.
    Ordered { block: Vec<u8>, limit: usize },
    /// Pieces come in any order.
    Spooled(Spool),
    /// It has been completed.
    Ended,
}

/// Paths and sizes of the files of a backup.
pub type Files<F> = Vec<(F, String, u64)>;

/// Passes the files of a stream on in blocks.
pub struct Demultiplexer<'w, W: Blocks> {
    writer: &'w W,
    tool: String,
    folder: PathBuf,
    files: BTreeMap<PathBuf, Sent<W::File>>,
    info: InfoFiles,
}

impl<'w, W: Blocks> Demultiplexer<'w, W> {
    /// `tool` names the stream in messages. What cannot be written at once is kept in `folder`
    /// meanwhile.
    pub fn new(writer: &'w W, tool: &str, folder: &Path) -> Self {
        Self {
            writer,
            tool: tool.to_owned(),
            folder: folder.to_owned(),
            files: BTreeMap::new(),
            info: InfoFiles::new(),
        }
    }

    /// Reads a stream to its end. `passed` is called with the number of bytes of each piece, and
    /// may wait.
    pub fn read(
        &mut self,
        stream: impl Read,
        dialect: Dialect,
        mut passed: impl FnMut(usize) -> Result<(), PhysicalError>,
    ) -> Result<(), PhysicalError> {
        let mut reader = Reader::new(stream, dialect);
        loop {
            let operation = reader.read().map_err(|source| self.stream(source))?;
            let Some(operation) = operation else {
                return Ok(());
            };
            match operation {
                Operation::Open { path } | Operation::Rewrite { path } => self.open(path)?,
                Operation::Data {
                    path,
                    offset,
                    bytes,
                } => {
                    self.write(path, offset, bytes)?;
                    passed(bytes.len())?;
                }
                Operation::Sparse {
                    path,
                    offset,
                    map,
                    bytes,
                } => {
                    let (mut at, mut rest) = (offset, bytes);
                    for run in map {
                        self.skip(path, u64::from(run.skip))?;
                        at += u64::from(run.skip);
                        let (piece, others) = rest.split_at(run.length as usize);
                        self.write(path, at, piece)?;
                        at += piece.len() as u64;
                        rest = others;
                    }
                    passed(bytes.len())?;
                }
                Operation::Seek { path, offset } => self.seek(path, offset)?,
                Operation::End { path } => self.end(path)?,
                Operation::Rename { from, to } => {
                    if let Some(sent) = self.files.remove(from) {
                        self.files.insert(to.to_owned(), sent);
                    }
                }
                Operation::Remove { path } => {
                    self.files.remove(path);
                }
                Operation::RemoveFolder { .. } | Operation::Ignored { .. } => {}
            }
        }
    }

    /// The files, and the contents of the small ones in which the tool describes the backup.
    ///
    /// # Errors
    /// A path is not valid UTF-8: no server creates such files.
    pub fn finish(self) -> Result<(Files<W::File>, InfoFiles), PhysicalError> {
        let mut files = Files::new();
        for (path, sent) in self.files {
            let path =
                path.into_os_string()
                    .into_string()
                    .map_err(|path| PhysicalError::Incomplete {
                        tool: self.tool.clone(),
                        reason: format!("the name of a file is not text: {}", path.display()),
                    })?;
            files.push((sent.id, path, sent.size));
        }
        Ok((files, self.info))
    }

    fn spooling(&self, source: std::io::Error) -> PhysicalError {
        PhysicalError::File {
            path: self.folder.clone(),
            doing: "keeping a log of Aria until it is complete",
            source,
        }
    }

    fn stream(&self, source: Error) -> PhysicalError {
        PhysicalError::Stream {
            tool: self.tool.clone(),
            source,
        }
    }

    fn open(&mut self, path: &Path) -> Result<(), PhysicalError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = if name.starts_with(OUT_OF_ORDER) {
            Content::Spooled(Spool::new(&self.folder).map_err(|error| self.spooling(error))?)
        } else {
            let block = self.writer.buffer();
            Content::Ordered {
                block,
                limit: BLOCK,
            }
        };
        let sent = Sent {
            id: self.writer.begin(path),
            content,
            size: 0,
        };
        self.info.remove(name.as_ref());
        self.files.insert(path.to_owned(), sent);
        Ok(())
    }

    fn write(&mut self, path: &Path, offset: u64, bytes: &[u8]) -> Result<(), PhysicalError> {
        if let Some(name) = path.to_str().filter(|name| is_info(name)) {
            let kept = self.info.entry(name.to_owned()).or_default();
            if kept.len() + bytes.len() <= INFO_MAX {
                kept.extend_from_slice(bytes);
            }
        }
        let Some(sent) = self.files.get_mut(path) else {
            return Ok(());
        };
        match &mut sent.content {
            Content::Ordered { block, limit } => {
                if W::CUTS_BY_LSN && sent.size == 0 && path == Path::new(LOG) {
                    *limit = first_cut(bytes);
                }
                let mut rest = bytes;
                while !rest.is_empty() {
                    let room = *limit - block.len();
                    let (now, later) = rest.split_at(room.min(rest.len()));
                    block.extend_from_slice(now);
                    sent.size += now.len() as u64;
                    rest = later;
                    if block.len() == *limit {
                        let full = std::mem::replace(block, self.writer.buffer());
                        self.writer.put(sent.id, sent.size - *limit as u64, full)?;
                        *limit = BLOCK;
                    }
                }
            }
            Content::Spooled(spool) => {
                let written = spool.write(offset, bytes);
                sent.size = spool.length();
                written.map_err(|error| self.spooling(error))?;
            }
            Content::Ended => {}
        }
        Ok(())
    }

    /// A hole in a file that is sent in order: blocks of zeros, which are not stored.
    fn skip(&mut self, path: &Path, mut count: u64) -> Result<(), PhysicalError> {
        let Some(sent) = self.files.get_mut(path) else {
            return Ok(());
        };
        let Content::Ordered { block, limit } = &mut sent.content else {
            return Ok(());
        };
        if count == 0 {
            return Ok(());
        }
        let room = (*limit - block.len()) as u64;
        if !block.is_empty() && count >= room {
            sent.size += room;
            count -= room;
            block.resize(*limit, 0);
            let full = std::mem::replace(block, self.writer.buffer());
            self.writer.put(sent.id, sent.size - *limit as u64, full)?;
            *limit = BLOCK;
        }
        if block.is_empty() {
            // Whole blocks can be skipped without looking at them.
            let whole = count - count % BLOCK as u64;
            sent.size += whole;
            count -= whole;
        }
        block.resize(block.len() + count as usize, 0);
        sent.size += count;
        Ok(())
    }

    fn seek(&mut self, path: &Path, offset: u64) -> Result<(), PhysicalError> {
        if let Some(sent) = self.files.get_mut(path) {
            match &mut sent.content {
                Content::Spooled(_) => {}
                Content::Ordered { .. } if sent.size == offset => {}
                _ => {
                    return Err(PhysicalError::Incomplete {
                        tool: self.tool.clone(),
                        reason: format!(
                            "{} was changed at byte {offset} after it was sent, which may only happen to logs of Aria",
                            path.display()
                        ),
                    });
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, path: &Path) -> Result<(), PhysicalError> {
        let Some(sent) = self.files.get_mut(path) else {
            return Ok(());
        };
        let id = sent.id;
        match std::mem::replace(&mut sent.content, Content::Ended) {
            Content::Ordered { block, .. } => {
                if !block.is_empty() {
                    let begins = sent.size - block.len() as u64;
                    self.writer.put(sent.id, begins, block)?;
                }
            }
            Content::Spooled(spool) => {
                let mut begins = 0;
                while begins < spool.length() {
                    let count = (spool.length() - begins).min(BLOCK as u64);
                    let mut block = self.writer.buffer();
                    block.resize(count as usize, 0);
                    let read = spool.read(begins, &mut block);
                    read.map_err(|error| self.spooling(error))?;
                    self.writer.put(id, begins, block)?;
                    begins += count;
                }
            }
            Content::Ended => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use refloat_xbstream::{Run, Writer};

    use super::*;

    const MIB: u32 = 1 << 20;

    /// Keeps the blocks of files, by the number of the file and where they begin.
    #[derive(Default)]
    struct Memory {
        names: Mutex<Vec<PathBuf>>,
        blocks: Mutex<BTreeMap<(usize, u64), Vec<u8>>>,
    }

    impl Blocks for Memory {
        type File = usize;

        fn begin(&self, path: &Path) -> usize {
            let mut names = self.names.lock().unwrap();
            names.push(path.to_owned());
            names.len() - 1
        }

        fn buffer(&self) -> Vec<u8> {
            Vec::new()
        }

        fn put(&self, file: usize, begins: u64, bytes: Vec<u8>) -> Result<(), PhysicalError> {
            assert!(begins.is_multiple_of(BLOCK as u64) && bytes.len() <= BLOCK);
            let before = self.blocks.lock().unwrap().insert((file, begins), bytes);
            assert!(before.is_none(), "block {begins} twice");
            Ok(())
        }
    }

    impl Memory {
        /// The bytes of a file, with zeros where it has no block.
        fn file(&self, id: usize, size: u64) -> Vec<u8> {
            let mut whole = vec![0; size as usize];
            let blocks = self.blocks.lock().unwrap();
            for ((_, begins), bytes) in blocks.iter().filter(|((file, _), _)| *file == id) {
                whole[*begins as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            whole
        }
    }

    /// Redo logs that begin at different LSNs have the blocks of what they have in common.
    #[test]
    fn logs_are_cut_by_their_lsn() {
        struct ByLsn(Memory);
        impl Blocks for ByLsn {
            type File = usize;
            const CUTS_BY_LSN: bool = true;

            fn begin(&self, path: &Path) -> usize {
                self.0.begin(path)
            }

            fn buffer(&self) -> Vec<u8> {
                self.0.buffer()
            }

            fn put(&self, file: usize, begins: u64, bytes: Vec<u8>) -> Result<(), PhysicalError> {
                assert!(!bytes.is_empty() && bytes.len() <= BLOCK);
                let before = self.0.blocks.lock().unwrap().insert((file, begins), bytes);
                assert!(before.is_none(), "block {begins} twice");
                Ok(())
            }
        }
        // 5 MiB of a log, each byte of its own LSN.
        let byte = |lsn: u64| (lsn ^ lsn >> 8 ^ lsn >> 16) as u8;
        let logs: Vec<_> = [12_288, 44_878, 2_987_659, 3 << 20, (3 << 20) + 12_288]
            .into_iter()
            .map(|lsn: u64| {
                let mut log = b"Phys\0\0\0\0".to_vec();
                log.extend_from_slice(&lsn.to_be_bytes());
                log.resize(LOG_START as usize, 0);
                log.extend((lsn..lsn + (5 << 20)).map(byte));
                let mut writer = Writer::new(Vec::new(), Dialect::MariaDb);
                writer.create(LOG).unwrap();
                for piece in log.chunks(300_000) {
                    writer.write(LOG, piece).unwrap();
                }
                writer.end(LOG).unwrap();
                let (memory, folder) = (ByLsn(Memory::default()), tempfile::tempdir().unwrap());
                let mut files = Demultiplexer::new(&memory, "mariadb-backup", folder.path());
                let stream = writer.finish().unwrap();
                files
                    .read(&stream[..], Dialect::MariaDb, |_| Ok(()))
                    .unwrap();
                let (files, _) = files.finish().unwrap();
                assert_eq!(files[0].2, log.len() as u64);
                assert!(memory.0.file(files[0].0, files[0].2) == log);
                let blocks = memory.0.blocks.into_inner().unwrap();
                let whole = blocks.into_values().filter(|block| block.len() == BLOCK);
                whole.collect::<Vec<_>>()
            })
            .collect();
        for (at, log) in logs.iter().enumerate() {
            assert!(log.len() >= 4, "{at}: {}", log.len());
            let common = log.iter().filter(|block| logs[0].contains(block));
            assert!(common.count() >= if at < 2 { 3 } else { 1 }, "{at}");
        }
        // Other formats, and what is too short, are cut as all files are.
        assert_eq!(first_cut(b"Phys"), BLOCK);
        assert_eq!(first_cut(&[0; 512]), BLOCK);
    }

    /// A stream as xtrabackup sends it, of page-compressed tables.
    #[test]
    fn holes_of_percona_s_tool_stay_holes() {
        let run = |skip, length| Run { skip, length };
        let maps: [&[Run]; 6] = [
            // Within a block, up to its border, over it, and over several.
            &[run(0, 100), run(200, 300)],
            &[run(0, 4096), run(MIB - 4096, 4096), run(7, 1)],
            &[run(0, MIB - 10), run(20, 50), run(3 * MIB, 9)],
            // At the beginning: of whole blocks, and of more than those.
            &[run(2 * MIB, 5)],
            &[run(2 * MIB + 1, 5)],
            // At the end.
            &[run(0, 5), run(MIB + 3, 0)],
        ];
        let mut writer = Writer::new(Vec::new(), Dialect::Percona);
        let mut expected = Vec::new();
        for (number, map) in maps.iter().enumerate() {
            let path = format!("shop/t{number}.ibd");
            writer.create(&path).unwrap();
            let mut whole = b"head".to_vec();
            writer.write(&path, b"head").unwrap();
            // Twice, so that holes begin anywhere.
            for _ in 0..2 {
                let mut bytes = Vec::new();
                for run in *map {
                    whole.resize(whole.len() + run.skip as usize, 0);
                    let piece: Vec<u8> = (1..=250).cycle().take(run.length as usize).collect();
                    whole.extend_from_slice(&piece);
                    bytes.extend_from_slice(&piece);
                }
                writer.sparse(&path, map, &bytes).unwrap();
            }
            writer.end(&path).unwrap();
            expected.push((path, whole));
        }
        let info = b"tool_name = xtrabackup\n";
        writer.create("xtrabackup_info").unwrap();
        writer.write("xtrabackup_info", info).unwrap();
        writer.end("xtrabackup_info").unwrap();
        let stream = writer.finish().unwrap();

        let (memory, folder) = (Memory::default(), tempfile::tempdir().unwrap());
        let mut files = Demultiplexer::new(&memory, "xtrabackup", folder.path());
        let mut passed = 0;
        files
            .read(&stream[..], Dialect::Percona, |bytes| {
                passed += bytes;
                Ok(())
            })
            .unwrap();
        let (files, infos) = files.finish().unwrap();
        assert_eq!(infos["xtrabackup_info"], info);
        assert_eq!(files.len(), maps.len() + 1);
        assert!(passed < stream.len(), "{passed}");
        for (path, whole) in &expected {
            let (id, _, size) = files.iter().find(|(_, name, _)| name == path).unwrap();
            assert_eq!(*size, whole.len() as u64, "{path}");
            assert!(memory.file(*id, *size) == *whole, "{path}");
        }
        // Blocks that are holes are not passed on.
        let of = |path: &str| files.iter().find(|(_, name, _)| name == path).unwrap().0;
        let blocks = memory.blocks.lock().unwrap();
        let third = of("shop/t2.ibd");
        let (first, last) = ((third, 0), (third, u64::MAX));
        assert_eq!(blocks.range(first..last).count(), 5);
    }
}
