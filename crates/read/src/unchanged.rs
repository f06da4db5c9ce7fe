//! Checks that what was read of a table is what the server held at the moment of the snapshot.

use refloat_schema::definition::fingerprint;
use refloat_wire::{Connection, Vendor};

use crate::catalog::{Table, show_create};
use crate::error::ReadError;
use crate::ranges;

/// `ER_WARN_ALLOWED_PACKET_OVERFLOWED`.
const CUT: u16 = 1301;

/// Errors that servers return when a table has changed: `ER_TABLE_DEF_CHANGED`, `ER_NO_SUCH_TABLE`,
/// `ER_BAD_FIELD_ERROR`, `ER_KEY_DOES_NOT_EXITS`, `ER_UNKNOWN_PARTITION`.
const CHANGED: &[u16] = &[1412, 1146, 1054, 1176, 1735];

/// Checks that a table's definition is still the one that was read, apart from its next
/// `AUTO_INCREMENT` value.
///
/// # Errors
/// [`ReadError::Changed`] if it differs or the table is gone.
pub fn same_definition(conn: &mut Connection, table: &Table) -> Result<(), ReadError> {
    let statement = format!("SHOW CREATE TABLE {}", table.quoted());
    let label = format!("table {}", table.label());
    let now = show_create(conn, &label, &statement, &["Create Table"])
        .map_err(|error| changed(error, table))?;
    let print = |text: &[u8]| fingerprint(&String::from_utf8_lossy(text));
    if print(&now.text) == print(&table.create) {
        Ok(())
    } else {
        Err(ReadError::Changed { what: label })
    }
}

/// Checks that ranges with text borders returned every row exactly once. Two indexes may sort text
/// differently, and so may an index and a condition; the count uses neither.
pub fn counted(reader: &mut Connection, table: &Table, read: u64) -> Result<(), ReadError> {
    let answer = reader.query(ranges::count(table)).map_err(|error| {
        let doing = format!("counting the rows of table {}", table.label());
        changed(ReadError::server(doing, error), table)
    })?;
    match answer.u64(0, 0) {
        Some(counted) if counted != read => Err(ReadError::Uncounted {
            table: table.label(),
            read,
            counted,
        }),
        _ => Ok(()),
    }
}

/// Checks that no value came back empty because its text does not fit. MySQL stores JSON in a form
/// that may be smaller than its text, and sends only a warning when the text exceeds
/// `max_allowed_packet`.
pub fn whole(reader: &mut Connection, table: &Table, warnings: u16) -> Result<(), ReadError> {
    if warnings == 0 {
        return Ok(());
    }
    let listed = reader.warnings().map_err(|error| {
        ReadError::server(
            format!("asking for warnings of table {}", table.label()),
            error,
        )
    })?;
    // Other warnings concern conditions (an invalid date in a border), not values.
    let cut = listed.iter().any(|warning| warning.code == CUT);
    // The server lists at most `max_error_count` warnings.
    let unknown = listed.len() < usize::from(warnings)
        && reader.server().vendor == Vendor::MySql
        && table
            .columns
            .iter()
            .any(|column| column.data_type == "json");
    if cut || unknown {
        return Err(ReadError::TooLarge {
            table: table.label(),
            limit: reader.max_allowed_packet(),
        });
    }
    Ok(())
}

/// Maps a server error that means "the table has changed" to [`ReadError::Changed`].
pub fn changed(error: ReadError, table: &Table) -> ReadError {
    match &error {
        ReadError::Server { source, .. }
            if source
                .server_code()
                .is_some_and(|code| CHANGED.contains(&code)) =>
        {
            ReadError::Changed {
                what: format!("table {}", table.label()),
            }
        }
        _ => error,
    }
}
