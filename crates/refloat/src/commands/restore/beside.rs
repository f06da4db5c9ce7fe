//! Tables that arrive under temporary names, beside those that they may replace, and get their own
//! names when all of them are complete.
//!
//! Names of foreign keys, of checks (MySQL) and of triggers are unique in a database. So these are
//! removed on the private server before the tables are copied, and added again on the target when
//! the tables have their own names.

use anyhow::Context as _;
use refloat_run::{Cancel, Events, kill_on_cancel};
use refloat_sqltext::{
    Element, LexMode, literal, parse_create_table, quote_ident, quote_ident_bytes,
};
use refloat_wire::{Connection, Error, ResultSet, Vendor};

use crate::exit::{Exit, ProgramError};

/// Suffix of the name of a table that has arrived.
const NEW: &str = "_refloat_new";
/// Suffix of the name of a table that is being replaced, until it is dropped.
const OLD: &str = "_refloat_old";
/// For replaced tables to which other tables refer.
const NO_CHECKS: &str = "SET SESSION foreign_key_checks = 0";
/// The longest name of a table, in characters.
const NAME_MAX: usize = 64;

/// A table that is being copied.
pub struct Beside {
    pub database: String,
    pub table: String,
    /// Clauses of `ALTER TABLE` that add again what was removed.
    clauses: Vec<Vec<u8>>,
    triggers: Vec<Trigger>,
}

struct Trigger {
    sql_mode: String,
    /// The character set in which it was created, and in which its statement still is.
    client: String,
    collation: String,
    statement: Vec<u8>,
}

impl Beside {
    /// The temporary name of the table.
    pub fn name(&self) -> String {
        named(&self.table, NEW)
    }

    /// The temporary name with its database.
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

    /// Reads everything with a name that is unique in the database, and the statements that remove
    /// it.
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
        let replaced = beside.of("");
        let is_mysql = conn.server().vendor == Vendor::MySql;
        let shown = conn.query(format!("SHOW CREATE TABLE {replaced}"))?;
        let text = shown.bytes(0, 1).unwrap_or_default();
        let (mut dropped, mut statements) = (Vec::new(), Vec::new());
        // A sequence has none of these.
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
        // Statements are then returned as stored, in their own character sets.
        conn.exec("SET SESSION character_set_results = binary")?;
        for name in triggers.texts(0) {
            let trigger = quoted(database, name);
            let shown = conn.query(format!("SHOW CREATE TRIGGER {trigger}"))?;
            beside.triggers.push(Trigger::of(&shown));
            statements.push(format!("DROP TRIGGER {trigger}").into_bytes());
        }
        conn.exec("SET SESSION character_set_results = utf8mb4")?;
        if !dropped.is_empty() {
            let alter = format!("ALTER TABLE {replaced} ");
            statements.push([alter.as_bytes(), &dropped.join(&b", "[..])].concat());
        }
        Ok((beside, statements))
    }

    /// Renames the table to its own name. A table with that name is dropped only then.
    fn settle(&self, conn: &mut Connection, replaces: bool) -> anyhow::Result<()> {
        let (table, new, old) = (self.of(""), self.of(NEW), self.of(OLD));
        let place = format!("RENAME TABLE {new} TO {table}");
        if !replaces {
            return conn.exec(&place).map(drop).with_context(|| place.clone());
        }
        if self.is_referenced(conn)? {
            // If it were renamed, the foreign keys of other tables would follow it. After a drop,
            // they refer to the new table by its name.
            let gone = format!("DROP TABLE {table}");
            conn.exec(&gone).with_context(|| gone.clone())?;
            let placed = conn.exec(&place).or_else(|_| {
                // The two statements must not end halfway unless the server does.
                *conn = conn.reconnect()?;
                conn.exec(NO_CHECKS)?;
                conn.exec(&place)
            });
            return placed.map(drop).with_context(|| {
                format!("{table} was dropped, and its replacement is not in place yet: {place}")
            });
        }
        let exchange = format!("RENAME TABLE {table} TO {old}, {new} TO {table}");
        conn.exec(&exchange).with_context(|| exchange.clone())?;
        let gone = format!("DROP TABLE {old}");
        conn.exec(&gone).map(drop).with_context(|| {
            format!("{table} is in its place, but what it replaced is still there: {gone}")
        })
    }

    /// Why foreign keys of other tables would not fit the new table. `None`: they fit.
    fn misfit(&self, conn: &mut Connection) -> anyhow::Result<Option<String>> {
        let (database, table) = (literal(&self.database), literal(&self.table));
        let of = |table: &str, column: &str| {
            format!(
                "(SELECT CONCAT_WS(' ', COLUMN_TYPE, COLLATION_NAME, IF(COLUMN_KEY = '', 'without index', NULL)) \
                 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {database} AND TABLE_NAME = {table} AND COLUMN_NAME = {column})"
            )
        };
        let referring = conn
            .query(format!(
                "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE \
                 WHERE REFERENCED_TABLE_SCHEMA = {database} AND REFERENCED_TABLE_NAME = {table} \
                 AND NOT (TABLE_SCHEMA = {database} AND TABLE_NAME = {table})"
            ))
            .context("asking for foreign keys")?;
        for row in 0..referring.len() {
            let (Some(child), Some(column)) = (referring.str(row, 0), referring.str(row, 1)) else {
                continue;
            };
            let (was, will) = (
                of(&table, &literal(column)),
                of(&literal(&self.name()), &literal(column)),
            );
            let both = conn
                .query(format!("SELECT {was}, {will}"))
                .context("asking for columns")?;
            let (was, will) = (both.str(0, 0), both.str(0, 1));
            if was != will {
                return Ok(Some(format!(
                    "{child} refers to column {column} of {}.{}, which is {} there and {} in the backup",
                    self.database,
                    self.table,
                    was.unwrap_or("missing"),
                    will.unwrap_or("missing")
                )));
            }
        }
        Ok(None)
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

    /// Adds what was removed. A failure is recorded with its statement, and the rest is still done.
    fn put_back(&self, conn: &mut Connection, failed: &mut Vec<String>) {
        let mut run = |statements: &[Vec<u8>]| {
            for sql in statements {
                if let Err(error) = conn.exec(sql) {
                    failed.push(format!("{}: {}", words(sql), refloat_host::chain(&error)));
                    return;
                }
            }
        };
        // The triggers of another table have changed the session.
        let plain = b"SET NAMES utf8mb4, SESSION sql_mode = ''".to_vec();
        if !self.clauses.is_empty() {
            let alter = format!("ALTER TABLE {} ", self.of(""));
            let sql = [alter.as_bytes(), &self.clauses.join(&b", "[..])].concat();
            run(&[plain.clone(), sql]);
        }
        for trigger in &self.triggers {
            let session = format!(
                "SET SESSION sql_mode = {}, character_set_client = {}, collation_connection = {}",
                literal(&trigger.sql_mode),
                trigger.client,
                trigger.collation
            );
            run(&[
                plain.clone(),
                format!("USE {}", quote_ident(&self.database)).into_bytes(),
                session.into_bytes(),
                trigger.statement.clone(),
            ]);
        }
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

/// Renames these tables on the private server to their temporary names, and removes what is unique
/// in a database.
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

/// Statements that remove tables without files that refer to other tables. `MariaDB` locks them
/// when the others are renamed, and fails.
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

/// Checks that foreign keys to the replaced tables fit the new ones.
pub fn fits(conn: &mut Connection, tables: &[Beside], replaced: &[bool]) -> anyhow::Result<()> {
    for (beside, _) in tables.iter().zip(replaced).filter(|(_, is)| **is) {
        if let Some(misfit) = beside.misfit(conn)? {
            let error = ProgramError::new(Exit::Refused, format!("nothing was replaced: {misfit}"));
            return Err(error.hint("Drop that foreign key first, or rename the table that is there and restore without --replace.").into());
        }
    }
    Ok(())
}

/// The temporary name of a table that is replaced by one of this name.
pub fn old_name(table: &str) -> String {
    named(table, OLD)
}

/// Renames all tables to their own names, then adds what was removed. `replaced` says for each
/// whether it replaces a table.
pub fn settle(
    conn: &mut Connection,
    tables: &[Beside],
    replaced: &[bool],
    cancel: &Cancel,
) -> anyhow::Result<()> {
    conn.exec(NO_CHECKS).context("setting the session up")?;
    // A statement waits as long as another session uses the table.
    let kill = kill_on_cancel(cancel, conn);
    let stopped = |error: anyhow::Error, words: String| match cancel.reason() {
        Some(reason) => ProgramError::new(Exit::Interrupted, format!("{reason}: {words}")).into(),
        None => error.context(words),
    };
    for (at, (beside, replaces)) in tables.iter().zip(replaced).enumerate() {
        let done = match cancel.reason() {
            Some(reason) => Err(anyhow::anyhow!("{reason}")),
            None => beside.settle(conn, *replaces),
        };
        done.map_err(|error| stopped(error, left(tables, at)))?;
    }
    drop(kill);
    let mut failed = Vec::new();
    for beside in tables {
        beside.put_back(conn, &mut failed);
    }
    if failed.is_empty() {
        return Ok(());
    }
    let error = ProgramError::new(
        Exit::Failed,
        format!(
            "all tables are in their places; these statements for their foreign keys, checks and triggers have failed:\n  {}",
            failed.join("\n  ")
        ),
    );
    Err(error.hint("Run them once their cause is fixed.").into())
}

/// The tables that do not have their own names yet.
fn left(tables: &[Beside], at: usize) -> String {
    let names: Vec<String> = tables[at..].iter().map(Beside::full_name).collect();
    format!(
        "{at} of {} tables are in their places; whole, but not renamed yet: {}",
        tables.len(),
        names.join(", ")
    )
}

/// Drops the tables that arrived and were not renamed.
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
