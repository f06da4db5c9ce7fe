//! The messages between the two ends.

use refloat_repository::BLOCK;

/// Bytes of a block's hash that tell whether the receiver has it.
pub const SHORT: usize = 16;

const BLOCK_SENT: u8 = 1;
const SAME: u8 = 2;
const ALIVE: u8 = 3;
const END: u8 = 4;
const FINISH: u8 = 5;
const FAILED: u8 = 6;
const KNOWN: u8 = 7;
const ALL_KNOWN: u8 = 8;
const HAS: u8 = 9;
const HELLO: u8 = 10;
const LIST: u8 = 11;

/// Where a block belongs, and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub file: u32,
    pub begins: u64,
    pub length: u32,
    pub hash: [u8; 32],
}

/// What the two ends send each other.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'f> {
    /// Sender, first on each connection: its number among how many, and whether the receiver should
    /// report the blocks that it has.
    Hello {
        stream: u16,
        streams: u16,
        asks: bool,
    },
    /// Sender: a block, compressed.
    Block { place: Place, bytes: &'f [u8] },
    /// Sender: the receiver has this block in an older file, or anywhere if the path is empty.
    Same { place: Place, path: &'f str },
    /// Either: a heartbeat.
    Alive,
    /// Sender: there are no more blocks on this connection.
    End,
    /// Sender, at the end: a piece of the list of files and the description of the copy, as JSON.
    List(&'f [u8]),
    /// Sender: the list, and the transfer, are complete.
    Finish,
    /// Either: it has failed.
    Failed(&'f str),
    /// Receiver: hashes of the blocks of an older file, [`SHORT`] bytes each, from this block on.
    /// Without a path: of blocks that can be used anywhere.
    Known {
        path: &'f str,
        first: u32,
        hashes: &'f [u8],
    },
    /// Receiver: that was all.
    AllKnown,
    /// Receiver: how many frames of this connection's number it has handled, hellos not counted.
    Has(u64),
}

impl Frame<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        let place_of = |out: &mut Vec<u8>, place: &Place| {
            out.extend_from_slice(&place.file.to_le_bytes());
            out.extend_from_slice(&place.begins.to_le_bytes());
            out.extend_from_slice(&place.length.to_le_bytes());
            out.extend_from_slice(&place.hash);
        };
        match self {
            Self::Hello {
                stream,
                streams,
                asks,
            } => {
                out.push(HELLO);
                out.extend_from_slice(&stream.to_le_bytes());
                out.extend_from_slice(&streams.to_le_bytes());
                out.push(u8::from(*asks));
            }
            Self::Block { place, bytes } => {
                out.push(BLOCK_SENT);
                place_of(out, place);
                out.extend_from_slice(bytes);
            }
            Self::Same { place, path } => {
                out.push(SAME);
                place_of(out, place);
                out.extend_from_slice(path.as_bytes());
            }
            Self::Alive => out.push(ALIVE),
            Self::End => out.push(END),
            Self::List(json) => {
                out.push(LIST);
                out.extend_from_slice(json);
            }
            Self::Finish => out.push(FINISH),
            Self::Failed(reason) => {
                out.push(FAILED);
                out.extend_from_slice(reason.as_bytes());
            }
            Self::Known {
                path,
                first,
                hashes,
            } => {
                out.push(KNOWN);
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&(path.len() as u32).to_le_bytes());
                out.extend_from_slice(path.as_bytes());
                out.extend_from_slice(hashes);
            }
            Self::AllKnown => out.push(ALL_KNOWN),
            Self::Has(count) => {
                out.push(HAS);
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
    }
}

impl<'f> Frame<'f> {
    /// Parses a frame. `None`: it is not one, or one of a later version.
    pub fn read(bytes: &'f [u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        let place = |rest: &mut &'f [u8]| {
            let place = Place {
                file: u32::from_le_bytes(take(rest)?),
                begins: u64::from_le_bytes(take(rest)?),
                length: u32::from_le_bytes(take(rest)?),
                hash: take(rest)?,
            };
            let is_possible = place.length as usize <= BLOCK
                && i64::try_from(place.begins).is_ok_and(|begins| begins < i64::MAX / 2);
            is_possible.then_some(place)
        };
        let text = |bytes: &'f [u8]| std::str::from_utf8(bytes).ok();
        Some(match *kind {
            HELLO => {
                let (stream, streams) = (
                    u16::from_le_bytes(take(rest)?),
                    u16::from_le_bytes(take(rest)?),
                );
                let [asks] = take(rest)?;
                Self::Hello {
                    stream,
                    streams,
                    asks: asks != 0,
                }
            }
            BLOCK_SENT => Self::Block {
                place: place(rest)?,
                bytes: rest,
            },
            SAME => Self::Same {
                place: place(rest)?,
                path: text(rest)?,
            },
            ALIVE => Self::Alive,
            END => Self::End,
            LIST => Self::List(rest),
            FINISH => Self::Finish,
            FAILED => Self::Failed(text(rest)?),
            KNOWN => {
                let first = u32::from_le_bytes(take(rest)?);
                let length = u32::from_le_bytes(take(rest)?) as usize;
                let (path, hashes) = rest.split_at_checked(length)?;
                Self::Known {
                    path: text(path)?,
                    first,
                    hashes: (hashes.len() % SHORT == 0).then_some(hashes)?,
                }
            }
            ALL_KNOWN => Self::AllKnown,
            HAS => Self::Has(u64::from_le_bytes(take(rest)?)),
            _ => return None,
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (now, later) = rest.split_first_chunk::<N>()?;
    *rest = later;
    Some(*now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let place = Place {
            file: 7,
            begins: 3 << 20,
            length: 1 << 20,
            hash: [9; 32],
        };
        let mut bytes = Vec::new();
        for frame in [
            Frame::Hello {
                stream: 1,
                streams: 4,
                asks: true,
            },
            Frame::Block {
                place,
                bytes: b"zstd",
            },
            Frame::Same {
                place,
                path: "db/t.ibd",
            },
            Frame::Alive,
            Frame::End,
            Frame::List(b"{}"),
            Frame::Finish,
            Frame::Failed("disk is full"),
            Frame::Known {
                path: "ibdata1",
                first: 5,
                hashes: &[1; 32],
            },
            Frame::AllKnown,
            Frame::Has(u64::MAX),
        ] {
            frame.write(&mut bytes);
            assert_eq!(Frame::read(&bytes).as_ref(), Some(&frame));
            for end in 0..bytes.len() {
                // A truncated frame may parse as another one, but never panics.
                let _ = Frame::read(&bytes[..end]);
            }
        }
        assert_eq!(Frame::read(&[]), None);
        assert_eq!(Frame::read(&[99]), None);
    }
}
