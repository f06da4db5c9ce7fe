//! Guesses the type of a file, for a clear message when it is not a dump.

use std::fmt;

/// What the first bytes of a source look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LooksLike {
    /// SQL text, as a load needs it.
    Sql,
    /// Text of no known kind.
    Text,
    /// A plain-text dump of `PostgreSQL`.
    PostgresText,
    /// A custom-format dump of `PostgreSQL` (`PGDMP`).
    PostgresCustom,
    /// An `SQLite` database file.
    Sqlite,
    /// UTF-16 text (usually a dump redirected with `>` in `PowerShell`).
    Utf16,
    /// A web page: usually an error page that a download saved.
    Html,
    /// A tar archive.
    Tar,
    /// An xbstream archive of mariadb-backup or xtrabackup.
    Xbstream,
    /// A stream of mydumper (`--stream`).
    MydumperStream,
    /// An InnoDB tablespace (`.ibd`).
    InnodbTablespace,
    /// A server's binary log.
    Binlog,
    /// A zip archive.
    Zip,
    /// A 7z archive.
    SevenZip,
    /// An lz4 stream.
    Lz4,
    /// A qpress archive.
    Qpress,
    /// Compressed data inside a compressed stream.
    Compressed,
    /// An encrypted file (gpg, age, OpenSSL).
    Encrypted,
    /// A program (ELF).
    Program,
    /// A picture (PNG, JPEG, GIF).
    Image,
    /// A PDF document.
    Pdf,
    /// Binary data of no known kind.
    Binary,
    /// No bytes at all.
    Empty,
}

impl LooksLike {
    /// Whether this may be text with statements.
    pub fn is_text(self) -> bool {
        matches!(
            self,
            Self::Sql | Self::Text | Self::PostgresText | Self::Html
        )
    }
}

impl fmt::Display for LooksLike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sql => "SQL text",
            Self::Text => "text of an unknown kind",
            Self::PostgresText => "a PostgreSQL dump",
            Self::PostgresCustom => "a PostgreSQL custom-format dump",
            Self::Sqlite => "an SQLite database",
            Self::Utf16 => "text in UTF-16",
            Self::Html => "a web page",
            Self::Tar => "a tar archive",
            Self::Xbstream => "an xbstream archive of a physical backup",
            Self::MydumperStream => "a mydumper stream",
            Self::InnodbTablespace => "an InnoDB tablespace",
            Self::Binlog => "a binary log",
            Self::Zip => "a zip archive",
            Self::SevenZip => "a 7z archive",
            Self::Lz4 => "an lz4 stream",
            Self::Qpress => "a qpress archive",
            Self::Compressed => "a file that is compressed twice",
            Self::Encrypted => "an encrypted file",
            Self::Program => "a program",
            Self::Image => "a picture",
            Self::Pdf => "a PDF document",
            Self::Binary => "binary data of an unknown kind",
            Self::Empty => "empty",
        })
    }
}

/// Magic bytes that identify a type on their own.
const MAGICS: &[(&[u8], LooksLike)] = &[
    (b"PGDMP", LooksLike::PostgresCustom),
    (b"SQLite format 3\0", LooksLike::Sqlite),
    (b"\xff\xfe", LooksLike::Utf16),
    (b"\xfe\xff", LooksLike::Utf16),
    (b"XBSTCK01", LooksLike::Xbstream),
    (b"\xfebin", LooksLike::Binlog),
    (b"PK\x03\x04", LooksLike::Zip),
    (b"PK\x05\x06", LooksLike::Zip),
    (b"7z\xbc\xaf\x27\x1c", LooksLike::SevenZip),
    (b"\x04\x22\x4d\x18", LooksLike::Lz4),
    (b"qpress10", LooksLike::Qpress),
    (b"\x1f\x8b", LooksLike::Compressed),
    (b"\x28\xb5\x2f\xfd", LooksLike::Compressed),
    (b"\xfd7zXZ\0", LooksLike::Compressed),
    (b"BZh", LooksLike::Compressed),
    (b"-----BEGIN PGP MESSAGE", LooksLike::Encrypted),
    (b"age-encryption.org/", LooksLike::Encrypted),
    (b"-----BEGIN AGE ENCRYPTED", LooksLike::Encrypted),
    (b"Salted__", LooksLike::Encrypted),
    (b"\x7fELF", LooksLike::Program),
    (b"\x89PNG", LooksLike::Image),
    (b"\xff\xd8\xff", LooksLike::Image),
    (b"GIF8", LooksLike::Image),
    (b"%PDF-", LooksLike::Pdf),
];

/// First words of the statements that dumps begin with.
const WORDS: &[&str] = &[
    "alter",
    "begin",
    "call",
    "change",
    "commit",
    "create",
    "delete",
    "delimiter",
    "do",
    "drop",
    "flush",
    "grant",
    "insert",
    "load",
    "lock",
    "optimize",
    "rename",
    "replace",
    "revoke",
    "rollback",
    "select",
    "set",
    "show",
    "start",
    "system",
    "truncate",
    "unlock",
    "update",
    "use",
    "with",
    "analyze",
];

/// Guesses the type of a source from its first bytes; a few hundred suffice.
pub fn looks_like(head: &[u8]) -> LooksLike {
    if head.is_empty() {
        return LooksLike::Empty;
    }
    if let Some((_, kind)) = MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *kind;
    }
    if head.get(257..262) == Some(b"ustar") {
        return LooksLike::Tar;
    }
    if is_utf16(head) {
        return LooksLike::Utf16;
    }
    // Page 0 of a tablespace: page number 0, page type 8 (FSP header).
    if head.len() >= 38 && head[4..8] == [0; 4] && head[24..26] == [0, 8] {
        return LooksLike::InnodbTablespace;
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = text.trim_ascii_start();
    if head.starts_with(b"\n-- ") && mydumper_header(text) {
        return LooksLike::MydumperStream;
    }
    if text.starts_with(b"--") && contains(text, b"PostgreSQL database") {
        return LooksLike::PostgresText;
    }
    if text.starts_with(b"<") {
        return LooksLike::Html;
    }
    let comment = text.starts_with(b"--") || text.starts_with(b"/*") || text.starts_with(b"#");
    if comment || first_word(text) {
        return LooksLike::Sql;
    }
    let odd = head
        .iter()
        .filter(|b| **b < 0x20 && !b"\t\n\r\x0c".contains(b))
        .count();
    // Text may contain a stray control byte; binary data contains many.
    if odd * 50 > head.len() || head.contains(&0) {
        return LooksLike::Binary;
    }
    if std::str::from_utf8(head).map_or_else(|e| e.valid_up_to() + 4 >= head.len(), |_| true) {
        LooksLike::Text
    } else {
        LooksLike::Binary
    }
}

/// Whether this is UTF-16 text as Windows writes it: little-endian, here without a byte order mark.
fn is_utf16(head: &[u8]) -> bool {
    let begin = head.get(..16).unwrap_or_default();
    !begin.is_empty()
        && begin
            .chunks(2)
            .all(|pair| pair[1] == 0 && matches!(pair[0], b'\t' | b'\n' | b'\r' | b' '..=b'~'))
}

/// Whether a file header of a mydumper stream begins here: `-- name.sql` or `-- metadata…` with a
/// length on the same line. Streams of old versions have no length; those are recognised by the
/// names that come first.
fn mydumper_header(text: &[u8]) -> bool {
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else {
        return false;
    };
    let Some(line) = line.strip_prefix("-- ") else {
        return false;
    };
    match line.rsplit_once(' ') {
        Some((name, length)) => {
            (name.contains("metadata") || name.contains(".sql") || name.contains(".dat"))
                && length.parse::<u64>().is_ok()
        }
        None => {
            line.starts_with("metadata.")
                || line.contains("-schema-create.sql")
                || line.contains("-schema.sql")
        }
    }
}

fn first_word(text: &[u8]) -> bool {
    let end = text
        .iter()
        .position(|b| !b.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let next = text.get(end).copied().unwrap_or(b' ');
    let Ok(word) = std::str::from_utf8(&text[..end]) else {
        return false;
    };
    (next.is_ascii_whitespace() || b"`('\"@;/".contains(&next))
        && WORDS.iter().any(|w| w.eq_ignore_ascii_case(word))
}

fn contains(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|w| w == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let sql: &[&[u8]] = &[
            b"-- MySQL dump 10.13",
            b"/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump",
            b"\xef\xbb\xbfCREATE TABLE t",
            b"\n\n  insert into `t` values (1)",
            b"SET @OLD=1;",
            b"# comment\nUSE x;",
            b"USE`x`;",
        ];
        for head in sql {
            assert_eq!(looks_like(head), LooksLike::Sql, "{head:?}");
        }
        assert_eq!(
            looks_like(b"--\n-- PostgreSQL database dump\n--"),
            LooksLike::PostgresText
        );
        assert_eq!(looks_like(b"PGDMP\x01\x0e"), LooksLike::PostgresCustom);
        assert_eq!(looks_like(b"<!DOCTYPE html>"), LooksLike::Html);
        assert_eq!(looks_like(b"\xff\xfe-\0-\0"), LooksLike::Utf16);
        assert_eq!(
            looks_like(b"-\0-\0 \0M\0y\0S\0Q\0L\0 \0d\0"),
            LooksLike::Utf16
        );
        assert_eq!(looks_like(b"-\0-\0 \0\0\0\0\0S\0Q\0L\0"), LooksLike::Binary);
        assert_eq!(looks_like(b"XBSTCK01\0P"), LooksLike::Xbstream);
        assert_eq!(
            looks_like(b"\n-- metadata.header 123\n"),
            LooksLike::MydumperStream
        );
        let streams: &[&[u8]] = &[
            b"\n-- a db.a table.00000.sql.zst 123\n",
            b"\n-- metadata.partial.0\n[config]\n",
            b"\n-- db-schema-create.sql\nCREATE DATABASE",
        ];
        for head in streams {
            assert_eq!(looks_like(head), LooksLike::MydumperStream, "{head:?}");
        }
        assert_eq!(looks_like(b"\n-- backup of 2024\nUSE x;"), LooksLike::Sql);
        assert_eq!(looks_like(b"hello, this is a letter"), LooksLike::Text);
        assert_eq!(looks_like(b"settings: nothing"), LooksLike::Text);
        assert_eq!(looks_like(&[0, 1, 2, 3, 200, 201]), LooksLike::Binary);
        assert_eq!(looks_like(b""), LooksLike::Empty);
        assert_eq!(
            looks_like("ein Brief mit Umlauten: äöü".as_bytes()),
            LooksLike::Text
        );
        let mut tar = vec![0u8; 512];
        tar[..5].copy_from_slice(b"a.sql");
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(looks_like(&tar), LooksLike::Tar);
        let mut page = vec![0x5au8; 64];
        page[4..8].fill(0);
        page[24..26].copy_from_slice(&[0, 8]);
        assert_eq!(looks_like(&page), LooksLike::InnodbTablespace);
    }
}
