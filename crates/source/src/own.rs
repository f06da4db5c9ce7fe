//! Tables of a dump that are called like one of Refloat's own.

use refloat_run::own::{has_own_columns, is_own_table};
use refloat_sqltext::{LexMode, parse_create_table};

/// Whether the text that creates a table with the name of one of Refloat's own creates another one. A text that cannot be read is taken
/// for Refloat's: that is never loaded.
pub fn is_namesake(database: &str, table: &str, text: &[u8], mode: LexMode) -> bool {
    if !is_own_table(database, table) {
        return false;
    }
    let Ok(parsed) = parse_create_table(text, mode) else {
        return false;
    };
    let columns = parsed.columns().map(|column| &column.name);
    let columns: Vec<_> = columns.map(|name| String::from_utf8_lossy(name)).collect();
    !has_own_columns(database, table, columns.iter().map(AsRef::as_ref))
}
