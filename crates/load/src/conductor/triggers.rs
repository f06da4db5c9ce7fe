//! Triggers between rows: each row fires the triggers that exist at its place in the dump, and no
//! others.
//!
//! A `CREATE TRIGGER` waits until the rows are in, and so does a `DROP TRIGGER`. Both run earlier
//! if more rows of their table follow. A drop does not name the table of its trigger. For triggers
//! that the dump created the table is known; for others the server is asked.

use refloat_sqltext::{LexMode, ObjectName};

use super::Conductor;
use super::catalog::Catalog;
use super::deferred::Deferred;
use super::here::Here;
use super::ledger::Ledger;
use super::name::{TableKey, quoted_name};
use super::place::Place;
use super::postponed::Postponed;
use crate::error::LoadError;
use crate::programs::{Kind, TriggerFor};

/// `ER_TRG_DOES_NOT_EXIST`, `ER_BAD_DB_ERROR`.
const NO_TRIGGER: &[u16] = &[1360, 1049];

/// Which table a dropped trigger belongs to.
pub enum Whose {
    /// There is no such trigger: dump tools drop what they are about to create.
    Nobodys,
    /// It belongs to this table.
    Of(TableKey),
    /// It exists, but the server does not say which table it belongs to.
    Unknown,
}

impl Conductor<'_> {
    /// Postpones the drop of a trigger until rows of its table follow, or all rows are in.
    pub(super) fn drop_trigger(
        &mut self,
        place: &mut Place,
        trigger: &ObjectName,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        let key = self.dialogue.resolve(trigger)?;
        let (table, at_once) = match self.deferred.whose(&self.ledger, &mut self.catalog, &key)? {
            Whose::Nobodys => (None, false),
            Whose::Of(table) => (Some(table), false),
            Whose::Unknown => (None, true),
        };
        self.postpone((Kind::Trigger, trigger), table, false, here)?;
        if at_once {
            self.finish_current(place)?;
            self.queue.wait_rows()?;
            self.run_postponed_triggers()?;
        }
        Ok(())
    }

    /// Creates and drops the postponed triggers now, in order, because rows follow that must fire
    /// them or must not. This includes triggers of other tables, which see what a trigger writes
    /// there. Events stay postponed.
    pub(super) fn run_postponed_triggers(&mut self) -> Result<(), LoadError> {
        let of_trigger = |one: &Postponed| one.object.kind == Kind::Trigger;
        if !self.deferred.postponed.iter().any(of_trigger) {
            return Ok(());
        }
        let all = std::mem::take(&mut self.deferred.postponed);
        let (triggers, rest) = all.into_iter().partition(of_trigger);
        self.deferred.postponed = triggers;
        self.run_postponed()?;
        self.deferred.postponed = rest;
        Ok(())
    }

    /// Runs the postponed triggers that affect what rows of this table fire, once all earlier rows
    /// are in.
    pub(super) fn meet_triggers(
        &mut self,
        place: &mut Place,
        index: usize,
        key: &TableKey,
    ) -> Result<(), LoadError> {
        if !self.deferred.has_postponed_trigger(key) {
            return Ok(());
        }
        self.finish_current(place)?;
        self.queue.wait_rows()?;
        self.queue.wait_key(index)?;
        self.run_postponed_triggers()?;
        place.current = Some(index);
        Ok(())
    }
}

impl Deferred<'_> {
    /// The table of the trigger that is called `key` at this place of the dump.
    pub fn whose(
        &self,
        ledger: &Ledger,
        catalog: &mut Catalog,
        key: &TableKey,
    ) -> Result<Whose, LoadError> {
        // Trigger names may be case-insensitive. A false match only makes rows wait.
        let same =
            |database: &str, name: &str| database == key.0 && name.eq_ignore_ascii_case(&key.1);
        let waits = |one: &&Postponed| {
            let object = &one.object;
            one.creates && object.kind == Kind::Trigger && same(&object.database, &object.name)
        };
        if let Some(table) = self.postponed.iter().rev().find(waits) {
            return Ok(table.table.clone().map_or(Whose::Unknown, Whose::Of));
        }
        if let Some(table) = ledger.table_of_trigger(key) {
            return Ok(Whose::Of(table.clone()));
        }
        catalog.ask_whose(key)
    }
}

impl Catalog {
    fn ask_whose(&mut self, key: &TableKey) -> Result<Whose, LoadError> {
        // Ask by name, which costs the server nothing if there is no such trigger. Its lists open
        // every table.
        let shown = self
            .conn
            .query(format!("SHOW CREATE TRIGGER {}", quoted_name(key)));
        let result = match shown {
            Ok(result) => result,
            Err(error) if error.is_lost_connection() || error.server_code().is_none() => {
                return Err(LoadError::server(
                    format!("looking for trigger {}.{}", key.0, key.1),
                    error,
                ));
            }
            Err(error) => {
                let none = error
                    .server_code()
                    .is_some_and(|code| NO_TRIGGER.contains(&code));
                return Ok(if none { Whose::Nobodys } else { Whose::Unknown });
            }
        };
        let mode = LexMode::default().with_sql_mode(result.bytes(0, 1).unwrap_or_default());
        let parsed = TriggerFor::parse(result.bytes(0, 2).unwrap_or_default(), mode);
        Ok(parsed.map_or(Whose::Unknown, |found| {
            Whose::Of((key.0.clone(), found.table))
        }))
    }
}
