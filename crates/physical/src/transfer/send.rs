//! The sending end.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::ErrorKind::UnexpectedEof;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Queue, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use refloat_repository::{BLOCK, is_hole};
use refloat_run::Cancel;

use super::channel::{Channel, ChannelError, Secret};
use super::frame::{Frame, Place, SHORT};
use super::level::Level;
use super::{PATIENCE, PULSE};
use crate::error::PhysicalError;
use crate::stream::Blocks;

/// Frames in flight on each connection: twice as many bytes as a fast network has in flight.
const WINDOW: usize = 16;
/// Blocks that may wait for each connection.
const WAITING: usize = 4;
/// How often a receiver may close a connection at once before it is considered foreign.
const TURNED_AWAY_MAX: u32 = 5;
/// How often a connection may be lost in a row within [`PATIENCE`], and after it.
const LOST_MAX: u32 = 3;
/// Pause between attempts to connect.
const RETRY: Duration = Duration::from_millis(200);

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of files.
    pub bytes: u64,
    /// Of these, bytes that the receiver had.
    pub same: u64,
    /// Bytes of frames.
    pub framed: u64,
}

struct Block {
    file: u32,
    begins: u64,
    bytes: Vec<u8>,
}

struct Shared {
    address: String,
    secret: Secret,
    streams: u16,
    cancel: Cancel,
    level: Level,
    /// Hashes of the receiver's older files.
    known: Mutex<HashMap<String, Vec<[u8; SHORT]>>>,
    /// Hashes of blocks that the receiver has from an earlier transfer.
    anywhere: Mutex<HashSet<[u8; SHORT]>>,
    paths: Mutex<HashMap<u32, PathBuf>>,
    files: AtomicU32,
    spare: Mutex<Vec<Vec<u8>>>,
    failed: AtomicBool,
    error: Mutex<Option<ChannelError>>,
    bytes: AtomicU64,
    same: AtomicU64,
    sent: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the blocks of files. Threads share it.
pub struct Sender {
    shared: Arc<Shared>,
    queue: Option<SyncSender<Block>>,
    threads: Vec<JoinHandle<Option<Link>>>,
}

impl Sender {
    /// Connects to a receiver, and learns what it has.
    pub fn connect(
        address: &str,
        secret: &Secret,
        streams: u16,
        cancel: &Cancel,
    ) -> Result<Self, PhysicalError> {
        Self::open(address, secret, (streams, true), cancel)
    }

    /// Connects to a receiver that gets a message, and no files.
    pub fn greet(address: &str, secret: &Secret, cancel: &Cancel) -> Result<Self, PhysicalError> {
        Self::open(address, secret, (1, false), cancel)
    }

    fn open(
        address: &str,
        secret: &Secret,
        (streams, asks): (u16, bool),
        cancel: &Cancel,
    ) -> Result<Self, PhysicalError> {
        let streams = streams.max(1);
        let shared = Arc::new(Shared {
            address: address.to_owned(),
            secret: secret.clone(),
            streams,
            cancel: cancel.clone(),
            level: Level::new(u64::from(streams) * WINDOW as u64),
            known: Mutex::default(),
            anywhere: Mutex::default(),
            paths: Mutex::default(),
            files: AtomicU32::new(0),
            spare: Mutex::default(),
            failed: AtomicBool::new(false),
            error: Mutex::default(),
            bytes: AtomicU64::new(0),
            same: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        let first = Link::new(&shared, 0, asks);
        let mut first = Some(first.map_err(|source| transfer(address, source))?);
        let (queue, blocks) = sync_channel(usize::from(streams) * WAITING);
        let blocks = Arc::new(Mutex::new(blocks));
        let threads = (0..streams)
            .map(|stream| {
                let (shared, blocks) = (Arc::clone(&shared), Arc::clone(&blocks));
                let link = first.take();
                std::thread::spawn(move || {
                    let link = link.map_or_else(|| Link::new(&shared, stream, false), Ok);
                    match link.and_then(|link| work(&shared, &blocks, link)) {
                        Ok(link) => Some(link),
                        Err(error) => {
                            shared.failed.store(true, Ordering::Relaxed);
                            lock(&shared.error).get_or_insert(error);
                            // A caller that waits with a block must not wait forever.
                            while !matches!(
                                next(&blocks, PULSE),
                                Err(RecvTimeoutError::Disconnected)
                            ) {}
                            None
                        }
                    }
                })
            })
            .collect();
        Ok(Self {
            shared,
            queue: Some(queue),
            threads,
        })
    }

    /// What was sent so far.
    pub fn totals(&self) -> Sent {
        Sent {
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            same: self.shared.same.load(Ordering::Relaxed),
            framed: self.shared.sent.load(Ordering::Relaxed),
        }
    }

    /// Ends the transfer: waits for all blocks, and sends this list of files. Returns when the
    /// receiver has put the files in place.
    pub fn finish(mut self, list: &[u8]) -> Result<Sent, PhysicalError> {
        let mut links = self.end()?;
        let first = links.first_mut().map(|first| {
            for piece in list.chunks(BLOCK) {
                first.say(&Frame::List(piece))?;
            }
            first.say(&Frame::Finish)?;
            first.drain()
        });
        match first {
            Some(Err(error)) => Err(self.failed(error)),
            _ => Ok(self.totals()),
        }
    }

    /// Tells the receiver why there will be no more.
    pub fn give_up(mut self, reason: &str) {
        if let Ok(mut links) = self.end()
            && let Some(first) = links.first_mut()
        {
            let _ = first.say(&Frame::Failed(reason));
            let _ = first.drain();
        }
    }

    fn failed(&self, error: ChannelError) -> PhysicalError {
        if let Some(reason) = self.shared.cancel.reason() {
            return PhysicalError::Cancelled(reason);
        }
        transfer(&self.shared.address, error)
    }

    fn end(&mut self) -> Result<Vec<Link>, PhysicalError> {
        drop(self.queue.take());
        let links: Vec<Option<Link>> = self
            .threads
            .drain(..)
            .map(|thread| thread.join().ok().flatten())
            .collect();
        if let Some(error) = lock(&self.shared.error).take() {
            return Err(self.failed(error));
        }
        let count = links.len();
        let links: Vec<Link> = links.into_iter().flatten().collect();
        if links.len() < count {
            return Err(self.failed(ChannelError::Failed("a thread ended early".to_owned())));
        }
        Ok(links)
    }
}

fn transfer(address: &str, source: ChannelError) -> PhysicalError {
    PhysicalError::Transfer {
        peer: address.to_owned(),
        source,
    }
}

impl Blocks for Sender {
    type File = u32;

    fn begin(&self, path: &Path) -> u32 {
        let id = self.shared.files.fetch_add(1, Ordering::Relaxed);
        lock(&self.shared.paths).insert(id, path.to_owned());
        id
    }

    fn buffer(&self) -> Vec<u8> {
        let spare = lock(&self.shared.spare).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(BLOCK))
    }

    fn put(&self, file: u32, begins: u64, bytes: Vec<u8>) -> Result<(), PhysicalError> {
        if self.shared.failed.load(Ordering::Relaxed)
            && let Some(error) = lock(&self.shared.error).take()
        {
            return Err(self.failed(error));
        }
        if let Some(queue) = &self.queue {
            let block = Block {
                file,
                begins,
                bytes,
            };
            // It fails only when all threads have panicked, which the end reports.
            let _ = queue.send(block);
        }
        Ok(())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        drop(self.queue.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn next(blocks: &Mutex<Queue<Block>>, wait: Duration) -> Result<Block, RecvTimeoutError> {
    lock(blocks).recv_timeout(wait)
}

/// Sends blocks until there are no more, and waits until all of them have arrived.
fn work(
    shared: &Arc<Shared>,
    blocks: &Mutex<Queue<Block>>,
    mut link: Link,
) -> Result<Link, ChannelError> {
    let mut compressor = zstd::bulk::Compressor::new(shared.level.now())?;
    let mut stored = Vec::new();
    let mut last_sent = Instant::now();
    loop {
        if shared.failed.load(Ordering::Relaxed) {
            return Err(another_failed());
        }
        match next(blocks, PULSE) {
            Ok(mut block) => {
                let frame = encode(shared, &block, &mut compressor, &mut stored)?;
                block.bytes.clear();
                lock(&shared.spare).push(block.bytes);
                if let Some(frame) = frame {
                    link.send(frame)?;
                    last_sent = Instant::now();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // Nothing is sent of holes either, and there may be many.
        if last_sent.elapsed() >= PULSE {
            link.say(&Frame::Alive)?;
            link.drain()?;
            last_sent = Instant::now();
        }
    }
    link.say(&Frame::End)?;
    link.drain()?;
    Ok(link)
}

/// The frame of a block. `None`: it is a hole, which new files consist of anyway.
fn encode(
    shared: &Shared,
    block: &Block,
    compressor: &mut zstd::bulk::Compressor<'_>,
    stored: &mut Vec<u8>,
) -> Result<Option<Vec<u8>>, ChannelError> {
    let count = block.bytes.len() as u64;
    shared.bytes.fetch_add(count, Ordering::Relaxed);
    if block.bytes.is_empty() || is_hole(&block.bytes) {
        return Ok(None);
    }
    let place = Place {
        file: block.file,
        begins: block.begins,
        length: block.bytes.len() as u32,
        hash: *blake3::hash(&block.bytes).as_bytes(),
    };
    let mut frame = Vec::new();
    let path = lock(&shared.paths).get(&block.file).cloned();
    let path = path.as_deref().and_then(Path::to_str).unwrap_or_default();
    let number = (block.begins / BLOCK as u64) as usize;
    let is_same = block.begins.is_multiple_of(BLOCK as u64)
        && lock(&shared.known)
            .get(path)
            .and_then(|hashes| hashes.get(number))
            .is_some_and(|hash| *hash == place.hash[..SHORT]);
    let is_anywhere = || lock(&shared.anywhere).contains(&place.hash[..SHORT]);
    let path = if is_same {
        Some(path)
    } else {
        is_anywhere().then_some("")
    };
    if let Some(path) = path {
        shared.same.fetch_add(count, Ordering::Relaxed);
        shared.level.had_block();
        Frame::Same { place, path }.write(&mut frame);
    } else {
        stored.clear();
        stored.reserve(zstd::zstd_safe::compress_bound(block.bytes.len()));
        compressor.set_compression_level(shared.level.now())?;
        compressor.compress_to_buffer(&block.bytes, stored)?;
        Frame::Block {
            place,
            bytes: stored,
        }
        .write(&mut frame);
    }
    shared.sent.fetch_add(frame.len() as u64, Ordering::Relaxed);
    Ok(Some(frame))
}

/// One of the connections. It is replaced when it is lost.
struct Link {
    shared: Arc<Shared>,
    stream: u16,
    channel: Channel,
    /// Frames that the receiver has.
    has: u64,
    /// Frames that it has not acknowledged, the oldest first.
    pending: VecDeque<Vec<u8>>,
    /// Since when, and how often, the connection was lost without news from the receiver.
    lost: Option<(Instant, u32)>,
    answer: Vec<u8>,
}

impl Link {
    fn new(shared: &Arc<Shared>, stream: u16, asks: bool) -> Result<Self, ChannelError> {
        let (channel, has) = establish(shared, stream, asks)?;
        Ok(Self {
            shared: Arc::clone(shared),
            stream,
            channel,
            has,
            pending: VecDeque::new(),
            lost: None,
            answer: Vec::new(),
        })
    }

    fn say(&mut self, frame: &Frame<'_>) -> Result<(), ChannelError> {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        self.send(bytes)
    }

    /// Sends a frame, and waits while too many are in flight.
    fn send(&mut self, frame: Vec<u8>) -> Result<(), ChannelError> {
        let sent = self.channel.send(&frame);
        self.pending.push_back(frame);
        match sent {
            Ok(()) => {}
            Err(error) => self.again(error)?,
        }
        self.wait(WINDOW)
    }

    /// Waits until the receiver has everything.
    fn drain(&mut self) -> Result<(), ChannelError> {
        self.wait(0)
    }

    fn wait(&mut self, most: usize) -> Result<(), ChannelError> {
        while self.pending.len() > most {
            match self.channel.receive(&mut self.answer) {
                Ok(()) => match Frame::read(&self.answer) {
                    Some(Frame::Has(count)) => self.acknowledge(count)?,
                    Some(Frame::Alive) => self.lost = None,
                    Some(Frame::Failed(reason)) => {
                        return Err(ChannelError::Failed(reason.to_owned()));
                    }
                    _ => return Err(ChannelError::Foreign("it answers something else")),
                },
                Err(error) => self.again(error)?,
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, count: u64) -> Result<(), ChannelError> {
        let news = count.checked_sub(self.has);
        let news = news.filter(|news| *news <= self.pending.len() as u64);
        let news = news.ok_or(ChannelError::Foreign("it acknowledges what was not sent"))?;
        if news > 0 {
            self.lost = None;
            self.shared.level.arrived(news, Instant::now());
        }
        self.pending.drain(..news as usize);
        self.has = count;
        Ok(())
    }

    /// Replaces a connection that was lost, and sends what the receiver does not have. Another
    /// error is returned.
    fn again(&mut self, mut error: ChannelError) -> Result<(), ChannelError> {
        while matches!(error, ChannelError::Lost(_)) {
            let (since, times) = self.lost.unwrap_or_else(|| (Instant::now(), 0));
            if times > 0 {
                self.shared.cancel.sleep(RETRY);
            }
            self.lost = Some((since, times + 1));
            let (channel, has) = establish(&self.shared, self.stream, false)?;
            self.channel = channel;
            self.acknowledge(has)?;
            let is_in_vain = times >= LOST_MAX && since.elapsed() > PATIENCE;
            if self.lost.is_some() && is_in_vain || self.shared.cancel.is_cancelled() {
                break;
            }
            let all = self
                .pending
                .iter()
                .try_for_each(|frame| self.channel.send(frame));
            match all {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
        Err(error)
    }
}

fn another_failed() -> ChannelError {
    ChannelError::Failed("another connection has failed".to_owned())
}

/// Connects, and learns how many frames of this number the receiver has.
fn establish(shared: &Shared, stream: u16, asks: bool) -> Result<(Channel, u64), ChannelError> {
    // The receiver may compare files for hours before it accepts the first connection.
    let mut heard = Instant::now();
    let mut turned_away = 0;
    loop {
        // Another connection has learned why there is nothing to connect to.
        if shared.failed.load(Ordering::Relaxed) {
            return Err(another_failed());
        }
        match attempt(shared, stream, asks, &mut heard) {
            // The two ends are foreign to each other, so the receiver cannot say why it closes the
            // connection.
            Err(ChannelError::Foreign(what)) if turned_away < TURNED_AWAY_MAX => {
                turned_away += 1;
                if turned_away == TURNED_AWAY_MAX {
                    return Err(ChannelError::Foreign(what));
                }
                shared.cancel.sleep(RETRY);
            }
            Err(ChannelError::Lost(_))
                if heard.elapsed() < PATIENCE && !shared.cancel.is_cancelled() =>
            {
                shared.cancel.sleep(RETRY);
            }
            other => return other,
        }
    }
}

/// One attempt. Sets `heard` to the time when the receiver last answered.
fn attempt(
    shared: &Shared,
    stream: u16,
    asks: bool,
    heard: &mut Instant,
) -> Result<(Channel, u64), ChannelError> {
    let mut channel = Channel::connect(&shared.address, &shared.secret)?;
    let mut frame = Vec::new();
    let hello = Frame::Hello {
        stream,
        streams: shared.streams,
        asks,
    };
    hello.write(&mut frame);
    channel.send(&frame)?;
    let mut is_first = true;
    loop {
        match channel.receive(&mut frame) {
            Err(ChannelError::Lost(error)) if is_first && error.kind() == UnexpectedEof => {
                return Err(ChannelError::Foreign("it closes connections at once"));
            }
            other => other?,
        }
        is_first = false;
        *heard = Instant::now();
        if let Some(reason) = shared.cancel.reason() {
            return Err(ChannelError::Failed(reason.to_string()));
        }
        match Frame::read(&frame) {
            Some(Frame::Has(count)) if !asks => return Ok((channel, count)),
            Some(Frame::AllKnown) if asks => return Ok((channel, 0)),
            Some(Frame::Has(_) | Frame::Alive) => {}
            Some(Frame::Known {
                path: "", hashes, ..
            }) if asks => lock(&shared.anywhere).extend(hashes.as_chunks::<SHORT>().0),
            Some(Frame::Known {
                path,
                first,
                hashes,
            }) if asks => {
                let mut known = lock(&shared.known);
                let all = known.entry(path.to_owned()).or_default();
                all.truncate(first as usize);
                all.extend(hashes.as_chunks::<SHORT>().0);
            }
            Some(Frame::Failed(reason)) => return Err(ChannelError::Failed(reason.to_owned())),
            _ => return Err(ChannelError::Foreign("it answers something else")),
        }
    }
}
