//! What proves a load: the rows that were sent are there, and the tables are the ones that the dump created.

use std::sync::{Arc, Mutex, PoisonError};

use refloat_run::progress::{Phase, TableState};
use refloat_wire::Vendor;

use super::conductor::{Conductor, SHOW_TIME_ZONE};
use super::definition::fingerprint;
use super::error::LoadError;
use super::outcome::{Bounded, Proof, ProofDifference};
use super::queue::{TASKS, Task};
use super::table::Table;
use super::worker::Worker;

impl Conductor<'_> {
    /// Counts rows and compares definitions, in parallel over the tables.
    pub(super) fn prove(&mut self) -> Result<Proof, LoadError> {
        self.ctx.phases.enter(Phase::Proof);
        let found: Arc<Mutex<Proof>> = Arc::default();
        for entry in self.entries.iter().filter(|entry| !entry.dropped) {
            let (table, definition, found) = (
                Arc::clone(&entry.table),
                entry.definition,
                Arc::clone(&found),
            );
            let job = Box::new(move |worker: &mut Worker| {
                let part = check(worker, &table, definition)?;
                let mut proof = found.lock().unwrap_or_else(PoisonError::into_inner);
                proof.tables_counted += 1;
                proof.definitions_compared += u64::from(definition.is_some());
                for difference in part {
                    proof.differences.push(difference);
                }
                Ok(())
            });
            self.queue.submit(Task {
                key: TASKS,
                sorts: 0,
                job,
            })?;
        }
        self.queue.wait_all()?;
        let mut proof = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        proof.done = true;
        proof.orphans = std::mem::take(&mut self.orphans);
        let early: Bounded<ProofDifference> = self.ctx.tally().differences;
        proof.differences.total += early.total;
        proof.differences.first.extend(early.first);
        proof.differences.first.truncate(super::outcome::LIST_MAX);
        Ok(proof)
    }
}

/// Counts one table and compares its definition.
fn check(
    worker: &mut Worker,
    table: &Table,
    definition: Option<u128>,
) -> Result<Vec<ProofDifference>, LoadError> {
    let _shown = worker
        .ctx
        .progress
        .table(&table.label(), TableState::Checking);
    let failed = |error| {
        LoadError::server(
            format!("counting the rows of table {}", table.label()),
            error,
        )
    };
    let count = worker
        .conn
        .query_value(format!("SELECT COUNT(*) FROM {}", table.quoted()))
        .map_err(failed)?;
    let mut count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    let expected = table.rows_before + table.rows();
    let mut differences = Vec::new();
    if table.unaccounted() > 0 {
        differences.push(ProofDifference {
            about: format!("table {}", table.label()),
            expected: "every row of the dump stored, or listed as refused".to_owned(),
            found: format!("{} rows that are neither", table.unaccounted()),
        });
    }
    if count != expected && worker.conn.server().vendor == Vendor::MariaDb {
        // A dump with history brings rows that were over before it was taken; only system-versioned tables take the question.
        let all = worker.conn.query_value(format!(
            "SELECT COUNT(*) FROM {} FOR SYSTEM_TIME ALL",
            table.quoted()
        ));
        count = all
            .ok()
            .flatten()
            .and_then(|all| all.parse().ok())
            .unwrap_or(count);
    }
    if count != expected && !table.is_uncounted() && !(table.is_replaced() && count <= expected) {
        differences.push(ProofDifference {
            about: format!("table {}", table.label()),
            expected: format!("{expected} rows"),
            found: format!("{count} rows"),
        });
    }
    if let Some(definition) = definition {
        let failed = |error| {
            LoadError::server(
                format!("reading the definition of table {}", table.label()),
                error,
            )
        };
        worker.leave_session();
        worker.conn.exec(SHOW_TIME_ZONE).map_err(failed)?;
        let result = worker
            .conn
            .query(format!("SHOW CREATE TABLE {}", table.quoted()))
            .map_err(failed)?;
        let text = result.str(0, 1).unwrap_or_default();
        if fingerprint(text) != definition {
            differences.push(ProofDifference {
                about: format!("table {}", table.label()),
                expected: "the definition that it was created with".to_owned(),
                found: text.to_owned(),
            });
        }
    }
    Ok(differences)
}
