//! Replaces names of character sets and collations in statements.

use crate::mode::LexMode;
use crate::token::{Token, TokenKind, tokens};

/// Replaces names of character sets and collations in a statement, outside strings and comments:
/// after `COLLATE`, `CHARSET` and `CHARACTER SET`, in `SET NAMES`, in assignments to variables such
/// as `collation_connection`, and as introducers (`_utf8mb4'…'`).
///
/// `map` gets each name in lower case and returns the new one, or `None` to keep it. The result is
/// `None` when nothing changes.
pub fn replace_collations(
    text: &[u8],
    mode: LexMode,
    map: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let list: Vec<Token> = tokens(text, mode).code().collect();
    let mut out = Vec::new();
    let mut copied = 0;
    for (i, token) in list.iter().enumerate() {
        let name = &text[token.range.clone()];
        let mut range = token.range.clone();
        let name = match token.kind {
            TokenKind::Word if is_introducer(text, &list, i) => {
                range.start += 1;
                &name[1..]
            }
            TokenKind::Word if follows_naming_word(text, &list, i) => name,
            TokenKind::Text | TokenKind::QuotedName if follows_naming_word(text, &list, i) => {
                range = range.start + 1..range.end - 1;
                &name[1..name.len() - 1]
            }
            _ => continue,
        };
        if let Some(new) = map(&name.to_ascii_lowercase()) {
            out.extend_from_slice(&text[copied..range.start]);
            out.extend_from_slice(&new);
            copied = range.end;
        }
    }
    if copied == 0 {
        return None;
    }
    out.extend_from_slice(&text[copied..]);
    Some(out)
}

fn is_introducer(text: &[u8], list: &[Token], i: usize) -> bool {
    let literal = list.get(i + 1).is_some_and(|next| {
        let bytes = &text[next.range.clone()];
        next.kind == TokenKind::Text
            || bytes.starts_with(b"0x")
            || matches!(bytes, b"x" | b"X" | b"b" | b"B")
    });
    literal && text[list[i].range.start] == b'_'
}

/// Do the words before token `i` make it the name of a character set or collation?
fn follows_naming_word(text: &[u8], list: &[Token], i: usize) -> bool {
    let word = |back: usize| i.checked_sub(back).and_then(|i| list.get(i));
    let is = |back: usize, keyword: &str| word(back).is_some_and(|t| t.is(text, keyword));
    let equals = word(1).is_some_and(|t| t.is_punct(b'='));
    let back = 1 + usize::from(equals);
    if is(back, "COLLATE")
        || is(back, "CHARSET")
        || (is(back, "SET") && (is(back + 1, "CHARACTER") || is(back + 1, "CHAR")))
    {
        return true;
    }
    if !equals {
        return is(1, "NAMES") && is(2, "SET");
    }
    word(2).is_some_and(|t| {
        let variable = text[t.range.clone()].to_ascii_lowercase();
        t.kind == TokenKind::Word
            && (variable.starts_with(b"collation_") || variable.starts_with(b"character_set_"))
    })
}
