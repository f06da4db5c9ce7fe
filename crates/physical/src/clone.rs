//! Copies a `MySQL` server by its own clone protocol: over connections alone, with no tool on its
//! machine.
//!
//! | Connection | Says | For | Here |
//! |---|---|---|---|
//! | master | INIT, or REINIT after a loss | the copy begins, or goes on from what has arrived | `session`: `share`, `agree` |
//! | workers | ATTACH, then EXECUTE | chunks of each stage | `session`: `take_part` |
//! | master | EXECUTE | chunks, what files there are, and the end of each stage | `session`: `lead`, `receive` |
//! | second | ACK | a stage has arrived over all connections (`arrivals`: `complete_stage`), or the copy is abandoned | `session`: `lead`, `attempt` |
//! | all | EXIT | everything has arrived | `session`: `share`, `take_part` |
//!
//! What arrives goes through a `task` of its connection, which makes blocks of it; `arrivals` holds
//! what all of them know: stages, files, chunks that are incomplete.

mod arrivals;
pub mod changes;
mod check;
pub(crate) mod page;
pub(crate) mod protocol;
pub(crate) mod redo;
mod session;
mod task;

use refloat_run::Run;
use refloat_wire::{ConnectOptions, Connection};

use crate::about::{About, BinlogPosition, Lsn};
use crate::clone::arrivals::Arrivals;
use crate::clone::session::Session;
use crate::clone::task::Task;
use crate::error::PhysicalError;
use crate::pace::Pacer;
use crate::server::Server;
use crate::stream::{Blocks, Files};
use crate::tool::Tool;

pub use check::{look, objections};

/// Needs `BACKUP_ADMIN`, which a copy needs anyway.
const POSITION: &str = "SELECT LOCAL->>'$.binary_log_file', LOCAL->>'$.binary_log_position', LOCAL->>'$.gtid_executed' FROM performance_schema.log_status";

/// How a server is copied.
pub struct Copying<'a> {
    pub server: &'a Server,
    pub source: &'a ConnectOptions,
    /// The plugin.
    pub tool: &'a Tool,
    /// Connections that receive files.
    pub connections: usize,
    pub pacer: Pacer,
}

impl Copying<'_> {
    /// Copies the server, and puts what it sends where blocks are taken.
    pub fn copy<W: Blocks>(
        self,
        writer: &W,
        run: &Run,
    ) -> Result<(Files<W::File>, About), PhysicalError> {
        let facts = &self.server.facts;
        let binlog_began = self.binlog_position();
        let arrivals = Arrivals::new(writer, self.server.info.version);
        let mut session = Session::new(
            (self.source, facts.identity()),
            (self.connections, self.pacer),
            &arrivals,
            run,
        );
        session.copy()?;
        let mut task = Task::new(&arrivals, 0);
        for (target, begins, bytes) in arrivals.take_last() {
            task.change(target, begins, &bytes)?;
        }
        task.flush()?;
        let (files, checkpoint) = arrivals.finish()?;
        // Only the server that starts on the copy reports where the redo log ends, and where the
        // binary log stood then.
        let lsn = Lsn {
            checkpoint,
            end: checkpoint,
        };
        let server = (facts.clone(), self.server.is_replica);
        let about = About::cloned(server, self.tool.clone(), lsn, binlog_began);
        Ok((files, about))
    }

    /// Where the binary log stands. `None`: the server has none, or does not say.
    fn binlog_position(&self) -> Option<BinlogPosition> {
        let mut conn = Connection::connect(self.source).ok()?;
        let rows = conn.query(POSITION).ok()?;
        Some(BinlogPosition {
            file: rows.str(0, 0).filter(|file| !file.is_empty())?.to_owned(),
            position: rows.u64(0, 1)?,
            gtid: rows.str(0, 2)?.split_whitespace().collect(),
        })
    }
}
