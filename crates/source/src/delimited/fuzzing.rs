//! Bodies of the fuzz target, so that ordinary tests can replay its corpus. Not part of the public
//! API.

use refloat_sqltext::RowVisitor;

use super::Delimited;

/// Collects the offsets at which rows end.
struct Ends(Vec<usize>);

impl RowVisitor for Ends {
    type Error = std::convert::Infallible;

    fn end_row(&mut self, end: usize) -> Result<(), Self::Error> {
        self.0.push(end);
        Ok(())
    }
}

/// Body of the fuzz target: the first byte selects the format, the second the run size.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let [rules, target, text @ ..] = data else {
        return;
    };
    let csv = Delimited {
        field_end: b",".to_vec(),
        enclosed: Some(b'"'),
        null_word: Some(b"NULL".to_vec()),
        ..Delimited::default()
    };
    let format = match rules % 6 {
        0 => Delimited::default(),
        1 => csv,
        2 => Delimited {
            line_end: b"\r\n".to_vec(),
            ..csv
        },
        3 => Delimited {
            escaped: None,
            ..csv
        },
        4 => Delimited {
            escaped: Some(b'"'),
            ..csv
        },
        _ => Delimited {
            field_end: b"\x01|".to_vec(),
            line_end: b"\x02\n".to_vec(),
            line_start: b"<<".to_vec(),
            ..Delimited::default()
        },
    };
    check_walks(&format, text, usize::from(*target) + 1);
}

/// Checks that cutting yields runs of whole rows which cover the text, and as many rows as visiting
/// finds.
///
/// # Panics
/// If it does not.
#[doc(hidden)]
pub fn check_walks(format: &Delimited, text: &[u8], target: usize) {
    let mut whole = Ends(Vec::new());
    let readable = format.visit(text, &[], &mut whole).is_ok();
    let (mut at, mut rows) = (0, 0);
    while let Some(run) = format.cut(&text[at..], target, true) {
        assert!(run.len > 0 && run.rows > 0, "{run:?}");
        at += run.len;
        rows += run.rows;
        if readable {
            let end = whole.0.get(rows as usize - 1).copied();
            assert_eq!(end, Some(at), "a run ends where a row does");
        }
    }
    assert_eq!(at, text.len());
    assert!(!readable || rows == whole.0.len() as u64);
}
