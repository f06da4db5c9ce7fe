//! Frames through a TCP connection, encrypted and authenticated by a shared secret.
//!
//! The end that connects sends a magic number and a random number, the other one a random number.
//! Both derive a key for each direction from the secret and these (BLAKE3). A frame is its length
//! (4 bytes, little-endian) and its bytes under AES-256-GCM, whose nonce counts the frames. So a
//! frame that is changed, repeated, left out or of another connection does not open.
//!
//! Where both ends have certificates of one authority, all of this goes through TLS, in which they
//! authenticate each other: then the secret alone opens nothing.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{RecvTimeoutError, Sender as Held, channel};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use refloat_wire::{PeerStream, PeerTls, peer_refusal};

use super::PATIENCE;

const MAGIC: &[u8; 8] = b"REFLOAT1";
const RANDOM: usize = 16;
/// Bytes that encryption adds.
const TAG: usize = 16;
/// The longest frame: a block that does not compress, with its head.
pub const FRAME_MAX: usize = (1 << 20) + (64 << 10);
/// Maximum size of the first frame that a receiver accepts.
const GREETING_MAX: usize = 1 << 10;
/// How long a connection may take to be established and authenticated.
const CONNECT: Duration = Duration::from_secs(10);

/// Why a connection cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The connection was lost.
    #[error("the connection was lost")]
    Lost(#[source] io::Error),
    /// The ends do not accept each other's certificates.
    #[error("{0}")]
    Certificate(String),
    /// The other end is not a transfer of this version, or has another secret.
    #[error("the other end is not that of this transfer: {0}")]
    Foreign(&'static str),
    /// The other end has failed.
    #[error("the other end has failed: {0}")]
    Failed(String),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        match peer_refusal(&error) {
            Some(why) => Self::Certificate(why),
            None => Self::Lost(error),
        }
    }
}

/// What both ends of one transfer know, and by what they authenticate each other besides.
#[derive(Clone)]
pub struct Secret {
    bytes: [u8; 32],
    certificates: Option<PeerTls>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// A new random secret.
    pub fn random() -> Self {
        Self {
            bytes: random(),
            certificates: None,
        }
    }

    /// The same, for ends that also authenticate each other by certificates.
    #[must_use]
    pub fn with(mut self, certificates: Option<PeerTls>) -> Self {
        self.certificates = certificates;
        self
    }

    /// Parses 64 hexadecimal digits. `None`: the text is something else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let hash = blake3::Hash::from_hex(text.trim()).ok()?;
        Some(Self {
            bytes: *hash.as_bytes(),
            certificates: None,
        })
    }

    /// As 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.bytes).to_hex().to_string()
    }

    fn key(&self, direction: &str, here: &[u8], there: &[u8]) -> Half {
        let material = [&self.bytes[..], direction.as_bytes(), here, there].concat();
        let key = blake3::derive_key("refloat transfer 2026: key of a direction", &material);
        #[expect(clippy::expect_used, reason = "the key has the length of the cipher's")]
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes");
        Half {
            key: LessSafeKey::new(key),
            count: 0,
        }
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[expect(
        clippy::expect_used,
        reason = "a system without randomness runs nothing else either"
    )]
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// The key of one direction, and the frames that it was used for.
struct Half {
    key: LessSafeKey,
    count: u64,
}

impl Half {
    fn nonce(&mut self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        self.count += 1;
        Nonce::assume_unique_for_key(bytes)
    }
}

/// A connection between the two ends of a transfer.
pub struct Channel {
    stream: Box<dyn PeerStream>,
    out: Half,
    incoming: Half,
    sealed: Vec<u8>,
    /// Maximum size of the next frame.
    most: usize,
    /// Shuts the connection down unless it is dropped in time: the first frame authenticates the
    /// other end.
    unproven: Option<Deadline>,
    /// Whether certificates are required and the other end has shown none: it may only say why it
    /// fails.
    pub is_bare: bool,
}

impl Channel {
    pub fn connect(address: &str, secret: &Secret) -> Result<Self, ChannelError> {
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let connected = addresses.iter().find_map(|address| {
            TcpStream::connect_timeout(address, CONNECT)
                .map_err(|error| last = error)
                .ok()
        });
        let Some(stream) = connected else {
            return Err(last.into());
        };
        prepare(&stream)?;
        let mut stream: Box<dyn PeerStream> = match &secret.certificates {
            Some(certificates) => certificates.connect(stream)?,
            None => Box::new(stream),
        };
        let nonce: [u8; RANDOM] = random();
        stream.write_all(&[&MAGIC[..], &nonce].concat())?;
        stream.flush()?;
        let mut other = [0; RANDOM];
        stream.read_exact(&mut other)?;
        Ok(Self {
            stream,
            out: secret.key("to the receiver", &nonce, &other),
            incoming: secret.key("to the sender", &nonce, &other),
            sealed: Vec::new(),
            most: FRAME_MAX + TAG,
            unproven: None,
            is_bare: false,
        })
    }

    /// Answers a connection that the sender has made.
    pub fn accept(socket: TcpStream, secret: &Secret) -> Result<Self, ChannelError> {
        Self::accept_within(CONNECT, socket, secret)
    }

    /// The same, if the other end authenticates itself within this time.
    fn accept_within(
        time: Duration,
        socket: TcpStream,
        secret: &Secret,
    ) -> Result<Self, ChannelError> {
        prepare(&socket)?;
        // A stranger may connect and send nothing, or one byte at a time.
        socket.set_read_timeout(Some(time))?;
        let unproven = Some(Deadline::start(time, &socket)?);
        let timeout = socket.try_clone()?;
        // An end without a certificate cannot say anything through TLS, not even that.
        let is_bare = secret.certificates.is_some() && begins_with_magic(&socket)?;
        let mut stream: Box<dyn PeerStream> = match &secret.certificates {
            Some(certificates) if !is_bare => match certificates.accept(socket) {
                Ok(stream) => stream,
                Err(error) => {
                    hear_out(&timeout);
                    return Err(error.into());
                }
            },
            _ => Box::new(socket),
        };
        let mut hello = [0; MAGIC.len() + RANDOM];
        stream.read_exact(&mut hello)?;
        let (magic, other) = hello.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(ChannelError::Foreign("it speaks another protocol"));
        }
        let nonce: [u8; RANDOM] = random();
        stream.write_all(&nonce)?;
        stream.flush()?;
        timeout.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            out: secret.key("to the sender", other, &nonce),
            incoming: secret.key("to the receiver", other, &nonce),
            sealed: Vec::new(),
            // The first frame is a greeting, and its sender is not authenticated before it.
            most: GREETING_MAX,
            unproven,
            is_bare,
        })
    }

    pub fn send(&mut self, frame: &[u8]) -> Result<(), ChannelError> {
        let length = u32::try_from(frame.len() + TAG).unwrap_or(u32::MAX);
        self.sealed.clear();
        self.sealed.extend_from_slice(&length.to_le_bytes());
        self.sealed.extend_from_slice(frame);
        let nonce = self.out.nonce();
        let tag = self
            .out
            .key
            .seal_in_place_separate_tag(nonce, Aad::empty(), &mut self.sealed[4..])
            .map_err(|_| ChannelError::Foreign("a frame is too long"))?;
        self.sealed.extend_from_slice(tag.as_ref());
        self.stream.write_all(&self.sealed)?;
        self.stream.flush()?;
        Ok(())
    }

    pub fn receive(&mut self, frame: &mut Vec<u8>) -> Result<(), ChannelError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if !(TAG..=self.most).contains(&length) {
            return Err(ChannelError::Foreign("a frame has an impossible length"));
        }
        frame.resize(length, 0);
        self.stream.read_exact(frame)?;
        let nonce = self.incoming.nonce();
        let plain = self.incoming.key.open_in_place(nonce, Aad::empty(), frame);
        let length = plain
            .map_err(|_| ChannelError::Foreign("it has another secret"))?
            .len();
        frame.truncate(length);
        self.unproven = None;
        self.most = FRAME_MAX + TAG;
        Ok(())
    }
}

/// Whether the other end begins without TLS. Waits until that is known.
fn begins_with_magic(stream: &TcpStream) -> io::Result<bool> {
    let mut begin = [0; MAGIC.len()];
    loop {
        let count = stream.peek(&mut begin)?;
        let is_magic = begin.get(..count) == MAGIC.get(..count);
        if !is_magic || count == 0 || count == begin.len() {
            return Ok(is_magic && count > 0);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Shuts a connection down after a time limit, unless it is dropped before.
struct Deadline {
    _held: Held<()>,
}

impl Deadline {
    fn start(time: Duration, stream: &TcpStream) -> io::Result<Self> {
        let stream = stream.try_clone()?;
        let (held, dropped) = channel::<()>();
        std::thread::Builder::new().spawn(move || {
            if dropped.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        })?;
        Ok(Self { _held: held })
    }
}

/// If the connection were closed with unread data, it would be lost before the other end has read
/// the reason.
fn hear_out(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(CONNECT));
    let mut rest = [0; 4096];
    for _ in 0..16 {
        if !matches!(stream.read(&mut rest), Ok(1..)) {
            return;
        }
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair(ours: &Secret, theirs: &Secret) -> (Channel, Channel) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| Channel::accept(listener.accept().unwrap().0, theirs));
            let channel = Channel::connect(&address, ours).unwrap();
            (channel, other.join().unwrap().unwrap())
        })
    }

    #[test]
    fn frames_go_both_ways() {
        let secret = Secret::random();
        let (mut one, mut other) = pair(&secret, &Secret::from_hex(&secret.to_hex()).unwrap());
        let mut frame = Vec::new();
        for text in ["first", "", "third"] {
            one.send(text.as_bytes()).unwrap();
            other.receive(&mut frame).unwrap();
            assert_eq!(frame, text.as_bytes());
            other.send(text.as_bytes()).unwrap();
            one.receive(&mut frame).unwrap();
            assert_eq!(frame, text.as_bytes());
        }
    }

    #[test]
    fn a_stranger_has_to_prove_itself_in_time() {
        // A byte now and then: none of them late, and each of these takes longer than is allowed.
        let time = Duration::from_millis(600);
        for bytes in [
            b"REFLOAT1".to_vec(),
            [&b"REFLOAT1"[..], &[0; RANDOM]].concat(),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let socket = listener.accept().unwrap().0;
            let begun = std::time::Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let (first, later) = bytes.split_at(bytes.len() - 1);
                    let _ = stranger.write_all(first);
                    for byte in later.iter().chain(&[0; 40]) {
                        std::thread::sleep(Duration::from_millis(100));
                        if stranger.write_all(&[*byte]).is_err() {
                            return;
                        }
                    }
                });
                let accepted = Channel::accept_within(time, socket, &Secret::random());
                let error = accepted.and_then(|mut channel| channel.receive(&mut Vec::new()));
                assert!(error.is_err());
                assert!(begun.elapsed() < time * 4, "{:?}", begun.elapsed());
            });
        }
    }

    #[test]
    fn another_secret_or_a_stranger_is_noticed() {
        let (mut one, mut other) = pair(&Secret::random(), &Secret::random());
        one.send(b"frame").unwrap();
        let error = other.receive(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("another secret"), "{error}");

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stranger.write_all(&[b'x'; 100]).unwrap();
        let error = Channel::accept(listener.accept().unwrap().0, &Secret::random()).err();
        assert!(matches!(error, Some(ChannelError::Foreign(_))));
    }
}
