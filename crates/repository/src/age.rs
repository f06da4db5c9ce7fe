//! Keys wrapped for age recipients, in the format of age (`age-encryption.org/v1`).
//!
//! Implements only what a key needs: one X25519 recipient, and one chunk. So this program and `age
//! -d` open what the other has written. The crate `age` would add a hundred crates, half of them
//! for translations of its messages; the ciphers are in `aws-lc-rs`, which is there anyway.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{self, HKDF_SHA256, Salt};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bech32::{Bech32, Hrp};

const RECIPIENT: &str = "age";
const IDENTITY: &str = "AGE-SECRET-KEY-";
const VERSION: &str = "age-encryption.org/v1";
/// The beginning of a recipient's stanza, and the purpose for which its key is derived.
const STANZA: &str = "-> X25519 ";
const STANZA_INFO: &[u8] = b"age-encryption.org/v1/X25519";
const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";
const COLUMNS: usize = 64;
/// Bytes of the key of one file.
const FILE_KEY: usize = 16;
/// Bytes that the cipher adds.
const TAG: usize = 16;
/// Nonce of the first chunk, which is also the last: an eleven-byte counter, and a byte that marks
/// the last chunk.
const ONLY_CHUNK: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// The public half of an identity, `age1…`, for which keys are wrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient([u8; 32]);

impl FromStr for Recipient {
    type Err = String;

    /// # Errors
    /// What is wrong, as words that follow the text.
    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.starts_with("age1") && text.bytes().filter(|c| *c == b'1').count() == 1;
        if plain && let Some(bytes) = decode(RECIPIENT, text) {
            return Ok(Self(bytes));
        }
        Err(match text {
            text if text.starts_with(IDENTITY) => {
                "is an identity, which must stay secret: give its recipient, `age1…`"
            }
            _ => "is no recipient that is known here: `age1…`, as `age-keygen` prints it",
        }
        .to_owned())
    }
}

impl Display for Recipient {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // It fails for longer texts only.
        let text = bech32::encode::<Bech32>(Hrp::parse_unchecked(RECIPIENT), &self.0);
        f.write_str(&text.map_err(|_| fmt::Error)?)
    }
}

/// The private half, which opens keys that are wrapped for its recipient.
#[derive(Clone)]
pub struct Identity {
    secret: Arc<PrivateKey>,
    recipient: Recipient,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.recipient)
    }
}

impl Identity {
    /// The identities of a file as `age-keygen` writes it: one a line, and comments.
    ///
    /// # Errors
    /// What is wrong, as words that follow the name of the file.
    pub fn parse_file(text: &str) -> Result<Vec<Self>, String> {
        if text.starts_with(VERSION) || text.starts_with(BEGIN) {
            return Err(
                "is protected by a passphrase: give what `age -d` makes of it, such as `--identity <(age -d FILE)`"
                    .to_owned(),
            );
        }
        let mut found = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let identity = Self::parse(line).ok_or_else(|| {
                format!("holds no identity that is known here in line {number}: {IDENTITY}1…")
            })?;
            found.push(identity);
        }
        if found.is_empty() {
            return Err(format!("holds no identity: {IDENTITY}1…"));
        }
        Ok(found)
    }

    fn parse(text: &str) -> Option<Self> {
        let secret = PrivateKey::from_private_key(&X25519, &decode(IDENTITY, text)?).ok()?;
        let public = secret.compute_public_key().ok()?;
        let recipient = Recipient(public.as_ref().try_into().ok()?);
        Some(Self {
            secret: Arc::new(secret),
            recipient,
        })
    }

    /// The public half, for others to wrap keys for this identity.
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }
}

fn decode(prefix: &str, text: &str) -> Option<[u8; 32]> {
    let (found, bytes) = bech32::decode(text).ok()?;
    // Either case is valid, and a mix of both is refused.
    let is = found.to_string().eq_ignore_ascii_case(prefix);
    bytes.try_into().ok().filter(|_| is)
}

/// Wraps a secret for a recipient, as a text that its identity opens, also with `age -d`.
///
/// # Errors
/// The recipient is not a point with which a secret can be agreed.
pub fn wrap(recipient: &Recipient, secret: &[u8]) -> Result<String, Unspecified> {
    let mut file_key = [0; FILE_KEY];
    let mut nonce = [0; 16];
    aws_lc_rs::rand::fill(&mut file_key)?;
    aws_lc_rs::rand::fill(&mut nonce)?;

    let ours = PrivateKey::generate(&X25519)?;
    let share = ours.compute_public_key()?;
    let mut body = file_key.to_vec();
    wrapping(&ours, &recipient.0, share.as_ref(), &recipient.0)?.seal_in_place_append_tag(
        Nonce::assume_unique_for_key([0; 12]),
        Aad::empty(),
        &mut body,
    )?;
    let share = STANDARD_NO_PAD.encode(share.as_ref());
    let body = STANDARD_NO_PAD.encode(body);
    let header = format!("{VERSION}\n{STANZA}{share}\n{body}\n---");
    let mac = STANDARD_NO_PAD.encode(hmac::sign(&mac_key(&file_key)?, header.as_bytes()));

    let mut payload = secret.to_vec();
    payload_key(&file_key, &nonce)?.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(ONLY_CHUNK),
        Aad::empty(),
        &mut payload,
    )?;
    let file = [
        header.as_bytes(),
        b" ",
        mac.as_bytes(),
        b"\n",
        &nonce,
        &payload,
    ]
    .concat();
    let mut text = format!("{BEGIN}\n");
    for line in STANDARD.encode(file).as_bytes().chunks(COLUMNS) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(END);
    text.push('\n');
    Ok(text)
}

/// Opens what was wrapped for this identity. `None`: it was wrapped for another one, or is damaged.
pub fn unwrap(identity: &Identity, text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
    let base64: String = inner.split_ascii_whitespace().collect();
    let file = STANDARD.decode(base64).ok()?;
    let dashes = b"\n--- ";
    let at = file.windows(dashes.len()).position(|part| part == dashes)?;
    let (header, rest) = file.split_at(at + dashes.len() - 1);
    let lines = std::str::from_utf8(header).ok()?;
    let mut lines = lines.strip_prefix(VERSION)?.lines();
    let file_key = loop {
        let Some(share) = lines.next()?.strip_prefix(STANZA) else {
            continue;
        };
        let body = STANDARD_NO_PAD.decode(lines.next()?).ok()?;
        if let Some(key) = file_key(identity, share, body) {
            break key;
        }
    };
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let mac = STANDARD_NO_PAD.decode(rest.get(1..end)?).ok()?;
    hmac::verify(&mac_key(&file_key).ok()?, header, &mac).ok()?;
    let (nonce, payload) = rest.get(end + 1..)?.split_at_checked(16)?;
    let mut payload = payload.to_vec();
    let nonce = nonce.try_into().ok()?;
    let plain = payload_key(&file_key, &nonce).ok()?.open_in_place(
        Nonce::assume_unique_for_key(ONLY_CHUNK),
        Aad::empty(),
        &mut payload,
    );
    Some(plain.ok()?.to_vec())
}

/// The key of a file, from the stanza of a recipient; `None`: the stanza is for another recipient.
fn file_key(identity: &Identity, share: &str, mut body: Vec<u8>) -> Option<[u8; FILE_KEY]> {
    let share: [u8; 32] = STANDARD_NO_PAD.decode(share).ok()?.try_into().ok()?;
    if body.len() != FILE_KEY + TAG {
        return None;
    }
    let key = wrapping(&identity.secret, &share, &share, &identity.recipient.0).ok()?;
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    let key = key.open_in_place(nonce, Aad::empty(), &mut body).ok()?;
    (&*key).try_into().ok()
}

/// The key by which the key of a file is wrapped. `theirs` is the public key with which a secret is
/// agreed.
fn wrapping(
    ours: &PrivateKey,
    theirs: &[u8; 32],
    share: &[u8],
    recipient: &[u8; 32],
) -> Result<LessSafeKey, Unspecified> {
    let salt = [share, recipient].concat();
    let theirs = UnparsedPublicKey::new(&X25519, theirs);
    agree(ours, theirs, Unspecified, |secret| {
        cipher(&salt, secret, STANZA_INFO)
    })
}

fn payload_key(file_key: &[u8; FILE_KEY], nonce: &[u8; 16]) -> Result<LessSafeKey, Unspecified> {
    cipher(nonce, file_key, b"payload")
}

fn mac_key(file_key: &[u8; FILE_KEY]) -> Result<hmac::Key, Unspecified> {
    let key = derived(b"", file_key, b"header")?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &key))
}

fn cipher(salt: &[u8], secret: &[u8], info: &[u8]) -> Result<LessSafeKey, Unspecified> {
    let key = derived(salt, secret, info)?;
    Ok(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key)?))
}

fn derived(salt: &[u8], secret: &[u8], info: &[u8]) -> Result<[u8; 32], Unspecified> {
    struct Length;
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            32
        }
    }
    let mut key = [0; 32];
    Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[info], Length)?
        .fill(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::{Identity, Recipient, unwrap, wrap};

    /// Made by another implementation of the format, for this test.
    const IDENTITY: &str =
        "AGE-SECRET-KEY-1QK788SD46RGS9TNFYCQ9SUPDN95WM39PFEGZTAT6E9PZ9NYRWN7Q59RK7P";
    const RECIPIENT: &str = "age1g65rs5edwddd5ynccdweqhrm2tqcwf0u7zmlezf6dz0wvm7wfeesvcp87k";
    const OTHER: &str =
        "AGE-SECRET-KEY-150K0R3HU40X0H3NLFD6AE996RW0LTCYMGSPWK74UJVMFW8Y7P8ESPU4EZW";
    const SECRET: &str = "0707070707070707070707070707070707070707070707070707070707070707\n";
    const WRAPPED: &str = "-----BEGIN AGE ENCRYPTED FILE-----\n\
        YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBBcDNMeWNsaUdpTTlTM1du\n\
        ZEpEbFNMWUNXVFRieWZLL21kK2NzSHhTblE4CmxsMlZ3RHZVdU9sV0FjZzBXdHY4\n\
        ZUdiWDljSFR0WDA4eHVmZm1wWnNuSjAKLT4gOX4tZ3JlYXNlCjR4ZzNzM0FKNHBo\n\
        SmhhZ295cHpVQXlnRVRyYlMyUU50SkhjY0cvSmlHZytiTkxXdVd1RnE3NVRpZ0xq\n\
        S3FLUzUKKytaNUhoclVvZTB1SExySEhXYwotLS0gdU5TdkZlWXlJOSthdWVMZXVP\n\
        SjlpaFNxa3I2YmVhS2Z4SjQvMU42SUtzdwpaZDDkx96Ba1rGBf6XE5FMiLFaxlBz\n\
        wjEiEfXemue4H52dSkpbZt06tZCjOzvsVClDX8yyC/xXalSsdKn13OgWqJ/+y+OE\n\
        C3bh6ydy8X3sesMqI50/4uWDl3S3vme5KFDg\n\
        -----END AGE ENCRYPTED FILE-----\n";

    #[test]
    fn what_is_wrapped_opens_for_its_recipient_alone() {
        let file = format!("# created: today\n# public key: {RECIPIENT}\n\n{IDENTITY}\n{OTHER}\n");
        let identities = Identity::parse_file(&file).unwrap();
        let [one, other] = &identities[..] else {
            panic!("{identities:?}");
        };
        assert_eq!(one.recipient().to_string(), RECIPIENT);
        let lower = Identity::parse_file(&IDENTITY.to_lowercase()).unwrap();
        assert_eq!(lower[0].recipient(), one.recipient());
        let recipient: Recipient = RECIPIENT.parse().unwrap();
        for text in [WRAPPED, &wrap(&recipient, SECRET.as_bytes()).unwrap()] {
            assert_eq!(unwrap(one, text).unwrap(), SECRET.as_bytes());
            assert_eq!(unwrap(other, text), None);
            // With any change, nothing can be decrypted.
            let at = text.find('\n').unwrap() + 1;
            for place in at..text.len() - 36 {
                let mut bytes = text.as_bytes().to_vec();
                if !bytes[place].is_ascii_alphanumeric() {
                    continue;
                }
                bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
                let changed = String::from_utf8(bytes).unwrap();
                assert_eq!(unwrap(one, &changed), None, "{place}: {changed}");
                assert_eq!(unwrap(one, &text[..place]), None);
            }
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let twisted = RECIPIENT.replace('g', "q");
        for text in ["", "age1", "ssh-ed25519 AAAA", "age1yubikey1qqq", &twisted] {
            let error = text.parse::<Recipient>().unwrap_err();
            assert!(error.contains("no recipient that is known"), "{error}");
        }
        assert!(
            IDENTITY
                .parse::<Recipient>()
                .unwrap_err()
                .contains("must stay secret")
        );
        let line = format!("{IDENTITY}\nAGE-PLUGIN-YUBIKEY-1QQQ");
        for (text, words) in [
            ("# nothing\n", "holds no identity"),
            (&line, "in line 2"),
            (RECIPIENT, "in line 1"),
            (WRAPPED, "a passphrase"),
        ] {
            let error = Identity::parse_file(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
