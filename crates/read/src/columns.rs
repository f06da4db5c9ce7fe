//! Reads the columns of a table from the server.

use std::time::{Duration, Instant};

use refloat_schema::columns::{Column, Layout, NEVER_2038, NEVER_2106, PeriodEnd};
use refloat_sqltext::{literal, quote_ident};
use refloat_wire::{Connection, Error, ResultSet};

/// `ER_WARN_I_S_SKIPPED_TABLE`.
const BEING_ALTERED: u16 = 1684;
/// How long to wait for the table, and the pause between two attempts.
const ALTERED_WAIT: Duration = Duration::from_secs(60);
const ALTERED_PAUSE: Duration = Duration::from_millis(20);

/// Reads the columns of a table.
pub fn read(
    catalog: &mut Connection,
    db: &str,
    name: &str,
    transactional: bool,
    versioned: bool,
) -> Result<Layout, Error> {
    let result = show_columns(catalog, db, name)?;
    let mut columns = Vec::with_capacity(result.rows.len());
    for row in &result.rows {
        let cell = |index: usize| {
            row.get(index)
                .and_then(|cell| cell.as_deref())
                .map(|cell| String::from_utf8_lossy(cell).into_owned())
        };
        let text = |index: usize| cell(index).unwrap_or_default();
        let default = cell(5).map(|default| default.to_ascii_lowercase());
        let column = Column::listed(&text(0), &text(1), cell(2).as_deref(), &text(6));
        columns.push(Column {
            from_sequence: default.as_deref().is_some_and(|default| {
                default.contains("nextval(") || default.contains("next value for")
            }),
            needs_value: text(3) == "NO"
                && default.is_none()
                && !column.auto_increment
                && !text(6).to_ascii_uppercase().contains("GENERATED"),
            ..column
        });
    }
    Ok(Layout::of(columns, transactional, versioned))
}

/// Runs `SHOW FULL COLUMNS`. MySQL refuses while another session adds a foreign key that references
/// the table or one of its columns. This load does so itself, so wait.
fn show_columns(conn: &mut Connection, db: &str, name: &str) -> Result<ResultSet, Error> {
    let statement = format!(
        "SHOW FULL COLUMNS FROM {}.{}",
        quote_ident(db),
        quote_ident(name)
    );
    let begun = Instant::now();
    loop {
        match conn.query(&statement) {
            Err(error)
                if error.server_code() == Some(BEING_ALTERED) && begun.elapsed() < ALTERED_WAIT =>
            {
                std::thread::sleep(ALTERED_PAUSE);
            }
            result => return result,
        }
    }
}

/// Treats the period columns of a system-versioned table as columns that rows fill, as they do in a
/// session that writes history.
pub fn with_period(
    layout: &mut Layout,
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
        for column in &mut layout.columns {
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
    layout.period_end = Some(PeriodEnd {
        column: end
            .and_then(|row| named.str(row, 0))
            .unwrap_or("row_end")
            .to_owned(),
        never,
        never_elsewhere,
    });
    if named.is_empty() {
        // The definition names no period columns: they exist, but no listing shows them.
        layout.columns.extend(
            ["row_start", "row_end"]
                .map(|name| Column::listed(name, "timestamp(6)", None, "INVISIBLE")),
        );
    }
    Ok(())
}
