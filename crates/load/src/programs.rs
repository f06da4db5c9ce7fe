//! Checks that the programs that a dump created exist: triggers, views, routines, events and
//! sequences.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use refloat_run::own_tables::is_own_table;
use refloat_schema::Difference;
use refloat_sqltext::literal;
use refloat_wire::codes::UNKNOWN_DATABASE;
use refloat_wire::{Connection, ResultSet};
use serde::{Deserialize, Serialize};

use super::error::LoadError;

/// Kinds of objects other than tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Listed among the tables, with its type.
    View,
    /// Listed among the tables, too (MariaDB).
    Sequence,
    /// Listed by the database of its table.
    Trigger,
    /// A routine that returns a value; loadable functions belong to no database.
    Function,
    /// A routine for `CALL`.
    Procedure,
    /// The specification of a package (MariaDB).
    Package,
    /// The body of a package (MariaDB).
    PackageBody,
    /// What the event scheduler runs.
    Event,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::View => "view",
            Self::Sequence => "sequence",
            Self::Trigger => "trigger",
            Self::Function => "function",
            Self::Procedure => "procedure",
            Self::Package => "package",
            Self::PackageBody => "package body",
            Self::Event => "event",
        })
    }
}

impl Kind {
    /// From the word in [`refloat_sqltext::StatementKind::CreateRoutine`]; `None` for kinds that
    /// the catalog does not list.
    pub fn of_routine(what: &str) -> Option<Self> {
        match what {
            "FUNCTION" => Some(Self::Function),
            "PROCEDURE" => Some(Self::Procedure),
            "PACKAGE" => Some(Self::Package),
            "PACKAGE BODY" => Some(Self::PackageBody),
            _ => None,
        }
    }

    /// The query that lists name and details of this kind in one database; [`DATABASE`] is the
    /// placeholder for its name.
    fn query(self) -> String {
        let (columns, table, database, more) = match self {
            Self::View | Self::Sequence => ("TABLE_NAME, TABLE_TYPE", "TABLES", "TABLE_SCHEMA", ""),
            Self::Trigger => (
                "TRIGGER_NAME, CONCAT(ACTION_TIMING, ' ', EVENT_MANIPULATION, ' ON ', EVENT_OBJECT_TABLE)",
                "TRIGGERS",
                // With its other name, TRIGGER_SCHEMA, MariaDB must open the tables of all
                // databases to answer.
                "EVENT_OBJECT_SCHEMA",
                "",
            ),
            Self::Function => (
                "ROUTINE_NAME, ''",
                "ROUTINES",
                "ROUTINE_SCHEMA",
                " AND ROUTINE_TYPE = 'FUNCTION'",
            ),
            Self::Procedure => (
                "ROUTINE_NAME, ''",
                "ROUTINES",
                "ROUTINE_SCHEMA",
                " AND ROUTINE_TYPE = 'PROCEDURE'",
            ),
            Self::Package => (
                "ROUTINE_NAME, ''",
                "ROUTINES",
                "ROUTINE_SCHEMA",
                " AND ROUTINE_TYPE = 'PACKAGE'",
            ),
            Self::PackageBody => (
                "ROUTINE_NAME, ''",
                "ROUTINES",
                "ROUTINE_SCHEMA",
                " AND ROUTINE_TYPE = 'PACKAGE BODY'",
            ),
            Self::Event => ("EVENT_NAME, ''", "EVENTS", "EVENT_SCHEMA", ""),
        };
        // No function around the column, so that the server looks into one database only.
        format!(
            "SELECT {columns} FROM information_schema.{table} WHERE {database} = {DATABASE}{more}"
        )
    }
}

/// Placeholder for the database name in [`Kind::query`].
const DATABASE: &str = "@database@";

/// When a trigger runs, and on which table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerFor {
    /// `BEFORE` or `AFTER`, in any case.
    pub timing: String,
    /// `INSERT`, `UPDATE` or `DELETE`, in any case; several joined with ` OR ` (MariaDB 12) are not
    /// compared.
    pub event: String,
    /// The table, without its database.
    pub table: String,
}

impl TriggerFor {
    /// From a `CREATE TRIGGER …` statement, including its conditional comments; `None` if it cannot
    /// be parsed.
    pub fn parse(statement: &[u8], mode: refloat_sqltext::LexMode) -> Option<Self> {
        let list: Vec<refloat_sqltext::Token> = refloat_sqltext::tokens(statement, mode)
            .code()
            // Everything needed comes before the body.
            .take(HEAD_TOKENS)
            .collect();
        let is =
            |at: usize, word: &str| list.get(at).is_some_and(|token| token.is(statement, word));
        let trigger = (0..list.len()).find(|at| is(*at, "TRIGGER"))?;
        let at = (trigger + 1..list.len()).find(|at| is(*at, "BEFORE") || is(*at, "AFTER"))?;
        let word = |at: usize| {
            let bytes = &statement[list.get(at)?.range.clone()];
            Some(String::from_utf8_lossy(bytes).to_ascii_uppercase())
        };
        let on = (at..list.len()).find(|at| is(*at, "ON"))?;
        let event: Option<Vec<String>> = (at + 1..on).map(word).collect();
        let qualified = list.get(on + 2).is_some_and(|token| token.is_punct(b'.'));
        let table = list
            .get(if qualified { on + 3 } else { on + 1 })?
            .name(statement)?;
        Some(Self {
            timing: word(at)?,
            event: event?.join(" "),
            table: String::from_utf8_lossy(&table).into_owned(),
        })
    }
}

/// Longest head of a `CREATE TRIGGER` that is examined, in tokens.
const HEAD_TOKENS: usize = 64;

impl fmt::Display for TriggerFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ON {}", self.timing, self.event, self.table)
    }
}

/// An object that a statement of the dump created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The kind of object.
    pub kind: Kind,
    /// The database that it belongs to.
    pub database: String,
    /// Its name, without the database.
    pub name: String,
    /// For a trigger, its event and table; `None` skips that check.
    pub trigger: Option<TriggerFor>,
}

/// The objects of `created` that are missing or are something else: a table in place of a view, or
/// a trigger on another table. Runs one query per kind and database. Names of objects are compared
/// case-insensitively, those of databases as the server compares them. The list must not contain
/// objects that the dump dropped again. `catalog` must use utf8mb4, and its account must be allowed
/// to see the objects, because `information_schema` shows no others.
pub fn missing(
    catalog: &mut Connection,
    created: &[Created],
) -> Result<Vec<Difference>, LoadError> {
    let mut groups: BTreeMap<(Kind, &str), Vec<&Created>> = BTreeMap::new();
    for object in created {
        let key = (object.kind, object.database.as_str());
        groups.entry(key).or_default().push(object);
    }
    let mut found = Vec::new();
    for ((kind, database), objects) in groups {
        let sql = kind.query().replace(DATABASE, &literal(database));
        let result = catalog.query(sql).map_err(|error| {
            LoadError::server(format!("listing the {kind}s of database {database}"), error)
        })?;
        compare(&objects, &listed(&result), &mut found);
    }
    Ok(found)
}

/// Kinds that are neither tables nor views.
const PROGRAMS: &[Kind] = &[
    Kind::Function,
    Kind::Procedure,
    Kind::Package,
    Kind::PackageBody,
    Kind::Event,
];

/// The contents of a database.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Contents {
    /// Base tables, including sequences.
    pub tables: HashSet<String>,
    /// Names of its views.
    pub views: HashSet<String>,
    /// Routines and events, and triggers if requested, by name in lower case.
    pub programs: HashSet<(Kind, String)>,
}

impl Contents {
    /// Lists the contents of a database except Refloat's own tables, as far as the account may see
    /// them; `None` if the database does not exist. Triggers come with their tables, so they are
    /// listed only if `triggers` is set.
    pub fn read(
        conn: &mut Connection,
        database: &str,
        triggers: bool,
    ) -> Result<Option<Self>, refloat_wire::Error> {
        let tables = format!(
            "SHOW FULL TABLES FROM {}",
            refloat_sqltext::quote_ident(database)
        );
        let result = match conn.query(tables) {
            Ok(result) => result,
            // ER_DBACCESS_DENIED_ERROR (1044): the account has no privilege on it.
            Err(error) if matches!(error.server_code(), Some(UNKNOWN_DATABASE | 1044)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut found = Self::default();
        for row in 0..result.len() {
            let name = result.str(row, 0).unwrap_or_default().to_owned();
            if is_own_table(database, &name) {
                continue;
            }
            if result.str(row, 1).is_some_and(|kind| kind.contains("VIEW")) {
                found.views.insert(name);
            } else {
                found.tables.insert(name);
            }
        }
        let triggers = triggers.then_some(Kind::Trigger);
        for kind in PROGRAMS.iter().copied().chain(triggers) {
            let result = conn.query(kind.query().replace(DATABASE, &literal(database)))?;
            let names = listed(&result).into_keys();
            found.programs.extend(names.map(|name| (kind, name)));
        }
        Ok(Some(found))
    }

    /// Names of everything but triggers, sorted, for display.
    pub fn names(&self) -> Vec<String> {
        let programs = self
            .programs
            .iter()
            .filter(|(kind, _)| *kind != Kind::Trigger)
            .map(|(kind, name)| format!("{kind} {name}"));
        let mut names: Vec<String> = self.tables.iter().chain(&self.views).cloned().collect();
        names.extend(programs);
        names.sort_unstable();
        names
    }
}

/// Details by name in lower case.
fn listed(result: &ResultSet) -> BTreeMap<String, String> {
    let cell = |row, column| {
        String::from_utf8_lossy(result.bytes(row, column).unwrap_or_default()).into_owned()
    };
    (0..result.len())
        .map(|row| (cell(row, 0).to_lowercase(), cell(row, 1)))
        .collect()
}

fn compare(objects: &[&Created], there: &BTreeMap<String, String>, found: &mut Vec<Difference>) {
    let mut seen = BTreeSet::new();
    for object in objects {
        let name = object.name.to_lowercase();
        if !seen.insert(name.clone()) {
            continue;
        }
        let details = there.get(&name);
        let expected = match (object.kind, &object.trigger) {
            (Kind::View, _) => "VIEW".to_owned(),
            (Kind::Sequence, _) => "SEQUENCE".to_owned(),
            (Kind::Trigger, Some(trigger)) if !trigger.event.contains(' ') => trigger.to_string(),
            _ => String::new(),
        };
        let same = details.is_some_and(|details| {
            expected.is_empty() || details.to_lowercase().contains(&expected.to_lowercase())
        });
        if !same {
            found.push(Difference {
                about: format!("{} {}.{}", object.kind, object.database, object.name),
                expected: if expected.is_empty() {
                    "there".to_owned()
                } else {
                    expected
                },
                found: details.cloned().unwrap_or_else(|| "none".to_owned()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use refloat_sandbox::ServerKind;
    use refloat_sqltext::LexMode;
    use refloat_testkit::servers;

    use super::*;

    /// Not a plain word, so that the literal is tested too.
    const DATABASE_NAME: &str = "it's \\ caf\u{e9}";

    fn created(kind: Kind, name: &str) -> Created {
        Created {
            kind,
            database: DATABASE_NAME.to_owned(),
            name: name.to_owned(),
            trigger: None,
        }
    }

    fn trigger(name: &str, statement: &str) -> Created {
        let trigger = TriggerFor::parse(statement.as_bytes(), LexMode::default());
        assert!(trigger.is_some(), "{statement}");
        Created {
            trigger,
            ..created(Kind::Trigger, name)
        }
    }

    #[test]
    fn heads_of_triggers() {
        let parse = |text: &str| {
            let found = TriggerFor::parse(text.as_bytes(), LexMode::default());
            found.map(|one| one.to_string())
        };
        assert_eq!(
            parse(
                "/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`%`*/ /*!50003 TRIGGER `x` before update ON `d`.`t``u` FOR EACH ROW BEGIN END */"
            ),
            Some("BEFORE UPDATE ON t`u".to_owned())
        );
        assert_eq!(
            parse("CREATE TRIGGER IF NOT EXISTS d.x AFTER DELETE ON t FOR EACH ROW SET @a = 1"),
            Some("AFTER DELETE ON t".to_owned())
        );
        assert_eq!(parse("CREATE TRIGGER x"), None);
        assert_eq!(parse("CREATE EVENT x"), None);
    }

    #[test]
    fn what_is_there_and_what_is_not() {
        for kind in [ServerKind::MariaDb118, ServerKind::MySql97] {
            let mut conn = servers::connect(servers::server(kind));
            for sql in [
                format!("DROP DATABASE IF EXISTS `{DATABASE_NAME}`").as_str(),
                format!("CREATE DATABASE `{DATABASE_NAME}`").as_str(),
                format!("USE `{DATABASE_NAME}`").as_str(),
                "CREATE TABLE t (a INT)",
                "CREATE TABLE stand_in (a INT)",
                "CREATE VIEW v AS SELECT a FROM t",
                "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
                "CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1",
                "CREATE PROCEDURE p() SELECT 1",
                "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
            ] {
                conn.exec(sql).unwrap();
            }
            let there = [
                created(Kind::View, "V"),
                trigger(
                    "tr",
                    "CREATE TRIGGER tr BEFORE INSERT ON T FOR EACH ROW SET NEW.a = 1",
                ),
                created(Kind::Function, "f"),
                created(Kind::Procedure, "P"),
                created(Kind::Event, "e"),
            ];
            let found = missing(&mut conn, &there).unwrap();
            assert!(found.is_empty(), "{kind:?}: {found:?}");
            let absent = [
                created(Kind::View, "stand_in"),
                created(Kind::View, "none"),
                trigger(
                    "tr",
                    "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW SET @a = 1",
                ),
                created(Kind::Function, "p"),
                created(Kind::Procedure, "f"),
                created(Kind::Event, "it's"),
                created(Kind::Sequence, "t"),
            ];
            let found = missing(&mut conn, &absent).unwrap();
            let place = format!("{DATABASE_NAME}.");
            let mut about: Vec<String> = found
                .iter()
                .map(|one| one.about.replace(&place, ""))
                .collect();
            about.sort_unstable();
            let expected = [
                "event it's",
                "function p",
                "procedure f",
                "sequence t",
                "trigger tr",
                "view none",
                "view stand_in",
            ];
            assert_eq!(about, expected, "{kind:?}");
            conn.exec(format!("DROP DATABASE `{DATABASE_NAME}`"))
                .unwrap();
        }
    }
}
