//! The objections to copying a server by its clone plugin, and what such a copy lacks.

use std::path::{Path, PathBuf};

use refloat_run::Refusal;
use refloat_wire::Connection;

use crate::clone::arrivals::{encrypted, outside};
use crate::error::PhysicalError;
use crate::preflight::{first_of, instant, privileges};
use crate::server::{Server, Volume};
use crate::tool::{Tool, ToolKind, Version, text};

/// Before this version, the redo log was in other files, and DDL had to wait for the copy.
const SINCE: Version = (8, 0, 30);
/// Names that a message lists.
const NAMES_MAX: usize = 10;
/// Folders that a server may have elsewhere.
const FOLDERS: [&str; 3] = [
    "innodb_data_home_dir",
    "innodb_undo_directory",
    "innodb_log_group_home_dir",
];
/// Settings that encrypt what is not in a table's tablespace.
const ENCRYPTION: [&str; 2] = ["innodb_redo_log_encrypt", "innodb_undo_log_encrypt"];

/// The plugin as a tool, what it would send, and what will be missing from the copy.
pub fn look(conn: &mut Connection, server: &Server) -> (Tool, Volume, Vec<String>) {
    let tool = Tool {
        kind: ToolKind::Clone,
        program: PathBuf::from(ToolKind::Clone.program()),
        version: server.info.version,
    };
    // Without PROCESS the server does not say. Compressed pages leave holes in their files.
    let sizes = conn.query(
        "SELECT SUM(FILE_SIZE), COUNT(*), SUM(IF(ALLOCATED_SIZE > 0, LEAST(FILE_SIZE, ALLOCATED_SIZE), FILE_SIZE)) \
         FROM information_schema.INNODB_TABLESPACES",
    );
    let number = |column| sizes.as_ref().ok().and_then(|sizes| sizes.u64(0, column));
    let volume = Volume {
        bytes: number(0).unwrap_or(0),
        room: number(2).unwrap_or(0),
        tablespaces: number(1).unwrap_or(0),
        open_files: u64::MAX,
        ..Volume::default()
    };
    (tool, volume, others(conn))
}

/// Tables that are empty in the copy.
fn others(conn: &mut Connection) -> Vec<String> {
    let others = list(
        conn,
        "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME, ' (', ENGINE, ')') FROM information_schema.TABLES \
         WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE NOT IN ('InnoDB', 'PERFORMANCE_SCHEMA') \
         AND TABLE_SCHEMA NOT IN ('mysql', 'sys') ORDER BY 1",
    );
    if others.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "only InnoDB is copied; these tables will be empty or missing: {}",
        first_of(&others)
    )]
}

/// The objection to a server of a version that is too old.
fn too_old(version: Version) -> Option<Refusal> {
    (version < SINCE).then(|| {
        Refusal::new(format!(
            "the clone plugin of MySQL {} uses another format of the redo log",
            text(version)
        ))
        .hint(format!(
            "It can copy servers from {} on. Copy this one with Percona XtraBackup: name it with --tool.",
            text(SINCE)
        ))
    })
}

/// All objections to copying this server.
pub fn objections(conn: &mut Connection, server: &Server, tool: &Tool) -> Vec<Refusal> {
    if let Some(refusal) = too_old(server.info.version) {
        return vec![refusal];
    }
    let mut against = Vec::new();
    let plugin = "SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone'";
    if list(conn, plugin).iter().all(|status| status != "ACTIVE") {
        against.push(
            Refusal::new("the server does not have the clone plugin, which copies its files")
                .hint("Run `INSTALL PLUGIN clone SONAME 'mysql_clone.so'` on the server."),
        );
    }
    against.extend(privileges(conn, server, tool.kind));
    against.extend(instant(conn, server));
    let refusal = |error| match error {
        PhysicalError::Refused(against) => against,
        _ => Vec::new(),
    };
    for name in FOLDERS {
        let value = server.variable(name).unwrap_or_default();
        let is_inside = value.is_empty() || server.datadir().join(value) == server.datadir();
        if !is_inside && Path::new(value) != Path::new(".") {
            against.extend(refusal(outside(&format!("{name}, {value},"))));
        }
    }
    let files = "SELECT PATH FROM information_schema.INNODB_DATAFILES WHERE PATH LIKE '/%'";
    for path in list(conn, files).iter().take(NAMES_MAX) {
        against.extend(refusal(outside(path)));
    }
    for name in ENCRYPTION {
        if server.variable(name) == Some("ON") {
            against.extend(refusal(encrypted(&format!("what {name} writes"))));
        }
    }
    let spaces = "SELECT NAME FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION = 'Y'";
    for name in list(conn, spaces).iter().take(NAMES_MAX) {
        against.extend(refusal(encrypted(name)));
    }
    against
}

/// The first column of a query; nothing if the account lacks the privilege. The donor reports what
/// remains unknown here when it begins to send.
fn list(conn: &mut Connection, sql: &str) -> Vec<String> {
    let answer = conn.query(sql);
    answer.map_or_else(
        |_| Vec::new(),
        |answer| answer.texts(0).map(str::to_owned).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // Hazard of files: P-06 a server whose clone plugin has the old redo log (before 8.0.30)
    #[test]
    fn servers_before_the_new_redo_log_are_refused() {
        for version in [(5, 7, 44), (8, 0, 17), (8, 0, 29)] {
            let refusal = too_old(version).unwrap();
            let words = format!("of MySQL {} uses another format", text(version));
            assert!(refusal.reason.contains(&words), "{refusal}");
            assert!(refusal.hint.contains("from 8.0.30 on"), "{refusal}");
        }
        for version in [(8, 0, 30), (8, 4, 0), (9, 7, 0)] {
            assert_eq!(too_old(version), None);
        }
    }
}
