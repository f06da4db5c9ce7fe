//! Backs a server up: finds the tool, checks everything, and writes what the tool sends.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use refloat_repository::{BackupWriter, FileId, LATEST, Manifest, Repository, usual_label};
use refloat_run::progress::Phase;
use refloat_run::{Event, Refusal, Run};
use refloat_store::storage::Storage;
use serde::Serialize;

use crate::about::About;
use crate::desync::while_desynced;
use crate::donor::{Donor, DonorOptions};
use crate::error::PhysicalError;
use crate::outcome::BackupOutcome;
use crate::outside_files;
use crate::server::{Server, Volume};
use crate::sparse;
use crate::stream::Blocks;
use crate::tool::Tool;

/// What to back up, and how.
#[derive(Debug, Clone)]
pub struct BackupOptions {
    /// The server to copy, and how to copy it.
    pub donor: DonorOptions,
    /// Label of the backup; `None`: host and time.
    pub label: Option<String>,
    /// Threads that hash and compress.
    pub threads: usize,
    /// The level of zstd; negative ones are faster.
    pub level: i32,
}

/// What a backup would do.
#[derive(Debug, Clone, Serialize)]
pub struct BackupPlan {
    /// The server, as it was named, without secrets.
    pub source: String,
    /// The version that it tells.
    pub server: String,
    /// The machine on which the tool runs.
    pub machine: String,
    /// The tool that would copy, and its version.
    pub tool: Tool,
    /// URL or path of the repository.
    pub repository: String,
    /// Label that the backup would get.
    pub label: String,
    /// Bytes that the tool reads, approximately.
    pub bytes: u64,
    /// The backups whose blocks are shared.
    pub shares: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What the checks have established before a backup begins.
struct Ready {
    donor: Donor,
    label: String,
    parents: Vec<Manifest>,
    warnings: Vec<String>,
}

/// Checks everything and returns what a backup into this storage would do. Changes nothing.
/// `repository` is `None` if it holds nothing yet.
///
/// # Errors
/// What the backup would be refused for.
pub fn plan(
    options: &BackupOptions,
    storage: &dyn Storage,
    repository: Option<&Repository>,
) -> Result<BackupPlan, PhysicalError> {
    let url = storage.url();
    let mut plan = look(options, storage, repository)?.plan(options, url);
    if repository.is_none() {
        plan.warnings
            .push(format!("{url} is empty: it becomes a new repository"));
    }
    Ok(plan)
}

/// Backs a server up.
///
/// # Errors
/// [`PhysicalError`], with what was done until then. The repository then has no backup of that
/// label.
pub fn backup(
    options: &BackupOptions,
    repository: &Repository,
    run: &Run,
) -> Result<BackupOutcome, (PhysicalError, Box<BackupOutcome>)> {
    let begun = Instant::now();
    let mut outcome = BackupOutcome {
        run: run.dir.id().to_string(),
        source: options.donor.source.describe(),
        repository: repository.storage().url().to_owned(),
        ..BackupOutcome::default()
    };
    let result = attempt(options, repository, run, &mut outcome);
    outcome.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err((error, Box::new(outcome))),
    }
}

fn attempt(
    options: &BackupOptions,
    repository: &Repository,
    run: &Run,
    outcome: &mut BackupOutcome,
) -> Result<(), PhysicalError> {
    run.progress.set_phase(Phase::Preflight);
    let storage = &**repository.storage();
    let url = storage.url();
    let ready = look(options, storage, Some(repository))?;
    let plan = ready.plan(options, url);
    outcome.label.clone_from(&plan.label);
    for warning in &plan.warnings {
        run.events.warn(warning.clone());
    }
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: "backup".to_owned(),
        source: plan.source.clone(),
        target: plan.repository.clone(),
        plan: serde_json::to_value(&plan).unwrap_or_default(),
    });
    let mut left = Vec::new();
    let facts = ready.donor.server.facts.clone();
    let manifest = while_desynced((&options.donor, &facts), run, &mut left, || {
        ready.copy(options, repository, run, outcome)
    });
    outcome.settings_left = left;
    let manifest = manifest?;
    outcome.take_totals(&manifest);
    outcome.about = About::read(&manifest).ok();
    run.progress.set_phase(Phase::Done);
    Ok(())
}

/// Checks the server, its machine and the repository, and names every objection.
fn look(
    options: &BackupOptions,
    storage: &dyn Storage,
    repository: Option<&Repository>,
) -> Result<Ready, PhysicalError> {
    let url = storage.url();
    let mut against = Vec::new();
    let looked = PhysicalError::gather(Donor::look(&options.donor), &mut against)?;
    let donor = looked.map(|(donor, more)| {
        against.extend(more);
        donor
    });
    let usual = |donor: &Donor| usual_label(&donor.server.facts.hostname, donor.server.facts.port);
    let label = options.label.clone().or_else(|| donor.as_ref().map(usual));
    let label = label.unwrap_or_default();
    if label == LATEST {
        against.push(
            Refusal::new(format!("{LATEST} always means the newest backup"))
                .hint("Choose another label."),
        );
    }
    let labels = repository.map_or_else(|| Ok(Vec::new()), Repository::labels)?;
    if labels.contains(&label) {
        against.push(
            Refusal::new(format!("{url} already has a backup {label:?}"))
                .hint("Choose another label, or leave it out."),
        );
    }
    let Some(donor) = donor.filter(|_| against.is_empty()) else {
        return Err(PhysicalError::Refused(against));
    };
    // Earlier backups that cannot be read have no blocks to share, but must not prevent new
    // backups.
    let mut warnings = Vec::new();
    let found = repository.map_or_else(|| Ok((Vec::new(), false)), |it| parents(it, &donor.server));
    let (parents, is_known) = found.unwrap_or_else(|error| {
        let why = refloat_host::chain(&error);
        warnings.push(format!(
            "no blocks are shared, because earlier backups cannot be read: {why}"
        ));
        (Vec::new(), false)
    });
    if !is_known {
        warnings.extend(too_little(storage, &donor.volume));
    }
    Ok(Ready {
        donor,
        label,
        parents,
        warnings,
    })
}

/// Warns of a storage in which the first backup of a server may not fit. How far data can be
/// compressed is only known once they are, so this refuses nothing.
fn too_little(storage: &dyn Storage, volume: &Volume) -> Option<String> {
    // Tables that are compressed already become no smaller.
    let expected = (volume.bytes / 2).min(volume.room);
    let room = storage.room().filter(|room| *room < expected)?;
    Some(format!(
        "{room} bytes are free in {}: a backup of {} bytes of data usually takes a third to a half \
         of that",
        storage.url(),
        volume.bytes
    ))
}

/// The backups that this one will have most blocks in common with: the newest of the same server,
/// and the newest of all, which may be of another node of its cluster. Returns, too, whether there
/// is one of the same server.
fn parents(
    repository: &Repository,
    server: &Server,
) -> Result<(Vec<Manifest>, bool), PhysicalError> {
    let all = repository.backups()?;
    let physical = || {
        all.iter()
            .rev()
            .filter_map(|one| Some((one, About::read(one).ok()?)))
    };
    let same = physical().find(|(_, about)| {
        about.server.uuid == server.facts.uuid
            && about.server.datadir == server.facts.datadir
            && about.server.hostname == server.facts.hostname
    });
    let mut parents: Vec<Manifest> = same.iter().map(|(one, _)| (*one).clone()).collect();
    if let Some((newest, _)) = physical().next()
        && parents.iter().all(|one| one.label != newest.label)
    {
        parents.push(newest.clone());
    }
    Ok((parents, same.is_some()))
}

impl Ready {
    fn plan(&self, options: &BackupOptions, url: &str) -> BackupPlan {
        BackupPlan {
            source: options.donor.source.describe(),
            server: self.donor.server.facts.version.clone(),
            machine: self.donor.machine().to_owned(),
            tool: self.donor.tool.clone(),
            repository: url.to_owned(),
            label: self.label.clone(),
            bytes: self.donor.volume.bytes,
            shares: self.parents.iter().map(|one| one.label.clone()).collect(),
            warnings: {
                let mut warnings = self.donor.warnings.clone();
                warnings.extend_from_slice(&self.warnings);
                let outside = &self.donor.server.tables_outside;
                if let Some(one) = outside.first() {
                    let refusal = outside_files::tables(outside.len(), one);
                    warnings.push(format!(
                        "{}. A restore needs --all-in-datadir.",
                        refusal.reason
                    ));
                }
                warnings
            },
        }
    }

    /// Runs the tool and writes what it sends.
    fn copy(
        self,
        options: &BackupOptions,
        repository: &Repository,
        run: &Run,
        outcome: &mut BackupOutcome,
    ) -> Result<Manifest, PhysicalError> {
        let mut writer = BackupWriter::begin(
            repository,
            &self.label,
            &self.parents,
            (options.threads, options.level),
        )?;
        for one in writer.unshared() {
            run.events.warn(format!("no blocks are shared with {one}"));
        }
        let mut blocked = Duration::ZERO;
        let measured = Measured {
            writer: &writer,
            room: AtomicU64::new(0),
        };
        let copied = self.donor.copy(&measured, run, &mut blocked);
        let room = measured.room.into_inner();
        outcome.blocked_seconds = blocked.as_secs_f64();
        outcome.count(writer.totals());
        let mut copied = copied?;
        writer.wait()?;
        outcome.count(writer.totals());
        copied.about.room = Some(room);
        let about = copied.about.into_map();
        let about = about.map_err(|source| PhysicalError::Info {
            label: self.label,
            source,
        })?;
        Ok(writer.finish(copied.files, about)?)
    }
}

/// Adds up what a restore will write.
struct Measured<'w> {
    writer: &'w BackupWriter,
    room: AtomicU64,
}

impl Blocks for Measured<'_> {
    type File = FileId;
    const CUTS_BY_LSN: bool = true;

    fn begin(&self, _: &Path) -> FileId {
        self.writer.file()
    }

    fn buffer(&self) -> Vec<u8> {
        self.writer.buffer()
    }

    fn put(&self, file: FileId, begins: u64, bytes: Vec<u8>) -> Result<(), PhysicalError> {
        let room = sparse::room(begins, &bytes);
        self.room.fetch_add(room, Ordering::Relaxed);
        Ok(self.writer.put(file, begins, bytes)?)
    }
}
