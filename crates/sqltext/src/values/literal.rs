//! String literals and their escapes.

use crate::mode::{CharsetFamily, LexMode};

/// A string literal as written in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrLit<'a> {
    /// The bytes between the quotes.
    pub raw: &'a [u8],
    /// The introducer as written (`_binary`, `_utf8mb4`, …), or `N` for a national string.
    pub introducer: Option<&'a [u8]>,
    /// At least one byte is escaped with a backslash (never under `NO_BACKSLASH_ESCAPES`).
    pub has_backslash: bool,
    /// At least one quote is doubled.
    pub has_doubled_quote: bool,
    /// The quote byte, `'` or `"`.
    pub quote: u8,
    pub(crate) family: CharsetFamily,
}

impl<'a> StrLit<'a> {
    /// A literal from the bytes between its quotes.
    pub fn new(raw: &'a [u8], quote: u8, mode: LexMode) -> Self {
        Self {
            raw,
            introducer: None,
            has_backslash: mode.escapes_in(quote) && memchr::memchr(b'\\', raw).is_some(),
            has_doubled_quote: memchr::memchr(quote, raw).is_some(),
            quote,
            family: mode.charset_family,
        }
    }

    /// A literal that needs no unescaping: its bytes are its value.
    pub fn verbatim(raw: &'a [u8]) -> Self {
        Self {
            raw,
            introducer: None,
            has_backslash: false,
            has_doubled_quote: false,
            quote: b'\'',
            family: CharsetFamily::Plain,
        }
    }

    /// The character set family, which decides whether a backslash or quote is part of a character.
    pub fn family(&self) -> CharsetFamily {
        self.family
    }

    /// Nothing is escaped, so `raw` is the value.
    pub fn is_plain(&self) -> bool {
        !self.has_backslash && !self.has_doubled_quote
    }

    /// Appends the value to `out`, by the rules of the server's lexer: `\0 \b \n \r \t \Z` are
    /// control bytes, `\%` and `\_` keep their backslash, and any other escaped byte stands for
    /// itself. A doubled quote is one quote.
    pub fn unescape_into(&self, out: &mut Vec<u8>) {
        unescape_text(self, out);
    }
}

/// [`StrLit::unescape_into`] as a function.
pub fn unescape_text(literal: &StrLit<'_>, out: &mut Vec<u8>) {
    if literal.is_plain() {
        out.extend_from_slice(literal.raw);
        return;
    }
    if literal.family != CharsetFamily::Plain {
        unescape_multibyte(literal, out);
        return;
    }
    let mut rest = literal.raw;
    while let Some(i) = find_special(literal, rest) {
        out.extend_from_slice(&rest[..i]);
        rest = unescape_one(literal, &rest[i..], out);
    }
    out.extend_from_slice(rest);
}

fn find_special(literal: &StrLit<'_>, bytes: &[u8]) -> Option<usize> {
    if literal.has_backslash {
        memchr::memchr2(b'\\', literal.quote, bytes)
    } else {
        memchr::memchr(literal.quote, bytes)
    }
}

/// Unescapes the backslash or quote at the front of `bytes` and returns the rest.
fn unescape_one<'b>(literal: &StrLit<'_>, bytes: &'b [u8], out: &mut Vec<u8>) -> &'b [u8] {
    if bytes[0] == literal.quote {
        out.push(literal.quote);
        return match bytes {
            [_, second, rest @ ..] if *second == literal.quote => rest,
            _ => &bytes[1..],
        };
    }
    let Some(&escaped) = bytes.get(1) else {
        out.push(b'\\');
        return &[];
    };
    match escaped {
        b'0' => out.push(0),
        b'b' => out.push(8),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'Z' => out.push(0x1A),
        b'%' | b'_' => out.extend_from_slice(&[b'\\', escaped]),
        other => out.push(other),
    }
    &bytes[2..]
}

fn unescape_multibyte(literal: &StrLit<'_>, out: &mut Vec<u8>) {
    let mut rest = literal.raw;
    while let Some(&first) = rest.first() {
        let len = literal.family.char_len(rest, true).unwrap_or(1).max(1);
        if len == 1 && ((first == b'\\' && literal.has_backslash) || first == literal.quote) {
            rest = unescape_one(literal, rest, out);
        } else {
            out.extend_from_slice(&rest[..len]);
            rest = &rest[len..];
        }
    }
}
