//! Which rows of a chunk to compare: its first ones, and later ones with a kind of value that no
//! chosen row has in the same column.
//!
//! A kind is anything that a write path may treat differently: how a literal is written, an escape,
//! a byte that separates or escapes fields, an unusual number or date. The walk looks only at text,
//! not at the types of columns. If it mistakes one kind for another, one row too many or too few is
//! compared.

use std::ops::Range;

use refloat_sqltext::{LexMode, RowVisitor, StrLit};

use crate::form::Form;

/// Number of first rows that are chosen whatever they hold.
const FIRST_ROWS: usize = 50;
/// Bytes of their text, if there is more than one row.
pub const FIRST_BYTES: usize = 256 << 10;
/// The same if all first rows are chosen (docs/design/load.md).
pub const ALL_BYTES: usize = 64 << 10;
/// Rows after them that are chosen at most, and bytes of text of all that are chosen.
const LATER_ROWS: usize = 150;
const BYTES: usize = 2 * FIRST_BYTES;
/// Bytes of a chunk that are walked. A MiB takes up to 3 ms, while other writers of the
/// table may wait.
const WALK_BYTES: usize = 4 << 20;
/// Every piece counts for at least this many bytes, because it may have to be read from a file.
const PIECE_BYTES: usize = 1 << 10;
/// More digits than a `DOUBLE` holds.
const DIGITS_LONG: usize = 17;
const I64_MAX: &[u8] = b"9223372036854775807";

const NULL: u64 = 1;
const DEFAULT: u64 = 1 << 1;
const NUMBER: u64 = 1 << 2;
const STRING: u64 = 1 << 3;
const DOUBLE_QUOTES: u64 = 1 << 4;
const DOUBLED_QUOTE: u64 = 1 << 5;
const BINARY: u64 = 1 << 6;
const INTRODUCED: u64 = 1 << 7;
const HEX: u64 = 1 << 8;
const HEX_ODD: u64 = 1 << 9;
const BIT: u64 = 1 << 10;
const EMPTY: u64 = 1 << 11;
const NOT_UTF8: u64 = 1 << 12;
const BLANK_END: u64 = 1 << 13;
const BEYOND_I64: u64 = 1 << 14;
const LONG: u64 = 1 << 15;
const ZERO: u64 = 1 << 16;
const DATE_ZERO: u64 = 1 << 17;
const DATE_EARLY: u64 = 1 << 18;
const DATE_LATE: u64 = 1 << 19;
/// Characters of numbers, dates and times.
const MINUS: u64 = 1 << 20;
const PLUS: u64 = 1 << 21;
const POINT: u64 = 1 << 22;
const EXPONENT: u64 = 1 << 23;
/// Bytes that occur neither in numbers nor in dates.
const WORD: u64 = 1 << 24;
/// Bytes from 0x80 on; those that begin UTF-8 characters of four bytes are a kind of their own.
const NOT_ASCII: u64 = 1 << 25;
const FOUR_BYTES: u64 = 1 << 26;
const CONTROL: u64 = 1 << 27;
/// One bit for each of these bytes.
const BYTES_APART: &[u8] = b"\0\t\n\r\x1A\\'\"";
const BYTES_APART_BIT: usize = 28;
/// One bit for each of these after a backslash, and one for all others.
const ESCAPES: &[u8] = b"0bnrtZN'\"\\%_";
const ESCAPES_BIT: usize = 40;

/// The kinds that each byte of a value adds.
static OF_BYTE: [u64; 256] = {
    let mut kinds = [WORD; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'0'..=b'9' | b' ' | b':' => 0,
            b'-' => MINUS,
            b'+' => PLUS,
            b'.' => POINT,
            b'e' | b'E' => EXPONENT,
            0..=0x1F => WORD | CONTROL,
            0xF0.. => WORD | NOT_ASCII | FOUR_BYTES,
            0x80.. => WORD | NOT_ASCII,
            _ => WORD,
        };
        byte += 1;
    }
    let mut at = 0;
    while at < BYTES_APART.len() {
        kinds[BYTES_APART[at] as usize] = WORD | (1 << (BYTES_APART_BIT + at));
        at += 1;
    }
    kinds
};

/// The kinds of a value's bytes.
fn of_bytes(bytes: &[u8]) -> u64 {
    let of_each = bytes
        .iter()
        .fold(0, |kinds, &byte| kinds | OF_BYTE[usize::from(byte)]);
    let mut kinds = match bytes {
        [] => return EMPTY,
        [.., b' '] => of_each | BLANK_END,
        _ => of_each,
    };
    if kinds & NOT_ASCII != 0 && std::str::from_utf8(bytes).is_err() {
        kinds |= NOT_UTF8;
    }
    if kinds & WORD == 0 {
        kinds | of_digits(bytes)
    } else {
        kinds & !(MINUS | PLUS | POINT | EXPONENT)
    }
}

/// The kinds of a number, a date or a time.
fn of_digits(text: &[u8]) -> u64 {
    if let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, ..] = *text {
        let year = [y1, y2, y3, y4];
        return match year {
            _ if &year == b"0000" || [m1, m2] == *b"00" || [d1, d2] == *b"00" => DATE_ZERO,
            _ if &year < b"1970" => DATE_EARLY,
            _ if &year >= b"2038" => DATE_LATE,
            _ => 0,
        };
    }
    let unsigned = text
        .strip_prefix(b"-")
        .or(text.strip_prefix(b"+"))
        .unwrap_or(text);
    let zeros = unsigned
        .iter()
        .take_while(|byte| matches!(byte, b'0' | b'.'))
        .count();
    let digits = &unsigned[zeros..];
    let mut kinds = match digits.len() {
        0 => ZERO,
        len if len > DIGITS_LONG => LONG,
        _ => 0,
    };
    let whole = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if whole > 19 || (whole == 19 && digits[..whole] > *I64_MAX) {
        kinds |= BEYOND_I64;
    }
    kinds
}

/// The kinds of the escapes in a string. Where a backslash is part of a character, this may see an
/// escape that is none.
fn of_escapes(raw: &[u8]) -> u64 {
    let mut kinds = 0;
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest)
        && let Some((letter, after)) = rest[at + 1..].split_first()
    {
        let which = ESCAPES.iter().position(|known| known == letter);
        kinds |= 1 << (ESCAPES_BIT + which.unwrap_or(ESCAPES.len()));
        rest = after;
    }
    kinds
}

/// The kinds of the bytes that hexadecimal digits stand for.
fn of_hex(digits: &[u8]) -> u64 {
    let value = |digit: u8| (digit & 0x0F) + 9 * (digit >> 6);
    let pairs = digits.rchunks_exact(2);
    let odd = if pairs.remainder().is_empty() {
        0
    } else {
        HEX_ODD
    };
    let of_each = pairs.fold(0, |kinds, pair| {
        kinds | OF_BYTE[usize::from((value(pair[0]) << 4) | value(pair[1]))]
    });
    let empty = if digits.is_empty() { EMPTY } else { 0 };
    odd | empty | (of_each & !(MINUS | PLUS | POINT | EXPONENT))
}

/// The walk has seen enough.
pub struct Enough;

/// Chooses rows from the pieces of a chunk, one piece after the other.
#[derive(Default)]
pub struct Chooser {
    /// Bytes of rows that are all chosen; none for a sample, and after the first that does not fit.
    all: usize,
    /// The kinds of the chosen rows, by position in the row.
    seen: Vec<u64>,
    /// The same for the current row.
    row: Vec<u64>,
    start: usize,
    /// Whether the current row has a kind that is not in `seen`.
    brings: bool,
    /// Whether it has an expression: such rows are sent as text anyway.
    computes: bool,
    /// Rows and bytes of earlier pieces that were walked.
    walked: (usize, usize),
    /// Bytes of all rows that were chosen, and the number of those after the first.
    taken: usize,
    later: usize,
    /// The chosen rows of the current piece.
    chosen: Vec<Range<usize>>,
    done: bool,
}

impl Chooser {
    /// A chooser of a sample, or of `all` first rows that fit and a sample of the rows after them.
    pub fn new(all: bool) -> Self {
        Self {
            all: if all { ALL_BYTES } else { 0 },
            ..<Self as Default>::default()
        }
    }

    /// Ranges of the chosen rows in the `text` of the next piece. Empty if the text cannot be read.
    pub fn choose(&mut self, form: &Form, text: &[u8], mode: LexMode) -> Vec<Range<usize>> {
        self.done |= form.visit(text, mode, self).is_err();
        self.walked.1 += text.len().max(PIECE_BYTES);
        std::mem::take(&mut self.chosen)
    }

    /// Whether no row of the following pieces will be chosen.
    pub fn is_done(&self) -> bool {
        self.done
    }

    #[inline]
    fn note(&mut self, kinds: u64) {
        let seen = self.seen.get(self.row.len()).copied().unwrap_or(0);
        self.brings |= kinds & !seen != 0;
        self.row.push(kinds);
    }

    fn take(&mut self, range: Range<usize>) {
        if self.seen.len() < self.row.len() {
            self.seen.resize(self.row.len(), 0);
        }
        for (seen, kinds) in self.seen.iter_mut().zip(&self.row) {
            *seen |= kinds;
        }
        self.taken += range.len();
        self.chosen.push(range);
    }
}

impl RowVisitor for Chooser {
    type Error = Enough;

    #[inline]
    fn begin_row(&mut self, at: usize) -> Result<(), Enough> {
        let enough = self.later == LATER_ROWS || self.taken >= BYTES;
        if enough || self.walked.1 + at >= WALK_BYTES {
            return Err(Enough);
        }
        self.row.clear();
        (self.start, self.brings, self.computes) = (at, false, false);
        Ok(())
    }

    #[inline]
    fn null(&mut self) -> Result<(), Enough> {
        self.note(NULL);
        Ok(())
    }

    fn default(&mut self) -> Result<(), Enough> {
        self.note(DEFAULT);
        Ok(())
    }

    #[inline]
    fn number(&mut self, text: &[u8]) -> Result<(), Enough> {
        self.note(NUMBER | of_bytes(text));
        Ok(())
    }

    #[inline]
    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Enough> {
        let mut kinds = STRING | of_bytes(literal.raw);
        if literal.has_backslash {
            kinds |= of_escapes(literal.raw);
        }
        if literal.has_doubled_quote {
            kinds |= DOUBLED_QUOTE;
        }
        if literal.quote == b'"' {
            kinds |= DOUBLE_QUOTES;
        }
        kinds |= match literal.introducer {
            None => 0,
            Some(word) if word.eq_ignore_ascii_case(b"_binary") => BINARY,
            Some(_) => INTRODUCED,
        };
        self.note(kinds);
        Ok(())
    }

    #[inline]
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Enough> {
        self.note(STRING | of_bytes(bytes));
        Ok(())
    }

    fn hex(&mut self, digits: &[u8]) -> Result<(), Enough> {
        self.note(HEX | of_hex(digits));
        Ok(())
    }

    fn bit(&mut self, digits: &[u8]) -> Result<(), Enough> {
        self.note(BIT | if digits.is_empty() { EMPTY } else { 0 });
        Ok(())
    }

    fn expression(&mut self, _text: &[u8]) -> Result<(), Enough> {
        self.computes = true;
        self.note(0);
        Ok(())
    }

    #[inline]
    fn end_row(&mut self, end: usize) -> Result<(), Enough> {
        let row = self.start..end;
        let fits = |most| self.taken == 0 || self.taken + row.len() <= most;
        let all = self.all > 0 && fits(self.all);
        self.all = if all { self.all } else { 0 };
        let early = self.walked.0 < FIRST_ROWS && fits(FIRST_BYTES);
        self.walked.0 += 1;
        if early || (all && !self.computes) {
            self.take(row);
        } else if fits(BYTES) && self.brings && !self.computes {
            self.later += 1;
            self.take(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3,000 rows that are like the first one, except the given ones.
    fn rows<'a>(usual: &'a str, others: &[(usize, &'a str)]) -> Vec<&'a str> {
        let mut rows = vec![usual; 3_000];
        for (index, row) in others {
            rows[*index] = row;
        }
        rows
    }

    /// The indexes of the chosen ones of rows that come in pieces of 1,000.
    fn chosen(rows: &[&str], mode: LexMode) -> Vec<usize> {
        chosen_by(Chooser::new(false), rows, mode)
    }

    fn chosen_by(mut chooser: Chooser, rows: &[&str], mode: LexMode) -> Vec<usize> {
        let mut found = Vec::new();
        for (number, piece) in rows.chunks(1_000).enumerate() {
            let text = piece.join(",");
            let bounds = Form::Tuples.bounds(text.as_bytes(), mode);
            for row in chooser.choose(&Form::Tuples, text.as_bytes(), mode) {
                let index = bounds.iter().position(|bound| *bound == row);
                found.push(number * 1_000 + index.expect("a whole row"));
            }
        }
        found
    }

    /// The indexes of those after the first rows.
    fn later(usual: &str, others: &[(usize, &str)]) -> Vec<usize> {
        let found = chosen(&rows(usual, others), LexMode::default());
        assert!(found.iter().copied().take(FIRST_ROWS).eq(0..FIRST_ROWS));
        found[FIRST_ROWS..].to_vec()
    }

    #[test]
    fn a_later_row_is_chosen_for_each_kind_that_it_brings_first() {
        assert!(later("(1,'a')", &[]).is_empty());
        let texts = r#"NULL DEFAULT 7 '' '\0' '\'' '\"' '\b' '\n' '\r' '\t' '\Z' '\\' '\%' '\_' '\N'
            '\x' 'it''s' 'é' '😀' "a" _binary'a' _utf8mb4'a' 0x41 0x5c 0xabc x'' b'1' b''
            '0000-00-00' '1969-12-31' '2040-01-01'"#;
        let blanks = ["'\t'", "'\n'", "'\r'", "'\0'", "'\x1A'", "'\x01'", "'a '"];
        for text in texts.split_ascii_whitespace().chain(blanks) {
            let row = format!("(1,{text})");
            let others = [(60, row.as_str()), (2_999, row.as_str())];
            assert_eq!(later("(1,'a')", &others), [60], "{text}");
        }
        let numbers =
            "0 -1 +1 1.5 1e5 9223372036854775808 -99999999999999999999 0.123456789012345678";
        for number in numbers.split(' ') {
            let row = format!("({number},'a')");
            let others = [(2_998, row.as_str()), (2_999, row.as_str())];
            assert_eq!(later("(1,'a')", &others), [2_998], "{number}");
        }
        // Each of these is new beside those before it.
        let each = r"(1,'\n') (1,'\\') (1,'\n\\') (1,0x41) (1,0x0A) (1,0x410a) (2,'😀')";
        let others: Vec<_> = (100..).zip(each.split(' ')).collect();
        assert_eq!(later("(1,'a')", &others), [100, 101, 103, 104, 106]);
    }

    #[test]
    fn what_is_known_in_one_column_may_be_new_in_another() {
        let others = [
            (10, "(NULL,'a')"),
            (2_000, "(NULL,'a')"),
            (2_500, "(1,NULL)"),
        ];
        assert_eq!(later("(1,'a')", &others), [2_500]);
    }

    #[test]
    fn what_is_sent_as_text_anyway_is_not_chosen_later() {
        assert!(later("(1,'a')", &[(2_000, "(NULL,NOW())")]).is_empty());
    }

    #[test]
    fn a_backslash_is_read_in_the_mode_of_the_session() {
        let mode = LexMode::default().with_sql_mode(b"NO_BACKSLASH_ESCAPES");
        let found = chosen(&rows(r"('a')", &[(2_000, r"('\')")]), mode);
        assert_eq!(found[FIRST_ROWS..], [2_000]);
    }

    #[test]
    fn all_first_rows_are_chosen_as_far_as_they_fit() {
        let text = |quote: &str| format!("({quote}{}{quote})", "a".repeat(ALL_BYTES / 1_500));
        let [usual, other] = [text("'"), text("\"")];
        let rows = rows(&usual, &[(2_500, &other), (2_600, &other)]);
        let mut found = chosen_by(Chooser::new(true), &rows, LexMode::default());
        assert_eq!(found.pop(), Some(2_500));
        assert!(found.len() > 1_300 && found.into_iter().eq(0..ALL_BYTES / usual.len()));
    }

    #[test]
    fn a_sample_has_an_end() {
        let mode = LexMode::default();
        let large = format!("('{}')", "a".repeat(FIRST_BYTES / 10));
        assert_eq!(chosen(&[large.as_str(); 60], mode).len(), 9);
        let larger = format!("('{}')", "a".repeat(BYTES));
        assert_eq!(chosen(&[&larger, "(NULL)"], mode), [0]);
        // Each row has a kind that no other has in its column.
        let row = |at: usize| {
            let value = |column| if column == at { "NULL" } else { "1" };
            let values: Vec<_> = (0..300).map(value).collect();
            format!("({})", values.join(","))
        };
        let rows: Vec<String> = (0..300).map(row).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        assert!(
            chosen(&rows, mode)
                .into_iter()
                .eq(0..FIRST_ROWS + LATER_ROWS)
        );
        assert!(chosen(&["no row"], mode).is_empty());
    }
}
