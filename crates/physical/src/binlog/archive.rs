//! Archives the binary logs of a server in a repository: reads them as a replica does, checks every
//! event, and stores the bytes of the server's files.
//!
//! Pieces of files are stored (`refloat_repository::Journal`), each of them whole events. So an
//! archive resumes after the last event that is stored, however it ended. To be sure that it
//! resumes in the same file, it asks for that last event again and compares it.

mod history;
mod resume;
mod stream;

use std::time::{Duration, Instant};

use refloat_repository::{Journal, JournalFile, Repository, server_label};
use refloat_run::progress::Phase;
use refloat_run::{Event, Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Error, Identity};
use serde::Serialize;

use crate::about::ServerFacts;
use crate::binlog::about::ArchiveAbout;
use crate::binlog::archive::resume::Resume;
pub(crate) use crate::binlog::archive::resume::{ServerLog, server_logs};
use crate::binlog::archive::stream::Stream;
pub(crate) use crate::binlog::archive::stream::Verified;
use crate::error::PhysicalError;
use crate::server::Server;

/// Longest wait before the server is asked again after a connection was lost.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR` and `ER_ACCESS_DENIED_ERROR`.
const DENIED: [u16; 2] = [1227, 1045];
/// The warning about a replica's logs.
const OWN_ONLY: &str = "the server is a replica whose binary logs lack the changes that it receives (log_replica_updates or log_slave_updates is OFF): no backup of it can be restored to another moment with them; archive the logs of its source, or set it ON";
/// `ER_NO_BINARY_LOGGING`.
const NO_LOGS: u16 = 1381;

/// Whose logs are kept, and how.
#[derive(Debug, Clone)]
pub struct ArchiveOptions {
    /// The server whose logs are kept, and how to connect to it.
    pub source: ConnectOptions,
    /// Name of the archive; `None`: that of the server.
    pub name: Option<String>,
    /// Whether to end once everything that the logs held at the beginning is stored.
    pub once: bool,
    /// How long events may wait before they are stored.
    pub interval: Duration,
}

/// What a run has added to an archive, and what it has found there.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ArchiveOutcome {
    /// Id of the run, which is the name of its folder.
    pub run: String,
    /// The server, as it was named, without secrets.
    pub source: String,
    /// URL or path of the repository.
    pub repository: String,
    /// Name of the archive within the repository.
    pub name: String,
    /// Bytes of logs that were added.
    pub bytes: u64,
    /// File up to which the logs are stored.
    pub file: String,
    /// Byte up to which it is stored.
    pub position: u64,
    /// Files of the archive that cannot be read back.
    pub damaged: Vec<String>,
    /// Seconds that the whole run took.
    pub seconds: f64,
}

/// Archives the logs of a server, until the run is cancelled or, with [`ArchiveOptions::once`], all
/// of them are stored.
///
/// # Errors
/// [`PhysicalError`], with what was done until then. What is stored stays, and the next run
/// continues after it.
pub fn archive(
    options: &ArchiveOptions,
    repository: &Repository,
    run: &Run,
) -> Result<ArchiveOutcome, (PhysicalError, Box<ArchiveOutcome>)> {
    let begun = Instant::now();
    let mut outcome = ArchiveOutcome {
        run: run.dir.id().to_string(),
        source: options.source.describe(),
        repository: repository.storage().url().to_owned(),
        ..ArchiveOutcome::default()
    };
    let result = attempt(options, repository, run, &mut outcome);
    outcome.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err((error, Box::new(outcome))),
    }
}

fn attempt(
    options: &ArchiveOptions,
    repository: &Repository,
    run: &Run,
    outcome: &mut ArchiveOutcome,
) -> Result<(), PhysicalError> {
    run.progress.set_phase(Phase::Preflight);
    let mut conn = connect(options)?;
    let (journal, about) = journal(options, repository, &mut conn)?;
    journal.name().clone_into(&mut outcome.name);
    // Without the privilege, the server does not say whether it is a replica.
    let has_own_only = Server::look(&mut conn)?.logs_own_only();
    // From here on, a lost connection is replaced.
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: "binlog archive".to_owned(),
        source: outcome.source.clone(),
        target: format!("{} {}", outcome.repository, outcome.name),
        plan: serde_json::Value::Null,
    });
    if has_own_only {
        run.events.warn(OWN_ONLY);
    }
    let files = journal.files()?;
    for file in files.iter().rev().skip(1) {
        merge(&journal, file, run, outcome);
    }
    run.progress.set_phase(Phase::Data);
    let mut pause = Duration::from_secs(1);
    loop {
        let before = outcome.bytes;
        let error = match follow(options, conn, (&journal, &about), run, outcome) {
            Ok(()) => break,
            Err(error) => error,
        };
        if run.cancel.is_cancelled() {
            break;
        }
        if options.once || !is_lost(&error) {
            return Err(error);
        }
        run.events.warn(format!(
            "the connection was lost; reconnecting: {}",
            refloat_host::chain(&error)
        ));
        if outcome.bytes > before {
            pause = Duration::from_secs(1);
        }
        conn = loop {
            run.cancel.sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            match connect(options) {
                _ if run.cancel.is_cancelled() => return ended(outcome),
                Ok(conn) => break conn,
                Err(error) if is_lost(&error) => {}
                Err(error) => return Err(error),
            }
        };
        is_same(&about, &journal, conn.identity(), conn.server().vendor)?;
    }
    ended(outcome)
}

fn ended(outcome: &ArchiveOutcome) -> Result<(), PhysicalError> {
    match outcome.damaged.first() {
        None => Ok(()),
        Some(first) => Err(PhysicalError::Binlog {
            place: format!("archive {} in {}", outcome.name, outcome.repository),
            reason: format!("files that were stored cannot be read back: {first}"),
        }),
    }
}

fn connect(options: &ArchiveOptions) -> Result<Connection, PhysicalError> {
    Connection::connect(&options.source).map_err(PhysicalError::server("connecting to the server"))
}

/// Refuses logs that the account may not read, or that a replica receives in another form than they
/// have on disk.
fn is_readable(conn: &mut Connection) -> Result<(), PhysicalError> {
    server_logs(conn)?;
    let rows = conn
        .query("SHOW GLOBAL VARIABLES LIKE 'encrypt_binlog'")
        .map_err(PhysicalError::server("asking for a setting"))?;
    if rows.named("encrypt_binlog") != Some("ON") {
        return Ok(());
    }
    Err(PhysicalError::refused(
        Refusal::new("the server encrypts its binary logs (encrypt_binlog)")
            .hint("Replicas receive other bytes than the files hold. Archive the logs of a replica that does not encrypt its own (with log_slave_updates) instead."),
    ))
}

fn is_lost(error: &PhysicalError) -> bool {
    let PhysicalError::Server { source, .. } = error else {
        return false;
    };
    source.retry() == refloat_wire::RetryStatus::Reconnect
}

/// The archive of the server; it is started if it does not exist.
fn journal(
    options: &ArchiveOptions,
    repository: &Repository,
    conn: &mut Connection,
) -> Result<(Journal, ArchiveAbout), PhysicalError> {
    let (identity, vendor) = (conn.identity().clone(), conn.server().vendor);
    let usual = || server_label(&identity.hostname, identity.port);
    let name = options.name.clone().unwrap_or_else(usual);
    let journal = Journal::new(repository, &name)?;
    if let Some(about) = ArchiveAbout::read(&journal)? {
        is_same(&about, &journal, &identity, vendor)?;
        is_readable(conn)?;
        return Ok((journal, about));
    }
    is_readable(conn)?;
    let id = blake3::hash(format!("{name} {}", refloat_run::RunId::new()).as_bytes());
    let id = u32::from_le_bytes(*id.as_bytes().first_chunk().unwrap_or(&[1; 4]));
    // People choose small numbers for servers.
    let about = ArchiveAbout::of(&identity, &vendor.to_string(), id | 1 << 31);
    journal.begin(&serde_json::to_vec_pretty(&about).unwrap_or_default())?;
    Ok((journal, about))
}

/// Whether the archive belongs to this server.
fn is_same(
    about: &ArchiveAbout,
    journal: &Journal,
    identity: &Identity,
    vendor: refloat_wire::Vendor,
) -> Result<(), PhysicalError> {
    let server = ServerFacts {
        vendor: vendor.to_string(),
        hostname: identity.hostname.clone(),
        port: identity.port,
        uuid: identity.uuid.clone(),
        ..ServerFacts::default()
    };
    about.differs_from(&server).map_or(Ok(()), |why| {
        Err(PhysicalError::refused(
            Refusal::new(format!(
                "archive {} belongs to another server, not to {identity}: {why}",
                journal.name()
            ))
            .hint("Start another archive for this one: --name NAME."),
        ))
    })
}

/// Follows the logs of the server until the connection ends, the run is cancelled, or everything
/// that was asked for is stored.
fn follow(
    options: &ArchiveOptions,
    mut conn: Connection,
    (journal, about): (&Journal, &ArchiveAbout),
    run: &Run,
    outcome: &mut ArchiveOutcome,
) -> Result<(), PhysicalError> {
    let logs = server_logs(&mut conn)?;
    let resume = Resume::find(journal, &logs)?;
    let target = logs
        .last()
        .filter(|_| options.once)
        .map(|last| (last.number, last.size));
    // Only an arrival triggers the check whether events have waited long enough.
    let heartbeat = (options.interval / 4)
        .max(Duration::from_millis(100))
        .min(Duration::from_secs(if options.once { 1 } else { 10 }));
    let asking = PhysicalError::server("asking for the binary log");
    conn.set_timeouts(Some(Duration::from_secs(60).max(heartbeat * 3)), None)
        .map_err(PhysicalError::server("setting a time limit"))?;
    let stream = conn
        .into_binlog((&resume.file, resume.ask), about.replica, heartbeat)
        .map_err(asking)?;
    let handle = stream.shutdown_handle();
    let _hook = run.cancel.on_cancel(move || handle.shutdown());
    let mut stream = Stream::new(journal, resume, stream, options.interval);
    loop {
        let stepped = stream.step(target);
        let rotated = match stepped {
            Ok(step) if step.is_done => {
                let flushed = stream.flush();
                stream.report(outcome);
                return flushed;
            }
            Ok(step) => step.completed,
            Err(error) => {
                // What has arrived is stored even after an error, so that it need not be requested
                // again.
                let flushed = stream.flush();
                stream.report(outcome);
                flushed?;
                return Err(error);
            }
        };
        stream.report(outcome);
        if let Some(completed) = rotated {
            run.events.note(format!("{completed} is complete"));
            let files = journal.files()?;
            if let Some(file) = files.iter().find(|file| file.name == completed) {
                merge(journal, file, run, outcome);
            }
        }
    }
}

/// Makes one piece of a complete file, reading all of it back and checking every event.
fn merge(journal: &Journal, file: &JournalFile, run: &Run, outcome: &mut ArchiveOutcome) {
    let is_whole = file.gap.is_none();
    if is_whole && file.pieces.len() == 1 && file.spare.is_empty() {
        return;
    }
    let merge = || -> Result<(), PhysicalError> {
        if file.pieces.len() > 1 || !is_whole {
            let mut source = Verified::new(journal.read(file)?);
            journal.append(&file.name, (0, file.size()), &mut source)?;
            journal.remove(&file.pieces)?;
        }
        Ok(journal.remove(&file.spare)?)
    };
    if let Err(error) = merge() {
        let words = format!("{}: {}", file.name, refloat_host::chain(&error));
        run.events.warn(format!(
            "a file of the archive cannot be read back: {words}"
        ));
        outcome.damaged.push(words);
    }
}

/// An error of a statement that needs a privilege.
fn denied(source: Error) -> PhysicalError {
    match source.server_code() {
        Some(code) if DENIED.contains(&code) => PhysicalError::refused(
            Refusal::new(format!("the account may not read the binary logs: {source}")).hint(
                "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* on MariaDB; GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* on MySQL.",
            ),
        ),
        Some(NO_LOGS) => PhysicalError::refused(
            Refusal::new("the server writes no binary log (log_bin is OFF)")
                .hint("Set log_bin in its option file and restart it."),
        ),
        _ => PhysicalError::server("asking for the binary logs")(source),
    }
}
