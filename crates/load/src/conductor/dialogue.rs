//! The dump's own session: the connection that its statements run on, and what is known about its
//! state.

use std::sync::Arc;

use refloat_run::Refusal;
use refloat_schema::definition::{ServerVersion, is_ignored_by};
use refloat_sqltext::{LexMode, ObjectName, quote_ident};
use refloat_wire::Connection;

use super::name::TableKey;
use super::refused_settings::RefusedSettings;
use crate::collation::mapped;
use crate::context::Context;
use crate::error::LoadError;
use crate::session::{Session, Tracker};

/// The dump's own session.
pub struct Dialogue {
    pub ctx: Arc<Context>,
    /// Runs the dump's statements unchanged.
    pub control: Connection,
    /// Follows the variables that the dump sets.
    pub tracker: Tracker,
    /// The state, unless a statement may have changed it since it was read.
    pub session: Option<Arc<Session>>,
    /// The state when it was read last.
    latest: Option<Arc<Session>>,
    /// Rows must run here, because the state of this very connection decides their values.
    pub control_only: bool,
    /// Settings that the server refused.
    pub refused_settings: RefusedSettings,
    /// The current database, if `--tables` selects nothing in it and it does not exist.
    pub unchosen: Option<String>,
    /// The database of `--database`, until the first statement that may need it.
    pub pending_database: Option<String>,
}

impl Dialogue {
    /// A session that has not begun.
    pub fn new(ctx: &Arc<Context>, control: Connection, tracker: Tracker) -> Self {
        Self {
            ctx: Arc::clone(ctx),
            control,
            tracker,
            session: None,
            latest: None,
            control_only: false,
            refused_settings: RefusedSettings::default(),
            unchosen: None,
            pending_database: ctx.options.database.clone(),
        }
    }

    /// The current state, read again after a statement that may have changed it.
    pub fn session(&mut self) -> Result<Arc<Session>, LoadError> {
        if let Some(session) = &self.session {
            return Ok(Arc::clone(session));
        }
        let mut read = self
            .tracker
            .read(&mut self.control, self.ctx.binlog_off)
            .map_err(|error| LoadError::server("reading the state of the session", error))?;
        if let Some(name) = &self.unchosen {
            read.database = Some(name.clone());
        }
        // Equal states share one identity, so chunks before and after a `SET` that changed nothing
        // can be merged.
        let session = match self.latest.take().filter(|latest| **latest == read) {
            Some(latest) => latest,
            None => Arc::new(read),
        };
        self.latest = Some(Arc::clone(&session));
        self.session = Some(Arc::clone(&session));
        Ok(session)
    }

    /// How the next statement is lexed, if the state is known.
    pub fn lex_mode(&self) -> Option<LexMode> {
        let session = self.session.as_ref()?;
        Some(self.refused_settings.mode_or(session.lex_mode()))
    }

    /// Puts the session into this state.
    pub fn resume(&mut self, wanted: &Arc<Session>) -> Result<(), LoadError> {
        self.enter(wanted)?;
        self.session().map(drop)
    }

    fn enter(&mut self, wanted: &Arc<Session>) -> Result<(), LoadError> {
        if self
            .session
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, wanted) || **now == **wanted)
        {
            return Ok(());
        }
        let failed = |error| LoadError::server("preparing the session of a file", error);
        if let Some(reset) = self.tracker.reset(wanted) {
            // Variables without a default keep their value.
            let _ = self.control.exec(reset);
        }
        // First: it sets `character_set_database`, which the session may have set otherwise.
        if let Some(database) = wanted.database.as_ref()
            && !self.ctx.options.leaves_out(database)
        {
            self.control
                .exec(format!("USE {}", quote_ident(database)))
                .map_err(failed)?;
        }
        self.control.exec(wanted.exact_set()).map_err(failed)?;
        self.session = None;
        Ok(())
    }

    /// Undoes a dump's `SET` that would affect the loader's own queries.
    pub fn keep_own(&mut self, name: &str) -> Result<(), LoadError> {
        let Some(set) = Tracker::kept(name) else {
            return Ok(());
        };
        match self.control.exec(set) {
            // MySQL requires a privilege for some of these variables.
            Err(error) if error.server_code().is_none() => {
                Err(LoadError::server("setting a variable", error))
            }
            _ => Ok(()),
        }
    }

    /// The database and name that `name` refers to at this place of the dump.
    pub fn resolve(&mut self, name: &ObjectName) -> Result<TableKey, LoadError> {
        let table = String::from_utf8_lossy(&name.name).into_owned();
        if let Some(database) = &name.database {
            return Ok((String::from_utf8_lossy(database).into_owned(), table));
        }
        match &self.session()?.database {
            Some(database) => Ok((database.clone(), table)),
            None => Err(LoadError::Refused(vec![Refusal {
                reason: format!("the dump names no database for table {table}"),
                hint: "Say where it goes with --database, or put the database into the URL."
                    .to_owned(),
            }])),
        }
    }

    /// The statement with collations replaced as the user asked.
    pub fn map_collations<'t>(
        &mut self,
        text: &'t [u8],
    ) -> Result<std::borrow::Cow<'t, [u8]>, LoadError> {
        if self.ctx.options.map_collation.is_empty() {
            return Ok(std::borrow::Cow::Borrowed(text));
        }
        let mode = self.session()?.lex_mode();
        Ok(mapped(&self.ctx.options, text, mode))
    }

    /// Whether a statement is in a conditional comment for another vendor or version, which this
    /// server ignores.
    pub fn is_for_others(&mut self, text: &[u8], server: ServerVersion) -> Result<bool, LoadError> {
        Ok(is_ignored_by(server, text, self.session()?.lex_mode()))
    }
}
