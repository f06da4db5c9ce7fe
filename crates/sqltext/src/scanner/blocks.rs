//! Scans rows in blocks of 64 bytes: one bit per byte, all decisions on whole words.
//!
//! A block is accepted only if every byte outside strings could be part of a plain literal,
//! parentheses alternate between open and close, and exactly one comma separates two tuples.
//! Anything else is left to the byte loop, which knows all the rules, so both paths make the same
//! cuts.

use wide::u8x16;

/// Could this byte be part of a row of plain literals, outside quotes? Letters, digits,
/// `_ , ( ) . + -` and blanks.
pub(super) const fn is_literal_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'_' | b'(' | b')' | b',' | b'.' | b'+' | b'-' | b' ' | b'\t'..=b'\r'
        )
}

/// Bit masks of one block; the lowest bit is the first byte.
#[derive(Clone, Copy)]
struct Masks {
    quote: u64,
    backslash: u64,
    open: u64,
    close: u64,
    comma: u64,
    minus: u64,
    blank: u64,
    literal: u64,
}

/// State of the block loop; see the module documentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    escapes: bool,
    /// All ones inside a string, else 0; likewise the two below.
    in_string: u64,
    in_tuple: u64,
    want_tuple: u64,
    /// 1 when the next byte is escaped.
    escape: u64,
    rows: u64,
    last_close: Option<usize>,
}

impl Blocks {
    /// Bytes in a block.
    pub(super) const LEN: usize = 64;

    pub(super) fn new(escapes: bool) -> Self {
        Self {
            escapes,
            in_string: 0,
            in_tuple: 0,
            want_tuple: 0,
            escape: 0,
            rows: 0,
            last_close: None,
        }
    }

    pub(super) fn set(&mut self, in_string: bool, in_tuple: bool, want_tuple: bool) {
        self.in_string = fill(in_string);
        self.in_tuple = fill(in_tuple);
        self.want_tuple = fill(want_tuple);
    }

    pub(super) fn in_string(&self) -> bool {
        self.in_string != 0
    }

    pub(super) fn in_tuple(&self) -> bool {
        self.in_tuple != 0
    }

    pub(super) fn want_tuple(&self) -> bool {
        self.want_tuple != 0
    }

    /// The last byte consumed is a backslash that escapes the next byte.
    pub(super) fn escape_pending(&self) -> bool {
        self.escape != 0
    }

    /// Number of tuples closed.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Position after the last parenthesis that closed a tuple.
    pub(super) fn last_close(&self) -> Option<usize> {
        self.last_close
    }

    /// Consumes blocks from the front of `bytes` while they qualify; returns the number of bytes
    /// consumed.
    pub(super) fn run(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let mut state = *self;
        for block in bytes.as_chunks::<{ Self::LEN }>().0 {
            if !state.block(block, taken) {
                break;
            }
            *self = state;
            taken += Self::LEN;
        }
        taken
    }

    /// Consumes one block. Returns `false` if it does not qualify; the state is then meaningless.
    #[inline]
    fn block(&mut self, block: &[u8; Self::LEN], at: usize) -> bool {
        let masks = Masks::of(block);
        let mut quote = masks.quote;
        if self.escapes && (masks.backslash | self.escape) != 0 {
            quote &= !self.escaped(masks.backslash);
        }
        let string = prefix_xor(quote) ^ self.in_string;
        let code = !string;
        // The closing quote counts as outside, the opening one as inside.
        let mut wrong = code & !(masks.literal | quote);
        let minus = masks.minus & code;
        // Two in a row may begin a comment, and the last byte may be the first of two.
        wrong |= (minus & (minus << 1)) | (minus & (1 << 63));
        let (open, close) = (masks.open & code, masks.close & code);
        let tuple = prefix_xor(open | close) ^ self.in_tuple;
        wrong |= (open & !tuple) | (close & tuple);
        // Between tuples: blanks, closing parentheses, and exactly one comma.
        let between = code & !tuple;
        let comma = masks.comma & between;
        wrong |= between & !(close | masks.comma | masks.blank) | (string & !tuple);
        let want = prefix_xor(comma | open) ^ self.want_tuple;
        wrong |= (comma & !want) | (open & want);
        if wrong != 0 {
            return false;
        }
        self.in_string = fill(string >> 63 != 0);
        self.in_tuple = fill(tuple >> 63 != 0);
        self.want_tuple = fill(want >> 63 != 0);
        self.rows += u64::from(close.count_ones());
        if close != 0 {
            self.last_close = Some(at + 64 - close.leading_zeros() as usize);
        }
        true
    }

    /// Bytes after an odd run of backslashes (simdjson's method), and the carry into the next
    /// block.
    #[inline]
    fn escaped(&mut self, backslash: u64) -> u64 {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        let carry = self.escape;
        let potential = backslash & !carry;
        let maybe = (potential << 1) | ODD;
        let codes = maybe.wrapping_sub(potential) ^ ODD;
        let escaped = codes ^ (backslash | carry);
        self.escape = (codes & backslash) >> 63;
        escaped
    }
}

impl Masks {
    #[inline]
    fn of(block: &[u8; Blocks::LEN]) -> Self {
        let mut masks = Self {
            quote: 0,
            backslash: 0,
            open: 0,
            close: 0,
            comma: 0,
            minus: 0,
            blank: 0,
            literal: 0,
        };
        for (i, part) in block.as_chunks::<16>().0.iter().enumerate() {
            let bytes = u8x16::new(*part);
            let shift = 16 * i;
            let is = |b: u8| bytes.simd_eq(u8x16::splat(b));
            let in_range = |v: u8x16, low: u8, high: u8| {
                let span = u8x16::splat(high - low);
                let from = v - u8x16::splat(low);
                from.min(span).simd_eq(from)
            };
            let bits = |v: u8x16| u64::from(v.to_bitmask()) << shift;
            let (open, close, comma, minus) = (is(b'('), is(b')'), is(b','), is(b'-'));
            let blank = is(b' ') | in_range(bytes, b'\t', b'\r');
            let lower = bytes | u8x16::splat(0x20);
            let literal = in_range(lower, b'a', b'z')
                | in_range(bytes, b'0', b'9')
                | in_range(bytes, b'+', b'.')
                | open
                | close
                | blank
                | is(b'_');
            masks.quote |= bits(is(b'\''));
            masks.backslash |= bits(is(b'\\'));
            masks.open |= bits(open);
            masks.close |= bits(close);
            masks.comma |= bits(comma);
            masks.minus |= bits(minus);
            masks.blank |= bits(blank);
            masks.literal |= bits(literal);
        }
        masks
    }
}

fn fill(bit: bool) -> u64 {
    if bit { u64::MAX } else { 0 }
}

/// Bit `i` of the result is the parity of bits `0..=i`.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ (bits << 32)
}
