//! How far a replica had executed its sources' binary logs at the exact moment of a snapshot.
//!
//! `SHOW REPLICA STATUS` does not belong to the snapshot: it lags behind while transactions are
//! applied in parallel, and runs ahead when no lock was taken. So the position is read from the
//! system tables that are committed together with the rows, through a reader's snapshot.

use std::collections::BTreeMap;

use refloat_source::manifest::{ReplicaPosition, SnapshotInfo};
use refloat_wire::{Connection, ResultSet, Vendor};

use super::position::{any_of, if_available, replica_status};
use crate::error::ReadError;

/// The MariaDB tables that every replicated transaction writes its GTID to; there is one for each
/// engine in `gtid_pos_auto_engines`.
const GTID_TABLES: &str = "SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES \
     WHERE TABLE_SCHEMA = 'mysql' AND (TABLE_NAME = 'gtid_slave_pos' OR TABLE_NAME LIKE 'gtid\\_slave\\_pos\\_%')";
/// The MySQL applier's position and its number of workers. A single-threaded applier commits the
/// position with the rows; with workers it is updated only now and then.
const APPLIER: &str = "SELECT Channel_name, Master_log_name, Master_log_pos, Number_of_workers FROM mysql.slave_relay_log_info";
/// The last transaction that each worker committed, written together with its rows.
const WORKERS: &str =
    "SELECT Channel_name, Master_log_name, Master_log_pos FROM mysql.slave_worker_info";
/// Whether workers commit in source order: the current name of the variable, then the older one.
const ORDER: &[&str] = &[
    "SELECT @@GLOBAL.replica_preserve_commit_order",
    "SELECT @@GLOBAL.slave_preserve_commit_order",
];
/// Whether a MariaDB server leaves replicated transactions out of its own binary log.
const UNLOGGED: &str = "SELECT @@GLOBAL.log_slave_updates = 0";
/// Whether the server has applied replicated transactions with GTIDs.
const REPLICATED: &str = "SELECT @@GLOBAL.gtid_slave_pos <> ''";
const NODE: &str = "SELECT @@GLOBAL.wsrep_on";

/// A position in a source's log: length of the file name, file name, byte offset. With the length
/// first, positions sort correctly when the file number gains a digit.
type Place = (usize, String, u64);

/// Whether the query returns 1.
fn is(control: &mut Connection, sql: &str) -> Result<bool, ReadError> {
    let answer = if_available(control.query(sql))?;
    Ok(answer.is_some_and(|answer| answer.u64(0, 0) == Some(1)))
}

/// Whether the server is a node of a Galera cluster.
pub fn is_node(control: &mut Connection) -> Result<bool, ReadError> {
    is(control, NODE)
}

/// Whether replicated transactions may commit without reaching the server's binary log
/// (`log_slave_updates` off). Then an equal log position does not prove an equal moment.
pub fn commits_unlogged(control: &mut Connection) -> Result<bool, ReadError> {
    if !is(control, UNLOGGED)? {
        return Ok(false);
    }
    if is(control, REPLICATED)? {
        return Ok(true);
    }
    // A source without GTIDs.
    Ok(replica_status(control)?.is_some_and(|status| !status.is_empty()))
}

/// The replica status before the snapshot, for [`complete`].
pub fn before(control: &mut Connection) -> Result<Option<ResultSet>, ReadError> {
    replica_status(control)
}

/// Adds how far the sources' logs are executed in the snapshot of `reader`. `one_moment` says
/// whether all readers share that snapshot.
pub fn complete(
    control: &mut Connection,
    reader: &mut Connection,
    info: &mut SnapshotInfo,
    before: Option<&ResultSet>,
    one_moment: bool,
) -> Result<(), ReadError> {
    let Some(status) = replica_status(control)?.filter(|status| !status.is_empty()) else {
        return Ok(());
    };
    info.replica_of = (0..status.len())
        .map(|row| position(&status, row))
        .collect();
    if !one_moment {
        for of in &mut info.replica_of {
            of.not_kept = Some("the rows may be of different moments".to_owned());
        }
        return Ok(());
    }
    match control.server().vendor {
        Vendor::MariaDb => mariadb(reader, info, before, &status),
        Vendor::MySql => mysql(control, reader, info, &status),
    }
}

/// The source, without a position.
fn position(status: &ResultSet, row: usize) -> ReplicaPosition {
    let any = |names: &[&str]| any_of(status, row, names).unwrap_or_default().to_owned();
    ReplicaPosition {
        channel: any(&["Connection_name", "Channel_Name"]),
        source: format!(
            "{}:{}",
            any(&["Source_Host", "Master_Host"]),
            any(&["Source_Port", "Master_Port"])
        ),
        ..ReplicaPosition::default()
    }
}

/// The position that the status shows, if the applier is stopped.
fn at_rest(status: &ResultSet, row: usize) -> Option<(String, u64)> {
    let any = |names: &[&str]| any_of(status, row, names);
    if any(&["Replica_SQL_Running", "Slave_SQL_Running"]) != Some("No") {
        return None;
    }
    let file = any(&["Relay_Source_Log_File", "Relay_Master_Log_File"]);
    let at = any(&["Exec_Source_Log_Pos", "Exec_Master_Log_Pos"]);
    Some((
        file.filter(|file| !file.is_empty())?.to_owned(),
        at?.parse().ok()?,
    ))
}

/// MariaDB commits each transaction's GTID with its rows, but not the source's log file and
/// position.
fn mariadb(
    reader: &mut Connection,
    info: &mut SnapshotInfo,
    before: Option<&ResultSet>,
    status: &ResultSet,
) -> Result<(), ReadError> {
    let gtids = match applied(reader)? {
        Ok(gtids) => gtids,
        Err(reason) => {
            for of in &mut info.replica_of {
                of.not_kept = Some(reason.clone());
            }
            return Ok(());
        }
    };
    // Transactions of different domains may overtake each other, so no single log position covers
    // them all.
    let alone = gtids.len() <= 1 && status.len() == 1;
    for (row, of) in info.replica_of.iter_mut().enumerate() {
        let here = at_rest(status, row);
        let there = before.and_then(|before| at_rest(before, row));
        of.by_gtid = !gtids.is_empty();
        match here {
            Some((file, at)) if alone && there.as_ref() == Some(&(file.clone(), at)) => {
                (of.file, of.position) = (Some(file), Some(at));
            }
            _ => {
                of.not_kept = Some(
                    "the server does not commit the file and byte of its source together with the rows"
                        .to_owned(),
                );
            }
        }
    }
    info.gtid_slave_pos = Some(
        gtids
            .into_values()
            .map(|(_, gtid)| gtid)
            .collect::<Vec<_>>()
            .join(","),
    )
    .filter(|gtids| !gtids.is_empty());
    Ok(())
}

/// The last GTID of each domain in a MariaDB snapshot, with its `sub_id`; or why it is not known.
#[expect(
    clippy::type_complexity,
    reason = "an error of the server, or a reason in words"
)]
fn applied(
    reader: &mut Connection,
) -> Result<Result<BTreeMap<u64, (u64, String)>, String>, ReadError> {
    let hidden = || "the account may not read mysql.gtid_slave_pos".to_owned();
    let Some(tables) = if_available(reader.query(GTID_TABLES))?.filter(|tables| !tables.is_empty())
    else {
        return Ok(Err(hidden()));
    };
    let mut last = BTreeMap::<u64, (u64, String)>::new();
    for row in 0..tables.len() {
        let (Some(table), Some(engine)) = (tables.str(row, 0), tables.str(row, 1)) else {
            return Ok(Err(hidden()));
        };
        if !engine.eq_ignore_ascii_case("InnoDB") {
            return Ok(Err(format!(
                "mysql.{table} is of engine {engine}, which is not in a snapshot"
            )));
        }
        let rows = format!("SELECT domain_id, sub_id, server_id, seq_no FROM mysql.`{table}`");
        let Some(rows) = if_available(reader.query(rows))? else {
            return Ok(Err(hidden()));
        };
        for row in 0..rows.len() {
            let cell = |column| rows.u64(row, column).unwrap_or_default();
            let (domain, order) = (cell(0), cell(1));
            if last.get(&domain).is_none_or(|(known, _)| order > *known) {
                let gtid = format!("{domain}-{}-{}", cell(2), cell(3));
                last.insert(domain, (order, gtid));
            }
        }
    }
    Ok(Ok(last))
}

/// MySQL commits the source's log position with each transaction, per worker.
fn mysql(
    control: &mut Connection,
    reader: &mut Connection,
    info: &mut SnapshotInfo,
    status: &ResultSet,
) -> Result<(), ReadError> {
    let gtids = if_available(control.query("SELECT @@GLOBAL.gtid_mode"))?;
    let by_gtid = gtids.is_some_and(|mode| mode.str(0, 0) == Some("ON"));
    let mut ordered = false;
    for sql in ORDER {
        if let Some(order) = if_available(control.query(*sql))? {
            ordered = order.u64(0, 0) == Some(1);
            break;
        }
    }
    let (applier, workers) = (
        if_available(reader.query(APPLIER))?,
        if_available(reader.query(WORKERS))?,
    );
    for (row, of) in info.replica_of.iter_mut().enumerate() {
        of.by_gtid = by_gtid;
        let running =
            any_of(status, row, &["Replica_SQL_Running", "Slave_SQL_Running"]) == Some("Yes");
        let failed = any_of(status, row, &["Last_SQL_Errno"]) != Some("0");
        let found = match (&applier, &workers) {
            (Some(applier), Some(workers)) => {
                let several = number_of_workers(applier, &of.channel) > 0;
                if several && !(running && ordered) && (running || failed) {
                    Err(
                        "transactions are applied in parallel and not in the order of the source (replica_preserve_commit_order is OFF), so \
                         there may be gaps",
                    )
                } else {
                    let all = places(applier, &of.channel).chain(places(workers, &of.channel));
                    all.max()
                        .ok_or("the server keeps it in a file, which is not in a snapshot")
                }
            }
            _ => Err(
                "the account may not read mysql.slave_relay_log_info and mysql.slave_worker_info",
            ),
        };
        match found {
            Ok((_, file, at)) => (of.file, of.position) = (Some(file), Some(at)),
            Err(reason) => of.not_kept = Some(reason.to_owned()),
        }
    }
    Ok(())
}

fn rows_of<'a>(table: &'a ResultSet, channel: &'a str) -> impl Iterator<Item = usize> + 'a {
    (0..table.len()).filter(move |row| table.bytes(*row, 0) == Some(channel.as_bytes()))
}

fn number_of_workers(applier: &ResultSet, channel: &str) -> u64 {
    let workers = rows_of(applier, channel).filter_map(|row| applier.u64(row, 3));
    workers.max().unwrap_or(0)
}

/// The positions in a channel's rows.
fn places<'a>(table: &'a ResultSet, channel: &'a str) -> impl Iterator<Item = Place> + 'a {
    rows_of(table, channel).filter_map(move |row| {
        let file = String::from_utf8_lossy(table.bytes(row, 1)?).into_owned();
        let at = table.u64(row, 2)?;
        (!file.is_empty()).then_some((file.len(), file, at))
    })
}
