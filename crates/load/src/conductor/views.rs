//! Rows that go through a view.
//!
//! They end up in another table, and the view at that moment decides which. So rows of a view are
//! never queued: everything before them is loaded and indexed, then they run on the control
//! connection. Views may therefore change at any time.

use std::sync::Arc;

use refloat_run::Refusal;

use super::Conductor;
use super::catalog::Catalog;
use super::name::TableKey;
use super::place::Place;
use crate::error::{LoadError, START_OVER};

/// Takes the place of an engine, which a view does not have.
const NO_ENGINE: &str = "(view)";

impl Conductor<'_> {
    /// Adds a view that rows arrive for.
    pub(super) fn register_view(&mut self, key: &TableKey) -> Result<usize, LoadError> {
        if !self.resume.in_past() && self.resume.has_marks_of(key) {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "rows of view {}.{} go into other tables, and it is not known which of them \
                    are loaded",
                    key.0, key.1
                ),
                hint: START_OVER.to_owned(),
            }]));
        }
        self.catalog.admit_view(key)?;
        let index = self.ledger.register(key.clone(), false, 0);
        let entry = &mut self.ledger.entries[index];
        entry.table.note_view();
        NO_ENGINE.clone_into(&mut entry.engine);
        Ok(index)
    }

    /// Forgets the columns of a view that was created again.
    pub(super) fn look_at_view_again(&mut self, place: &mut Place, key: &TableKey) {
        if let Some(index) = self.ledger.known(key)
            && self.ledger.entries[index].table.is_view()
        {
            self.ledger.entries[index].table.set_layout(None);
            place.last_header = None;
        }
    }
}

impl Catalog {
    /// Makes sure that a cluster replicates the rows of a view, whichever table they end in: only
    /// the server knows which tables a view leads to.
    pub fn admit_view(&mut self, key: &TableKey) -> Result<(), LoadError> {
        let ctx = Arc::clone(&self.ctx);
        let Some(cluster) = &ctx.cluster else {
            return Ok(());
        };
        let label = format!("{}.{}", key.0, key.1);
        let found = self
            .conn
            .query(
                "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), ENGINE FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' \
                 AND ENGINE IS NOT NULL AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')",
            )
            .map_err(|error| {
                LoadError::server(format!("looking for the tables of view {label}"), error)
            })?;
        let cell = |row, column| found.str(row, column).unwrap_or_default().to_owned();
        let tables: Vec<(String, String)> = (0..found.len())
            .map(|row| (cell(row, 0), cell(row, 1)))
            .collect();
        cluster.admit_view(&ctx.options, &ctx.events, &label, &tables)
    }
}
