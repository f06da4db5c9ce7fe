//! The summary of a copy.

use refloat_copy::{CopyOutcome, CopyPlan};

use super::{Page, dump, headline, loaded, planned};
use crate::human;

/// The summary of a copy as lines of text: the contents of the target, and the moment of the
/// snapshot.
pub fn copy(outcome: &CopyOutcome) -> String {
    let mut page = Page::default();
    page.heading(&headline("copy", &outcome.load, outcome.verified.as_ref()));
    if !outcome.source_server.is_empty() {
        page.line("source", &outcome.source_server);
    }
    // Known once all rows were read.
    if !outcome.snapshot.at.is_empty() {
        dump::moment(&mut page, &outcome.snapshot);
        dump::cost(&mut page, &outcome.snapshot_cost);
    }
    loaded(&mut page, &outcome.load);
    page.plain_list("notes", &outcome.notes);
    page.text
}

/// The plan of a copy as lines of text.
pub fn copy_plan(plan: &CopyPlan) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "copy of {} into {} ({}): the plan; nothing was touched",
        plan.load.source, plan.load.target, plan.load.server
    ));
    let rows = plan.load.tables.iter().map(|table| table.rows).sum();
    page.line("source", &plan.source_server);
    page.line(
        "rows",
        &format!(
            "about {} in {}, {}, as the source estimates",
            human::count(rows),
            human::counted(plan.load.tables.len() as u64, "table"),
            human::bytes(plan.load.bytes)
        ),
    );
    planned(&mut page, &plan.load);
    page.plain_list("notes", &plan.notes);
    page.text
}
