//! `refloat restore --tables`: takes single tables from a backup of files and brings them to a
//! running server.
//!
//! A private server starts on the files that they need, and its tables are copied as `refloat copy`
//! does. `docs/design/physical.md` explains why rows are transferred rather than tablespaces.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Instant;

use anyhow::Context as _;
use refloat_copy::{CopyFailure, CopyOptions, CopyOutcome};
use refloat_load::{ExistingPolicy, TableOutcome};
use refloat_physical::{Candidate, KIND, PrivateOptions, PrivateServer};
use refloat_report::{human, summary};
use refloat_repository::Repository;
use refloat_run::Run;
use refloat_run::events::RunResult;
use refloat_run::settings::Grants;
use refloat_sqltext::literal;
use refloat_wire::{ConnectOptions, Connection};
use serde::Serialize;

use super::RestoreArgs;
use super::beside::{Beside, fits, old_name, remove, settle, take};
use crate::commands::backup::threads;
use crate::commands::load::{GaleraArgs, after_load, by_events, proof_of};
use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};
use crate::record::{print_plan, record};
use crate::watch::Watch;

type Names = [(String, String)];

/// What is to be done.
struct Work<'a> {
    patterns: &'a [String],
    replace: bool,
    repository: Repository,
    candidate: Candidate,
    private: PrivateOptions,
    target: ConnectOptions,
}

/// What would be done.
#[derive(Serialize)]
struct Plan {
    repository: String,
    label: String,
    /// As the file names show them.
    tables: Vec<String>,
    /// Bytes to fetch.
    bytes: u64,
    target: String,
}

/// What was done.
#[derive(Default, Serialize)]
struct Outcome {
    repository: String,
    label: String,
    target: String,
    /// Bytes of fetched files.
    bytes: u64,
    tables: Vec<Restored>,
    /// The copy from the private server.
    copy: CopyOutcome,
    seconds: f64,
}

#[derive(Serialize)]
struct Restored {
    table: String,
    rows: u64,
    replaced: bool,
}

pub fn run(args: &RestoreArgs, context: &Context) -> anyhow::Result<Exit> {
    let (work, names) = Work::new(args, context)?;
    let names: Vec<String> = names.iter().map(shown).collect();
    if args.plan {
        let plan = Plan {
            repository: work.repository.storage().url().to_owned(),
            label: work.candidate.manifest.label.clone(),
            tables: names,
            bytes: work.candidate.bytes(),
            target: work.target.describe(),
        };
        return print_plan(&plan, &args.output, Plan::text);
    }
    let (watch, run) = Watch::begin("restore", args.output.show(), context)?;
    let mut outcome = Outcome {
        repository: work.repository.storage().url().to_owned(),
        label: work.candidate.manifest.label.clone(),
        target: work.target.describe(),
        bytes: work.candidate.bytes(),
        ..Outcome::default()
    };
    let begun = Instant::now();
    let error = work.take_out(&run, &mut outcome).err();
    outcome.seconds = begun.elapsed().as_secs_f64();
    let load = &outcome.copy.load;
    let result = match &error {
        Some(error) if load.settings_left.is_empty() => exit::result_of(error),
        _ => proof_of(load, error.as_ref()),
    };
    watch.quiet();
    let record_of = serde_json::to_value(&outcome).unwrap_or_default();
    record(&run, outcome.seconds, record_of, result, error.as_ref());
    watch.stop();
    if !args.output.json && result == RunResult::Done {
        write!(std::io::stdout(), "{}", outcome.text())?;
    } else if !args.output.json && result == RunResult::ProofFailed {
        write!(std::io::stdout(), "{}", summary::copy(&outcome.copy))?;
    }
    after_load(load, error.as_ref(), context);
    Ok(exit::of_result(result))
}

impl<'a> Work<'a> {
    /// Examines the backup, and selects the names of the wanted tables.
    fn new(
        args: &'a RestoreArgs,
        context: &Context,
    ) -> anyhow::Result<(Self, Vec<(String, String)>)> {
        let url = args.datadir.to.to_string_lossy();
        if !url.contains("://") {
            let error = ProgramError::usage(
                "--tables restores into a running server, but --to is not a URL",
            );
            return Err(error.hint("Write it as mysql://USER@HOST:PORT/").into());
        }
        let target = args.connect.resolve_flag("--to", &url, context)?;
        if let Some(database) = &target.database {
            let error = ProgramError::usage(format!(
                "--to names the database {database}, but tables keep the names of their databases"
            ));
            return Err(error.hint("Leave the name out of --to.").into());
        }
        let repository = args.repo.open(context)?;
        let threads = threads(args.threads);
        let (tool, memory) = (args.datadir.tool.as_deref(), args.datadir.memory);
        let private = args.private.options(tool, memory, threads);
        let manifest = repository.find(&args.label, Some(KIND))?;
        let mut candidate = Candidate::look(&private, &repository, manifest)?;
        let names = candidate.keep_tables(&args.tables)?;
        let work = Self {
            patterns: &args.tables,
            replace: args.datadir.replace,
            repository,
            candidate,
            private,
            target,
        };
        let mut conn = Connection::connect(&work.target)?;
        let there = work.refuse_existing(&mut conn, &names, false)?;
        if there.contains(&true) {
            work.may_replace(&mut conn, &names)?;
        }
        Ok((work, names))
    }

    /// Whether this account can replace tables at all.
    fn may_replace(&self, conn: &mut Connection, names: &Names) -> anyhow::Result<()> {
        let grants = Grants::read(conn).context("asking for the account's privileges")?;
        if !grants.reads_everything() {
            let error = ProgramError::new(
                Exit::Refused,
                "the account cannot see all tables, and those that it cannot see may refer to what is replaced",
            );
            return Err(error
                .hint("GRANT SELECT ON *.* to the account of --to.")
                .into());
        }
        for (database, table) in names {
            let old = old_name(table);
            let found = conn.query(format!(
                "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
                literal(database),
                literal(&old)
            ));
            if !found
                .context("asking the target for its tables")?
                .is_empty()
            {
                let error = ProgramError::new(
                    Exit::Refused,
                    format!(
                        "{database}.{old} is on {}: an earlier restore has replaced {database}.{table} and was ended before it could remove what was there",
                        self.target.describe()
                    ),
                );
                return Err(error
                    .hint("Compare the two, and drop or rename the old one.")
                    .into());
            }
        }
        Ok(())
    }

    /// Which of the tables the target has. An error unless they may be replaced. Until they `are`
    /// known to be tables, some may be views, and a table of that name on the target proves
    /// nothing.
    fn refuse_existing(
        &self,
        conn: &mut Connection,
        names: &Names,
        are: bool,
    ) -> anyhow::Result<Vec<bool>> {
        let mut there = Vec::new();
        for (database, table) in names {
            let found = conn.query(format!(
                "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
                literal(database),
                literal(table)
            ));
            let found = found.context("asking the target for its tables")?;
            let kind = found.str(0, 0).unwrap_or_default().to_owned();
            let is_view = kind.ends_with("VIEW");
            if is_view && are {
                let error = ProgramError::new(
                    Exit::Refused,
                    format!("{database}.{table} is a view on {}", self.target.describe()),
                );
                return Err(error.hint("Drop or rename it first.").into());
            }
            there.push(!kind.is_empty() && !is_view);
        }
        let present = names.iter().zip(&there).filter(|(_, there)| **there);
        let present: Vec<String> = present.map(|(name, _)| shown(name)).collect();
        if self.replace || present.is_empty() {
            return Ok(there);
        }
        Err(ProgramError::new(
            Exit::Refused,
            format!("{} has {} already", self.target.describe(), present.join(", ")),
        )
        .hint("With --replace, the tables of the backup take their places once they are whole. To keep both, rename the existing ones first.")
        .into())
    }

    fn take_out(&self, run: &Run, outcome: &mut Outcome) -> anyhow::Result<()> {
        run.events.note(format!(
            "{} of backup {} are fetched for a private server",
            human::bytes(outcome.bytes),
            outcome.label
        ));
        let server = self.candidate.start(&self.private, &self.repository, run)?;
        let chosen = server.choose(self.patterns, &self.candidate)?;
        if !chosen.other_engines.is_empty() {
            run.events.warn(format!(
                "only InnoDB is in this backup; not restored: {}",
                chosen.other_engines.join(", ")
            ));
        }
        if !chosen.views.is_empty() {
            let views = chosen.views.join(", ");
            run.events.note(format!("views are not restored: {views}"));
        }
        let mut target = Connection::connect(&self.target)?;
        let replaced = self.refuse_existing(&mut target, &chosen.tables, true)?;
        let mut source = Connection::connect(server.connect())?;
        let tables = take(&mut source, &chosen.tables)?;
        let arrived: BTreeSet<String> = tables.iter().map(Beside::full_name).collect();
        if arrived.len() < tables.len() {
            let error = ProgramError::new(
                Exit::Refused,
                "two tables have names with the same first 52 characters",
            );
            return Err(error.hint("Restore them one after the other.").into());
        }
        let copied = self.copy(&server, arrived, run, outcome);
        // Its session may have been idle longer than servers allow.
        let mut target = target.reconnect()?;
        if let Err(error) = copied {
            remove(&mut target, &tables, &run.events);
            return Err(error);
        }
        if !outcome.copy.load.proven {
            let names: Vec<String> = tables.iter().map(Beside::full_name).collect();
            let error = format!(
                "what has arrived is not proven to be what the backup holds: nothing was replaced, and it stays as {}",
                names.join(", ")
            );
            let error = ProgramError::new(Exit::ProofFailed, error);
            return Err(error.hint("See the list above. Drop these tables, or rename them if you know better; they lack foreign keys and triggers. The same command starts over.").into());
        }
        if let Err(error) = fits(&mut target, &tables, &replaced) {
            remove(&mut target, &tables, &run.events);
            return Err(error);
        }
        settle(&mut target, &tables, &replaced, &run.cancel)?;
        let rows = &outcome.copy.load.tables;
        outcome.tables = tables
            .iter()
            .zip(replaced)
            .map(|(beside, replaced)| {
                let is_it = |one: &&TableOutcome| {
                    one.database == beside.database && one.table == beside.name()
                };
                Restored {
                    table: format!("{}.{}", beside.database, beside.table),
                    rows: rows.iter().find(is_it).map_or(0, |one| one.rows),
                    replaced,
                }
            })
            .collect();
        Ok(())
    }

    /// Copies these tables from the private server to the target.
    fn copy(
        &self,
        server: &PrivateServer,
        names: BTreeSet<String>,
        run: &Run,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let mut options = CopyOptions::new(server.connect().clone(), self.target.clone());
        options.dump.read.tables = names.into_iter().collect();
        options.dump.read.threads = self.private.threads;
        options.load.threads = self.private.threads;
        // An earlier run may have left some of them.
        options.load.existing = ExistingPolicy::Replace;
        let galera = GaleraArgs {
            galera: None,
            max_paused: None,
            through_proxy: false,
            local_engines: false,
        };
        galera.enter(&mut options.load, &run.cancel, &by_events(&run.events))?;
        match refloat_copy::copy(&options, run) {
            Ok(copied) => outcome.copy = copied,
            Err(CopyFailure {
                error,
                outcome: copied,
            }) => {
                outcome.copy = *copied;
                return Err(error.into());
            }
        }
        Ok(())
    }
}

fn shown((database, table): &(String, String)) -> String {
    format!("{database}.{table}")
}

impl Plan {
    fn text(&self) -> String {
        format!(
            "restore of {} of {} from {} into {}: the plan; nothing was touched\n  chosen      {}\n  fetched     {}\n",
            human::counted(self.tables.len() as u64, "table"),
            self.label,
            self.repository,
            self.target,
            self.tables.join(", "),
            human::bytes(self.bytes)
        )
    }
}

impl Outcome {
    fn text(&self) -> String {
        let tables = self.tables.iter().map(|one| {
            let rows = human::counted(one.rows, "row");
            let how = if one.replaced {
                "; it replaces the one that was there"
            } else {
                ""
            };
            format!("  table       {}: {rows}{how}\n", one.table)
        });
        let notes = self.copy.notes.iter();
        let notes = notes.map(|note| format!("  note        {note}\n"));
        format!(
            "restore of {} of {} from {} into {}: done and proven\n{}{}  fetched     {}\n  time        {}\n",
            human::counted(self.tables.len() as u64, "table"),
            self.label,
            self.repository,
            self.target,
            tables.collect::<String>(),
            notes.collect::<String>(),
            human::bytes(self.bytes),
            human::seconds(std::time::Duration::from_secs_f64(self.seconds))
        )
    }
}
