//! Work of a load that is not rows, done on a writer's connection.

use super::error::LoadError;
use super::worker::Worker;

/// What a worker does with its connection besides writing rows.
pub type Job = Box<dyn FnOnce(&mut Worker) -> Result<(), LoadError> + Send>;

/// What a piece of work belongs to: the id of a table, or [`TASKS`].
pub type Key = usize;

/// The key of tasks that belong to no table.
pub const TASKS: Key = usize::MAX;

/// Work that is not rows: an index build, a check.
pub struct Task {
    /// The table that it belongs to, or [`TASKS`].
    pub key: Key,
    /// Bytes that it sorts in the server's temporary folder; tasks run together only within the
    /// budget.
    pub sorts: u64,
    /// Whether rows of the table are not in before it has run.
    pub brings_rows: bool,
    /// The function to run.
    pub job: Job,
}
