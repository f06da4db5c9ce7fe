//! Compares rows with their parents, if the dump's session checks foreign keys or
//! `--foreign-keys checked` asks for it.

use std::sync::{Arc, Mutex, PoisonError};

use refloat_run::progress::{Phase, TableState};
use refloat_sqltext::ddl::ForeignKey;
use refloat_sqltext::{InsertVerb, quote_ident};
use refloat_wire::codes::NO_SUCH_TABLE;

use super::Conductor;
use super::catalog::Catalog;
use super::deferred::Deferred;
use super::entry::{Entry, ForeignKeys};
use super::here::Here;
use super::ledger::Ledger;
use super::name::TableKey;
use super::place::Place;
use super::resume::Step;
use crate::error::LoadError;
use crate::link::Link;
use crate::options::{ForeignKeyMode, OnError};
use crate::outcome::OrphanRows;
use crate::table::Table;
use crate::task::{TASKS, Task};
use crate::worker::Worker;

/// The account may not read the parents, or their collation differs: `ER_TABLEACCESS_DENIED_ERROR`,
/// `ER_COLUMNACCESS_DENIED_ERROR`, `ER_CANT_AGGREGATE_2COLLATIONS`.
const INCOMPARABLE: [u16; 3] = [1142, 1143, 1267];
/// Orphan rows to show for each foreign key.
const EXAMPLES: usize = 5;

impl Conductor<'_> {
    /// Looks for the parents of rows whose session checks foreign keys. Writers do not check,
    /// because the parents of a row may still be in flight.
    pub(super) fn look_for_parents(&mut self) -> Result<(), LoadError> {
        let entries = self.ledger.entries.iter_mut().enumerate();
        let asked: Vec<usize> = entries
            .filter_map(|(index, entry)| {
                (std::mem::take(&mut entry.wants_parents) && !entry.dropped).then_some(index)
            })
            .collect();
        // An earlier process has checked here, and later statements may have changed the rows
        // since.
        if self.resume.in_past() || self.ctx.options.foreign_keys == ForeignKeyMode::Checked {
            return Ok(());
        }
        let found = self
            .deferred
            .orphans_of(&mut self.ledger, &mut self.catalog, &asked)?;
        if !found.is_empty() && self.ctx.options.on_error == OnError::Stop {
            return Err(LoadError::Orphans(found));
        }
        for one in found {
            self.findings
                .orphans
                .retain(|other| (&other.table, &other.constraint) != (&one.table, &one.constraint));
            self.findings.orphans.push(one);
        }
        Ok(())
    }

    /// Runs a `SET` of the dump. If it turns foreign key checks off, the rows before it are
    /// compared with their parents. That is recorded as a step, because later rows and statements
    /// may leave orphans.
    pub(super) fn set_of_dump(
        &mut self,
        place: &mut Place,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let checked = self.dialogue.session()?.foreign_key_checks();
        self.set(place, here)?;
        // While several files are read at once, none of them knows whether the parents of its rows
        // have arrived. They are checked at the end of the load.
        let alone = place.size_known.is_none();
        if !checked || !alone || self.dialogue.session()?.foreign_key_checks() {
            return Ok(());
        }
        let wanted = self.ledger.entries.iter().any(|entry| entry.wants_parents);
        if self
            .resume
            .passed(&mut self.catalog, &mut self.dialogue, here)?
            .is_some()
        {
            for entry in &mut self.ledger.entries {
                entry.wants_parents = false;
            }
        } else if wanted {
            self.finish_current(place)?;
            self.finish_builds()?;
            self.resume
                .finished(&mut self.catalog, &mut self.dialogue, here, Step::default())?;
        }
        Ok(())
    }

    /// Looks for the parents of all rows, for `--foreign-keys checked`.
    pub(super) fn check_foreign_keys(&mut self) -> Result<(), LoadError> {
        if self.ctx.options.foreign_keys != ForeignKeyMode::Checked {
            return Ok(());
        }
        let entries = self.ledger.entries.iter().enumerate();
        let all: Vec<usize> = entries
            .filter_map(|(index, entry)| (!entry.dropped).then_some(index))
            .collect();
        self.findings.orphans =
            self.deferred
                .orphans_of(&mut self.ledger, &mut self.catalog, &all)?;
        Ok(())
    }
}

impl Deferred<'_> {
    /// Finds the rows of these tables without a parent, with one task for each foreign key.
    pub fn orphans_of(
        &self,
        ledger: &mut Ledger,
        catalog: &mut Catalog,
        tables: &[usize],
    ) -> Result<Vec<OrphanRows>, LoadError> {
        let found: Arc<Mutex<Vec<OrphanRows>>> = Arc::default();
        for &index in tables {
            let table = Arc::clone(&ledger.entries[index].table);
            let keys = match catalog.foreign_keys(&mut ledger.entries[index])? {
                ForeignKeys::Read(keys) => keys.clone(),
                ForeignKeys::Unreadable => {
                    self.ctx.events.warn(format!(
                        "table {}: its foreign keys are not checked, because the definition that \
                        the server shows cannot be read",
                        table.label()
                    ));
                    continue;
                }
            };
            for key in keys {
                self.ctx.phases.enter(Phase::ForeignKeys);
                let (table, found) = (Arc::clone(&table), Arc::clone(&found));
                let job = Box::new(move |worker: &mut Worker| {
                    if let Some(orphans) = orphans(&mut worker.link, &table, &key)? {
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
                    brings_rows: false,
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

impl Catalog {
    /// Whether the server must compare rows with their parents as they arrive, in a session that
    /// checks foreign keys. It skips the rows of an `INSERT IGNORE` that have no parent, and a
    /// table may already hold orphans if its rows were never compared.
    pub fn leaves_parents_to_server(
        &mut self,
        entry: &mut Entry,
        verb: InsertVerb,
    ) -> Result<bool, LoadError> {
        let always = verb == InsertVerb::InsertIgnore || !entry.table.created || entry.unchecked;
        Ok(match self.foreign_keys(entry)? {
            ForeignKeys::Read(keys) => always && !keys.is_empty(),
            ForeignKeys::Unreadable => true,
        })
    }

    pub fn has_no_foreign_keys(&mut self, entry: &mut Entry) -> Result<bool, LoadError> {
        Ok(match self.foreign_keys(entry)? {
            ForeignKeys::Read(keys) => keys.is_empty(),
            ForeignKeys::Unreadable => false,
        })
    }

    /// Whether a table that is not of this load has foreign keys, or may have: its definition
    /// cannot be read.
    pub fn may_have_foreign_keys(&mut self, key: &TableKey) -> bool {
        let table = Table::new(usize::MAX, key.0.clone(), key.1.clone(), false, 0);
        let keys = self.show_as_is(&table).map(|shown| ForeignKeys::of(&shown));
        !matches!(keys, Ok(ForeignKeys::Read(keys)) if keys.is_empty())
    }

    fn foreign_keys<'e>(&mut self, entry: &'e mut Entry) -> Result<&'e ForeignKeys, LoadError> {
        if entry.foreign_keys.is_none() {
            let table = Arc::clone(&entry.table);
            let (create, _) = self.show_create(&table)?;
            // Deferred keys are not shown.
            let put_off = table.deferral().foreign_keys.clone();
            let found = ForeignKeys::of(&create).and(&put_off);
            entry.foreign_keys = Some(found);
        }
        let found = entry.foreign_keys.as_ref();
        Ok(found.unwrap_or(&ForeignKeys::Unreadable))
    }
}

/// Counts the rows of `table` whose foreign key has no parent.
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
    let mut from = from;
    let mut counted = link.conn.query_value(format!("SELECT COUNT(*) {from}"));
    if let Err(error) = &counted {
        let code = error.server_code().unwrap_or(0);
        if code == NO_SUCH_TABLE {
            // Without a parent table, no row has a parent.
            from = format!("FROM {} AS c WHERE {}", table.quoted(), set.join(" AND "));
            counted = link.conn.query_value(format!("SELECT COUNT(*) {from}"));
        } else if INCOMPARABLE.contains(&code) {
            link.ctx.events.warn(format!(
                "table {}: foreign key {constraint} is not checked: {error}",
                table.label()
            ));
            return Ok(None);
        }
    }
    let rows = counted.map_err(failed)?;
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
