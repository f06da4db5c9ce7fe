//! Turns flags into the engine's options.

use std::path::Path;

use refloat_load::LoadOptions;
use refloat_source::{DelimitedOptions, SourceFormat};
use refloat_wire::ConnectOptions;

use super::args::{self, LoadArgs};

/// The options for these flags. A flag that is not given keeps the engine's default.
///
/// A database in the URL is the default for dumps that name none. It need not exist yet, so the
/// connection does not select it.
pub fn from_args(args: &LoadArgs, source: &Path, mut target: ConnectOptions) -> LoadOptions {
    let database = args.what.database.clone().or(target.database.take());
    let parts = (&args.what, &args.data, &args.how, &args.trouble);
    let mut options = of_parts(source, target, parts);
    options.database = database;
    resume(&mut options, &args.resume);
    options
}

/// The options for the flags that other commands share.
pub fn of_parts(
    source: &Path,
    target: ConnectOptions,
    (of_what, of_data, of_how, of_trouble): (
        &args::WhatArgs,
        &args::DataArgs,
        &args::HowArgs,
        &args::TroubleArgs,
    ),
) -> LoadOptions {
    let mut options = LoadOptions::new(source, target);
    options.database.clone_from(&of_what.database);
    what(&mut options, of_what);
    data(&mut options, of_data);
    apply(&mut options, of_how, &of_trouble.fit);
    trouble(&mut options, of_trouble);
    options
}

fn resume(options: &mut LoadOptions, args: &args::ResumeArgs) {
    options.resume = match (args.resume, args.restart) {
        (true, _) => refloat_load::ResumeMode::Require,
        (_, true) => refloat_load::ResumeMode::Restart,
        _ => refloat_load::ResumeMode::Auto,
    };
    options.uncertain = args
        .uncertain_statement
        .map(|answer| answer == args::Uncertain::Done);
}

/// Applies the flags that are the same for every kind of source.
pub fn apply(options: &mut LoadOptions, args: &args::HowArgs, fit: &args::FitArgs) {
    how(options, args);
    options.on_error = fit.on_error;
    options.map_collation = fit.map_collation.iter().cloned().collect();
    options.map_sql_mode = fit.map_sql_mode.iter().cloned().collect();
}

fn what(options: &mut LoadOptions, args: &args::WhatArgs) {
    options.tables = args
        .tables
        .iter()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    options.system_schema = args.system_schema;
    options.existing = match (args.replace, args.append) {
        (true, _) => refloat_load::ExistingPolicy::Replace,
        (_, true) => refloat_load::ExistingPolicy::Append,
        _ => refloat_load::ExistingPolicy::Refuse,
    };
}

fn data(options: &mut LoadOptions, args: &args::DataArgs) {
    (options.source_format, options.delimited) = source_of(args);
    options.scratch.clone_from(&args.scratch);
}

/// The kind of source, and the format of its data files.
pub fn source_of(args: &args::DataArgs) -> (Option<SourceFormat>, DelimitedOptions) {
    let format = args.source_format.map(|format| match format {
        args::SourceFormat::Mydumper => SourceFormat::Mydumper,
        args::SourceFormat::Tab => SourceFormat::Tab,
        args::SourceFormat::Shell => SourceFormat::Shell,
        args::SourceFormat::Refloat => SourceFormat::Refloat,
        args::SourceFormat::Csv | args::SourceFormat::Tsv => SourceFormat::Delimited,
    });
    let bytes = |delimiter: &Option<args::Delimiter>| {
        delimiter.as_ref().map(|delimiter| delimiter.0.clone())
    };
    let delimited = DelimitedOptions {
        table: args.table.clone(),
        csv: args.source_format == Some(args::SourceFormat::Csv),
        fields_terminated_by: bytes(&args.fields_terminated_by),
        fields_enclosed_by: bytes(&args.fields_enclosed_by),
        fields_escaped_by: bytes(&args.fields_escaped_by),
        lines_starting_by: bytes(&args.lines_starting_by),
        lines_terminated_by: bytes(&args.lines_terminated_by),
        header: args.header,
        skip_lines: args.skip_lines,
        columns: args.columns.clone(),
        null: bytes(&args.null),
        charset: args.charset.clone(),
    };
    (format, delimited)
}

fn how(options: &mut LoadOptions, args: &args::HowArgs) {
    if let Some(threads) = args.threads {
        options.threads = usize::from(threads);
    }
    options.durability = args.durability;
    options.write_path = args.write_path;
    options.indexes = args.indexes;
    options.foreign_keys = args.foreign_keys;
    options.chunk_rows = args.chunk_rows;
    options.table_threads = args.table_threads.map(usize::from);
    options.chunk_bytes = args.chunk_bytes.map(saturating);
    if let Some(memory) = args.max_memory {
        options.max_memory = saturating(memory);
    }
    options.binlog = args.binlog;
}

fn trouble(options: &mut LoadOptions, args: &args::TroubleArgs) {
    options.allow.clone_from(&args.allow);
    options.skip.clone_from(&args.skip);
    options.accept_missing_trailer = args.accept_missing_trailer;
}

/// More than the machine can address means all of it.
fn saturating(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
