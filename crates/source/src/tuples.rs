//! Converts delimited rows to the text of an `INSERT`: for servers, columns and rows that accept no
//! other form, and to find the row that is refused.

use std::io::Write as _;

use refloat_schema::columns::{Column, ColumnClass, Layout, NOT_ASCII};
use refloat_sqltext::{CharsetFamily, RowVisitor, VisitError};

use crate::delimited::DelimitedRows;

/// Writes rows as tuples.
struct Tuples<'a> {
    columns: Vec<Option<&'a Column>>,
    rows: &'a DelimitedRows,
    at: usize,
    out: &'a mut Vec<u8>,
}

/// The row has the wrong number of fields.
struct WrongFields {
    found: usize,
}

impl Tuples<'_> {
    fn separate(&mut self) {
        self.out.push(if self.at == 0 { b'(' } else { b',' });
        self.at += 1;
    }

    fn hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        self.out.reserve(2 * bytes.len() + 2);
        self.out.extend_from_slice(b"0x");
        for byte in bytes {
            self.out.push(DIGITS[usize::from(byte >> 4)]);
            self.out.push(DIGITS[usize::from(byte & 15)]);
        }
    }

    fn quoted(&mut self, bytes: &[u8]) {
        self.out.push(b'\'');
        for &byte in bytes {
            match byte {
                b'\'' => self.out.extend_from_slice(b"\\'"),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                0 => self.out.extend_from_slice(b"\\0"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0x1A => self.out.extend_from_slice(b"\\Z"),
                byte => self.out.push(byte),
            }
        }
        self.out.push(b'\'');
    }
}

impl RowVisitor for Tuples<'_> {
    type Error = WrongFields;

    fn begin_row(&mut self, at: usize) -> Result<(), WrongFields> {
        self.at = 0;
        if at > 0 {
            self.out.push(b',');
        }
        Ok(())
    }

    fn null(&mut self) -> Result<(), WrongFields> {
        self.separate();
        self.out.extend_from_slice(b"NULL");
        Ok(())
    }

    fn number(&mut self, text: &[u8]) -> Result<(), WrongFields> {
        self.separate();
        // The text comes from a file: only digits may enter a statement unquoted.
        if !text.is_empty() && text.iter().all(u8::is_ascii_digit) {
            self.out.extend_from_slice(text);
        } else {
            self.out.extend_from_slice(b"''");
        }
        Ok(())
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), WrongFields> {
        let column = self.columns.get(self.at).copied().flatten();
        self.separate();
        let class = column.map_or(&ColumnClass::Unknown, |column| &column.class);
        if bytes.is_empty() {
            self.out.extend_from_slice(b"''");
            return Ok(());
        }
        match class {
            ColumnClass::Bytes | ColumnClass::Bit => self.hex(bytes),
            ColumnClass::Text if !bytes.is_ascii() => {
                let column_charset = column.and_then(|column| column.charset.as_deref());
                // Text in the column's own character set, or in one whose characters may contain a
                // backslash byte, needs an introducer.
                let named = if self.rows.charset == "binary" {
                    column_charset
                } else {
                    let family = CharsetFamily::from_charset_name(self.rows.charset.as_bytes());
                    (family != CharsetFamily::Plain).then_some(self.rows.charset.as_str())
                };
                match named {
                    Some(charset) => {
                        let _ = write!(self.out, "_{} ", introducer(charset));
                        self.hex(bytes);
                    }
                    None => self.quoted(bytes),
                }
            }
            _ => {
                // In these character sets an ASCII character has different bytes, or an ASCII byte
                // is a different character: a backslash in sjis comes back from utf8mb4 as a
                // two-byte character.
                let wide = column
                    .and_then(|column| column.charset.as_deref())
                    .filter(|charset| self.rows.charset == "binary" && NOT_ASCII.contains(charset));
                match wide {
                    Some(charset) => {
                        let _ = write!(self.out, "_{} ", introducer(charset));
                        self.hex(bytes);
                    }
                    None => self.quoted(bytes),
                }
            }
        }
        Ok(())
    }

    fn end_row(&mut self, _end: usize) -> Result<(), WrongFields> {
        if self.at != self.columns.len() {
            return Err(WrongFields { found: self.at });
        }
        self.out.push(b')');
        Ok(())
    }
}

/// The name by which an introducer calls a character set. MySQL warns about the old names; the new
/// one has the same characters at the same bytes.
pub fn introducer(charset: &str) -> &str {
    match charset {
        "utf8" | "utf8mb3" => "utf8mb4",
        "ucs2" => "utf16",
        other => other,
    }
}

/// Appends the rows of `text` as `(…),(…)`.
///
/// # Errors
/// A message about a row with the wrong number of fields, or one that cannot be read.
pub fn append(
    rows: &DelimitedRows,
    text: &[u8],
    layout: &Layout,
    targets: &[usize],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut tuples = Tuples {
        columns: targets
            .iter()
            .map(|&index| layout.columns.get(index))
            .collect(),
        rows,
        at: 0,
        out,
    };
    match rows.format.visit(text, &rows.decode, &mut tuples) {
        Ok(_) => Ok(()),
        Err(VisitError::Visitor { error, .. }) => {
            let skipped = rows
                .decode
                .iter()
                .filter(|how| **how == crate::delimited::Decode::Skip)
                .count();
            Err(format!(
                "a row has {} fields where {} are expected",
                error.found + skipped,
                targets.len() + skipped
            ))
        }
        Err(VisitError::Syntax { at, expected }) => Err(format!(
            "a row cannot be read: {expected} is missing at byte {at} of it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::delimited::Delimited;

    use super::*;

    fn converted(charset: &str, text: &[u8]) -> Result<String, String> {
        let layout = Layout {
            columns: vec![
                Column::new("n", "int", None),
                Column::new("t", "text", Some("latin1".to_owned())),
                Column::new("b", "blob", None),
            ],
            transactional: true,
            versioned: false,
            period_end: None,
        };
        let rows = DelimitedRows {
            format: Delimited::default(),
            decode: Vec::new(),
            charset: charset.to_owned(),
        };
        let mut out = Vec::new();
        append(&rows, text, &layout, &[0, 1, 2], &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_become_literals_of_their_columns() {
        assert_eq!(
            converted("utf8mb4", b"1\tit's\ta\\0b\n\\N\t\\N\t\n").unwrap(),
            "('1','it\\'s',0x610062),(NULL,NULL,'')"
        );
        assert_eq!(
            converted("binary", b"1\t\xE9\tx\n").unwrap(),
            "('1',_latin1 0xE9,0x78)"
        );
    }

    #[test]
    fn a_row_of_other_fields_is_named_by_their_count() {
        for (text, found) in [(b"1\t2\n".as_slice(), 2), (b"1\t2\t3\t4\n", 4), (b"\n", 1)] {
            let error = converted("binary", text).unwrap_err();
            assert!(error.contains(&format!("has {found} fields")), "{error}");
        }
    }
}
