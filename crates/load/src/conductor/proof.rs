//! Proves a load: the rows that were sent are there, and the tables are the ones the dump created.

use std::sync::{Arc, Mutex, PoisonError};

use refloat_read::foreign;
use refloat_run::outcome::Bounded;
use refloat_run::progress::{Phase, TableState};
use refloat_schema::Difference;
use refloat_wire::{Connection, Vendor};

use super::Conductor;
use super::catalog::{Catalog, SHOW_SESSION, show};
use super::entry::Print;
use crate::error::LoadError;
use crate::link::Link;
use crate::outcome::Proof;
use crate::programs::{Created, missing};
use crate::table::Table;
use crate::task::{TASKS, Task};
use crate::worker::Worker;

impl Conductor<'_> {
    /// Counts rows and compares definitions, with one task for each table, and checks that views
    /// and stored programs exist.
    pub(crate) fn prove(&mut self) -> Result<Proof, LoadError> {
        self.ctx.phases.enter(Phase::Proof);
        let found: Arc<Mutex<Proof>> = Arc::default();
        for entry in self.ledger.entries.iter().filter(|entry| !entry.dropped) {
            let (table, definition, found) = (
                Arc::clone(&entry.table),
                entry.definition,
                Arc::clone(&found),
            );
            let job = Box::new(move |worker: &mut Worker| {
                let part = check(&mut worker.link, &table, definition)?;
                let mut proof = found.lock().unwrap_or_else(PoisonError::into_inner);
                let countable = u64::from(!table.is_uncounted());
                if !table.is_elsewhere() {
                    proof.tables_counted += countable;
                    proof.tables_not_counted += 1 - countable;
                }
                proof.definitions_compared += u64::from(definition.is_some());
                for difference in part {
                    proof.differences.push(difference);
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
        let programs = self.catalog.missing_programs(&self.ledger.created)?;
        self.queue.wait_all()?;
        let mut proof = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        proof.done = true;
        proof.programs_checked = self.ledger.created.len() as u64;
        for difference in programs {
            proof.differences.push(difference);
        }
        for entry in self.ledger.entries.iter().filter(|entry| !entry.dropped) {
            let compared = entry.table.compared();
            proof.first_rows_compared += u64::from(compared.any);
            proof.first_rows_read_back += u64::from(compared.read_back);
        }
        proof.first_rows_not_compared = self.ctx.tally().not_compared;
        proof.orphans = std::mem::take(&mut self.findings.orphans);
        let early: Bounded<Difference> = self.ctx.tally().differences;
        proof.differences.total += early.total;
        proof.differences.first.extend(early.first);
        proof
            .differences
            .first
            .truncate(refloat_run::outcome::LIST_MAX);
        Ok(proof)
    }
}

impl Catalog {
    /// Views and stored programs of the dump that are missing on the server.
    pub fn missing_programs(&mut self, created: &[Created]) -> Result<Vec<Difference>, LoadError> {
        self.leave_session();
        self.conn
            .exec("SET NAMES utf8mb4")
            .map_err(|error| LoadError::server("preparing the session for the proof", error))?;
        missing(&mut self.conn, created)
    }
}

/// Counts the rows of a table. If the current rows alone do not give the expected number, a
/// system-versioned table's history counts too.
pub(super) fn count_rows(conn: &mut Connection, table: &Table) -> Result<u64, LoadError> {
    let count = conn
        .query_value(format!("SELECT COUNT(*) FROM {}", table.quoted()))
        .map_err(|error| {
            LoadError::server(
                format!("counting the rows of table {}", table.label()),
                error,
            )
        })?;
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    if table.counts(count) || conn.server().vendor != Vendor::MariaDb {
        return Ok(count);
    }
    // A dump with history contains rows that had ended when it was taken. Only system-versioned
    // tables accept this query.
    let all = conn.query_value(format!(
        "SELECT COUNT(*) FROM {} FOR SYSTEM_TIME ALL",
        table.quoted()
    ));
    let all = all.ok().flatten().and_then(|all| all.parse().ok());
    Ok(all.unwrap_or(count))
}

/// The difference of a table whose row count is not what was sent.
pub(super) fn wrong_count(table: &Table, count: u64) -> Difference {
    Difference {
        about: format!("table {}", table.label()),
        expected: format!("{} rows", table.expected()),
        found: format!("{count} rows"),
    }
}

/// Counts one table and compares its definition.
fn check(
    link: &mut Link,
    table: &Table,
    definition: Option<Print>,
) -> Result<Vec<Difference>, LoadError> {
    let _shown = link
        .ctx
        .progress
        .table(&table.label(), TableState::Checking);
    let elsewhere = table.is_elsewhere();
    let count = if elsewhere {
        0
    } else {
        count_rows(&mut link.conn, table)?
    };
    let mut differences = Vec::new();
    if table.unaccounted() > 0 {
        differences.push(Difference {
            about: format!("table {}", table.label()),
            expected: "every row of the dump stored, or listed as refused".to_owned(),
            found: format!("{} rows that are neither", table.unaccounted()),
        });
    }
    if !elsewhere && !table.counts(count) {
        differences.push(wrong_count(table, count));
    }
    if let Some(definition) = definition {
        let failed = |error| {
            LoadError::server(
                format!("reading the definition of table {}", table.label()),
                error,
            )
        };
        link.leave_session();
        link.conn.exec(SHOW_SESSION).map_err(failed)?;
        let shown = show(&mut link.conn, table).map_err(failed)?;
        let name = (table.db.as_str(), table.name.as_str());
        let (print, text) = match definition {
            Print::Shown(_) => (Print::shown(&shown), shown),
            Print::Corrected(_) => {
                let text = foreign::corrected(&mut link.conn, name, shown).map_err(failed)?;
                (Print::corrected(&text), text)
            }
        };
        if print != definition {
            differences.push(Difference {
                about: format!("table {}", table.label()),
                expected: "the definition that it was created with".to_owned(),
                found: text,
            });
        }
    }
    Ok(differences)
}
