//! Checks the rows of a file, and the files of a table, against the manifest.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use refloat_run::Cancel;
use refloat_source::cutter::ITEM_MAX;
use refloat_source::manifest::{ChunkEntry, KeyValue, TableEntry};
use twox_hash::XxHash3_128;

use super::Fields;
use crate::error::VerifyError;

/// Rows between two checks for cancellation.
const CANCEL_ROWS: u64 = 4096;

/// Checks that the files of a table add up to its number of rows and its digest. The error says
/// what does not.
pub fn adds_up(table: &TableEntry) -> Result<(), String> {
    let digest = |digits: &str| {
        let good = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = good
            .then(|| u128::from_str_radix(digits, 16).ok())
            .flatten();
        number.ok_or_else(|| format!("{digits:?} is not a digest"))
    };
    let (mut sum, mut rows) = (0_u128, 0_u64);
    for chunk in &table.chunks {
        sum = sum.wrapping_add(digest(&chunk.digest)?);
        rows = rows.saturating_add(chunk.rows);
    }
    if rows != table.rows {
        return Err(format!(
            "the manifest says {} rows, but {rows} in its files",
            table.rows
        ));
    }
    if sum != digest(&table.digest)? {
        return Err(format!(
            "the manifest says the digest {}, and those of its files add up to {sum:032x}",
            table.digest
        ));
    }
    Ok(())
}

/// Positions of the key's columns in a row.
fn key_of(table: &TableEntry) -> Result<Vec<usize>, String> {
    let place = |name: &String| {
        let place = table.columns.iter().position(|column| column.name == *name);
        place.ok_or_else(|| {
            format!("the manifest has a key of the column {name}, and no such column")
        })
    };
    table.key.iter().map(place).collect()
}

/// Running totals of one file.
#[derive(Default)]
pub struct Counted {
    rows: u64,
    bytes: u64,
    /// Sum of the row hashes, as `docs/format.md` defines it.
    digest: u128,
    /// Positions of the key's columns.
    key: Vec<usize>,
    /// Key of the first row; `last` is that of the last one.
    first: Vec<KeyValue>,
    last: Vec<KeyValue>,
}

impl Counted {
    /// Totals of a file of this table before any row is read.
    pub fn new(table: &TableEntry) -> Result<Self, String> {
        Ok(Self {
            key: key_of(table)?,
            ..Self::default()
        })
    }

    /// Checks the totals against the manifest. The error says what does not match.
    pub fn proves(&self, chunk: &ChunkEntry) -> Result<(), String> {
        if self.rows != chunk.rows || self.bytes != chunk.text_bytes {
            return Err(format!(
                "the manifest says {} rows in {} bytes of text, the file has {} in {}",
                chunk.rows, chunk.text_bytes, self.rows, self.bytes
            ));
        }
        let digest = format!("{:032x}", self.digest);
        if !digest.eq_ignore_ascii_case(&chunk.digest) {
            return Err(format!(
                "the digest of its rows is {digest}, but the manifest says {}",
                chunk.digest
            ));
        }
        for (which, found, recorded) in [
            ("first", &self.first, &chunk.first),
            ("last", &self.last, &chunk.last),
        ] {
            if found != recorded {
                return Err(format!(
                    "the key of its {which} row is {found:?}, and the manifest says {recorded:?}"
                ));
            }
        }
        Ok(())
    }

    fn key(&self, fields: &Fields) -> Vec<KeyValue> {
        let values = self.key.iter();
        values
            .map(|place| KeyValue::new(fields.cell(*place).unwrap_or_default()))
            .collect()
    }

    /// Reads rows to the end of the text. Returns `false` if the closure stopped it before.
    pub fn read(
        &mut self,
        path: &Path,
        table: &TableEntry,
        input: &mut impl io::BufRead,
        cancel: &Cancel,
        each: &mut dyn FnMut(&Fields) -> ControlFlow<()>,
    ) -> Result<bool, VerifyError> {
        let broken = |error: io::Error| {
            VerifyError::damaged(path, format!("the file is damaged or cut: {error}"))
        };
        let mut fields = Fields::default();
        let mut rest = Vec::new();
        loop {
            let block = input.fill_buf().map_err(broken)?;
            if block.is_empty() {
                break;
            }
            let hash;
            let taken = match memchr::memchr(b'\n', block) {
                // A row within one block is parsed in place.
                Some(end) if rest.is_empty() => {
                    hash = XxHash3_128::oneshot(&block[..end]);
                    fields.split(&block[..end]);
                    end + 1
                }
                Some(end) => {
                    rest.extend_from_slice(&block[..end]);
                    hash = XxHash3_128::oneshot(&rest);
                    fields.split(&rest);
                    rest.clear();
                    end + 1
                }
                None => {
                    if rest.len() > ITEM_MAX {
                        return Err(VerifyError::damaged(
                            path,
                            format!("row {} has more than {ITEM_MAX} bytes", self.rows + 1),
                        ));
                    }
                    rest.extend_from_slice(block);
                    self.bytes += block.len() as u64;
                    let length = block.len();
                    input.consume(length);
                    continue;
                }
            };
            self.rows += 1;
            self.bytes += taken as u64;
            self.digest = self.digest.wrapping_add(hash);
            if fields.len() != table.columns.len() {
                return Err(VerifyError::damaged(
                    path,
                    format!(
                        "row {} has {} fields, but the table has {}",
                        self.rows,
                        fields.len(),
                        table.columns.len()
                    ),
                ));
            }
            if each(&fields).is_break() {
                return Ok(false);
            }
            if self.rows == 1 {
                self.first = self.key(&fields);
            }
            input.consume(taken);
            if self.rows.is_multiple_of(CANCEL_ROWS) && cancel.is_cancelled() {
                return Err(VerifyError::interrupted(cancel));
            }
        }
        if rest.is_empty() {
            if self.rows > 0 {
                // `fields` still holds the last row.
                self.last = self.key(&fields);
            }
            Ok(true)
        } else {
            Err(VerifyError::damaged(path, "the last row has no end"))
        }
    }
}
