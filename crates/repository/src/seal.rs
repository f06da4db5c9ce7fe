//! Encryption of blocks.
//!
//! AES-256-GCM with a key for each pack, derived from the repository's key and the pack's id by
//! BLAKE3. The nonce is the offset of the block in its pack, which is used once: packs are written
//! from front to back and never changed. A block is thereby bound to its pack, offset and length: a
//! block that was moved does not open.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes that encryption adds to a block.
pub const TAG: usize = 16;

/// The secret key of a repository.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// A key of these bytes, which must be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Makes a random key.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        #[expect(
            clippy::expect_used,
            reason = "a system without randomness runs nothing else either"
        )]
        aws_lc_rs::rand::fill(&mut bytes).expect("the system has randomness");
        Self(bytes)
    }

    /// The key that a file holds, or a wrapped key: 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let hash = blake3::Hash::from_hex(text.trim()).ok()?;
        Some(Self(*hash.as_bytes()))
    }

    /// The key as 64 hexadecimal digits, which [`Key::from_hex`] reads.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// The key for naming blocks: hashes under it reveal nothing about their content.
    pub(crate) fn naming(&self) -> [u8; 32] {
        blake3::derive_key("refloat repository 2026: names of blocks", &self.0)
    }

    /// A value that shows whether a key is the right one, without revealing it.
    pub(crate) fn check(&self) -> String {
        let check = blake3::derive_key("refloat repository 2026: check of the key", &self.0);
        blake3::Hash::from_bytes(check).to_hex()[..32].to_owned()
    }

    /// The seal of one pack.
    pub(crate) fn seal(&self, pack: &str) -> Seal {
        let mut material = self.0.to_vec();
        material.extend_from_slice(pack.as_bytes());
        let key = blake3::derive_key("refloat repository 2026: key of a pack", &material);
        #[expect(clippy::expect_used, reason = "the key has the length of the cipher's")]
        let key = UnboundKey::new(&AES_256_GCM, &key).expect("a key of 32 bytes");
        Seal(LessSafeKey::new(key))
    }
}

/// Encrypts and decrypts the blocks of one pack.
pub struct Seal(LessSafeKey);

fn nonce(at: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&at.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Seal {
    /// Encrypts the block at this offset of the pack. Must be called only once for each offset.
    ///
    /// Fails for more bytes than the cipher can handle, which no block has.
    pub fn close(&self, at: u64, bytes: &mut Vec<u8>) -> Result<(), aws_lc_rs::error::Unspecified> {
        self.0
            .seal_in_place_append_tag(nonce(at), Aad::empty(), bytes)
    }

    /// Decrypts a block. Fails if the bytes are not what was encrypted for this offset.
    pub fn open(&self, at: u64, bytes: &mut Vec<u8>) -> Result<(), aws_lc_rs::error::Unspecified> {
        let length = self.0.open_in_place(nonce(at), Aad::empty(), bytes)?.len();
        bytes.truncate(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn a_block_opens_only_where_it_was_written() {
        let key = Key::new([7; 32]);
        let mut bytes = b"some text".to_vec();
        key.seal("one").close(16, &mut bytes).unwrap();
        assert_ne!(&bytes[..9], b"some text");
        let opens = |seal: super::Seal, at, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            seal.open(at, &mut bytes).map(|()| bytes).ok()
        };
        assert_eq!(opens(key.seal("one"), 16, &bytes).unwrap(), b"some text");
        assert_eq!(opens(key.seal("two"), 16, &bytes), None);
        assert_eq!(opens(key.seal("one"), 17, &bytes), None);
        assert_eq!(opens(Key::new([8; 32]).seal("one"), 16, &bytes), None);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(opens(key.seal("one"), 16, &bytes), None);
    }
}
