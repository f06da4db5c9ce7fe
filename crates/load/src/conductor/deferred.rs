//! What waits for the rows: indexes, foreign keys, triggers and events.

use std::sync::Arc;

use super::name::TableKey;
use super::postponed::Postponed;
use crate::context::Context;
use crate::queue::Queue;

/// The work that waits until the rows are in, and the queue that it then goes to.
pub struct Deferred<'a> {
    pub ctx: Arc<Context>,
    pub queue: &'a Queue,
    /// Triggers and events, in the order of the dump.
    pub postponed: Vec<Postponed>,
    /// Whether the queue knows how much index builds may sort at the same time.
    pub sort_budget_set: bool,
}

impl<'a> Deferred<'a> {
    /// Nothing is deferred yet.
    pub fn new(ctx: &Arc<Context>, queue: &'a Queue) -> Self {
        Self {
            ctx: Arc::clone(ctx),
            queue,
            postponed: Vec::new(),
            sort_budget_set: false,
        }
    }

    /// Forgets the triggers of a table that was dropped.
    pub fn forget(&mut self, key: &TableKey) {
        self.postponed.retain(|one| one.table.as_ref() != Some(key));
    }

    /// Whether creating or dropping a trigger of this table was postponed. Later rows must fire a
    /// new trigger, and must not fire a dropped one.
    pub fn has_postponed_trigger(&self, key: &TableKey) -> bool {
        self.postponed
            .iter()
            .any(|one| one.table.as_ref() == Some(key))
    }
}
