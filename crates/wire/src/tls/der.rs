//! Parses the few X.509 fields needed where webpki gives up: version 1, and names outside
//! subjectAltName. The format is that of RFC 5280, section 4.1.

/// SEQUENCE and SET, universal and constructed.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]` version, `[3]` extensions.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// 2.5.4.3 commonName and 2.5.29.17 subjectAltName.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// A certificate, parsed but not verified.
#[derive(Debug)]
pub(super) struct Certificate<'a> {
    /// The signed part, tag and length included.
    pub(super) signed: &'a [u8],
    /// The content of the signature's algorithm identifier.
    pub(super) signature_algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
    /// Content of the issuer's name.
    pub(super) issuer: &'a [u8],
    /// Seconds since 1970.
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    pub(super) common_name: Option<&'a str>,
    pub(super) key: PublicKey<'a>,
    /// Version 1 has no extensions, and webpki rejects it.
    pub(super) is_v1: bool,
    pub(super) has_alt_names: bool,
}

/// A subject's public key.
#[derive(Debug, Clone, Copy)]
pub(super) struct PublicKey<'a> {
    /// Content of the algorithm identifier.
    pub(super) algorithm: &'a [u8],
    pub(super) bits: &'a [u8],
}

impl<'a> PublicKey<'a> {
    /// Parses a `SubjectPublicKeyInfo`.
    pub(super) fn of(der: &'a [u8]) -> Option<Self> {
        Self::parse(Der(der).expect(SEQUENCE)?)
    }

    /// Parses the content of a `SubjectPublicKeyInfo`.
    pub(super) fn parse(content: &'a [u8]) -> Option<Self> {
        let mut d = Der(content);
        let algorithm = d.expect(SEQUENCE)?;
        let bits = bit_string(d.expect(BIT_STRING)?)?;
        Some(Self { algorithm, bits })
    }
}

impl<'a> Certificate<'a> {
    pub(super) fn parse(der: &'a [u8]) -> Option<Self> {
        let mut outer = Der(Der(der).expect(SEQUENCE)?);
        let before = outer.0;
        let mut fields = Der(outer.expect(SEQUENCE)?);
        let signed = &before[..before.len() - outer.0.len()];
        let signature_algorithm = outer.expect(SEQUENCE)?;
        let signature = bit_string(outer.expect(BIT_STRING)?)?;

        let is_v1 = fields.optional(VERSION).is_none();
        fields.next()?; // serial number
        fields.expect(SEQUENCE)?; // the algorithm, repeated
        let issuer = fields.expect(SEQUENCE)?;
        let mut validity = Der(fields.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let common_name = common_name(fields.expect(SEQUENCE)?);
        let key = PublicKey::parse(fields.expect(SEQUENCE)?)?;
        let mut has_alt_names = false;
        while let Some((tag, content)) = fields.next() {
            if tag == EXTENSIONS {
                let mut list = Der(Der(content).expect(SEQUENCE)?);
                while let Some(extension) = list.optional(SEQUENCE) {
                    has_alt_names |= Der(extension).expect(OBJECT_ID)? == SUBJECT_ALT_NAME;
                }
            }
        }
        Some(Self {
            signed,
            signature_algorithm,
            signature,
            issuer,
            not_before,
            not_after,
            common_name,
            key,
            is_v1,
            has_alt_names,
        })
    }
}

/// The last commonName in a name.
fn common_name(name: &[u8]) -> Option<&str> {
    let mut names = Der(name);
    let mut found = None;
    while let Some(set) = names.optional(SET) {
        let mut pair = Der(Der(set).expect(SEQUENCE)?);
        if pair.expect(OBJECT_ID)? == COMMON_NAME {
            found = std::str::from_utf8(pair.next()?.1).ok();
        }
    }
    found
}

/// Bit strings of keys and signatures consist of whole bytes.
fn bit_string(content: &[u8]) -> Option<&[u8]> {
    match content {
        [0, bits @ ..] => Some(bits),
        _ => None,
    }
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` as seconds since 1970.
fn time((tag, text): (u8, &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.is_ascii() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year: i64 = text[..2].parse().ok()?;
            (
                if year < 50 { 2000 + year } else { 1900 + year },
                &text[2..],
            )
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let part = |i: usize| rest[2 * i..2 * i + 2].parse::<i64>().ok();
    let (month, day, hour, minute, second) = (part(0)?, part(1)?, part(2)?, part(3)?, part(4)?);
    // Days from a civil date: years start in March, which makes the leap day the last of the year.
    let shifted = year - i64::from(month <= 2);
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// A cursor over DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next tag and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .and_then(|(found, content)| (found == tag).then_some(content))
    }

    /// The next content if it has this tag; otherwise consumes nothing.
    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) {
            self.expect(tag)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_of_both_forms() {
        assert_eq!(time((UTC_TIME, b"700101000000Z")), Some(0));
        assert_eq!(time((UTC_TIME, b"491231235959Z")), Some(2_524_607_999));
        assert_eq!(
            time((GENERALIZED_TIME, b"20240229120000Z")),
            Some(1_709_208_000)
        );
        assert_eq!(
            time((GENERALIZED_TIME, b"99991231235959Z")),
            Some(253_402_300_799)
        );
        assert_eq!(time((UTC_TIME, b"20240229120000Z")), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Certificate::parse(&bytes);
            let mut wrapped = vec![SEQUENCE, 0x82, (bytes.len() >> 8) as u8, bytes.len() as u8];
            wrapped.extend_from_slice(&bytes);
            let _ = Certificate::parse(&wrapped);
        }
    }
}
