//! The end that gets the files.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use refloat_repository::BLOCK;
use refloat_run::{Cancel, Run};
use serde::{Deserialize, Serialize};

use super::PATIENCE;
use super::channel::{Channel, ChannelError, FRAME_MAX, Secret};
use super::frame::{Frame, Place, SHORT};
use crate::about::About;
use crate::error::PhysicalError;
use crate::folder::confined;

/// Folder for files whose names are not known yet.
const INCOMING: &str = ".refloat-incoming";
/// Pause of the loop that waits for connections.
const POLL: Duration = Duration::from_millis(20);

/// What the sender says at the end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Received {
    /// Number, path and size of each file.
    pub files: Vec<(u32, String, u64)>,
    /// What the copy is.
    pub about: About,
}

/// Waits for a sender.
pub struct Receiver {
    listener: TcpListener,
    secret: Secret,
}

/// What was there before.
#[derive(Default)]
pub struct Old {
    folder: Option<PathBuf>,
    /// Hashes of the blocks of its files.
    known: Vec<(String, Vec<u8>)>,
}

impl Old {
    /// Reads the files of a data directory. That takes a while, so nobody should wait for it yet.
    pub fn look(folder: Option<&Path>, cancel: &Cancel) -> Result<Self, PhysicalError> {
        let known = folder.map_or_else(|| Ok(Vec::new()), |folder| hashes(folder, cancel))?;
        if let Some(reason) = cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        Ok(Self {
            folder: folder.map(Path::to_path_buf),
            known,
        })
    }
}

/// Where one of the connections is.
#[derive(Default)]
struct Stream {
    /// Frames that were handled.
    has: u64,
    /// Counts the connections of this number: an older one must not go on beside a newer one.
    generation: u64,
    ended: bool,
}

struct Shared<'r> {
    secret: &'r Secret,
    folder: &'r Path,
    incoming: PathBuf,
    old: &'r Old,
    /// Frames that are being handled: that may take long, and is no silence.
    busy: AtomicU64,
    streams: Mutex<Vec<Arc<Mutex<Stream>>>>,
    over: AtomicBool,
    result: Mutex<Option<Result<Received, PhysicalError>>>,
    heard: Mutex<Instant>,
    /// The list of files, as it comes.
    list: Mutex<Vec<u8>>,
    bytes: Arc<AtomicU64>,
    /// Open connections, to end those that wait for a frame.
    open: Mutex<HashMap<u64, TcpStream>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver {
    /// Listens at an address, whose port may be 0.
    pub fn bind(address: &str) -> Result<Self, PhysicalError> {
        let listen = || -> std::io::Result<TcpListener> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().map_err(|error| PhysicalError::Transfer {
            peer: address.to_owned(),
            source: ChannelError::Lost(error),
        })?;
        Ok(Self {
            listener,
            secret: Secret::random(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// The secret that the sender must know.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Receives files into a folder. Blocks that `old` has at the same place are taken from there.
    /// `is_alive` says whether there will be a sender.
    pub fn receive(
        &self,
        folder: &Path,
        old: &Old,
        run: &Run,
        mut is_alive: impl FnMut() -> Result<(), PhysicalError>,
    ) -> Result<Received, PhysicalError> {
        let incoming = folder.join(INCOMING);
        fs::create_dir_all(&incoming)
            .map_err(PhysicalError::file(&incoming, "making the folder"))?;
        let bytes = Arc::new(AtomicU64::new(0));
        run.progress.set_source(None, Arc::clone(&bytes));
        let shared = Shared {
            secret: &self.secret,
            folder,
            incoming,
            old,
            busy: AtomicU64::new(0),
            streams: Mutex::default(),
            over: AtomicBool::new(false),
            result: Mutex::default(),
            heard: Mutex::new(Instant::now()),
            list: Mutex::default(),
            bytes,
            open: Mutex::default(),
        };
        std::thread::scope(|scope| {
            let mut accepted = 0;
            while !shared.over.load(Ordering::Relaxed) {
                if let Some(reason) = run.cancel.reason() {
                    shared.end(Err(PhysicalError::Cancelled(reason)));
                } else if let Err(error) = is_alive() {
                    shared.end(Err(error));
                } else if shared.busy.load(Ordering::Relaxed) == 0
                    && lock(&shared.heard).elapsed() > PATIENCE
                {
                    shared.end(Err(PhysicalError::Transfer {
                        peer: "the sender".to_owned(),
                        source: ChannelError::Failed(format!(
                            "nothing came for {} s",
                            PATIENCE.as_secs()
                        )),
                    }));
                }
                match self.listener.accept() {
                    Ok((stream, _)) => {
                        accepted += 1;
                        let (shared, id) = (&shared, accepted);
                        if let Ok(stream) = stream.try_clone() {
                            lock(&shared.open).insert(id, stream);
                        }
                        scope.spawn(move || {
                            shared.serve(stream);
                            if let Some(stream) = lock(&shared.open).remove(&id) {
                                let _ = stream.shutdown(Shutdown::Both);
                            }
                        });
                    }
                    Err(_) => {
                        run.cancel.sleep(POLL);
                    }
                }
            }
            for stream in lock(&shared.open).values() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        let result = lock(&shared.result).take();
        result.unwrap_or_else(|| {
            Err(PhysicalError::Transfer {
                peer: "the sender".to_owned(),
                source: ChannelError::Failed("it ended without a word".to_owned()),
            })
        })
    }
}

impl Shared<'_> {
    /// The first result counts.
    fn end(&self, result: Result<Received, PhysicalError>) {
        lock(&self.result).get_or_insert(result);
        self.over.store(true, Ordering::Relaxed);
    }

    fn serve(&self, stream: TcpStream) {
        // Connections inherit it on some systems.
        let _ = stream.set_nonblocking(false);
        // A stranger, or a connection that is lost: the sender makes it again.
        let Ok(mut channel) = Channel::accept(stream, self.secret) else {
            return;
        };
        let mut frame = Vec::new();
        if channel.receive(&mut frame).is_err() {
            return;
        }
        let Some(Frame::Hello {
            stream: number,
            streams,
            asks,
        }) = Frame::read(&frame)
        else {
            return;
        };
        let Some(state) = self.stream(number, streams) else {
            return;
        };
        let generation = {
            let mut state = lock(&state);
            state.generation += 1;
            if self.welcome(&mut channel, state.has, asks).is_err() {
                return;
            }
            state.generation
        };
        let mut taker = match Taker::new(self) {
            Ok(taker) => taker,
            Err(error) => return self.end(Err(error)),
        };
        while !self.over.load(Ordering::Relaxed) {
            if channel.receive(&mut frame).is_err() {
                return;
            }
            *lock(&self.heard) = Instant::now();
            let mut state = lock(&state);
            if state.generation != generation {
                return;
            }
            self.busy.fetch_add(1, Ordering::Relaxed);
            let done = self.take(&frame, number, &mut state, &mut taker);
            *lock(&self.heard) = Instant::now();
            self.busy.fetch_sub(1, Ordering::Relaxed);
            let mut answer = Vec::new();
            match &done {
                Ok(_) => {
                    state.has += 1;
                    Frame::Has(state.has).write(&mut answer);
                }
                Err(error) => Frame::Failed(&refloat_host::chain(error)).write(&mut answer),
            }
            let sent = channel.send(&answer);
            match done {
                Ok(None) if sent.is_ok() => {}
                Ok(None) => return,
                Ok(Some(received)) => return self.end(Ok(received)),
                Err(error) => return self.end(Err(error)),
            }
        }
    }

    /// The state of a connection. `None`: there is none of this number.
    fn stream(&self, number: u16, streams: u16) -> Option<Arc<Mutex<Stream>>> {
        let mut all = lock(&self.streams);
        if all.is_empty() {
            all.resize_with(usize::from(streams), Arc::default);
        }
        (all.len() == usize::from(streams))
            .then(|| all.get(usize::from(number)).cloned())
            .flatten()
    }

    fn welcome(&self, channel: &mut Channel, has: u64, asks: bool) -> Result<(), ChannelError> {
        let mut frame = Vec::new();
        Frame::Has(has).write(&mut frame);
        channel.send(&frame)?;
        if !asks {
            return Ok(());
        }
        for (path, hashes) in &self.old.known {
            let most = (FRAME_MAX / 2) / SHORT * SHORT;
            for (number, part) in hashes.chunks(most).enumerate() {
                let known = Frame::Known {
                    path,
                    first: (number * most / SHORT) as u32,
                    hashes: part,
                };
                known.write(&mut frame);
                channel.send(&frame)?;
            }
        }
        Frame::AllKnown.write(&mut frame);
        channel.send(&frame)
    }

    /// Handles a frame. Returns what was received when it was the last one.
    fn take(
        &self,
        frame: &[u8],
        number: u16,
        state: &mut Stream,
        taker: &mut Taker<'_>,
    ) -> Result<Option<Received>, PhysicalError> {
        let failed = |source| PhysicalError::Transfer {
            peer: "the sender".to_owned(),
            source,
        };
        match Frame::read(frame) {
            Some(Frame::Block { place, bytes }) => taker.block(&place, bytes)?,
            Some(Frame::Same { place, path }) => taker.same(&place, path)?,
            Some(Frame::Alive) => {}
            Some(Frame::End) => state.ended = true,
            Some(Frame::Failed(reason)) => {
                return Err(failed(ChannelError::Failed(reason.to_owned())));
            }
            Some(Frame::List(json)) => lock(&self.list).extend_from_slice(json),
            // The state of the first connection is locked here.
            Some(Frame::Finish) if number == 0 => {
                let received: Received = serde_json::from_slice(&lock(&self.list))
                    .map_err(|_| failed(ChannelError::Foreign("its list of files is damaged")))?;
                let others = lock(&self.streams).clone();
                let open = others.iter().skip(1).any(|other| !lock(other).ended);
                if open || !state.ended {
                    return Err(failed(ChannelError::Foreign(
                        "it finishes before all of its connections have",
                    )));
                }
                self.put_in_place(&received)?;
                return Ok(Some(received));
            }
            _ => return Err(failed(ChannelError::Foreign("it sends something else"))),
        }
        Ok(None)
    }

    /// Gives the files their names and sizes.
    fn put_in_place(&self, received: &Received) -> Result<(), PhysicalError> {
        for (number, path, size) in &received.files {
            let path = self.folder.join(confined(path)?);
            let from = self.incoming.join(number.to_string());
            let put = || -> std::io::Result<()> {
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)?;
                }
                let file = open(&from)?;
                file.set_len(*size)?;
                fs::rename(&from, &path)
            };
            put().map_err(PhysicalError::file(&path, "putting the file in its place"))?;
        }
        // Files that were removed or sent again meanwhile.
        fs::remove_dir_all(&self.incoming).map_err(PhysicalError::file(
            &self.incoming,
            "removing what was sent and is not needed",
        ))
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Writes blocks.
struct Taker<'s> {
    shared: &'s Shared<'s>,
    decompressor: zstd::bulk::Decompressor<'static>,
    block: Vec<u8>,
}

impl<'s> Taker<'s> {
    fn new(shared: &'s Shared<'s>) -> Result<Self, PhysicalError> {
        let decompressor = zstd::bulk::Decompressor::new();
        Ok(Self {
            shared,
            decompressor: decompressor
                .map_err(PhysicalError::file(shared.folder, "decompressing"))?,
            block: Vec::with_capacity(BLOCK),
        })
    }

    fn block(&mut self, place: &Place, bytes: &[u8]) -> Result<(), PhysicalError> {
        self.block.clear();
        self.block.reserve(place.length as usize);
        let decompressed = self
            .decompressor
            .decompress_to_buffer(bytes, &mut self.block);
        decompressed.map_err(PhysicalError::file(
            self.shared.folder,
            "decompressing a block",
        ))?;
        self.write(place)
    }

    /// Takes a block from the older file.
    fn same(&mut self, place: &Place, path: &str) -> Result<(), PhysicalError> {
        let folder = self.shared.old.folder.as_deref();
        let old = folder.unwrap_or(self.shared.folder).join(confined(path)?);
        self.block.resize(place.length as usize, 0);
        let read =
            File::open(&old).and_then(|file| file.read_exact_at(&mut self.block, place.begins));
        read.map_err(PhysicalError::file(&old, "reading what was there before"))?;
        self.write(place)
    }

    fn write(&mut self, place: &Place) -> Result<(), PhysicalError> {
        let path = self.shared.incoming.join(place.file.to_string());
        let is_right = self.block.len() == place.length as usize
            && *blake3::hash(&self.block).as_bytes() == place.hash;
        if !is_right {
            return Err(PhysicalError::Transfer {
                peer: "the sender".to_owned(),
                source: ChannelError::Foreign("a block has another hash than it says"),
            });
        }
        open(&path)
            .and_then(|file| file.write_all_at(&self.block, place.begins))
            .map_err(PhysicalError::file(&path, "writing a block"))?;
        self.shared
            .bytes
            .fetch_add(u64::from(place.length), Ordering::Relaxed);
        Ok(())
    }
}

/// The hashes of the blocks of all files that a backup may have.
fn hashes(old: &Path, cancel: &Cancel) -> Result<Vec<(String, Vec<u8>)>, PhysicalError> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = old.join(&folder);
        let listing =
            fs::read_dir(&path).map_err(PhysicalError::file(&path, "listing the folder"))?;
        for entry in listing {
            let entry = entry.map_err(PhysicalError::file(&path, "listing the folder"))?;
            let kind = entry
                .file_type()
                .map_err(PhysicalError::file(entry.path(), "looking at it"))?;
            let name = folder.join(entry.file_name());
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file()
                && let Some(name) = name.to_str()
            {
                paths.push(name.to_owned());
            }
        }
    }
    let next = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut block = vec![0; BLOCK];
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    if cancel.is_cancelled() {
                        return;
                    }
                    // A file that cannot be read is one that the sender has to send.
                    if let Ok(hashes) = hashes_of(&old.join(path), &mut block) {
                        lock(&found).push((path.clone(), hashes));
                    }
                }
            });
        }
    });
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn hashes_of(path: &Path, block: &mut [u8]) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut hashes = Vec::new();
    let mut begins = 0;
    while begins < size {
        let count = (size - begins).min(BLOCK as u64) as usize;
        file.read_exact_at(&mut block[..count], begins)?;
        hashes.extend_from_slice(&blake3::hash(&block[..count]).as_bytes()[..SHORT]);
        begins += count as u64;
    }
    Ok(hashes)
}
