//! How to read SQL text: the lexical settings of the session that will run it.

use wide::u8x16;

/// Character sets, grouped by the one property that a lexer cares about: can an ASCII byte be the
/// tail of a multi-byte character?
///
/// In these families the server and the stock client consume the tail together with its lead byte,
/// so a backslash or a quote there means nothing. `character_set_client` decides. Families whose
/// tails are never ASCII (utf8, utf8mb4, ujis, eucjpms, gb2312 and every single-byte set) are
/// [`CharsetFamily::Plain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CharsetFamily {
    /// No character has an ASCII byte as its tail.
    #[default]
    Plain,
    /// `gbk`: two bytes, tail 0x40..=0x7E or 0x80..=0xFE.
    Gbk,
    /// `sjis`: two bytes, tail 0x40..=0x7E or 0x80..=0xFC.
    Sjis,
    /// `cp932`: same byte ranges as `sjis`.
    Cp932,
    /// `big5`: two bytes, tail 0x40..=0x7E or 0xA1..=0xFE.
    Big5,
    /// `gb18030`: two bytes like `gbk`, or four.
    Gb18030,
    /// `euckr`: two bytes, tail an ASCII letter or 0x81..=0xFE.
    Euckr,
}

impl CharsetFamily {
    /// The family of a `character_set_client` value or of a collation name, in any case.
    pub fn from_charset_name(name: &[u8]) -> Self {
        let base = name.split(|&b| b == b'_').next().unwrap_or_default();
        match base.to_ascii_lowercase().as_slice() {
            b"gbk" => Self::Gbk,
            b"sjis" => Self::Sjis,
            b"cp932" => Self::Cp932,
            b"big5" => Self::Big5,
            b"gb18030" => Self::Gb18030,
            b"euckr" => Self::Euckr,
            _ => Self::Plain,
        }
    }

    fn is_head(self, b: u8) -> bool {
        match self {
            Self::Plain => false,
            Self::Gbk | Self::Gb18030 | Self::Euckr => (0x81..=0xFE).contains(&b),
            Self::Sjis | Self::Cp932 => matches!(b, 0x81..=0x9F | 0xE0..=0xFC),
            Self::Big5 => (0xA1..=0xF9).contains(&b),
        }
    }

    fn is_tail(self, b: u8) -> bool {
        match self {
            Self::Plain => false,
            Self::Gbk | Self::Gb18030 => matches!(b, 0x40..=0x7E | 0x80..=0xFE),
            Self::Sjis | Self::Cp932 => matches!(b, 0x40..=0x7E | 0x80..=0xFC),
            Self::Big5 => matches!(b, 0x40..=0x7E | 0xA1..=0xFE),
            Self::Euckr => matches!(b, b'A'..=b'Z' | b'a'..=b'z' | 0x81..=0xFE),
        }
    }

    /// Length of the first character of `bytes`, as the server's `my_ismbchar` sees it: a lead byte
    /// without a valid tail is one byte long. `None` means that more bytes are needed, which never
    /// happens with `eof`.
    pub(crate) fn char_len(self, bytes: &[u8], eof: bool) -> Option<usize> {
        let Some(&head) = bytes.first() else {
            return if eof { Some(0) } else { None };
        };
        if !self.is_head(head) {
            return Some(1);
        }
        let Some(&second) = bytes.get(1) else {
            return if eof { Some(1) } else { None };
        };
        if self.is_tail(second) {
            return Some(2);
        }
        if self == Self::Gb18030 && second.is_ascii_digit() {
            return match (bytes.get(2), bytes.get(3)) {
                (Some(&c), Some(&d)) if self.is_head(c) && d.is_ascii_digit() => Some(4),
                (Some(&c), None) if self.is_head(c) && !eof => None,
                (None, _) if !eof => None,
                _ => Some(1),
            };
        }
        Some(1)
    }
}

/// The lexical settings of one session: which bytes end a string, and what a double quote means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LexMode {
    /// `sql_mode` contains `NO_BACKSLASH_ESCAPES`: a backslash in a string is an ordinary byte.
    pub no_backslash_escapes: bool,
    /// `sql_mode` contains `ANSI_QUOTES`: `"` quotes a name, not a string.
    pub ansi_quotes: bool,
    /// Family of `character_set_client`.
    pub charset_family: CharsetFamily,
    /// The text is for MariaDB. For the use of callers: the scanner cuts alike for both vendors.
    pub mariadb: bool,
}

impl LexMode {
    /// Does a backslash escape the next byte inside these quotes?
    pub(crate) fn escapes_in(self, quote: u8) -> bool {
        match quote {
            b'\'' => !self.no_backslash_escapes,
            b'"' => !self.no_backslash_escapes && !self.ansi_quotes,
            _ => false,
        }
    }

    /// This mode with the lexical parts of a `sql_mode` value (a comma-separated list, as in
    /// `SET sql_mode='…'`).
    #[must_use]
    pub fn with_sql_mode(mut self, value: &[u8]) -> Self {
        self.no_backslash_escapes = false;
        self.ansi_quotes = false;
        for word in value.split(|&b| b == b',') {
            match word.trim_ascii().to_ascii_uppercase().as_slice() {
                b"NO_BACKSLASH_ESCAPES" => self.no_backslash_escapes = true,
                // The combination modes include ANSI_QUOTES.
                b"ANSI_QUOTES" | b"ANSI" | b"ORACLE" | b"MSSQL" | b"DB2" | b"MAXDB"
                | b"POSTGRESQL" => {
                    self.ansi_quotes = true;
                }
                _ => {}
            }
        }
        self
    }
}

/// Outcome of [`skip_quoted`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Quoted {
    /// The position after the closing quote.
    Closed(usize),
    /// The text ends first; scanning can continue from here once there is more.
    Open(usize),
}

/// Skips from `pos` inside a quoted body past its closing quote. A doubled quote ends the body
/// here; its second half opens the next body, so the cuts come out the same.
pub(crate) fn skip_quoted(
    text: &[u8],
    mut pos: usize,
    quote: u8,
    mode: LexMode,
    eof: bool,
) -> Quoted {
    let escapes = mode.escapes_in(quote);
    if mode.charset_family != CharsetFamily::Plain {
        return skip_quoted_multibyte(text, pos, quote, escapes, mode.charset_family, eof);
    }
    loop {
        let Some(i) = find_end(&text[pos..], quote, escapes) else {
            return Quoted::Open(text.len());
        };
        pos += i;
        if text[pos] == quote {
            return Quoted::Closed(pos + 1);
        }
        if pos + 1 >= text.len() {
            return Quoted::Open(pos);
        }
        pos += 2;
    }
}

/// Position of the first quote, or of the first backslash if backslashes escape.
#[inline]
pub(crate) fn find_end(bytes: &[u8], quote: u8, escapes: bool) -> Option<usize> {
    /// Strings up to this length are cheaper to search inline than through a call.
    const SHORT: usize = 16;
    let backslash = if escapes { b'\\' } else { quote };
    if let Some(head) = bytes.first_chunk::<SHORT>() {
        let head = u8x16::new(*head);
        let hits = head.simd_eq(u8x16::splat(quote)) | head.simd_eq(u8x16::splat(backslash));
        let bits = hits.to_bitmask();
        if bits != 0 {
            return Some(bits.trailing_zeros() as usize);
        }
        return memchr::memchr2(quote, backslash, &bytes[SHORT..]).map(|i| i + SHORT);
    }
    bytes.iter().position(|&b| b == quote || b == backslash)
}

fn skip_quoted_multibyte(
    text: &[u8],
    mut pos: usize,
    quote: u8,
    escapes: bool,
    family: CharsetFamily,
    eof: bool,
) -> Quoted {
    while let Some(&b) = text.get(pos) {
        if b == quote {
            return Quoted::Closed(pos + 1);
        }
        if b < 0x80 {
            if b == b'\\' && escapes {
                if pos + 1 >= text.len() {
                    return Quoted::Open(pos);
                }
                pos += 2;
            } else {
                pos += 1;
            }
            continue;
        }
        match family.char_len(&text[pos..], eof) {
            Some(n) => pos += n.max(1),
            None => return Quoted::Open(pos),
        }
    }
    Quoted::Open(text.len())
}

/// Whitespace, as `my_isspace` defines it in every client character set.
pub(crate) fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// Bytes of an unquoted word: letters, digits, `_`, `$` and every non-ASCII byte.
pub(crate) fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || b >= 0x80
}
