//! The time of life of rows of system-versioned tables (MariaDB).

use refloat_sqltext::literal;
use refloat_wire::{Connection, Error};

use super::{Column, ColumnClass, Layout};

/// The column of a system-versioned table that says when a row ended, and the time that means that it has not.
#[derive(Debug, Clone)]
pub struct PeriodEnd {
    /// Its name.
    pub column: String,
    /// How this server writes it.
    pub never: &'static [u8],
    /// How others write it.
    pub never_elsewhere: &'static [u8],
}

/// The end of time, in UTC, of MariaDB up to 11.4, and where `TIMESTAMP` has 32 bits.
pub const NEVER_2038: &[u8] = b"2038-01-19 03:14:07.999999";
/// The same from MariaDB 11.5 on.
pub const NEVER_2106: &[u8] = b"2106-02-07 06:28:15.999999";

impl Layout {
    /// Takes the columns of a system-versioned table's period for such that rows fill, as they do in a session that writes history.
    pub fn with_period(
        &mut self,
        catalog: &mut Connection,
        db: &str,
        name: &str,
    ) -> Result<(), Error> {
        let named = catalog.query(format!(
            "SELECT COLUMN_NAME, GENERATION_EXPRESSION FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} \
             AND GENERATION_EXPRESSION IN ('ROW START', 'ROW END')",
            literal(db),
            literal(name)
        ))?;
        for period in named.texts(0) {
            for column in &mut self.columns {
                if column.name == period {
                    column.generated = false;
                }
            }
        }
        let end = (0..named.len()).find(|row| named.str(*row, 1) == Some("ROW END"));
        let long = catalog.query_value("SELECT FROM_UNIXTIME(4294967295) IS NOT NULL")?;
        let (never, never_elsewhere) = if long.as_deref() == Some("1") {
            (NEVER_2106, NEVER_2038)
        } else {
            (NEVER_2038, NEVER_2106)
        };
        self.period_end = Some(PeriodEnd {
            column: end
                .and_then(|row| named.str(row, 0))
                .unwrap_or("row_end")
                .to_owned(),
            never,
            never_elsewhere,
        });
        if named.is_empty() {
            // Its definition names no columns: no list shows them, and they are there.
            self.columns
                .extend(["row_start", "row_end"].map(|name| Column {
                    class: ColumnClass::of("timestamp(6)", None),
                    is_enum: false,
                    charset: None,
                    generated: false,
                    invisible: true,
                    auto_increment: false,
                    from_sequence: false,
                    needs_value: false,
                    name: name.to_owned(),
                }));
        }
        Ok(())
    }
}
