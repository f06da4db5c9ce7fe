//! Removes the definer from definitions.

/// The definition of a view or program without `DEFINER=…`; a view gets `SQL SECURITY INVOKER`.
///
/// The server writes the clause in only one way: `` DEFINER=`user`@`host` ``, before the word that
/// names the kind of object, and with double quotes in sql mode `ANSI_QUOTES`.
pub fn definer(text: &[u8]) -> Vec<u8> {
    let Some(start) = memchr::memmem::find(text, b"DEFINER=") else {
        return text.to_vec();
    };
    // Only keywords can precede the clause. A quote means that the match is inside a body.
    if text[..start]
        .iter()
        .any(|byte| matches!(byte, b'`' | b'"' | b'\'' | b'('))
    {
        return text.to_vec();
    }
    let Some(end) = after_account(text, start + b"DEFINER=".len()) else {
        return text.to_vec();
    };
    let mut stripped = text[..start].to_vec();
    let rest = text[end..].strip_prefix(b" ").unwrap_or(&text[end..]);
    match rest.strip_prefix(b"SQL SECURITY DEFINER".as_slice()) {
        Some(behind) => {
            stripped.extend_from_slice(b"SQL SECURITY INVOKER");
            stripped.extend_from_slice(behind);
        }
        None => stripped.extend_from_slice(rest),
    }
    stripped
}

/// The offset after `` `user`@`host` ``, or after a role, which has no host.
fn after_account(text: &[u8], at: usize) -> Option<usize> {
    let user = after_quoted(text, at)?;
    if text.get(user) == Some(&b'@') {
        after_quoted(text, user + 1)
    } else {
        Some(user)
    }
}

fn after_quoted(text: &[u8], at: usize) -> Option<usize> {
    let quote = *text.get(at).filter(|byte| matches!(byte, b'`' | b'"'))?;
    let mut at = at + 1;
    loop {
        at += memchr::memchr(quote, text.get(at..)?)? + 1;
        if text.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        String::from_utf8(definer(text.as_bytes())).unwrap()
    }

    #[test]
    fn only_the_clause_itself_goes() {
        assert_eq!(
            of(
                "CREATE ALGORITHM=UNDEFINED DEFINER=`a``b`@`%` SQL SECURITY DEFINER VIEW `v` AS select 1"
            ),
            "CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW `v` AS select 1"
        );
        assert_eq!(of("CREATE DEFINER=\"a\"@\"%\" EVENT e"), "CREATE EVENT e");
        assert_eq!(
            of("CREATE DEFINER=`role` PROCEDURE p()"),
            "CREATE PROCEDURE p()"
        );
        let body = "CREATE PROCEDURE `p`() SELECT 'DEFINER=`a`@`b`'";
        assert_eq!(of(body), body);
        assert_eq!(of("CREATE DEFINER=`a"), "CREATE DEFINER=`a");
    }
}
