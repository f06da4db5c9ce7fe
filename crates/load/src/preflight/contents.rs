//! Checks what the server already contains.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

use refloat_run::own_tables::is_own_table;
use refloat_run::settings::{Facts, Grants};
use refloat_schema::pattern::is_system_database;
use refloat_sqltext::quote_ident;
use refloat_wire::codes::UNKNOWN_DATABASE;
use refloat_wire::{Connection, ResultSet, Vendor};

use crate::options::{ExistingPolicy, LoadOptions, OnError};
use crate::outline::{Outline, Spaces};
use crate::programs::Contents;
use crate::refusals;
use crate::resume::{Begun, Earlier};
use refloat_run::Refusal;

/// Refuses databases that the dump defines something in and that are not empty.
pub fn not_empty(
    options: &LoadOptions,
    conn: &mut Connection,
    outline: &Outline,
    earlier: &Earlier,
    folds: bool,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let mut refusals = Vec::new();
    if options.existing != ExistingPolicy::Refuse {
        return Ok(refusals);
    }
    let ours = earlier
        .begun
        .as_ref()
        .map(Begun::databases)
        .unwrap_or_default();
    for (database, content) in outline.by_database(options) {
        if !content.defines
            || is_system_database(database)
            || is_elsewhere(options, database)
            || ours.iter().any(|one| same(one, database, folds))
        {
            continue;
        }
        let contents = Contents::read(conn, database, false)?.unwrap_or_default();
        let names = contents.names();
        if !names.is_empty() {
            let mut refusal = refusals::not_empty(database, &names);
            if let Some((run, about)) = earlier.others.first() {
                let _ = write!(
                    refusal.hint,
                    " An unfinished load of this source (run {run}, begun {}) has other options: \
                    the command that began it resumes it.",
                    about.begun
                );
            }
            refusals.push(refusal);
        }
    }
    Ok(refusals)
}

/// Refuses tables that hold rows already, if the dump brings nothing but rows. Other dumps' tables
/// are examined when they are created, or before their first rows.
pub fn not_added_to(
    options: &LoadOptions,
    conn: &mut Connection,
    outline: &Outline,
    earlier: &Earlier,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let mut refusals = Vec::new();
    let appends = options.existing == ExistingPolicy::Append;
    if appends || earlier.begun.is_some() || !outline.is_of_rows() {
        return Ok(refusals);
    }
    for (database, content) in outline.by_database(options) {
        if is_system_database(database) || is_elsewhere(options, database) {
            continue;
        }
        let held = Contents::read(conn, database, false)?.unwrap_or_default();
        for table in content.filled.iter() {
            if held.tables.contains(table)
                && let quoted = format!("{}.{}", quote_ident(database), quote_ident(table))
                && let Ok(found) = conn.query(format!("SELECT 1 FROM {quoted} LIMIT 1"))
                && !found.is_empty()
            {
                refusals.push(refusals::holds_rows(database, table));
            }
        }
    }
    Ok(refusals)
}

/// Whether a server takes two names for the same one; one that folds them ignores their case.
fn same(one: &str, other: &str, folds: bool) -> bool {
    one == other || folds && one.to_lowercase() == other.to_lowercase()
}

/// Refuses rows that would fire triggers which are there before the load, if the dump leaves their
/// tables as they are. Others are examined before their first rows.
pub fn fire_triggers(
    options: &LoadOptions,
    conn: &mut Connection,
    outline: &Outline,
    earlier: &Earlier,
    folds: bool,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let mut refusals = Vec::new();
    if earlier.begun.is_some() || outline.temporary {
        return Ok(refusals);
    }
    let appends = options.existing == ExistingPolicy::Append;
    let only_rows = outline.is_of_rows();
    for (database, content) in outline.by_database(options) {
        let stay = only_rows || (appends && content.changes.is_none());
        if !stay || is_system_database(database) || is_elsewhere(options, database) {
            continue;
        }
        for (table, triggers) in list_triggers(conn, database, None)? {
            let filled = content.filled.iter().any(|name| same(name, &table, folds));
            if filled {
                refusals.push(refusals::fires_triggers(database, &table, &triggers));
            }
        }
    }
    Ok(refusals)
}

/// Refuses a table with triggers that its rows would fire: what these would do is already in the
/// dump, or never happened.
pub fn triggers_of(
    conn: &mut Connection,
    database: &str,
    table: &str,
) -> Result<Option<Refusal>, refloat_wire::Error> {
    let found = list_triggers(conn, database, Some(table))?.pop_first();
    Ok(found.map(|(_, triggers)| refusals::fires_triggers(database, table, &triggers)))
}

/// The triggers that an `INSERT` or a `REPLACE` fires, by table: of one of them, or of all. Of a
/// database that is not there, or that the account does not see, none.
fn list_triggers(
    conn: &mut Connection,
    database: &str,
    table: Option<&str>,
) -> Result<BTreeMap<String, Vec<String>>, refloat_wire::Error> {
    let mut sql = format!(
        "SHOW TRIGGERS FROM {} WHERE `Event` <> 'UPDATE'",
        quote_ident(database)
    );
    if let Some(table) = table {
        let name = table.replace('\\', "\\\\").replace('\'', "''");
        let _ = write!(sql, " AND `Table` = '{name}'");
    }
    let result = match conn.query(sql) {
        Err(error)
            if table.is_none() && matches!(error.server_code(), Some(UNKNOWN_DATABASE | 1044)) =>
        {
            return Ok(BTreeMap::new());
        }
        result => result?,
    };
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in 0..result.len() {
        let [trigger, table] = [0, 2].map(|column| result.str(row, column).unwrap_or_default());
        found
            .entry(table.to_owned())
            .or_default()
            .push(trigger.to_owned());
    }
    Ok(found)
}

/// Whether the dump itself names a database other than that of `--database`. It is refused for that
/// alone. What the other database holds does not matter, because nobody asked to replace it.
fn is_elsewhere(options: &LoadOptions, database: &str) -> bool {
    let wanted = options.database.as_deref();
    wanted.is_some_and(|wanted| wanted != database)
}

/// Refuses general tablespaces that the server does not have: MySQL creates no table in one (3510).
/// An account without `PROCESS` does not see them.
pub fn no_spaces(
    options: &LoadOptions,
    conn: &mut Connection,
    facts: &Facts,
    outline: &Outline,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    // A load that continues lists such tables, and loads all others.
    let asked = outline.spaces.needed().next().is_some() && options.on_error == OnError::Stop;
    // MariaDB ignores the clause, and with --append the tables exist already.
    if !asked || facts.vendor != Vendor::MySql || options.existing == ExistingPolicy::Append {
        return Ok(Vec::new());
    }
    let list = if facts.mysql_since((8, 0, 0)) {
        "INNODB_TABLESPACES"
    } else {
        "INNODB_SYS_TABLESPACES"
    };
    let found = match conn.query(format!("SELECT NAME FROM information_schema.{list}")) {
        Err(error) if error.is_access_denied() => return Ok(Vec::new()),
        found => found?,
    };
    let there: HashSet<&str> = found.texts(0).collect();
    Ok(spaces_that_lack(&outline.spaces, &there))
}

fn spaces_that_lack(spaces: &Spaces, there: &HashSet<&str>) -> Vec<Refusal> {
    let lacking = spaces
        .needed()
        .filter(|(name, _)| !there.contains(name.as_str()));
    lacking
        .map(|(name, line)| Refusal {
            reason: format!(
                "line {line}: a table of the dump is in tablespace {name}, which the server does not have"
            ),
            hint: format!(
                "CREATE TABLESPACE {0} ADD DATAFILE '{name}.ibd'; or take TABLESPACE {0} out of the dump.",
                quote_ident(name)
            ),
        })
        .collect()
}

/// Refuses names in the dump that differ only in case, for a server that ignores case.
pub fn same_names(options: &LoadOptions, outline: &Outline) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut meet = |name: String| {
        if let Some(first) = seen.insert(name.to_lowercase(), name.clone())
            && first != name
        {
            refusals.push(refusals::same_name(&first, &name));
        }
    };
    for name in outline.named.keys() {
        meet(format!("database {name}"));
    }
    for (database, content) in outline.by_database(options) {
        for name in content.created.iter().chain(content.viewed.iter()) {
            meet(format!("{database}.{name}"));
        }
    }
    refusals
}

/// Statements that a load with `--append` stops at because they may change existing rows; the first
/// one in each database.
pub fn not_appended(
    options: &LoadOptions,
    conn: &mut Connection,
    outline: &Outline,
) -> Result<Vec<Refusal>, refloat_wire::Error> {
    let mut refusals = Vec::new();
    if options.existing != ExistingPolicy::Append || options.on_error == OnError::Continue {
        return Ok(refusals);
    }
    for (database, content) in outline.by_database(options) {
        let Some((line, statement)) = &content.changes else {
            continue;
        };
        let held = Contents::read(conn, database, false)?.is_some_and(|one| !one.tables.is_empty());
        if held && !is_system_database(database) {
            refusals.push(Refusal {
                reason: format!("line {line}: with --append it may change or remove rows that were there before the load: {statement}"),
                hint: "Take the statement out of the dump, or use --replace.".to_owned(),
            });
        }
    }
    Ok(refusals)
}

/// Whether all tables that `SHOW TABLES` lists are Refloat's own; also true if there are none.
fn only_own(listed: &ResultSet, database: &str) -> bool {
    let is_own = |name: &str| is_own_table(database, name);
    (0..listed.len()).all(|row| listed.str(row, 0).is_some_and(is_own))
}

/// Whether no database has tables yet, including those of the dump but not counting Refloat's own:
/// then nobody else's durability is at stake.
///
/// Servers do not list what an account may not see. So the account needs a privilege that shows it
/// the names of all databases, and in each database one that shows it all tables. Otherwise there
/// may be more, and the answer is no.
pub fn holds_nothing_else(
    conn: &mut Connection,
    grants: &Grants,
    ours: &HashSet<String>,
) -> Result<bool, refloat_wire::Error> {
    if !grants.sees_all_databases() {
        return Ok(false);
    }
    let denied = |error: &refloat_wire::Error| error.is_access_denied();
    let result = match conn.query("SHOW DATABASES") {
        Ok(result) => result,
        Err(error) if denied(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    for name in result.texts(0) {
        if is_system_database(name) || ours.contains(name) {
            continue;
        }
        if !grants.on_database("SELECT", name) {
            return Ok(false);
        }
        match conn.query(format!("SHOW TABLES FROM {}", quote_ident(name))) {
            Ok(result) if only_own(&result, name) => {}
            Ok(_) => return Ok(false),
            // Somebody has dropped it since it was listed.
            Err(error) if error.server_code() == Some(UNKNOWN_DATABASE) => {}
            Err(error) if denied(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::LexMode;
    use refloat_wire::ConnectOptions;

    use super::*;

    #[test]
    fn what_a_database_holds_that_the_dump_does_not_go_into_is_no_reason_to_replace_it() {
        let target = ConnectOptions::tcp("127.0.0.1", 3306, "root");
        let mut options = LoadOptions::new("dump.sql", target);
        assert!(!is_elsewhere(&options, "shop"));
        options.database = Some("other".to_owned());
        assert!(is_elsewhere(&options, "shop") && !is_elsewhere(&options, "other"));
    }

    #[test]
    fn a_tablespace_that_is_not_there_is_named() {
        let mut spaces = Spaces::default();
        let text = b"CREATE TABLE t (a INT) /*!50100 TABLESPACE `ts` */ ENGINE=InnoDB";
        spaces.table(text, LexMode::default(), 7);
        assert!(spaces_that_lack(&spaces, &HashSet::from(["mysql", "ts"])).is_empty());
        let refusals = spaces_that_lack(&spaces, &HashSet::from(["mysql"]));
        assert_eq!(refusals.len(), 1);
        assert!(
            refusals[0]
                .reason
                .starts_with("line 7: a table of the dump is in tablespace ts,")
        );
    }
}
