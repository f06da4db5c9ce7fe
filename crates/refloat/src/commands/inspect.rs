//! `refloat inspect`: says what a source is, what it contains, and whether it is complete.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use refloat_report::human;
use refloat_source::{Inspection, SourceError};

use crate::commands::load::{DataArgs, source_of};
use crate::context::Context;
use crate::dumps;
use crate::exit::{Exit, ProgramError};
use crate::repo::DumpRepoArgs;

const AFTER_HELP: &str = "\
EXAMPLES:
  What is this folder, and can it be loaded?
      refloat inspect /backup/export-20260101

  The tables with their rows, for a script:
      refloat inspect shop.sql.gz --json |
          jq -r '.tables[] | [.database, .table, .rows] | @tsv'

  Is every file of a dump unchanged since it was written?
      refloat inspect /backup/db1 --checksums

  One in a bucket, and the newest one in a repository:
      refloat inspect s3://bucket/export-20260101
      refloat inspect latest --repo ssh://backup@store/srv/repo

The exit code is 0 when the source is whole, and 3 when something is missing.";

/// Show what a dump is, what is in it, and whether it is whole
///
/// No server is needed, and nothing is changed. A folder is listed and its definitions are read; an
/// archive is first unpacked into --scratch; a single file is read to its end.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct InspectArgs {
    /// The dump: a file, a folder, a tar archive of one, or the URL of any of them
    ///
    /// With --repo the label of a dump in the repository, or `latest`.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    #[command(flatten)]
    pub repo: DumpRepoArgs,

    #[command(flatten)]
    pub data: DataArgs,

    /// Read every file, and compare it with the checksum that the dump holds
    #[arg(long)]
    pub checksums: bool,

    /// Print the result as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &InspectArgs, context: &Context) -> anyhow::Result<Exit> {
    let source = dumps::path_of(&args.source, args.repo.given().as_ref(), context)?;
    let (format, options) = source_of(&args.data);
    let found = refloat_source::inspect(
        &source,
        format,
        &options,
        &args.data.scratch,
        args.checksums,
    )
    .map_err(|error| {
        match error {
            // Read errors are reported as everywhere else.
            SourceError::Input(error) => anyhow::Error::new(error),
            error => anyhow::Error::new(refloat_load::LoadError::Source(error)),
        }
    })?;
    if args.checksums && found.checksums.is_none() {
        let message = format!("{}: a dump of this kind holds no checksums", found.source);
        return Err(ProgramError::new(Exit::Refused, message)
            .hint("`refloat verify` compares it with a server.")
            .into());
    }
    let text = if args.json {
        serde_json::to_string_pretty(&found).context("cannot write what was found")?
    } else {
        page(&found)
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())?;
    Ok(if found.whole {
        Exit::Done
    } else {
        Exit::Refused
    })
}

/// The findings as a page for people.
fn page(found: &Inspection) -> String {
    let mut text = format!("{}: {}", found.source, found.format);
    if let Some(tool) = &found.written_by {
        let _ = write!(text, ", {tool}");
    }
    let _ = write!(
        text,
        "\n  size        {}\n  databases   {}\n",
        human::bytes(found.bytes),
        if found.databases.is_empty() {
            "none is named".to_owned()
        } else {
            found.databases.join(", ")
        }
    );
    for (kind, count) in &found.objects {
        let _ = writeln!(text, "  {kind:<11} {count}");
    }
    let _ = writeln!(text, "  tables      {}", found.tables.len());
    for table in &found.tables {
        let name = match &table.database {
            Some(database) => format!("{database}.{}", table.table),
            None => table.table.clone(),
        };
        let rows = table
            .rows
            .map_or_else(String::new, |rows| format!(", {rows} rows"));
        let files = if table.files == 1 { "file" } else { "files" };
        let _ = writeln!(
            text,
            "    {name}: {} {files}, {}{rows}",
            table.files,
            human::bytes(table.bytes)
        );
    }
    if !found.passed_over.is_empty() {
        let _ = writeln!(text, "  not loaded  {}", found.passed_over.join(", "));
    }
    for note in &found.notes {
        let _ = writeln!(text, "  note        {note}");
    }
    if found.whole {
        text.push_str(match found.checksums {
            Some(true) if found.notes.is_empty() => {
                "  whole       yes: every file is the one that was written\n"
            }
            // The dump stores its own checksums, and nothing proves those.
            Some(true) => "  whole       yes: every file is the one whose checksum it holds\n",
            Some(false) => "  whole       yes, by names and sizes; --checksums reads all files\n",
            None => "  whole       yes, as far as can be seen without loading it\n",
        });
    } else {
        text.push_str("  whole       no:\n");
        for fault in &found.faults {
            let _ = writeln!(text, "    - {fault}");
        }
    }
    text
}
