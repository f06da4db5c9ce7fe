//! Text: how many characters and bytes it may have, and whether they are valid.

use crate::description::StoredColumn;

/// A character set whose characters are counted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charset {
    /// Only ASCII: one byte a character, in all character sets that contain it.
    Ascii,
    /// One byte a character, any byte.
    Latin1,
    /// UTF-8 of up to three bytes.
    Utf8Mb3,
    /// UTF-8.
    Utf8Mb4,
    /// Bytes.
    Binary,
}

impl Charset {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "ascii" => Self::Ascii,
            "latin1" => Self::Latin1,
            "utf8" | "utf8mb3" => Self::Utf8Mb3,
            "utf8mb4" => Self::Utf8Mb4,
            "binary" => Self::Binary,
            _ => return None,
        })
    }

    /// Which characters of a text a column takes as they are: those of its own character set, and
    /// of others only ASCII.
    fn taken(column: &str, text: &str) -> Option<Self> {
        let (own, text) = (Self::of(column)?, Self::of(text)?);
        let is_utf8 = |one| matches!(one, Self::Utf8Mb3 | Self::Utf8Mb4);
        let is_same = own == text || text == Self::Binary || is_utf8(own) && is_utf8(text);
        Some(if is_same { own } else { Self::Ascii })
    }

    /// How many characters a text has; `None` if one of them is not valid.
    fn count(self, text: &[u8]) -> Option<usize> {
        if text.is_ascii() {
            return Some(text.len());
        }
        match self {
            Self::Ascii => None,
            Self::Latin1 | Self::Binary => Some(text.len()),
            Self::Utf8Mb3 | Self::Utf8Mb4 => {
                let text = std::str::from_utf8(text).ok()?;
                let longest = text.chars().map(char::len_utf8).max().unwrap_or(0);
                let fits = self == Self::Utf8Mb4 || longest < 4;
                fits.then(|| text.chars().count())
            }
        }
    }
}

/// Text of a length that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableText {
    charset: Charset,
    /// Most characters, if the type counts them.
    characters: Option<usize>,
    /// Most bytes.
    bytes: usize,
}

impl VariableText {
    /// Of a column and a text in these character sets.
    pub fn of(
        characters: Option<usize>,
        bytes: usize,
        (charset, text): (&str, &str),
    ) -> Option<Self> {
        Some(Self {
            charset: Charset::taken(charset, text)?,
            characters,
            bytes,
        })
    }

    pub fn put(self, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let count = self.charset.count(text)?;
        let fits = self.characters.is_none_or(|most| count <= most) && text.len() <= self.bytes;
        fits.then(|| out.extend_from_slice(text))
    }
}

/// A text in a character set; `None` if it has characters beyond ASCII and the set is not UTF-8.
pub fn encoded(text: &str, charset: &str) -> Option<Vec<u8>> {
    let is_utf8 = matches!(
        Charset::of(charset),
        Some(Charset::Utf8Mb3 | Charset::Utf8Mb4)
    );
    (text.is_ascii() || is_utf8).then(|| text.as_bytes().to_vec())
}

/// Text of a fixed length: padded with blanks, which do not count when it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedText {
    charset: Charset,
    characters: usize,
}

impl FixedText {
    /// Of a column and a text in these character sets.
    pub fn of(
        characters: usize,
        column: &StoredColumn,
        (charset, text): (&str, &str),
    ) -> Option<Self> {
        // A blank must be one byte.
        (column.char_min == 1).then_some(Self {
            charset: Charset::taken(charset, text)?,
            characters,
        })
    }

    /// Of characters of different lengths, as many blanks are stored as make up a byte for each
    /// character (`row_mysql_store_col_in_innobase_format`).
    pub fn put(self, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
        if self.charset.count(text)? > self.characters {
            return None;
        }
        let end = text.iter().rposition(|byte| *byte != b' ');
        let text = &text[..end.map_or(0, |end| end + 1)];
        out.extend_from_slice(text);
        out.extend(std::iter::repeat_n(
            b' ',
            self.characters.saturating_sub(text.len()),
        ));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_and_bytes() {
        let put = |characters: VariableText, text: &str| {
            let mut out = Vec::new();
            characters.put(text.as_bytes(), &mut out).map(|()| out)
        };
        let utf8 = ("utf8mb4", "utf8mb4");
        let three = VariableText::of(Some(3), 12, utf8).unwrap();
        assert!(put(three, "äöü").is_some());
        assert!(put(three, "abcd").is_none());
        assert!(put(three, "😀").is_some());
        let old = VariableText::of(Some(3), 9, ("utf8mb3", "utf8mb4")).unwrap();
        assert!(put(old, "😀").is_none());
        assert!(
            VariableText::of(None, 255, utf8)
                .unwrap()
                .put(b"\xff", &mut vec![])
                .is_none()
        );
        assert!(VariableText::of(Some(1), 4, ("gbk", "gbk")).is_none());
    }

    /// A text in another character set would have to be converted.
    #[test]
    fn character_sets() {
        let put = |charsets, text: &[u8]| {
            let column = VariableText::of(None, 255, charsets).unwrap();
            column.put(text, &mut Vec::new()).is_some()
        };
        for (charsets, takes) in [
            (("latin1", "utf8mb4"), false),
            (("utf8mb4", "latin1"), false),
            (("utf8mb3", "utf8mb4"), true),
            (("utf8mb4", "binary"), true),
        ] {
            assert!(put(charsets, b"a"));
            assert_eq!(put(charsets, "ä".as_bytes()), takes, "{charsets:?}");
        }
    }

    #[test]
    fn blanks_at_the_end() {
        let column = |char_max| StoredColumn {
            name: String::new(),
            kind: 13,
            precise: 0,
            len: 12,
            char_min: 1,
            char_max,
        };
        let put = |text: &str, char_max, charset| {
            let fixed = FixedText::of(3, &column(char_max), (charset, charset)).unwrap();
            let mut out = Vec::new();
            fixed.put(text.as_bytes(), &mut out).map(|()| out)
        };
        assert_eq!(put("a", 1, "latin1"), Some(b"a  ".to_vec()));
        assert_eq!(put("ä", 4, "utf8mb4"), Some("ä ".as_bytes().to_vec()));
        assert_eq!(put("ää  ", 4, "utf8mb4"), None);
        assert_eq!(put("äö ", 4, "utf8mb4"), Some("äö".as_bytes().to_vec()));
    }
}
