//! Compares texts that different server versions print for the same program.

use refloat_sqltext::{LexMode, Token, TokenKind, tokens};

/// MySQL 8.0.16 and later print this for a database that is not encrypted; older versions print
/// nothing.
const NOT_ENCRYPTED: &[u8] = b" /*!80016 DEFAULT ENCRYPTION='N' */";
/// Types whose display width MySQL 8.0.19 and later omit, except with ZEROFILL.
const WIDE: &[&str] = &["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR"];

/// Whether two definitions differ only in how server versions spell them: quotes around names,
/// white space, comments, display widths, the old name of `utf8mb3`. Strings are compared verbatim.
pub fn same(a: &[u8], b: &[u8], sql_mode: &str) -> bool {
    let mode = LexMode {
        ansi_quotes: sql_mode.contains("ANSI_QUOTES"),
        no_backslash_escapes: sql_mode.contains("NO_BACKSLASH_ESCAPES"),
        ..LexMode::default()
    };
    // A definition may be printed with other quotes than it was written with.
    let other = LexMode {
        ansi_quotes: false,
        ..mode
    };
    let of_a = words(a, mode);
    of_a == words(b, mode) || of_a == words(b, other) || words(a, other) == words(b, mode)
}

fn words(text: &[u8], mode: LexMode) -> Vec<Vec<u8>> {
    let text = text.strip_suffix(NOT_ENCRYPTED).unwrap_or(text);
    let list: Vec<Token> = tokens(text, mode).collect();
    let mut words = Vec::with_capacity(list.len());
    let mut at = 0;
    while let Some(token) = list.get(at) {
        let raw = &text[token.range.clone()];
        words.push(match token.kind {
            TokenKind::QuotedName => bare(token, text).unwrap_or_else(|| raw.to_vec()),
            TokenKind::Word => modern(&String::from_utf8_lossy(raw)).into_bytes(),
            _ => raw.to_vec(),
        });
        at += 1;
        let width = WIDE.iter().any(|name| token.is(text, name))
            && list.get(at).is_some_and(|next| next.is_punct(b'('))
            && list.get(at + 2).is_some_and(|next| next.is_punct(b')'));
        let filled = list[at..]
            .iter()
            .skip(3)
            .take(2)
            .any(|word| word.is(text, "ZEROFILL"));
        if width && !filled {
            at += 3;
        }
    }
    words
}

/// The name without quotes, if it needs none.
fn bare(token: &Token, text: &[u8]) -> Option<Vec<u8>> {
    let name = token.name(text)?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let is_word = name.iter().all(plain) && !name.iter().all(u8::is_ascii_digit);
    is_word.then_some(name)
}

/// The name of a character set or collation as newer servers print it; any other word unchanged.
pub fn modern(name: &str) -> String {
    match name.strip_prefix("utf8") {
        Some(rest) if rest.is_empty() || rest.starts_with('_') => format!("utf8mb3{rest}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn spellings_of_versions() {
        let is_same = |a: &str, b: &str| same(a.as_bytes(), b.as_bytes(), "ANSI_QUOTES");
        assert!(is_same(
            "CREATE DATABASE `a`",
            "CREATE DATABASE `a` /*!80016 DEFAULT ENCRYPTION='N' */"
        ));
        assert!(is_same(
            "CREATE TRIGGER a2 BEFORE INSERT ON l83 FOR EACH ROW SET NEW.s = 'b'",
            "CREATE TRIGGER `a2` BEFORE INSERT ON `l83` FOR EACH ROW SET NEW.s = 'b'"
        ));
        assert!(is_same(
            "CREATE FUNCTION \"f\"() RETURNS int(11)\n RETURN (SELECT COUNT(*) FROM \"t\")",
            "CREATE FUNCTION \"f\"() RETURNS int\n RETURN (SELECT COUNT(*) FROM \"t\")"
        ));
        assert!(is_same(
            "CREATE FUNCTION f() RETURNS varchar(9) CHARSET utf8 COLLATE utf8_bin",
            "CREATE FUNCTION `f`() RETURNS varchar(9) CHARSET utf8mb3 COLLATE utf8mb3_bin"
        ));
        assert!(is_same("RETURNS year(4)", "RETURNS year"));
        assert!(is_same(
            "CREATE TRIGGER \"qt\" AFTER UPDATE ON \"t\" FOR EACH ROW SET @x = 'a'",
            "CREATE TRIGGER `qt` AFTER UPDATE ON `t` FOR EACH ROW SET @x = 'a'"
        ));
    }

    #[test]
    fn differences() {
        let is_same = |a: &str, b: &str| same(a.as_bytes(), b.as_bytes(), "");
        assert!(!is_same("RETURN 'a b'", "RETURN 'a  b'"));
        assert!(!is_same("RETURNS decimal(10)", "RETURNS decimal"));
        assert!(!is_same("RETURN x(11)", "RETURN x"));
        assert!(!is_same(
            "RETURNS int(5) unsigned zerofill",
            "RETURNS int(10) unsigned zerofill"
        ));
        assert!(!is_same("RETURN `1`", "RETURN 1"));
        assert!(!is_same("RETURN `'a'`", "RETURN 'a'"));
        assert!(!is_same("RETURN 'utf8'", "RETURN 'utf8mb3'"));
        assert!(!is_same("SET @a = `b`", "SET @a = 'b'"));
        assert!(!is_same(
            "CREATE DATABASE `a`",
            "CREATE DATABASE `a` /*!80016 DEFAULT ENCRYPTION='Y' */"
        ));
    }
}
