//! The items that the scanner emits.

use std::ops::Range;
use std::sync::Arc;

use crate::classify::StatementKind;

/// Outcome of one call of [`Scanner::next`](crate::Scanner::next).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The buffer holds no complete item: append more bytes and call again.
    NeedMore,
    /// One item; drop its [`len`](Item::len) bytes from the front of the buffer.
    Item(Item),
    /// All input has been emitted.
    End,
}

/// One cut of the input. Concatenated, the bytes of all items are the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What the item contains.
    pub kind: ItemKind,
    /// Bytes to drop from the front of the buffer: leading blanks, the text, the delimiter.
    pub len: usize,
    /// The text within the buffer, without surrounding blanks and without the delimiter.
    pub text: Range<usize>,
    /// Offset of `text` in the whole input, in bytes from 0.
    pub offset: u64,
    /// Line of `text` in the whole input, from 1.
    pub line: u64,
    /// False when a statement, or its last piece, ends at the end of the input instead of at a
    /// delimiter. The stock client sends such a statement; in a dump it means that bytes are
    /// missing.
    pub terminated: bool,
}

/// What an [`Item`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A whole statement, to be sent as it is.
    Statement(StatementKind),
    /// A run of complete tuples of an `INSERT … VALUES` or `REPLACE … VALUES`.
    Rows(RowsPiece),
    /// A line for the stock client, not for the server.
    ClientCommand(ClientCommand),
    /// A comment outside any statement.
    Comment(CommentKind),
    /// Blanks at the end, a byte order mark, or an empty statement.
    Blank,
}

/// How the last line of a dump begins that its program has brought to the end.
pub const DUMP_COMPLETED: &[u8] = b"-- Dump completed";

/// Comments that the loader cares about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentKind {
    /// No special meaning.
    Plain,
    /// [`DUMP_COMPLETED`]: the dump program reached its end.
    DumpCompleted,
    /// `-- MySQL dump …`, `-- MariaDB dump …` or `-- refloat dump …`: the first line of a dump.
    DumpHeader,
    /// MariaDB's `/*!999999\- enable the sandbox mode */` (or `/*M!…`).
    SandboxMode,
}

/// Commands of the stock client. Only `DELIMITER` takes effect here; the loader decides about the
/// others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// `DELIMITER x`, already in effect for the next item.
    Delimiter(Vec<u8>),
    /// `system`, `\!`: runs a program.
    System,
    /// `source`, `\.`: reads another file.
    Source,
    /// `tee`, `\T`: writes a file.
    Tee,
    /// `pager`, `\P`: runs a program.
    Pager,
    /// `charset`, `\C`: changes the character set of both client and session.
    Charset,
    /// Any other command, by its long name or its letter.
    Other(Vec<u8>),
}

/// Verb of an insert statement that is cut into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InsertVerb {
    /// `INSERT`: a duplicate key is an error.
    Insert,
    /// `INSERT IGNORE`: rows with a duplicate key are skipped.
    InsertIgnore,
    /// `REPLACE`: rows with a duplicate key take the place of the old ones.
    Replace,
}

/// Everything in an insert statement before its first tuple.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InsertHeader {
    /// `INSERT`, `INSERT IGNORE` or `REPLACE`.
    pub verb: InsertVerb,
    /// Database, unquoted bytes; `None` when the table name is not qualified.
    pub database: Option<Vec<u8>>,
    /// Table name, unquoted bytes.
    pub table: Vec<u8>,
    /// Columns in list order, unquoted; `None` when the statement has no list.
    pub columns: Option<Vec<Vec<u8>>>,
    /// Verbatim text from the verb up to and including `VALUES` and the blanks after it, so that
    /// `text` + rows is a statement.
    pub text: Vec<u8>,
}

/// A run of complete tuples of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsPiece {
    /// Shared by all pieces of the statement, and by later statements with the same header text.
    pub header: Arc<InsertHeader>,
    /// `(…),(…)` within the buffer, without a trailing comma or delimiter.
    pub rows: Range<usize>,
    /// Number of tuples.
    pub row_count: u64,
    /// At least one tuple holds more than literals: a nested parenthesis, `@`, an operator, a
    /// backtick, a comment. `false` is no guarantee (`1-2` looks like literals); the value visitor
    /// has the last word.
    pub complex: bool,
    /// First piece of its statement.
    pub first: bool,
    /// Last piece of its statement.
    pub last: bool,
}

/// How the first line of an SQL dump of this program begins.
pub const REFLOAT_DUMP: &[u8] = b"-- refloat dump ";

/// Whether a text begins with the first line of a dump made by mysqldump, mariadb-dump or
/// `refloat dump --format sql`.
pub fn is_dump_header(text: &[u8]) -> bool {
    let heads: [&[u8]; 3] = [b"-- MySQL dump ", b"-- MariaDB dump ", REFLOAT_DUMP];
    heads.iter().any(|head| text.starts_with(head))
}
