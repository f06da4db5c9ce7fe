//! Reads dumps of other tools: plain SQL, folders of mydumper, MySQL Shell and `--tab`, delimited
//! text.
//!
//! Such a dump has no digests and does not say what its columns hold. It is read once from
//! beginning to end: one thread cuts statements, the others digest rows. What a literal means
//! depends on its column, which is described by the server the dump is compared with or, failing
//! that, by the dump's own definition. Rows of a table that the dump creates again later do not
//! count.

mod assigned;
mod described;
mod session;
mod table;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use refloat_digest::literals::{Form, LiteralColumn, each_row};
use refloat_digest::rows::{Digest, hash};
use refloat_read::catalog::{Database, wanted_database, wanted_table};
use refloat_read::{ReadOptions, session as connections};
use refloat_run::own_tables::is_own_database;
use refloat_run::{Cancel, Refusal, Run, kill_on_cancel};
use refloat_schema::columns::Column;
use refloat_schema::definition::{ServerVersion, is_ignored_by};
use refloat_schema::pattern::is_system_database;
use refloat_source::delimited::{Decode, DelimitedFile};
use refloat_source::layout::{Layout, TableRows};
use refloat_source::manifest::SnapshotInfo;
use refloat_source::{SourceError, SourceFormat, open_folder};
use refloat_sqltext::{InsertHeader, InsertVerb, Item, ObjectName, StatementKind, head};
use refloat_store::{Input, LooksLike, Unpacked, files};
use refloat_wire::{ConnectOptions, Connection};

use self::described::by_server;
use self::session::Session;
use self::walk::{Dump, Place, Walker};
use super::error::VerifyError;
use super::options::VerifyOptions;
use super::schema::{Definitions, Reader};
use crate::options::read_options;

pub use self::described::Definition;
pub use self::table::OtherTable;

/// Pieces of rows that may wait, per thread.
const WAITING: usize = 4;
/// A larger piece, which is a single row, is digested at once: several of them in the queue would
/// need too much memory.
const LARGE: usize = 16 << 20;
/// How consistent the dump of another tool is.
const NOT_SAID: &str = "dumps of other tools do not say";
/// Why the rows of a table may be those of another one.
const TEMPORARY: &str = "the dump has a temporary table of this name";

/// A dump of another tool that has been read.
pub struct OtherDump {
    dump: Dump,
    /// The unpacked archive, removed on drop.
    _unpacked: Option<Unpacked>,
    /// Vendor (`MariaDB` or `MySQL`) and version, if the dump states them.
    pub server: Option<(String, String)>,
    /// When the dump was made, as far as it says so.
    pub snapshot: SnapshotInfo,
    /// The server that it is compared with.
    seen_by: Option<ServerVersion>,
    /// Every table that the dump creates or has rows for.
    tables: Vec<OtherTable>,
    /// Its databases, with the names of their objects.
    pub databases: Vec<Database>,
    /// What its statements define.
    pub definitions: Definitions,
    /// Caveats for the user.
    pub notes: Vec<String>,
}

/// Rows of one table on their way to the thread that digests them.
struct Piece {
    /// Index of the table, and its epoch.
    of: (usize, u32),
    columns: Arc<[LiteralColumn]>,
    targets: Arc<[Option<usize>]>,
    form: Arc<Form>,
    file: Arc<str>,
    line: u64,
    text: Vec<u8>,
}

impl Piece {
    /// Hands over its rows. Returns file, line and reason for the first row whose values are not
    /// certain, and stops there.
    fn rows(&self, each: &mut dyn FnMut(&[u8])) -> Option<String> {
        let result = each_row(&self.text, &self.form, &self.columns, &self.targets, each);
        let (at, why) = result.err()?;
        let before = &self.text[..at.min(self.text.len())];
        let line = self.line + memchr::memchr_iter(b'\n', before).count() as u64;
        Some(format!("{}, line {line}: {why}", self.file))
    }

    /// Adds its rows to those of its table.
    fn digest(&self, sums: &mut Sums) {
        let sum = sums.entry(self.of).or_default();
        sum.bytes += self.text.len() as u64;
        let problem = self.rows(&mut |row| sum.digest.add(hash(row)));
        sum.problem = sum.problem.take().or(problem);
    }
}

/// Totals for one epoch of a table.
#[derive(Default)]
struct Sum {
    digest: Digest,
    bytes: u64,
    problem: Option<String>,
}

impl Sum {
    fn merge(&mut self, other: Self) {
        self.digest.merge(other.digest);
        self.bytes += other.bytes;
        self.problem = self.problem.take().or(other.problem);
    }
}

/// Totals by index and epoch of the table.
type Sums = HashMap<(usize, u32), Sum>;

/// Digests pieces until there are no more.
fn digest(pieces: &Mutex<Receiver<Piece>>) -> Sums {
    let mut sums = Sums::new();
    loop {
        let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(piece) = next else {
            return sums;
        };
        piece.digest(&mut sums);
    }
}

impl OtherDump {
    /// Reads a dump. `other` is the server it is compared with, if there is one.
    ///
    /// # Errors
    /// The path is not a dump, or the dump is damaged or incomplete.
    pub fn open(
        path: &Path,
        unpacked: Option<Unpacked>,
        options: &VerifyOptions,
        other: Option<&ConnectOptions>,
        run: &Run,
    ) -> Result<Self, VerifyError> {
        let root = unpacked.as_ref().map_or(path, Unpacked::root);
        let database = options.database.as_ref();
        let database = database.or_else(|| other.and_then(|other| other.database.as_ref()));
        let layout = layout(root, options)?;
        let mut server = match other {
            Some(other) => Some(connections::connect(
                &read_options(options, other),
                &run.cancel,
            )?),
            None => None,
        };
        let dump = Dump {
            layout,
            path: root.to_owned(),
            database: database.cloned(),
            may_be_open: options.accept_missing_trailer,
            progress: run.progress.clone(),
        };
        if let Some(fault) = dump.layout.iter().flat_map(|layout| &layout.faults).next() {
            let what = format!("the dump is not whole: {fault}");
            return Err(VerifyError::damaged(path, what));
        }
        let threads = options.threads.max(1);
        let (sender, receiver) = sync_channel::<Piece>(threads * WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let _kill = server
            .as_ref()
            .map(|conn| kill_on_cancel(&run.cancel, conn));
        let (read, sums) = std::thread::scope(|scope| {
            let spawn = |_| {
                let receiver = Arc::clone(&receiver);
                scope.spawn(move || digest(&receiver))
            };
            let workers: Vec<_> = (0..threads).map(spawn).collect();
            // Only the workers hold it from now on: if all of them have panicked, sending fails
            // instead of waiting forever.
            drop(receiver);
            let mut sums = Sums::new();
            let mut sink = |piece: Piece| {
                if piece.text.len() > LARGE {
                    piece.digest(&mut sums);
                } else {
                    // This fails only if all workers have panicked; joining them below reports
                    // that.
                    let _ = sender.send(piece);
                }
                ControlFlow::Continue(())
            };
            let mut collector = Collector::new(options, server.as_mut(), &mut sink);
            for name in dump.layout.iter().flat_map(Layout::databases) {
                collector.database(name);
            }
            let walked = dump
                .walk(&run.cancel, &mut collector)
                .and_then(|()| collector.decide_empty());
            let mut read = collector.read;
            read.seen_by = collector.seen_by;
            read.definitions = collector.reader.found;
            drop(sender);
            for worker in workers {
                match worker.join() {
                    Ok(found) => {
                        for (key, sum) in found {
                            sums.entry(key).or_default().merge(sum);
                        }
                    }
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            walked.map(|()| (read, sums))
        })?;
        let found = Self::of(dump, unpacked, options, read, sums);
        if found.tables.is_empty() && found.databases.is_empty() && found.definitions.is_empty() {
            return Err(VerifyError::Refused(Refusal {
                reason: format!("nothing was found in {} that is in a dump", path.display()),
                hint: "`refloat inspect` says what it is. --databases and --tables leave out what they do not name."
                    .to_owned(),
            }));
        }
        Ok(found)
    }

    /// Puts together what was read.
    fn of(
        dump: Dump,
        unpacked: Option<Unpacked>,
        options: &VerifyOptions,
        read: Read,
        mut sums: Sums,
    ) -> Self {
        let Read {
            mut tables,
            mut databases,
            mut definitions,
            altered,
            server,
            seen_by,
            snapshot,
            notes,
            doubt,
            ..
        } = read;
        for (place, table) in tables.iter_mut().enumerate() {
            if let Some(sum) = sums.remove(&(place, table.epoch)) {
                table.digest = sum.digest;
                table.bytes = sum.bytes;
                table.problem = table.problem.take().or(sum.problem);
            }
            if let Some(why) = &doubt {
                table.doubt(why);
            }
            if table.exists {
                let of = databases.entry(table.database.clone()).or_default();
                of.tables.push(table.name.clone());
                let label = table.label();
                if altered.contains(&label) {
                    definitions.forget_table(&label);
                }
                if !definitions.has("table", &label) {
                    definitions.undefined.insert(label);
                }
            }
        }
        let asked = read_options(options, &ConnectOptions::default());
        let databases = databases.into_iter().map(|(name, mut of)| {
            of.name = name;
            of.tables.sort_unstable();
            of
        });
        let databases: Vec<Database> = databases
            .filter(|of| wanted_database(&asked, &of.name))
            .filter(|of| {
                let programs = definitions.has_programs(&of.name);
                !is_own_database(&of.name, of.objects()) || programs
            })
            .collect();
        definitions.forget_own_beside(&databases);
        Self {
            databases,
            dump,
            _unpacked: unpacked,
            server,
            snapshot: snapshot.unwrap_or_else(|| SnapshotInfo {
                at: "a moment that it does not tell".to_owned(),
                method: NOT_SAID.to_owned(),
                ..SnapshotInfo::default()
            }),
            tables,
            definitions,
            notes,
            seen_by,
        }
    }

    /// The tables that exist at the end of the dump.
    pub fn tables(&self) -> impl Iterator<Item = &OtherTable> {
        self.tables.iter().filter(|table| table.exists)
    }

    /// Hands over the rows of one table. This reads the whole dump again.
    ///
    /// # Errors
    /// As for [`OtherDump::open`].
    pub fn rows(
        &self,
        table: &OtherTable,
        options: &VerifyOptions,
        cancel: &Cancel,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), VerifyError> {
        let known = |of: &OtherTable| (of.database.clone(), of.name.clone());
        let place = self.tables.iter().position(|of| known(of) == known(table));
        let mut sink = |piece: Piece| {
            let mut flow = ControlFlow::Continue(());
            if Some(piece.of.0) == place && piece.of.1 == table.epoch {
                piece.rows(&mut |row| {
                    if flow.is_continue() {
                        flow = each(row);
                    }
                });
            }
            flow
        };
        let mut collector = Collector::new(options, None, &mut sink);
        collector.seen_by = self.seen_by;
        collector.add_tables(&self.tables);
        self.dump.walk(cancel, &mut collector)
    }
}

/// The layout of a folder or of delimited text; `None` for a single SQL file.
fn layout(root: &Path, options: &VerifyOptions) -> Result<Option<Layout>, VerifyError> {
    let (format, delimited) = (options.source_format, &options.delimited);
    if files::is_folder(root) {
        return Ok(Some(open_folder(root, format, delimited)?));
    }
    if format == Some(SourceFormat::Delimited) || delimited.table.is_some() {
        return Ok(Some(delimited.layout(root)?));
    }
    let mut input = Input::open(root).map_err(SourceError::from)?;
    let content = input.content().map_err(SourceError::from)?;
    if !matches!(content, LooksLike::Sql | LooksLike::Text) {
        return Err(VerifyError::Refused(Refusal {
            reason: format!("{} is not a dump: it looks like {content}", root.display()),
            hint: "Name the file or folder of a dump, or the URL of a server (mysql://…)."
                .to_owned(),
        }));
    }
    Ok(None)
}

/// What is gathered while reading.
#[derive(Default)]
struct Read {
    tables: Vec<OtherTable>,
    places: HashMap<(String, String), usize>,
    databases: BTreeMap<String, Database>,
    definitions: Definitions,
    /// Tables that end as something else than what the dump creates.
    altered: BTreeSet<String>,
    /// Database and name of everything that is a view at this point of the dump.
    views: BTreeSet<(String, String)>,
    server: Option<(String, String)>,
    seen_by: Option<ServerVersion>,
    snapshot: Option<SnapshotInfo>,
    notes: Vec<String>,
    /// Why no table's rows can be compared.
    doubt: Option<String>,
    /// Statements for which a note has been made already.
    noted: BTreeSet<&'static str>,
}

/// Gathers definitions and passes rows to a sink.
struct Collector<'a> {
    asked: ReadOptions,
    /// The server that is compared with.
    seen_by: Option<ServerVersion>,
    server: Option<&'a mut Connection>,
    sink: &'a mut dyn FnMut(Piece) -> ControlFlow<()>,
    reader: Reader<'a>,
    read: Read,
}

impl<'a> Collector<'a> {
    fn new(
        options: &'a VerifyOptions,
        server: Option<&'a mut Connection>,
        sink: &'a mut dyn FnMut(Piece) -> ControlFlow<()>,
    ) -> Self {
        Self {
            asked: read_options(options, &ConnectOptions::default()),
            seen_by: server.as_ref().map(|conn| conn.server().into()),
            server,
            sink,
            reader: Reader::new(options),
            read: Read::default(),
        }
    }

    /// Starts with tables whose columns are already decided.
    fn add_tables(&mut self, tables: &[OtherTable]) {
        for (place, table) in tables.iter().enumerate() {
            let name = (table.database.clone(), table.name.clone());
            self.read.places.insert(name, place);
            self.read.tables.push(table.for_another_reading());
        }
    }

    fn database(&mut self, name: &str) {
        if wanted_database(&self.asked, name) {
            self.read.databases.entry(name.to_owned()).or_default();
        }
    }

    /// Records a view or sequence.
    fn object(
        &mut self,
        place: &Place,
        name: &ObjectName,
        list: fn(&mut Database) -> &mut Vec<String>,
    ) {
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let qualifier = name.database.as_deref().map(words);
        let Some(database) = qualifier.or_else(|| place.database.clone()) else {
            return;
        };
        let name = words(&name.name);
        if wanted_table(&self.asked, &database, &name) {
            let of = list(self.read.databases.entry(database).or_default());
            if !of.contains(&name) {
                of.push(name);
            }
        }
    }

    /// Index of a table; `None` if it is not to be compared.
    fn table(&mut self, database: Option<&str>, table: &str) -> Result<Option<usize>, VerifyError> {
        let Some(database) = database else {
            return Err(VerifyError::Refused(Refusal {
                reason: format!("the dump does not say in which database table {table} is"),
                hint: "Name it in the URL of the other side: mysql://USER@HOST/DATABASE."
                    .to_owned(),
            }));
        };
        if is_system_database(database)
            || !wanted_database(&self.asked, database)
            || !wanted_table(&self.asked, database, table)
        {
            return Ok(None);
        }
        let name = (database.to_owned(), table.to_owned());
        if let Some(place) = self.read.places.get(&name) {
            return Ok(Some(*place));
        }
        let place = self.read.tables.len();
        self.read.tables.push(OtherTable::new(&name.0, &name.1));
        self.read.places.insert(name, place);
        Ok(Some(place))
    }

    fn named(
        &mut self,
        place: &Place,
        name: &ObjectName,
    ) -> Result<Option<&mut OtherTable>, VerifyError> {
        let qualifier = name.database.as_deref().map(text_of).transpose()?;
        let database = qualifier.or(place.database.as_deref());
        let found = self.table(database, text_of(&name.name)?)?;
        Ok(found.map(|place| &mut self.read.tables[place]))
    }

    /// Decides which columns of a table are compared: with its first rows, or at the end if it has
    /// none.
    fn decide(
        &mut self,
        index: usize,
        session: &Session,
        names: Option<&[String]>,
    ) -> Result<(), VerifyError> {
        let table = &mut self.read.tables[index];
        if table.is_decided() {
            return Ok(());
        }
        if let Some(server) = &mut self.server {
            let found = by_server(server, &table.database, &table.name)?;
            if !found.is_empty() {
                table.described = found;
            }
        }
        table.decide(names, session);
        Ok(())
    }

    /// Decides for tables without rows.
    fn decide_empty(&mut self) -> Result<(), VerifyError> {
        let mut session = Session::default();
        session.set(b"SET time_zone = '+00:00'");
        for index in 0..self.read.tables.len() {
            let table = &self.read.tables[index];
            if table.exists {
                // No row says which columns it leaves out.
                let stored = table.described.iter().filter(|column| !column.generated);
                let names: Vec<String> = stored.map(|column| column.name.clone()).collect();
                let names = Some(names.as_slice()).filter(|names| !names.is_empty());
                self.decide(index, &session, names)?;
            }
        }
        Ok(())
    }

    /// Passes rows on.
    fn rows(
        &mut self,
        index: usize,
        place: &Place,
        names: Option<&[String]>,
        line: u64,
        (form, text): (Form, &[u8]),
    ) -> Result<ControlFlow<()>, VerifyError> {
        if self.read.tables[index].sequence {
            return Ok(ControlFlow::Continue(()));
        }
        self.decide(index, &place.session, names)?;
        let table = &mut self.read.tables[index];
        table.exists = true;
        if table.problem.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        if !table.is_as_decided(&place.session) {
            table.doubt("its rows are told in several character sets or time zones");
        } else if place.session.is_converted() {
            table.doubt("its text goes through another character set than its own");
        } else if place.session.history() {
            table.doubt("its rows may be of the past");
        }
        match table.targets(names) {
            Err(why) => {
                table.doubt(why);
                Ok(ControlFlow::Continue(()))
            }
            Ok(targets) => Ok((self.sink)(Piece {
                of: (index, table.epoch),
                columns: table.columns.as_slice().into(),
                targets: targets.into(),
                form: Arc::new(form),
                file: Arc::clone(&place.file),
                line,
                text: text.to_vec(),
            })),
        }
    }

    /// Records a table and its definition. `copied` tells whether another table decides about it.
    fn create_table(
        &mut self,
        place: &Place,
        name: &ObjectName,
        definition: Definition,
        if_not_exists: bool,
        copied: bool,
    ) -> Result<(), VerifyError> {
        self.read.views.remove(&full_name(place, name));
        if definition.sequence {
            self.object(place, name, |of| &mut of.sequences);
        }
        if let Some(table) = self.named(place, name)?
            && table.created(if_not_exists, definition.or_replace)
        {
            table.sequence = definition.sequence;
            table.exists = !definition.sequence;
            if !table.is_decided() {
                table.listed = definition.listed();
                table.described = definition.columns;
            }
            if copied {
                table.doubt("the dump makes it from another table");
            }
        }
        Ok(())
    }

    fn drop_tables(
        &mut self,
        place: &Place,
        names: &[ObjectName],
        text: &[u8],
    ) -> Result<(), VerifyError> {
        // With TEMPORARY, it is not certain which of two tables of the same name is dropped.
        let temporary = memchr::memmem::find(&text.to_ascii_uppercase(), b"TEMPORARY");
        for name in names {
            match self.named(place, name)? {
                Some(table) if temporary.is_some() => table.doubt(TEMPORARY),
                Some(table) => table.dropped(),
                None => {}
            }
        }
        Ok(())
    }

    fn alter_table(
        &mut self,
        place: &Place,
        name: &ObjectName,
        line: u64,
        text: &[u8],
    ) -> Result<(), VerifyError> {
        if let Some(table) = self.named(place, name)? {
            let label = table.label();
            if only_adds_keys(text) || only_numbers_a_column(text, &table.described) {
                self.not_followed("ALTER TABLE", place, line);
            } else {
                table.doubt(format!(
                    "{}, line {line}: the dump changes it by ALTER TABLE",
                    place.file
                ));
            }
            self.read.altered.insert(label);
        }
        Ok(())
    }

    /// Forgets a view; returns whether there was one.
    fn drop_view(&mut self, place: &Place, name: &ObjectName) -> bool {
        let view = full_name(place, name);
        if let Some(of) = self.read.databases.get_mut(&view.0) {
            of.views.retain(|known| *known != view.1);
        }
        self.read.views.remove(&view)
    }

    /// A table or view gets another name. Where rows go is not followed.
    fn rename(
        &mut self,
        place: &Place,
        from: &ObjectName,
        to: &ObjectName,
    ) -> Result<(), VerifyError> {
        if self.drop_view(place, from) {
            self.read.views.insert(full_name(place, to));
            self.object(place, to, |of| &mut of.views);
            return Ok(());
        }
        if let Some(table) = self.named(place, from)? {
            table.dropped();
        }
        if let Some(table) = self.named(place, to)? {
            table.dropped();
            table.exists = true;
        }
        Ok(())
    }

    /// A statement may have changed any rows, so none can be compared.
    fn doubt(&mut self, place: &Place, line: u64, text: &[u8]) {
        if self.read.doubt.is_none() {
            self.read.doubt = Some(format!(
                "{}, line {line}: what this does to rows is not followed: {}",
                place.file,
                head(text)
            ));
        }
    }

    /// Notes, once per kind of statement, that its effect on rows is not tracked.
    fn not_followed(&mut self, what: &'static str, place: &Place, line: u64) {
        if self.read.noted.insert(what) {
            self.read.notes.push(format!(
                "{}, line {line}: {what}: what it does is not followed here, and may show as a difference",
                place.file
            ));
        }
    }
}

impl Walker for Collector<'_> {
    /// Not what stands in a conditional comment for other servers.
    fn runs(&self, place: &Place, text: &[u8]) -> bool {
        let mode = place.session.mode();
        self.seen_by
            .is_none_or(|server| !is_ignored_by(server, text, mode))
    }

    fn file(&mut self, place: &Place) {
        self.reader.enter(place.database.as_deref());
    }

    fn statement(
        &mut self,
        place: &Place,
        item: &Item,
        kind: &StatementKind,
        text: &[u8],
    ) -> Result<ControlFlow<()>, VerifyError> {
        if matches!(kind, StatementKind::Insert)
            && let Some((header, row)) = assigned::row(text, place.session.mode())
        {
            return self.tuples(place, item.line, (&Arc::new(header), &row));
        }
        match kind {
            StatementKind::CreateDatabase { database, .. } => {
                self.database(&String::from_utf8_lossy(database));
            }
            StatementKind::CreateTable {
                table,
                temporary: true,
                ..
            } => {
                if let Some(table) = self.named(place, table)? {
                    table.doubt(TEMPORARY);
                }
            }
            StatementKind::DropView { views } => {
                for view in views {
                    self.drop_view(place, view);
                }
            }
            StatementKind::CreateTable {
                table: name,
                if_not_exists,
                like,
                select,
                ..
            } => {
                let definition = Definition::of(text, place.session.mode());
                let copied = *like || *select;
                self.create_table(place, name, definition, *if_not_exists, copied)?;
            }
            StatementKind::CreateView { view } => {
                self.read.views.insert(full_name(place, view));
                self.object(place, view, |of| &mut of.views);
            }
            StatementKind::CreateSequence { sequence } => {
                self.object(place, sequence, |of| &mut of.sequences);
            }
            StatementKind::DropTable { tables } => self.drop_tables(place, tables, text)?,
            StatementKind::DropDatabase { database } => {
                let name = String::from_utf8_lossy(database);
                let tables = self.read.tables.iter_mut();
                tables
                    .filter(|table| table.database == name)
                    .for_each(OtherTable::dropped);
            }
            StatementKind::Truncate { table } => {
                if let Some(table) = self.named(place, table)? {
                    table.emptied();
                }
            }
            StatementKind::RenameTable { names } => {
                for (from, to) in names {
                    self.rename(place, from, to)?;
                }
                self.doubt(place, item.line, text);
            }
            StatementKind::AlterTable {
                table,
                renamed: Some(to),
            } => {
                self.rename(place, table, to)?;
                self.doubt(place, item.line, text);
            }
            StatementKind::AlterTable { table, .. } => {
                self.alter_table(place, table, item.line, text)?;
            }
            // Programs have files of their own, which may contain statements that are not
            // recognised.
            StatementKind::Other if place.programs => {}
            StatementKind::Insert
            | StatementKind::Delete
            | StatementKind::Update
            | StatementKind::Call
            | StatementKind::Dangerous(_)
            | StatementKind::Other => self.doubt(place, item.line, text),
            StatementKind::Index => self.not_followed("CREATE INDEX", place, item.line),
            // The rest changes no rows, or only those of the server's own tables.
            _ => {}
        }
        self.reader.statement(kind, text);
        Ok(ControlFlow::Continue(()))
    }

    fn comment(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let text = text.trim_start_matches("-- ");
        if let Some(version) = text.strip_prefix("Server version") {
            let version = version.trim().to_owned();
            let vendor = if version.contains("MariaDB") {
                "MariaDB"
            } else {
                "MySQL"
            };
            self.read.server = Some((vendor.to_owned(), version));
        } else if let Some(at) = text.strip_prefix("Dump completed on ") {
            self.read.snapshot = Some(SnapshotInfo {
                at: at.trim().to_owned(),
                method: NOT_SAID.to_owned(),
                ..SnapshotInfo::default()
            });
        } else if let Some(about) = text.strip_prefix("refloat dump ") {
            let server = about.split_once(" of ").map_or("", |(_, server)| server);
            let server = server.trim().split_once(' ');
            self.read.server = server.map(|(vendor, version)| (vendor.into(), version.into()));
        } else if let Some(snapshot) = text.strip_prefix("Snapshot: ") {
            self.read.snapshot = serde_json::from_str(snapshot).ok();
        }
    }

    fn tuples(
        &mut self,
        place: &Place,
        line: u64,
        (header, text): (&Arc<InsertHeader>, &[u8]),
    ) -> Result<ControlFlow<()>, VerifyError> {
        let qualifier = header.database.as_deref().map(text_of).transpose()?;
        let database = qualifier.or(place.database.as_deref());
        let table = text_of(&header.table)?;
        let full = (database.unwrap_or_default().to_owned(), table.to_owned());
        if self.read.views.contains(&full) {
            // These are rows of another table, and only the view knows which.
            self.doubt(place, line, &header.text);
            return Ok(ControlFlow::Continue(()));
        }
        let Some(index) = self.table(database, table)? else {
            return Ok(ControlFlow::Continue(()));
        };
        match header.verb {
            InsertVerb::Insert => {}
            InsertVerb::InsertIgnore => {
                self.read.tables[index].overwrites = Some("INSERT IGNORE");
                self.not_followed("rows by INSERT IGNORE", place, line);
            }
            InsertVerb::Replace => {
                self.read.tables[index].overwrites = Some("REPLACE");
                self.not_followed("rows by REPLACE", place, line);
            }
        }
        let names = header.columns.as_deref();
        let owned = |name: &Vec<u8>| text_of(name).map(str::to_owned);
        let names: Option<Vec<String>> = names
            .map(|names| names.iter().map(owned).collect())
            .transpose()?;
        let form = Form::Tuples(place.session.mode());
        self.rows(index, place, names.as_deref(), line, (form, text))
    }

    fn delimited(
        &mut self,
        place: &Place,
        line: u64,
        (rows, file): (&TableRows, &DelimitedFile),
        header: Option<&[String]>,
        text: &[u8],
    ) -> Result<ControlFlow<()>, VerifyError> {
        let name = file.table.as_ref().unwrap_or(&rows.table);
        let Some(index) = self.table(place.database.as_deref(), name)? else {
            return Ok(ControlFlow::Continue(()));
        };
        let decode: Vec<Decode> = match &file.fields {
            Some(fields) => fields.iter().map(|(_, decode)| *decode).collect(),
            None => Vec::new(),
        };
        // A field that belongs to no column is skipped when rows are read.
        let names: Option<Vec<String>> = match &file.fields {
            Some(fields) => {
                let read = fields.iter().filter(|(_, decode)| *decode != Decode::Skip);
                Some(read.map(|(name, _)| name.clone()).collect())
            }
            None => header.map(<[String]>::to_vec),
        };
        let form = Form::Delimited(file.format.clone(), decode);
        self.rows(index, place, names.as_deref(), line, (form, text))
    }
}

/// Database and name of the object; the database is empty if neither the statement nor the dump
/// names one.
fn full_name(place: &Place, name: &ObjectName) -> (String, String) {
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let qualifier = name.database.as_deref().map(words);
    let database = qualifier.or_else(|| place.database.clone());
    (database.unwrap_or_default(), words(&name.name))
}

/// Whether an `ALTER TABLE` only adds keys and constraints.
fn only_adds_keys(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_uppercase();
    let others = [
        "DROP",
        "MODIFY",
        "CHANGE",
        "CONVERT",
        "RENAME",
        "COLUMN",
        "PARTITION",
        "EXCHANGE",
    ];
    let keys = ["KEY", "INDEX", "CONSTRAINT", "CHECK"];
    !others.iter().any(|word| text.contains(word)) && keys.iter().any(|word| text.contains(word))
}

/// Whether an `ALTER TABLE` only makes an integer column `AUTO_INCREMENT`, as phpMyAdmin does at
/// the end of a dump.
fn only_numbers_a_column(text: &[u8], columns: &[Column]) -> bool {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let clause = text.split_once(" modify `");
    let Some((name, definition)) = clause.and_then(|(_, clause)| clause.split_once("` ")) else {
        return false;
    };
    let Some((kind, next)) = definition.split_once(" not null auto_increment") else {
        return false;
    };
    // Display widths do not matter.
    let meaning = |kind: &str| {
        let word = kind.chars().take_while(char::is_ascii_alphanumeric);
        (word.collect::<String>(), kind.contains("unsigned"))
    };
    let is_the_same = |column: &Column| {
        column.name.to_lowercase() == name
            && meaning(&column.type_text.to_lowercase()) == meaning(kind)
    };
    let next: String = next.split_whitespace().collect();
    let next = next.strip_prefix(",auto_increment=").unwrap_or(&next);
    columns.iter().any(is_the_same) && next.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name as UTF-8. In any other character set two names could look the same.
fn text_of(name: &[u8]) -> Result<&str, VerifyError> {
    std::str::from_utf8(name).map_err(|_| {
        VerifyError::Refused(Refusal {
            reason: format!(
                "the dump has a name that is not UTF-8: {}",
                String::from_utf8_lossy(name)
            ),
            hint: "Such a dump can be loaded, but not compared with anything.".to_owned(),
        })
    })
}
