//! Conditional comments, as one server reads them.

use std::ops::Range;

use refloat_sqltext::{LexMode, ONLY_MYSQL, TokenKind, tokens};
use refloat_wire::Vendor;

use super::ServerVersion;

/// The text as `server` sees it: of the same length, with blanks for what it does not see. `None`
/// stands for a server that sees everything, which is right for a text that it printed itself.
///
/// Rules: <https://dev.mysql.com/doc/refman/8.4/en/comments.html>,
/// <https://mariadb.com/kb/en/comment-syntax/>.
pub fn as_seen_by(text: &[u8], mode: LexMode, server: Option<ServerVersion>) -> Vec<u8> {
    let mut seen = text.to_vec();
    for token in tokens(text, mode) {
        if matches!(
            token.kind,
            TokenKind::OpenConditional | TokenKind::CloseConditional
        ) {
            seen[token.range].fill(b' ');
        }
    }
    for unseen in server.map_or_else(Vec::new, |server| hidden(text, mode, server)) {
        seen[unseen].fill(b' ');
    }
    seen
}

/// Whether a statement stands wholly in conditional comments for other servers.
pub fn is_ignored_by(server: ServerVersion, text: &[u8], mode: LexMode) -> bool {
    text.starts_with(b"/*") && {
        let seen = as_seen_by(text, mode, Some(server));
        tokens(&seen, mode).code().next().is_none()
    }
}

/// The outermost conditional comments that `server` does not run.
pub(super) fn hidden(text: &[u8], mode: LexMode, server: ServerVersion) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // Where the open hidden comment begins, and at which depth.
    let mut open: Option<(usize, usize)> = None;
    let mut depth = 0_usize;
    for token in tokens(text, mode) {
        match token.kind {
            TokenKind::OpenConditional => {
                depth += 1;
                if open.is_none() && !applies(&text[token.range.clone()], server) {
                    open = Some((token.range.start, depth));
                }
            }
            TokenKind::CloseConditional => {
                if let Some((start, _)) = open.filter(|(_, at)| *at == depth) {
                    found.push(start..token.range.end);
                    open = None;
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    found
}

/// Whether the server runs what follows this opening (`/*!50100`, `/*M!100301`).
fn applies(opening: &[u8], server: ServerVersion) -> bool {
    let only_mariadb = opening.starts_with(b"/*M");
    let digits = opening.iter().filter(|byte| byte.is_ascii_digit());
    let version = digits.fold(0_u32, |sum, byte| sum * 10 + u32::from(byte - b'0'));
    let known = version <= server.number();
    match server.vendor {
        Vendor::MySql => !only_mariadb && known,
        Vendor::MariaDb => known && (only_mariadb || !ONLY_MYSQL.contains(&version)),
    }
}
