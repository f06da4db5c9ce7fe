//! The opened source of a load: one stream of statements, or the files of a layout.

mod look;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use refloat_run::Cancel;
use refloat_run::cancel::abandonable;
use refloat_source::folder::plain_name;
use refloat_source::items::Items;
use refloat_source::layout::{Layout, SqlFile};
use refloat_source::{SourceFormat, archive};
use refloat_sqltext::{ItemKind, StatementKind};
use refloat_store::{Compression, Input, InputError, files};

use super::chunk::PlainFile;
use super::error::LoadError;
use super::options::LoadOptions;
use super::outline::{Gather, Outline, Part, parts};
pub use look::not_whole;
use refloat_run::Refusal;

/// Assumed ratio of text to compressed bytes until the dump has been read.
pub const COMPRESSION_GUESS: u64 = 4;

/// A source that can be read, by its shape.
pub enum OpenSource {
    /// One stream of statements.
    Stream(Box<Input>),
    /// Several files.
    Layout(Box<Layout>),
}

impl OpenSource {
    /// Opens the source. Ctrl-C interrupts this: opening a pipe waits for its first bytes, which
    /// may come late or never (its producer may be asking for a password, for example). `say`
    /// receives a notice for the user before an archive is unpacked.
    pub fn open(
        options: &LoadOptions,
        cancel: &Cancel,
        say: impl FnOnce(String),
    ) -> Result<Self, LoadError> {
        let path = options.source.clone();
        if files::is_folder(&path) {
            let layout =
                refloat_source::open_folder(&path, options.source_format, &options.delimited)?;
            return Ok(Self::Layout(Box::new(layout)));
        }
        let delimited = options.source_format == Some(SourceFormat::Delimited)
            || options.delimited.table.is_some();
        if delimited {
            let layout = options.delimited.layout(&path)?;
            return Ok(Self::Layout(Box::new(layout)));
        }
        let mut input = abandonable(cancel, move || Input::open(&path)).unwrap_or_else(|| {
            Err(InputError::Cancelled {
                name: super::source_name(options),
            })
        })?;
        input.cancel_flag(cancel.flag());
        if archive::is_archive(&mut input)? {
            say(archive::announcement(&input, &options.scratch));
            let (format, delimited) = (options.source_format, &options.delimited);
            let layout = archive::layout(input, &options.scratch, format, delimited)?;
            return Ok(Self::Layout(Box::new(layout)));
        }
        if !options.delimited.is_empty() {
            return Err(LoadError::Refused(vec![Refusal {
                reason: format!(
                    "{} is SQL, but options for delimited text were given (such as --charset)",
                    input.name()
                ),
                hint: "An SQL dump names its tables and character set itself; for a file of \
                    delimited text, name the table with --table."
                    .to_owned(),
            }]));
        }
        Ok(Self::Stream(Box::new(input)))
    }

    /// Like [`OpenSource::open`] for a source that can be examined without unpacking it; `None` for
    /// an archive.
    pub fn unless_archive(
        options: &LoadOptions,
        cancel: &Cancel,
    ) -> Result<Option<Self>, LoadError> {
        if files::is_folder(&options.source) || options.delimited.table.is_some() {
            return Self::open(options, cancel, |_words| {}).map(Some);
        }
        let mut input = Input::open(&options.source)?;
        Ok((!archive::is_archive(&mut input)?).then(|| Self::Stream(Box::new(input))))
    }

    /// The path as it was given, or `standard input`.
    pub fn name(&self) -> String {
        match self {
            Self::Stream(input) => input.name().to_owned(),
            Self::Layout(layout) => layout.path.display().to_string(),
        }
    }

    /// The path that the names of the source's files are relative to.
    pub fn root(&self) -> PathBuf {
        match self {
            Self::Stream(input) => PathBuf::from(input.name()),
            Self::Layout(layout) => layout.path.clone(),
        }
    }

    /// The Refloat command that takes sources of this kind.
    pub fn command(&self) -> &'static str {
        match self.format() {
            SourceFormat::Server => "copy",
            _ => "load",
        }
    }

    /// Bytes as stored; `None` when unknown.
    pub fn total_bytes(&self) -> Option<u64> {
        match self {
            Self::Stream(input) => input.total_bytes(),
            Self::Layout(layout) => Some(layout.bytes()).filter(|bytes| *bytes > 0),
        }
    }

    /// The kind of compression, as a word for reports.
    pub fn compression(&self) -> String {
        match self {
            Self::Stream(input) => input.compression().to_string(),
            Self::Layout(layout) if is_plain(layout) => Compression::None.to_string(),
            Self::Layout(_) => "by file".to_owned(),
        }
    }

    /// The format of the source.
    pub fn format(&self) -> SourceFormat {
        match self {
            Self::Stream(_) => SourceFormat::Sql,
            Self::Layout(layout) => layout.format,
        }
    }

    /// Bytes of text that the source will yield, estimated if it is compressed; `None` when
    /// unknown.
    pub fn text_bytes(&self) -> Option<u64> {
        let plain = match self {
            Self::Stream(input) => input.compression() == Compression::None,
            Self::Layout(layout) => is_plain(layout),
        };
        let factor = if plain { 1 } else { COMPRESSION_GUESS };
        self.total_bytes().map(|bytes| bytes * factor)
    }

    /// The dump file, if it is one that workers can read themselves.
    pub fn plain_file(&self) -> Result<Option<Arc<PlainFile>>, LoadError> {
        let Self::Stream(input) = self else {
            return Ok(None);
        };
        let Some(file) = input.plain_file()? else {
            return Ok(None);
        };
        let file = PlainFile::open(file, input.name().as_ref())
            .map_err(|source| read_error(input.name(), source))?;
        Ok(Some(Arc::new(file)))
    }

    /// The counter of how far the source has been read. In plain files the conductor reads far
    /// ahead of the rows, so there it is `done` that counts.
    pub fn position(&self, done: &Arc<AtomicU64>) -> Arc<AtomicU64> {
        if let Self::Layout(layout) = self
            && let Some(stream) = layout.stream()
        {
            return Arc::clone(&stream.position);
        }
        let plain = match self {
            Self::Stream(input) => matches!(input.plain_file(), Ok(Some(_))),
            Self::Layout(layout) => is_plain(layout),
        };
        match self {
            _ if plain => Arc::clone(done),
            Self::Stream(input) => Arc::clone(input.raw_position()),
            Self::Layout(_) => Arc::default(),
        }
    }

    /// The counter that the conductor adds its reads to: `position`, or an unused one if `position`
    /// is advanced elsewhere.
    pub fn read_counter(&self, position: &Arc<AtomicU64>, done: &Arc<AtomicU64>) -> Arc<AtomicU64> {
        let elsewhere = self.format() == SourceFormat::Server || Arc::ptr_eq(position, done);
        if elsewhere {
            Arc::default()
        } else {
            Arc::clone(position)
        }
    }

    /// Notes about the source for the user before the load begins, as sentences that begin with its
    /// name.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Stream(_) => Vec::new(),
            Self::Layout(layout) => {
                let name = layout.path.display();
                let notes = layout.notes.iter();
                notes.map(|note| format!("{name}: {note}")).collect()
            }
        }
    }

    /// Checks whether the source is a dump, and whether it is complete as far as can be seen in
    /// advance.
    pub fn look(
        &mut self,
        options: &LoadOptions,
        cancel: &Cancel,
    ) -> Result<Option<Outline>, LoadError> {
        match self {
            Self::Stream(input) => look::at_stream(options, input, cancel),
            Self::Layout(layout) => {
                if !layout.faults.is_empty() {
                    return Err(LoadError::Refused(not_whole(layout)));
                }
                outline_of(layout, options, cancel).map(Some)
            }
        }
    }
}

/// The error of a file that cannot be read.
pub fn read_error(name: &str, source: std::io::Error) -> LoadError {
    LoadError::Input(InputError::Read {
        name: name.to_owned(),
        at: 0,
        source,
    })
}

/// Whether none of its files is compressed.
fn is_plain(layout: &Layout) -> bool {
    let mut files = layout.tables().flat_map(|table| &table.files);
    files.all(|file| {
        let name = file.path.to_string_lossy();
        plain_name(&name).len() == name.len()
    })
}

/// The outline of a layout's files.
fn outline_of(
    layout: &Layout,
    options: &LoadOptions,
    cancel: &Cancel,
) -> Result<Outline, LoadError> {
    let mut gather = Gather::new(options);
    gather.session(&layout.session);
    for part in parts(layout) {
        if cancel.is_cancelled() {
            return Err(LoadError::interrupted(cancel));
        }
        gather.begin(&part);
        match part {
            Part::Statements(file) => each_statement(file, |kind, text, mode, line| {
                gather.statement(kind, text, mode, line);
            })?,
            // A load does not look at a table that gets nothing.
            Part::Rows(table, file) if !file.is_empty() => {
                gather.rows(None, table.table.as_bytes());
            }
            Part::Streamed(table) => {
                gather.rows(None, table.table.as_bytes());
            }
            Part::Rows(..) | Part::Table(_) | Part::Database(_) => {}
        }
    }
    Ok(gather.end())
}

/// Calls `found` for each statement of a file, with its line.
pub fn each_statement(
    file: &SqlFile,
    mut found: impl FnMut(&StatementKind, &[u8], refloat_sqltext::LexMode, u64),
) -> Result<(), LoadError> {
    let name = file.path.display().to_string();
    if file.bytes().map_err(|source| read_error(&name, source))? == 0 {
        return Ok(());
    }
    let mut input = file.open()?;
    let mut items = Items::new(&mut input, file.ends);
    loop {
        let mode = items.script().mode();
        let next = items.next_item();
        let Some(item) = next.map_err(|error| LoadError::of_items(&name, error))? else {
            return Ok(());
        };
        if let ItemKind::Statement(kind) = &item.kind {
            found(kind, items.text(&item), mode, item.line);
        }
    }
}
