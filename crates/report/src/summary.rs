//! The summary at the end of a run: work, speed, bottleneck, changed settings and proof.

use std::fmt::Write as _;
use std::time::Duration;

use refloat_load::{GaleraOutcome, LoadOutcome, LoadPlan, TableOutcome, WritePath};
use refloat_run::outcome::Bounded;
use refloat_run::phases::PhaseTime;
use refloat_verify::VerifyOutcome;

use crate::human;
use crate::terminal::fit;

pub use backup::{
    backup, backup_list, backup_plan, backup_shown, binlog_archive, binlog_list, imported, rebuild,
    rebuild_plan, restore_backup, restore_backup_plan, verified,
};
pub use copy::{copy, copy_plan};
pub use dump::dump;
pub use verify::verify;

mod backup;
mod copy;
mod dump;
mod verify;

/// Width of the label column.
const LABEL_WIDTH: usize = 11;
/// Maximum number of list entries printed. The JSON outcome has more.
const SHOWN: usize = 10;
/// Maximum width of a list entry, in cells.
const ENTRY_WIDTH: usize = 300;

/// The summary of a load as lines of plain text without colour.
///
/// The first line says whether the load is proven. If it is not, the summary lists what is loaded
/// and what is not.
pub fn load(outcome: &LoadOutcome, verified: Option<&VerifyOutcome>) -> String {
    let mut page = Page::default();
    page.heading(&headline("load", outcome, verified));
    loaded(&mut page, outcome);
    page.text
}

/// Everything below the headline.
fn loaded(page: &mut Page, outcome: &LoadOutcome) {
    work(page, outcome);
    if let Some(galera) = &outcome.galera {
        cluster(page, galera);
    }
    settings(page, outcome);
    checks(page, outcome);
    if !outcome.proven {
        leftovers(page, outcome);
    }
    page.list("left out on purpose", &outcome.skipped, Clone::clone);
    page.list(
        "not run, because it is there already",
        &outcome.kept,
        Clone::clone,
    );
    // Advice on speed does not help with a failure.
    if outcome.proven && outcome.rows > 0 {
        page.plain_list("advice", &outcome.advice);
    }
}

/// The plan of a load as lines of text.
pub fn load_plan(plan: &LoadPlan) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "load of {} into {} ({}): the plan; nothing was touched",
        plan.source, plan.target, plan.server
    ));
    let rows = plan.tables.iter().map(|table| table.rows).sum();
    page.line(
        "dump",
        &format!("{} of text, {}", human::bytes(plan.bytes), plan.compression),
    );
    page.line(
        "rows",
        &format!(
            "{} in {}",
            human::count(rows),
            human::counted(plan.tables.len() as u64, "table")
        ),
    );
    planned(&mut page, plan);
    page.text
}

/// What is planned for the target.
fn planned(page: &mut Page, plan: &LoadPlan) {
    if !plan.databases.is_empty() {
        page.line("databases", &plan.databases.join(", "));
    }
    page.line(
        "write path",
        &format!(
            "{}, {}",
            plan.write_path,
            human::counted(plan.threads as u64, "connection")
        ),
    );
    let statements: Vec<String> = plan
        .statements
        .iter()
        .map(|(kind, count)| format!("{} {kind}", human::count(*count)))
        .collect();
    if !statements.is_empty() {
        page.line("statements", &statements.join(", "));
    }
    if let Some(resumed) = &plan.resumes {
        page.line(
            "resumes",
            &format!(
                "the load begun at {} (run {}): {} are already loaded",
                resumed.begun,
                resumed.run,
                human::counted(resumed.rows, "row")
            ),
        );
    }
    page.line("durability", &plan.durability.to_string());
    if plan.settings.changes.is_empty() {
        page.line("settings", "nothing will be changed on the server");
    }
    for (index, change) in plan.settings.changes.iter().enumerate() {
        let label = if index == 0 { "settings" } else { "" };
        page.line(
            label,
            &format!(
                "{}: {} -> {}  ({})",
                change.name, change.old, change.new, change.reason
            ),
        );
    }
    for skipped in &plan.settings.skipped {
        page.line(
            "",
            &format!("{}: left alone: {}", skipped.name, skipped.reason),
        );
    }
    for (node, settings) in &plan.other_nodes {
        for change in &settings.changes {
            page.line(
                "",
                &format!("{node}: {}: {} -> {}", change.name, change.old, change.new),
            );
        }
    }
    page.list(
        "statements that run alone, when all before them is done",
        &plan.alone,
        Clone::clone,
    );
    page.list("statements that are refused", &plan.refused, Clone::clone);
    page.list("left out on purpose", &plan.left_out, Clone::clone);
    if !plan.tables.is_empty() {
        page.entry_heading("tables");
        page.some(plan.tables.iter(), |table| {
            let database = table
                .database
                .as_ref()
                .map_or_else(String::new, |database| format!("{database}."));
            format!(
                "{database}{}: {}, {}",
                table.table,
                human::counted(table.rows, "row"),
                human::bytes(table.bytes)
            )
        });
    }
    page.plain_list("advice", &plan.advice);
}

fn headline(job: &str, outcome: &LoadOutcome, verified: Option<&VerifyOutcome>) -> String {
    let how = if outcome.proven && outcome.skipped.total > 0 {
        "done, without what was left out on purpose"
    } else if outcome.proven {
        "done and proven"
    } else if outcome.proof_failed() && only_uncounted(outcome) {
        "loaded, but not all of it could be proven"
    } else if outcome.proof_failed() {
        "loaded, but the proof FAILED"
    } else if let Some(verified) = verified.filter(|_| outcome.proof.done) {
        // Row counts and definitions are right.
        if verified.differs() {
            "loaded and counted, but the comparison found DIFFERENCES"
        } else if verified.complete {
            "loaded and counted, but not all rows could be compared"
        } else {
            "loaded and counted, but NOT compared to the end"
        }
    } else {
        "NOT complete"
    };
    let server = if outcome.server.is_empty() {
        String::new()
    } else {
        format!(" ({})", outcome.server)
    };
    format!(
        "{job} of {} into {}{server}: {how}",
        outcome.source, outcome.target
    )
}

/// Whether the only fault is that some rows could not be counted.
fn only_uncounted(outcome: &LoadOutcome) -> bool {
    let proof = &outcome.proof;
    proof.differences.is_empty() && proof.orphans.is_empty() && outcome.warnings.is_empty()
}

/// Amounts, times, rates and the write path.
fn work(page: &mut Page, outcome: &LoadOutcome) {
    let with_rows = outcome.tables.iter().filter(|table| table.rows > 0).count() as u64;
    let empty = outcome.tables.len() as u64 - with_rows;
    let mut tables = human::counted(outcome.tables.len() as u64, "table");
    if empty > 0 && with_rows > 0 {
        let _ = write!(tables, " ({empty} empty)");
    }
    page.line(
        "rows",
        &format!("{} in {tables}", human::count(outcome.rows)),
    );
    if let Some(resumed) = &outcome.resumed {
        page.line(
            "",
            &format!(
                "{} of them were already loaded by the load begun at {} (run {})",
                human::count(resumed.rows),
                resumed.begun,
                resumed.run
            ),
        );
    }
    page.line(
        "read",
        &format!(
            "{} of dump text, {}",
            human::bytes(outcome.bytes),
            human::counted(outcome.statements, "other statement")
        ),
    );
    page.line("time", &times(outcome.seconds, &outcome.phases));
    match &outcome.resumed {
        // Text that was only skipped says nothing about speed.
        Some(resumed) if outcome.seconds > 0.0 => {
            let rows = outcome.rows.saturating_sub(resumed.rows);
            let rate = human::row_rate(rows as f64 / outcome.seconds);
            page.line("rate", &format!("{rate}, over all phases"));
        }
        _ => page.rate(
            outcome.bytes,
            outcome.rows,
            outcome.seconds,
            "over all phases",
        ),
    }
    let paths: Vec<String> = outcome
        .write_paths
        .iter()
        .filter(|(_, rows)| *rows > 0)
        .map(|(path, rows)| {
            let as_it_stands = match (path, outcome.as_it_stands_rows) {
                (WritePath::LoadData, 1..) => format!(
                    ", {} of them sent as they stand in the source",
                    human::count(outcome.as_it_stands_rows)
                ),
                _ => String::new(),
            };
            format!("{path} ({} rows{as_it_stands})", human::count(*rows))
        })
        .collect();
    if !paths.is_empty() {
        page.line("write path", &paths.join(", "));
    }
    if outcome.chunk_bytes > 0 {
        page.line(
            "chunk",
            &format!(
                "{}, {} on average",
                human::bytes(outcome.chunk_bytes),
                human::counted(outcome.chunk_rows, "row")
            ),
        );
    }
    if outcome.retries > 0 {
        page.line(
            "retries",
            &format!(
                "{} sent again after a deadlock or a lock wait",
                human::counted(outcome.retries, "chunk")
            ),
        );
    }
    if let Some(bound) = &outcome.bound_by {
        page.line("bound by", bound);
    }
}

/// The total time, and the time of each phase.
fn times(seconds: f64, phases: &[PhaseTime]) -> String {
    let phases: Vec<String> = phases
        .iter()
        .filter(|phase| phase.seconds >= 0.005)
        .map(|phase| {
            format!(
                "{} {}",
                phase.phase,
                human::seconds(duration(phase.seconds))
            )
        })
        .collect();
    let total = human::seconds(duration(seconds));
    if phases.is_empty() {
        total
    } else {
        format!("{total}: {}", phases.join(", "))
    }
}

fn settings(page: &mut Page, outcome: &LoadOutcome) {
    if outcome.settings_changed.is_empty() && outcome.settings_left.is_empty() {
        page.line("settings", "nothing was changed on the server");
        for skipped in &outcome.settings_skipped {
            page.line("", skipped);
        }
        return;
    }
    let back = if outcome.settings_left.is_empty() {
        "all put back"
    } else {
        "NOT all put back: see below, and `refloat settings revert`"
    };
    page.line(
        "settings",
        &format!("{} changed, {back}", outcome.settings_changed.len()),
    );
    for change in outcome
        .settings_changed
        .iter()
        .chain(&outcome.settings_skipped)
    {
        page.line("", change);
    }
    page.plain_list("settings still to be put back", &outcome.settings_left);
}

/// The effect of the load on the nodes of a Galera cluster.
fn cluster(page: &mut Page, galera: &GaleraOutcome) {
    let held = if galera.paced {
        format!(
            "writers held back for {} together",
            human::seconds(Duration::from_secs_f64(galera.held_seconds))
        )
    } else {
        "nothing held back".to_owned()
    };
    page.line(
        "cluster",
        &format!(
            "{}, {}, {held}",
            galera.cluster,
            human::counted(galera.size, "node")
        ),
    );
    for node in &galera.nodes {
        let silent = if node.silent {
            "; it did not answer at the end"
        } else {
            ""
        };
        page.line(
            "",
            &format!(
                "{}: stopped by flow control for {:.1} % of the time ({}), {} waiting at the most{silent}",
                node.node,
                node.paused_share * 100.0,
                human::seconds(Duration::from_secs_f64(node.paused_seconds)),
                human::counted(node.waiting_most, "write-set"),
            ),
        );
    }
    if let Some((seconds, statement)) = &galera.longest_stall {
        page.line(
            "",
            &format!(
                "all writes stood still for {} of definitions ({}), the longest {}: {statement}",
                human::seconds(Duration::from_secs_f64(galera.stalled_seconds)),
                human::counted(galera.stalls, "statement"),
                human::seconds(Duration::from_secs_f64(*seconds)),
            ),
        );
    }
    page.list(
        "without a primary key",
        &galera.without_primary_key,
        Clone::clone,
    );
    page.list("on this node alone", &galera.not_replicated, Clone::clone);
}

fn checks(page: &mut Page, outcome: &LoadOutcome) {
    if outcome.ignored_rows > 0 {
        page.line(
            "ignored",
            &format!(
                "{} left out by INSERT IGNORE of the dump",
                human::counted(outcome.ignored_rows, "row")
            ),
        );
    }
    if outcome.other_collations > 0 {
        page.line(
            "collations",
            &format!(
                "{} of tables and columns come from this server's default: the dump names only their character set, and its own server probably used another. Text may compare and sort differently",
                human::count(outcome.other_collations)
            ),
        );
    }
    page.line("warnings", &human::count(outcome.warnings.total));
    let proof = &outcome.proof;
    let text = if proof.done {
        let found = match proof.differences.total {
            0 => "no difference".to_owned(),
            1 => "1 DIFFERENCE".to_owned(),
            n => format!("{} DIFFERENCES", human::count(n)),
        };
        let counted = human::counted(proof.tables_counted, "table");
        let programs = match proof.programs_checked {
            0 => String::new(),
            n => format!(", {} looked for", human::counted(n, "other object")),
        };
        let not = match proof.tables_not_counted {
            0 => String::new(),
            n => format!(" ({} NOT: the dump itself changes rows)", human::count(n)),
        };
        let first = match proof.first_rows_compared {
            0 => String::new(),
            n => format!(
                ", first rows of {} compared and of {} read back",
                human::count(n),
                human::count(proof.first_rows_read_back)
            ),
        };
        format!(
            "{counted} counted{not}{first}, {} compared{programs}, {found}",
            human::counted(proof.definitions_compared, "definition")
        )
    } else {
        "not run".to_owned()
    };
    page.line("proof", &text);
    page.plain_list(
        "first rows that were not compared",
        &proof.first_rows_not_compared,
    );
    page.list("differences", &proof.differences, |difference| {
        format!(
            "{}: expected {}, found {}",
            difference.about, difference.expected, difference.found
        )
    });
    if !proof.orphans.is_empty() {
        page.entry_heading("rows that point at nothing");
        for orphan in &proof.orphans {
            page.entry(&format!(
                "{}, {}: {}, for example {}",
                orphan.table,
                orphan.constraint,
                human::counted(orphan.rows, "row"),
                orphan.examples.join("; ")
            ));
        }
    }
    page.list("warnings of the server", &outcome.warnings, |warning| {
        format!("{}: {} ({})", warning.about, warning.message, warning.code)
    });
    // All that were kept, because each needs a look.
    page.list_up_to(
        usize::MAX,
        "refused",
        &outcome.failures,
        ToString::to_string,
    );
}

/// What is loaded and what is not, for a load that is not proven.
fn leftovers(page: &mut Page, outcome: &LoadOutcome) {
    if outcome.tables.is_empty() {
        let _ = writeln!(page.text, "nothing was loaded");
        return;
    }
    let (complete, open): (Vec<&TableOutcome>, Vec<&TableOutcome>) =
        outcome.tables.iter().partition(|table| table.complete);
    if !complete.is_empty() {
        let rows = complete.iter().map(|table| table.rows).sum();
        page.entry_heading(&format!(
            "complete: {}, {} rows",
            human::counted(complete.len() as u64, "table"),
            human::count(rows)
        ));
        page.some(complete.into_iter(), |table| {
            format!(
                "{}.{}: {}",
                table.database,
                table.table,
                human::counted(table.rows, "row")
            )
        });
    }
    if !open.is_empty() {
        page.entry_heading(&format!(
            "not complete: {}",
            human::counted(open.len() as u64, "table")
        ));
        page.some(open.into_iter(), |table| {
            let rows = human::counted(table.rows, "row");
            let mut text = if table.transactional {
                format!("{}.{}: {rows} committed", table.database, table.table)
            } else {
                format!(
                    "{}.{}: {rows} counted, and whatever it took of the chunk that failed: its engine has no transactions",
                    table.database, table.table
                )
            };
            if !table.missing.is_empty() {
                let _ = write!(text, "; missing: {}", table.missing.join(", "));
            }
            text
        });
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// A summary page: labelled lines, and lists below them.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}", fit(text, ENTRY_WIDTH));
    }

    fn line(&mut self, label: &str, text: &str) {
        let _ = writeln!(
            self.text,
            "  {label:LABEL_WIDTH$} {}",
            fit(text, ENTRY_WIDTH)
        );
    }

    /// Bytes and rows per second, and the period that they cover. Nothing if there were no rows.
    fn rate(&mut self, bytes: u64, rows: u64, seconds: f64, over: &str) {
        if seconds > 0.0 && rows > 0 {
            self.line(
                "rate",
                &format!(
                    "{}, {}, {over}",
                    human::byte_rate(bytes as f64 / seconds),
                    human::row_rate(rows as f64 / seconds)
                ),
            );
        }
    }

    fn entry_heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}:");
    }

    fn entry(&mut self, text: &str) {
        let _ = writeln!(self.text, "  - {}", fit(text, ENTRY_WIDTH));
    }

    fn plain_list(&mut self, heading: &str, entries: &[String]) {
        if entries.is_empty() {
            return;
        }
        self.entry_heading(heading);
        for entry in entries {
            self.entry(entry);
        }
    }

    fn list<T>(&mut self, heading: &str, list: &Bounded<T>, text: impl Fn(&T) -> String) {
        self.list_up_to(SHOWN, heading, list, text);
    }

    fn list_up_to<T>(
        &mut self,
        shown: usize,
        heading: &str,
        list: &Bounded<T>,
        text: impl Fn(&T) -> String,
    ) {
        if list.is_empty() {
            return;
        }
        self.entry_heading(&format!("{heading}: {}", human::count(list.total)));
        for item in list.first.iter().take(shown) {
            self.entry(&text(item));
        }
        let hidden = list.total - list.first.len().min(shown) as u64;
        if hidden > 0 {
            self.entry(&format!("and {} more", human::count(hidden)));
        }
    }

    fn some<'a, T: 'a>(
        &mut self,
        items: impl ExactSizeIterator<Item = &'a T>,
        text: impl Fn(&T) -> String,
    ) {
        let hidden = items.len().saturating_sub(SHOWN);
        for item in items.take(SHOWN) {
            self.entry(&text(item));
        }
        if hidden > 0 {
            self.entry(&format!("and {hidden} more"));
        }
    }
}

#[cfg(test)]
mod tests;
