//! The summary of a comparison.

use std::fmt::Write as _;

use refloat_verify::{
    NamedValue, RowDifference, RowKind, SideInfo, TableDifference, VerifyOutcome,
};

use super::{Page, times};
use crate::human;

/// Maximum number of columns shown of one row.
const COLUMNS_SHOWN: usize = 6;
/// Maximum number of notes and remarks printed. The JSON outcome has all.
const REMARKS_SHOWN: usize = 20;

/// The summary of a comparison as lines of plain text without colour.
///
/// The first line says whether both sides are the same.
pub fn verify(outcome: &VerifyOutcome) -> String {
    let mut page = Page::default();
    let verdict = match (outcome.complete, outcome.differs()) {
        (true, false) if outcome.same => "the SAME",
        (true, false) => "NOT PROVEN the same",
        (true, true) => "DIFFERENT",
        (false, true) => "DIFFERENT, and not compared to the end",
        (false, false) => "NOT compared to the end",
    };
    page.heading(&format!(
        "{} and {}: {verdict}",
        outcome.a.name, outcome.b.name
    ));
    side(&mut page, "first", &outcome.a);
    side(&mut page, "second", &outcome.b);
    let mut compared = Vec::new();
    if outcome.definitions > 0 {
        compared.push(human::counted(outcome.definitions, "definition"));
    }
    if outcome.tables > 0 {
        compared.push(format!(
            "the rows of {}: {} in the first, {} in the second",
            human::counted(outcome.tables, "table"),
            human::count(outcome.a.rows),
            human::count(outcome.b.rows)
        ));
    }
    if !compared.is_empty() {
        page.line("compared", &compared.join(", "));
    }
    page.line("time", &times(outcome.seconds, &outcome.phases));
    page.rate(
        outcome.bytes_read,
        outcome.rows_read,
        outcome.seconds,
        "both sides together",
    );
    page.list(
        "definitions that differ (first / second)",
        &outcome.schema_differences,
        |one| format!("{}: {} / {}", one.about, one.a, one.b),
    );
    for difference in &outcome.table_differences.first {
        table(&mut page, difference);
    }
    let hidden = outcome.table_differences.total - outcome.table_differences.first.len() as u64;
    if hidden > 0 {
        page.entry_heading(&format!("rows of {hidden} more tables differ"));
    }
    page.plain_list("rows NOT compared", &few(&outcome.rows_not_compared));
    page.plain_list("not compared", &few(&outcome.not_compared));
    page.plain_list("notes", &few(&outcome.notes));
    page.text
}

fn few(list: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = list.iter().take(REMARKS_SHOWN).cloned().collect();
    if list.len() > REMARKS_SHOWN {
        shown.push(format!("and {} more", list.len() - REMARKS_SHOWN));
    }
    shown
}

fn side(page: &mut Page, label: &str, side: &SideInfo) {
    if side.kind.is_empty() {
        return page.line(label, "was not read");
    }
    let mut text = format!("{} of {}", side.kind, side.server);
    if !side.hostname.is_empty() {
        let _ = write!(text, " on {}", side.hostname);
    }
    if let Some(port) = side.port {
        let _ = write!(text, ":{port}");
    }
    if let Some(uuid) = &side.uuid {
        let _ = write!(text, ", uuid {uuid}");
    }
    page.line(label, &text);
    let snapshot = &side.snapshot;
    let mut moment = format!("as of {}", snapshot.at);
    if let (Some(file), Some(at)) = (&snapshot.binlog_file, snapshot.binlog_position) {
        let _ = write!(moment, ", {file} byte {at}");
    }
    if let Some(gtid) = &snapshot.gtid {
        let _ = write!(moment, ", gtid {gtid}");
    }
    if let Some(galera) = &snapshot.galera {
        let _ = write!(moment, ", galera {galera}");
    }
    page.line("", &moment);
}

fn table(page: &mut Page, table: &TableDifference) {
    let mut heading = format!(
        "rows of {} differ: {} in the first, {} in the second",
        table.table,
        human::count(table.rows_a),
        human::count(table.rows_b)
    );
    match table.ranges.len() {
        0 => {}
        1 => {
            let _ = write!(heading, ", within {}", table.ranges[0].range);
        }
        count => {
            let _ = write!(heading, ", within {count} ranges");
        }
    }
    page.entry_heading(&heading);
    for one in &table.rows {
        page.entry(&row(one));
    }
    if table.more {
        page.entry("and more");
    }
}

fn values(values: &[NamedValue]) -> String {
    let mut shown: Vec<String> = values
        .iter()
        .take(COLUMNS_SHOWN)
        .map(|value| format!("{} = {}", value.column, value.value))
        .collect();
    if values.len() > COLUMNS_SHOWN {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

fn row(row: &RowDifference) -> String {
    let files = match row.files.as_slice() {
        [] => String::new(),
        files => format!(" (in {})", files.join(", ")),
    };
    let which = match row.kind {
        RowKind::Changed => {
            let mut columns: Vec<String> = row
                .columns
                .iter()
                .take(COLUMNS_SHOWN)
                .map(|one| format!("{}: {} / {}", one.column, one.a, one.b))
                .collect();
            if row.columns.len() > COLUMNS_SHOWN {
                columns.push(format!("and {} more", row.columns.len() - COLUMNS_SHOWN));
            }
            return format!("{}: {}{files}", values(&row.key), columns.join("; "));
        }
        RowKind::OnlyA => "first",
        RowKind::OnlyB => "second",
    };
    let times = match row.times {
        1 => String::new(),
        times => format!("{times} times "),
    };
    format!("only in the {which}, {times}{}{files}", values(&row.values))
}
