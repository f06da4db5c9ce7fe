//! `--foreign-keys checked`: every foreign key of a loaded table is compared with its parents, and orphans are listed.

use std::sync::{Arc, Mutex, PoisonError};

use refloat_run::progress::{Phase, TableState};
use refloat_sqltext::ddl::{Element, ForeignKey, parse_create_table};
use refloat_sqltext::{LexMode, quote_ident};

use super::Conductor;
use crate::load::error::LoadError;
use crate::load::link::Link;
use crate::load::options::ForeignKeyMode;
use crate::load::outcome::OrphanRows;
use crate::load::queue::{TASKS, Task};
use crate::load::table::Table;

/// Orphan rows shown for each foreign key.
const EXAMPLES: usize = 5;

impl Conductor<'_> {
    /// Looks for rows without a parent, in parallel over the foreign keys.
    pub(super) fn check_foreign_keys(&mut self) -> Result<(), LoadError> {
        if self.ctx.options.foreign_keys != ForeignKeyMode::Checked {
            return Ok(());
        }
        self.ctx.phases.enter(Phase::ForeignKeys);
        let found: Arc<Mutex<Vec<OrphanRows>>> = Arc::default();
        for index in 0..self.entries.len() {
            if self.entries[index].dropped {
                continue;
            }
            let table = Arc::clone(&self.entries[index].table);
            let (create, _) = self.show_create(&table)?;
            let Ok(parsed) = parse_create_table(create.as_bytes(), LexMode::default()) else {
                continue;
            };
            for element in parsed.elements {
                let Element::ForeignKey(key) = element else {
                    continue;
                };
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
        self.orphans = list;
        Ok(())
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
