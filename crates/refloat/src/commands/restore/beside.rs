//! Tables that arrive under other names, beside those that they may replace, and take their places
//! when all of them are whole.
//!
//! Names of foreign keys, of checks (MySQL) and of triggers are unique in a database. So they are
//! taken off on the private server, before the tables are copied, and put back on the target when
//! the tables have their own names again.

use anyhow::Context as _;
use refloat_run::{Cancel, Events, kill_on_cancel};
use refloat_sqltext::{
    Element, LexMode, literal, parse_create_table, quote_ident, quote_ident_bytes,
};
use refloat_wire::{Connection, Error, ResultSet, Vendor};

use crate::exit::{Exit, ProgramError};

/// What a table is called until it has its place, behind its own name.
const NEW: &str = "_refloat_new";
/// What a table is called that makes place, until it is removed.
const OLD: &str = "_refloat_old";
/// The longest name of a table, in characters.
const NAME_MAX: usize = 64;

/// A table on its way.
pub struct Beside {
    pub database: String,
    pub table: String,
    /// Clauses of `ALTER TABLE` that put back what was taken off.
    clauses: Vec<Vec<u8>>,
    triggers: Vec<Trigger>,
}

struct Trigger {
    sql_mode: String,
    /// The character set that it was written in, as its statement still is.
    client: String,
    collation: String,
    statement: Vec<u8>,
}

impl Beside {
    /// The name under which a table arrives.
    pub fn name(&self) -> String {
        named(&self.table, NEW)
    }

    /// With its database.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.database, self.name())
    }

    fn of(&self, end: &str) -> String {
        quoted(
            &self.database,
            &if end.is_empty() {
                self.table.clone()
            } else {
                named(&self.table, end)
            },
        )
    }

    /// Reads what has a name of its own in the database, and how to take it off: statements.
    fn read(
        conn: &mut Connection,
        database: &str,
        table: &str,
    ) -> Result<(Self, Vec<Vec<u8>>), Error> {
        let mut beside = Self {
            database: database.to_owned(),
            table: table.to_owned(),
            clauses: Vec::new(),
            triggers: Vec::new(),
        };
        let own = beside.of("");
        let is_mysql = conn.server().vendor == Vendor::MySql;
        let shown = conn.query(format!("SHOW CREATE TABLE {own}"))?;
        let text = shown.bytes(0, 1).unwrap_or_default();
        let (mut dropped, mut statements) = (Vec::new(), Vec::new());
        // A sequence has none of this.
        let parsed = parse_create_table(text, LexMode::default());
        for element in parsed.iter().flat_map(|parsed| &parsed.elements) {
            let (what, name) = match element {
                Element::ForeignKey(key) => ("FOREIGN KEY", key.name.as_ref()),
                Element::Check(check) if is_mysql => ("CHECK", check.name.as_ref()),
                _ => continue,
            };
            if let Some(name) = name {
                let name = quote_ident_bytes(name);
                dropped.push([b"DROP ", what.as_bytes(), b" ", &name[..]].concat());
                beside.clauses.push(element.add_clause(text));
            }
        }
        let triggers = conn.query(format!(
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS \
             WHERE EVENT_OBJECT_SCHEMA = {} AND EVENT_OBJECT_TABLE = {} \
             ORDER BY ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER",
            literal(database),
            literal(table)
        ))?;
        for name in triggers.texts(0) {
            let trigger = quoted(database, name);
            let shown = conn.query(format!("SHOW CREATE TRIGGER {trigger}"))?;
            beside.triggers.push(Trigger::of(&shown));
            statements.push(format!("DROP TRIGGER {trigger}").into_bytes());
        }
        if !dropped.is_empty() {
            let alter = format!("ALTER TABLE {own} ");
            statements.push([alter.as_bytes(), &dropped.join(&b", "[..])].concat());
        }
        Ok((beside, statements))
    }

    /// Puts the table in its place. What was there goes only then.
    fn settle(&self, conn: &mut Connection, replaces: bool) -> anyhow::Result<()> {
        let (own, new, old) = (self.of(""), self.of(NEW), self.of(OLD));
        let mut statements = vec![format!("RENAME TABLE {new} TO {own}")];
        if replaces && self.is_referenced(conn)? {
            // Renamed, it would take the foreign keys of others with it. They go by name.
            statements.insert(0, format!("DROP TABLE {own}"));
        } else if replaces {
            statements = vec![
                format!("RENAME TABLE {own} TO {old}, {new} TO {own}"),
                format!("DROP TABLE {old}"),
            ];
        }
        for sql in statements {
            conn.exec(&sql).with_context(|| sql.clone())?;
        }
        Ok(())
    }

    fn is_referenced(&self, conn: &mut Connection) -> anyhow::Result<bool> {
        let (database, table) = (literal(&self.database), literal(&self.table));
        let found = conn.query(format!(
            "SELECT 1 FROM information_schema.REFERENTIAL_CONSTRAINTS \
             WHERE UNIQUE_CONSTRAINT_SCHEMA = {database} AND REFERENCED_TABLE_NAME = {table} \
             AND NOT (CONSTRAINT_SCHEMA = {database} AND TABLE_NAME = {table})"
        ));
        Ok(!found.context("asking for foreign keys")?.is_empty())
    }

    /// Puts back what was taken off.
    fn put_back(&self, conn: &mut Connection) -> anyhow::Result<()> {
        if !self.clauses.is_empty() {
            let alter = format!("ALTER TABLE {} ", self.of(""));
            let sql = [alter.as_bytes(), &self.clauses.join(&b", "[..])].concat();
            conn.exec(&sql).with_context(|| words(&sql))?;
        }
        for trigger in &self.triggers {
            let session = format!(
                "SET SESSION sql_mode = {}, character_set_client = {}, collation_connection = {}",
                literal(&trigger.sql_mode),
                trigger.client,
                trigger.collation
            );
            for sql in [
                b"SET NAMES utf8mb4".to_vec(),
                format!("USE {}", quote_ident(&self.database)).into_bytes(),
                session.into_bytes(),
                trigger.statement.clone(),
            ] {
                conn.exec(&sql).with_context(|| words(&sql))?;
            }
        }
        Ok(())
    }
}

impl Trigger {
    fn of(shown: &ResultSet) -> Self {
        let text = |name| shown.get(0, name).unwrap_or_default().to_owned();
        let statement = shown.column("SQL Original Statement");
        let statement = statement.and_then(|column| shown.bytes(0, column));
        Self {
            sql_mode: text("sql_mode"),
            client: text("character_set_client"),
            collation: text("collation_connection"),
            statement: statement.unwrap_or_default().to_vec(),
        }
    }
}

fn words(sql: &[u8]) -> String {
    String::from_utf8_lossy(sql).into_owned()
}

/// Gives these tables of the private server the names under which they arrive, without what is
/// unique in a database.
pub fn take(conn: &mut Connection, names: &[(String, String)]) -> anyhow::Result<Vec<Beside>> {
    let failed = "setting tables of the backup aside on the private server";
    conn.exec("SET SESSION foreign_key_checks = 0, sql_mode = ''")
        .context(failed)?;
    let (mut tables, mut statements) = (Vec::new(), Vec::new());
    for (database, table) in names {
        let (beside, more) = Beside::read(conn, database, table).context(failed)?;
        statements.extend(more);
        tables.push(beside);
    }
    if conn.server().vendor == Vendor::MariaDb {
        statements.extend(ghosts(conn).context(failed)?);
    }
    let renames = tables
        .iter()
        .map(|beside| format!("RENAME TABLE {} TO {}", beside.of(""), beside.of(NEW)));
    statements.extend(renames.map(String::into_bytes));
    for sql in &statements {
        conn.exec(sql)
            .with_context(|| format!("{failed}: {}", words(sql)))?;
    }
    Ok(tables)
}

/// Statements that remove tables without files that refer to others. `MariaDB` locks them when the
/// others are renamed, and fails.
fn ghosts(conn: &mut Connection) -> Result<Vec<Vec<u8>>, Error> {
    let name = |part: i8| {
        format!("CONVERT(CAST(SUBSTRING_INDEX(FOR_NAME, '/', {part}) AS BINARY) USING filename)")
    };
    let found = conn.query(format!(
        "SELECT DISTINCT {}, {} FROM information_schema.INNODB_SYS_FOREIGN",
        name(1),
        name(-1)
    ))?;
    let mut statements = Vec::new();
    for row in 0..found.len() {
        let (Some(database), Some(table)) = (found.str(row, 0), found.str(row, 1)) else {
            continue;
        };
        let there = conn.query(format!(
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
            literal(database),
            literal(table)
        ))?;
        if there.is_empty() {
            statements.push(format!("DROP TABLE {}", quoted(database, table)).into_bytes());
        }
    }
    Ok(statements)
}

/// Puts all tables in their places, then what was taken off them. `replaced` says of each whether
/// something is there.
pub fn settle(
    conn: &mut Connection,
    tables: &[Beside],
    replaced: &[bool],
    cancel: &Cancel,
) -> anyhow::Result<()> {
    conn.exec("SET SESSION foreign_key_checks = 0")
        .context("setting the session up")?;
    // A statement waits for as long as somebody works with the table.
    let _kill = kill_on_cancel(cancel, conn);
    let stopped = |error: anyhow::Error, words: String| match cancel.reason() {
        Some(reason) => ProgramError::new(Exit::Interrupted, format!("{reason}: {words}")).into(),
        None => error.context(words),
    };
    for (at, (beside, replaces)) in tables.iter().zip(replaced).enumerate() {
        let done = beside.settle(conn, *replaces);
        done.map_err(|error| stopped(error, left(tables, at)))?;
    }
    for (at, beside) in tables.iter().enumerate() {
        let done = beside.put_back(conn);
        done.map_err(|error| {
            let names = tables[at..]
                .iter()
                .filter(|one| !one.clauses.is_empty() || !one.triggers.is_empty())
                .map(|one| format!("{}.{}", one.database, one.table));
            let names = names.collect::<Vec<_>>().join(", ");
            let words =
                "all tables are in their places; foreign keys, checks or triggers are missing of";
            stopped(error, format!("{words} {names}"))
        })?;
    }
    Ok(())
}

/// Which tables are not in their places.
fn left(tables: &[Beside], at: usize) -> String {
    let names: Vec<String> = tables[at..].iter().map(Beside::full_name).collect();
    format!(
        "{at} of {} tables are in their places; whole, but not renamed yet: {}",
        tables.len(),
        names.join(", ")
    )
}

/// Removes what has arrived and has no place.
pub fn remove(conn: &mut Connection, tables: &[Beside], events: &Events) {
    for beside in tables {
        let sql = format!("DROP TABLE IF EXISTS {}", beside.of(NEW));
        if let Err(error) = conn.exec(sql) {
            events.warn(format!(
                "{} is left on the target: {error}",
                beside.full_name()
            ));
        }
    }
}

fn named(table: &str, end: &str) -> String {
    let begin: String = table.chars().take(NAME_MAX - end.len()).collect();
    format!("{begin}{end}")
}

fn quoted(database: &str, name: &str) -> String {
    format!("{}.{}", quote_ident(database), quote_ident(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_what_servers_take() {
        assert_eq!(named("orders", NEW), "orders_refloat_new");
        assert_eq!(named(&"ä".repeat(64), NEW).chars().count(), NAME_MAX);
    }
}
