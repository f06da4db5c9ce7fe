//! Rows that go through a view.
//!
//! They end in another table, and which one it is the view says as it is when they come. So nothing of a view is ever queued: all
//! rows before are in, with their indexes, before rows of a view run on the control connection. Views may then change as they like.

use std::sync::Arc;

use refloat_sqltext::literal;

use super::Conductor;
use super::registry::TableKey;
use crate::error::{LoadError, Refusal, START_OVER};

/// What stands in the place of a view's engine: it has none.
const NO_ENGINE: &str = "(view)";

impl Conductor<'_> {
    /// Whether a name is that of a view now.
    pub(super) fn is_view(&mut self, key: &TableKey) -> Result<bool, LoadError> {
        let kind = self
            .catalog
            .query_value(format!(
                "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {}",
                literal(&key.0),
                literal(&key.1)
            ))
            .map_err(|error| {
                LoadError::server(format!("looking at table {}.{}", key.0, key.1), error)
            })?;
        Ok(kind.is_some_and(|kind| kind.contains("VIEW")))
    }

    /// Adds a view that rows come for.
    pub(super) fn register_view(&mut self, key: &TableKey) -> Result<usize, LoadError> {
        if !self.in_past() && self.has_marks_of(key) {
            return Err(LoadError::Stopped(vec![Refusal {
                reason: format!(
                    "rows of view {}.{} are in other tables, and which of them are in cannot be told",
                    key.0, key.1
                ),
                hint: START_OVER.to_owned(),
            }]));
        }
        self.admit_view(key)?;
        let index = self.register(key.clone(), false, 0);
        let entry = &mut self.entries[index];
        entry.table.note_view();
        NO_ENGINE.clone_into(&mut entry.engine);
        Ok(index)
    }

    /// Makes sure that a cluster replicates the rows of a view, whichever table takes them: what a view leads to only the server knows.
    fn admit_view(&mut self, key: &TableKey) -> Result<(), LoadError> {
        let ctx = Arc::clone(&self.ctx);
        let Some(cluster) = &ctx.cluster else {
            return Ok(());
        };
        let label = format!("{}.{}", key.0, key.1);
        let found = self
            .catalog
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

    /// Whether this table of the run is a view.
    pub(super) fn is_known_view(&self, key: &TableKey) -> bool {
        self.known(key)
            .is_some_and(|index| self.entries[index].table.is_view())
    }

    /// Forgets the columns of a view that was created anew.
    pub(super) fn look_at_view_again(&mut self, key: &TableKey) {
        if let Some(index) = self.known(key)
            && self.entries[index].table.is_view()
        {
            self.entries[index].table.set_layout(None);
            self.place.last_header = None;
        }
    }
}
