//! Detects source and target that are the same server, or replicate from one another.

use refloat_read::snapshot::position;
use refloat_read::snapshot::position::any_of;
use refloat_run::Refusal;
use refloat_wire::Connection;

use super::CopyError;

/// Refuses a source and a target that are the same server or nodes of one cluster, and those where
/// one replicates from the other. There, rows would arrive a second time by replication, or come
/// back to the source.
pub fn refuse_related(source: &mut Connection, target: &mut Connection) -> Result<(), CopyError> {
    let two = "Name two servers; a copy keeps the names of databases.";
    if source.identity() == target.identity() {
        return refused(
            format!(
                "source and target are the same server: {}",
                source.identity()
            ),
            two,
        );
    }
    if let (Some(a), Some(b)) = (cluster_of(source), cluster_of(target))
        && a == b
    {
        return refused(
            format!("source and target are nodes of the same cluster: {a}"),
            two,
        );
    }
    if replicates_from(target, source) {
        return refused(
            format!(
                "the target {} is a replica of the source: what is copied would also come by replication",
                target.identity()
            ),
            "To build the replica anew, stop its replication first, copy with --replace, and \
            resume it at the position that the summary gives.",
        );
    }
    if replicates_from(source, target) {
        return refused(
            format!(
                "the source {} is a replica of the target: what is copied would come back to it by replication",
                source.identity()
            ),
            "Stop replication on the source first, if this is what is wanted.",
        );
    }
    Ok(())
}

fn refused(reason: String, hint: &str) -> Result<(), CopyError> {
    Err(CopyError::Refused(Refusal {
        reason,
        hint: hint.to_owned(),
    }))
}

/// Cluster UUID of a Galera node; `None` for other servers.
fn cluster_of(conn: &mut Connection) -> Option<String> {
    let status = conn
        .query("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'")
        .ok()?;
    let uuid = status.str(0, 1)?.to_owned();
    (!uuid.is_empty() && uuid.bytes().any(|byte| !matches!(byte, b'0' | b'-'))).then_some(uuid)
}

/// Whether `replica` currently replicates directly from `primary`, as far as the accounts may see.
///
/// MySQL shows the primary's UUID. MariaDB shows its server id, its port and the binary log that
/// the replica reads. Unrelated servers often share ids and ports, so the primary must also have
/// that binary log, or list the replica in `SHOW SLAVE HOSTS`.
fn replicates_from(replica: &mut Connection, primary: &mut Connection) -> bool {
    let Ok(Some(status)) = position::replica_status(replica) else {
        return false;
    };
    let of = |conn: &mut Connection, name: &str| {
        let asked = conn.query_value(format!("SELECT @@GLOBAL.{name}"));
        asked.ok().flatten()
    };
    let (uuid, number, port) = (
        of(primary, "server_uuid"),
        of(primary, "server_id"),
        of(primary, "port"),
    );
    let own_number = of(replica, "server_id");
    let mut is_followed = |row: usize| {
        if let Some(named) = any_of(&status, row, &["Source_UUID", "Master_UUID"]) {
            return Some(named) == uuid.as_deref();
        }
        let same = |names: &[&str], wanted: &Option<String>| {
            wanted.is_some() && any_of(&status, row, names) == wanted.as_deref()
        };
        if !same(&["Master_Server_Id"], &number) {
            return false;
        }
        let file = any_of(&status, row, &["Master_Log_File"]).unwrap_or_default();
        let has_file = same(&["Master_Port"], &port)
            && primary
                .query("SHOW BINARY LOGS")
                .is_ok_and(|logs| logs.texts(0).any(|name| name == file));
        has_file
            || primary.query("SHOW SLAVE HOSTS").is_ok_and(|hosts| {
                (0..hosts.len()).any(|host| hosts.str(host, 0) == own_number.as_deref())
            })
    };
    let runs = |row: usize| {
        let threads: [&[&str]; 2] = [
            &["Replica_IO_Running", "Slave_IO_Running"],
            &["Replica_SQL_Running", "Slave_SQL_Running"],
        ];
        threads
            .iter()
            .any(|names| any_of(&status, row, names).is_some_and(|word| word != "No"))
    };
    (0..status.len()).any(|row| runs(row) && is_followed(row))
}
