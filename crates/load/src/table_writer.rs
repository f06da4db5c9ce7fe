//! Gets the rows of one table into the server, from preparing the table to building its indexes.
//!
//! A table is created by the dump's own statement, whole. Its [`TableWriter`] is opened once the
//! table turns out to be large, takes its rows in chunks, and finishes with a task of its own.
//!
//! [`SqlWriter`] sends rows over SQL. It drops secondary indexes, and the foreign keys that hold
//! them, while the table is still empty. It builds the indexes again when the rows are in, because
//! sorting once is cheaper than inserting each row at its place. The conductor adds the foreign
//! keys once all tables have their indexes. The clauses are the server's own, from
//! `SHOW CREATE TABLE`, so the table ends exactly as it began. Some keys stay: the clustering key,
//! the key of an `AUTO_INCREMENT` column, and keys whose position would change.

use std::sync::Arc;

use refloat_run::Event;
use refloat_run::progress::TableState;
use refloat_wire::{Connection, Vendor};

use super::chunk::Chunk;
use super::context::Context;
use super::deferral::{Deferral, split};
use super::error::LoadError;
use super::link::Link;
use super::options::OnError;
use super::patience::alter;
use super::session::Session;
use super::table::{Table, TableDetail};
use super::task::Task;
use super::worker::Worker;

/// The rows that a writer has taken.
pub struct Rows {
    /// Session state of the latest ones.
    pub session: Option<Arc<Session>>,
    /// Bytes of their text.
    pub bytes: u64,
}

/// Writes the rows of a table.
///
/// A writer keeps no state about a table outside the [`Table`] and the server: an interrupted load
/// is resumed from the marks of the rows.
pub trait TableWriter: Send + Sync {
    /// Prepares a large table before its first row. A table that stays small is never opened.
    ///
    /// `create` is its definition as the server shows it.
    ///
    /// # Errors
    /// The load was cancelled, or the table cannot be prepared.
    fn open(
        &self,
        ctx: &Context,
        catalog: &mut Connection,
        table: &Arc<Table>,
        create: &str,
    ) -> Result<(), LoadError>;

    /// Writes a chunk and accounts for its rows in the [`Table`]. Several workers do this at the
    /// same time, unless the rows have to stay in order.
    ///
    /// # Errors
    /// The rows are not written, or it is unknown whether they are.
    fn take(&self, worker: &mut Worker, chunk: &Chunk) -> Result<(), LoadError>;

    /// The work that is left when all rows were taken; `None` if there is none.
    fn finish(&self, ctx: &Context, table: &Arc<Table>, rows: Rows) -> Option<Task>;
}

/// Writes rows over SQL, by any of the write paths.
pub struct SqlWriter;

impl TableWriter for SqlWriter {
    /// Drops what can be deferred: secondary indexes and foreign keys.
    fn open(
        &self,
        ctx: &Context,
        catalog: &mut Connection,
        table: &Arc<Table>,
        create: &str,
    ) -> Result<(), LoadError> {
        let keep_unique = ctx.options.on_error == OnError::Continue;
        let Some((drops, deferral)) = split(create, keep_unique, &|_| true) else {
            return Ok(());
        };
        drop_deferred(ctx, catalog, table, create, (drops, deferral))
    }

    fn take(&self, worker: &mut Worker, chunk: &Chunk) -> Result<(), LoadError> {
        worker.write(chunk)
    }

    /// The task that builds the indexes that were dropped.
    fn finish(&self, ctx: &Context, table: &Arc<Table>, rows: Rows) -> Option<Task> {
        let deferral = table.deferral().clone();
        let builds = (deferral.keys.len() + deferral.fulltext.len()) as u64;
        if builds == 0 {
            return None;
        }
        ctx.progress.plan_builds(builds, rows.bytes * builds);
        let (key, sorts, table) = (table.id, rows.bytes, Arc::clone(table));
        let job = Box::new(move |worker: &mut Worker| {
            let session = rows.session.as_deref();
            build(&mut worker.link, &table, session, &deferral, rows.bytes)
        });
        Some(Task {
            key,
            sorts,
            brings_rows: false,
            job,
        })
    }
}

/// Drops what is deferred while a table is still empty.
///
/// # Errors
/// The load was cancelled, or the connection is lost.
pub fn drop_deferred(
    ctx: &Context,
    catalog: &mut Connection,
    table: &Table,
    create: &str,
    (drops, deferral): (Vec<String>, Deferral),
) -> Result<(), LoadError> {
    let statement = format!("ALTER TABLE {} {}", table.quoted(), drops.join(", "));
    match catalog.exec(statement) {
        Ok(_) => {
            if let Some(detail) = table.detail() {
                table.describe(TableDetail {
                    definition: Some(create.to_owned()),
                    deferral: Some(deferral.clone()),
                    ..(*detail).clone()
                });
            }
            *table.deferral() = deferral;
            Ok(())
        }
        Err(_) if ctx.cancel.is_cancelled() => Err(ctx.interrupted()),
        Err(error) if error.server_code().is_some() && !error.is_lost_connection() => {
            ctx.events.note(format!(
                "table {}: indexes are built with the rows, because the server keeps them: {error}",
                table.label()
            ));
            Ok(())
        }
        Err(error) => Err(LoadError::server(
            format!("putting off the indexes of table {}", table.label()),
            error,
        )),
    }
}

/// Adds the keys of one table: all in one pass over the rows, then `FULLTEXT` keys one by one.
fn build(
    link: &mut Link,
    table: &Table,
    session: Option<&Session>,
    deferral: &Deferral,
    bytes: u64,
) -> Result<(), LoadError> {
    let ctx = Arc::clone(&link.ctx);
    let failed = |error| {
        LoadError::server(
            format!(
                "preparing the session for the indexes of table {}",
                table.label()
            ),
            error,
        )
    };
    link.leave_session();
    let set = session.map_or_else(
        || "SET SESSION foreign_key_checks = 0".to_owned(),
        Session::altering_set,
    );
    link.conn.exec(set).map_err(failed)?;
    if link.conn.server().vendor == Vendor::MySql {
        // Not every version has these; without them the build is only slower. The server allocates
        // and clears the whole buffer regardless of the table's size (1.2 GiB: 0.14 s).
        let memory = (ctx.index_memory / ctx.options.threads.max(1) as u64).min(bytes * 2);
        let threads = ctx.options.threads.clamp(1, 16);
        for set in [
            format!(
                "SET SESSION innodb_ddl_buffer_size = {}",
                memory.clamp(64 << 10, 4 << 30)
            ),
            format!("SET SESSION innodb_ddl_threads = {threads}"),
            format!("SET SESSION innodb_parallel_read_threads = {threads}"),
        ] {
            let _ = link.conn.exec(set);
        }
    }
    let _shown = ctx.progress.table(&table.label(), TableState::Indexing);
    let mut steps: Vec<(Vec<String>, u64)> = Vec::new();
    if !deferral.keys.is_empty() {
        steps.push((deferral.keys.clone(), deferral.keys.len() as u64));
    }
    steps.extend(
        deferral
            .fulltext
            .iter()
            .map(|clause| (vec![clause.clone()], 1)),
    );
    for (clauses, builds) in steps {
        let what = clauses.join(", ");
        let started = std::time::Instant::now();
        ctx.events.emit(Event::BuildStarted {
            table: table.label(),
            what: what.clone(),
        });
        let progress = ctx.progress.build(builds, bytes * builds);
        let statement = format!("ALTER TABLE {} {what}", table.quoted());
        alter(&mut link.conn, &ctx, &statement).map_err(|source| LoadError::Index {
            table: table.label(),
            what: what.clone(),
            source,
        })?;
        progress.finish();
        // What is built is no longer missing, even if a later step fails.
        let mut left = table.deferral();
        left.keys.retain(|key| !clauses.contains(key));
        left.fulltext.retain(|key| !clauses.contains(key));
        drop(left);
        table.note_built(builds);
        ctx.events.emit(Event::BuildFinished {
            table: table.label(),
            what,
            seconds: started.elapsed().as_secs_f64(),
        });
    }
    Ok(())
}
