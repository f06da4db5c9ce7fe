//! Rows are compared with their parents where the dump's session checks foreign keys, or `--foreign-keys checked` asks for it.

use std::sync::{Arc, Mutex, PoisonError};

use refloat_run::progress::{Phase, TableState};
use refloat_sqltext::ddl::ForeignKey;
use refloat_sqltext::{InsertVerb, quote_ident};

use super::Conductor;
use super::registry::ForeignKeys;
use crate::load::error::LoadError;
use crate::load::link::Link;
use crate::load::options::{ForeignKeyMode, OnError};
use crate::load::outcome::OrphanRows;
use crate::load::queue::{TASKS, Task};
use crate::load::table::Table;

/// Orphan rows shown for each foreign key.
const EXAMPLES: usize = 5;

impl Conductor<'_> {
    /// Whether rows of a session that checks foreign keys have to be compared with their parents by the server, as they come: it leaves
    /// out by itself what `INSERT IGNORE` brings without a parent, and rows that nobody compared may be there without one.
    pub(super) fn leaves_parents_to_server(
        &mut self,
        index: usize,
        verb: InsertVerb,
    ) -> Result<bool, LoadError> {
        let entry = &self.entries[index];
        let always = verb == InsertVerb::InsertIgnore || !entry.table.created || entry.unchecked;
        Ok(match self.foreign_keys(index)? {
            ForeignKeys::Read(keys) => always && !keys.is_empty(),
            ForeignKeys::Unreadable => true,
        })
    }

    fn foreign_keys(&mut self, index: usize) -> Result<&ForeignKeys, LoadError> {
        if self.entries[index].foreign_keys.is_none() {
            let table = Arc::clone(&self.entries[index].table);
            let (create, _) = self.show_create(&table)?;
            self.entries[index].foreign_keys = Some(ForeignKeys::of(&create));
        }
        let found = self.entries[index].foreign_keys.as_ref();
        Ok(found.unwrap_or(&ForeignKeys::Unreadable))
    }

    /// Looks for the parents of rows whose session checks foreign keys. Writers do not check them, because the parents of a row may be on
    /// their way beside it.
    pub(super) fn look_for_parents(&mut self) -> Result<(), LoadError> {
        if self.in_past() {
            // Statements behind this place may have changed what is there.
            return Ok(());
        }
        let entries = self.entries.iter_mut().enumerate();
        let asked: Vec<usize> = entries
            .filter_map(|(index, entry)| {
                (std::mem::take(&mut entry.wants_parents) && !entry.dropped).then_some(index)
            })
            .collect();
        if self.ctx.options.foreign_keys == ForeignKeyMode::Checked {
            return Ok(());
        }
        let found = self.orphans_of(&asked)?;
        if !found.is_empty() && self.ctx.options.on_error == OnError::Stop {
            return Err(LoadError::Orphans(found));
        }
        for one in found {
            self.orphans
                .retain(|other| (&other.table, &other.constraint) != (&one.table, &one.constraint));
            self.orphans.push(one);
        }
        Ok(())
    }

    /// Before the dump stops checking foreign keys, what came while it did is compared with its parents.
    pub(super) fn end_of_checks(&mut self) -> Result<(), LoadError> {
        let several = self.place.size_known.is_some();
        if several || !self.entries.iter().any(|entry| entry.wants_parents) {
            return Ok(());
        }
        self.finish_current()?;
        self.finish_builds()
    }

    /// `--foreign-keys checked`: looks for the parents of all rows.
    pub(super) fn check_foreign_keys(&mut self) -> Result<(), LoadError> {
        if self.ctx.options.foreign_keys != ForeignKeyMode::Checked {
            return Ok(());
        }
        let entries = self.entries.iter().enumerate();
        let all: Vec<usize> = entries
            .filter_map(|(index, entry)| (!entry.dropped).then_some(index))
            .collect();
        self.orphans = self.orphans_of(&all)?;
        Ok(())
    }

    /// Rows of these tables without a parent, looked for in parallel over the foreign keys.
    fn orphans_of(&mut self, tables: &[usize]) -> Result<Vec<OrphanRows>, LoadError> {
        let found: Arc<Mutex<Vec<OrphanRows>>> = Arc::default();
        for &index in tables {
            let table = Arc::clone(&self.entries[index].table);
            let keys = match self.foreign_keys(index)? {
                ForeignKeys::Read(keys) => keys.clone(),
                ForeignKeys::Unreadable => {
                    self.ctx.events.warn(format!(
                        "table {}: its rows are not compared with their parents, because the server does not show its foreign keys as they are",
                        table.label()
                    ));
                    continue;
                }
            };
            for key in keys {
                self.ctx.phases.enter(Phase::ForeignKeys);
                let (table, found) = (Arc::clone(&table), Arc::clone(&found));
                let job = Box::new(move |link: &mut Link| {
                    if let Some(orphans) = orphans(link, &table, &key)? {
                        found
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(orphans);
                    }
                    Ok(())
                });
                self.queue.submit(Task {
                    key: TASKS,
                    sorts: 0,
                    job,
                })?;
            }
        }
        self.queue.wait_key(TASKS)?;
        let mut list = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        list.sort_by(|a, b| (&a.table, &a.constraint).cmp(&(&b.table, &b.constraint)));
        Ok(list)
    }
}

/// Counts the rows of `table` whose key names no parent.
fn orphans(
    link: &mut Link,
    table: &Table,
    key: &ForeignKey,
) -> Result<Option<OrphanRows>, LoadError> {
    let name = |bytes: &[u8]| quote_ident(&String::from_utf8_lossy(bytes));
    let database = key
        .ref_table
        .database
        .as_deref()
        .map_or_else(|| quote_ident(&table.db), name);
    let parent = format!("{database}.{}", name(&key.ref_table.name));
    let constraint = key
        .name
        .as_deref()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .unwrap_or_default();
    let child: Vec<String> = key
        .columns
        .iter()
        .map(|column| format!("c.{}", name(column)))
        .collect();
    let pairs: Vec<String> = key
        .columns
        .iter()
        .zip(&key.ref_columns)
        .map(|(a, b)| format!("p.{} = c.{}", name(b), name(a)))
        .collect();
    let set: Vec<String> = child
        .iter()
        .map(|column| format!("{column} IS NOT NULL"))
        .collect();
    let from = format!(
        "FROM {} AS c WHERE {} AND NOT EXISTS (SELECT 1 FROM {parent} AS p WHERE {})",
        table.quoted(),
        set.join(" AND "),
        pairs.join(" AND ")
    );
    let _shown = link
        .ctx
        .progress
        .table(&table.label(), TableState::ForeignKeys);
    let failed = |error| {
        LoadError::server(
            format!(
                "checking foreign key {constraint} of table {}",
                table.label()
            ),
            error,
        )
    };
    let rows = link
        .conn
        .query_value(format!("SELECT COUNT(*) {from}"))
        .map_err(failed)?;
    let rows: u64 = rows.and_then(|rows| rows.parse().ok()).unwrap_or(0);
    if rows == 0 {
        return Ok(None);
    }
    let failed = |error| {
        LoadError::server(
            format!("listing orphan rows of table {}", table.label()),
            error,
        )
    };
    let result = link
        .conn
        .query(format!(
            "SELECT DISTINCT {} {from} LIMIT {EXAMPLES}",
            child.join(", ")
        ))
        .map_err(failed)?;
    let examples = (0..result.len())
        .map(|row| {
            let values: Vec<String> = (0..key.columns.len())
                .map(|column| result.str(row, column).unwrap_or("(binary)").to_owned())
                .collect();
            values.join(", ")
        })
        .collect();
    Ok(Some(OrphanRows {
        table: table.label(),
        constraint,
        rows,
        examples,
    }))
}
