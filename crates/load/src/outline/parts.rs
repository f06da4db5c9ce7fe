//! The parts of a layout, in the order in which what they hold is gathered.

use std::iter;

use refloat_source::layout::{Layout, RowFile, SqlFile, TableRows};
use refloat_source::stream::StreamedTable;

use super::Gather;

/// Something of a layout that an outline takes note of.
pub enum Part<'a> {
    /// A file of SQL, which may create objects and insert rows.
    Statements(&'a SqlFile),
    /// A database that a load creates, unless it exists, because no file does.
    Database(&'a str),
    /// A table with files of rows, perhaps none.
    Table(&'a TableRows),
    /// One of these files.
    Rows(&'a TableRows, &'a RowFile),
    /// A table whose rows arrive as a stream.
    Streamed(&'a StreamedTable),
}

/// The parts of a layout.
pub fn parts(layout: &Layout) -> impl Iterator<Item = Part<'_>> {
    let statements = layout.statements().map(Part::Statements);
    let databases = layout.databases().map(|name| Part::Database(name));
    let rows = layout.tables().flat_map(|table| {
        let files = table.files.iter();
        let files = files.map(move |file| Part::Rows(table, file));
        iter::once(Part::Table(table)).chain(files)
    });
    let streamed = layout.stream().into_iter().flat_map(|of| &of.tables);
    statements
        .chain(databases)
        .chain(rows)
        .chain(streamed.map(Part::Streamed))
}

impl Gather<'_> {
    /// Begins a part of a layout, and notes what is known of it without reading it.
    pub fn begin(&mut self, part: &Part<'_>) {
        match part {
            Part::Statements(file) => {
                self.enter(file.database.as_deref());
                (self.enters, self.rows_only) = (file.enters, false);
                self.session(&file.session);
            }
            Part::Database(name) => self.own_database(name),
            Part::Table(table) => {
                self.begin_rows(table.database.as_deref());
                self.meet(None, table.table.as_bytes());
            }
            Part::Rows(table, file) => {
                self.begin_rows(table.database.as_deref());
                self.session(file.session());
            }
            Part::Streamed(table) => self.begin_rows(Some(&table.database)),
        }
    }

    fn begin_rows(&mut self, database: Option<&str>) {
        self.enter(database);
        (self.enters, self.rows_only) = (false, true);
    }
}
