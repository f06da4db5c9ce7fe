//! A table that its server has exported and discarded, and its tablespace while it is built.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use refloat_schema::columns::{Column, Layout};
use refloat_schema::members::{has_equal_members, members};
use refloat_sqltext::{InsertVerb, quote_ident};
use refloat_tablespace::description::{Description, StoredColumn};
use refloat_tablespace::order::by_bytes;
use refloat_tablespace::sink::Sink;
use refloat_tablespace::space::Pages;
use refloat_tablespace::table::{BuildError, TableBuilder};
use refloat_tablespace::value::{Declared, Stored};
use refloat_wire::{Connection, Error};

use super::checkpoint::checkpoint;
use super::place::{TableFiles, create_like, may_own};
use crate::chunk::Chunk;
use crate::context::Context;
use crate::deferral::{Deferral, split};
use crate::error::LoadError;
use crate::link::Link;
use crate::options::OnError;
use crate::patience::alter;
use crate::table::Table;

/// The part of a load's memory in which the records of all indexes of a table are sorted, and the
/// least for an index.
const SORT_PART: usize = 8;
const SORT_LEAST: usize = 1 << 20;

/// How the values of a table are stored that come in one character set; `None`: only the server
/// knows.
type Columns = Option<Arc<Vec<Stored>>>;

/// Takes nothing: a template is only looked at.
struct Nowhere;

impl Sink for Nowhere {
    fn write_at(&self, _at: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The file that is built beside the server's own, until it takes its place.
const UNFINISHED: &str = "ibd-refloat";

/// A table that its server has exported, and the tablespace that is built for it.
pub struct Exported {
    pub table: Arc<Table>,
    pub builder: Arc<TableBuilder>,
    files: TableFiles,
    file: File,
    template: Template,
    layout: Arc<Layout>,
    /// How values are stored, by the character set of the rows.
    columns: Mutex<HashMap<String, Columns>>,
    /// The next `AUTO_INCREMENT` that the definition names.
    next_number: u64,
}

/// What the server has written of the empty table.
pub struct Template {
    like: Metadata,
    file: Vec<u8>,
    cfg: Vec<u8>,
    description: Description,
}

impl Template {
    /// Has the server write a table to its file and describe it.
    fn export(conn: &mut Connection, table: &Table, files: &TableFiles) -> Result<Self, String> {
        conn.exec(format!("FLUSH TABLES {} FOR EXPORT", table.quoted()))
            .map_err(|error| format!("the server does not export it: {error}"))?;
        let template = Self::read(files);
        conn.exec("UNLOCK TABLES")
            .map_err(|error| format!("the server does not release it: {error}"))?;
        template
    }

    fn read(files: &TableFiles) -> Result<Self, String> {
        let unread = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| format!("{path} cannot be read: {error}")
        };
        let cfg = fs::read(&files.cfg).map_err(unread(&files.cfg))?;
        let file = fs::read(&files.ibd).map_err(unread(&files.ibd))?;
        let like = fs::symlink_metadata(&files.ibd).map_err(unread(&files.ibd))?;
        files.prove(&file)?;
        let description = Description::read(&cfg).map_err(|error| error.to_string())?;
        Ok(Self {
            like,
            file,
            cfg,
            description,
        })
    }

    /// Indexes that only the server can build, by name.
    fn left_to_server(&self) -> Result<Vec<String>, String> {
        let mut left = Vec::new();
        for index in &self.description.indexes {
            match TableBuilder::plan(&self.description, index, by_bytes) {
                Ok(()) => {}
                Err(error) if index.is_clustered() => return Err(error.to_string()),
                Err(_) => left.push(index.name.clone()),
            }
        }
        Ok(left)
    }
}

impl Exported {
    /// Begins the tablespace of a table that was looked at. An error is why its rows have to go
    /// over SQL.
    pub fn begin(
        ctx: &Context,
        catalog: &mut Connection,
        table: &Arc<Table>,
        create: &str,
        looked: Looked,
    ) -> Result<Self, String> {
        let Looked {
            files,
            mut template,
            layout,
            deferred,
        } = looked;
        if deferred.is_some() {
            template = Template::export(catalog, table, &files)?;
        }
        let unfinished = files.ibd.with_extension(UNFINISHED);
        let _ = fs::remove_file(&unfinished);
        let unmade = |error| format!("{} cannot be made: {error}", unfinished.display());
        let file = create_like(&unfinished, &template.like).map_err(unmade)?;
        let begun = || {
            let sink = file.try_clone().map_err(|error| error.to_string())?;
            let pages = Pages::new(template.file.clone(), Box::new(sink));
            let pages = pages.map_err(|error| error.to_string())?;
            let table = &template.description;
            let memory = ctx.options.max_memory / SORT_PART / table.indexes.len().max(1);
            let memory = memory.max(SORT_LEAST);
            TableBuilder::new(table, pages, by_bytes, memory, &ctx.options.scratch)
                .map_err(|error| error.to_string())
        };
        let builder = begun().inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })?;
        Ok(Self {
            table: Arc::clone(table),
            builder: Arc::new(builder),
            files,
            file,
            template,
            layout,
            columns: Mutex::default(),
            next_number: next_number(create),
        })
    }

    /// How the values of a chunk are stored. `None`: only the server can tell.
    pub fn columns(&self, ctx: &Context, chunk: &Chunk) -> Columns {
        let is_utc = chunk.session.is_utc();
        let mut columns = self.layout.columns.iter();
        let has_times = columns.any(|column| column.data_type == "timestamp");
        // A zero may stand for the next number. In tuples that was looked for.
        let numbers = chunk.form.delimited().is_some()
            && !chunk.session.has_mode("NO_AUTO_VALUE_ON_ZERO")
            && self.numbered().is_some();
        if ctx.goes_as_text(chunk) || !self.fills_all(chunk) || has_times && !is_utc || numbers {
            return None;
        }
        let mut known = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        let charset = chunk.charset();
        if let Some(columns) = known.get(charset) {
            return columns.clone();
        }
        let columns = stored(&self.layout, &self.template.description, charset).map(Arc::new);
        known.insert(charset.to_owned(), columns.clone());
        columns
    }

    /// The `AUTO_INCREMENT` column.
    fn numbered(&self) -> Option<&Column> {
        let mut columns = self.layout.columns.iter();
        columns.find(|column| column.auto_increment)
    }

    /// Whether the rows of a chunk give each column a value, in the order of the table.
    fn fills_all(&self, chunk: &Chunk) -> bool {
        let targets = self.layout.targets(chunk.header.columns.as_deref());
        chunk.header.verb == InsertVerb::Insert
            && targets.is_some_and(|targets| targets.into_iter().eq(0..self.layout.columns.len()))
    }

    /// The columns that rows of this table fill.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn failed(&self, doing: &'static str, source: impl Into<BuildError>) -> LoadError {
        LoadError::Tablespace {
            table: self.table.label(),
            doing,
            source: source.into(),
        }
    }

    /// Puts the tablespace in the place of the server's own, and has the server look at it.
    pub fn import(&self, link: &mut Link) -> Result<(), LoadError> {
        let ctx = Arc::clone(&link.ctx);
        let name = self.table.quoted();
        let label = self.table.label();
        let refused =
            |error| LoadError::server(format!("importing the tablespace of table {label}"), error);
        link.leave_session();
        // Other tables may refer to this one.
        link.conn
            .exec("SET NAMES utf8mb4, SESSION sql_mode = '', SESSION foreign_key_checks = 0")
            .map_err(refused)?;
        alter(
            &mut link.conn,
            &ctx,
            &format!("ALTER TABLE {name} DISCARD TABLESPACE"),
        )
        .map_err(refused)?;
        self.place()
            .map_err(|error| self.failed("putting its tablespace in place", error))?;
        alter(
            &mut link.conn,
            &ctx,
            &format!("ALTER TABLE {name} IMPORT TABLESPACE"),
        )
        .map_err(refused)?;
        let _ = fs::remove_file(&self.files.cfg);
        if let Some(column) = self.numbered() {
            let column = quote_ident(&column.name);
            let sql = format!("SELECT CAST(GREATEST(MAX({column}), 0) AS UNSIGNED) FROM {name}");
            let last = link.conn.query(sql).map_err(refused)?.u64(0, 0);
            let next = last.unwrap_or(0).saturating_add(1).max(self.next_number);
            let sql = format!("ALTER TABLE {name} AUTO_INCREMENT = {next}");
            alter(&mut link.conn, &ctx, &sql).map_err(refused)?;
        }
        self.check(link).map_err(refused)??;
        checkpoint(link)
    }

    /// Builds what is left when all parts are there, and brings it to the disk.
    pub fn finish(&self, rows: u64) -> Result<(), BuildError> {
        let (count, _) = self.builder.finish()?;
        if count != rows {
            return Err(BuildError::Unfinished);
        }
        Ok(self.file.sync_all()?)
    }

    fn place(&self) -> io::Result<()> {
        fs::rename(self.files.ibd.with_extension(UNFINISHED), &self.files.ibd)?;
        let mut cfg = create_like(&self.files.cfg, &self.template.like)?;
        cfg.write_all(&self.template.cfg)?;
        cfg.sync_all()?;
        let folder = self.files.ibd.parent().unwrap_or(Path::new("/"));
        File::open(folder)?.sync_all()
    }

    /// Has the server count the records of each index and compare them.
    fn check(&self, link: &mut Link) -> Result<Result<(), LoadError>, Error> {
        let name = self.table.quoted();
        // As far as the server's statistics know, the table is still empty.
        link.conn
            .query(format!("ANALYZE NO_WRITE_TO_BINLOG TABLE {name}"))?;
        let found = link.conn.query(format!("CHECK TABLE {name}"))?;
        let wrong = (0..found.len()).find(|&row| found.str(row, 3) != Some("OK"));
        Ok(wrong.map_or(Ok(()), |row| {
            Err(LoadError::Defect(format!(
                "the tablespace that was built for table {} is not sound: {}",
                self.table.label(),
                found.str(row, 3).unwrap_or_default()
            )))
        }))
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        // It is there only if it was not imported.
        let _ = fs::remove_file(self.files.ibd.with_extension(UNFINISHED));
    }
}

/// Removes the files that a load has left of a table which the server has dropped.
pub fn remove_files(conn: &mut Connection, db: &str, table: &str) -> io::Result<()> {
    let Ok(ibd) = TableFiles::path(conn, db, table) else {
        return Ok(());
    };
    for extension in ["ibd", "cfg", UNFINISHED] {
        match fs::remove_file(ibd.with_extension(extension)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A table that can be built.
pub struct Looked {
    files: TableFiles,
    template: Template,
    layout: Arc<Layout>,
    /// What only the server can build: how it is dropped, and added again.
    pub deferred: Option<(Vec<String>, Deferral)>,
}

/// Looks whether a table can be built, and what has to be deferred for that. An error is a reason
/// for people.
pub fn look(
    ctx: &Context,
    catalog: &mut Connection,
    table: &Table,
    create: &str,
) -> Result<Looked, String> {
    let layout = table.layout().ok_or("its columns are not known")?;
    if ctx.options.on_error == OnError::Continue {
        return Err("--on-error continue has the server judge each row".to_owned());
    }
    if layout.computes() || layout.versioned {
        return Err("the server computes columns of it".to_owned());
    }
    if create.contains(" CHECK (") || create.contains("PERIOD FOR ") {
        return Err("it has CHECK constraints, which an import does not check".to_owned());
    }
    let files = TableFiles::of(catalog, table)?;
    let template = Template::export(catalog, table, &files)?;
    if !may_own(&template.like) {
        return Err(format!(
            "only root and the server's account can make {}",
            files.ibd.display()
        ));
    }
    // The names of columns are those of the server, and so is their order.
    if stored(&layout, &template.description, "utf8mb4").is_none() {
        return Err("the values of a column are the server's to store".to_owned());
    }
    Pages::new(template.file.clone(), Box::new(Nowhere)).map_err(|error| error.to_string())?;
    let left = template.left_to_server()?;
    let keep_unique = ctx.options.on_error == OnError::Continue;
    let deferred = split(create, keep_unique, &|name| {
        left.iter().any(|one| one == name)
    });
    let dropped = deferred.as_ref().map_or(&[][..], |(drops, _)| drops);
    let stays = left
        .iter()
        .find(|name| !dropped.contains(&format!("DROP KEY {}", quote_ident(name))));
    match stays {
        Some(name) => Err(format!(
            "index {name} is the server's to build, and stays while rows come"
        )),
        None => Ok(Looked {
            files,
            template,
            layout,
            deferred,
        }),
    }
}

/// How the values of all columns are stored that come in a character set.
fn stored(layout: &Layout, description: &Description, charset: &str) -> Option<Vec<Stored>> {
    let of_table = description
        .columns
        .iter()
        .filter(|column| !column.is_system());
    let stored: Vec<&StoredColumn> = of_table.collect();
    if stored.len() != layout.columns.len() {
        return None;
    }
    let each = layout.columns.iter().zip(stored).map(|(column, stored)| {
        let own = column.charset.as_deref();
        // The server takes the first member that is equal by its collation.
        let collation = column.collation.as_deref().unwrap_or("unknown");
        if has_equal_members(&column.type_text, collation) {
            return None;
        }
        let declared = Declared {
            type_text: &column.type_text,
            members: &members(&column.type_text),
            charset: own,
            text_charset: if charset == "binary" {
                own.unwrap_or(charset)
            } else {
                charset
            },
        };
        (column.name == stored.name).then(|| Stored::of(stored, declared))?
    });
    each.collect()
}

/// The next `AUTO_INCREMENT` in a definition.
fn next_number(create: &str) -> u64 {
    let options = create
        .rsplit_once(") ENGINE=")
        .map_or("", |(_, options)| options);
    let number = options
        .split_once("AUTO_INCREMENT=")
        .map_or("", |(_, rest)| rest);
    let digits = number.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(1)
}
