//! A writer's connection, and the dump's session on it.

use std::sync::Arc;

use refloat_sqltext::quote_ident;
use refloat_wire::{Connection, Vendor};

use super::chunk::{Chunk, Piece};
use super::context::Context;
use super::error::LoadError;
use super::session::Session;
use super::writer::Attempt;

/// A connection for writing rows and running tasks, with its buffers.
pub struct Link {
    pub conn: Connection,
    /// State shared by all threads of the load.
    pub ctx: Arc<Context>,
    session: Option<Arc<Session>>,
    /// The last state that it was given, even if a task has changed it since.
    entered: Option<Arc<Session>>,
    /// See [`Self::warnings_kept`].
    warnings_kept: Option<u64>,
    generation: u64,
    /// Text on its way to the server.
    pub text: Vec<u8>,
    /// Row text read from the dump's file.
    pub buffer: Vec<u8>,
    /// Delimited rows, converted to tuples.
    pub tuples: Vec<u8>,
    /// Which of the load's connections this is; selects its lock.
    slot: usize,
}

impl Link {
    /// Connects, with a session that inherits nothing.
    pub fn connect(ctx: &Arc<Context>) -> Result<Self, LoadError> {
        let slot = ctx.next_slot();
        let conn = Self::open(ctx, slot)?;
        Ok(Self {
            conn,
            ctx: Arc::clone(ctx),
            session: None,
            entered: None,
            warnings_kept: None,
            generation: 0,
            text: Vec::new(),
            buffer: Vec::new(),
            tuples: Vec::new(),
            slot,
        })
    }

    fn open(ctx: &Arc<Context>, slot: usize) -> Result<Connection, LoadError> {
        let mut conn = ctx.connect("a writer")?;
        ctx.hold(&mut conn, slot)?;
        if conn.server().vendor == Vendor::MySql {
            // Instrumenting every page access of this session costs the server more than reading
            // the rows does. An account that may not switch it off loses nothing else.
            let _ = conn.exec("UPDATE performance_schema.threads SET INSTRUMENTED = 'NO', HISTORY = 'NO' WHERE PROCESSLIST_ID = CONNECTION_ID()");
        }
        Ok(conn)
    }

    /// Connects again in place of a connection that was lost. Once the new one holds the old one's
    /// lock, the server has finished everything it was doing for the old one.
    pub fn reopen(&mut self) -> Result<(), LoadError> {
        self.conn = Self::open(&self.ctx, self.slot)?;
        self.session = None;
        self.entered = None;
        self.generation += 1;
        Ok(())
    }

    /// Gives the connection the dump's session state at these rows, with a writer's strictness.
    pub fn enter(&mut self, session: &Arc<Session>) -> Result<(), refloat_wire::Error> {
        if self
            .session
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, session) || **current == **session)
        {
            return Ok(());
        }
        // Rows of an earlier place may follow those of a later one.
        let left = self.entered.take().and_then(|last| session.reset_of(&last));
        if let Some(reset) = left {
            self.conn.exec(reset)?;
        }
        self.conn.exec(session.writer_set())?;
        // With unique_checks=0 the server may skip its check of secondary unique keys and let
        // duplicates in.
        self.conn.exec("SET SESSION unique_checks = 1")?;
        if let Some(database) = &session.database {
            if self.ctx.cluster.is_some() && self.ctx.options.galera.through_proxy {
                // USE does not wait for what another node has created; a query does.
                self.conn.query("SELECT 1")?;
            }
            self.conn.exec(format!("USE {}", quote_ident(database)))?;
        }
        self.session = Some(Arc::clone(session));
        self.entered = Some(Arc::clone(session));
        self.generation += 1;
        Ok(())
    }

    /// Lifts a writer's strictness for the session of a chunk, until [`Self::strict_again`]. The
    /// chunk's transaction stays open meanwhile.
    pub fn lenient(&mut self, session: &Session) -> Result<(), refloat_wire::Error> {
        // Even if this fails, the session is no longer a writer's.
        self.leave_session();
        self.conn.exec(session.lenient_set()).map(drop)
    }

    /// Restores the strictness that [`Self::lenient`] lifted.
    pub fn strict_again(&mut self, session: &Arc<Session>) -> Result<(), refloat_wire::Error> {
        self.conn.exec(session.strict_set())?;
        self.session = Some(Arc::clone(session));
        Ok(())
    }

    /// How many warnings of a statement the server keeps for this connection. On MySQL an account
    /// needs a privilege to have more than usual.
    pub fn warnings_kept(&mut self) -> Result<u64, refloat_wire::Error> {
        if let Some(kept) = self.warnings_kept {
            return Ok(kept);
        }
        let kept = self.conn.query_value("SELECT @@SESSION.max_error_count")?;
        let kept = kept.and_then(|kept| kept.parse().ok()).unwrap_or(0);
        self.warnings_kept = Some(kept);
        Ok(kept)
    }

    /// Forgets the session state, because a task is about to change it.
    pub fn leave_session(&mut self) {
        self.session = None;
    }

    /// Increases with every change of the session: statements prepared under an older generation
    /// are not reused.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The text of a piece; that of a plain file is read into `buffer`.
    pub fn read_piece<'a>(piece: &'a Piece, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Attempt> {
        piece.text(buffer).map_err(|source| Attempt::Source {
            file: piece.source.to_string(),
            offset: piece.offset,
            source,
        })
    }

    /// Rolls back what was written of a chunk.
    pub fn rollback(&mut self, chunk: &Chunk) -> Result<(), LoadError> {
        self.conn.exec("ROLLBACK").map(drop).map_err(|error| {
            LoadError::server(
                format!("rolling back rows of table {}", chunk.table.label()),
                error,
            )
        })
    }
}
