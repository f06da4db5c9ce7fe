//! The receiving end.

use std::collections::{BTreeSet, HashMap};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use refloat_repository::BLOCK;
use refloat_run::{Events, Run};
use serde::{Deserialize, Serialize};

use super::channel::{Channel, ChannelError, Secret};
use super::frame::{Frame, Place, SHORT};
use super::known::Known;
use super::{PATIENCE, PULSE};
use crate::about::About;
use crate::error::PhysicalError;
use crate::folder::confined;
use crate::held::open_file;
use crate::incoming::Incoming;
use crate::partial_copy;

/// Pause of the loop that waits for connections.
const POLL: Duration = Duration::from_millis(20);
/// How long to wait for a sender that has to be told that there will be no transfer.
const REFUSING: Duration = Duration::from_secs(3);
/// How many kinds of strangers are reported.
const STRANGERS_TOLD: usize = 20;
/// Connections at the same time, of the sender and of strangers. A sender has 64 at most.
const OPEN_MAX: usize = 128;

/// The sender's final message.
#[derive(Debug, Serialize, Deserialize)]
pub struct Received {
    /// Number, path and size of each file.
    pub files: Vec<(u32, String, u64)>,
    /// The description of the copy. `None`: there was no copy, only `words`.
    pub about: Option<About>,
    /// Text from the sender's caller for the receiver's.
    pub words: String,
}

/// Waits for a sender.
pub struct Receiver {
    listener: TcpListener,
    secret: Secret,
    /// How long nothing may arrive; `None`: for as long as the sender may still come.
    patience: Option<Duration>,
    /// Bytes of files that are expected, roughly; `None`: not known.
    expected: Option<u64>,
}

/// The state of one of the connections.
#[derive(Default)]
struct Stream {
    /// Frames that were handled.
    has: u64,
    /// Counts the connections of this number: an older one must not continue beside a newer one.
    generation: u64,
    ended: bool,
}

struct Shared<'r> {
    secret: &'r Secret,
    folder: &'r Path,
    incoming: Incoming,
    /// Blocks that are here already.
    known: Known<'r>,
    events: &'r Events,
    /// Who was turned away, and why.
    strangers: Mutex<BTreeSet<String>>,
    /// Frames that are being handled: that may take long, and does not count as silence.
    busy: AtomicU64,
    streams: Mutex<Vec<Arc<Mutex<Stream>>>>,
    over: AtomicBool,
    result: Mutex<Option<Result<Received, PhysicalError>>>,
    heard: Mutex<Instant>,
    /// The list of files, as it arrives.
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
    pub fn bind(address: &str, secret: Secret) -> Result<Self, PhysicalError> {
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
            secret,
            patience: Some(PATIENCE),
            expected: None,
        })
    }

    /// Sets how long nothing may arrive; `None`: without a limit.
    #[must_use]
    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how many bytes of files are expected, for the progress.
    #[must_use]
    pub fn expects(mut self, bytes: Option<u64>) -> Self {
        self.expected = bytes;
        self
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// The secret that the sender must know.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Tells senders that connect that there will be no transfer, so that they do not keep trying.
    pub fn turn_away(&self, why: &str) {
        let begun = Instant::now();
        let (mut frame, mut answer) = (Vec::new(), Vec::new());
        while begun.elapsed() < REFUSING {
            let Ok((stream, _)) = self.listener.accept() else {
                std::thread::sleep(POLL);
                continue;
            };
            let _ = stream.set_nonblocking(false);
            let sent = Channel::accept(stream, &self.secret).and_then(|mut channel| {
                channel.receive(&mut frame)?;
                Frame::Failed(why).write(&mut answer);
                channel.send(&answer)
            });
            if sent.is_ok() {
                return;
            }
        }
    }

    /// Does something that may take long, and tells the sender meanwhile that this end lives.
    pub fn busy_while<T>(&self, work: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        let open: Mutex<Vec<TcpStream>> = Mutex::default();
        std::thread::scope(|scope| {
            let keeper = scope.spawn(|| {
                std::thread::scope(|scope| {
                    while !over.load(Ordering::Relaxed) {
                        match self.listener.accept() {
                            Ok((stream, _)) if lock(&open).len() < OPEN_MAX => {
                                lock(&open).extend(stream.try_clone().ok());
                                scope.spawn(|| self.hold(stream, &over));
                            }
                            Ok(_) => {}
                            Err(_) => std::thread::sleep(POLL),
                        }
                    }
                    // Connections that have sent nothing.
                    for stream in lock(&open).iter() {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                });
            });
            let done = work();
            over.store(true, Ordering::Relaxed);
            let _ = keeper.join();
            done
        })
    }

    /// Keeps a sender waiting with heartbeats until `over`. The sender then connects again.
    fn hold(&self, stream: TcpStream, over: &AtomicBool) -> Result<(), ChannelError> {
        let _ = stream.set_nonblocking(false);
        let mut channel = Channel::accept(stream, &self.secret)?;
        let mut frame = Vec::new();
        channel.receive(&mut frame)?;
        Frame::Alive.write(&mut frame);
        loop {
            channel.send(&frame)?;
            let last_pulse = Instant::now();
            while last_pulse.elapsed() < PULSE {
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(POLL);
            }
        }
    }

    /// Receives files into a folder. Blocks that a file of the folder `old` has at the same place
    /// are taken from there, and so are those that an earlier transfer has brought. The sender
    /// waits while these files are read. `is_alive` reports whether there will be a sender.
    pub fn receive(
        &self,
        folder: &Path,
        old: Option<&Path>,
        run: &Run,
        mut is_alive: impl FnMut() -> Result<(), PhysicalError>,
    ) -> Result<Received, PhysicalError> {
        let incoming = Incoming::begin(folder)?;
        let bytes = Arc::new(AtomicU64::new(0));
        run.progress.set_source(self.expected, Arc::clone(&bytes));
        let shared = Shared {
            secret: &self.secret,
            folder,
            incoming,
            known: Known {
                old,
                earlier: partial_copy::in_folder(folder),
                anywhere: Mutex::default(),
            },
            events: &run.events,
            strangers: Mutex::default(),
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
                    && let Some(patience) = self.patience
                    && lock(&shared.heard).elapsed() > patience
                {
                    shared.end(Err(PhysicalError::Transfer {
                        peer: "the sender".to_owned(),
                        source: ChannelError::Failed(format!(
                            "nothing came for {} s",
                            patience.as_secs()
                        )),
                    }));
                }
                match self.listener.accept() {
                    // More connections than that are not the sender's. If one is, it connects
                    // again.
                    Ok(_) if lock(&shared.open).len() >= OPEN_MAX => {}
                    Ok((stream, from)) => {
                        accepted += 1;
                        let (shared, id) = (&shared, accepted);
                        if let Ok(stream) = stream.try_clone() {
                            lock(&shared.open).insert(id, stream);
                        }
                        scope.spawn(move || {
                            if let Err(error) = shared.serve(stream) {
                                shared.turned_away(from, &error);
                            }
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
        let result = lock(&shared.result).take().unwrap_or_else(|| {
            Err(PhysicalError::Transfer {
                peer: "the sender".to_owned(),
                source: ChannelError::Failed("it ended without a message".to_owned()),
            })
        });
        match result {
            // Its own words.
            Err(PhysicalError::Transfer {
                source: ChannelError::Failed(_),
                ..
            })
            | Ok(_) => {}
            // The message about it may have been lost with the connection.
            Err(ref error) => self.turn_away(&refloat_host::chain(error)),
        }
        result
    }
}

impl Shared<'_> {
    /// The first result counts.
    fn end(&self, result: Result<Received, PhysicalError>) {
        lock(&self.result).get_or_insert(result);
        self.over.store(true, Ordering::Relaxed);
    }

    /// Reports that somebody other than the sender has connected.
    fn turned_away(&self, from: SocketAddr, error: &ChannelError) {
        let mut strangers = lock(&self.strangers);
        let who = format!("{}: {}", from.ip(), refloat_host::chain(error));
        if strangers.len() < STRANGERS_TOLD && strangers.insert(who.clone()) {
            let port = from.port();
            self.events.warn(format!(
                "a connection was turned away, from port {port} of {who}"
            ));
        }
    }

    /// Takes what arrives through a connection. If it is lost, the sender replaces it.
    ///
    /// # Errors
    /// It is not the sender's.
    fn serve(&self, stream: TcpStream) -> Result<(), ChannelError> {
        // Connections inherit it on some systems.
        let _ = stream.set_nonblocking(false);
        let foreign = |error| match error {
            ChannelError::Lost(_) => Ok(()),
            other => Err(other),
        };
        let mut channel = match Channel::accept(stream, self.secret) {
            Ok(channel) => channel,
            Err(error) => return foreign(error),
        };
        let mut frame = Vec::new();
        if let Err(error) = channel.receive(&mut frame) {
            return foreign(error);
        }
        let Some(Frame::Hello {
            stream: number,
            streams,
            asks,
        }) = Frame::read(&frame)
        else {
            return Err(ChannelError::Foreign("it does not begin with a hello"));
        };
        if channel.is_bare {
            return self.hear_why(&mut channel, asks);
        }
        let Some(state) = self.stream(number, streams) else {
            return Err(ChannelError::Foreign(
                "it has another number of connections",
            ));
        };
        let generation = {
            let mut state = lock(&state);
            state.generation += 1;
            self.busy.fetch_add(1, Ordering::Relaxed);
            let welcomed = self.welcome(&mut channel, state.has, asks);
            *lock(&self.heard) = Instant::now();
            self.busy.fetch_sub(1, Ordering::Relaxed);
            if welcomed.is_err() {
                return Ok(());
            }
            state.generation
        };
        self.listen(&mut channel, number, (&state, generation));
        Ok(())
    }

    /// Reads why a sender that has the secret, but no certificate, sends nothing. Everything else
    /// that it says is ignored.
    fn hear_why(&self, channel: &mut Channel, asks: bool) -> Result<(), ChannelError> {
        let lacks = "it has no certificate";
        let mut frame = Vec::new();
        if asks {
            Frame::Failed("certificates are asked for here").write(&mut frame);
            channel.send(&frame)?;
            return Err(ChannelError::Foreign(lacks));
        }
        Frame::Has(0).write(&mut frame);
        channel.send(&frame)?;
        channel.receive(&mut frame)?;
        // It may say first that there are no blocks.
        if Frame::read(&frame) == Some(Frame::End) {
            Frame::Has(1).write(&mut frame);
            channel.send(&frame)?;
            channel.receive(&mut frame)?;
        }
        let Some(Frame::Failed(reason)) = Frame::read(&frame) else {
            return Err(ChannelError::Foreign(lacks));
        };
        let error = ChannelError::Failed(reason.to_owned());
        Frame::Failed("it was told").write(&mut frame);
        let _ = channel.send(&frame);
        self.end(Err(PhysicalError::Transfer {
            peer: "the sender".to_owned(),
            source: error,
        }));
        Ok(())
    }

    /// Takes the frames of a connection until it is lost, or the transfer is over.
    fn listen(
        &self,
        channel: &mut Channel,
        number: u16,
        (state, generation): (&Mutex<Stream>, u64),
    ) {
        let mut frame = Vec::new();
        let mut taker = match Taker::new(self) {
            Ok(taker) => taker,
            Err(error) => return self.end(Err(error)),
        };
        while !self.over.load(Ordering::Relaxed) {
            if channel.receive(&mut frame).is_err() {
                return;
            }
            *lock(&self.heard) = Instant::now();
            let mut state = lock(state);
            if state.generation != generation {
                return;
            }
            self.busy.fetch_add(1, Ordering::Relaxed);
            let done = if Frame::read(&frame) == Some(Frame::Finish) {
                // Files are synced and moved into place, which may take long.
                let (frame, state, taker) = (&frame, &mut *state, &mut taker);
                alive_while(channel, || self.take(frame, number, state, taker))
            } else {
                self.take(&frame, number, &mut state, &mut taker)
            };
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
        self.known
            .tell(channel, || self.over.load(Ordering::Relaxed))?;
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
                self.incoming.finish(&received.files)?;
                partial_copy::remove(self.folder)?;
                return Ok(Some(received));
            }
            _ => {
                return Err(failed(ChannelError::Foreign(
                    "it sends something unexpected",
                )));
            }
        }
        Ok(None)
    }
}

/// Does something, and meanwhile sends heartbeats to the sender.
pub fn alive_while<T: Send>(channel: &mut Channel, work: impl FnOnce() -> T + Send) -> T {
    let mut frame = Vec::new();
    Frame::Alive.write(&mut frame);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pulse = scope.spawn(|| {
            let mut last_pulse = Instant::now();
            while !over.load(Ordering::Relaxed) {
                if last_pulse.elapsed() >= PULSE {
                    // The sender replaces a lost connection.
                    let _ = channel.send(&frame);
                    last_pulse = Instant::now();
                }
                std::thread::park_timeout(POLL);
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        pulse.thread().unpark();
        let _ = pulse.join();
        done
    })
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

    /// Takes a block from the older file, or from what an earlier transfer has brought.
    fn same(&mut self, place: &Place, path: &str) -> Result<(), PhysicalError> {
        let known = &self.shared.known;
        let (old, begins) = if path.is_empty() {
            let found = place.hash.first_chunk::<SHORT>();
            let found = found.and_then(|hash| lock(&known.anywhere).find(hash));
            found.ok_or_else(|| PhysicalError::Transfer {
                peer: "the sender".to_owned(),
                source: ChannelError::Foreign("it names a block that is not here"),
            })?
        } else {
            let old = known.old.unwrap_or(self.shared.folder);
            (old.join(confined(path)?), place.begins)
        };
        self.block.resize(place.length as usize, 0);
        let read = open_file(&old).and_then(|file| file.read_exact_at(&mut self.block, begins));
        read.map_err(PhysicalError::file(&old, "reading what was there before"))?;
        self.write(place)
    }

    fn write(&mut self, place: &Place) -> Result<(), PhysicalError> {
        let is_right = self.block.len() == place.length as usize
            && *blake3::hash(&self.block).as_bytes() == place.hash;
        if !is_right {
            return Err(PhysicalError::Transfer {
                peer: "the sender".to_owned(),
                source: ChannelError::Foreign("a block has another hash than it says"),
            });
        }
        (self.shared.incoming).write(place.file, place.begins, &self.block)?;
        self.shared
            .bytes
            .fetch_add(u64::from(place.length), Ordering::Relaxed);
        Ok(())
    }
}
