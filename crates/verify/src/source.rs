//! Reads the rows of a part of a table, in the form in which both sides are hashed.

use std::ops::ControlFlow;

use refloat_digest::cells::{CellKind, push};
use refloat_digest::rows::RowText;
use refloat_read::catalog::Table;
use refloat_read::ranges::Range;
use refloat_read::{ReadError, ranges, unchanged};
use refloat_run::Cancel;
use refloat_wire::Connection;

use super::error::VerifyError;
use super::folder::DumpFolder;
use super::options::VerifyOptions;
use super::other::OtherDump;
use super::pair::{Pair, Reading};

/// Where a reader gets its rows from.
pub enum Source<'a> {
    /// A server, within its snapshot.
    Server(&'a mut Connection),
    /// The files of a dump.
    Dump(&'a DumpFolder),
    /// A dump of another tool.
    Other(&'a OtherDump, &'a VerifyOptions),
}

/// A part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A range of a server's table.
    Range(Range),
    /// A file of a dump, by index.
    File(usize),
    /// No rows: only how many the server counts without ranges.
    Count,
    /// All rows of a table, wherever they are in a dump of another tool.
    All,
}

impl Source<'_> {
    /// Cuts a table of this side into parts.
    pub fn cut(&mut self, reading: &Reading, target: u64) -> Result<Vec<Part>, VerifyError> {
        match (self, reading) {
            (Self::Server(conn), Reading::Server(table)) => {
                let ranges =
                    ranges::cut(conn, table, target).map_err(|error| changed(error, table))?;
                Ok(ranges.into_iter().map(Part::Range).collect())
            }
            (_, Reading::Dump(entry, _)) => Ok((0..entry.chunks.len()).map(Part::File).collect()),
            (Self::Dump(_), Reading::Server(_)) | (Self::Other(..), _) | (_, Reading::Other(_)) => {
                Ok(Vec::new())
            }
        }
    }

    /// The number of rows that the server counts, with whatever plan it prefers.
    pub fn count(&mut self, reading: &Reading) -> Result<Option<u64>, VerifyError> {
        let (Self::Server(conn), Reading::Server(table)) = (self, reading) else {
            return Ok(None);
        };
        let count = ranges::count(table).replacen("refloat dump", "refloat verify", 1);
        let counted = conn.query(count).map_err(|error| {
            let doing = format!("counting the rows of table {}", table.label());
            changed(ReadError::server(doing, error), table)
        })?;
        Ok(counted.u64(0, 0))
    }

    /// Hands over each row of a part as [`RowText`]. `side` is 0 for the first, 1 for the second.
    pub fn rows(
        &mut self,
        pair: &Pair,
        side: usize,
        part: &Part,
        cancel: &Cancel,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), VerifyError> {
        let mut text = RowText::default();
        let mut scratch = Vec::new();
        match (self, &pair.readings[side], part) {
            (Self::Server(conn), Reading::Server(table), Part::Range(range)) => {
                let plain = pair
                    .columns
                    .iter()
                    .all(|column| column.kind == CellKind::Bytes);
                let select =
                    ranges::select(table, range).replacen("refloat dump", "refloat verify", 1);
                let select = ranges::ask_for_large_pieces(select, range, conn);
                let read = conn.query_each(select, &mut |row| {
                    text.clear();
                    if plain {
                        row.iter().for_each(|cell| text.push(cell));
                    } else {
                        for (cell, column) in row.iter().zip(&pair.columns) {
                            push(&mut text, cell, column.kind, &mut scratch);
                        }
                    }
                    each(text.bytes())
                });
                let end = read.map_err(|error| {
                    let doing = format!("reading the rows of table {}", table.label());
                    changed(ReadError::server(doing, error), table)
                })?;
                Ok(unchanged::whole(conn, table, end.ok.warnings)?)
            }
            (Self::Dump(folder), Reading::Dump(entry, places), Part::File(index)) => {
                let chunk = &entry.chunks[*index];
                folder.rows(entry, chunk, cancel, &mut |fields| {
                    text.clear();
                    for (place, column) in places.iter().zip(&pair.columns) {
                        push(&mut text, fields.cell(*place), column.kind, &mut scratch);
                    }
                    each(text.bytes())
                })
            }
            (Self::Other(dump, options), Reading::Other(table), Part::All) => {
                dump.rows(table, options, cancel, each)
            }
            // A part is read on the side that it was cut on.
            _ => Ok(()),
        }
    }
}

/// Turns an error about a table that has changed into one that says so.
fn changed(error: ReadError, table: &Table) -> VerifyError {
    unchanged::changed(error, table).into()
}
