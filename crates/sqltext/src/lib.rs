//! Text of dumps: where statements and rows begin and end, what they are, and what values they hold.
//!
//! The room does no I/O, opens nothing and sends nothing; it allocates per statement, never per row or
//! value; it never changes text, but gives ranges of it. It knows the language of dump programs and of the
//! stock clients, not all of SQL: what it does not know it hands on whole.
//!
//! Read first: [`Scanner`], which cuts the input; [`StatementKind`], which says what a statement does;
//! [`RowVisitor`], which receives the values of rows.

pub mod classify;
pub mod ddl;
#[doc(hidden)]
pub mod fuzzing;
pub mod head;
pub mod ident;
pub mod mode;
pub mod modes;
pub mod scanner;
pub mod set;
pub mod token;
pub mod values;

pub use classify::{Danger, ObjectName, StatementKind, classify};
pub use ddl::{CreateTable, DdlError, Element, parse_create_table, replace_collations};
pub use head::head;
pub use ident::{literal, quote_ident, quote_ident_bytes};
pub use mode::{CharsetFamily, LexMode};
pub use modes::{Modes, SqlMode};
pub use scanner::{
    ClientCommand, CommentKind, InsertHeader, InsertVerb, Item, ItemKind, RowsPiece, ScanError,
    ScanOptions, Scanner, Step, is_dump_header,
};
pub use set::{SetAssignment, SetScope, parse_set};
pub use token::{Token, TokenKind, Tokens, tokens};
pub use values::{RowVisitor, StrLit, VisitError, visit_rows};
