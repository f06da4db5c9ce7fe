//! Reports what a load would do, without doing it.

mod stops;
mod survey;

use std::collections::BTreeMap;

use refloat_run::Cancel;
use refloat_run::outcome::Bounded;
use refloat_run::settings::{Durability, Facts, SettingsPlan};
use serde::Serialize;

use super::error::LoadError;
use super::galera::others::Others;
use super::open_source::OpenSource;
use super::options::{LoadOptions, WritePath};
use super::outcome::Resumption;
use super::preflight;
use super::resume::Earlier;
pub(super) use stops::stops;
use survey::Survey;

/// What a load would do.
#[derive(Debug, Clone, Serialize)]
pub struct LoadPlan {
    /// Name of the dump.
    pub source: String,
    /// The kind of compression, as a word.
    pub compression: String,
    /// Bytes of text in it.
    pub bytes: u64,
    /// The server, without secrets.
    pub target: String,
    /// Vendor and version of the server.
    pub server: String,
    /// The path that rows will take.
    pub write_path: WritePath,
    /// Number of connections that write.
    pub threads: usize,
    /// Databases that the dump creates or uses.
    pub databases: Vec<String>,
    /// Tables in the order of the dump.
    pub tables: Vec<PlannedTable>,
    /// Number of statements by kind, without those that are rows.
    pub statements: BTreeMap<String, u64>,
    /// Statements that will run alone, after everything before them is done, with their line.
    pub alone: Bounded<String>,
    /// Statements that will be refused and skipped (`--on-error continue`), with their line and the
    /// reason.
    pub refused: Bounded<String>,
    /// Statements that will be left out on purpose, with their line.
    pub left_out: Bounded<String>,
    /// How far settings may be changed.
    pub durability: Durability,
    /// Settings that will be changed, and advice.
    pub settings: SettingsPlan,
    /// The same for the other nodes of the cluster that rows are replicated in, by node.
    pub other_nodes: Vec<(String, SettingsPlan)>,
    /// Why a slower path than the best one is taken.
    pub advice: Vec<String>,
    /// The unfinished load of this source that it would resume.
    pub resumes: Option<Resumption>,
}

/// A table of the dump.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedTable {
    /// Database, if the dump names one.
    pub database: Option<String>,
    /// Name of the table, without its database.
    pub table: String,
    /// Rows that the dump has for it.
    pub rows: u64,
    /// Bytes of row text.
    pub bytes: u64,
}

/// Reads the whole dump and examines the server; changes nothing.
///
/// # Errors
/// [`LoadError::Refused`] with everything that the load would be refused for or would stop at, and
/// any error that prevents reading the dump or the server.
pub fn plan(options: &LoadOptions) -> Result<LoadPlan, LoadError> {
    let cancel = Cancel::new();
    let source = OpenSource::open(options, &cancel, |_words| {})?;
    plan_from(options, source, &cancel)
}

/// Checks what a load would be refused for at its start, from the dump's definitions and the
/// server. Rows are not read, and archives are not unpacked. With `alone` the server is judged as
/// if it had already left its cluster.
///
/// # Errors
/// [`LoadError::Refused`] with all objections, and any error that prevents reading the dump or the
/// server.
pub fn refused(options: &LoadOptions, alone: bool) -> Result<(), LoadError> {
    let cancel = Cancel::new();
    let Some(mut source) = OpenSource::unless_archive(options, &cancel)? else {
        return Ok(());
    };
    let outline = source.look(options, &cancel)?;
    let mut conn = super::connect(options, &cancel)?;
    let facts = Facts::read(&mut conn)?;
    let stops = stops(options, &source, outline.as_ref(), &mut conn, &cancel)?;
    let earlier = Earlier::look(options, &mut source, &mut conn)?.without_forgotten(options);
    let node = if alone {
        None
    } else {
        preflight::node_of(&mut conn, &facts)?
    };
    preflight::look_at_server_as(options, &mut conn, &facts, outline, &earlier, node, stops)
        .map(drop)
}

/// Checks whether the source looks like a dump, and a complete one as far as can be seen without
/// reading all of it. Does not contact the server.
///
/// # Errors
/// What is wrong with the source.
pub fn looks_whole(options: &LoadOptions) -> Result<(), LoadError> {
    let cancel = Cancel::new();
    if let Some(mut source) = OpenSource::unless_archive(options, &cancel)? {
        source.look(options, &cancel)?;
    }
    Ok(())
}

/// [`plan`] for a source that is already open.
pub fn plan_from(
    options: &LoadOptions,
    mut source: OpenSource,
    cancel: &Cancel,
) -> Result<LoadPlan, LoadError> {
    // A source that is not a dump, or not complete, gives the same error as without --plan.
    source.look(options, cancel)?;
    let mut conn = super::connect(options, cancel)?;
    let facts = Facts::read(&mut conn)?;
    let (name, compression) = (source.name(), source.compression());
    let mut advice = source.notes();
    let earlier = Earlier::look(options, &mut source, &mut conn)?.without_forgotten(options);
    // The load decides what to change by the same number.
    let dump_bytes = source.text_bytes();
    let mut survey = Survey::new(options, &name, conn.server().into(), cancel);
    match source {
        OpenSource::Stream(mut input) => survey.file(&mut input)?,
        OpenSource::Layout(layout) => survey.layout(&layout)?,
    }
    let mut found = survey.end();
    let stops = stops::of_found(options, &mut found, &mut conn)?;
    let appended = preflight::not_appended(options, &mut conn, &found.outline)
        .map_err(|error| LoadError::server("looking at the server", error))?;
    let node = preflight::node_of(&mut conn, &facts)?;
    let (preflight, mut refusals) = preflight::judge_server(
        options,
        &mut conn,
        &facts,
        Some(found.outline),
        &earlier,
        node,
    )?;
    for refusal in stops.into_iter().chain(appended) {
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }
    let mut others = Others::look(options, &preflight, None, cancel, |line| {
        advice.push(line);
    })?;
    let here = others.near() + 1;
    let settings = super::tuning::plan(options, &facts, &preflight, dump_bytes, here);
    others.plan(options, &preflight, dump_bytes, here);
    refusals.extend(preflight::path_refused(options, &facts, &settings));
    if !refusals.is_empty() {
        return Err(LoadError::Refused(refusals));
    }
    let opens_infile = preflight::opens_infile(&settings);
    let write_path = match preflight.write_path {
        WritePath::Insert if options.write_path.over_sql() == WritePath::Auto && opens_infile => {
            WritePath::LoadData
        }
        other => other,
    };
    let outline = preflight.outline.as_ref();
    let mut databases: Vec<String> = outline
        .into_iter()
        .flat_map(|outline| outline.by_database(options))
        .map(|(name, _)| name.to_owned())
        .collect();
    databases.dedup();
    if write_path == preflight.write_path {
        advice.extend(preflight.advice.iter().cloned());
    }
    Ok(LoadPlan {
        source: name,
        compression,
        bytes: found.bytes,
        target: options.target.describe(),
        server: format!("{} {}", conn.server().vendor, conn.server().version_string),
        write_path,
        threads: options.threads,
        databases,
        tables: found.tables,
        statements: found.statements,
        alone: found.alone,
        refused: found.refused,
        left_out: found.left_out,
        durability: super::tuning::durability(options, &facts, &preflight, dump_bytes),
        advice,
        settings,
        other_nodes: others
            .plans()
            .map(|(node, plan)| (node.to_owned(), plan.clone()))
            .collect(),
        resumes: earlier.begun.map(|begun| Resumption {
            rows: begun.found.stored(),
            run: begun.run,
            begun: begun.about.begun,
        }),
    })
}
