//! A dump as one SQL text, which the stock client restores.
//!
//! Rows are read as for a folder, in blocks of whole rows. Each block becomes one `INSERT`.
//! Statements of different tables interleave in any order: nothing depends on it, because all table
//! definitions come first.

mod output;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use refloat_read::catalog::Table;
use refloat_read::moment::Plan;
use refloat_read::snapshot::Snapshot;
use refloat_read::{ReadError, columns};
use refloat_run::phases::Phases;
use refloat_run::progress::Phase;
use refloat_run::{Run, kill_on_cancel};
use refloat_schema::columns::Layout;
use refloat_source::delimited::{Delimited, DelimitedRows};
use refloat_source::stream::{Arrival, RowStream};
use refloat_source::{native, tuples};
use refloat_sqltext::quote_ident;
use refloat_wire::Connection;

use super::error::DumpError;
use super::options::DumpOptions;
use super::work::{Sink, TableWork};
use super::{DumpOutcome, Reading, accounts, schema};
use output::Output;

/// How often the writer checks for cancellation while no rows arrive.
const PATIENCE: Duration = Duration::from_millis(100);

/// Smallest default `max_allowed_packet` of the stock clients, in bytes.
const CLIENT_LIMIT: usize = 16 << 20;

/// A table, and what is needed to turn its rows into statements.
struct SqlTable {
    label: String,
    /// `INSERT INTO … VALUES` and a newline.
    head: Vec<u8>,
    rows: DelimitedRows,
    layout: Layout,
    targets: Vec<usize>,
    written: u64,
    /// Length of the longest statement in bytes.
    longest: usize,
}

/// Writes a snapshot as SQL: definitions and rows.
pub fn write(
    options: &DumpOptions,
    run: &Run,
    outcome: &mut DumpOutcome,
    clock: &Phases,
    (control, mut snapshot, plan): (&mut Connection, Snapshot, Plan),
) -> Result<(), DumpError> {
    let mut out = Output::open(options)?;
    head(&mut out, outcome, &snapshot)?;
    for (database, tables) in plan.databases.iter().zip(&plan.tables) {
        out.write(&schema::of_database(control, database, tables)?)?;
    }
    let tables: Vec<Table> = plan.tables.into_iter().flatten().collect();
    out.write(schema::HEAD.as_bytes())?;
    if tables.iter().any(|table| table.history) {
        out.line(&format!("{};", native::HISTORY))?;
        outcome.notes.push(PAST.to_owned());
    }
    let mut sql = Vec::with_capacity(tables.len());
    for table in &tables {
        sql.push(SqlTable::of(control, table)?);
    }
    outcome.databases = plan.databases.len() as u64;
    outcome.tables = tables.len() as u64;
    outcome.programs = plan.programs.len() as u64;
    let streamed = tables
        .iter()
        .map(|table| table.streamed(!options.read.no_data));
    let stream = Arc::new(RowStream::new(streamed.collect()));
    let bytes = stream.tables.iter().map(|table| table.bytes).sum();
    run.progress
        .set_source(Some(bytes), Arc::clone(&stream.position));
    run.progress.set_tables_total(tables.len() as u64);
    clock.enter(Phase::Data);
    let tables: Vec<TableWork> = tables
        .into_iter()
        .map(|table| TableWork::new(table, String::new()))
        .collect();
    let reading = Reading {
        options,
        sink: Sink::Stream(&stream),
        cancel: &run.cancel,
        events: &run.events,
        progress: &run.progress,
        shown: &run.progress,
        done: &stream.position,
    };
    let (read, written) = std::thread::scope(|scope| {
        let (stream, snapshot, control) = (&stream, &mut snapshot, &mut *control);
        let tables = &tables;
        let reader = scope.spawn(move || {
            let _kill = kill_on_cancel(reading.cancel, control);
            let read = catch_unwind(AssertUnwindSafe(|| reading.read(tables, snapshot, control)));
            let read = read.unwrap_or_else(|_panic| Err(DumpError::defect()));
            stream.end(read.is_ok());
            read
        });
        let written = take(stream, &mut sql, &mut out, run, outcome);
        // Nothing takes rows any more, so unblock the reader.
        stream.close();
        let read = reader
            .join()
            .unwrap_or_else(|_panic| Err(DumpError::defect()));
        (read, written)
    });
    // A reader's error says more than the writer's, which only saw the stream break. But when the
    // writer failed first, its error is the cause.
    let read = match read {
        Err(DumpError::NotWanted) | Ok(_) if written.is_err() => return written,
        read => read?,
    };
    (outcome.held_seconds, outcome.snapshot_cost) = (read.held.as_secs_f64(), read.cost);
    clock.enter(Phase::Proof);
    outcome.notes.extend(plan.notes);
    outcome
        .notes
        .extend(tables.iter().flat_map(TableWork::notes));
    outcome.notes.extend(snapshot.info.caveats());
    let limit = control.max_allowed_packet().min(CLIENT_LIMIT);
    for of in sql.iter().filter(|of| of.longest >= limit) {
        outcome.notes.push(format!(
            "table {}: one of its statements has {} bytes; server and client need a larger \
            max_allowed_packet to take it (the source has {})",
            of.label,
            of.longest,
            control.max_allowed_packet()
        ));
    }
    if let Some(text) = schema::of_programs(options, &plan.collations, &plan.programs) {
        out.write(&text)?;
    }
    if options.read.accounts {
        let (text, notes) = accounts::read(control)?;
        out.write(&text)?;
        outcome.notes.extend(notes);
    }
    for note in &outcome.notes {
        run.events.warn(note.clone());
    }
    out.line("-- Dump completed")?;
    outcome.file_bytes = out.finish()?;
    outcome.files = 1;
    outcome.snapshot = snapshot.info;
    outcome.complete = true;
    run.progress.set_phase(Phase::Done);
    Ok(())
}

/// A client writes what it reads. Unlike a load, it does not know which server the rows come from.
const PAST: &str = "the row_end of current rows in system-versioned tables is in 2038 up to MariaDB \
    11.4, and in 2106 from 11.5 on: as SQL through a client, from one to the other, current rows \
    become historical ones or are refused (a folder, a copy or --no-history avoids this)";

/// Writes comments that name the server and the moment of the snapshot.
fn head(out: &mut Output, outcome: &DumpOutcome, snapshot: &Snapshot) -> Result<(), DumpError> {
    let about = format!(
        "refloat dump {} of {}",
        env!("CARGO_PKG_VERSION"),
        outcome.server
    );
    out.line(&comment(&about))?;
    let moment = serde_json::to_string(&snapshot.info).unwrap_or_default();
    out.line(&comment(&format!("Snapshot: {moment}")))
}

/// A one-line comment. The server's version string is untrusted: a newline in it would end the
/// comment, and the rest would run.
fn comment(text: &str) -> String {
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    "-- ".chars().chain(one_line).collect()
}

/// Writes blocks as they arrive, until the stream ends.
fn take(
    stream: &RowStream,
    tables: &mut [SqlTable],
    out: &mut Output,
    run: &Run,
    outcome: &mut DumpOutcome,
) -> Result<(), DumpError> {
    let mut statement = Vec::new();
    loop {
        if run.cancel.is_cancelled() {
            return Err(DumpError::interrupted(&run.cancel));
        }
        match stream.next(PATIENCE) {
            None => {}
            Some(Arrival::Rows { table, text, rows }) => {
                let of = tables.get_mut(table).ok_or_else(DumpError::defect)?;
                statement.clear();
                statement.extend_from_slice(&of.head);
                tuples::append(&of.rows, &text, &of.layout, &of.targets, &mut statement).map_err(
                    |reason| {
                        DumpError::refused(
                            format!("table {}: {reason}", of.label),
                            "This is a bug in refloat: please report it.",
                        )
                    },
                )?;
                statement.extend_from_slice(b";\n");
                out.write(&statement)?;
                of.longest = of.longest.max(statement.len());
                of.written += rows;
                outcome.rows += rows;
                outcome.text_bytes += text.len() as u64;
            }
            Some(Arrival::TableEnd { table, rows }) => {
                let of = tables.get(table).ok_or_else(DumpError::defect)?;
                if of.written != rows {
                    return Err(DumpError::defect());
                }
            }
            Some(Arrival::End) => return Ok(()),
            // The reader reports the cause.
            Some(Arrival::Broken) => return Err(DumpError::NotWanted),
        }
    }
}

impl SqlTable {
    fn of(control: &mut Connection, table: &Table) -> Result<Self, DumpError> {
        let failed = |error| {
            DumpError::server(
                format!("reading the columns of table {}", table.label()),
                error,
            )
        };
        let (db, name) = (&table.database, &table.name);
        let mut layout = columns::read(control, db, name, true, false).map_err(failed)?;
        if table.history {
            columns::with_period(&mut layout, control, db, name).map_err(failed)?;
        }
        let names: Vec<&str> = table
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let bytes: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let targets = layout
            .targets(Some(&bytes))
            .ok_or_else(|| ReadError::Changed {
                what: format!("table {}", table.label()),
            })?;
        let form = table.form();
        let quoted: Vec<String> = names.iter().map(|name| quote_ident(name)).collect();
        Ok(Self {
            label: table.label(),
            head: format!(
                "INSERT INTO {} ({}) VALUES\n",
                table.quoted(),
                quoted.join(",")
            )
            .into_bytes(),
            rows: DelimitedRows {
                format: Delimited::default(),
                decode: form
                    .fields
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(_, decode)| decode)
                    .collect(),
                charset: form.charset,
            },
            layout,
            targets,
            written: 0,
            longest: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_does_not_leave_its_comment() {
        let version = "MariaDB 10.11.6\nDROP DATABASE shop;\r-- \0ä";
        assert_eq!(
            comment(version),
            "-- MariaDB 10.11.6 DROP DATABASE shop; --  ä"
        );
    }
}
