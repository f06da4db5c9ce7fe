//! Replays binary logs into the files of a restore, before these take their place.
//!
//! This is done by a server that nobody else can reach. Its changes are kept only if everything
//! succeeds. Until then, the folder counts as one that a tool is working on, and an interrupted
//! restore starts over with the files of the backup.

mod apply;
mod programs;
mod server;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::fchown;
use std::path::PathBuf;
use std::time::Instant;

use refloat_repository::{Manifest, Repository};
use refloat_run::{Cancel, Refusal, Run};
use refloat_wire::{Connection, Vendor};
use serde::Serialize;

use crate::about::{About, BinlogPosition};
use crate::binlog::gtid::Seen;
use crate::binlog::logs::{Logs, LogsPlace};
use crate::binlog::replay::apply::apply;
use crate::binlog::replay::programs::Programs;
use crate::binlog::replay::server::Private;
use crate::binlog::survey::{Stretch, survey};
use crate::binlog::until::{Until, moment};
use crate::error::PhysicalError;
use crate::folder::Building;
use crate::server::logs_only_own_changes;
use crate::tool::ToolKind;

/// The file in which MySQL keeps the server's UUID; each server creates its own.
const IDENTITY: &str = "auto.cnf";

/// The point in time that is restored.
#[derive(Debug, Clone)]
pub struct PointInTime {
    /// Up to where logs are replayed.
    pub until: Until,
    /// Where the logs are read from.
    pub logs: LogsPlace,
    /// The folder with the programs of the server; `None`: the search path.
    pub programs: Option<PathBuf>,
}

/// What was, or would be, replayed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Replayed {
    /// Up to where, as it was asked for.
    pub until: String,
    /// Where the logs were read from, in words.
    pub logs: String,
    /// File and byte at which the backup stands; empty: known only once the restored server has
    /// started.
    pub begin: String,
    /// File and byte at which it stops.
    pub end: String,
    /// When the last transaction was committed, in seconds since 1970; `None`: there was none.
    pub last: Option<u64>,
    /// Number of transactions that were replayed.
    pub transactions: u64,
    /// All transactions of the logs up to the end, by their GTIDs; empty: they have none.
    pub gtids: String,
    /// Seconds that the replay took.
    pub seconds: f64,
}

/// What has been checked before the files are fetched.
pub struct Replay {
    programs: Programs,
    logs: Logs,
    until: Until,
    /// The position of the backup, or the one at its beginning, and what is replayed from there.
    early: Option<(BinlogPosition, Stretch)>,
}

impl Replay {
    /// Checks the logs and the programs that replay them.
    ///
    /// # Errors
    /// What speaks against the replay.
    pub fn look(
        options: &PointInTime,
        repository: &Repository,
        (manifest, about): (&Manifest, &About),
        cancel: &Cancel,
    ) -> Result<Self, PhysicalError> {
        let mut against = objections(about);
        let late = matches!(options.until, Until::Time(time) if time < manifest.began);
        if late {
            against.push(
                Refusal::new(format!(
                    "backup {} was started at {}, after {}",
                    manifest.label,
                    moment(manifest.began),
                    options.until
                ))
                .hint("Restore an older backup: `refloat backups list` shows them."),
            );
        }
        let programs = Programs::find(about, options.programs.as_deref());
        let programs = programs.map_err(|refusal| against.push(refusal)).ok();
        if !against.is_empty() {
            return Err(PhysicalError::Refused(against));
        }
        let mut logs = Logs::find(&options.logs, repository, &about.server)?;
        let start = about.binlog.as_ref().or(about.binlog_began.as_ref());
        let early = match start {
            Some(start) => {
                logs.keep_like(&start.file);
                let stretch = survey(&logs, start, &options.until, cancel)?;
                is_of_server(&logs, start, &stretch)?;
                Some((start.clone(), stretch))
            }
            None => None,
        };
        Ok(Self {
            programs: programs.ok_or_else(|| PhysicalError::Refused(Vec::new()))?,
            logs,
            until: options.until.clone(),
            early,
        })
    }

    pub fn plan(&self) -> Replayed {
        match &self.early {
            Some((start, stretch)) => self.as_replayed(start, stretch),
            None => Replayed {
                until: self.until.to_string(),
                logs: self.logs.shown.clone(),
                ..Replayed::default()
            },
        }
    }

    fn as_replayed(&self, start: &BinlogPosition, stretch: &Stretch) -> Replayed {
        let (file, at) = &stretch.stop;
        Replayed {
            until: self.until.to_string(),
            logs: self.logs.shown.clone(),
            begin: format!("{}:{}", start.file, start.position),
            end: format!("{file}:{at}"),
            last: stretch.last,
            transactions: stretch.transactions,
            gtids: stretch.seen.to_string(),
            seconds: 0.0,
        }
    }

    /// Replays the logs into the files of a folder, which are prepared and belong to the server's
    /// account.
    ///
    /// # Errors
    /// The logs do not fit, or the server does not start or does not take them. The files then no
    /// longer belong to any backup.
    pub fn run(
        mut self,
        (building, about): (&Building, &About),
        (owner, memory): (Option<(u32, u32)>, u64),
        run: &Run,
    ) -> Result<Replayed, PhysicalError> {
        let begun = Instant::now();
        let server = Private::start(
            &self.programs,
            (building, about),
            (owner, memory),
            &run.cancel,
        )?;
        let mut conn = server.connect()?;
        let vendor = conn.server().vendor;
        let (start, stretch) = match (vendor, self.early.take()) {
            (Vendor::MariaDb, Some(found)) => found,
            _ => self.of_clone(&mut conn, &run.cancel)?,
        };
        apply(
            (&self.programs, &self.logs),
            &stretch,
            (&mut conn, &server.scratch()),
            run,
        )?;
        let written = if vendor == Vendor::MariaDb {
            continue_gtids(&mut conn, &stretch.seen)?;
            let base = start.file.rsplit_once('.').map_or("", |(base, _)| base);
            Some((format!("{base}.state"), stretch.seen.state()))
        } else {
            has_all(&mut conn, &stretch.seen)?;
            None
        };
        server.stop(conn, &run.cancel)?;
        let folder = building.path();
        if let Some((name, state)) = written {
            write_for(owner, building, &name, &state)?;
        }
        let identity = folder.join(IDENTITY);
        if identity.exists() {
            fs::remove_file(&identity).map_err(PhysicalError::file(&identity, "removing it"))?;
        }
        let mut replayed = self.as_replayed(&start, &stretch);
        replayed.seconds = begun.elapsed().as_secs_f64();
        Ok(replayed)
    }

    /// The position of a copy made by the clone plugin, which the server reports once it runs.
    fn of_clone(
        &mut self,
        conn: &mut Connection,
        cancel: &Cancel,
    ) -> Result<(BinlogPosition, Stretch), PhysicalError> {
        let ask = "SELECT BINLOG_FILE, BINLOG_POSITION, GTID_EXECUTED FROM performance_schema.clone_status";
        let rows = conn.query(ask).map_err(PhysicalError::server(
            "asking the restored server for the position of the backup",
        ))?;
        let start = BinlogPosition {
            file: rows.str(0, 0).unwrap_or_default().to_owned(),
            position: rows.u64(0, 1).unwrap_or(0),
            gtid: rows
                .str(0, 2)
                .unwrap_or_default()
                .split_whitespace()
                .collect(),
        };
        if start.file.is_empty() {
            return Err(PhysicalError::refused(
                Refusal::new("the backup has no position in the binary log").hint(
                    "Its server wrote no binary log. Without logs, only the backup itself can be restored.",
                ),
            ));
        }
        self.logs.keep_like(&start.file);
        let stretch = survey(&self.logs, &start, &self.until, cancel)?;
        is_of_server(&self.logs, &start, &stretch)?;
        Ok((start, stretch))
    }

    /// Whether only their names connect the logs to the server.
    pub fn is_unproven(&self) -> bool {
        let has_gtids = |found: &(BinlogPosition, Stretch)| {
            !found.0.gtid.is_empty() && !found.1.before.is_empty()
        };
        !self.logs.is_known() && !self.early.as_ref().is_some_and(has_gtids)
    }
}

/// The objections to replaying logs after this backup.
fn objections(about: &About) -> Vec<Refusal> {
    let mut against = Vec::new();
    if about.galera.is_some() {
        against.push(
            Refusal::new("the backup is of a node of a Galera cluster, and replaying logs into one is not supported yet")
                .hint("Its position in the cluster's history would no longer match its rows. Restore without --until, and replay with mariadb-binlog on a server that starts a new cluster."),
        );
    }
    if about.tool_kind() == ToolKind::MariadbBackup && about.binlog.is_none() {
        against.push(
            Refusal::new("the backup has no position in the binary log")
                .hint("Its server wrote no binary log (log_bin is OFF). Without logs, only the backup itself can be restored."),
        );
    }
    if about.tool_kind() == ToolKind::Xtrabackup {
        against.push(
            Refusal::new("replaying logs after a backup by XtraBackup is not supported")
                .hint("Restore without --until, and replay with mysqlbinlog. After a backup of MySQL by its clone plugin, logs can be replayed."),
        );
    }
    if about.replica.is_some() && logs_only_own_changes(&about.server.settings) {
        against.push(
            Refusal::new("the backup is of a replica whose binary logs lack the changes that it received (log_replica_updates or log_slave_updates is OFF)")
                .hint("They would only bring back its own changes. Restore a backup of the source with the source's logs, or restore without --until and let the replica catch up."),
        );
    }
    against.extend(about.server.encrypts().map(|name| {
        Refusal::new(format!("the server encrypted its files ({name})"))
            .hint("The server that replays logs has no keys. Restore without --until, and replay with the server's own tool.")
    }));
    against
}

/// Whether the logs share the history of the backup.
fn is_of_server(
    logs: &Logs,
    start: &BinlogPosition,
    stretch: &Stretch,
) -> Result<(), PhysicalError> {
    let Ok(of_backup) = start.gtid.parse::<Seen>() else {
        return Ok(());
    };
    let before = &stretch.before;
    if start.gtid.is_empty() || before.is_empty() || before.fits(&of_backup) {
        return Ok(());
    }
    Err(PhysicalError::refused(
        Refusal::new(format!(
            "{}: at {}:{} they have {before}, but the backup has {of_backup}",
            logs.shown, start.file, start.position
        ))
        .hint("The logs belong to another server, or to another history of this one."),
    ))
}

/// MariaDB: makes the restored server continue after the transactions that were replayed.
fn continue_gtids(conn: &mut Connection, seen: &Seen) -> Result<(), PhysicalError> {
    if seen.is_empty() {
        return Ok(());
    }
    let setting = || PhysicalError::server("setting gtid_slave_pos of the restored server");
    let others = conn
        .query_value("SELECT @@GLOBAL.gtid_slave_pos")
        .map_err(setting())?;
    let others = others.unwrap_or_default().parse().unwrap_or_default();
    let position = seen.position(&others);
    conn.exec(format!("SET GLOBAL gtid_slave_pos = '{position}'"))
        .map_err(setting())?;
    Ok(())
}

/// MySQL: whether the restored server has all transactions that were replayed.
fn has_all(conn: &mut Connection, seen: &Seen) -> Result<(), PhysicalError> {
    let asking = PhysicalError::server("asking the restored server for its transactions");
    let executed = conn
        .query_value("SELECT @@GLOBAL.gtid_executed")
        .map_err(asking)?;
    let executed: Seen = executed.unwrap_or_default().parse().unwrap_or_default();
    if seen.is_within(&executed) {
        return Ok(());
    }
    Err(PhysicalError::Binlog {
        place: "the restored server".to_owned(),
        reason: format!("it has {executed}, but the replayed logs have {seen}"),
    })
}

/// Writes a file into a folder that belongs to the server's account already.
fn write_for(
    owner: Option<(u32, u32)>,
    building: &Building,
    name: &str,
    text: &str,
) -> Result<(), PhysicalError> {
    let write = || -> io::Result<()> {
        let mut file = building.held().replace_file(OsStr::new(name))?;
        file.write_all(text.as_bytes())?;
        fchown(&file, owner.map(|ids| ids.0), owner.map(|ids| ids.1))
    };
    write().map_err(PhysicalError::file(
        building.path().join(name),
        "writing the state of the binary log",
    ))
}
