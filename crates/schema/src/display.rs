//! Formats values for people: printable, short, and cut to where two of them differ.

use std::fmt::Write as _;

/// Number of characters of a value to show.
const SHOWN: usize = 48;
/// Number of bytes to show before the first difference.
const BEFORE: usize = 12;

/// Formats a value, starting at byte `from`.
pub fn value(cell: Option<&[u8]>, from: usize) -> String {
    let Some(bytes) = cell else {
        return "NULL".to_owned();
    };
    let mut text = String::new();
    let length = bytes.len();
    let mut cut = false;
    match std::str::from_utf8(bytes) {
        Ok(whole)
            if whole
                .chars()
                .all(|c| !c.is_control() || matches!(c, '\n' | '\t' | '\r')) =>
        {
            let from = (0..=from.min(length))
                .rev()
                .find(|at| whole.is_char_boundary(*at));
            let rest = &whole[from.unwrap_or_default()..];
            text.push_str(if from.unwrap_or_default() > 0 {
                "…'"
            } else {
                "'"
            });
            for (shown, c) in rest.chars().enumerate() {
                if shown == SHOWN {
                    cut = true;
                    break;
                }
                match c {
                    '\n' => text.push_str("\\n"),
                    '\t' => text.push_str("\\t"),
                    '\r' => text.push_str("\\r"),
                    '\'' => text.push_str("\\'"),
                    '\\' => text.push_str("\\\\"),
                    c => text.push(c),
                }
            }
            text.push('\'');
        }
        _ => {
            let rest = &bytes[from.min(length)..];
            text.push_str(if from > 0 { "…0x" } else { "0x" });
            for byte in rest.iter().take(SHOWN / 2) {
                let _ = write!(text, "{byte:02X}");
            }
            cut = rest.len() > SHOWN / 2;
        }
    }
    if cut {
        text.push('…');
    }
    if cut || from > 0 {
        let _ = write!(text, " ({length} bytes)");
    }
    text
}

/// Formats two values that differ, starting shortly before the difference.
pub fn two_values(a: Option<&[u8]>, b: Option<&[u8]>) -> (String, String) {
    let same = a
        .unwrap_or_default()
        .iter()
        .zip(b.unwrap_or_default())
        .take_while(|(a, b)| a == b)
        .count();
    let from = if same > SHOWN / 2 { same - BEFORE } else { 0 };
    (value(a, from), value(b, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printable_and_short() {
        assert_eq!(value(None, 0), "NULL");
        assert_eq!(value(Some(b""), 0), "''");
        assert_eq!(value(Some(b"a'\n"), 0), "'a\\'\\n'");
        assert_eq!(value(Some(b"\xff\x00"), 0), "0xFF00");
        assert_eq!(
            value(Some(b"\x1b[2J"), 0),
            "0x1B5B324A",
            "no terminal codes"
        );
        let long = "é".repeat(100);
        let shown = value(Some(long.as_bytes()), 0);
        assert!(shown.ends_with("é'… (200 bytes)"), "{shown}");
        assert!(shown.chars().count() < 80);
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let a = format!("{}ä{}", "x".repeat(1000), "y".repeat(1000));
        let b = a.replace('ä', "ö");
        let (a, b) = two_values(Some(a.as_bytes()), Some(b.as_bytes()));
        assert!(a.contains('ä') && b.contains('ö'), "{a} {b}");
        assert!(a.starts_with('…') && a.ends_with("(2002 bytes)"), "{a}");
        assert_eq!(two_values(Some(b"A"), None), ("'A'".into(), "NULL".into()));
    }
}
