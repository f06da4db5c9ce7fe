//! Writes large files to disk past the page cache, in threads, while their producers continue.
//!
//! Copying hundreds of megabytes into the page cache takes as much CPU time as reading them from a
//! server, and evicts what the server keeps there. File systems without direct I/O get ordinary
//! writes.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::FolderError;

/// Bytes per write. The server usually reads from the same disk, one page at a time, and each of
/// its reads queues behind the writes that the disk has accepted. A dump took an eighth longer with
/// 4 MiB, and with 128 KiB too.
pub const BLOCK: usize = 512 << 10;
/// Alignment of direct writes, in memory and on disk: no disk in use has larger sectors.
const ALIGN: usize = 4096;
/// Most writer threads. Normally only the first one writes, which keeps the server's reads fast; a
/// slow disk gets more writes at once.
const WRITERS: usize = 4;
/// Length of the backlog, in buffers, at which each further thread starts to help.
const BACKLOG: usize = 8;
/// Buffers in all: being filled, written and waiting. There are never more, so a slow disk
/// throttles the producers.
const BUFFERS: usize = 96;
/// On file systems without direct I/O, opening with this flag fails, and ordinary writes are used.
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();

/// A buffer whose used part begins at a multiple of [`ALIGN`].
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    filled: usize,
}

impl Buffer {
    fn new() -> Self {
        let bytes = vec![0; BLOCK + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self {
            bytes,
            start,
            filled: 0,
        }
    }

    /// Copies as much of `bytes` as fits; returns the number of bytes copied.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let take = bytes.len().min(BLOCK - self.filled);
        let at = self.start + self.filled;
        self.bytes[at..at + take].copy_from_slice(&bytes[..take]);
        self.filled += take;
        take
    }

    /// The bytes copied in so far.
    pub fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.filled]
    }

    pub fn is_full(&self) -> bool {
        self.filled == BLOCK
    }
}

/// A file opened twice: for direct writes and for writes through the page cache.
pub struct Handles {
    plain: File,
    direct: Option<File>,
    path: PathBuf,
}

impl Handles {
    /// Reopens a newly created file for direct writes.
    pub fn new(plain: File, path: &Path) -> Self {
        let direct = OpenOptions::new()
            .write(true)
            .custom_flags(O_DIRECT)
            .open(path)
            .ok();
        Self {
            plain,
            direct,
            path: path.to_owned(),
        }
    }

    /// Writes a buffer at its offset: whole sectors directly, the rest through the page cache.
    pub fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let whole = bytes.len() / ALIGN * ALIGN;
        let direct = match &self.direct {
            Some(direct) if whole > 0 => match direct.write_all_at(&bytes[..whole], at) {
                Ok(()) => whole,
                // Some file systems reject direct I/O only at the first write.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => 0,
                Err(error) => return Err(error),
            },
            _ => 0,
        };
        self.plain
            .write_all_at(&bytes[direct..], at + direct as u64)
    }
}

struct Job {
    handles: Arc<Handles>,
    buffer: Buffer,
    at: u64,
}

/// Buffers waiting to be written.
#[derive(Default)]
struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: Job) {
        self.state().jobs.push_back(job);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// The next job for this thread; `None` once the queue is closed and empty.
    fn next(&self, number: usize) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.closed || state.jobs.len() > number * BACKLOG {
                if let Some(job) = state.jobs.pop_front() {
                    return Some(job);
                }
                if state.closed {
                    return None;
                }
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Threads that write buffers.
pub struct Writer {
    queue: Arc<Queue>,
    spare: Mutex<Receiver<Buffer>>,
    back: Sender<Buffer>,
    made: Mutex<usize>,
    failed: Arc<Mutex<Option<FolderError>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writer {
    pub fn start() -> Self {
        let queue: Arc<Queue> = Arc::default();
        let (back, spare) = channel();
        let failed: Arc<Mutex<Option<FolderError>>> = Arc::default();
        let threads = (0..WRITERS)
            .map(|number| {
                let (queue, back, failed) = (Arc::clone(&queue), back.clone(), Arc::clone(&failed));
                std::thread::spawn(move || work(&queue, number, &back, &failed))
            })
            .collect();
        Self {
            queue,
            spare: Mutex::new(spare),
            back,
            made: Mutex::new(0),
            failed,
            threads,
        }
    }

    /// An empty buffer; waits for the disk when all are in use.
    pub fn buffer(&self) -> Result<Buffer, FolderError> {
        self.check()?;
        {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            if let Ok(buffer) = self.spare().try_recv() {
                return Ok(buffer);
            }
            if *made < BUFFERS {
                *made += 1;
                return Ok(Buffer::new());
            }
        }
        let buffer = self.spare().recv();
        self.check()?;
        Ok(buffer.unwrap_or_else(|_| Buffer::new()))
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Receiver<Buffer>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an unused buffer.
    pub fn give_back(&self, mut buffer: Buffer) {
        buffer.filled = 0;
        let _ = self.back.send(buffer);
    }

    /// Queues a buffer for writing. The next call reports errors.
    pub fn submit(&self, handles: &Arc<Handles>, buffer: Buffer, at: u64) {
        self.queue.push(Job {
            handles: Arc::clone(handles),
            buffer,
            at,
        });
    }

    /// Returns the first error so far, once.
    pub fn check(&self) -> Result<(), FolderError> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// Waits until everything is written.
    pub fn finish(mut self) -> Result<(), FolderError> {
        self.end();
        self.check()
    }

    fn end(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

fn work(queue: &Queue, number: usize, back: &Sender<Buffer>, failed: &Mutex<Option<FolderError>>) {
    while let Some(mut job) = queue.next(number) {
        if let Err(source) = job.handles.write(job.buffer.filled(), job.at) {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(FolderError::Io {
                path: job.handles.path.clone(),
                doing: "writing the file",
                source,
            });
        }
        job.buffer.filled = 0;
        let _ = back.send(job.buffer);
    }
}
