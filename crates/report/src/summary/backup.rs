//! Summaries of physical backups, of restores, and of lists of backups of every kind.

use std::path::Path;

use refloat_physical::backup::BackupPlan;
use refloat_physical::binlog::{ArchiveOutcome, Kept, Replayed};
use refloat_physical::rebuild::RebuildPlan;
use refloat_physical::restore::RestorePlan;
use refloat_physical::{
    About, BackupOutcome, RebuildOutcome, RestoreOutcome, ToolKind, VerifyOutcome,
};
use refloat_repository::{Imported, Manifest};

use super::dump::rows;
use super::{Page, duration};
use crate::human;

/// The summary of a backup.
pub fn backup(outcome: &BackupOutcome) -> String {
    let mut page = Page::default();
    let server = outcome
        .about
        .as_ref()
        .map_or("", |about| about.server.version.as_str());
    page.heading(&format!(
        "backup of {} ({server}) into {}: complete",
        outcome.source, outcome.repository
    ));
    page.line("label", &outcome.label);
    files(&mut page, outcome.bytes, outcome.files);
    page.line(
        "added",
        &format!(
            "{}; {} were there already or empty",
            human::bytes(outcome.added),
            human::bytes(outcome.known)
        ),
    );
    time(&mut page, outcome.bytes, outcome.seconds);
    waited(&mut page, outcome.blocked_seconds);
    if let Some(about) = &outcome.about {
        positions(&mut page, about);
    }
    page.text
}

/// What a backup would do, as lines of text.
pub fn backup_plan(plan: &BackupPlan) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "backup of {} ({}) into {}: the plan; nothing was touched",
        plan.source, plan.server, plan.repository
    ));
    page.line("label", &plan.label);
    let bytes = match plan.bytes {
        0 => "of unknown size".to_owned(),
        bytes => format!("about {}", human::bytes(bytes)),
    };
    page.line("files", &bytes);
    page.line(
        "tool",
        &format!(
            "{} {} on {}",
            plan.tool.program.display(),
            plan.tool.version_text(),
            plan.machine
        ),
    );
    if !plan.shares.is_empty() {
        page.line("shares", &format!("blocks with {}", plan.shares.join(", ")));
    }
    page.plain_list("warnings", &plan.warnings);
    page.text
}

/// The summary of an import from a stream.
pub fn imported(url: &str, imported: &Imported) -> String {
    let mut page = Page::default();
    let made = if imported.is_new {
        "a new repository, "
    } else {
        ""
    };
    page.heading(&format!("import into {made}{url}: complete"));
    page.line("label", &imported.manifest.label);
    page.line(
        "added",
        &format!(
            "{}; {} were there already",
            human::bytes(imported.added),
            human::bytes(imported.known)
        ),
    );
    page.text
}

/// A list of backups, oldest first.
pub fn backup_list(backups: &[Manifest]) -> String {
    let mut rows = vec![["LABEL", "KIND", "TIME", "SERVER", "SIZE", "ADDED"].map(str::to_owned)];
    rows.extend(backups.iter().map(|one| {
        let server = one.about.get("server");
        let word = |key: &str| {
            let value = server.and_then(|server| server.get(key));
            let text = value.and_then(|value| value.as_str().map(str::to_owned));
            text.or_else(|| value.map(ToString::to_string))
                .unwrap_or_else(|| "?".to_owned())
        };
        [
            one.label.clone(),
            one.kind().to_owned(),
            moment(one.began),
            format!("{}:{} {}", word("hostname"), word("port"), word("version")),
            human::bytes(one.bytes),
            human::bytes(one.added),
        ]
    }));
    table(&rows)
}

/// The page of `backups show`: everything that the manifest of one backup says.
pub fn backup_shown(one: &Manifest) -> String {
    let mut page = Page::default();
    page.heading(&format!("backup {} ({})", one.label, one.kind()));
    page.line("begun", &moment(one.began));
    page.line("ended", &moment(one.ended));
    files(&mut page, one.bytes, one.files);
    page.line("added", &human::bytes(one.added));
    if let Ok(about) = About::read(one) {
        let server = &about.server;
        page.line(
            "server",
            &format!(
                "{} {} on {}, port {}, data in {}",
                server.vendor, server.version, server.hostname, server.port, server.datadir
            ),
        );
        page.line(
            "tool",
            &format!(
                "{} {}",
                about.tool.kind.program(),
                about.tool.version_text()
            ),
        );
        positions(&mut page, &about);
    }
    if let Some(about) = refloat_dump::About::read(one) {
        let server = &about.server;
        page.line(
            "server",
            &format!(
                "{} {} on {}, port {}",
                server.vendor, server.version, server.hostname, server.port
            ),
        );
        page.line("rows", &rows(about.rows, about.tables, about.databases));
        super::dump::moment(&mut page, &about.snapshot);
    }
    page.text
}

/// The summary of a restore.
pub fn restore_backup(outcome: &RestoreOutcome) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "restore of {} from {} into {}: complete{}",
        outcome.label,
        outcome.repository,
        outcome.datadir.display(),
        running(outcome.started)
    ));
    if outcome.files > 0 {
        files(&mut page, outcome.bytes, outcome.files);
        page.line("fetched", &human::bytes(outcome.fetched));
        page.line(
            "time",
            &format!(
                "{}: fetch {}, prepare {}",
                human::seconds(duration(outcome.seconds)),
                human::seconds(duration(outcome.fetch_seconds)),
                human::seconds(duration(outcome.prepare_seconds))
            ),
        );
    }
    match (&outcome.replayed, &outcome.about) {
        (Some(replayed), _) => logs(&mut page, replayed),
        (None, Some(about)) => positions(&mut page, about),
        (None, None) => {}
    }
    aside(&mut page, outcome.aside.as_deref());
    page.text
}

/// The binary logs that were, or would be, replayed.
fn logs(page: &mut Page, replayed: &Replayed) {
    let place = if replayed.begin.is_empty() {
        format!("up to {}", replayed.until)
    } else {
        format!("from {} to {}", replayed.begin, replayed.end)
    };
    page.line("logs", &format!("{}, {place}", replayed.logs));
    if replayed.begin.is_empty() {
        return;
    }
    let last = replayed.last.map_or_else(String::new, |last| {
        format!(", the last one committed at {}", moment(last))
    });
    let count = human::counted(replayed.transactions, "transaction");
    page.line("replayed", &format!("{count}{last}"));
    if !replayed.gtids.is_empty() {
        page.line("gtid", &replayed.gtids);
    }
    if replayed.seconds > 0.0 {
        let seconds = duration(replayed.seconds);
        page.line("replay took", &human::seconds(seconds));
    }
}

/// The end of a run that archived binary logs.
pub fn binlog_archive(outcome: &ArchiveOutcome) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "binary logs of {} in {}: stored up to {}:{}",
        outcome.source, outcome.repository, outcome.file, outcome.position
    ));
    page.line("archive", &outcome.name);
    page.line("added", &human::bytes(outcome.bytes));
    page.line("time", &human::seconds(duration(outcome.seconds)));
    page.text
}

/// Archives of binary logs.
pub fn binlog_list(all: &[Kept]) -> String {
    let mut rows = vec![
        [
            "NAME", "SERVER", "FILES", "FIRST", "UP TO", "SIZE", "STORED",
        ]
        .map(str::to_owned),
    ];
    rows.extend(all.iter().map(|one| {
        let about = &one.about;
        [
            one.name.clone(),
            format!("{}:{} {}", about.hostname, about.port, about.version),
            one.files.to_string(),
            one.first.clone(),
            format!("{}:{}", one.last, one.position),
            human::bytes(one.bytes),
            human::bytes(one.stored),
        ]
    }));
    table(&rows)
}

/// The text after "complete".
fn running(started: bool) -> &'static str {
    if started { ", and the server runs" } else { "" }
}

/// What a restore would do, as lines of text.
pub fn restore_backup_plan(plan: &RestorePlan) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "restore of {} from {} into {}: the plan; nothing was touched",
        plan.label,
        plan.repository,
        plan.datadir.display()
    ));
    page.line(
        "backup",
        &format!(
            "of {}, {} {}, {}",
            moment(plan.began),
            plan.about.server.vendor,
            plan.about.server.version,
            human::bytes(plan.bytes)
        ),
    );
    page.line("built in", &plan.building.display().to_string());
    if let Some(aside) = &plan.aside {
        page.line("old data", &format!("go to {}", aside.display()));
    }
    page.line(
        "tool",
        &format!(
            "{} {}",
            plan.tool.program.display(),
            plan.tool.version_text()
        ),
    );
    if let Some(replay) = &plan.replay {
        logs(&mut page, replay);
    }
    page.plain_list("warnings", &plan.warnings);
    page.text
}

/// The summary of a rebuild.
pub fn rebuild(outcome: &RebuildOutcome) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "rebuild of {} from {}: complete{}",
        outcome.datadir.display(),
        outcome.donor,
        if outcome.replicates {
            ", and the server replicates"
        } else {
            running(outcome.started)
        }
    ));
    if outcome.files > 0 {
        files(&mut page, outcome.bytes, outcome.files);
        let same = match outcome.same {
            0 => String::new(),
            same => format!("; {} were there already", human::bytes(same)),
        };
        page.line("sent", &format!("{}{same}", human::bytes(outcome.sent)));
        page.line(
            "time",
            &format!(
                "{}: copy {}, prepare {}{}",
                human::seconds(duration(outcome.seconds)),
                human::seconds(duration(outcome.copy_seconds)),
                human::seconds(duration(outcome.prepare_seconds)),
                if outcome.replicates {
                    let catch_up = duration(outcome.catch_up_seconds);
                    format!(", catch up {}", human::seconds(catch_up))
                } else {
                    String::new()
                }
            ),
        );
        waited(&mut page, outcome.blocked_seconds);
    }
    if let Some(about) = &outcome.about {
        positions(&mut page, about);
    }
    aside(&mut page, outcome.aside.as_deref());
    page.text
}

/// What a rebuild would do, as lines of text.
pub fn rebuild_plan(plan: &RebuildPlan) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "rebuild of {} from {} ({}): the plan; nothing was touched",
        plan.datadir.display(),
        plan.donor,
        plan.server
    ));
    let is_sent = plan.tool.kind == ToolKind::Clone;
    let donor = if is_sent {
        "sends its files itself".to_owned()
    } else {
        format!("copied on {}", plan.machine)
    };
    page.line("donor", &donor);
    if let Some(chosen) = &plan.chosen {
        page.line("chosen", chosen);
    }
    page.line("built in", &plan.building.display().to_string());
    if let Some(aside) = &plan.aside {
        page.line("old data", &format!("go to {}", aside.display()));
    }
    if !is_sent {
        let tool = plan.tool.program.display();
        let version = plan.tool.version_text();
        page.line("tool", &format!("{tool} {version} here"));
    }
    page.plain_list("warnings", &plan.warnings);
    if plan.is_node {
        page.line("galera", "its place is written down: it joins by IST");
    }
    page.text
}

/// The result of a check of backups.
pub fn verified(outcome: &VerifyOutcome) -> String {
    let mut page = Page::default();
    page.heading(&format!(
        "{}: {} can be read, every block as it was written{}",
        outcome.repository,
        human::counted(outcome.labels.len() as u64, "backup"),
        match outcome.damaged.len() {
            0 => String::new(),
            count => format!("; {count} damaged"),
        }
    ));
    for one in &outcome.checked {
        let count = human::counted(one.tables, "table");
        let took = human::seconds(duration(one.seconds));
        page.line(
            "restored",
            &format!("{}: a server runs on it, {count} whole, {took}", one.label),
        );
        for (name, why) in &one.unchecked {
            page.line("", &format!("not checked: {name} ({why})"));
        }
    }
    for (label, reason) in &outcome.damaged {
        page.line("damaged", &format!("{label}: {reason}"));
    }
    for (label, reason) in &outcome.untried {
        page.line("untried", &format!("{label}: {reason}"));
    }
    time(&mut page, outcome.bytes, outcome.seconds);
    page.text
}

fn files(page: &mut Page, bytes: u64, count: u64) {
    let count = human::counted(count, "file");
    page.line("files", &format!("{} in {count}", human::bytes(bytes)));
}

fn time(page: &mut Page, bytes: u64, seconds: f64) {
    let rate = if seconds > 0.0 {
        format!(", {}", human::byte_rate(bytes as f64 / seconds))
    } else {
        String::new()
    };
    page.line(
        "time",
        &format!("{}{rate}", human::seconds(duration(seconds))),
    );
}

fn waited(page: &mut Page, seconds: f64) {
    if seconds > 0.0 {
        let seconds = human::seconds(duration(seconds));
        page.line("commits", &format!("waited for {seconds} at its end"));
    }
}

fn aside(page: &mut Page, aside: Option<&Path>) {
    if let Some(aside) = aside {
        page.line(
            "old data",
            &format!("are in {}: remove them when all is well", aside.display()),
        );
    }
}

/// The position of the server.
fn positions(page: &mut Page, about: &About) {
    if let Some(binlog) = &about.binlog {
        page.line(
            "position",
            &format!("{}, byte {}", binlog.file, binlog.position),
        );
        if !binlog.gtid.is_empty() {
            page.line("gtid", &binlog.gtid);
        }
    }
    if let Some(galera) = &about.galera {
        page.line("galera", &format!("{}:{}", galera.uuid, galera.seqno));
    }
    page.line("lsn", &about.lsn.end.to_string());
}

fn moment(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok().and_then(refloat_run::moment);
    moment.unwrap_or_else(|| "?".to_owned())
}

/// Columns of text, each as wide as its widest cell.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
