//! Views, sequences, routines, packages, triggers and events.

use std::collections::{BTreeMap, BTreeSet};

use refloat_schema::pattern::matches_any;
use refloat_sqltext::{literal, quote_ident};
use refloat_wire::{Connection, Vendor};

use super::{Database, ShowCreate, show_create, texts};
use crate::error::ReadError;
use crate::options::{Kind, ReadOptions};

/// Stored programs and views of all databases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Programs {
    /// Libraries, functions, procedures and packages; package bodies last.
    pub routines: Vec<Program>,
    /// Views, each after the views that it reads.
    pub views: Vec<View>,
    /// Triggers, in firing order for each table.
    pub triggers: Vec<Program>,
    /// Scheduled events.
    pub events: Vec<Program>,
}

/// A routine, trigger or event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The database that it belongs to, unquoted.
    pub database: String,
    /// `FUNCTION`, `PROCEDURE`, `PACKAGE`, `PACKAGE BODY`, `LIBRARY`, `TRIGGER` or `EVENT`.
    pub kind: String,
    /// Name without the database.
    pub name: String,
    /// Its definition.
    pub create: ShowCreate,
}

/// A view and its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The database that it belongs to, unquoted.
    pub database: String,
    /// Name without the database.
    pub name: String,
    /// Its definition.
    pub create: ShowCreate,
    /// The server's error if the view cannot be read because it refers to something that does not
    /// exist.
    pub invalid: Option<String>,
}

impl Programs {
    /// Number of programs and views.
    pub fn len(&self) -> usize {
        self.routines.len() + self.views.len() + self.triggers.len() + self.events.len()
    }

    /// Whether there are no programs and no views.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads the programs and views of all databases.
pub fn read_programs(
    conn: &mut Connection,
    options: &ReadOptions,
    databases: &[Database],
) -> Result<Programs, ReadError> {
    let mut programs = Programs::default();
    for database in databases {
        // With `--tables`, only tables and what belongs to them were asked for.
        if options.tables.is_empty() {
            if options.wants(Kind::Routines) {
                routines(conn, database, &mut programs)?;
            }
            if options.wants(Kind::Events) {
                events(conn, database, &mut programs)?;
            }
        }
        if options.wants(Kind::Triggers) {
            triggers(conn, options, database, &mut programs)?;
        }
        let views = database.views.iter().filter(|_| options.wants(Kind::Views));
        for name in views {
            programs.views.push(view(conn, &database.name, name)?);
        }
    }
    programs.views = in_order(std::mem::take(&mut programs.views));
    Ok(programs)
}

fn list(
    conn: &mut Connection,
    query: String,
    what: &str,
) -> Result<Vec<(String, String)>, ReadError> {
    let result = conn
        .query(query)
        .map_err(|error| ReadError::server(format!("listing {what}"), error))?;
    let names = texts(&result, 0)?;
    Ok(names.into_iter().zip(texts(&result, 1)?).collect())
}

fn routines(
    conn: &mut Connection,
    database: &Database,
    programs: &mut Programs,
) -> Result<(), ReadError> {
    let query = format!(
        "SELECT ROUTINE_NAME, ROUTINE_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = {} \
         ORDER BY FIELD(ROUTINE_TYPE, 'PACKAGE', 'FUNCTION', 'PROCEDURE', 'PACKAGE BODY'), ROUTINE_NAME",
        literal(&database.name)
    );
    let mut listed = list(conn, query, "routines")?;
    if conn.server().vendor == Vendor::MySql {
        // The libraries of MySQL 9 must exist before the routines that use them.
        let libraries = format!(
            "SELECT LIBRARY_NAME, 'LIBRARY' FROM information_schema.LIBRARIES WHERE LIBRARY_SCHEMA = {} ORDER BY 1",
            literal(&database.name)
        );
        match list(conn, libraries, "libraries") {
            Ok(libraries) => drop(listed.splice(0..0, libraries)),
            Err(ReadError::Server { source, .. }) if source.server_code().is_some() => {}
            Err(error) => return Err(error),
        }
    }
    for (name, kind) in listed {
        let statement = format!(
            "SHOW CREATE {kind} {}.{}",
            quote_ident(&database.name),
            quote_ident(&name)
        );
        let label = format!("{} {}.{name}", kind.to_lowercase(), database.name);
        let columns = [
            "Create Function",
            "Create Procedure",
            "Create Package",
            "Create Package Body",
            "Create Library",
        ];
        let create = show_create(conn, &label, &statement, &columns)?;
        programs.routines.push(Program {
            database: database.name.clone(),
            kind,
            name,
            create,
        });
    }
    Ok(())
}

fn events(
    conn: &mut Connection,
    database: &Database,
    programs: &mut Programs,
) -> Result<(), ReadError> {
    let query = format!(
        "SELECT EVENT_NAME, 'EVENT' FROM information_schema.EVENTS WHERE EVENT_SCHEMA = {} ORDER BY 1",
        literal(&database.name)
    );
    for (name, kind) in list(conn, query, "events")? {
        let statement = format!(
            "SHOW CREATE EVENT {}.{}",
            quote_ident(&database.name),
            quote_ident(&name)
        );
        let label = format!("event {}.{name}", database.name);
        let create = show_create(conn, &label, &statement, &["Create Event"])?;
        programs.events.push(Program {
            database: database.name.clone(),
            kind,
            name,
            create,
        });
    }
    Ok(())
}

fn triggers(
    conn: &mut Connection,
    options: &ReadOptions,
    database: &Database,
    programs: &mut Programs,
) -> Result<(), ReadError> {
    // The text of a trigger has no `FOLLOWS` or `PRECEDES`: triggers fire in the order in which
    // they were created, so the dump keeps the firing order. MySQL 8.0 sorts timings and events in
    // `ENUM` order, other servers by name, and table names may or may not be case-sensitive: the
    // casts make all servers sort alike.
    let query = format!(
        "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = {} \
         ORDER BY CAST(EVENT_OBJECT_TABLE AS BINARY), CONCAT(ACTION_TIMING, EVENT_MANIPULATION), ACTION_ORDER",
        literal(&database.name)
    );
    for (name, table) in list(conn, query, "triggers")? {
        let asked =
            options.tables.is_empty() || matches_any(&options.tables, &database.name, &table);
        if !asked || matches_any(&options.exclude, &database.name, &table) {
            continue;
        }
        let statement = format!(
            "SHOW CREATE TRIGGER {}.{}",
            quote_ident(&database.name),
            quote_ident(&name)
        );
        let label = format!("trigger {}.{name}", database.name);
        let create = show_create(conn, &label, &statement, &["SQL Original Statement"])?;
        programs.triggers.push(Program {
            database: database.name.clone(),
            kind: "TRIGGER".to_owned(),
            name,
            create,
        });
    }
    Ok(())
}

fn view(conn: &mut Connection, database: &str, name: &str) -> Result<View, ReadError> {
    let quoted = format!("{}.{}", quote_ident(database), quote_ident(name));
    let label = format!("view {database}.{name}");
    let create = show_create(
        conn,
        &label,
        &format!("SHOW CREATE VIEW {quoted}"),
        &["Create View"],
    )?;
    // A view is valid if the server can list its columns; that reads no rows.
    let invalid = match conn.query(format!("SHOW COLUMNS FROM {quoted}")) {
        Ok(_) => None,
        Err(error) if error.server_code().is_some() => Some(error.to_string()),
        Err(error) => return Err(ReadError::server(format!("looking at {label}"), error)),
    };
    Ok(View {
        database: database.to_owned(),
        name: name.to_owned(),
        create,
        invalid,
    })
}

/// Sorts each view after the views that it reads. The server writes every name in a view's text
/// with its database, both quoted.
fn in_order(views: Vec<View>) -> Vec<View> {
    let names: BTreeMap<Vec<u8>, usize> = views
        .iter()
        .enumerate()
        .map(|(index, view)| {
            let name = format!(
                "{}.{}",
                quote_ident(&view.database),
                quote_ident(&view.name)
            );
            (name.into_bytes(), index)
        })
        .collect();
    let sources: Vec<BTreeSet<usize>> = views
        .iter()
        .enumerate()
        .map(|(at, view)| {
            let text = &view.create.text;
            names
                .iter()
                .filter(|(name, index)| **index != at && memchr::memmem::find(text, name).is_some())
                .map(|(_, index)| *index)
                .collect()
        })
        .collect();
    let mut order = Vec::with_capacity(views.len());
    let mut placed = vec![false; views.len()];
    while order.len() < views.len() {
        let ready = (0..views.len())
            .find(|index| !placed[*index] && sources[*index].iter().all(|read| placed[*read]));
        // A cycle, which only text that looks like a name can cause: fall back to order by name.
        let next = ready.or_else(|| placed.iter().position(|placed| !placed));
        let Some(next) = next else { break };
        placed[next] = true;
        order.push(next);
    }
    let mut views: Vec<Option<View>> = views.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|index| views[index].take())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(name: &str, text: &str) -> View {
        View {
            database: "d".into(),
            name: name.into(),
            create: ShowCreate {
                text: text.into(),
                sql_mode: None,
                client: None,
                connection: None,
                database: None,
                time_zone: None,
            },
            invalid: None,
        }
    }

    #[test]
    fn a_view_stands_behind_those_that_it_reads() {
        let sorted = in_order(vec![
            view("a", "select 1 from `d`.`b` join `d`.`t`"),
            view("b", "select 1 from `d`.`c`"),
            view("c", "select 1"),
        ]);
        let names: Vec<_> = sorted.iter().map(|view| view.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
    }

    #[test]
    fn a_circle_loses_no_view() {
        let sorted = in_order(vec![view("a", "`d`.`b`"), view("b", "`d`.`a`")]);
        assert_eq!(sorted.len(), 2);
    }
}
