//! Refuses other tables that have the name of one of Refloat's own: they would leave no place for
//! the marks of a load.

use refloat_run::Refusal;
use refloat_run::own_tables::all_namesakes;
use refloat_wire::Connection;

use super::error::LoadError;

/// The refusal of a dump that creates such a table.
pub fn refused_in_dump(table: &str, line: u64) -> Refusal {
    Refusal {
        reason: format!(
            "line {line}: the dump creates a table {table} that is not Refloat's, but a load keeps \
            its own records in a table of that name"
        ),
        hint: "Rename the table where the dump is made, or load the other tables with --tables, and that one by hand.".to_owned(),
    }
}

/// Refuses a target that has a table with the name of one of Refloat's own.
///
/// # Errors
/// [`LoadError::Refused`] with each such table, and errors of the server.
pub fn refuse_on_target(conn: &mut Connection) -> Result<(), LoadError> {
    let found = all_namesakes(conn)
        .map_err(|error| LoadError::server("looking for Refloat's own tables", error))?;
    if found.is_empty() {
        return Ok(());
    }
    let refusal = |table: String| Refusal {
        reason: format!(
            "the server has a table {table} that is not Refloat's, but a load keeps its own \
            records in a table of that name; nothing was touched"
        ),
        hint: format!("Rename it first: RENAME TABLE {table} TO another name."),
    };
    Err(LoadError::Refused(found.into_iter().map(refusal).collect()))
}
