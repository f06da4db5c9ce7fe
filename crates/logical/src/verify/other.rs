//! A dump of another tool: plain SQL, folders of mydumper, MySQL Shell and `--tab`, delimited text.
//!
//! Such a dump has no digests, and does not say what its columns hold. It is read once from its beginning to its end: one thread
//! cuts statements, the others digest rows. What a literal means is known by the column, which the server tells that the
//! dump is compared with, or else the dump's own definition. Rows of a table that is created anew later do not count.

mod cells;
mod described;
mod session;
mod walk;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use refloat_run::{Cancel, Run};
use refloat_sqltext::{InsertHeader, InsertVerb, Item, ObjectName, StatementKind};
use refloat_store::{Input, LooksLike, Unpacked};
use refloat_wire::{ConnectOptions, Connection};

use self::cells::{Form, each_row};
use self::described::{Described, by_definition, by_server};
use self::walk::{Dump, Place, Walker};
use super::digest::{Digest, hash};
use super::error::VerifyError;
use super::options::VerifyOptions;
use super::schema::{Definitions, Reader};
use super::side::asked;
use crate::dump::catalog::{Database, wanted_database, wanted_table};
use crate::dump::{DumpOptions, session as connections};
use crate::load::pattern::is_system_database;
use crate::source::delimited::Decode;
use crate::source::layout::{DelimitedFile, Layout, TableRows};
use crate::source::{SourceError, SourceFormat, open_folder};

pub use self::cells::{Domain, OtherColumn};
pub use self::described::is_sequence;

/// Pieces of rows that wait for each thread.
const WAITING: usize = 4;

/// A dump of another tool, read.
pub struct OtherDump {
    dump: Dump,
    /// What an archive was unpacked into.
    _unpacked: Option<Unpacked>,
    /// `MariaDB` or `MySQL`, and the version, as far as the dump says.
    pub server: Option<(String, String)>,
    /// When it was made, as far as it says.
    pub at: Option<String>,
    /// All tables that it creates or has rows for.
    tables: Vec<OtherTable>,
    /// Its databases, with what is in them.
    pub databases: Vec<Database>,
    /// Its definitions.
    pub definitions: Definitions,
    /// What somebody should know of it.
    pub notes: Vec<String>,
}

/// A table of such a dump.
#[derive(Debug, Clone, Default)]
pub struct OtherTable {
    /// Database.
    pub database: String,
    /// Name.
    pub name: String,
    /// Columns that are compared, in the order in which a row is hashed.
    pub columns: Vec<OtherColumn>,
    /// The digest of its rows.
    pub digest: Digest,
    /// Bytes of its rows, as they are written.
    pub bytes: u64,
    /// Why nothing can be said of its rows.
    pub problem: Option<String>,
    /// Columns that are not compared, and why.
    pub notes: Vec<String>,
    /// All columns; none where they are not known yet.
    described: Vec<Described>,
    /// Whether `columns` says what is compared.
    decided: bool,
    /// How often it was created or emptied: rows of before are gone.
    epoch: u32,
    /// Whether it is there in the end.
    exists: bool,
    /// It is a sequence: what looks like its row is its state.
    sequence: bool,
}

/// Rows of a table on their way to who digests them.
struct Piece {
    /// The table's place, and its epoch.
    of: (usize, u32),
    columns: Arc<[OtherColumn]>,
    targets: Arc<[Option<usize>]>,
    form: Arc<Form>,
    file: Arc<str>,
    line: u64,
    text: Vec<u8>,
}

impl Piece {
    /// Hands over its rows; returns why the first cannot be told whose values are not known.
    fn rows(&self, each: &mut dyn FnMut(&[u8])) -> Option<String> {
        let result = each_row(&self.text, &self.form, &self.columns, &self.targets, each);
        let (at, why) = result.err()?;
        let before = &self.text[..at.min(self.text.len())];
        let line = self.line + memchr::memchr_iter(b'\n', before).count() as u64;
        Some(format!("{}, line {line}: {why}", self.file))
    }
}

/// What was found in the rows of one epoch of a table.
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

/// Sums by the table's place and its epoch.
type Sums = HashMap<(usize, u32), Sum>;

/// Digests pieces until there are no more.
fn digest(pieces: &Mutex<Receiver<Piece>>) -> Sums {
    let mut sums = Sums::new();
    loop {
        let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(piece) = next else {
            return sums;
        };
        let sum = sums.entry(piece.of).or_default();
        sum.bytes += piece.text.len() as u64;
        let problem = piece.rows(&mut |row| sum.digest.add(hash(row)));
        sum.problem = sum.problem.take().or(problem);
    }
}

impl OtherDump {
    /// Reads a dump. `other`: the server that it is compared with, if it is one.
    ///
    /// # Errors
    /// What is no dump, and a dump that is damaged or not whole.
    pub fn open(
        path: &Path,
        unpacked: Option<Unpacked>,
        options: &VerifyOptions,
        other: Option<&ConnectOptions>,
        run: &Run,
    ) -> Result<Self, VerifyError> {
        let root = unpacked.as_ref().map_or(path, Unpacked::root);
        let mut server = match other {
            Some(other) => Some(connections::connect(&asked(options, other), &run.cancel)?),
            None => None,
        };
        let database = options.database.as_ref();
        let database = database.or_else(|| other.and_then(|other| other.database.as_ref()));
        let dump = Dump {
            layout: layout(root, options)?,
            path: root.to_owned(),
            database: database.cloned(),
            progress: run.progress.clone(),
        };
        if let Some(fault) = dump.layout.iter().flat_map(|layout| &layout.faults).next() {
            let what = format!("the dump is not whole: {fault}");
            return Err(VerifyError::damaged(path, what));
        }
        let threads = options.threads.max(1);
        let (sender, receiver) = sync_channel::<Piece>(threads * WAITING);
        let receiver = Mutex::new(receiver);
        let (read, sums) = std::thread::scope(|scope| {
            let spawn = |_| scope.spawn(|| digest(&receiver));
            let workers: Vec<_> = (0..threads).map(spawn).collect();
            let mut sink = |piece: Piece| {
                // Nobody takes it only when all workers have panicked, which is told below.
                let _ = sender.send(piece);
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
            read.definitions = collector.reader.found;
            drop(sender);
            let mut sums = Sums::new();
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
        Ok(Self::of(dump, unpacked, options, read, sums))
    }

    /// What was read, put together.
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
            definitions,
            server,
            at,
            notes,
            ..
        } = read;
        for (place, table) in tables.iter_mut().enumerate() {
            if let Some(sum) = sums.remove(&(place, table.epoch)) {
                table.digest = sum.digest;
                table.bytes = sum.bytes;
                table.problem = table.problem.take().or(sum.problem);
            }
            if table.exists {
                let of = databases.entry(table.database.clone()).or_default();
                of.tables.push(table.name.clone());
            }
        }
        let asked = asked(options, &ConnectOptions::default());
        let databases = databases.into_iter().map(|(name, mut of)| {
            of.name = name;
            of.tables.sort_unstable();
            of
        });
        Self {
            databases: databases
                .filter(|of| wanted_database(&asked, &of.name))
                .collect(),
            dump,
            _unpacked: unpacked,
            server,
            at,
            tables,
            definitions,
            notes,
        }
    }

    /// The tables that are there at the end.
    pub fn tables(&self) -> impl Iterator<Item = &OtherTable> {
        self.tables.iter().filter(|table| table.exists)
    }

    /// Hands over the rows of one table: reads all of the dump once more.
    ///
    /// # Errors
    /// As [`OtherDump::open`].
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
        collector.know(&self.tables);
        self.dump.walk(cancel, &mut collector)
    }
}

/// The files of a folder, or of delimited text; `None` of a file of SQL.
fn layout(root: &Path, options: &VerifyOptions) -> Result<Option<Layout>, VerifyError> {
    let (format, delimited) = (options.source_format, &options.delimited);
    if root.is_dir() {
        return Ok(Some(open_folder(root, format, delimited)?));
    }
    if format == Some(SourceFormat::Delimited) || delimited.table.is_some() {
        return Ok(Some(delimited.layout(root)?));
    }
    let mut input = Input::open(root).map_err(SourceError::from)?;
    let content = input.content().map_err(SourceError::from)?;
    if !matches!(content, LooksLike::Sql | LooksLike::Text) {
        return Err(VerifyError::Refused {
            reason: format!("{} is no dump: it looks like {content}", root.display()),
            hint: "Name the file or folder of a dump, or the URL of a server (mysql://…)."
                .to_owned(),
        });
    }
    Ok(None)
}

/// What is gathered on the way.
#[derive(Default)]
struct Read {
    tables: Vec<OtherTable>,
    places: HashMap<(String, String), usize>,
    databases: BTreeMap<String, Database>,
    definitions: Definitions,
    server: Option<(String, String)>,
    at: Option<String>,
    notes: Vec<String>,
    /// Statements of which it was said that they are not followed.
    told: BTreeSet<&'static str>,
}

/// Gathers definitions, and gives rows to a sink.
struct Collector<'a> {
    asked: DumpOptions,
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
            asked: asked(options, &ConnectOptions::default()),
            server,
            sink,
            reader: Reader::new(options),
            read: Read::default(),
        }
    }

    /// Begins with tables whose columns are decided.
    fn know(&mut self, tables: &[OtherTable]) {
        for (place, table) in tables.iter().enumerate() {
            let name = (table.database.clone(), table.name.clone());
            self.read.places.insert(name, place);
            let mut table = table.clone();
            table.epoch = 0;
            self.read.tables.push(table);
        }
    }

    fn database(&mut self, name: &str) {
        if wanted_database(&self.asked, name) {
            self.read.databases.entry(name.to_owned()).or_default();
        }
    }

    /// Notes a view or sequence.
    fn object(
        &mut self,
        place: &Place,
        name: &ObjectName,
        list: fn(&mut Database) -> &mut Vec<String>,
    ) {
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let own = name.database.as_deref().map(words);
        let Some(database) = own.or_else(|| place.database.clone()) else {
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

    /// The place of a table that is asked for.
    fn table(&mut self, database: Option<&str>, table: &str) -> Result<Option<usize>, VerifyError> {
        let Some(database) = database else {
            return Err(VerifyError::Refused {
                reason: format!("the dump does not say in which database table {table} is"),
                hint: "Name it in the URL of the other side: mysql://USER@HOST/DATABASE."
                    .to_owned(),
            });
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
        self.read.tables.push(OtherTable {
            database: name.0.clone(),
            name: name.1.clone(),
            ..OtherTable::default()
        });
        self.read.places.insert(name, place);
        Ok(Some(place))
    }

    fn named(
        &mut self,
        place: &Place,
        name: &ObjectName,
    ) -> Result<Option<&mut OtherTable>, VerifyError> {
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let own = name.database.as_deref().map(words);
        let database = own.as_deref().or(place.database.as_deref());
        let found = self.table(database, &words(&name.name))?;
        Ok(found.map(|place| &mut self.read.tables[place]))
    }

    /// What the rows of a table are compared by: decided with the first of them, or with its definition where it has none.
    fn decide(
        &mut self,
        index: usize,
        place: &Place,
        names: Option<&[String]>,
    ) -> Result<(), VerifyError> {
        let table = &mut self.read.tables[index];
        if table.decided {
            return Ok(());
        }
        table.decided = true;
        if let Some(server) = &mut self.server {
            let found = by_server(server, &table.database, &table.name)?;
            if !found.is_empty() {
                table.described = found;
            }
        }
        let of_row = |column: &Described| {
            let is_own = |name: &String| name.eq_ignore_ascii_case(&column.name);
            names.map_or(column.visible, |names| names.iter().any(is_own))
        };
        let (charset, zone) = (place.session.charset(), place.session.time_zone());
        for column in &table.described {
            if column.generated || !of_row(column) {
                continue;
            }
            match column.compared(charset, zone) {
                Ok(compared) => table.columns.push(compared),
                Err(why) => table.notes.push(format!(
                    "column {} of table {}.{}: {why}",
                    column.name, table.database, table.name
                )),
            }
        }
        Ok(())
    }

    /// Decides for tables that have no rows.
    fn decide_empty(&mut self) -> Result<(), VerifyError> {
        let mut place = Place::default();
        place.session.set(b"SET time_zone = '+00:00'");
        for index in 0..self.read.tables.len() {
            if self.read.tables[index].exists {
                self.decide(index, &place, None)?;
            }
        }
        Ok(())
    }

    /// Which column each value of a row is for.
    fn targets(table: &OtherTable, names: Option<&[String]>) -> Result<Vec<Option<usize>>, String> {
        let place = |name: &str| {
            let mut columns = table.columns.iter();
            columns.position(|column| column.name.eq_ignore_ascii_case(name))
        };
        let visible = table.described.iter().filter(|column| column.visible);
        let targets: Vec<Option<usize>> = names.map_or_else(
            || visible.map(|column| place(&column.name)).collect(),
            |names| names.iter().map(|name| place(name)).collect(),
        );
        if targets.is_empty() {
            return Err("its columns are not known".to_owned());
        }
        let missing = (0..table.columns.len()).find(|at| !targets.contains(&Some(*at)));
        match missing {
            Some(at) => Err(format!(
                "some of its rows have no value for column {}",
                table.columns[at].name
            )),
            None => Ok(targets),
        }
    }

    /// Gives rows on.
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
        self.decide(index, place, names)?;
        let table = &mut self.read.tables[index];
        table.exists = true;
        if table.problem.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        let told = table
            .columns
            .iter()
            .find_map(|column| column.told_in.as_deref());
        if told.is_some_and(|told| told != place.session.charset()) {
            table.problem = Some("its rows are in several character sets".to_owned());
        } else if place.session.history() {
            table.problem = Some("its rows may be of the past".to_owned());
        }
        match Self::targets(table, names) {
            Err(why) => table.problem = table.problem.take().or(Some(why)),
            Ok(targets) => {
                return Ok((self.sink)(Piece {
                    of: (index, table.epoch),
                    columns: table.columns.as_slice().into(),
                    targets: targets.into(),
                    form: Arc::new(form),
                    file: Arc::clone(&place.file),
                    line,
                    text: text.to_vec(),
                }));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Says once of a kind of statement that what it does to rows is not followed.
    fn not_followed(&mut self, what: &'static str, place: &Place, line: u64) {
        if self.read.told.insert(what) {
            self.read.notes.push(format!(
                "{}, line {line}: {what}: what it does is not followed here, and may show as a difference",
                place.file
            ));
        }
    }
}

impl Walker for Collector<'_> {
    fn file(&mut self, place: &Place) {
        self.reader.enter(place.database.as_deref());
    }

    fn statement(
        &mut self,
        place: &Place,
        item: &Item,
        kind: &StatementKind,
        text: &[u8],
    ) -> Result<(), VerifyError> {
        match kind {
            StatementKind::CreateDatabase { database, .. } => {
                self.database(&String::from_utf8_lossy(database));
            }
            StatementKind::CreateTable {
                table,
                temporary: false,
                like,
                select,
                ..
            } => {
                let mode = place.session.mode();
                let sequence = is_sequence(text, mode);
                if sequence {
                    self.object(place, table, |of| &mut of.sequences);
                }
                if let Some(table) = self.named(place, table)? {
                    table.epoch += 1;
                    table.exists = !sequence;
                    table.sequence = sequence;
                    if *like || *select {
                        let why = "the dump makes it from another table";
                        table.problem = Some(why.to_owned());
                    }
                    if !table.decided {
                        table.described = by_definition(text, mode);
                    }
                }
            }
            StatementKind::CreateView { view } => {
                self.object(place, view, |of| &mut of.views);
            }
            StatementKind::CreateSequence { sequence } => {
                self.object(place, sequence, |of| &mut of.sequences);
            }
            StatementKind::DropTable { tables } => {
                for table in tables {
                    if let Some(table) = self.named(place, table)? {
                        table.epoch += 1;
                        table.exists = false;
                    }
                }
            }
            StatementKind::Truncate { table } => {
                if let Some(table) = self.named(place, table)? {
                    table.epoch += 1;
                }
            }
            StatementKind::AlterTable { .. } => {
                self.not_followed("ALTER TABLE", place, item.line);
            }
            StatementKind::Delete | StatementKind::Update => {
                self.not_followed("a statement that changes rows", place, item.line);
            }
            StatementKind::Dangerous(_) => {
                self.not_followed("a statement that a load never runs", place, item.line);
            }
            StatementKind::Other => {
                self.not_followed("a statement of no known kind", place, item.line);
            }
            _ => {}
        }
        self.reader.statement(kind, text);
        Ok(())
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
            self.read.at = Some(at.trim().to_owned());
        }
    }

    fn tuples(
        &mut self,
        place: &Place,
        line: u64,
        (header, text): (&Arc<InsertHeader>, &[u8]),
    ) -> Result<ControlFlow<()>, VerifyError> {
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let own = header.database.as_deref().map(words);
        let database = own.as_deref().or(place.database.as_deref());
        let Some(index) = self.table(database, &words(&header.table))? else {
            return Ok(ControlFlow::Continue(()));
        };
        match header.verb {
            InsertVerb::Insert => {}
            InsertVerb::InsertIgnore => self.not_followed("rows by INSERT IGNORE", place, line),
            InsertVerb::Replace => self.not_followed("rows by REPLACE", place, line),
        }
        let names = header.columns.as_deref();
        let names: Option<Vec<String>> =
            names.map(|names| names.iter().map(|name| words(name)).collect());
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
        // A field that is for no column is not handed over at all.
        let names: Option<Vec<String>> = match &file.fields {
            Some(fields) => {
                let own = fields.iter().filter(|(_, decode)| *decode != Decode::Skip);
                Some(own.map(|(name, _)| name.clone()).collect())
            }
            None => header.map(<[String]>::to_vec),
        };
        let form = Form::Delimited(file.format.clone(), decode);
        self.rows(index, place, names.as_deref(), line, (form, text))
    }
}
