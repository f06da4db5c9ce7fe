//! The objections to a backup, found before it begins and reported all at once.

use refloat_run::Refusal;
use refloat_wire::Connection;

use crate::pace::RATE_MIN;
use crate::server::{Server, Volume};
use crate::tool::{Tool, ToolKind};
use crate::tool_bugs;

/// Files that the tool opens besides tablespaces.
const OTHER_FILES: u64 = 200;

/// The objections to copying this server by a tool of this kind, at this rate in bytes per second.
pub fn of_server(
    conn: &mut Connection,
    server: &Server,
    tool: ToolKind,
    max_rate: Option<u64>,
) -> Vec<Refusal> {
    let mut against = privileges(conn, server, tool);
    if let Some(rate) = max_rate.filter(|rate| *rate < RATE_MIN) {
        against.push(
            Refusal::new(format!("a rate of {rate} bytes per second is too low"))
                .hint("Below 8M per second the tool could not copy the redo log in time."),
        );
    }
    against.extend(of_log(server.variable("innodb_log_archive")));
    against
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
}
