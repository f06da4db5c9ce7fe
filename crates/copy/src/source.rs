//! The source side of a copy: definitions in memory, and rows pushed into a stream.

use std::path::Path;
use std::sync::Arc;

use refloat_dump::work::{Sink, TableWork};
use refloat_dump::{DumpError, DumpOptions, Read, Reading, cost, schema};
use refloat_read::catalog::Table;
use refloat_read::moment::{self, Plan};
use refloat_read::session;
use refloat_read::snapshot::Snapshot;
use refloat_run::{Cancel, Events, Progress, Run, kill_on_cancel};
use refloat_source::layout::{Layout, Segment, SourceFormat, SqlFile};
use refloat_source::manifest::SnapshotInfo;
use refloat_source::native;
use refloat_source::stream::RowStream;
use refloat_verify::ServerSide;
use refloat_wire::Connection;

use super::CopyOptions;

/// The definitions in memory are UTF-8.
const NAMES: &str = "SET NAMES utf8mb4";

/// A source with its snapshot open and no rows read yet.
pub struct Source {
    /// Vendor and version, for messages.
    pub server: String,
    control: Connection,
    /// `None` for a plan, which opens no snapshot.
    snapshot: Option<Snapshot>,
    plan: Plan,
    /// Definitions that go before the rows: a name for messages, and the SQL.
    schemas: Vec<(String, Vec<u8>)>,
    /// Definitions that go after the rows.
    programs: Option<Vec<u8>>,
}

/// What the source reports at the end.
#[derive(Default)]
pub struct SourceReport {
    pub snapshot: SnapshotInfo,
    pub read: Read,
    pub notes: Vec<String>,
    /// The open snapshot, kept for the comparison.
    pub kept: Option<Box<ServerSide>>,
}

pub fn connect(options: &CopyOptions, cancel: &Cancel) -> Result<Connection, DumpError> {
    Ok(session::connect(&options.dump.read, cancel)?)
}

impl Source {
    /// Opens the snapshot and reads its definitions.
    pub fn open(options: &CopyOptions, run: &Run, cancel: &Cancel) -> Result<Self, DumpError> {
        let mut control = connect(options, cancel)?;
        let _kill = kill_on_cancel(cancel, &control);
        let run = Run {
            cancel: cancel.clone(),
            ..run.clone()
        };
        cost::can_be_watched(&mut control, &options.dump)?;
        let (snapshot, plan) = moment::moment(&options.dump.read, &run, &mut control, true)?;
        for note in &plan.notes {
            run.events.warn(note.clone());
        }
        Self::of(&options.dump, control, Some(snapshot), plan)
    }

    /// Reads the definitions without opening a snapshot.
    pub fn look(options: &CopyOptions, cancel: &Cancel) -> Result<Self, DumpError> {
        let mut control = connect(options, cancel)?;
        cost::can_be_watched(&mut control, &options.dump)?;
        let plan = moment::look(&options.dump.read, &mut control, true)?;
        Self::of(&options.dump, control, None, plan)
    }

    fn of(
        options: &DumpOptions,
        mut control: Connection,
        snapshot: Option<Snapshot>,
        plan: Plan,
    ) -> Result<Self, DumpError> {
        let mut schemas = Vec::with_capacity(plan.databases.len());
        for (database, tables) in plan.databases.iter().zip(&plan.tables) {
            let text = schema::of_database(&mut control, database, tables)?;
            schemas.push((format!("definitions of database {}", database.name), text));
        }
        let server = control.server();
        Ok(Self {
            server: format!("{} {}", server.vendor, server.version_string),
            schemas,
            programs: schema::of_programs(options, &plan.collations, &plan.programs),
            plan,
            control,
            snapshot,
        })
    }

    /// What is not copied, and other things to know.
    pub fn notes(&self) -> &[String] {
        &self.plan.notes
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.plan.tables.iter().flatten()
    }

    /// The layout for the target to load, and the stream inside it.
    pub fn layout(&mut self, options: &CopyOptions) -> (Layout, Arc<RowStream>) {
        let tables = self
            .tables()
            .map(|table| table.streamed(!options.dump.read.no_data));
        let stream = Arc::new(RowStream::new(tables.collect()));
        let name = options.dump.read.source.describe();
        let mut layout = Layout::new(SourceFormat::Server, Path::new(&name));
        layout.written_by = Some(self.server.clone());
        let session = native::SESSION.iter().chain([&NAMES]);
        layout.session = session.map(|text| (*text).to_owned()).collect();
        for (name, text) in std::mem::take(&mut self.schemas) {
            let file = SqlFile::in_memory(&name, text);
            layout.segments.push(Segment::Sql(file));
        }
        layout.segments.push(Segment::Stream(Arc::clone(&stream)));
        if let Some(text) = self.programs.take() {
            let file = SqlFile::in_memory("definitions of views and programs", text);
            layout.segments.push(Segment::Sql(file));
        }
        (layout, stream)
    }

    /// Pushes all rows into the stream. The caller must end the stream afterwards.
    pub fn feed(
        self,
        options: &CopyOptions,
        run: &Run,
        cancel: &Cancel,
        stream: &RowStream,
    ) -> Result<SourceReport, DumpError> {
        let tables: Vec<TableWork> = self
            .tables()
            .map(|table| TableWork::new(table.clone(), String::new()))
            .collect();
        let mut control = self.control;
        let Some(mut snapshot) = self.snapshot else {
            return Ok(SourceReport::default());
        };
        let kill = kill_on_cancel(cancel, &control);
        // Discarded: the target side reports the progress of each table. Rows written count, not
        // rows read.
        let (events, progress) = (Events::new(), Progress::new());
        let reading = Reading {
            options: &options.dump,
            sink: Sink::Stream(stream),
            cancel,
            events: &events,
            progress: &progress,
            shown: &run.progress,
            done: &stream.position,
        };
        let read = reading.read(&tables, &mut snapshot, &mut control)?;
        let info = snapshot.info.clone();
        drop(kill);
        let kept = options.verify.then(|| {
            let options = options.dump.read.clone();
            Box::new(ServerSide::of(control, snapshot, self.plan, options, run))
        });
        Ok(SourceReport {
            read,
            notes: tables
                .iter()
                .flat_map(TableWork::notes)
                .chain(info.caveats())
                .collect(),
            snapshot: info,
            kept,
        })
    }
}
