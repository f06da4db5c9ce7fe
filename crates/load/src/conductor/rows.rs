//! Rows: cut into chunks for the workers, or run on the control connection if only it knows their
//! values.

use std::ops::Range;
use std::sync::Arc;

use refloat_run::Refusal;
use refloat_schema::columns::Column;
use refloat_schema::pattern::is_system_database;
use refloat_source::blocks::Block;
use refloat_sqltext::token::{TokenKind, tokens};
use refloat_sqltext::{
    InsertHeader, InsertVerb, Item, LexMode, ObjectName, RowVisitor, RowsPiece, head, visit_rows,
};
use refloat_wire::codes::{NO_SUCH_TABLE, UNKNOWN_DATABASE};

use super::Conductor;
use super::dialogue::Dialogue;
use super::entry::Entry;
use super::here::Here;
use super::name::TableKey;
use super::place::Place;
use super::registry::Touch;
use crate::choice::Whose;
use crate::chunk::{Head, Piece};
use crate::error::LoadError;
use crate::form::Form;
use crate::galera::Replicated;
use crate::marks::Stretch;
use crate::options::WritePath;
use crate::outcome::StatementFailure;
use crate::rows::{leaves_to_server, may_leave_to_server};
use crate::session::Session;
use crate::table::Table;
use crate::verdict::Reason;
use crate::writer::Written;

/// Rows at their place in the dump.
struct RowsHere<'a> {
    /// The statement that they are in.
    statement: Here<'a>,
    session: Arc<Session>,
    header: &'a Arc<InsertHeader>,
    text: &'a [u8],
    count: u64,
    /// Whether there is more than literals among the values.
    complex: bool,
    /// Where the first of them starts.
    offset: u64,
    line: u64,
}

impl RowsHere<'_> {
    /// The error for rows that are not the ones that an earlier process found in this place.
    fn differs(&self, table: &Table) -> LoadError {
        LoadError::source_differs(self.statement.file, self.line, self.offset, table.label())
    }

    /// Whether the values of rows depend on other rows or on the session, so that only the control
    /// connection knows them.
    fn depend_on_others(&self, entry: &Entry) -> bool {
        let mode = self.session.lex_mode();
        entry.leaves_number(&self.session, self.header, self.text)
            || (self.complex && !only_converts(self.text, mode))
            || entry.leaves_unset(&self.session, self.header)
    }
}

/// The table that rows go into.
struct Destination {
    index: usize,
    /// A later statement has renamed or dropped the table.
    gone: bool,
}

/// The ways in which rows may change other tables.
struct Effects {
    triggered: bool,
    through_view: bool,
    children: bool,
}

impl Effects {
    fn any(&self) -> bool {
        self.triggered || self.through_view || self.children
    }
}

impl Conductor<'_> {
    pub(super) fn rows(
        &mut self,
        place: &mut Place,
        statement: Here<'_>,
        block: &Arc<Block>,
        at: usize,
        rows: &RowsPiece,
    ) -> Result<(), LoadError> {
        self.dialogue
            .ensure_database(&mut self.catalog.conn, &mut self.findings)?;
        let header = &rows.header;
        let name = ObjectName {
            database: header.database.clone(),
            name: header.table.clone(),
        };
        let key = self.dialogue.resolve(&name)?;
        if !self.wanted(&key) {
            let whose = || self.choice.whose_rows(&key.0, &key.1, place.rows_only);
            return if rows.first && whose() == Whose::Unclear {
                self.ctx.fail(statement.refused(Reason::PassedOn))
            } else {
                Ok(())
            };
        }
        if self.ctx.options.skips(&key.0)? {
            return Ok(());
        }
        let range = at + rows.rows.start..at + rows.rows.end;
        let item = statement.item;
        let here = RowsHere {
            statement,
            session: self.dialogue.session()?,
            header,
            text: &block[range.clone()],
            count: rows.row_count,
            complex: rows.complex,
            offset: offset_of(item, rows),
            line: line_of(&block[at..], item, rows),
        };
        if is_system_database(&key.0) {
            return self.rows_of_system(&key, &here);
        }
        if self.ledger.temporary.contains(&key) {
            self.finish_current(place)?;
            self.queue.wait_rows()?;
            return self.rows_on_control(None, &here);
        }
        let Some(Destination { index, gone }) = self.destination(&key, &here)? else {
            return Ok(());
        };
        self.turn_to(place, index)?;
        if !gone {
            self.meet_header(place, index, header)?;
        }
        self.ledger.entries[index].refuse_other_never(here.text)?;
        self.note_rows(place, index, &here);
        let head = Head {
            table: Arc::clone(&self.ledger.entries[index].table),
            session: Arc::clone(&here.session),
            header: Arc::clone(header),
            form: Form::Tuples,
        };
        let piece = place.piece(block, range, here.count, here.offset, here.line);
        let checks = here.session.foreign_key_checks();
        let orphans = checks
            && !gone
            && self
                .catalog
                .leaves_parents_to_server(&mut self.ledger.entries[index], header.verb)?;
        self.ledger.entries[index].note_session(&here.session, orphans);
        self.resume
            .prepare_marks(&mut self.catalog, &mut self.dialogue)?;
        let missing = self.resume.missing_rows(&head, piece, here.text)?;
        if missing.is_empty() {
            return Ok(());
        }
        if gone {
            return Err(here.differs(&self.ledger.entries[index].table));
        }
        self.meet_triggers(place, index, &key)?;
        let effects = Effects {
            triggered: self.ledger.has_triggers(&key),
            through_view: self.ledger.entries[index].table.is_view(),
            children: self.catalog.takes_children_away(
                &mut self.ledger,
                &mut self.dialogue,
                index,
                header.verb,
            )?,
        };
        if self.dialogue.control_only
            || orphans
            || effects.any()
            || here.depend_on_others(&self.ledger.entries[index])
        {
            return self.rows_in_order(place, index, &here, &missing, &effects);
        }
        self.add_missing(place, &head, missing, here.text)
    }

    /// Runs rows of a system schema.
    fn rows_of_system(&mut self, key: &TableKey, here: &RowsHere) -> Result<(), LoadError> {
        if self.ctx.cluster.is_some() {
            Replicated::admit_system(&self.ctx.options, &format!("{}.{}", key.0, key.1))?;
        }
        self.touch(&key.0, Touch::Rows)?;
        self.rows_on_control(None, here)
    }

    /// The table that rows go into; `None` if the server refused it and the load continues.
    fn destination(
        &mut self,
        key: &TableKey,
        here: &RowsHere,
    ) -> Result<Option<Destination>, LoadError> {
        match self.table_for_rows(key) {
            Ok(index) => Ok(Some(Destination { index, gone: false })),
            Err(LoadError::Server { source, .. })
                if self.resume.in_past()
                    && matches!(source.server_code(), Some(NO_SUCH_TABLE | UNKNOWN_DATABASE))
                    && self.ledger.known(key).is_some() =>
            {
                let index = self.ledger.known(key).unwrap_or_default();
                Ok(Some(Destination { index, gone: true }))
            }
            Err(LoadError::Server { source, .. })
                if source.server_code().is_some()
                    && !source.is_lost_connection()
                    && !self.ctx.cancel.is_cancelled() =>
            {
                // Most likely the table does not exist, because its definition was refused in a
                // load that continues.
                self.ctx.fail(StatementFailure {
                    file: here.statement.file.to_string(),
                    line: here.line,
                    offset: here.offset,
                    head: head(&here.header.text),
                    code: source.server_code().unwrap_or(0),
                    message: source.to_string(),
                    table: Some(format!("{}.{}", key.0, key.1)),
                    ..StatementFailure::default()
                })?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a table the current one.
    fn turn_to(&mut self, place: &mut Place, index: usize) -> Result<(), LoadError> {
        if place.current == Some(index) {
            return Ok(());
        }
        self.finish_current(place)?;
        if self.ledger.entries[index].build_begun {
            // The rows of this table seemed complete, and its indexes are being built.
            self.queue.wait_key(index)?;
        }
        place.current = Some(index);
        place.last_header = None;
        Ok(())
    }

    /// [`Conductor::begin_rows`], if the header differs from that of the rows before.
    fn meet_header(
        &mut self,
        place: &mut Place,
        index: usize,
        header: &Arc<InsertHeader>,
    ) -> Result<(), LoadError> {
        let last = place.last_header.as_ref();
        if last.is_none_or(|last| last.text != header.text) {
            self.begin_rows(place, index, header)?;
            place.last_header = Some(Arc::clone(header));
        }
        Ok(())
    }

    /// Notes that the dump has rows of a table here, whether they are loaded already or not.
    fn note_rows(&mut self, place: &mut Place, index: usize, here: &RowsHere) {
        let entry = &mut self.ledger.entries[index];
        entry.session = Some(Arc::clone(&here.session));
        entry.text_bytes += here.text.len() as u64;
        entry.complete = false;
        self.findings.touched = true;
        place.rows += here.count;
        if entry.table.is_transactional() || entry.table.is_view() {
            place.transaction.rows(here.count);
        }
    }

    /// Runs rows once everything before them is done: they may read any other row, and other
    /// statements may read the numbers that these rows get.
    fn rows_in_order(
        &mut self,
        place: &mut Place,
        index: usize,
        here: &RowsHere,
        missing: &[(Piece, Range<usize>)],
        effects: &Effects,
    ) -> Result<(), LoadError> {
        self.finish_current(place)?;
        self.queue.wait_rows()?;
        self.queue.wait_key(index)?;
        self.run_postponed_triggers()?;
        let checks = here.session.foreign_key_checks();
        let may_check = checks
            && (effects.triggered
                || !self
                    .catalog
                    .has_no_foreign_keys(&mut self.ledger.entries[index])?);
        if effects.through_view || may_check || effects.children {
            // The keys of the underlying table, the parents or the children decide what becomes of
            // these rows.
            self.finish_builds()?;
        }
        if missing.len() > 1 || missing[0].1.len() < here.text.len() {
            return Err(here.differs(&self.ledger.entries[index].table));
        }
        let table = Some((index, &missing[0].0));
        if !effects.any() {
            return self.rows_on_control(table, here);
        }
        // The effects of a trigger, a view or a foreign key on other tables are not tracked.
        let counted = self.catalog.count_before(&mut self.ledger, None)?;
        self.rows_on_control(table, here)?;
        self.catalog.count_after(&self.ledger, &counted)?;
        if !checks {
            self.ledger.note_unchecked(None);
        }
        Ok(())
    }

    /// Hands rows that are not loaded yet to the workers.
    pub(super) fn add_missing(
        &mut self,
        place: &mut Place,
        head: &Head,
        missing: Vec<(Piece, Range<usize>)>,
        text: &[u8],
    ) -> Result<(), LoadError> {
        for (piece, range) in missing {
            let limit = match &self.ctx.cluster {
                _ if self.ctx.writes_one_by_one(&head.table) => Some(1),
                Some(cluster) => cluster.rows_of(&piece, self.ctx.options.chunk_rows),
                None => self.ctx.options.chunk_rows,
            };
            match limit {
                Some(limit) => self.add_exactly(place, head, &piece, &text[range], limit)?,
                None => self.add(place, head, piece)?,
            }
        }
        Ok(())
    }

    /// Decides from the verb of a table's rows whether their order matters.
    fn begin_rows(
        &mut self,
        place: &mut Place,
        index: usize,
        header: &InsertHeader,
    ) -> Result<(), LoadError> {
        let entry = &self.ledger.entries[index];
        if header.verb == InsertVerb::Replace {
            entry.table.note_replaced();
        }
        if header.verb != InsertVerb::Insert && !entry.ordered {
            // Earlier rows may be written in any order, but not alongside these.
            self.push_waiting(place)?;
            self.queue.flush(index, None)?;
            self.queue.wait_key(index)?;
            self.ledger.entries[index].ordered = true;
        }
        if header.verb != InsertVerb::Insert {
            // Every unique key decides which rows are duplicates, so none may be missing.
            let entry = &mut self.ledger.entries[index];
            self.deferred
                .finish_now(&mut self.catalog, &mut self.dialogue, entry)?;
            entry.indexes_decided = true;
        }
        Ok(())
    }

    /// Hands a piece to the workers, or keeps it until it is known whether the table is large.
    pub(super) fn add(
        &mut self,
        place: &mut Place,
        head: &Head,
        piece: Piece,
    ) -> Result<(), LoadError> {
        let index = head.table.id;
        if self.ledger.entries[index].indexes_decided {
            return self.push(head, piece);
        }
        if let Some(size) = place.size_known {
            // Several tables are read at once, and none may hold rows in memory just to find out
            // whether it is large.
            self.open_table(index, size >= self.ctx.options.defer_min_bytes as u64)?;
            return self.push(head, piece);
        }
        place.waiting_bytes += piece.len();
        place.waiting.push((head.clone(), piece));
        if place.waiting_bytes < self.ctx.options.defer_min_bytes {
            return Ok(());
        }
        self.open_table(index, true)?;
        self.push_waiting(place)
    }

    fn push_waiting(&mut self, place: &mut Place) -> Result<(), LoadError> {
        place.waiting_bytes = 0;
        for (head, piece) in std::mem::take(&mut place.waiting) {
            self.push(&head, piece)?;
        }
        Ok(())
    }

    fn push(&self, head: &Head, piece: Piece) -> Result<(), LoadError> {
        let entry = &self.ledger.entries[head.table.id];
        self.queue.push(&entry.writer, head, piece, entry.ordered)
    }

    /// [`Conductor::add`], with pieces cut so that they form chunks of exactly `limit` rows.
    pub(super) fn add_exactly(
        &mut self,
        place: &mut Place,
        head: &Head,
        piece: &Piece,
        text: &[u8],
        limit: u64,
    ) -> Result<(), LoadError> {
        let bounds = head.form.bounds(text, head.session.lex_mode());
        if bounds.len() as u64 != piece.rows {
            // If the text cannot be split into rows here, leave the whole piece to the server's
            // parser.
            return self.add(place, head, piece.clone());
        }
        let mut from = 0;
        let index = head.table.id;
        while from < bounds.len() {
            let room = limit - self.ledger.entries[index].cut_rows % limit;
            let take = usize::try_from(room)
                .unwrap_or(usize::MAX)
                .clamp(1, bounds.len() - from);
            self.ledger.entries[index].cut_rows += take as u64;
            let (part, _) = piece.part(text, &bounds, from..from + take);
            from += take;
            self.add(place, head, part)?;
        }
        Ok(())
    }

    /// Begins the rows of a table. Its writer prepares it only if it is known to be `large`.
    fn open_table(&mut self, index: usize, large: bool) -> Result<(), LoadError> {
        let entry = &mut self.ledger.entries[index];
        if std::mem::replace(&mut entry.indexes_decided, true)
            || !large
            || !self.ctx.defers_indexes()
        {
            return Ok(());
        }
        self.deferred
            .open_writer(&mut self.catalog, &mut self.dialogue, entry)
    }

    /// Ends the current table: no more rows of it are expected.
    pub(super) fn finish_current(&mut self, place: &mut Place) -> Result<(), LoadError> {
        let Some(index) = place.current.take() else {
            return Ok(());
        };
        self.open_table(index, false)?;
        self.push_waiting(place)?;
        let then = self
            .deferred
            .finish_task(&mut self.catalog, &mut self.ledger.entries[index])?;
        self.queue.flush(index, then)
    }

    /// Runs rows unchanged on the control connection. `table` holds the table and the piece, if the
    /// rows are tracked.
    fn rows_on_control(
        &mut self,
        table: Option<(usize, &Piece)>,
        here: &RowsHere,
    ) -> Result<(), LoadError> {
        let verb = here.header.verb;
        let mut statement = here.header.text.clone();
        statement.extend_from_slice(here.text);
        self.ctx.keep_pace(|| self.queue.has_failed());
        let stretches = match table {
            Some((index, piece)) => {
                let table = &self.ledger.entries[index].table;
                self.dialogue.begin_rows(table, piece)?
            }
            None => Vec::new(),
        };
        let ok = self.execute_rows(here.statement.with(&statement), verb)?;
        let Some((index, piece)) = table else {
            return Ok(());
        };
        let written = ok.map(|ok| Written::by(verb, piece.rows, ok.affected_rows));
        let table = &self.ledger.entries[index].table;
        self.dialogue.end_rows(table, &stretches, written)?;
        if let Some(written) = written {
            let bytes = here.text.len() as u64;
            table.note_sent(written.rows + written.ignored);
            table.committed(written.rows, bytes, written.ignored);
            table.note_described();
            self.ctx.note_chunk(WritePath::Insert, written, bytes);
        }
        Ok(())
    }
}

impl Entry {
    /// Refuses current rows that carry another server's end of time. This server would store them
    /// as history, and no row count would show it.
    pub fn refuse_other_never(&self, text: &[u8]) -> Result<(), LoadError> {
        let table = &self.table;
        let layout = table.layout();
        let end = layout
            .as_ref()
            .and_then(|layout| layout.period_end.as_ref());
        match end {
            Some(end) if memchr::memmem::find(text, end.never_elsewhere).is_some() => {
                let shown = |time: &[u8]| String::from_utf8_lossy(time).into_owned();
                Err(LoadError::Refused(vec![Refusal {
                    reason: format!(
                        "table {}: current rows in the dump end at {}, which this server takes for \
                        historical rows: its own end of time is {}",
                        table.label(),
                        shown(end.never_elsewhere),
                        shown(end.never)
                    ),
                    hint: "Dump the table with `refloat dump` into a folder, from which a load \
                        writes rows as the target needs them, or without its history."
                        .to_owned(),
                }]))
            }
            _ => Ok(()),
        }
    }

    /// Whether rows omit a column that needs a value, which the dump's session accepts anyway.
    /// Writers are strict.
    fn leaves_unset(&self, session: &Session, header: &InsertHeader) -> bool {
        let lenient = !session.is_strict() || header.verb == InsertVerb::InsertIgnore;
        lenient
            && self.table.layout().is_some_and(|layout| {
                let targets = layout.targets(header.columns.as_deref());
                targets.is_some_and(|targets| layout.lacks_value(&targets))
            })
    }

    /// Whether a row of this piece leaves an `AUTO_INCREMENT` or sequence number to the server. The
    /// rows before it decide the number, other tables may use the same sequence, and later
    /// statements may ask for the number.
    fn leaves_number(&self, session: &Session, header: &InsertHeader, text: &[u8]) -> bool {
        let Some(layout) = self.table.layout() else {
            return false;
        };
        let numbered = |column: &Column| column.auto_increment || column.from_sequence;
        if !layout.columns.iter().any(numbered) {
            return false;
        }
        let Some(targets) = layout.targets(header.columns.as_deref()) else {
            return false;
        };
        let mut columns = (0..layout.columns.len()).filter(|&at| numbered(&layout.columns[at]));
        columns.any(|column| {
            let Some(position) = targets.iter().position(|&target| target == column) else {
                return true;
            };
            let zero_generates =
                layout.columns[column].auto_increment && !session.has_mode("NO_AUTO_VALUE_ON_ZERO");
            may_leave_to_server(text, position, zero_generates)
                && leaves_to_server(
                    &Form::Tuples,
                    text,
                    position,
                    zero_generates,
                    session.lex_mode(),
                )
        })
    }
}

impl Dialogue {
    /// Begins the transaction of rows on the control connection, with their mark.
    pub fn begin_rows(&mut self, table: &Table, piece: &Piece) -> Result<Vec<Stretch>, LoadError> {
        let Some(marks) = &self.ctx.marks else {
            return Ok(Vec::new());
        };
        let stretches = marks.stretches(std::slice::from_ref(piece));
        marks
            .open(&mut self.control, table, &stretches)
            .map_err(not_marked)?;
        Ok(stretches)
    }

    /// Ends that transaction. `written` is `None` if the server refused the rows and the load
    /// continues.
    pub fn end_rows(
        &mut self,
        table: &Table,
        stretches: &[Stretch],
        written: Option<Written>,
    ) -> Result<(), LoadError> {
        let (Some(marks), Some(first)) = (&self.ctx.marks, stretches.first()) else {
            return Ok(());
        };
        let refused = if written.is_some() { 0 } else { first.rows };
        let written = written.unwrap_or_default();
        marks
            .correct(&mut self.control, stretches, written, refused)
            .map_err(not_marked)?;
        self.control.exec("COMMIT").map_err(not_marked)?;
        // Workers check this too. Here nothing is written again, because later statements may need
        // these rows.
        match marks.committed(&mut self.control, stretches) {
            Ok(None) => Err(LoadError::CommitLost {
                table: table.label(),
            }),
            Err(error) if error.is_lost_connection() => Err(not_marked(error)),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }
}

fn not_marked(error: refloat_wire::Error) -> LoadError {
    LoadError::server("committing rows and their progress mark", error)
}

/// Whether the only expressions among the values are those that mydumper writes for JSON,
/// `CONVERT('…' USING UTF8MB4)`. These depend on nothing but themselves.
fn only_converts(text: &[u8], mode: LexMode) -> bool {
    struct Converts(LexMode);
    impl RowVisitor for Converts {
        type Error = ();

        fn expression(&mut self, text: &[u8]) -> Result<(), ()> {
            let words: Vec<_> = tokens(text, self.0).collect();
            match words.as_slice() {
                [convert, open, literal, using, charset, close]
                    if convert.is(text, "CONVERT")
                        && open.is_punct(b'(')
                        && literal.kind == TokenKind::Text
                        && using.is(text, "USING")
                        && charset.is(text, "UTF8MB4")
                        && close.is_punct(b')') =>
                {
                    Ok(())
                }
                _ => Err(()),
            }
        }
    }
    visit_rows(text, mode, &mut Converts(mode)).is_ok()
}

/// The line of the first row: MariaDB's dump tool starts a new line between `VALUES` and the
/// rows.
fn line_of(text: &[u8], item: &Item, rows: &RowsPiece) -> u64 {
    let head = text
        .get(item.text.start..rows.rows.start)
        .unwrap_or_default();
    item.line + memchr::memchr_iter(b'\n', head).count() as u64
}

/// Where the rows of this piece start in the dump.
fn offset_of(item: &Item, rows: &RowsPiece) -> u64 {
    item.offset + rows.rows.start.saturating_sub(item.text.start) as u64
}
