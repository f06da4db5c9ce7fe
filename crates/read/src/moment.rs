//! Everything that was selected, at one moment of the server.

use refloat_run::settings::{Facts, Grants, SettingsError};
use refloat_run::{Refusal, Run};
use refloat_wire::Connection;

use crate::catalog::{self, DataPolicy, Database, Programs, Table};
use crate::error::ReadError;
use crate::identity::Identities;
use crate::options::ReadOptions;
use crate::snapshot::{Snapshot, Wanted};
use crate::{outside_dumps, privileges};

/// How often to take the snapshot again when a definition changes meanwhile.
const SNAPSHOT_TRIES: u32 = 3;

/// The objects to dump.
pub struct Plan {
    /// The databases, with the names of their objects.
    pub databases: Vec<Database>,
    /// Default collation of each database, by name.
    pub collations: Vec<(String, String)>,
    /// The tables of each database, in the order of `databases`.
    pub tables: Vec<Vec<Table>>,
    /// Routines, views, triggers and events.
    pub programs: Programs,
    /// What the dump leaves out, and what the user should know.
    pub notes: Vec<String>,
    /// Whether the account's privileges allow a global read lock.
    pub may_flush: bool,
}

/// Opens the snapshot and checks that what was listed beforehand is what the snapshot sees.
///
/// With `complete`, every name that was asked for must exist, and there must be something to dump.
pub fn moment(
    options: &ReadOptions,
    run: &Run,
    control: &mut Connection,
    complete: bool,
) -> Result<(Snapshot, Plan), ReadError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match open_moment(options, run, control, complete) {
            Err(ReadError::Changed { what }) if tries < SNAPSHOT_TRIES => run.events.note(format!(
                "{what} was changed while the snapshot was opened: it is opened again"
            )),
            other => return other,
        }
    }
}

/// Opens the snapshot once; [`ReadError::Changed`] if a definition changed meanwhile.
fn open_moment(
    options: &ReadOptions,
    run: &Run,
    control: &mut Connection,
    complete: bool,
) -> Result<(Snapshot, Plan), ReadError> {
    let mut plan = look(options, control, complete)?;
    let identities = |control: &mut Connection, plan: &Plan| {
        // Without rows, a table's identity does not matter.
        let all = plan.tables.iter().flatten();
        Identities::read(control, all.filter(|_| !options.no_data))
    };
    let before = identities(control, &plan)?;
    let all = || plan.tables.iter().flatten();
    let quoted: Vec<String> = all().map(Table::quoted).collect();
    let wanted = Wanted {
        tables: &quoted,
        locked_reads: !options.no_data && all().any(|table| table.policy == DataPolicy::Locked),
        may_flush: plan.may_flush,
        readers: options.threads,
    };
    let (mut snapshot, listed) = Snapshot::take(
        control,
        options,
        &wanted,
        (&run.cancel, &run.events),
        |conn| catalog::list(conn, options),
    )?;
    let what = if listed == plan.databases {
        // Neither identities nor programs are covered by the snapshot. If they are the same before
        // and after it was opened, they were the same in it.
        let now = identities(control, &plan)?;
        let exchanged = before.exchanged(&now);
        let conn = snapshot.unlocked(control);
        match read_programs(conn, options, &listed) {
            Ok(_) if exchanged.is_some() => format!("table {}", exchanged.unwrap_or_default()),
            Ok(programs) if programs == plan.programs => {
                plan.notes.extend(now.caveat());
                snapshot.identities = now;
                return Ok((snapshot, plan));
            }
            Ok(_) => "a routine, view, trigger or event".to_owned(),
            Err(ReadError::Changed { what }) => what,
            Err(error) => return Err(error),
        }
    } else {
        "a table or view".to_owned()
    };
    // This ends the readers and releases the locks.
    snapshot.give_up(control)?;
    Err(ReadError::Changed { what })
}

/// Refuses tables whose history no server accepts back: MariaDB assigns transaction IDs itself and
/// rejects a row that comes with one (error 1906, even with `system_versioning_insert_history`).
fn refuse_numbered<'a>(tables: impl Iterator<Item = &'a Table>) -> Result<(), ReadError> {
    let found: Vec<String> = tables
        .filter(|table| table.numbered)
        .map(Table::label)
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(ReadError::Refused(Refusal {
        reason: format!(
            "no server accepts the history of {} back: it is versioned by transaction ID (GENERATED ALWAYS AS ROW START, of type BIGINT UNSIGNED), which each server assigns itself",
            found.join(", ")
        ),
        hint: "--no-history reads only the current rows, of every table; --exclude leaves these tables out, for a run of their own."
            .to_owned(),
    }))
}

/// Why patterns match nothing: there is nothing of that name, or the account does not see it.
fn not_found(unmatched: &[String], grants: &Grants) -> ReadError {
    let unseen = if grants.reads_everything() {
        ""
    } else {
        ", or the account may not see it"
    };
    ReadError::Refused(Refusal {
        reason: format!(
            "nothing on the server is called {}{unseen}",
            unmatched.join(", ")
        ),
        hint: catalog::NAMES_HINT.to_owned(),
    })
}

/// Lists and reads everything that was selected, outside of any snapshot.
pub fn look(
    options: &ReadOptions,
    control: &mut Connection,
    complete: bool,
) -> Result<Plan, ReadError> {
    let facts = Facts::read(control).map_err(|error| match error {
        SettingsError::Server(error) => ReadError::server("asking for privileges", error),
        other => ReadError::Refused(Refusal {
            reason: other.to_string(),
            hint: String::new(),
        }),
    })?;
    let databases = catalog::list(control, options)?;
    let mut unmatched = catalog::unmatched(options, &databases);
    if complete {
        unmatched.extend(catalog::unmatched_exclusions(control, options)?);
    }
    if complete && !unmatched.is_empty() {
        return Err(not_found(&unmatched, &facts.grants));
    }
    if complete && databases.is_empty() {
        return Err(ReadError::Refused(Refusal {
            reason: "there is nothing to dump: the account sees no database but those of the server itself".to_owned(),
            hint: "A server that was just installed has none. Otherwise the account lacks privileges: SHOW GRANTS lists them.".to_owned(),
        }));
    }
    let mut notes = privileges::check(options, &facts, &databases)?;
    notes.extend(catalog::notes_on_own_tables(control, &databases)?);
    if complete {
        notes.extend(outside_dumps::notes(control, options, &facts)?);
    }
    let mut tables = Vec::with_capacity(databases.len());
    for database in &databases {
        let of = catalog::read_tables(control, options, database)?;
        for table in &of {
            notes.extend(table.unshown.iter().cloned());
            if table.policy == DataPolicy::Elsewhere {
                notes.push(format!(
                    "table {}: only its definition is in the dump, engine {} keeps its rows elsewhere",
                    table.label(),
                    table.engine
                ));
            }
        }
        for name in &database.leftovers {
            notes.push(format!(
                "table {}.{name} is not in the dump: it is a leftover of the server's own work",
                database.name
            ));
        }
        tables.push(of);
    }
    if !options.no_data {
        refuse_numbered(tables.iter().flatten())?;
    }
    let programs = read_programs(control, options, &databases)?;
    for view in programs.views.iter().filter(|view| view.invalid.is_some()) {
        notes.push(format!(
            "view {}.{} cannot be read on the server: {}",
            view.database,
            view.name,
            view.invalid.as_deref().unwrap_or_default()
        ));
    }
    let collations = catalog::collations(control)?;
    Ok(Plan {
        databases,
        collations,
        tables,
        programs,
        notes,
        may_flush: facts.may(&["RELOAD", "FLUSH_TABLES"]),
    })
}

/// A program's text is in the character set of the session that created it, so it is fetched as
/// stored.
fn read_programs(
    control: &mut Connection,
    options: &ReadOptions,
    databases: &[Database],
) -> Result<Programs, ReadError> {
    let failed = |error| ReadError::server("preparing the session", error);
    control
        .exec("SET SESSION character_set_results = binary")
        .map_err(failed)?;
    let programs = catalog::read_programs(control, options, databases);
    control
        .exec("SET SESSION character_set_results = utf8mb4")
        .map_err(failed)?;
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_found_may_be_one_that_is_not_seen() {
        let message = |rights: &[&str]| {
            let grants = Grants::on_everything(rights.iter().copied());
            not_found(&["shop".to_owned()], &grants).to_string()
        };
        assert_eq!(
            message(&["SHOW DATABASES"]),
            "nothing on the server is called shop, or the account may not see it"
        );
        assert_eq!(message(&["SELECT"]), "nothing on the server is called shop");
    }
}
