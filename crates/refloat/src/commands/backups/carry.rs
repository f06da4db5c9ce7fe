//! `refloat backups export` and `import`: a backup as a stream.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use refloat_report::{human, summary};
use refloat_run::progress::Phase;

use crate::commands::load::OutputArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError};
use crate::record::{End, conclude};
use crate::repo::{RepoArgs, stdout_for_stream};
use crate::watch::Watch;

/// Write a backup to stdout, as one stream
///
/// For a pipe, or for a file that you carry elsewhere; `refloat backups import` reads it. It is
/// encrypted as the repository is. Packs are written whole, even if other backups have blocks in
/// them. The blocks are not checked: run `refloat backups verify` before or afterwards.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
      refloat backups export latest --repo /backup/repo > db1.stream

  Into a repository on another machine:
      refloat backups export latest --repo /backup/repo |
          ssh host refloat backups import --repo /backup/repo")]
pub struct ExportArgs {
    /// Label of the backup, or `latest`
    #[arg(value_name = "LABEL")]
    label: String,

    #[command(flatten)]
    repo: RepoArgs,
}

/// Read a stream from stdin into a repository
///
/// The stream comes from `refloat backup --repo -` or `refloat backups export`. In an empty place,
/// a repository is made, with the key of the stream. An existing one must have the same key, or
/// neither may have one. No key has to be given. A stream that was cut or is damaged is refused,
/// and leaves no backup; packs that arrived whole stay, so that the same import resumes after them.
#[derive(Debug, Args)]
#[command(after_long_help = "\
EXAMPLES:
      refloat backups import --repo /backup/repo < db1.stream")]
pub struct ImportArgs {
    /// Where the backups lie: see `refloat backup --help`
    #[arg(long, value_name = "URL", help_heading = "Repository")]
    repo: String,

    #[command(flatten)]
    output: OutputArgs,
}

pub fn export(args: &ExportArgs, context: &Context) -> anyhow::Result<Exit> {
    let repository = args.repo.open(context)?;
    let backup = repository.find(&args.label, None)?;
    let out = stdout_for_stream()?;
    let bytes = refloat_repository::export(&repository, &backup, out)?;
    // The exit code tells success; a closed terminal does not change that.
    let _ = writeln!(
        std::io::stderr(),
        "exported {}: {}",
        backup.label,
        human::bytes(bytes)
    );
    Ok(Exit::Done)
}

pub fn import(args: &ImportArgs, context: &Context) -> anyhow::Result<Exit> {
    let repo = RepoArgs {
        repo: args.repo.clone(),
        key_file: None,
        identity: None,
    };
    let storage = repo.storage(context)?;
    let input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(ProgramError::usage("a stream is not read from a terminal")
            .hint("Give it a file: `refloat backups import --repo REPO < FILE`.")
            .into());
    }
    let (watch, run) = Watch::begin("backups import", args.output.show(), context)?;
    let begun = Instant::now();
    let position = Arc::new(AtomicU64::new(0));
    run.progress.set_source(None, Arc::clone(&position));
    run.progress.set_phase(Phase::Data);
    let passed = |bytes| {
        position.fetch_add(bytes, Ordering::Relaxed);
        run.progress.add_bytes(bytes);
    };
    let done = refloat_repository::import(input, &storage, &run.cancel, passed);
    let (imported, error) = match done {
        Ok(imported) => (Some(imported), None),
        Err(error) => (None, Some(anyhow::Error::new(error))),
    };
    let outcome = serde_json::json!({
        "run": run.dir.id(),
        "repository": storage.url(),
        "label": imported.as_ref().map(|one| &one.manifest.label),
        "added": imported.as_ref().map(|one| one.added),
        "known": imported.as_ref().map(|one| one.known),
        "seconds": begun.elapsed().as_secs_f64(),
    });
    conclude(
        (watch, &run),
        &End::new(&outcome, begun.elapsed().as_secs_f64(), error.as_ref()),
        (&args.output, context),
        |_| imported.map_or_else(String::new, |one| summary::imported(storage.url(), &one)),
    )
}
