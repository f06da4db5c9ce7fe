//! Creates and drops views, routines, sequences, triggers and events.

use std::sync::Arc;

use refloat_schema::pattern::is_system_database;
use refloat_sqltext::ObjectName;

use super::Conductor;
use super::here::Here;
use super::name::{TableKey, quoted_name};
use super::place::Place;
use super::postponed::Postponed;
use super::registry::Touch;
use crate::error::LoadError;
use crate::options::ExistingPolicy;
use crate::programs::{Created, Kind, TriggerFor};

impl Conductor<'_> {
    /// Runs a statement about a view, routine or sequence. It needs the definitions before it, but
    /// not the rows. Returns whether it ran.
    fn define(
        &mut self,
        kind: Option<Kind>,
        creates: bool,
        key: &TableKey,
        here: Here<'_>,
    ) -> Result<bool, LoadError> {
        self.touch(&key.0, Touch::Define)?;
        if kind.is_some_and(|kind| self.ledger.keeps(kind, key)) {
            self.findings.keep(here);
            return Ok(false);
        }
        if let Some(kind) = kind.filter(|_| creates && !self.resume.in_past()) {
            self.replace_program(kind, key)?;
            self.remove_leftover(kind, key)?;
        }
        let ok = self.execute(here, Some(key))?;
        Ok(ok.is_some())
    }

    /// With `--replace`, drops the existing view, routine or event that the dump's own replaces.
    pub(super) fn replace_program(&mut self, kind: Kind, key: &TableKey) -> Result<(), LoadError> {
        let replaces = self.ctx.options.existing == ExistingPolicy::Replace
            && !matches!(kind, Kind::Sequence | Kind::Trigger)
            && !is_system_database(&key.0);
        if !replaces || !self.ledger.existed_program(kind, key) {
            return Ok(());
        }
        let quoted = quoted_name(key);
        // Use the catalogue connection: the dump's session may read names in another character set.
        self.catalog
            .conn
            .exec(format!("DROP {kind} IF EXISTS {quoted}"))
            .map_err(|error| {
                LoadError::server(format!("dropping {kind} {}.{}", key.0, key.1), error)
            })?;
        self.findings.touched = true;
        if kind == Kind::View {
            self.forget(key);
        }
        self.ledger.forget_program(kind, key);
        Ok(())
    }

    /// Creates something that needs no rows. `kind` is `None` for what the catalogue does not list.
    pub(super) fn create(
        &mut self,
        place: &mut Place,
        kind: Option<Kind>,
        name: &ObjectName,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(name)?;
        if kind != Some(Kind::Sequence)
            && self.dialogue.refused_settings.keep_out(here, &self.ctx)?
        {
            return Ok(());
        }
        if matches!(kind, Some(Kind::View | Kind::Sequence)) {
            self.ledger.case_folding.note_name(&key)?;
        }
        if self.define(kind, true, &key, here)?
            && let Some(kind) = kind
        {
            self.look_at_view_again(place, &key);
            self.ledger.created.push(created(kind, &key));
        }
        Ok(())
    }

    pub(super) fn drop_routine(
        &mut self,
        kind: Option<Kind>,
        name: &ObjectName,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(name)?;
        if self.define(kind, false, &key, here)?
            && let Some(kind) = kind
        {
            self.ledger.forget_program(kind, &key);
            self.ledger.forget_created(kind, &key);
        }
        Ok(())
    }

    pub(super) fn drop_views(
        &mut self,
        views: &[ObjectName],
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let mut keys = Vec::with_capacity(views.len());
        for view in views {
            let key = self.dialogue.resolve(view)?;
            if !self.wanted(&key) || self.ctx.options.skips(&key.0)? {
                continue;
            }
            self.ledger.case_folding.refuse_same_name(&key)?;
            self.touch(&key.0, Touch::Define)?;
            if self.ledger.keeps(Kind::View, &key) {
                self.findings.keep(here);
                return Ok(());
            }
            keys.push(key);
        }
        let statement = chosen_only("VIEW", views, &keys).unwrap_or_else(|| here.text.to_vec());
        if keys.is_empty() || self.execute(here.with(&statement), keys.first())?.is_none() {
            return Ok(());
        }
        for key in &keys {
            self.ledger.forget_created(Kind::View, key);
            // A table of this name is not a view, and still exists.
            if self.ledger.known(key).is_none() || self.ledger.is_known_view(key) {
                self.forget(key);
            }
        }
        Ok(())
    }

    /// Postpones a trigger or event until the rows are in: they must not fire it.
    pub(super) fn postpone(
        &mut self,
        (kind, name): (Kind, &ObjectName),
        table: Option<TableKey>,
        creates: bool,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        // A dropped trigger goes with its table. Where that is not known, only the choice of the
        // whole database includes it.
        let wanted = if let Some(key) = &table {
            self.wanted(key)
        } else {
            let key = self.dialogue.resolve(name)?;
            self.choice.has_all_of(&key.0)
        };
        if !wanted {
            return Ok(());
        }
        let session = self.dialogue.session()?;
        if let Some(database) = &session.database {
            self.touch(database, Touch::Define)?;
        }
        let key = self.dialogue.resolve(name)?;
        if self.ledger.keeps(kind, &key) {
            self.findings.keep(here);
        } else if !creates || !self.dialogue.refused_settings.keep_out(here, &self.ctx)? {
            let collation = self
                .catalog
                .altered_collation(&self.ledger, session.database.as_deref())?;
            let mut object = created(kind, &key);
            if creates && kind == Kind::Trigger {
                object.trigger = TriggerFor::parse(here.text, session.lex_mode());
            }
            let text = self.dialogue.map_collations(here.text)?;
            self.deferred.postponed.push(Postponed {
                file: Arc::clone(here.file),
                session,
                text: text.into_owned(),
                line: here.item.line,
                offset: here.item.offset,
                table,
                creates,
                object,
                collation,
            });
        }
        Ok(())
    }
}

/// A `DROP` of only those of `named` that are chosen. `None` if all are.
pub(super) fn chosen_only(
    what: &str,
    named: &[ObjectName],
    chosen: &[TableKey],
) -> Option<Vec<u8>> {
    let quoted: Vec<String> = chosen.iter().map(quoted_name).collect();
    (chosen.len() < named.len())
        .then(|| format!("DROP {what} IF EXISTS {}", quoted.join(", ")).into_bytes())
}

fn created(kind: Kind, key: &TableKey) -> Created {
    Created {
        kind,
        database: key.0.clone(),
        name: key.1.clone(),
        trigger: None,
    }
}
