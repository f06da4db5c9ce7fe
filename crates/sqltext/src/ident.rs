//! Quoting and unquoting of names and literals.

/// A name as text, to show or compare it; bytes that are not UTF-8 are replaced.
pub fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Quotes a name with backticks and doubles those inside. The whole program quotes names here.
///
/// The bytes of the name do not change, so valid UTF-8 stays valid UTF-8.
pub fn quote_ident_bytes(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 2);
    out.push(b'`');
    for &b in name {
        if b == b'`' {
            out.push(b'`');
        }
        out.push(b);
    }
    out.push(b'`');
    out
}

/// [`quote_ident_bytes`] for text.
pub fn quote_ident(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('`');
    for c in name.chars() {
        if c == '`' {
            out.push('`');
        }
        out.push(c);
    }
    out.push('`');
    out
}

/// A string literal that reads the same under every `sql_mode` and character set of a session.
pub fn literal(text: &str) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$' | b' ' | b'.');
    if text.bytes().all(plain) {
        return format!("'{text}'");
    }
    let digits = text
        .bytes()
        .fold(String::new(), |out, byte| out + &format!("{byte:02X}"));
    format!("CONVERT(x'{digits}' USING utf8mb4)")
}

/// Undoubles the quotes in `inner`, the bytes between the outer quotes.
pub(crate) fn fold_doubled(inner: &[u8], quote: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len());
    let mut skip = false;
    for &b in inner {
        if skip {
            skip = false;
            if b == quote {
                continue;
            }
        }
        out.push(b);
        skip = b == quote;
    }
    out
}
