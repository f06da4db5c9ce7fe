//! Examines tuples without sending them.

use refloat_sqltext::{LexMode, RowVisitor, StrLit};

use super::form::Form;

/// Looks for a row that leaves the value at one position to the server.
struct Generated {
    position: usize,
    at: usize,
    zero_generates: bool,
}

/// Such a row was found.
struct Found;

impl Generated {
    fn judge(&mut self, generates: bool) -> Result<(), Found> {
        self.at += 1;
        if generates && self.at - 1 == self.position {
            Err(Found)
        } else {
            Ok(())
        }
    }
}

impl RowVisitor for Generated {
    type Error = Found;

    fn begin_row(&mut self, _: usize) -> Result<(), Found> {
        self.at = 0;
        Ok(())
    }
    /// Anything but a number is unclear, or has the server choose the value.
    fn value(&mut self) -> Result<(), Found> {
        self.judge(true)
    }
    fn number(&mut self, text: &[u8]) -> Result<(), Found> {
        let zero = self.zero_generates
            && text
                .iter()
                .all(|byte| matches!(byte, b'0' | b'.' | b'+' | b'-'));
        self.judge(zero)
    }
    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Found> {
        let zero = self.zero_generates && literal.raw.iter().all(|byte| *byte == b'0');
        self.judge(zero)
    }
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Found> {
        let zero = self.zero_generates && bytes.iter().all(|byte| *byte == b'0');
        self.judge(zero)
    }
}

/// Whether any row leaves the value at `position` (an `AUTO_INCREMENT` column) to the server; then
/// the order of rows decides which row gets which number. Text that cannot be walked counts as
/// such.
pub fn leaves_to_server(
    form: &Form,
    text: &[u8],
    position: usize,
    zero_generates: bool,
    mode: LexMode,
) -> bool {
    let mut generated = Generated {
        position,
        at: 0,
        zero_generates,
    };
    form.visit(text, mode, &mut generated).is_err()
}

/// A quick check to avoid [`leaves_to_server`]: false only if no row leaves the value at `position`
/// to the server. It takes a few passes of string search instead of a walk.
pub fn may_leave_to_server(text: &[u8], position: usize, zero_generates: bool) -> bool {
    let first: [&[u8]; 6] = [b"(NULL", b"(null", b"(DEFAULT", b"(default", b"( ", b"(\n"];
    let anywhere: [&[u8]; 4] = [b"NULL", b"null", b"DEFAULT", b"default"];
    let words: &[&[u8]] = match position {
        _ if zero_generates => return true,
        0 => &first,
        _ => &anywhere,
    };
    words
        .iter()
        .any(|word| memchr::memmem::find(text, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_leave_a_number_to_the_server_are_seen() {
        let mode = LexMode::default();
        assert!(!leaves_to_server(
            &Form::Tuples,
            b"(1,NULL),(2,NULL)",
            0,
            true,
            mode
        ));
        assert!(leaves_to_server(
            &Form::Tuples,
            b"(1,NULL),(NULL,2)",
            0,
            false,
            mode
        ));
        assert!(leaves_to_server(
            &Form::Tuples,
            b"(1,2),(0,2)",
            0,
            true,
            mode
        ));
        assert!(!leaves_to_server(
            &Form::Tuples,
            b"(1,2),(0,2)",
            0,
            false,
            mode
        ));
        assert!(leaves_to_server(
            &Form::Tuples,
            b"(DEFAULT,2)",
            0,
            false,
            mode
        ));
    }

    #[test]
    fn bounds_are_whole_tuples() {
        let text = b"(1,'a),('),\n(2,'b')";
        let rows = Form::Tuples.bounds(text, LexMode::default());
        assert_eq!(
            rows.iter()
                .map(|row| &text[row.clone()])
                .collect::<Vec<_>>(),
            [b"(1,'a),(')".as_slice(), b"(2,'b')".as_slice()]
        );
    }

    #[test]
    fn halving_keeps_every_row_whole() {
        let text = b"(1,'a),(b'),(2,'c'),(3,NULL)";
        let parts = Form::Tuples.halves(text, LexMode::default());
        let texts: Vec<&[u8]> = parts
            .iter()
            .map(|(range, _)| &text[range.clone()])
            .collect();
        assert_eq!(
            texts,
            [b"(1,'a),(b')".as_slice(), b"(2,'c'),(3,NULL)".as_slice()]
        );
        assert_eq!(parts.iter().map(|(_, rows)| rows).sum::<u64>(), 3);
        assert_eq!(Form::Tuples.halves(b"(1)", LexMode::default()).len(), 1);
    }
}
