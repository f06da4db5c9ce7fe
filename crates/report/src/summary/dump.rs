//! The summary of a dump.

use refloat_dump::{DumpOutcome, SnapshotCost};
use refloat_source::manifest::SnapshotInfo;

use super::{Page, duration, times};
use crate::human;

/// The summary of a complete dump as lines of text.
pub fn dump(outcome: &DumpOutcome) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "dump of {} ({}) into {}: complete",
        outcome.source, outcome.server, outcome.out
    ));
    page.line(
        "rows",
        &rows(outcome.rows, outcome.tables, outcome.databases),
    );
    if outcome.programs > 0 {
        page.line(
            "objects",
            &format!(
                "{} besides tables",
                human::counted(outcome.programs, "definition")
            ),
        );
    }
    page.line(
        "written",
        &format!(
            "{} of row text, {} in {}",
            human::bytes(outcome.text_bytes),
            human::bytes(outcome.file_bytes),
            human::counted(outcome.files, "row file")
        ),
    );
    if let Some(stored) = &outcome.stored {
        page.line("label", &stored.label);
        let (added, known) = (human::bytes(stored.added), human::bytes(stored.known));
        page.line("added", &format!("{added}; {known} were there already"));
    }
    page.line("time", &times(outcome.seconds, &outcome.phases));
    page.rate(
        outcome.text_bytes,
        outcome.rows,
        outcome.seconds,
        "over all phases",
    );
    moment(&mut page, &outcome.snapshot);
    cost(&mut page, &outcome.snapshot_cost);
    page.plain_list("notes", &outcome.notes);
    page.text
}

/// The amount of data.
pub fn rows(rows: u64, tables: u64, databases: u64) -> String {
    format!(
        "{} in {} of {}",
        human::count(rows),
        human::counted(tables, "table"),
        human::counted(databases, "database")
    )
}

/// The moment of the snapshot, and its replication position.
pub fn moment(page: &mut Page, snapshot: &SnapshotInfo) {
    let how = if snapshot.consistent {
        "all rows of one moment"
    } else {
        "NOT guaranteed to be of one moment"
    };
    page.line("snapshot", &format!("{}, {how}", snapshot.at));
    page.line("", &snapshot.method);
    page.line(
        "",
        &match snapshot.locked_seconds {
            0.0 => "nobody had to wait".to_owned(),
            seconds => format!(
                "writers waited for {} at most",
                human::seconds(duration(seconds))
            ),
        },
    );
    if let (Some(file), Some(at)) = (&snapshot.binlog_file, snapshot.binlog_position) {
        page.line("position", &format!("{file}, byte {at}"));
    }
    if let Some(gtid) = &snapshot.gtid {
        page.line("gtid", gtid);
    }
    if let Some(galera) = &snapshot.galera {
        page.line("galera", galera);
    }
    for of in &snapshot.replica_of {
        let at = match (&of.file, of.position) {
            (Some(file), Some(at)) => format!("at {file}, byte {at} of it"),
            _ if of.by_gtid => "at the place that the GTIDs tell".to_owned(),
            _ => "the place in its log is not known".to_owned(),
        };
        page.line("replica of", &format!("{}, {at}", of.source));
    }
    if let Some(gtids) = &snapshot.gtid_slave_pos {
        page.line("", &format!("gtid_slave_pos {gtids}"));
    }
}

/// What the snapshot cost the server.
pub fn cost(page: &mut Page, cost: &SnapshotCost) {
    let open = human::seconds(duration(cost.seconds));
    let text = match &cost.history {
        Some(history) => format!(
            "open for {open}, history list {} at first, {} at most, {} at last",
            human::count(history.first),
            human::count(history.highest),
            human::count(history.last)
        ),
        None => format!("open for {open}"),
    };
    page.line("", &text);
    if let Some(flow) = &cost.flow_control {
        page.line(
            "flow control",
            &format!(
                "{} meanwhile, {} of them by this node, {} in all",
                human::counted(flow.received, "pause"),
                human::count(flow.sent),
                human::seconds(duration(flow.paused_seconds))
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use refloat_dump::FlowControl;

    use super::*;

    #[test]
    fn a_label_as_wide_as_its_column_stands_apart_from_what_follows() {
        let mut page = Page::default();
        let mut of = SnapshotCost::default();
        of.flow_control = Some(FlowControl::default());
        cost(&mut page, &of);
        assert!(page.text.contains("flow control 0 pauses"), "{}", page.text);
    }
}
