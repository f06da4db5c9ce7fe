//! Gathers the definitions of a dump from its SQL files, read as the stock client reads them.

use std::collections::BTreeMap;

use refloat_read::catalog::{asked_table, wanted_database};
use refloat_run::own_tables::is_own_table;
use refloat_schema::definition::without_auto_increment;
use refloat_source::manifest::FileEntry;
use refloat_source::namesake::is_namesake;
use refloat_sqltext::{
    CharsetFamily, ItemKind, LexMode, ObjectName, ScanOptions, Scanner, StatementKind, Step, Token,
    parse_set, tokens,
};

use super::Definitions;
use super::definitions::kind;
use crate::error::VerifyError;
use crate::folder::DumpFolder;
use crate::options::{VerifyOptions, read_options};
use crate::other::Definition;

/// Session variables that are stored with a program.
const SESSION: [&str; 4] = [
    "sql_mode",
    "character_set_client",
    "collation_connection",
    "time_zone",
];

/// Reads the files that hold definitions.
pub fn read(folder: &DumpFolder, options: &VerifyOptions) -> Result<Definitions, VerifyError> {
    let mut reader = Reader::new(options);
    let manifest = &folder.manifest;
    for database in &manifest.databases {
        reader.file(folder, &database.schema)?;
    }
    if let Some(programs) = &manifest.programs {
        reader.file(folder, programs)?;
    }
    Ok(reader.found)
}

/// Gathers definitions from statements.
pub struct Reader<'a> {
    options: &'a VerifyOptions,
    /// The definitions gathered so far.
    pub found: Definitions,
    database: String,
    session: BTreeMap<&'static str, String>,
    mode: LexMode,
    /// The sequence whose value comes next.
    sequence: Option<String>,
}

impl<'a> Reader<'a> {
    /// A reader that has seen nothing yet.
    pub fn new(options: &'a VerifyOptions) -> Self {
        Self {
            options,
            found: Definitions::default(),
            database: String::new(),
            session: BTreeMap::new(),
            mode: LexMode::default(),
            sequence: None,
        }
    }

    /// Starts a file; `database` is the default for its statements.
    pub fn enter(&mut self, database: Option<&str>) {
        database.unwrap_or_default().clone_into(&mut self.database);
        self.session.clear();
        self.mode = LexMode::default();
    }

    fn file(&mut self, folder: &DumpFolder, file: &FileEntry) -> Result<(), VerifyError> {
        let text = folder.read(file)?;
        let mut scanner = Scanner::new(ScanOptions::default());
        self.mode = LexMode::default();
        let mut at = 0;
        loop {
            let step = scanner.next(&text[at..], true).map_err(|error| {
                let path = std::path::Path::new(&file.path);
                VerifyError::damaged(path, format!("the SQL cannot be read: {error}"))
            })?;
            let Step::Item(item) = step else {
                return Ok(());
            };
            let range = at + item.text.start..at + item.text.end;
            at += item.len;
            if let ItemKind::Statement(statement) = &item.kind {
                self.statement(statement, &text[range]);
            }
            scanner.set_mode(self.mode);
        }
    }

    /// Records the definition in a statement, if there is one.
    pub fn statement(&mut self, statement: &StatementKind, text: &[u8]) {
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match statement {
            StatementKind::Set => self.set(text),
            StatementKind::Use { database } => self.database = words(database),
            StatementKind::CreateDatabase { database, .. } if self.options.tables.is_empty() => {
                let name = words(database);
                self.add("database", (&name, name.clone()), text);
            }
            StatementKind::CreateTable {
                table,
                temporary: false,
                ..
            } => {
                // Tools that do not know sequences dump them as tables.
                let sequence = Definition::of(text, self.mode).sequence;
                self.object(if sequence { "sequence" } else { "table" }, table, text);
            }
            StatementKind::DropTable { tables } => {
                for table in tables {
                    let label = self.label(table);
                    self.found.all.remove(&("table", label));
                }
            }
            StatementKind::RenameTable { names } => {
                for (from, to) in names {
                    self.renamed(from, to);
                }
            }
            StatementKind::AlterTable {
                table,
                renamed: Some(to),
            } => self.renamed(table, to),
            // Either may reset the next value.
            StatementKind::Truncate { table } | StatementKind::AlterTable { table, .. } => {
                let label = self.label(table);
                if let Some(of) = self.found.all.get_mut(&("table", label))
                    && let Ok(text) = std::str::from_utf8(&of.text)
                {
                    of.text = without_auto_increment(text).into_bytes();
                }
            }
            StatementKind::CreateSequence { sequence } => {
                self.object("sequence", sequence, text);
                self.sequence = Some(self.label(sequence));
            }
            StatementKind::Do => self.value(text),
            StatementKind::CreateView { view } => self.object("view", view, text),
            StatementKind::CreateTrigger { trigger, table } => {
                let asked = read_options(self.options, &refloat_wire::ConnectOptions::default());
                if !asked_table(&asked, &self.database, &words(&table.name)) {
                    return;
                }
                let label = self.label(trigger);
                self.found.triggers.push(label.clone());
                self.add("trigger", (&self.database_of(trigger), label), text);
            }
            StatementKind::CreateRoutine { what, routine } if self.options.tables.is_empty() => {
                let label = self.label(routine);
                self.add(kind(what), (&self.database_of(routine), label), text);
            }
            StatementKind::CreateEvent { event } if self.options.tables.is_empty() => {
                let label = self.label(event);
                self.add("event", (&self.database_of(event), label), text);
            }
            _ => {}
        }
    }

    /// A table or view gets another name. Foreign keys follow it, so a table whose definition has
    /// the old name is no longer what the dump says.
    fn renamed(&mut self, from: &ObjectName, to: &ObjectName) {
        let (old, new) = (self.label(from), self.label(to));
        if let Some(view) = self.found.all.remove(&("view", old.clone())) {
            self.found.all.insert(("view", new), view);
            return;
        }
        let mode = self.mode;
        self.found.all.retain(|(kind, label), of| {
            let names = |token: Token| token.name(&of.text).as_ref() == Some(&from.name);
            let is_named = || tokens(&of.text, mode).code().any(names);
            *kind != "table" || !(*label == old || is_named())
        });
    }

    fn label(&self, name: &ObjectName) -> String {
        let database = self.database_of(name);
        format!("{database}.{}", String::from_utf8_lossy(&name.name))
    }

    /// Records a table, view or sequence, if it is selected.
    fn object(&mut self, kind: &'static str, name: &ObjectName, text: &[u8]) {
        let bare = String::from_utf8_lossy(&name.name);
        let database = self.database_of(name);
        let asked = read_options(self.options, &refloat_wire::ConnectOptions::default());
        let ours =
            is_own_table(&database, &bare) && !is_namesake(&database, &bare, text, self.mode);
        if !ours && asked_table(&asked, &database, &bare) {
            let label = format!("{database}.{bare}");
            self.add(kind, (&database, label), text);
        }
    }

    fn database_of(&self, name: &ObjectName) -> String {
        match &name.database {
            Some(database) => String::from_utf8_lossy(database).into_owned(),
            None => self.database.clone(),
        }
    }

    /// Adds a definition, if its database is selected.
    fn add(&mut self, kind: &'static str, (database, name): (&str, String), text: &[u8]) {
        let asked = read_options(self.options, &refloat_wire::ConnectOptions::default());
        if !wanted_database(&asked, database) {
            return;
        }
        let mut besides = self.session.clone();
        if kind == "view" {
            besides.remove("sql_mode");
        }
        if kind != "event" {
            besides.remove("time_zone");
        }
        let of = self.found.add(kind, name, text.to_vec());
        if !matches!(kind, "table" | "sequence" | "database") {
            of.besides = besides;
        }
    }

    fn set(&mut self, text: &[u8]) {
        for assignment in parse_set(text, self.mode).unwrap_or_default() {
            let Some(value) = &assignment.literal else {
                continue;
            };
            let known = SESSION
                .iter()
                .find(|name| name.as_bytes() == assignment.name.as_slice());
            let Some(&name) = known else { continue };
            match name {
                "sql_mode" => self.mode = self.mode.with_sql_mode(value),
                "character_set_client" => {
                    self.mode.charset_family = CharsetFamily::from_charset_name(value);
                }
                _ => {}
            }
            let value = String::from_utf8_lossy(value).into_owned();
            self.session.insert(name, value);
        }
    }

    /// Records a sequence's next value from the `DO SETVAL(s, 5, 0)` after it.
    fn value(&mut self, text: &[u8]) {
        let Some(label) = self.sequence.take() else {
            return;
        };
        let text = String::from_utf8_lossy(text);
        let value = text.rsplit(", ").nth(1).map(str::to_owned);
        if let (Some(of), Some(value)) = (self.found.all.get_mut(&("sequence", label)), value) {
            of.besides.insert("next value", value);
        }
    }
}
