//! Whether what was read of a table is what the server had at its moment.

use refloat_schema::definition::fingerprint;
use refloat_wire::{Connection, Vendor};

use crate::catalog::{Table, show_create};
use crate::error::ReadError;
use crate::ranges;

/// `ER_WARN_ALLOWED_PACKET_OVERFLOWED`.
const CUT: u16 = 1301;

/// What servers say when a table is not what it was: `ER_TABLE_DEF_CHANGED`, `ER_NO_SUCH_TABLE`, `ER_BAD_FIELD_ERROR`,
/// `ER_KEY_DOES_NOT_EXITS`, `ER_UNKNOWN_PARTITION`.
const CHANGED: &[u16] = &[1412, 1146, 1054, 1176, 1735];

/// Makes sure that a table is defined as it was when its definition was read, but for its next `AUTO_INCREMENT` value.
///
/// # Errors
/// [`ReadError::Changed`] when it is not, or is gone.
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

/// Makes sure that ranges of text have brought every row once: two indexes may see an order of text in two ways, or one index and a condition
/// may. Somebody counts without either.
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

/// Makes sure that no value was left empty because its text does not fit: MySQL keeps JSON in a form that may be smaller, and sends nothing but
/// a warning where the text is larger than `max_allowed_packet`.
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
    // Others are about conditions (a date that is none, in a border), not about values.
    let cut = listed.iter().any(|warning| warning.code == CUT);
    // The server lists no more than max_error_count of them.
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

/// What a server says about a table that is not what it was.
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
