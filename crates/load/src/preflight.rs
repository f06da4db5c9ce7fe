//! Checks before anything is changed.

mod contents;
mod definers;
mod privileges;
mod wishes;

use refloat_run::Refusal;
use refloat_run::probe::ServerProbe;
use refloat_run::settings::{Facts, SettingsPlan};
use refloat_schema::pattern::is_system_database;
use refloat_wire::Connection;

use super::context::init_session;
use super::error::LoadError;
use super::galera::{self, Node};
use super::options::{LoadOptions, SystemSchemaMode, WritePath};
use super::outline::Outline;
use super::own_tables;
use super::resume::{Begun, Earlier};
use super::tablespace;
use crate::refusals;

pub use contents::{not_appended, triggers_of};
pub use wishes::left_out;

/// The findings of preflight.
pub struct Preflight {
    /// What the dump seems to contain; `None` if it could not be examined beforehand.
    pub outline: Option<Outline>,
    /// The path that rows will take.
    pub write_path: WritePath,
    /// Why it is not the fastest one, and how to allow that.
    pub advice: Vec<String>,
    /// Whether the server contains nothing but what this dump may replace.
    pub empty_server: bool,
    /// Whether the server runs on this machine.
    pub server_is_local: bool,
    /// The Galera state of the server, if it is a node of a cluster.
    pub node: Option<Node>,
}

/// The write path once settings have been changed: `local_infile` may be on now.
pub fn path_now(
    options: &LoadOptions,
    facts: &Facts,
    infile_allowed: bool,
    before: WritePath,
) -> WritePath {
    if options.write_path.over_sql() == WritePath::Auto
        && before == WritePath::Insert
        && infile_allowed
        && !galera::splits_load_data(facts)
    {
        WritePath::LoadData
    } else {
        before
    }
}

/// Why rows cannot take the requested path, if neither the server nor the planned settings allow
/// it.
pub fn path_refused(
    options: &LoadOptions,
    facts: &Facts,
    settings: &SettingsPlan,
) -> Option<Refusal> {
    let infile_allowed = opens_infile(settings) || facts.is_on("local_infile");
    (options.write_path == WritePath::LoadData && !infile_allowed).then(|| Refusal {
        reason: "local_infile is off on the server, so it refuses LOAD DATA LOCAL".to_owned(),
        hint: "SET GLOBAL local_infile = ON allows it, and so does --durability relaxed for the load alone; --write-path auto takes what works."
            .to_owned(),
    })
}

/// Whether the plan turns `local_infile` on.
pub fn opens_infile(settings: &SettingsPlan) -> bool {
    settings
        .changes
        .iter()
        .any(|change| change.name == "local_infile")
}

/// Whether a server runs on this machine, so that its memory and its disk are visible.
pub fn is_near(conn: &Connection) -> bool {
    ServerProbe::find(conn.identity()).is_some()
}

/// Examines the server: the account's privileges, the contents, and the fastest write path.
pub fn look_at_server(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
    outline: Option<Outline>,
    earlier: &Earlier,
    stops: Vec<Refusal>,
) -> Result<Preflight, LoadError> {
    let node = node_of(conn, facts)?;
    look_at_server_as(options, conn, facts, outline, earlier, node, stops)
}

/// The Galera state of a server; `None` if it is not a node of a cluster.
pub fn node_of(conn: &mut Connection, facts: &Facts) -> Result<Option<Node>, LoadError> {
    Node::of(conn, facts).map_err(|error| LoadError::server("looking at the server", error))
}

/// Like [`look_at_server`], but takes the Galera state `node` that the server will have when the
/// load starts, and the refusals that the load would meet on its way (`stops`).
pub fn look_at_server_as(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
    outline: Option<Outline>,
    earlier: &Earlier,
    node: Option<Node>,
    stops: Vec<Refusal>,
) -> Result<Preflight, LoadError> {
    let (preflight, mut refusals) = judge_server(options, conn, facts, outline, earlier, node)?;
    for refusal in stops {
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }
    if !refusals.is_empty() {
        return Err(LoadError::Refused(refusals));
    }
    Ok(preflight)
}

/// Like [`look_at_server_as`], but returns the refusals next to the findings.
pub fn judge_server(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
    outline: Option<Outline>,
    earlier: &Earlier,
    node: Option<Node>,
) -> Result<(Preflight, Vec<Refusal>), LoadError> {
    let server = |error| LoadError::server("looking at the server", error);
    let options = &galera::settle(options, node.as_ref());
    let mut refusals = match &node {
        Some(node) => node.refusals(options),
        None => galera::refuse_elsewhere(options).into_iter().collect(),
    };
    if facts.is_on("read_only")
        && !facts.may(&[
            "SUPER",
            "CONNECTION_ADMIN",
            "READ ONLY ADMIN",
            "READ_ONLY ADMIN",
        ])
        || facts.is_on("super_read_only")
    {
        refusals.push(Refusal {
            reason: "the server is read-only".to_owned(),
            hint: "Load into the primary, or turn read_only (and super_read_only) off.".to_owned(),
        });
    }
    if let Some(outline) = &outline {
        refusals.extend(places(options, outline));
        refusals.extend(local_engines(options, node.as_ref(), outline));
    }
    refusals.extend(privileges::missing(options, conn, facts, outline.as_ref()).map_err(server)?);
    if let Some(outline) = &outline {
        let folds = facts.number("lower_case_table_names") != Some(0);
        if folds {
            refusals.extend(contents::same_names(options, outline));
        }
        refusals.extend(contents::no_spaces(options, conn, facts, outline).map_err(server)?);
        let not_empty = contents::not_empty(options, conn, outline, earlier, folds);
        refusals.extend(not_empty.map_err(server)?);
        let not_added_to = contents::not_added_to(options, conn, outline, earlier);
        refusals.extend(not_added_to.map_err(server)?);
        let fired = contents::fire_triggers(options, conn, outline, earlier, folds);
        refusals.extend(fired.map_err(server)?);
    }
    refusals.extend(wishes::binlog(options, facts));
    refusals.extend(privileges::connections(options, conn, facts).map_err(server)?);
    let (write_path, mut advice) = choose_path(options, conn, facts, node.as_ref(), &mut refusals);
    advice.extend(galera::advice(options, node.as_ref()));
    let ours = earlier
        .begun
        .as_ref()
        .filter(|begun| begun.about.empty_server);
    let ours = ours.map(Begun::databases).unwrap_or_default();
    let empty_server = contents::holds_nothing_else(conn, &facts.grants, &ours).map_err(server)?;
    let server_is_local = is_near(conn);
    let is_node = node.as_ref().is_some_and(|node| node.connected);
    refusals.extend(tablespace::refused(
        options,
        facts,
        is_node,
        server_is_local,
    ));
    let preflight = Preflight {
        outline,
        write_path,
        advice,
        empty_server,
        server_is_local,
        node,
    };
    Ok((preflight, refusals))
}

/// Checks where the dump goes: into the requested database, into some database at all, and into the
/// server's own schema only if allowed.
fn places(options: &LoadOptions, outline: &Outline) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let other = outline
        .named
        .iter()
        .filter(|(name, _)| {
            options
                .database
                .as_ref()
                .is_some_and(|wanted| wanted != *name)
        })
        .min_by_key(|(_, line)| **line);
    let qualified = outline.contents.keys().flatten().find(|name| {
        let wanted = options.database.as_ref();
        wanted.is_some_and(|wanted| wanted != *name) && !outline.named.contains_key(*name)
    });
    if let (Some(name), Some(wanted)) = (qualified, &options.database) {
        refusals.push(refusals::other_database(name, None, wanted));
    }
    if let (Some((name, line)), Some(wanted)) = (other, &options.database) {
        refusals.push(refusals::other_database(name, Some(*line), wanted));
    }
    let namesakes = outline.namesakes.iter();
    refusals.extend(namesakes.map(|(table, line)| own_tables::refused_in_dump(table, *line)));
    if let Some(table) = outline.homeless(options) {
        refusals.push(Refusal {
            reason: format!("the dump names no database for table {table}"),
            hint: "Say where it goes with --database, or put the database into the URL.".to_owned(),
        });
    }
    if options.system_schema == SystemSchemaMode::Refuse {
        let system = outline
            .named
            .keys()
            .map(String::as_str)
            .chain(outline.by_database(options).map(|(name, _)| name))
            .find(|name| is_system_database(name));
        refusals.extend(system.map(refusals::system_schema));
    }
    refusals
}

/// Refuses rows for engines that the cluster does not replicate.
fn local_engines(options: &LoadOptions, node: Option<&Node>, outline: &Outline) -> Vec<Refusal> {
    let Some(node) = node.filter(|node| node.connected && !options.galera.local_engines) else {
        return Vec::new();
    };
    let filled = |database: &Option<String>, table: &str| {
        let content = outline.contents.get(database);
        content.is_some_and(|content| content.filled.contains(table))
    };
    outline
        .engines
        .iter()
        .filter(|(database, table, engine, _)| {
            !node.replicates_engine(engine) && filled(database, table)
        })
        .map(|(database, table, engine, line)| {
            let database = database.as_ref().or(options.database.as_ref());
            let label = database.map_or_else(|| table.clone(), |name| format!("{name}.{table}"));
            galera::local_engine(&format!("table {label} (line {line})"), engine)
        })
        .collect()
}

/// The fastest path that is allowed.
fn choose_path(
    options: &LoadOptions,
    conn: &Connection,
    facts: &Facts,
    node: Option<&Node>,
    refusals: &mut Vec<Refusal>,
) -> (WritePath, Vec<String>) {
    let local_infile = facts.is_on("local_infile");
    let load_data_is_whole = node.is_none_or(Node::keeps_load_data_whole);
    // In a cluster, `Node::refusals` explains why a requested path cannot be taken.
    let bulk = conn.server().has_bulk && node.is_none_or(Node::keeps_bulk_whole);
    let mut advice = Vec::new();
    let path = match options.write_path.over_sql() {
        WritePath::Auto if bulk => WritePath::Bulk,
        WritePath::Auto if !load_data_is_whole => {
            advice.push(
                "rows go as INSERT text because wsrep_load_data_splitting is ON, which commits each 10,000 rows of a LOAD DATA by itself: \
                 SET GLOBAL wsrep_load_data_splitting = OFF allows the faster way"
                    .to_owned(),
            );
            WritePath::Insert
        }
        WritePath::Auto if local_infile => WritePath::LoadData,
        WritePath::Auto => {
            advice.push(
                "rows go as INSERT text because local_infile is off on the server; LOAD DATA is about 3 times as fast: \
                 SET GLOBAL local_infile = ON allows it (or --durability relaxed, which switches it on for the load and off again)"
                    .to_owned(),
            );
            WritePath::Insert
        }
        WritePath::Bulk if !conn.server().has_bulk => {
            refusals.push(Refusal {
                reason: "the server has no array-bound insert (it is MariaDB's, since 10.2)"
                    .to_owned(),
                hint: "Use --write-path auto.".to_owned(),
            });
            WritePath::Bulk
        }
        other => other,
    };
    (path, advice)
}

/// Prepares the connection that runs the dump's own statements: its session is that of the stock
/// client, not ours.
pub fn control_connection(conn: &mut Connection) -> Result<(), LoadError> {
    let failed = |error| LoadError::server("preparing the session of the dump", error);
    let mode = conn
        .query_value("SELECT @@global.sql_mode")
        .map_err(failed)?
        .unwrap_or_default();
    init_session(conn, false).map_err(failed)?;
    // A dump without a header runs under the server's own sql_mode, as with the stock client.
    conn.exec(format!(
        "SET SESSION sql_mode = '{}'",
        mode.replace('\'', "''")
    ))
    .map_err(failed)?;
    Ok(())
}
