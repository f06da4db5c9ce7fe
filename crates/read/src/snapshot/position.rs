//! The server's positions: binary log, GTID, Galera, replication sources.

use refloat_source::manifest::SnapshotInfo;
use refloat_sqltext::literal;
use refloat_wire::codes::PARSE_ERROR;
use refloat_wire::{Connection, Error, ResultSet, Vendor};

use crate::error::ReadError;

/// Treats every error that the server returns (privilege missing, unknown statement or variable) as
/// "not available". Only errors of the connection itself fail.
pub fn if_available(result: Result<ResultSet, Error>) -> Result<Option<ResultSet>, ReadError> {
    match result {
        Ok(result) => Ok(Some(result)),
        Err(error) if error.server_code().is_some() => Ok(None),
        Err(error) => Err(ReadError::server("asking for the position", error)),
    }
}

/// The binary log position of a MariaDB connection's open snapshot; `None` when the binary log is
/// off.
pub fn of_snapshot(reader: &mut Connection) -> Result<Option<(String, u64)>, ReadError> {
    let status = reader
        .query("SHOW SESSION STATUS LIKE 'binlog_snapshot_%'")
        .map_err(|error| ReadError::server("asking for the snapshot's position", error))?;
    let file = status
        .named("binlog_snapshot_file")
        .filter(|file| !file.is_empty());
    let at = status
        .named("binlog_snapshot_position")
        .and_then(|at| at.parse().ok());
    Ok(file.map(str::to_owned).zip(at))
}

/// Reads the server's current binary log position. Call it while nothing can commit.
pub fn read(control: &mut Connection, info: &mut SnapshotInfo) -> Result<(), ReadError> {
    let new = "SHOW BINARY LOG STATUS";
    let status = match control.query(new) {
        Err(error) if error.server_code() == Some(PARSE_ERROR) => {
            if_available(control.query("SHOW MASTER STATUS"))?
        }
        other => if_available(other)?,
    };
    let Some(status) = status.filter(|status| !status.is_empty()) else {
        return Ok(());
    };
    info.binlog_file = status.str(0, 0).map(str::to_owned);
    info.binlog_position = status.u64(0, 1);
    Ok(())
}

/// Adds the rest of the position: GTID, Galera position, time.
pub fn complete(control: &mut Connection, info: &mut SnapshotInfo) -> Result<(), ReadError> {
    let now = "SELECT DATE_FORMAT(UTC_TIMESTAMP(3), '%Y-%m-%dT%H:%i:%s.%f')";
    let at = control
        .query_value(now)
        .map_err(|error| ReadError::server("asking for the time", error))?
        .unwrap_or_default();
    info.at = format!("{}Z", at.get(..23).unwrap_or(&at));
    let mariadb = control.server().vendor == Vendor::MariaDb;
    let gtid = if !mariadb {
        if_available(control.query("SELECT @@GLOBAL.gtid_executed"))?
    } else if let (Some(file), Some(at)) = (&info.binlog_file, info.binlog_position) {
        let of_place = format!("SELECT BINLOG_GTID_POS({}, {at})", literal(file));
        if_available(control.query(of_place))?
    } else {
        if_available(control.query("SELECT @@GLOBAL.gtid_current_pos"))?
    };
    info.gtid = gtid
        .and_then(|result| result.str(0, 0).map(|text| text.replace('\n', "")))
        .filter(|text| !text.is_empty());
    let wsrep = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_state_uuid', 'wsrep_last_committed', 'wsrep_ready')";
    if let Some(status) = if_available(control.query(wsrep))?
        && let (Some(uuid), Some(seqno), Some("ON")) = (
            status
                .named("wsrep_cluster_state_uuid")
                .filter(|uuid| !uuid.is_empty()),
            status.named("wsrep_last_committed"),
            status.named("wsrep_ready"),
        )
    {
        info.galera = Some(format!("{uuid}:{seqno}"));
    }
    Ok(())
}

/// The server's replica status, one row per source; `None` when the account may not see it.
pub fn replica_status(conn: &mut Connection) -> Result<Option<ResultSet>, ReadError> {
    let statement = match conn.server().vendor {
        Vendor::MariaDb => "SHOW ALL SLAVES STATUS",
        Vendor::MySql => "SHOW REPLICA STATUS",
    };
    match if_available(conn.query(statement))? {
        // MySQL before 8.0.22 knows only the old name.
        None => if_available(conn.query("SHOW SLAVE STATUS")),
        status => Ok(status),
    }
}

/// The cell of the first of these columns that the result has: their names differ between versions.
pub fn any_of<'a>(status: &'a ResultSet, row: usize, names: &[&str]) -> Option<&'a str> {
    names
        .iter()
        .find_map(|name| status.str(row, status.column(name)?))
}
