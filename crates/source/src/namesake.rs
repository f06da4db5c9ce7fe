//! Tables in a dump that have the name of one of Refloat's own.

use refloat_run::own_tables::{has_own_columns, is_own_table};
use refloat_sqltext::{LexMode, parse_create_table};

/// Whether this `CREATE TABLE`, which has the name of one of Refloat's own tables, creates a
/// different one. Text that cannot be parsed counts as Refloat's own, which is never loaded.
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
