//! Detects the compression and decodes stream after stream to a proven end.
//!
//! Compressed files often consist of several concatenated streams (pigz and bgzip, pzstd, pixz,
//! pbzip2, or plain `cat a.gz b.gz`). Each stream is decoded to its own trailer and checksum; after
//! it comes either another stream of the same kind or the end of the source.
//!
//! Some damage cannot be detected: a flipped bit in a zstd frame *without* a checksum (the `zstd`
//! program writes one by default, some libraries do not), in an xz stream made with `--check=none`,
//! or in header fields that carry no data (the file name and time in gzip).

use std::fmt;
use std::io::{self, BufRead, Read};

use crate::raw::RawReader;

/// Compression of a source, from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression, or one that is not supported.
    None,
    /// gzip, one member or several (RFC 1952).
    Gzip,
    /// Zstandard frames and skippable frames (RFC 8878).
    Zstd,
    /// xz streams.
    Xz,
    /// bzip2 streams.
    Bzip2,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        })
    }
}

/// First bytes of an xz stream.
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";

impl Compression {
    /// The compression that these first bytes indicate.
    pub fn detect(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', ..] => Self::Bzip2,
            _ if head.starts_with(XZ_MAGIC) => Self::Xz,
            _ => Self::None,
        }
    }

    /// The compression that a file name implies, by its last extension.
    pub fn from_name(name: &str) -> Self {
        let extension = name.rsplit_once('.').map_or("", |(_, e)| e);
        match extension.to_ascii_lowercase().as_str() {
            "gz" | "gzip" | "tgz" => Self::Gzip,
            "zst" | "zstd" | "tzst" => Self::Zstd,
            "xz" | "txz" => Self::Xz,
            "bz2" | "bzip2" | "tbz2" => Self::Bzip2,
            _ => Self::None,
        }
    }
}

/// Why a decoder stopped; the caller adds the name of the source.
#[derive(Debug)]
pub enum DecodeFailure {
    Truncated,
    Corrupt(String),
    Garbage,
    Memory,
    Read(io::Error),
}

/// A decoder over the raw source. `stream` is `None` only while one stream replaces another.
pub struct Decoder {
    stream: Option<Stream>,
    memory_limit: u64,
}

enum Stream {
    Plain(RawReader),
    Gzip(Box<flate2::bufread::GzDecoder<RawReader>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, RawReader>>),
    Xz(Box<liblzma::bufread::XzDecoder<RawReader>>),
    Bzip2(Box<bzip2::bufread::BzDecoder<RawReader>>),
}

impl Decoder {
    /// `memory_limit` bounds the window or dictionary that a stream may request, in bytes.
    pub fn new(
        raw: RawReader,
        compression: Compression,
        memory_limit: u64,
    ) -> Result<Self, DecodeFailure> {
        let stream = Stream::new(raw, compression, memory_limit)?;
        Ok(Self {
            stream: Some(stream),
            memory_limit,
        })
    }

    /// Raw bytes consumed so far.
    pub fn consumed(&self) -> u64 {
        self.stream.as_ref().map_or(0, |s| s.raw().consumed())
    }

    /// Fills part of `out`. Returns 0 only when the last stream ended with its trailer and nothing
    /// follows.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, DecodeFailure> {
        loop {
            let Some(stream) = self.stream.as_mut() else {
                return Err(DecodeFailure::Corrupt("the decoder is closed".into()));
            };
            match stream.read(out) {
                Ok(0) => {}
                Ok(n) => return Ok(n),
                Err(e) => return Err(stream.sort(e)),
            }
            if !self.next_stream()? {
                return Ok(0);
            }
        }
    }

    /// At the end of a stream: starts the next one, or returns `false` if there is none.
    fn next_stream(&mut self) -> Result<bool, DecodeFailure> {
        // zstd's own loop goes from frame to frame; a plain file has no second stream.
        let Some(stream) = self.stream.as_mut() else {
            return Ok(false);
        };
        let compression = match stream {
            Stream::Plain(_) | Stream::Zstd(_) => return Ok(false),
            Stream::Gzip(_) => Compression::Gzip,
            Stream::Xz(_) => Compression::Xz,
            Stream::Bzip2(_) => Compression::Bzip2,
        };
        let raw = stream.raw_mut();
        if compression == Compression::Xz {
            skip_xz_padding(raw)?;
        }
        let head = raw.peek(XZ_MAGIC.len()).map_err(DecodeFailure::Read)?;
        if head.is_empty() {
            return Ok(false);
        }
        if Compression::detect(head) != compression {
            // A second stream cut inside its magic is truncation, not garbage.
            let magic: &[u8] = match compression {
                Compression::Xz => XZ_MAGIC,
                Compression::Bzip2 => b"BZh",
                _ => b"\x1f\x8b",
            };
            return Err(if head.len() < magic.len() && magic.starts_with(head) {
                DecodeFailure::Truncated
            } else {
                DecodeFailure::Garbage
            });
        }
        if let Some(old) = self.stream.take() {
            self.stream = Some(Stream::new(old.into_raw(), compression, self.memory_limit)?);
        }
        Ok(true)
    }
}

/// Zero bytes in multiples of four may separate xz streams (xz file format 1.2.1, section 2.2).
fn skip_xz_padding(raw: &mut RawReader) -> Result<(), DecodeFailure> {
    loop {
        let word = raw.peek(4).map_err(DecodeFailure::Read)?;
        if word.len() < 4 || word[..4] != [0; 4] {
            return Ok(());
        }
        raw.consume(4);
    }
}

impl Stream {
    fn new(
        raw: RawReader,
        compression: Compression,
        memory_limit: u64,
    ) -> Result<Self, DecodeFailure> {
        Ok(match compression {
            Compression::None => Self::Plain(raw),
            Compression::Gzip => Self::Gzip(Box::new(flate2::bufread::GzDecoder::new(raw))),
            Compression::Zstd => {
                let mut decoder =
                    zstd::stream::read::Decoder::with_buffer(raw).map_err(DecodeFailure::Read)?;
                decoder
                    .window_log_max(memory_limit.max(1 << 10).ilog2())
                    .map_err(DecodeFailure::Read)?;
                Self::Zstd(Box::new(decoder))
            }
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(memory_limit, 0)
                    .map_err(|e| DecodeFailure::Corrupt(e.to_string()))?;
                Self::Xz(Box::new(liblzma::bufread::XzDecoder::new_stream(
                    raw, stream,
                )))
            }
            Compression::Bzip2 => Self::Bzip2(Box::new(bzip2::bufread::BzDecoder::new(raw))),
        })
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(raw) => raw.read_direct(out),
            Self::Gzip(d) => d.read(out),
            Self::Zstd(d) => d.read(out),
            Self::Xz(d) => d.read(out),
            Self::Bzip2(d) => d.read(out),
        }
    }

    fn raw(&self) -> &RawReader {
        match self {
            Self::Plain(raw) => raw,
            Self::Gzip(d) => d.get_ref(),
            Self::Zstd(d) => d.get_ref(),
            Self::Xz(d) => d.get_ref(),
            Self::Bzip2(d) => d.get_ref(),
        }
    }

    fn raw_mut(&mut self) -> &mut RawReader {
        match self {
            Self::Plain(raw) => raw,
            Self::Gzip(d) => d.get_mut(),
            Self::Zstd(d) => d.get_mut(),
            Self::Xz(d) => d.get_mut(),
            Self::Bzip2(d) => d.get_mut(),
        }
    }

    fn into_raw(self) -> RawReader {
        match self {
            Self::Plain(raw) => raw,
            Self::Gzip(d) => d.into_inner(),
            Self::Zstd(d) => d.finish(),
            Self::Xz(d) => d.into_inner(),
            Self::Bzip2(d) => d.into_inner(),
        }
    }

    /// Distinguishes truncation, corruption and read errors.
    fn sort(&mut self, error: io::Error) -> DecodeFailure {
        if matches!(self, Self::Plain(_)) {
            return DecodeFailure::Read(error);
        }
        let zstd = matches!(self, Self::Zstd(_));
        let raw = self.raw_mut();
        if let Some(failure) = raw.failure.take() {
            return DecodeFailure::Read(failure);
        }
        let text = error.to_string();
        if zstd && text.contains("Unknown frame descriptor") {
            return DecodeFailure::Garbage;
        }
        // libzstd: "Frame requires too much memory for decoding"; liblzma: memory usage limit.
        if (zstd && text.contains("too much memory"))
            || text.contains("memory limit")
            || text.contains("memory usage")
        {
            return DecodeFailure::Memory;
        }
        // A decoder that wants more input than there is has a truncated stream; any other complaint
        // is corruption.
        let at_end = raw.peek(1).is_ok_and(<[u8]>::is_empty);
        if error.kind() == io::ErrorKind::UnexpectedEof && at_end {
            return DecodeFailure::Truncated;
        }
        DecodeFailure::Corrupt(text)
    }
}
