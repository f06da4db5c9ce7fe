//! Splits the text of a dump into statements and rows, classifies statements, and reads row values.
//!
//! This crate does no I/O. It allocates per statement, never per row or value, and never modifies
//! text: it returns ranges into it. It knows the SQL that dump programs write and the stock clients
//! accept, not all of SQL; anything else passes through whole.
//!
//! Start with [`Scanner`], which cuts the input; [`StatementKind`], which says what a statement
//! does; and [`RowVisitor`], which receives the values of rows.

pub mod classify;
pub mod ddl;
pub mod frame;
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
pub use frame::Frame;
pub use head::head;
pub use ident::{literal, quote_ident, quote_ident_bytes, shown};
pub use mode::{CharsetFamily, LexMode};
pub use modes::{Modes, SqlMode};
pub use scanner::{
    BYTE_ORDER_MARK, ClientCommand, CommentKind, DUMP_COMPLETED, InsertHeader, InsertVerb, Item,
    ItemKind, REFLOAT_DUMP, RowsPiece, ScanError, ScanOptions, Scanner, Step, is_dump_header,
};
pub use set::{SetAssignment, SetScope, parse_set};
pub use token::{ONLY_MYSQL, Token, TokenKind, Tokens, tokens};
pub use values::{RowVisitor, StrLit, VisitError, visit_rows};
