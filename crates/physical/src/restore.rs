//! Restores a backup: fetches its files beside the data directory, prepares them, swaps them in.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use refloat_repository::{FileEntry, Manifest, Repository, fetch};
use refloat_run::progress::Phase;
use refloat_run::{Cancel, Event, Run};
use serde::Serialize;

use crate::about::{About, KIND};
use crate::binlog::replay::Replay;
use crate::binlog::{PointInTime, Replayed};
use crate::error::PhysicalError;
use crate::find::version_in;
use crate::folder::{Building, Step};
use crate::option_file;
use crate::outcome::RestoreOutcome;
use crate::outside_files;
use crate::prepare;
use crate::swap::Place;
use crate::target::{TargetOptions, dispose, start};
use crate::tool::Tool;

/// What is to be restored, where to and how.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// Label of the backup, or [`LATEST`](refloat_repository::LATEST).
    pub label: String,
    /// The data directory to fill, and what happens to it.
    pub target: TargetOptions,
    /// Up to where binary logs are replayed; `None`: the backup itself is restored.
    pub until: Option<PointInTime>,
    /// Whether an unfinished restore of something else is removed.
    pub restart: bool,
    /// Threads that fetch, decrypt and decompress.
    pub threads: usize,
}

/// The warning about logs that only their names tie to the backup.
const UNPROVEN: &str = "the logs have no GTIDs, and nothing but their names shows that they are of the server that was backed up";

impl RestoreOptions {
    /// Identifies an unfinished restore. Another point in time, or logs in another place, make it
    /// another restore.
    fn named(&self, label: &str) -> String {
        self.until.as_ref().map_or_else(
            || label.to_owned(),
            |point| format!("{label} until {} by {}", point.until, point.logs),
        )
    }
}

/// What a restore would do.
#[derive(Debug, Clone, Serialize)]
pub struct RestorePlan {
    /// URL or path of the repository.
    pub repository: String,
    /// Label of the backup that would be restored.
    pub label: String,
    /// When it was made, in seconds since 1970.
    pub began: u64,
    /// Bytes of its files, uncompressed.
    pub bytes: u64,
    /// The data directory that would be filled.
    pub datadir: PathBuf,
    /// The folder in which the files are prepared.
    pub building: PathBuf,
    /// Where the current contents of the data directory will go; `None`: it is empty.
    pub aside: Option<PathBuf>,
    /// The tool that prepares it.
    pub tool: Tool,
    /// What the backup says of its server.
    pub about: About,
    /// The binary logs that are replayed.
    pub replay: Option<Replayed>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What the checks have established before a restore begins.
struct Ready {
    manifest: Manifest,
    files: Vec<FileEntry>,
    about: About,
    tool: Tool,
    place: Place,
    replay: Option<Replay>,
    /// The warning about what the new server will find outside its data directory.
    warning: Option<String>,
}

/// Plans a restore. Changes nothing.
///
/// # Errors
/// What the restore would be refused for.
pub fn plan(
    options: &RestoreOptions,
    repository: &Repository,
) -> Result<RestorePlan, PhysicalError> {
    let ready = look(options, repository, &Cancel::new())?;
    Ok(ready.plan(repository, "RUN"))
}

/// Restores a backup into a data directory.
///
/// # Errors
/// [`PhysicalError`], with what was done until then. The data directory is as it was. What was
/// fetched stays beside it, and the same restore resumes with it.
pub fn restore(
    options: &RestoreOptions,
    repository: &Repository,
    run: &Run,
) -> Result<RestoreOutcome, (PhysicalError, Box<RestoreOutcome>)> {
    let begun = Instant::now();
    let mut outcome = RestoreOutcome {
        run: run.dir.id().to_string(),
        repository: repository.storage().url().to_owned(),
        label: options.label.clone(),
        datadir: options.target.datadir.clone(),
        ..RestoreOutcome::default()
    };
    let result = attempt(options, repository, run, &mut outcome);
    outcome.seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err((error, Box::new(outcome))),
    }
}

fn attempt(
    options: &RestoreOptions,
    repository: &Repository,
    run: &Run,
    outcome: &mut RestoreOutcome,
) -> Result<(), PhysicalError> {
    run.progress.set_phase(Phase::Preflight);
    if complete(options, repository, run, outcome)? {
        return Ok(());
    }
    let mut ready = look(options, repository, &run.cancel)?;
    let plan = ready.plan(repository, run.dir.id().as_str());
    for warning in &plan.warnings {
        run.events.warn(warning.clone());
    }
    outcome.label.clone_from(&plan.label);
    outcome.bytes = plan.bytes;
    outcome.files = ready.manifest.files;
    outcome.about = Some(plan.about.clone());
    run.events.emit(Event::RunStarted {
        run: run.dir.id().clone(),
        command: "restore".to_owned(),
        source: format!("{} {}", plan.repository, plan.label),
        target: plan.datadir.display().to_string(),
        plan: serde_json::to_value(&plan).unwrap_or_default(),
    });
    let mut building = Building::begin(
        &plan.building,
        repository.id(),
        &options.named(&plan.label),
        options.restart,
    )?;
    ready.place.guard(&building)?;
    // The logs may have grown since, so that their end is now elsewhere.
    let end = plan.replay.as_ref().map(|replay| replay.end.as_str());
    if !building.is_ready(end) {
        run.progress.set_phase(Phase::Data);
        let begun = Instant::now();
        outcome.fetched = ready.fetch(options, repository, run, &mut building)?;
        outcome.fetch_seconds = begun.elapsed().as_secs_f64();
        prepare::begin(&building, run);
        let begun = Instant::now();
        building.reach(Step::Preparing)?;
        outside_files::remove_links(building.path())?;
        prepare::prepare(&ready.tool, &building, options.target.memory, &run.cancel)?;
        ready
            .place
            .give_to_server(building.held(), building.path())?;
        outcome.prepare_seconds = begun.elapsed().as_secs_f64();
        if let Some(replay) = ready.replay {
            if replay.is_unproven() {
                run.events.warn(UNPROVEN);
            }
            let memory = options.target.memory.unwrap_or_else(prepare::memory_here);
            let owner = ready.place.owner();
            let replayed = replay.run((&building, &ready.about), (owner, memory), run)?;
            building.replayed(Some(replayed.end.clone()));
            outcome.replayed = Some(replayed);
        }
        building.reach(Step::Prepared)?;
    }
    outcome.aside = ready.place.fill(building, run.dir.id().as_str())?;
    start(&options.target, &ready.place, run, &mut outcome.started)?;
    dispose(&options.target, &mut outcome.aside, run);
    Ok(())
}

/// Completes an earlier restore of this backup that ended right after it had put the files in
/// place.
fn complete(
    options: &RestoreOptions,
    repository: &Repository,
    run: &Run,
    outcome: &mut RestoreOutcome,
) -> Result<bool, PhysicalError> {
    let manifest = repository.find(&options.label, Some(KIND))?;
    let place = Place::look(&options.target.datadir)?;
    if !place.is_filled(repository.id(), &options.named(&manifest.label))? {
        return Ok(false);
    }
    run.events.note(format!(
        "an earlier restore of backup {} had put its files in place",
        manifest.label
    ));
    outcome.label = manifest.label;
    outcome.aside = place.tidy(run.dir.id().as_str())?;
    start(&options.target, &place, run, &mut outcome.started)?;
    dispose(&options.target, &mut outcome.aside, run);
    Ok(true)
}

/// Checks the backup, the tool and the data directory, and names every objection.
fn look(
    options: &RestoreOptions,
    repository: &Repository,
    cancel: &Cancel,
) -> Result<Ready, PhysicalError> {
    let manifest = repository.find(&options.label, Some(KIND))?;
    let about = About::read(&manifest).map_err(|source| PhysicalError::Info {
        label: manifest.label.clone(),
        source,
    })?;
    let place = Place::look(&options.target.datadir)?;
    let mut against = place.objections(options.target.replace)?;
    let (more, warning) = options.target.objections(&about.server, place.path())?;
    against.extend(more);
    let files = repository.files(&manifest)?;
    let mut links = files
        .iter()
        .filter(|file| outside_files::is_link(&file.path));
    if let Some(one) = links.next().filter(|_| !options.target.all_in_datadir) {
        against.push(outside_files::tables(1 + links.count(), &one.path));
    }
    let tool = prepare::tool_for(&about, options.target.tool.as_deref());
    let tool = PhysicalError::gather(tool, &mut against)?;
    // Before everything else is fetched: what it names may not be here.
    let of_tool = option_file::read(repository, &manifest, &files, cancel)?;
    against.extend(
        of_tool
            .iter()
            .flat_map(|text| option_file::objections(text)),
    );
    if let Some(its) = version_in(&about.server.version) {
        against.extend(options.target.no_server_for(about.tool_kind(), its));
    }
    let looked = options
        .until
        .as_ref()
        .map(|until| Replay::look(until, repository, (&manifest, &about), cancel));
    let replay = match looked.transpose() {
        Ok(replay) => replay,
        Err(PhysicalError::Refused(more)) => {
            against.extend(more);
            None
        }
        Err(error) => return Err(error),
    };
    against.extend(place.lacks_room(about.room_for(&files)));
    match tool {
        Some(tool) if against.is_empty() => Ok(Ready {
            manifest,
            files,
            about,
            tool,
            place,
            replay,
            warning,
        }),
        _ => Err(PhysicalError::Refused(against)),
    }
}

impl Ready {
    fn plan(&self, repository: &Repository, run: &str) -> RestorePlan {
        RestorePlan {
            repository: repository.storage().url().to_owned(),
            label: self.manifest.label.clone(),
            began: self.manifest.began,
            bytes: self.manifest.bytes,
            datadir: self.place.path().to_owned(),
            building: self.place.building(),
            aside: self.place.aside(run),
            tool: self.tool.clone(),
            about: self.about.clone(),
            replay: self.replay.as_ref().map(Replay::plan),
            warnings: self.warning.iter().cloned().collect(),
        }
    }

    /// Fetches what is missing, and returns its size in bytes.
    fn fetch(
        &self,
        options: &RestoreOptions,
        repository: &Repository,
        run: &Run,
        building: &mut Building,
    ) -> Result<u64, PhysicalError> {
        let entries = &self.files;
        building.reach(Step::Fetching)?;
        building.take_back()?;
        building.keep_only(entries)?;
        building.make(entries)?;
        let old = options.target.delta.then(|| self.place.path());
        let left = building.missing(
            repository,
            entries,
            old.filter(|old| old.exists()),
            options.threads,
            &run.cancel,
        )?;
        let bytes = left.iter().map(FileEntry::covered).sum();
        let passed = Arc::new(AtomicU64::new(0));
        run.progress.set_source(Some(bytes), Arc::clone(&passed));
        let redo = entries
            .iter()
            .find(|file| prepare::is_redo(Path::new(&file.path)));
        if let Some(redo) = redo {
            run.progress.set_redo(redo.size);
        }
        let wanted: Vec<&FileEntry> = left.iter().collect();
        let sink = building.sink(&left, &passed);
        let fetched = fetch(
            repository,
            &self.manifest,
            &wanted,
            options.threads,
            &sink,
            &run.cancel,
        );
        fetched?;
        drop(sink);
        Ok(passed.load(Ordering::Relaxed))
    }
}
