//! Barriers: statements that run only after everything before them is finished.

use std::sync::Arc;
use std::time::{Duration, Instant};

use refloat_run::progress::Phase;
use refloat_sqltext::{Item, ItemKind, StatementKind};
use refloat_wire::codes::NO_SUCH_TABLE;

use super::Conductor;
use super::catalog::Catalog;
use super::dialogue::Dialogue;
use super::entry::Print;
use super::here::Here;
use super::ledger::Ledger;
use super::name::TableKey;
use super::place::Place;
use super::proof::{count_rows, wrong_count};
use super::resume::{Step, is_change_of_table, may_bring_rows};
use super::statements::may_define;
use super::tables::MERGE_OF_NONE;
use crate::error::LoadError;
use crate::table::Table;

/// How many tables to count in all because of statements that may change any rows. Beyond this a
/// dump of many tables and many such statements would spend more time counting than loading.
const RECOUNTS_MAX: usize = 2_000;

/// If counting before a statement and running it took less than this, it is marked done only after
/// the recount, which takes no longer.
const A_MOMENT: Duration = Duration::from_millis(50);

/// The tables that a statement may change whose effects are not tracked.
pub struct Counted {
    tables: Vec<Arc<Table>>,
    /// Whether their numbers of rows are known. Not if there are too many tables to count, or if an
    /// earlier process ran the statement.
    countable: bool,
}

impl Counted {
    /// Accepts the counts that an earlier process recorded.
    fn take(&self, step: &Step) {
        for table in &self.tables {
            let known = step
                .counts
                .iter()
                .find(|(db, name, _)| *db == table.db && *name == table.name);
            match known {
                Some((_, _, count)) => table.rebase(*count),
                None => table.note_uncounted(),
            }
        }
    }
}

impl Conductor<'_> {
    /// Runs a statement that may depend on anything before it, or that anything after it may depend
    /// on.
    pub(super) fn barrier(&mut self, place: &mut Place, here: Here<'_>) -> Result<(), LoadError> {
        self.settle(place)?;
        let session_only = matches!(here.item.kind, ItemKind::Statement(StatementKind::Set))
            && memchr::memmem::find(&here.text.to_ascii_uppercase(), b"STATEMENT").is_none();
        if session_only {
            self.run_statement(here, None, &[])?;
            return self.after_alone(place, here.item);
        }
        // Statements that may run twice need no mark.
        let repeatable = matches!(
            here.item.kind,
            ItemKind::Statement(
                StatementKind::Select | StatementKind::Maintenance | StatementKind::SetGlobal
            )
        );
        if repeatable {
            self.dialogue.session = None;
            self.execute(here, None)?;
            return self.after_alone(place, here.item);
        }
        if let Some(step) = self
            .resume
            .passed(&mut self.catalog, &mut self.dialogue, here)?
        {
            if let Some(account) = step.left_account {
                self.findings
                    .leave_account(&self.catalog, account, None, here.item.line);
            }
            return self.after_alone(place, here.item);
        }
        self.run_alone(place, here, None)
    }

    /// [`Conductor::barrier`] for a statement that may change rows of one table or of any, and
    /// definitions too. Rows are counted before and after it.
    pub(super) fn barrier_counted(
        &mut self,
        place: &mut Place,
        only: Option<&TableKey>,
        here: Here<'_>,
    ) -> Result<(), LoadError> {
        self.settle(place)?;
        let passed = self
            .resume
            .passed(&mut self.catalog, &mut self.dialogue, here)?;
        let begun = Instant::now();
        let stays_empty = only.is_some_and(|table| self.ledger.stays_empty(table, here));
        let counted = if passed.is_some() || self.resume.in_past() {
            Counted {
                tables: self.ledger.tables_of(only),
                countable: false,
            }
        } else if stays_empty {
            Counted {
                tables: self.ledger.tables_of(only),
                countable: true,
            }
        } else {
            self.catalog.count_before(&mut self.ledger, only)?
        };
        match &passed {
            Some(_) => self.after_alone(place, here.item)?,
            // Mark it done at once, and again with the counts, unless counting takes only a moment.
            None => self.run_alone(place, here, only.map(|_| begun))?,
        }
        if only.is_none() {
            // Its effects on views and programs are unknown.
            self.ledger.created.clear();
        }
        self.look_again(only)?;
        if let Some(step) = passed {
            counted.take(&step);
            self.ledger.note_unchecked(only);
            return Ok(());
        }
        if !stays_empty {
            self.catalog.count_after(&self.ledger, &counted)?;
        }
        self.ledger.note_unchecked(only);
        let step = self.ledger.counts_of(&counted);
        self.resume
            .finished(&mut self.catalog, &mut self.dialogue, here, step)
    }

    /// Runs a statement by itself. If it was `begun` only a moment ago, marking it done is left to
    /// the caller.
    fn run_alone(
        &mut self,
        place: &mut Place,
        here: Here<'_>,
        begun: Option<Instant>,
    ) -> Result<(), LoadError> {
        self.ctx.phases.enter(Phase::Data);
        if self.resume.in_past() {
            // It comes before a statement that is done: an earlier process ran it here, or it was
            // never run.
            return self.after_alone(place, here.item);
        }
        self.resume
            .about_to_run(&mut self.catalog, &mut self.dialogue, here)?;
        let left = self.findings.accounts_left.len();
        self.execute(here, None)?;
        if matches!(&here.item.kind, ItemKind::Statement(kind) if may_define(kind)) {
            self.resume.note_defined();
        }
        let step = Step {
            left_account: self.findings.accounts_left.get(left).cloned(),
            ..Step::default()
        };
        if begun.is_none_or(|begun| begun.elapsed() > A_MOMENT) {
            self.resume
                .finished(&mut self.catalog, &mut self.dialogue, here, step)?;
        }
        self.after_alone(place, here.item)
    }

    /// What must be done after a statement whose effects are not tracked.
    fn after_alone(&mut self, place: &mut Place, item: &Item) -> Result<(), LoadError> {
        if !is_change_of_table(&item.kind) {
            self.dialogue.session = None;
        }
        // It may have changed any table: columns are read again before more rows arrive.
        for entry in &mut self.ledger.entries {
            entry.table.set_layout(None);
            entry.shown = None;
            entry.foreign_keys = None;
            entry.is_referred_to = None;
        }
        place.last_header = None;
        self.dialogue.session().map(drop)
    }

    /// Accepts the current definitions after the dump itself changed that of `only`, or of any
    /// table. A table that no longer exists drops out of the proof.
    pub(super) fn look_again(&mut self, only: Option<&TableKey>) -> Result<(), LoadError> {
        let indexes = match only {
            Some(key) => self.ledger.known(key).into_iter().collect(),
            None => (0..self.ledger.entries.len()).collect::<Vec<_>>(),
        };
        for index in indexes {
            if self.ledger.entries[index].dropped {
                continue;
            }
            let table = Arc::clone(&self.ledger.entries[index].table);
            self.ledger.entries[index].shown = None;
            match self.catalog.show_as_is(&table) {
                Ok(shown) if self.ledger.entries[index].definition.is_some() => {
                    self.ledger.entries[index].definition = Some(Print::shown(&shown));
                }
                Ok(_) => {}
                Err(LoadError::Server { source, .. })
                    if source.server_code() == Some(MERGE_OF_NONE) => {}
                // ER_NO_SUCH_TABLE: it has another name now.
                Err(LoadError::Server { source, .. })
                    if source.server_code() == Some(NO_SUCH_TABLE) =>
                {
                    self.forget(&(table.db.clone(), table.name.clone()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Finishes everything the dump has asked for so far: rows, indexes, foreign keys, triggers,
    /// events.
    pub(super) fn settle(&mut self, place: &mut Place) -> Result<(), LoadError> {
        self.finish_current(place)?;
        self.queue.wait_rows()?;
        self.ledger.show_loaded(&self.ctx.events);
        self.finish_builds()?;
        self.dialogue
            .enable_keys(&mut self.ledger, self.resume.in_past())?;
        self.run_postponed()
    }
}

impl Ledger {
    /// Whether a statement changes a table of this load that has no rows yet, and adds none.
    pub fn stays_empty(&self, table: &TableKey, here: Here<'_>) -> bool {
        let Some(index) = self.known(table) else {
            return false;
        };
        let entry = &self.entries[index];
        let has_none = entry.table.created
            && entry.text_bytes == 0
            && entry.table.expected() == 0
            && !entry.table.is_uncounted();
        has_none && is_change_of_table(&here.item.kind) && !may_bring_rows(here.text)
    }

    /// The counts to record in the mark.
    pub fn counts_of(&self, counted: &Counted) -> Step {
        let tables = counted.tables.iter().filter(|table| {
            let key = (table.db.clone(), table.name.clone());
            counted.countable && self.known(&key) == Some(table.id)
        });
        Step {
            counts: tables
                .map(|table| (table.db.clone(), table.name.clone(), table.expected()))
                .collect(),
            ..Step::default()
        }
    }
}

impl Catalog {
    /// Compares the rows of `only`, or of all tables, with what was sent, before a statement whose
    /// effects are not tracked.
    pub fn count_before(
        &mut self,
        ledger: &mut Ledger,
        only: Option<&TableKey>,
    ) -> Result<Counted, LoadError> {
        let tables = ledger.tables_of(only);
        if only.is_none() {
            ledger.recounted += tables.len();
        }
        let countable = only.is_some() || ledger.recounted <= RECOUNTS_MAX;
        // MERGE and similar engines show rows of other tables, which may not be available.
        for table in tables
            .iter()
            .filter(|table| countable && !table.is_elsewhere())
        {
            let count = count_rows(&mut self.conn, table)?;
            if !table.counts(count) {
                self.ctx.differ(wrong_count(table, count));
            }
        }
        Ok(Counted { tables, countable })
    }

    /// Accepts the current row counts as correct.
    pub fn count_after(&mut self, ledger: &Ledger, counted: &Counted) -> Result<(), LoadError> {
        for table in counted.tables.iter().filter(|table| !table.is_elsewhere()) {
            if !counted.countable {
                table.note_uncounted();
            } else if ledger.known(&(table.db.clone(), table.name.clone())) == Some(table.id) {
                let count = count_rows(&mut self.conn, table)?;
                table.rebase(count);
            }
        }
        Ok(())
    }
}

impl Dialogue {
    /// A dump that disabled keys and never enabled them (it may have been cut) must not leave them
    /// disabled.
    pub fn enable_keys(&mut self, ledger: &mut Ledger, in_past: bool) -> Result<(), LoadError> {
        for index in 0..ledger.entries.len() {
            if std::mem::take(&mut ledger.entries[index].keys_disabled)
                && !ledger.entries[index].dropped
                && !in_past
            {
                let table = Arc::clone(&ledger.entries[index].table);
                self.control
                    .exec(format!("ALTER TABLE {} ENABLE KEYS", table.quoted()))
                    .map_err(|error| {
                        LoadError::server(
                            format!("enabling the keys of table {}", table.label()),
                            error,
                        )
                    })?;
            }
        }
        Ok(())
    }
}
