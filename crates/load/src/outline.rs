//! A quick look at what a dump seems to contain, before anything is changed.
//!
//! In a plain file [`Outline::of`] looks at lines, not at rows, so it reads at the speed of the
//! disk; a plan, which reads the whole dump anyway, passes every statement to [`Gather`]. The
//! outline decides what is *checked beforehand*, never what is run: the conductor reads the dump
//! for real.

mod lines;
mod names;
mod parts;
mod program;
mod spaces;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use refloat_run::Cancel;
use refloat_run::own_tables::is_own_table;
use refloat_schema::pattern::may_choose_in;
use refloat_source::namesake::is_namesake;
use refloat_source::script::origin;
use refloat_sqltext::ddl::parse_create_table;
use refloat_sqltext::{Frame, LexMode, ObjectName, StatementKind, shown};
use refloat_store::{Input, InputError, files};

use super::choice::{Choice, Whose};
use super::error::LoadError;
use super::options::LoadOptions;
use super::verdict::{Facts, Fate, verdict};

pub use names::Named;
pub use parts::{Part, parts};
pub use program::Account;
pub use spaces::Spaces;

/// Plain files up to this size are scanned; for larger ones, a second read from disk costs too
/// much.
const SIZE_MAX: u64 = 8 << 30;
/// The limit for compressed files, by their compressed size: they must be decompressed twice.
const COMPRESSED_MAX: u64 = 1 << 30;
/// Names kept per database; a dump with more tables is checked by its databases only.
const NAMES_MAX: usize = 20_000;
/// Most definers to keep. The same limit holds for engines, and for names of collations, character
/// sets and SQL modes.
const DEFINERS_MAX: usize = 100;
/// The same for refused statements in conditional comments.
const CONDITIONAL_MAX: usize = 100;

/// What a dump seems to contain, as far as the options ask for it.
#[derive(Debug, Default, Clone)]
pub struct Outline {
    /// What it brings into each database; `None` is the target database that the caller chooses.
    pub contents: BTreeMap<Option<String>, Content>,
    /// Databases that it names itself, and the line where it first does.
    pub named: BTreeMap<String, u64>,
    /// Number of `CREATE TABLE` statements.
    pub tables: u64,
    /// Accounts that programs will run as, with the first such program.
    pub definers: BTreeMap<Account, String>,
    /// The first function that does not declare what it does to data.
    pub undeclared: Option<String>,
    /// How it begins and ends.
    pub frame: Frame,
    /// Tables of engines other than InnoDB: database if the dump names it, table, engine, and line
    /// of the definition.
    pub engines: Vec<(Option<String>, String, String, u64)>,
    /// General tablespaces that its tables are in.
    pub spaces: Spaces,
    /// Tables that have the name of one of Refloat's own but are not one, and the line of the
    /// definition.
    pub namesakes: Vec<(String, u64)>,
    /// Collations, character sets and SQL modes named in its statements, and where first.
    pub names: BTreeMap<(Named, String), NamedPlace>,
    /// Whether it creates temporary tables, which hide others of their names.
    pub temporary: bool,
    /// Whether there seems to be a statement that a load would stop at.
    pub suspect: bool,
    /// Statements in conditional comments that a load refuses, unless the server ignores them.
    pub conditional: Vec<(Vec<u8>, LexMode)>,
    /// Whether some pattern of `--tables` matched nothing.
    pub unmatched: bool,
}

/// Where a collation, character set or SQL mode is first named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPlace {
    /// The line of the statement; `None` if it starts a session, and stands in no file.
    pub line: Option<u64>,
    /// Its first characters.
    pub head: String,
    /// Whether any `SET` names it; it then determines how the text of the dump is read.
    pub session: bool,
}

impl NamedPlace {
    /// The place as messages begin with it.
    pub fn at(&self) -> String {
        match self.line {
            None => "sessions of the dump: ".to_owned(),
            Some(line) => format!("line {line}: "),
        }
    }
}

/// What a dump brings into one database.
#[derive(Debug, Default, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one database of a dump"
)]
pub struct Content {
    /// Tables that it creates.
    pub created: Names,
    /// Tables that it has rows for.
    pub filled: Names,
    /// Whether anything is created, changed or dropped, including the database itself.
    pub defines: bool,
    /// Whether it creates the database.
    pub database: bool,
    /// Whether it creates views.
    pub views: bool,
    /// Names of the views it creates.
    pub viewed: Names,
    /// Whether it creates triggers.
    pub triggers: bool,
    /// Whether it creates procedures, functions or packages.
    pub routines: bool,
    /// Whether it creates functions.
    pub functions: bool,
    /// Whether it creates events.
    pub events: bool,
    /// The first statement that may change existing rows, with its line.
    pub changes: Option<(u64, String)>,
}

/// Names of tables, up to a limit.
#[derive(Debug, Default, Clone)]
pub struct Names {
    list: BTreeSet<String>,
    more: bool,
}

impl Names {
    fn add(&mut self, name: String) {
        if self.list.len() < NAMES_MAX {
            self.list.insert(name);
        } else {
            self.more |= !self.list.contains(&name);
        }
    }

    /// Whether the name is among those kept.
    pub fn contains(&self, name: &str) -> bool {
        self.list.contains(name)
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of the names; `None` if there were too many to keep.
    pub fn all(&self) -> Option<&BTreeSet<String>> {
        (!self.more).then_some(&self.list)
    }

    /// The names that are kept.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.list.iter()
    }

    pub fn first(&self) -> Option<&String> {
        self.list.first()
    }
}

impl Outline {
    /// Whether it brings rows and nothing else.
    pub fn is_of_rows(&self) -> bool {
        let defines = |content: &Content| content.defines || !content.created.is_empty();
        !self.temporary && !self.contents.values().any(defines)
    }

    /// Scans a plain file; `None` if it is too large.
    ///
    /// # Errors
    /// If the file cannot be read, and [`LoadError::Interrupted`] if the run is cancelled
    /// meanwhile.
    pub fn of(
        path: &Path,
        name: &str,
        options: &LoadOptions,
        cancel: &Cancel,
    ) -> Result<Option<Self>, LoadError> {
        let failed = |source| {
            LoadError::Input(InputError::Read {
                name: name.to_owned(),
                at: 0,
                source,
            })
        };
        let mut file = files::open(path, 0).map_err(failed)?;
        if files::stat(path).map_err(failed)?.bytes > SIZE_MAX {
            return Ok(None);
        }
        lines::read(&mut file, Gather::new(options), cancel)
            .map_err(failed)?
            .map_or_else(
                || Err(LoadError::interrupted(cancel)),
                |found| Ok(Some(found)),
            )
    }

    /// Scans a compressed file, which is decompressed an extra time for this; `None` if it is too
    /// large, or if it is truncated and that is accepted.
    ///
    /// # Errors
    /// As [`Outline::of`].
    pub fn of_compressed(
        input: &Input,
        options: &LoadOptions,
        cancel: &Cancel,
    ) -> Result<Option<Self>, LoadError> {
        if input
            .total_bytes()
            .is_none_or(|bytes| bytes > COMPRESSED_MAX)
        {
            return Ok(None);
        }
        let Some(input) = input.reopen()? else {
            return Ok(None);
        };
        let mut reader = Unpacked { input, error: None };
        match (
            lines::read(&mut reader, Gather::new(options), cancel),
            reader.error,
        ) {
            (Ok(Some(outline)), None) => Ok(Some(outline)),
            (Ok(_), None) | (_, Some(InputError::Cancelled { .. })) => {
                Err(LoadError::interrupted(cancel))
            }
            (_, Some(_)) if options.accept_missing_trailer => Ok(None),
            (_, Some(error)) => Err(error.into()),
            (Err(source), None) => Err(LoadError::Input(InputError::Read {
                name: options.source.display().to_string(),
                at: 0,
                source,
            })),
        }
    }

    /// The databases that the dump puts something into. The target database takes the place of
    /// none. System schemas are included only if they are loaded.
    pub fn by_database<'a>(
        &'a self,
        options: &'a LoadOptions,
    ) -> impl Iterator<Item = (&'a str, &'a Content)> {
        let default = default_database(options);
        self.contents.iter().filter_map(move |(database, content)| {
            let name = database.as_deref().or(default)?;
            (!options.leaves_out(name)).then_some((name, content))
        })
    }

    /// A table that no database is given for.
    pub fn homeless(&self, options: &LoadOptions) -> Option<&String> {
        let content = self.contents.get(&None)?;
        let first = content.created.first().or(content.filled.first())?;
        default_database(options).is_none().then_some(first)
    }
}

/// The database for everything that names none.
fn default_database(options: &LoadOptions) -> Option<&str> {
    options
        .database
        .as_deref()
        .or(options.target.database.as_deref())
}

/// Reads an [`Input`] as a stream, and keeps the input's own error.
struct Unpacked {
    input: Input,
    error: Option<InputError>,
}

impl std::io::Read for Unpacked {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let mut block = Vec::with_capacity(to.len());
        match self.input.read_block(&mut block, to.len()) {
            Ok(read) => {
                to[..read].copy_from_slice(&block);
                Ok(read)
            }
            Err(error) => {
                self.error = Some(error);
                Err(std::io::ErrorKind::Other.into())
            }
        }
    }
}

/// Builds an [`Outline`] from statements in the order of the dump.
pub struct Gather<'a> {
    options: &'a LoadOptions,
    outline: Outline,
    choice: Choice,
    database: Option<String>,
    /// The database that was dumped.
    origin: Option<String>,
    /// Whether the current file may only contain rows.
    rows_only: bool,
    /// Whether its session enters the database that it creates.
    enters: bool,
}

impl<'a> Gather<'a> {
    pub fn new(options: &'a LoadOptions) -> Self {
        Self {
            options,
            outline: Outline::default(),
            choice: Choice::new(&options.tables),
            database: None,
            origin: None,
            rows_only: false,
            enters: false,
        }
    }

    /// Reads a comment between statements.
    pub fn comment(&mut self, text: &[u8]) {
        if let Some(name) = origin(text) {
            self.origin = Some(name);
        }
    }

    /// Records a database that a load creates, unless it exists, because no file of a folder does.
    fn own_database(&mut self, name: &str) {
        self.name_database(name.as_bytes(), 1);
        if !self.leaves_out(Some(name)) && may_choose_in(&self.options.tables, name) {
            self.content(Some(name.as_bytes())).database = true;
        }
    }

    /// Enters the database that a file of a folder belongs to.
    fn enter(&mut self, database: Option<&str>) {
        self.database = database.map(str::to_owned);
        if let Some(name) = database {
            self.outline.named.entry(name.to_owned()).or_insert(1);
        }
    }

    /// The outline so far.
    pub fn outline(&mut self) -> &mut Outline {
        &mut self.outline
    }

    /// The finished outline.
    pub fn end(mut self) -> Outline {
        self.outline.unmatched = self.choice.unmatched().next().is_some();
        self.outline
    }

    /// Records that the dump contains a table or view. Returns whether to load it; never true for
    /// one of Refloat's own.
    pub fn meet(&mut self, database: Option<&[u8]>, table: &[u8]) -> bool {
        let (database, table) = self.placed(database, table);
        !is_own_table(&database, &table) && self.choice.meet(&database, &table)
    }

    /// The database and name of a table that is named at this place of the dump.
    fn placed(&self, database: Option<&[u8]>, table: &[u8]) -> (String, String) {
        let database = database.map(shown);
        let database = database.or_else(|| self.database().map(str::to_owned));
        (database.unwrap_or_default(), shown(table))
    }

    /// Notes a view, or a table that gets a trigger: its rows may end up in what `text` names.
    fn meet_writer(&mut self, name: &ObjectName, text: &[u8], mode: LexMode) {
        self.meet(name.database.as_deref(), &name.name);
        let (database, table) = self.placed(name.database.as_deref(), &name.name);
        let at = self.database().unwrap_or(&database).to_owned();
        self.choice
            .meet_writer((&database, &table), text, mode, &at);
    }

    /// The patterns of `--tables` that have matched nothing.
    pub fn unmatched(&self) -> impl Iterator<Item = &String> {
        self.choice.unmatched()
    }

    /// Records the names in statements that start a session, and stand in no file.
    pub fn session(&mut self, texts: &[String]) {
        for text in texts {
            let mode = LexMode::default();
            self.names(&StatementKind::Set, text.as_bytes(), mode, None);
        }
    }

    /// Records the collations, character sets and SQL modes that a statement names.
    fn names(&mut self, kind: &StatementKind, text: &[u8], mode: LexMode, line: Option<u64>) {
        for (named, name) in names::names(kind, text, mode) {
            if self.outline.names.len() >= DEFINERS_MAX {
                return;
            }
            let session = matches!(kind, StatementKind::Set);
            let found = self.outline.names.entry((named, name));
            let kept = found.or_insert_with(|| NamedPlace {
                line,
                head: refloat_sqltext::head(text),
                session,
            });
            kept.session |= session;
        }
    }

    /// What a load does with a statement.
    fn fate(&self, kind: &StatementKind, text: &[u8], mode: LexMode) -> Fate {
        let facts = Facts {
            options: self.options,
            choice: &self.choice,
            database: self.database(),
            origin: self.origin.as_deref(),
            mode,
            rows_only: self.rows_only,
        };
        verdict(kind, text, &facts)
    }

    /// The current database: the one that the dump chose, or else the caller's.
    pub fn database(&self) -> Option<&str> {
        self.database
            .as_deref()
            .or_else(|| default_database(self.options))
    }

    /// Whether `--tables` includes this table; never true for one of Refloat's own.
    fn wants(&self, database: Option<&[u8]>, table: &[u8]) -> bool {
        let database = database.map(shown);
        let database = database.as_deref().or(self.database()).unwrap_or_default();
        self.choice.wants(database, &shown(table))
    }

    /// Whether the contents of this database are left out.
    pub fn leaves_out(&self, database: Option<&str>) -> bool {
        database.is_some_and(|database| self.options.leaves_out(database))
    }

    /// Records rows for a table. Returns which tables they end up in.
    pub fn rows(&mut self, database: Option<&[u8]>, table: &[u8]) -> Whose {
        if self.meet(database, table) {
            self.content(database).filled.add(shown(table));
            return Whose::Chosen;
        }
        let (database, table) = self.placed(database, table);
        let whose = self.choice.whose_rows(&database, &table, self.rows_only);
        self.outline.suspect |= whose == Whose::Unclear;
        whose
    }

    fn content(&mut self, database: Option<&[u8]>) -> &mut Content {
        let key = database.map(shown).or_else(|| self.database.clone());
        self.outline.contents.entry(key).or_default()
    }

    /// Records a table that has the name of one of Refloat's own but is not one, if it is to be
    /// loaded.
    fn namesake(&mut self, table: &ObjectName, text: &[u8], mode: LexMode, line: u64) {
        let database = table.database.as_deref().map(shown);
        let database = database.as_deref().or(self.database()).unwrap_or_default();
        let name = shown(&table.name);
        if self.choice.has(database, &name) && is_namesake(database, &name, text, mode) {
            let label = format!("{database}.{name}");
            self.outline.namesakes.push((label, line));
        }
    }

    fn name_database(&mut self, database: &[u8], line: u64) {
        self.outline.named.entry(shown(database)).or_insert(line);
    }

    /// Records a statement, and returns what a load does with it. The beginning of a long one is
    /// enough.
    pub fn statement(
        &mut self,
        kind: &StatementKind,
        text: &[u8],
        mode: LexMode,
        line: u64,
    ) -> Fate {
        match kind {
            StatementKind::CreateTable {
                table,
                temporary,
                if_not_exists,
                ..
            } => {
                self.meet(table.database.as_deref(), &table.name);
                if !temporary && !if_not_exists {
                    let (database, name) = self.placed(table.database.as_deref(), &table.name);
                    self.choice.meet_new(&database, &name);
                }
                if !temporary {
                    self.namesake(table, text, mode, line);
                }
            }
            StatementKind::CreateView { view: name }
            | StatementKind::CreateTrigger { table: name, .. } => {
                self.meet_writer(name, text, mode);
            }
            StatementKind::CreateSequence { sequence } => {
                self.meet(sequence.database.as_deref(), &sequence.name);
            }
            StatementKind::Use { database }
            | StatementKind::CreateDatabase { database, .. }
            | StatementKind::DropDatabase { database }
            | StatementKind::AlterDatabase {
                database: Some(database),
            } => self.name_database(database, line),
            _ => {}
        }
        let fate = self.fate(kind, text, mode);
        if matches!(fate, Fate::Refused(_)) {
            let conditional = &mut self.outline.conditional;
            if text.starts_with(b"/*") && conditional.len() < CONDITIONAL_MAX {
                conditional.push((text.to_vec(), mode));
            } else {
                self.outline.suspect = true;
            }
        }
        if fate == Fate::Runs {
            self.names(kind, text, mode, Some(line));
            self.by_kind(kind, text, mode, line);
        }
        fate
    }

    /// Records what a statement that runs creates, changes or drops.
    fn by_kind(&mut self, kind: &StatementKind, text: &[u8], mode: LexMode, line: u64) {
        let all = self.options.tables.is_empty();
        match kind {
            StatementKind::Use { database } => self.database = Some(shown(database)),
            StatementKind::CreateDatabase { database, .. } => {
                let content = self.content(Some(database));
                content.defines |= all;
                content.database = true;
                if self.enters {
                    self.enter(Some(&shown(database)));
                }
            }
            StatementKind::DropDatabase { database }
            | StatementKind::AlterDatabase {
                database: Some(database),
            } => self.content(Some(database)).defines |= all,
            StatementKind::AlterDatabase { database: None } => self.content(None).defines |= all,
            StatementKind::CreateTable {
                temporary: true, ..
            } => self.outline.temporary = true,
            StatementKind::CreateTable { table, .. } => {
                self.create(table);
                self.engine(table, text, mode, line);
                self.outline.spaces.table(text, mode, line);
            }
            StatementKind::CreateSequence { sequence } => self.create(sequence),
            StatementKind::DropTable { tables: names }
            | StatementKind::DropSequence { sequences: names }
            | StatementKind::DropView { views: names } => self.define(names),
            StatementKind::CreateView { view } => self.create_view(view, text, mode),
            StatementKind::CreateRoutine { what, routine } => {
                self.create_routine(what, routine, text, mode);
            }
            StatementKind::CreateTrigger { trigger, table } => {
                self.create_trigger(trigger, table, text, mode);
            }
            StatementKind::CreateEvent { event } => self.create_event(event, text, mode),
            StatementKind::AlterTable { table, .. } | StatementKind::Truncate { table } => {
                self.change(table.database.as_deref(), text, line);
            }
            StatementKind::Index
            | StatementKind::RenameTable { .. }
            | StatementKind::Insert
            | StatementKind::Delete
            | StatementKind::Update
            | StatementKind::Do
            | StatementKind::Call => self.change(None, text, line),
            StatementKind::Other => self.outline.spaces.other(text, mode),
            _ => {}
        }
    }

    fn create_view(&mut self, view: &ObjectName, text: &[u8], mode: LexMode) {
        let content = self.content(view.database.as_deref());
        (content.defines, content.views) = (true, true);
        content.viewed.add(shown(&view.name));
        self.program("view", view, text, mode);
    }

    fn create_routine(&mut self, what: &str, routine: &ObjectName, text: &[u8], mode: LexMode) {
        let function = what == "FUNCTION";
        let content = self.content(routine.database.as_deref());
        (content.defines, content.routines) = (true, true);
        content.functions |= function;
        self.program(&what.to_ascii_lowercase(), routine, text, mode);
        if function && self.outline.undeclared.is_none() && program::is_undeclared(text, mode) {
            self.outline.undeclared = Some(shown(&routine.name));
        }
    }

    fn create_trigger(
        &mut self,
        trigger: &ObjectName,
        table: &ObjectName,
        text: &[u8],
        mode: LexMode,
    ) {
        let content = self.content(table.database.as_deref());
        (content.defines, content.triggers) = (true, true);
        self.program("trigger", trigger, text, mode);
    }

    fn create_event(&mut self, event: &ObjectName, text: &[u8], mode: LexMode) {
        let content = self.content(event.database.as_deref());
        (content.defines, content.events) = (true, true);
        self.program("event", event, text, mode);
    }

    fn create(&mut self, table: &ObjectName) {
        let name = shown(&table.name);
        let content = self.content(table.database.as_deref());
        content.defines = true;
        content.created.add(name);
        self.outline.tables += 1;
    }

    /// Records a table's engine. If a long definition was cut off, the engine is checked when the
    /// rows arrive.
    fn engine(&mut self, table: &ObjectName, text: &[u8], mode: LexMode, line: u64) {
        let Ok(parsed) = parse_create_table(text, mode) else {
            return;
        };
        let Some(engine) = parsed.option("ENGINE").map(shown) else {
            return;
        };
        if !engine.eq_ignore_ascii_case("InnoDB") && self.outline.engines.len() < DEFINERS_MAX {
            let database = table.database.as_deref().map(shown);
            let database = database.or_else(|| self.database.clone());
            self.outline
                .engines
                .push((database, shown(&table.name), engine, line));
        }
    }

    fn define(&mut self, names: &[ObjectName]) {
        for name in names {
            if self.wants(name.database.as_deref(), &name.name) {
                self.content(name.database.as_deref()).defines = true;
            }
        }
    }

    fn change(&mut self, database: Option<&[u8]>, text: &[u8], line: u64) {
        let content = self.content(database);
        content.defines = true;
        content
            .changes
            .get_or_insert_with(|| (line, refloat_sqltext::head(text)));
    }

    /// Records the account that a program will run as.
    fn program(&mut self, what: &str, name: &ObjectName, text: &[u8], mode: LexMode) {
        if self.outline.definers.len() >= DEFINERS_MAX {
            return;
        }
        if let Some(account) = program::definer(text, mode) {
            self.outline
                .definers
                .entry(account)
                .or_insert_with(|| format!("{what} {}", shown(&name.name)));
        }
    }
}

#[cfg(test)]
mod tests;
