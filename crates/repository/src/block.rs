//! Blocks: how bytes of a file become bytes of a pack, and back.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::seal::{Key, Seal, TAG};

/// Largest block, in bytes of the file. Blocks begin at multiples of it: 64 pages of InnoDB's
/// default size, and at most a megabyte that is read for one page.
pub const BLOCK: usize = 1 << 20;
/// Most bytes that a block takes in a pack: zstd's bound for incompressible data, which is 1/256
/// more, and the tag of its encryption.
pub const STORED_MAX: usize = BLOCK + (BLOCK >> 8) + TAG;
/// Default level of compression: the fastest of zstd's standard levels.
pub const LEVEL: i32 = 1;
/// The level that does not compress: blocks stand in their frames as they are.
pub const UNCOMPRESSED: i32 = 0;

/// The hash of a block's content, by which it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash of these bytes, keyed if the repository is encrypted.
    pub(crate) fn of(bytes: &[u8], naming: Option<&[u8; 32]>) -> Self {
        let hash = match naming {
            Some(key) => blake3::keyed_hash(key, bytes),
            None => blake3::hash(bytes),
        };
        Self(*hash.as_bytes())
    }

    /// As 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let hash = blake3::Hash::from_hex(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Self(*hash.as_bytes()))
    }
}

/// Whether a block is all zeros: such a block is a hole and is not stored.
pub fn is_hole(bytes: &[u8]) -> bool {
    // The common case ends at the first bytes; the rest compares memory with itself, shifted.
    bytes.first() == Some(&0) && bytes[..bytes.len() - 1] == bytes[1..]
}

/// Compresses blocks, and reuses its compressor.
pub struct Encoder {
    /// `None`: nothing is compressed.
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

impl Encoder {
    /// Compresses at a level of zstd, or not at all at [`UNCOMPRESSED`].
    pub fn new(level: i32) -> std::io::Result<Self> {
        let compressor = (level != UNCOMPRESSED).then(|| zstd::bulk::Compressor::new(level));
        Ok(Self {
            compressor: compressor.transpose()?,
        })
    }

    /// Compresses a block into `out`.
    pub fn compress(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        out.clear();
        out.reserve(zstd::zstd_safe::compress_bound(bytes.len()) + TAG);
        if let Some(compressor) = &mut self.compressor {
            return compressor.compress_to_buffer(bytes, out).map(drop);
        }
        frame(bytes, out);
        Ok(())
    }
}

/// Appends a zstd frame that holds these bytes as they are, which zstd itself writes only when it
/// has failed to compress them. They are at most [`BLOCK`].
///
/// Source: RFC 8878, 3.1.1.
fn frame(bytes: &[u8], out: &mut Vec<u8>) {
    const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    /// The size of the content in four bytes, no window, no checksum, no dictionary.
    const DESCRIPTOR: u8 = 0b1010_0000;
    const RAW_MAX: usize = 128 << 10;
    out.extend(MAGIC);
    out.push(DESCRIPTOR);
    out.extend((bytes.len() as u32).to_le_bytes());
    let mut left = bytes;
    loop {
        let (raw, rest) = left.split_at(left.len().min(RAW_MAX));
        let header = (raw.len() as u32) << 3 | u32::from(rest.is_empty());
        out.extend_from_slice(&header.to_le_bytes()[..3]);
        out.extend_from_slice(raw);
        left = rest;
        if left.is_empty() {
            return;
        }
    }
}

/// Opens blocks, and reuses its decompressor.
pub struct Decoder {
    decompressor: zstd::bulk::Decompressor<'static>,
    naming: Option<[u8; 32]>,
}

impl Decoder {
    pub fn new(key: Option<&Key>) -> std::io::Result<Self> {
        Ok(Self {
            decompressor: zstd::bulk::Decompressor::new()?,
            naming: key.map(Key::naming),
        })
    }

    /// Decrypts, decompresses and checks a block of `length` bytes into `out`. `stored` was read
    /// from byte `at` of the pack that `seal` belongs to.
    ///
    /// # Errors
    /// What is wrong with it, as words.
    pub fn decode(
        &mut self,
        stored: &mut Vec<u8>,
        (seal, at): (Option<&Seal>, u64),
        (length, hash): (usize, Hash),
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if let Some(seal) = seal {
            seal.open(at, stored).map_err(
                |_| "it cannot be decrypted: it was changed, or the key is a different one",
            )?;
        }
        out.clear();
        out.reserve(length);
        self.decompressor
            .decompress_to_buffer(stored.as_slice(), out)
            .map_err(|error| format!("it cannot be decompressed: {error}"))?;
        if out.len() != length {
            return Err(format!("it has {} bytes instead of {length}", out.len()));
        }
        if Hash::of(out, self.naming.as_ref()) != hash {
            return Err("its hash is not that of what was written".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Decoder, Encoder, Hash, LEVEL, STORED_MAX, UNCOMPRESSED, is_hole};
    use crate::seal::{Key, TAG};

    #[test]
    fn blocks_come_back_and_damage_is_seen() {
        let keys = [None, Some(Key::new([3; 32]))];
        for (key, level) in keys
            .iter()
            .flat_map(|key| [(key, LEVEL), (key, UNCOMPRESSED)])
        {
            let seal = key.as_ref().map(|key| key.seal("pack"));
            let naming = key.as_ref().map(Key::naming);
            let bytes: Vec<u8> = (0..100_000_u32)
                .flat_map(|n| (n / 7).to_le_bytes())
                .collect();
            let hash = Hash::of(&bytes, naming.as_ref());
            let mut stored = Vec::new();
            Encoder::new(level)
                .unwrap()
                .compress(&bytes, &mut stored)
                .unwrap();
            if let Some(seal) = &seal {
                seal.close(9, &mut stored).unwrap();
            }
            let mut out = Vec::new();
            let mut decoder = Decoder::new(key.as_ref()).unwrap();
            let mut decode = |stored: &[u8], length, hash| {
                let place = (seal.as_ref(), 9);
                decoder.decode(&mut stored.to_vec(), place, (length, hash), &mut out)?;
                Ok::<_, String>(out.clone())
            };
            assert!(decode(&stored, bytes.len(), hash).unwrap() == bytes);
            decode(&stored, bytes.len() - 1, hash).unwrap_err();
            decode(&stored, bytes.len() + 1, hash).unwrap_err();
            decode(&stored, bytes.len(), Hash([0; 32])).unwrap_err();
            for at in (0..stored.len()).step_by(997) {
                let mut damaged = stored.clone();
                damaged[at] ^= 0x10;
                decode(&damaged, bytes.len(), hash).unwrap_err();
                decode(&stored[..at], bytes.len(), hash).unwrap_err();
            }
        }
    }

    #[test]
    fn no_block_takes_more_than_its_bound() {
        assert!(STORED_MAX >= zstd::zstd_safe::compress_bound(BLOCK) + TAG);
    }

    #[test]
    fn what_is_not_compressed_is_a_frame_of_zstd() {
        let bytes: Vec<u8> = (0..BLOCK as u32).map(|n| (n ^ n >> 8) as u8).collect();
        let mut stored = Vec::new();
        for length in [1, 2, 131_071, 131_072, 131_073, BLOCK - 1, BLOCK] {
            let mut encoder = Encoder::new(UNCOMPRESSED).unwrap();
            encoder.compress(&bytes[..length], &mut stored).unwrap();
            assert!(stored.len() > length && stored.len() + TAG <= STORED_MAX);
            assert!(zstd::stream::decode_all(&*stored).unwrap() == bytes[..length]);
        }
    }

    #[test]
    fn holes_are_zeros_only() {
        assert!(is_hole(&[0]) && is_hole(&[0; 4096]));
        assert!(!is_hole(&[]) && !is_hole(&[1; 4096]));
        let mut bytes = [0; 4096];
        bytes[4095] = 1;
        assert!(!is_hole(&bytes));
    }
}
