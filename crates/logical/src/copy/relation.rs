//! Whether the two ends of a copy are one, or one of them gets what the other writes.

use refloat_wire::{Connection, ResultSet, Vendor};

use super::CopyError;

/// Refuses two ends that are the same server or nodes of the same cluster, and ends of which one replicates from the other: there the
/// rows would come a second time by replication, or meet themselves on the way back.
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
            "To build the replica anew, stop its replication first, copy with --replace, and let it go on at the position that the summary names.",
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
    Err(CopyError::Refused {
        reason,
        hint: hint.to_owned(),
    })
}

/// The Galera cluster that a server belongs to.
fn cluster_of(conn: &mut Connection) -> Option<String> {
    let status = conn
        .query("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'")
        .ok()?;
    let uuid = status.str(0, 1)?.to_owned();
    (!uuid.is_empty() && uuid.bytes().any(|byte| !matches!(byte, b'0' | b'-'))).then_some(uuid)
}

/// Whether `replica` gets what `primary` writes, now and directly. What the account may not see is not known.
///
/// MySQL tells the primary's UUID. MariaDB tells its number and port; that another server has both is taken into account: replication
/// that is stopped is none.
fn replicates_from(replica: &mut Connection, primary: &mut Connection) -> bool {
    let mysql = replica.server().vendor == Vendor::MySql;
    let (statement, mark) = if mysql {
        ("SHOW REPLICA STATUS", "SELECT @@GLOBAL.server_uuid, ''")
    } else {
        (
            "SHOW ALL SLAVES STATUS",
            "SELECT @@GLOBAL.server_id, @@GLOBAL.port",
        )
    };
    // A server of the other vendor has no such mark, or is no primary of this one.
    let (Ok(status), Ok(mark)) = (replica.query(statement), primary.query(mark)) else {
        return false;
    };
    let is_same = |row: usize| {
        let columns: &[&str] = if mysql {
            &["Source_UUID"]
        } else {
            &["Master_Server_Id", "Master_Port"]
        };
        columns
            .iter()
            .enumerate()
            .all(|(at, name)| value(&status, row, name) == mark.str(0, at))
    };
    let runs = |row: usize| {
        [
            "Replica_IO_Running",
            "Replica_SQL_Running",
            "Slave_IO_Running",
            "Slave_SQL_Running",
        ]
        .iter()
        .any(|name| value(&status, row, name).is_some_and(|word| word != "No"))
    };
    (0..status.len()).any(|row| is_same(row) && runs(row))
}

fn value<'a>(status: &'a ResultSet, row: usize, name: &str) -> Option<&'a str> {
    status.str(row, status.column(name)?)
}
