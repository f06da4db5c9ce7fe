//! Quotes the beginning of a statement in messages.

/// Longest quote of a statement or row, in bytes.
const HEAD_MAX: usize = 120;

/// The start of `text` in printable form, with no password in it.
pub fn head(text: &[u8]) -> String {
    let cut = &text[..text.len().min(HEAD_MAX)];
    let (cut, whole) = match secret_at(cut) {
        Some(at) => (&cut[..at], false),
        None => (cut, text.len() <= HEAD_MAX),
    };
    let mut shown: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if !whole {
        shown.push('…');
    }
    shown
}

/// Where the password, or its hash, begins in a statement about an account. It must not reach a
/// message, an event or a record. Other definitions that contain these words merely have their
/// quote cut short.
fn secret_at(text: &[u8]) -> Option<usize> {
    let upper = text.to_ascii_uppercase();
    let begin = upper.trim_ascii_start();
    let behind = |word: &[u8], from: usize| {
        memchr::memmem::find(&upper[from..], word).map(|at| from + at + word.len())
    };
    if begin.starts_with(b"SET PASSWORD") {
        return behind(b"=", 0);
    }
    let verbs: [&[u8]; 3] = [b"CREATE", b"ALTER", b"GRANT"];
    if !verbs.iter().any(|verb| begin.starts_with(verb)) {
        return None;
    }
    let identified = behind(b"IDENTIFIED", 0)?;
    let words: [&[u8]; 3] = [b" BY", b" AS", b" USING"];
    let found = words.iter().filter_map(|word| behind(word, identified));
    found.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_short_and_printable() {
        assert_eq!(head(b"a\nb"), "a b");
        assert_eq!(head(&[b'x'; 500]).chars().count(), HEAD_MAX + 1);
    }

    #[test]
    fn heads_have_no_passwords() {
        for (text, shown) in [
            (
                "CREATE USER a IDENTIFIED BY 'secret'",
                "CREATE USER a IDENTIFIED BY…",
            ),
            (
                "CREATE USER a IDENTIFIED WITH 'x' AS 0x24",
                "CREATE USER a IDENTIFIED WITH 'x' AS…",
            ),
            (
                "CREATE USER a IDENTIFIED WITH x",
                "CREATE USER a IDENTIFIED WITH x",
            ),
            (
                "grant usage on *.* to a identified by password '*X'",
                "grant usage on *.* to a identified by…",
            ),
            ("SET PASSWORD FOR a = 'secret'", "SET PASSWORD FOR a =…"),
            ("GRANT SELECT ON *.* TO a", "GRANT SELECT ON *.* TO a"),
        ] {
            assert_eq!(head(text.as_bytes()), shown);
        }
    }
}
