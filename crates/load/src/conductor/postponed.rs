//! Triggers and events, which run after the rows: rows must not fire them.

use std::collections::BTreeMap;
use std::sync::Arc;

use refloat_run::Events;
use refloat_run::progress::Phase;
use refloat_sqltext::head;
use refloat_wire::Connection;

use super::Conductor;
use super::databases::default_collation;
use super::ledger::Ledger;
use super::name::TableKey;
use super::statements::judge_definition;
use crate::error::LoadError;
use crate::outcome::StatementFailure;
use crate::programs::{Created, Kind};
use crate::session::Session;

/// `ER_EVENT_EXEC_TIME_IN_THE_PAST`, `ER_EVENT_CANNOT_CREATE_IN_THE_PAST`: the server drops such an
/// event at once.
const EVENT_IS_OVER: &[u16] = &[1544, 1588];

/// A definition that runs after the rows, with the session state at its place in the dump.
pub struct Postponed {
    /// Where the statement comes from, for messages.
    pub file: Arc<str>,
    pub session: Arc<Session>,
    pub text: Vec<u8>,
    pub line: u64,
    pub offset: u64,
    /// The trigger's table. `None` for events, and for a dropped trigger whose table is unknown.
    pub table: Option<TableKey>,
    /// Whether it creates the object, which the proof then looks for, or drops it.
    pub creates: bool,
    pub object: Created,
    /// The collation of its database at this place of the dump, if the dump changes it.
    pub collation: Option<String>,
}

/// Database collations changed so that stored programs are created under the collation that the
/// dump had at that place: a trigger or event keeps the one its database had when it was created.
#[derive(Default)]
struct Collations {
    /// By database: the collation to restore, and the current one.
    changed: BTreeMap<String, (String, String)>,
}

impl Collations {
    fn set(
        &mut self,
        conn: &mut Connection,
        database: &str,
        wanted: &str,
    ) -> Result<(), LoadError> {
        let now = match self.changed.get(database) {
            Some((_, now)) => Some(now.clone()),
            None => default_collation(conn, database)?,
        };
        let Some(now) = now.filter(|now| now != wanted) else {
            return Ok(());
        };
        alter(conn, database, wanted)?;
        let entry = self
            .changed
            .entry(database.to_owned())
            .or_insert((now, String::new()));
        wanted.clone_into(&mut entry.1);
        Ok(())
    }

    fn restore(self, conn: &mut Connection) -> Result<(), LoadError> {
        for (database, (original, now)) in self.changed {
            if original != now {
                alter(conn, &database, &original)?;
            }
        }
        Ok(())
    }
}

pub(super) fn alter(
    conn: &mut Connection,
    database: &str,
    collation: &str,
) -> Result<(), LoadError> {
    let name = refloat_sqltext::quote_ident(database);
    conn.exec(format!("ALTER DATABASE {name} COLLATE {collation}"))
        .map(drop)
        .map_err(|error| {
            LoadError::server(
                format!("changing the collation of database {database}"),
                error,
            )
        })
}

impl Conductor<'_> {
    /// Runs the postponed definitions, each in the session state of its place in the dump.
    pub(super) fn run_postponed(&mut self) -> Result<(), LoadError> {
        if self.resume.in_past() {
            for one in std::mem::take(&mut self.deferred.postponed) {
                self.ledger.note_program(one, &[], &self.ctx.events);
            }
        }
        if self.deferred.postponed.is_empty() {
            return Ok(());
        }
        self.ctx.phases.enter(Phase::Programs);
        let mut conn = self.ctx.connect("for triggers and events")?;
        let _kill = self.ctx.kill_on_cancel(&conn);
        let mut collations = Collations::default();
        let result = self.run_each(&mut conn, &mut collations);
        let restored = collations.restore(&mut conn);
        result.and(restored)
    }

    fn run_each(
        &mut self,
        conn: &mut Connection,
        collations: &mut Collations,
    ) -> Result<(), LoadError> {
        let server =
            |error| LoadError::server("preparing the session for triggers and events", error);
        let mut current = None;
        for one in std::mem::take(&mut self.deferred.postponed) {
            self.ctx.check_cancel()?;
            if current
                .as_ref()
                .is_none_or(|current| !Arc::ptr_eq(current, &one.session))
            {
                // First: it sets `character_set_database`, which the session may set otherwise.
                if let Some(database) = &one.session.database {
                    conn.exec(format!("USE {}", refloat_sqltext::quote_ident(database)))
                        .map_err(server)?;
                }
                conn.exec(one.session.exact_set()).map_err(server)?;
                current = Some(Arc::clone(&one.session));
            }
            if let (Some(database), Some(collation)) = (&one.session.database, &one.collation) {
                collations.set(conn, database, collation)?;
            }
            if one.creates {
                let key = (one.object.database.clone(), one.object.name.clone());
                self.replace_program(one.object.kind, &key)?;
                self.remove_leftover(one.object.kind, &key)?;
            }
            self.findings.statements += 1;
            match conn.exec(&one.text) {
                Ok(ok) => {
                    self.findings.touched = true;
                    let codes = judge_definition(&self.ctx, conn, &ok, (one.line, &one.text), &[])?;
                    self.ledger.note_program(one, &codes, &self.ctx.events);
                }
                Err(_) if self.ctx.cancel.is_cancelled() => return Err(self.ctx.interrupted()),
                Err(error)
                    if error.server_code().is_some()
                        && (one.creates || !error.is_lost_connection()) =>
                {
                    self.ctx.fail(StatementFailure {
                        file: one.file.to_string(),
                        line: one.line,
                        offset: one.offset,
                        head: head(&one.text),
                        code: error.server_code().unwrap_or(0),
                        message: error.to_string(),
                        table: one.table.as_ref().map(|key| format!("{}.{}", key.0, key.1)),
                        ..StatementFailure::default()
                    })?;
                }
                Err(error) => {
                    return Err(LoadError::server(
                        format!("line {}: running {}", one.line, head(&one.text)),
                        error,
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Ledger {
    /// Keeps track of a trigger or event that was created or dropped with these warnings.
    pub fn note_program(&mut self, one: Postponed, warnings: &[u16], events: &Events) {
        let key = (one.object.database.clone(), one.object.name.clone());
        if !one.creates {
            self.forget_created(one.object.kind, &key);
            if one.object.kind == Kind::Trigger {
                self.forget_trigger(&key);
            }
        } else if warnings.iter().any(|code| EVENT_IS_OVER.contains(code)) {
            events.note(format!(
                "event {}.{} has expired, and the server does not keep expired events",
                key.0, key.1
            ));
        } else {
            self.created.push(one.object);
            if let Some(table) = one.table {
                self.note_trigger(table, key.1);
            }
        }
    }
}
