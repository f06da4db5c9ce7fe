//! The text of `refloat cluster status`.

pub mod advise;

use std::fmt::Write as _;
use std::time::Duration;

use refloat_cluster::{ClusterView, Copying, NodeState, NodeView, RejoinKind, Severity};

use crate::human;

/// Printed where a value is unknown.
const UNKNOWN: &str = "-";

/// The page that `refloat cluster status` prints.
pub fn status(view: &ClusterView) -> String {
    let mut page = String::new();
    headline(&mut page, view);
    nodes(&mut page, view);
    windows(&mut page, view);
    absent(&mut page, view);
    common(&mut page, view);
    findings(&mut page, view);
    page
}

fn headline(page: &mut String, view: &ClusterView) {
    let quorum = &view.quorum;
    let state = match (quorum.primary, quorum.synced) {
        (0, _) => "no primary component".to_owned(),
        (primary, synced) => {
            format!(
                "primary component of {primary} of {} listed nodes, {synced} synced",
                quorum.listed
            )
        }
    };
    let _ = writeln!(page, "Cluster {}: {state}", view.name);
    if let Some(uuid) = &quorum.uuid {
        let _ = write!(page, "  history {uuid}");
        if let Some(number) = quorum.view {
            let _ = write!(page, ", view {number}");
        }
        if let Some(seqno) = quorum.seqno {
            let _ = write!(page, ", seqno {}", human::count(seqno));
        }
        page.push('\n');
    }
}

fn nodes(page: &mut String, view: &ClusterView) {
    let head = [
        "NODE", "STATE", "SEQNO", "BEHIND", "QUEUE", "PAUSED", "SENT FC", "WRITES", "ADDRESS",
    ];
    let rows = view.nodes.iter().map(|node| {
        let Some(state) = &node.state else {
            let state = if node.receives.is_some() {
                format!("receives a copy{}", so_far(node))
            } else if (node.copying.as_ref()).is_some_and(|it| it.role == Copying::REBUILT) {
                format!("is rebuilt{}", so_far(node))
            } else {
                "no answer".to_owned()
            };
            let mut row = vec![node.name.clone(), state];
            row.resize(head.len() - 1, UNKNOWN.to_owned());
            row.push(node.address.clone());
            return row;
        };
        vec![
            node.name.clone(),
            format!("{}{}", state_of(node, state), so_far(node)),
            state.seqno.map_or(UNKNOWN.to_owned(), human::count),
            node.behind.map_or(UNKNOWN.to_owned(), human::count),
            format!(
                "{} ({:.1})",
                state.receive_queue.now, state.receive_queue.average
            ),
            human::percent(state.flow_control.paused),
            state.flow_control.sent.to_string(),
            if takes_writes(state) { "yes" } else { "no" }.to_owned(),
            node.address.clone(),
        ]
    });
    page.push('\n');
    table(page, &head, rows);
}

/// How far a copy into a node or out of it is.
fn so_far(node: &NodeView) -> String {
    match &node.copying {
        None => String::new(),
        Some(copying) => match copying.total {
            Some(total) if copying.step == "copies" => {
                let left = copying.left.map(Duration::from_secs).map(human::clock);
                let left = left.map_or_else(String::new, |left| format!(", {left} left"));
                format!(
                    " ({}{left})",
                    human::bytes_of(copying.bytes.min(total), total)
                )
            }
            _ => format!(" ({})", copying.step),
        },
    }
}

fn takes_writes(state: &NodeState) -> bool {
    state.primary && state.ready && !state.read_only && state.rejects_queries.is_none()
}

/// A node's state, with whatever sets it apart.
fn state_of(node: &NodeView, state: &NodeState) -> String {
    let mut text = if state.primary {
        state.state.clone()
    } else {
        format!("{}, not primary", state.state)
    };
    if state.desync {
        text.push_str(", desync");
    }
    match &node.copying {
        Some(copying) if copying.role == Copying::REBUILT => text.push_str(", is rebuilt"),
        Some(copying) if copying.role == Copying::COPIED => text.push_str(", is copied"),
        _ => {}
    }
    text
}

fn windows(page: &mut String, view: &ClusterView) {
    let rows: Vec<Vec<String>> = view
        .nodes
        .iter()
        .filter_map(|node| {
            let cache = &node.primary()?.gcache;
            let rate = format!(
                "{}{}",
                human::byte_rate(cache.bytes_per_second),
                if cache.measured { "" } else { " (average)" }
            );
            Some(vec![
                node.name.clone(),
                human::bytes(cache.capacity),
                cache.oldest.map_or(UNKNOWN.to_owned(), human::count),
                rate,
                cache
                    .covers_seconds
                    .map_or_else(|| "nothing is written".to_owned(), time),
            ])
        })
        .collect();
    if !rows.is_empty() {
        page.push_str("\nWrite-sets kept for nodes that come back (gcache)\n");
        table(
            page,
            &["NODE", "KEEPS", "OLDEST", "WRITTEN", "COVERS AN ABSENCE OF"],
            rows.into_iter(),
        );
    }
}

fn absent(page: &mut String, view: &ClusterView) {
    let mut text = String::new();
    for node in &view.nodes {
        if let Some(line) = rejoin(node) {
            let _ = writeln!(text, "  {}: {line}", node.name);
        }
        if let Some(file) = &node.grastate {
            let seqno = file
                .seqno
                .map_or_else(|| "-1".to_owned(), |seqno| seqno.to_string());
            let safe = file
                .safe_to_bootstrap
                .map_or(UNKNOWN, |safe| if safe { "1" } else { "0" });
            let _ = writeln!(
                text,
                "    grastate.dat: {}:{seqno}, safe_to_bootstrap {safe}",
                file.uuid
            );
        }
    }
    if !text.is_empty() {
        let _ = write!(
            page,
            "\nNodes outside, and what a rejoin would cost now\n{text}"
        );
    }
}

fn rejoin(node: &NodeView) -> Option<String> {
    let rejoin = node.rejoin.as_ref()?;
    let way = match &rejoin.kind {
        RejoinKind::Ist {
            write_sets,
            bytes,
            donors,
        } => {
            let bytes = bytes.map_or(String::new(), |bytes| {
                format!(", about {}", human::bytes(bytes))
            });
            let donors: Vec<&str> = donors.iter().map(|donor| donor.name.as_str()).collect();
            format!(
                "IST of {}{bytes}, from {}",
                human::counted(*write_sets, "write-set"),
                donors.join(" or ")
            )
        }
        RejoinKind::Sst { bytes, seconds } => {
            let bytes = bytes.map_or(String::new(), |bytes| {
                format!(" of {}", human::bytes(bytes))
            });
            let seconds = match seconds {
                Some(seconds) => format!(", about {}", time(*seconds)),
                None if bytes.is_empty() => String::new(),
                None => " at a rate that was not measured".to_owned(),
            };
            format!("SST{bytes}{seconds}")
        }
        RejoinKind::Unknown => "cannot be told".to_owned(),
    };
    Some(format!("{way} ({})", rejoin.reason))
}

/// Settings that nodes usually share. Where nodes differ, each group has its own line.
fn common(page: &mut String, view: &ClusterView) {
    if !view.nodes.iter().any(|node| node.primary().is_some()) {
        return;
    }
    page.push('\n');
    alike(page, view, limits);
    alike(page, view, copies);
    let received = view.nodes.iter().filter_map(|node| {
        let address = node.primary()?.sst.receive_address.as_ref()?;
        Some(format!("{} at {address}", node.name))
    });
    let received: Vec<String> = received.collect();
    if !received.is_empty() {
        let _ = writeln!(page, "They are received by {}", received.join(", "));
    }
    let primary = view.nodes.iter().filter_map(NodeView::primary);
    if let Some(bytes) = primary.filter_map(|state| state.sst.bytes).max() {
        let _ = writeln!(page, "A full copy is of {}", human::bytes(bytes));
    }
    if let Some(tables) = view.tables.as_ref().filter(|tables| !tables.looked_through) {
        let _ = writeln!(
            page,
            "{} tables were not looked through for primary keys: --tables does it",
            human::count(tables.all)
        );
    }
}

/// One line for all nodes, or one for each group of nodes with the same text.
fn alike(page: &mut String, view: &ClusterView, line: fn(&NodeState) -> String) {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for node in &view.nodes {
        let Some(line) = node.primary().map(line) else {
            continue;
        };
        match groups.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) => names.push(&node.name),
            None => groups.push((line, vec![&node.name])),
        }
    }
    let differ = groups.len() > 1;
    for (line, names) in groups {
        let names = if differ {
            format!("{}: ", names.join(", "))
        } else {
            String::new()
        };
        let _ = writeln!(page, "{names}{line}");
    }
}

fn limits(state: &NodeState) -> String {
    let bytes = state.limits.write_set_bytes;
    format!(
        "A transaction may hold {} in {}",
        bytes.map_or_else(|| "any number of bytes".to_owned(), human::bytes),
        match state.limits.write_set_rows {
            Some(rows) => human::counted(rows, "row"),
            None => "any number of rows".to_owned(),
        },
    )
}

fn copies(state: &NodeState) -> String {
    let sst = &state.sst;
    let mut copies = format!("Full copies by {}", sst.method);
    copies.push_str(if sst.has_account {
        ", with an account"
    } else {
        ", without an account"
    });
    if let Some(donor) = &sst.donor {
        let names: Vec<&str> = sst.donor_names().collect();
        // A trailing comma allows any other node as a donor.
        let else_any = donor.trim_end().ends_with(',');
        let rest = if else_any { "and else any" } else { "alone" };
        let _ = write!(copies, ", from {} {rest}", names.join(", "));
    }
    if sst.donor_rejects_queries {
        copies.push_str("; clients are refused while it gives one");
    }
    copies
}

fn findings(page: &mut String, view: &ClusterView) {
    if view.findings.is_empty() {
        page.push_str("\nNothing found to be wrong.\n");
        return;
    }
    page.push('\n');
    for finding in &view.findings {
        let grade = match finding.severity {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let nodes = if finding.nodes.is_empty() {
            String::new()
        } else {
            format!("{}: ", finding.nodes.join(", "))
        };
        let _ = writeln!(page, "{grade:8}  {nodes}{}", finding.text);
    }
}

/// Seconds for people. The exact length of a window of more than two days does not matter.
fn time(seconds: f64) -> String {
    const DAY: f64 = 86_400.0;
    if seconds > 100.0 * DAY {
        return "more than 100 days".to_owned();
    }
    if seconds > 2.0 * DAY {
        return format!("{:.0} days", seconds / DAY);
    }
    human::clock(Duration::from_secs_f64(seconds.max(0.0)))
}

/// Pads columns to their widest cell, except the last.
fn table(page: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<Vec<String>> = rows.collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::from(" ");
        for (cell, width) in cells.zip(&widths) {
            let _ = write!(text, " {cell:width$} ");
        }
        page.push_str(text.trim_end());
        page.push('\n');
    };
    line(&mut head.iter().copied());
    for row in &rows {
        line(&mut row.iter().map(String::as_str));
    }
}
