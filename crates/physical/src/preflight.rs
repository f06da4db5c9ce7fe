//! The objections to a backup, found before it begins and reported all at once.

use std::ops::RangeInclusive;

use refloat_run::Refusal;
use refloat_wire::{Connection, Vendor};

use crate::pace::RATE_MIN;
use crate::server::{Server, Volume};
use crate::tool::{Tool, ToolKind, Version, text};
use crate::tool_bugs;

/// Files that the tool opens besides tablespaces.
const OTHER_FILES: u64 = 200;
/// Versions of `MySQL` that write a redo log by which rows are damaged when it is applied, if
/// columns of their table were added or dropped with ALGORITHM=INSTANT. Percona's own servers do
/// not. Source: XtraBackup's documentation ("Found tables with row versions") and its
/// `backup_mysql.cc` (`print_instant_versioned_tables`).
const INSTANT: RangeInclusive<Version> = (8, 0, 29)..=(8, 0, 31);
/// Tables with such columns.
const VERSIONED: &str = "SELECT REPLACE(NAME, '/', '.') FROM information_schema.INNODB_TABLES WHERE TOTAL_ROW_VERSIONS > 0 ORDER BY 1";
/// Tables that a message lists.
const NAMED: usize = 10;

/// The objections to copying this server by a tool of this kind, at this rate in bytes per second.
pub fn of_server(
    conn: &mut Connection,
    server: &Server,
    tool: ToolKind,
    max_rate: Option<u64>,
) -> Vec<Refusal> {
    let mut against = privileges(conn, server, tool);
    against.extend(instant(conn, server));
    if let Some(rate) = max_rate.filter(|rate| *rate < RATE_MIN) {
        against.push(
            Refusal::new(format!("a rate of {rate} bytes per second is too low"))
                .hint("Below 8M per second the tool could not copy the redo log in time."),
        );
    }
    against.extend(of_log(server.variable("innodb_log_archive")));
    against
}

/// The objection to tables that applying the redo log of this server would damage, in whatever way
/// its files are copied.
pub fn instant(conn: &mut Connection, server: &Server) -> Option<Refusal> {
    let is_percona = server
        .variable("version_comment")
        .is_some_and(|comment| comment.contains("Percona"));
    let info = &server.info;
    if info.vendor != Vendor::MySql || is_percona || !INSTANT.contains(&info.version) {
        return None;
    }
    let tables = conn.query(VERSIONED).ok();
    let tables = tables.map(|found| found.texts(0).map(str::to_owned).collect::<Vec<_>>());
    of_row_versions(info.version, tables.as_deref())
}

/// The objection to these tables, whose rows have versions. `None`: the server does not say which
/// ones do.
fn of_row_versions(version: Version, tables: Option<&[String]>) -> Option<Refusal> {
    let breaks = format!(
        "MySQL {} writes a redo log that damages tables whose columns were added or dropped with ALGORITHM=INSTANT when it is applied",
        text(version)
    );
    let Some(tables) = tables else {
        return Some(
            Refusal::new(format!(
                "{breaks}, and the account may not see which ones these are"
            ))
            .hint("`GRANT PROCESS ON *.* TO` that account."),
        );
    };
    (!tables.is_empty()).then(|| {
        Refusal::new(format!("{breaks}: {}", first_of(tables)))
            .hint("Run OPTIMIZE TABLE on each of them, or update the server to 8.0.32 or later.")
    })
}

/// The first of these tables, for a message.
pub fn first_of(tables: &[String]) -> String {
    let names = tables[..tables.len().min(NAMED)].join(", ");
    match tables.len().saturating_sub(NAMED) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// MDEV-37949: mariadb-backup cannot read an archived redo log.
fn of_log(archive: Option<&str>) -> Option<Refusal> {
    (archive == Some("ON")).then(|| {
        Refusal::new("innodb_log_archive is ON, and mariadb-backup cannot read such logs")
            .hint("Run `SET GLOBAL innodb_log_archive = OFF` for the time of the backup.")
    })
}

/// The objections to copying these files of this server with this tool.
pub fn of_tool(server: &Server, tool: &Tool, volume: &Volume) -> Vec<Refusal> {
    let mut against = tool.objections(&server.info);
    against.extend(tool_bugs::for_copy(tool, volume));
    if volume.tablespaces + OTHER_FILES > volume.open_files {
        against.push(
            Refusal::new(format!(
                "there are {} tablespaces, but a process there may open only {} files",
                volume.tablespaces, volume.open_files
            ))
            .hint(
                "Raise the limit of open files (ulimit -Hn) for the account that makes the backup.",
            ),
        );
    }
    against
}

/// The privileges that the tool needs and the account does not have.
pub fn privileges(conn: &mut Connection, server: &Server, tool: ToolKind) -> Vec<Refusal> {
    let Ok(answer) = conn.query("SHOW GRANTS") else {
        return Vec::new();
    };
    let grants: Vec<String> = answer.texts(0).map(str::to_ascii_uppercase).collect();
    let everything = grants
        .iter()
        .any(|grant| grant.contains("ALL PRIVILEGES") && grant.contains("ON *.*"));
    // Privileges that come from roles are not shown.
    if everything || grants.iter().all(|grant| !grant.contains("ON *.*")) {
        return if everything || grants.len() > 1 {
            Vec::new()
        } else {
            vec![missing(server, tool, &needed(server, tool))]
        };
    }
    let has = |name: &str| {
        grants
            .iter()
            .any(|grant| grant.contains("ON *.*") && grant.contains(name))
    };
    let lacking: Vec<&str> = needed(server, tool)
        .into_iter()
        .filter(|name| !name.split('|').any(&has))
        .collect();
    if lacking.is_empty() {
        Vec::new()
    } else {
        vec![missing(server, tool, &lacking)]
    }
}

/// Global privileges; alternative names follow after a bar.
fn needed(server: &Server, tool: ToolKind) -> Vec<&'static str> {
    match tool {
        ToolKind::MariadbBackup => {
            let mut all = vec!["RELOAD", "PROCESS", "LOCK TABLES"];
            if server.has_binlog {
                all.push("BINLOG MONITOR|REPLICATION CLIENT|SUPER");
            }
            if server.is_replica {
                all.push("SLAVE MONITOR|REPLICA MONITOR|SUPER");
            }
            all
        }
        ToolKind::Xtrabackup => vec![
            "BACKUP_ADMIN",
            "RELOAD",
            "PROCESS",
            "LOCK TABLES",
            "REPLICATION CLIENT",
        ],
        ToolKind::Clone => vec!["BACKUP_ADMIN"],
    }
}

fn missing(server: &Server, tool: ToolKind, lacking: &[&str]) -> Refusal {
    let names: Vec<&str> = lacking
        .iter()
        .map(|name| name.split('|').next().unwrap_or(name))
        .collect();
    let names = names.join(", ");
    Refusal::new(format!(
        "{} needs privileges that the account lacks on {}: {names}",
        tool.program(),
        server.info.peer
    ))
    .hint(format!("`GRANT {names} ON *.* TO` that account."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archived_redo_log_is_refused() {
        let refused = of_log(Some("ON")).unwrap();
        assert!(Refusal::reasons(&[refused]).contains("innodb_log_archive"));
        assert!([None, Some("OFF")].map(of_log).iter().all(Option::is_none));
    }

    // Hazard of files: P-06 tables altered with INSTANT on MySQL 8.0.29 to 8.0.31: named, and
    //   refused
    #[test]
    fn tables_whose_rows_have_versions_are_named() {
        let of = |count: usize| {
            let tables: Vec<String> = (0..count).map(|table| format!("shop.t{table}")).collect();
            of_row_versions((8, 0, 29), Some(&tables))
        };
        assert_eq!(of(0), None);
        let few = of(2).unwrap();
        assert!(few.reason.starts_with("MySQL 8.0.29 writes"), "{few}");
        assert!(few.reason.ends_with(": shop.t0, shop.t1"), "{few}");
        assert!(few.hint.contains("OPTIMIZE TABLE"), "{few}");
        let many = of(NAMED + 3).unwrap().reason;
        assert!(many.ends_with(", shop.t9 and 3 more"), "{many}");
        let unseen = of_row_versions((8, 0, 31), None).unwrap();
        assert!(unseen.hint.contains("GRANT PROCESS"), "{unseen}");
        let affected = [(8, 0, 28), (8, 0, 29), (8, 0, 31), (8, 0, 32)];
        let affected = affected.map(|version| INSTANT.contains(&version));
        assert_eq!(affected, [false, true, true, false]);
    }
}
