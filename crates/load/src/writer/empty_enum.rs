//! Handles index 0 of an `ENUM`.
//!
//! A source whose `sql_mode` was not strict may hold it; dump tools write it as `''`, and a dump of
//! refloat as 0 if the column also has the member `''`. A strict writer refuses that value; the
//! dump's own session stores it with a warning. So a refused piece of a table with such columns is
//! written again in the dump's own mode. It is kept only if the server gives exactly one warning
//! for each such value, and none for anything else.

use refloat_schema::columns::{Column, Layout};
use refloat_schema::members::has_empty_member;
use refloat_sqltext::{InsertVerb, RowVisitor, StrLit};
use refloat_wire::{Error, RetryStatus, Warning};

use super::{Attempt, Link, MORE_WARNINGS, WARNINGS_MAX, Written};
use crate::chunk::{Chunk, Piece};
use crate::context::remove_duplicates;

/// `WARN_DATA_TRUNCATED`: the server's warning about the value.
const DATA_TRUNCATED: u16 = 1265;

/// Counts index 0 in the positions of `ENUM` columns.
struct Empties<'a> {
    columns: Vec<&'a Column>,
    at: usize,
    found: u64,
}

impl Empties<'_> {
    /// `''` is index 0 unless it is a member.
    fn note(&mut self, empty: bool, zero: bool) {
        // The server computes the others itself.
        let given = |one: &&&Column| one.is_enum() && !one.generated;
        if let Some(column) = self.columns.get(self.at).filter(given) {
            let counts = zero || (empty && !has_empty_member(&column.type_text));
            self.found += u64::from(counts);
        }
        self.at += 1;
    }
}

impl RowVisitor for Empties<'_> {
    type Error = std::convert::Infallible;

    fn begin_row(&mut self, _: usize) -> Result<(), Self::Error> {
        self.at = 0;
        Ok(())
    }
    fn value(&mut self) -> Result<(), Self::Error> {
        self.note(false, false);
        Ok(())
    }
    fn number(&mut self, text: &[u8]) -> Result<(), Self::Error> {
        self.note(false, text == b"0");
        Ok(())
    }
    fn string(&mut self, literal: StrLit<'_>) -> Result<(), Self::Error> {
        self.note(literal.raw.is_empty(), false);
        Ok(())
    }
    fn raw(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.note(bytes.is_empty(), false);
        Ok(())
    }
}

/// How often the rows of a piece have index 0 of an `ENUM`.
pub(super) fn empty_enums(chunk: &Chunk, layout: &Layout, text: &[u8]) -> u64 {
    let Some(targets) = layout.targets(chunk.header.columns.as_deref()) else {
        return 0;
    };
    let columns: Vec<&Column> = targets
        .iter()
        .map(|&index| &layout.columns[index])
        .collect();
    if !columns.iter().any(|column| column.is_enum()) {
        return 0;
    }
    let mut empties = Empties {
        columns,
        at: 0,
        found: 0,
    };
    match chunk
        .form
        .visit(text, chunk.session.lex_mode(), &mut empties)
    {
        Ok(_) => empties.found,
        Err(_) => 0,
    }
}

/// Whether the server's warning is about the value of an `ENUM`.
pub(super) fn is_of_enum(warning: &Warning, layout: &Layout) -> bool {
    let mut enums = layout.columns.iter().filter(|column| column.is_enum());
    let named = |column: &Column| warning.message.contains(&format!("'{}'", column.name));
    warning.code == DATA_TRUNCATED && enums.any(named)
}

impl Link {
    /// Writes a refused piece under the dump's own mode if only index 0 of an `ENUM` stands in the
    /// way; otherwise returns `None` and writes nothing of the piece.
    pub fn keep_empty_enums(
        &mut self,
        chunk: &Chunk,
        piece: &Piece,
        text: &[u8],
    ) -> Result<Option<Written>, Error> {
        let Some(layout) = chunk.table.layout() else {
            return Ok(None);
        };
        let empties = empty_enums(chunk, &layout, text);
        if empties == 0 {
            return Ok(None);
        }
        let mut converted = Vec::new();
        let Ok(text) = chunk.tuples(&layout, text, &mut converted) else {
            return Ok(None);
        };
        let size = chunk.header.text.len() + text.len() + 1;
        if empties >= WARNINGS_MAX || size >= self.conn.max_allowed_packet() {
            return Ok(None);
        }
        self.conn.exec("SAVEPOINT refloat_piece")?;
        let kept = self.insert_as_dump(chunk, &layout, (text, piece.rows), empties)?;
        if kept.is_err() {
            self.conn.exec("ROLLBACK TO SAVEPOINT refloat_piece")?;
        }
        self.strict_again(&chunk.session)?;
        Ok(kept.ok())
    }

    /// Writes rows under the dump's own mode, with index 0 of an `ENUM` in `empties` places; the
    /// inner error is any other message of the server. Afterwards the session is not a writer's.
    fn insert_as_dump(
        &mut self,
        chunk: &Chunk,
        layout: &Layout,
        (text, rows): (&[u8], u64),
        empties: u64,
    ) -> Result<Result<Written, String>, Error> {
        self.lenient(&chunk.session)?;
        self.text.clear();
        self.text.extend_from_slice(&chunk.header.text);
        self.text.extend_from_slice(text);
        let ok = match self.conn.exec(&self.text) {
            Ok(ok) => ok,
            // A deadlock has rolled back the savepoint too.
            Err(error) if matches!(error.retry(), RetryStatus::SameConnection) => {
                return Err(error);
            }
            Err(error) if error.server_code().is_some() && !error.is_lost_connection() => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let mut warnings = self.conn.warnings()?;
        if ok.warnings == u16::MAX || warnings.len() < usize::from(ok.warnings) {
            return Ok(Err(MORE_WARNINGS.to_owned()));
        }
        chunk.table.remove_notes_about_computed(&mut warnings);
        let verb = chunk.header.verb;
        let duplicates = match verb {
            InsertVerb::InsertIgnore => remove_duplicates(&mut warnings),
            InsertVerb::Insert | InsertVerb::Replace => 0,
        };
        let other = warnings.iter().find(|one| !is_of_enum(one, layout));
        let written = Written::by(verb, rows, ok.affected_rows);
        Ok(match other {
            Some(other) => Err(other.message.clone()),
            None if warnings.len() as u64 != empties => Err(format!(
                "{empties} rows with index 0 of an ENUM gave {} warnings",
                warnings.len()
            )),
            None if written.rows + duplicates != rows => Err(format!(
                "{rows} rows were sent and {} stored",
                ok.affected_rows
            )),
            None => Ok(written),
        })
    }

    /// Writes a chunk for an engine without transactions. A strict writer might refuse a row in the
    /// middle of a statement, with earlier ones already stored, so index 0 of an `ENUM` and
    /// expressions that give warnings are looked for beforehand. `None` if there are none.
    pub fn write_untransacted(&mut self, chunk: &Chunk) -> Result<Option<Written>, Attempt> {
        let layout = chunk.table.layout();
        let Some(layout) = layout
            .filter(|layout| chunk.header.verb != InsertVerb::InsertIgnore && layout.may_warn())
        else {
            return Ok(None);
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = self.write_pieces(chunk, &layout, &mut buffer);
        self.buffer = buffer;
        written
    }

    fn write_pieces(
        &mut self,
        chunk: &Chunk,
        layout: &Layout,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Written>, Attempt> {
        let mut found = layout.computes();
        for piece in &chunk.pieces {
            let text = Self::read_piece(piece, buffer)?;
            found |= empty_enums(chunk, layout, text) > 0;
        }
        if !found {
            return Ok(None);
        }
        let mut written = Written::default();
        for piece in &chunk.pieces {
            let text = Self::read_piece(piece, buffer)?;
            written.add(self.write_part(chunk, layout, text, piece.rows)?);
        }
        Ok(Some(written))
    }

    fn write_part(
        &mut self,
        chunk: &Chunk,
        layout: &Layout,
        text: &[u8],
        rows: u64,
    ) -> Result<Written, Attempt> {
        let empties = empty_enums(chunk, layout, text);
        if empties == 0 {
            return self.write_computing(chunk, text, rows);
        }
        let mut converted = Vec::new();
        let tuples = chunk
            .tuples(layout, text, &mut converted)
            .map_err(Attempt::NotExact)?;
        let size = chunk.header.text.len() + tuples.len() + 1;
        if empties < WARNINGS_MAX && size < self.conn.max_allowed_packet() {
            let written = self.insert_as_dump(chunk, layout, (tuples, rows), empties)?;
            self.strict_again(&chunk.session)?;
            return written.map_err(Attempt::NotExact);
        }
        let halves = chunk.form.halves(text, chunk.session.lex_mode());
        if halves.len() < 2 {
            return Err(Attempt::RowTooLarge { size });
        }
        let mut written = Written::default();
        for (range, count) in halves {
            written.add(self.write_part(chunk, layout, &text[range], count)?);
        }
        Ok(written)
    }
}
