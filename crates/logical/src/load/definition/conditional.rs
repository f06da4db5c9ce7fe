//! Conditional comments, as one server reads them.

use refloat_sqltext::{LexMode, TokenKind, tokens};
use refloat_wire::Vendor;

use super::ServerVersion;

/// The text as `server` sees it: of the same length, with blanks for what it does not see. `None` is a server that sees
/// everything, which is so for a text that it printed itself.
///
/// Rules: <https://dev.mysql.com/doc/refman/8.4/en/comments.html>, <https://mariadb.com/kb/en/comment-syntax/>.
pub fn as_seen_by(text: &[u8], mode: LexMode, server: Option<ServerVersion>) -> Vec<u8> {
    let mut seen = text.to_vec();
    // Where the outermost part that is not seen begins, and at which depth.
    let mut hidden: Option<(usize, usize)> = None;
    let mut depth = 0_usize;
    for token in tokens(text, mode) {
        match token.kind {
            TokenKind::OpenConditional => {
                depth += 1;
                let applies =
                    server.is_none_or(|server| applies(&text[token.range.clone()], server));
                if hidden.is_none() && !applies {
                    hidden = Some((token.range.start, depth));
                }
                blank(&mut seen[token.range]);
            }
            TokenKind::CloseConditional => {
                if let Some((start, _)) = hidden.filter(|(_, at)| *at == depth) {
                    blank(&mut seen[start..token.range.end]);
                    hidden = None;
                }
                depth = depth.saturating_sub(1);
                blank(&mut seen[token.range]);
            }
            _ => {}
        }
    }
    seen
}

/// What of a text `server` passes over, and would change what is defined: the outermost conditional comments, as they stand.
pub fn passed_over(text: &[u8], mode: LexMode, server: ServerVersion) -> Vec<String> {
    let mut found = Vec::new();
    let mut hidden: Option<(usize, usize)> = None;
    let mut depth = 0_usize;
    for token in tokens(text, mode) {
        match token.kind {
            TokenKind::OpenConditional => {
                depth += 1;
                if hidden.is_none() && !applies(&text[token.range.clone()], server) {
                    hidden = Some((token.range.start, depth));
                }
            }
            TokenKind::CloseConditional => {
                if let Some((start, _)) = hidden.filter(|(_, at)| *at == depth) {
                    let comment = String::from_utf8_lossy(&text[start..token.range.end]);
                    if !says_nothing(&comment) {
                        found.push(comment.into_owned());
                    }
                    hidden = None;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    found
}

/// Whether a comment only says what is so without it.
fn says_nothing(comment: &str) -> bool {
    ["ENCRYPTION='N'", "TABLESPACE `innodb_file_per_table`"]
        .iter()
        .any(|default| comment.contains(default))
}

fn blank(bytes: &mut [u8]) {
    bytes.fill(b' ');
}

/// Whether the server runs what stands behind this opening (`/*!50100`, `/*M!100301`).
fn applies(opening: &[u8], server: ServerVersion) -> bool {
    /// MariaDB takes no word meant for these versions of MySQL, which it does not follow.
    const ONLY_MYSQL: std::ops::RangeInclusive<u32> = 50_700..=99_999;
    let only_mariadb = opening.starts_with(b"/*M");
    let digits = opening.iter().filter(|byte| byte.is_ascii_digit());
    let version = digits.fold(0_u32, |sum, byte| sum * 10 + u32::from(byte - b'0'));
    let known = version <= server.number();
    match server.vendor {
        Vendor::MySql => !only_mariadb && known,
        Vendor::MariaDb => known && (only_mariadb || !ONLY_MYSQL.contains(&version)),
    }
}
