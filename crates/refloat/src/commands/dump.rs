//! `refloat dump`: dumps a server into a folder or a repository.

mod args;

pub use args::{DumpArgs, ReadArgs, WhatArgs};

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use refloat_dump::{DumpFailure, DumpFormat, IntoRepository};
use refloat_report::summary;
use refloat_run::events::RunResult;

use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};
use crate::record::record;
use crate::watch::Watch;

pub fn run(args: &DumpArgs, context: &Context) -> anyhow::Result<Exit> {
    let source = args.source.resolve(context)?;
    let mut options = args.options(source)?;
    let repo = args.repo.given();
    if repo.is_some() && options.format == DumpFormat::Sql {
        let error = ProgramError::usage("a repository takes no --format sql");
        return Err(error
            .hint("Leave it out: what is in a repository is loaded with `refloat load`.")
            .into());
    }
    let to_stdout = options.to_stdout();
    if to_stdout && args.output.json {
        return Err(
            ProgramError::usage("--json and --out - both want standard output")
                .hint("The record of the run has the same lines: see `docs/json.md`.")
                .into(),
        );
    }
    let archive = to_stdout && options.format == DumpFormat::Refloat;
    if archive && std::io::stdout().is_terminal() {
        return Err(
            ProgramError::usage("an archive is not written to a terminal")
                .hint("Send it into a file or another program: `refloat dump --out - … > FILE`.")
                .into(),
        );
    }
    let destination = repo.map(|repo| repo.open_or_init(context)).transpose()?;
    let (watch, run) = Watch::begin("dump", args.output.show(), context)?;
    if let Some((repository, is_new)) = destination {
        if is_new {
            let url = repository.storage().url();
            run.events
                .warn(format!("{url} was empty: it is a new repository"));
        }
        options.repository = Some(IntoRepository {
            // One thread writes a pack, and rows are compressed already.
            threads: repository.storage().transfers(),
            label: args.label.clone(),
            repository,
        });
    }
    let (outcome, error) = match refloat_dump::dump(&options, &run) {
        Ok(outcome) => (outcome, None),
        Err(DumpFailure { error, outcome }) => (*outcome, Some(anyhow::Error::new(error))),
    };
    let result = match &error {
        _ if !outcome.settings_left.is_empty() => RunResult::SettingsLeft,
        Some(error) => exit::result_of(error),
        None => RunResult::Done,
    };
    watch.quiet();
    let record_of = serde_json::to_value(&outcome).unwrap_or_default();
    record(&run, outcome.seconds, record_of, result, error.as_ref());
    watch.stop();
    if to_stdout && error.is_none() {
        // The exit code tells success; a closed terminal does not change that.
        let _ = write!(std::io::stderr(), "{}", summary::dump(&outcome));
    } else if !args.output.json && error.is_none() {
        write!(std::io::stdout(), "{}", summary::dump(&outcome))?;
    }
    if let Some(error) = &error {
        let nothing = match &args.out {
            Some(out) => !to_stdout && is_nothing(out),
            None => true,
        };
        let left_out = nothing.then_some(exit::NO_DUMP);
        exit::report_but(error, context, left_out);
    }
    if !outcome.settings_left.is_empty() {
        exit::print_line("hint", exit::SETTINGS_LEFT, context.colour());
    }
    Ok(exit::of_result(result))
}

/// Whether nothing was written: the path does not exist, or the folder is empty.
fn is_nothing(out: &Path) -> bool {
    match std::fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !out.exists(),
    }
}
