//! Tables of somebody's that are called like one of Refloat's own: a load has no place for its marks beside them.

use refloat_run::own::{all_namesakes, has_own_columns, is_own_table};
use refloat_sqltext::{LexMode, parse_create_table};
use refloat_wire::Connection;

use super::error::{LoadError, Refusal};

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

/// The refusal of a dump that creates such a table.
pub fn refused_in_dump(table: &str, line: u64) -> Refusal {
    Refusal {
        reason: format!(
            "line {line}: the dump creates a table {table} that is not Refloat's, and a load keeps what it must remember in a table of that name"
        ),
        hint: "Rename the table where the dump is made, or load the other tables with --tables, and that one by hand.".to_owned(),
    }
}

/// Refuses a target on which somebody's table has the name of one of Refloat's own.
///
/// # Errors
/// [`LoadError::Refused`] with each of them, and those of the server.
pub fn refuse_on_target(conn: &mut Connection) -> Result<(), LoadError> {
    let found = all_namesakes(conn)
        .map_err(|error| LoadError::server("looking for Refloat's own tables", error))?;
    if found.is_empty() {
        return Ok(());
    }
    let refusal = |table: String| Refusal {
        reason: format!(
            "the server has a table {table} that is not Refloat's, and a load keeps what it must remember in a table of that name; nothing was touched"
        ),
        hint: format!("Rename it first: RENAME TABLE {table} TO another name."),
    };
    Err(LoadError::Refused(found.into_iter().map(refusal).collect()))
}
