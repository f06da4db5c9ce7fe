//! Walks over all files of a dump in the order in which a load reads them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use refloat_run::{Cancel, Progress};
use refloat_source::SourceError;
use refloat_source::cutter::Ends;
use refloat_source::delimited::DelimitedFile;
use refloat_source::items::{Items, ItemsError, Runs};
use refloat_source::layout::{Layout, RowForm, Segment, TableRows};
use refloat_source::script::CUT;
use refloat_sqltext::{InsertHeader, Item, ItemKind, REFLOAT_DUMP, StatementKind};
use refloat_store::Input;

use super::session::Session;
use crate::error::VerifyError;

/// Bytes of rows per piece of delimited text.
const PIECE: usize = 1 << 20;

/// Where the walk is.
#[derive(Default)]
pub struct Place {
    /// The file that is being read, as messages name it.
    pub file: Arc<str>,
    /// Whether the dump is a folder of several files.
    in_folder: bool,
    /// Whether the file holds programs.
    pub programs: bool,
    /// Whether its last line may be missing, and the delimiter of its last statement.
    may_be_open: bool,
    /// The database of names without one.
    pub database: Option<String>,
    /// The session, as the file's statements have set it.
    pub session: Session,
}

/// Receives what a walk meets. `Break` ends the walk.
pub trait Walker {
    /// A file begins at this place.
    fn file(&mut self, place: &Place);
    /// Whether the server that is compared with runs a statement.
    fn runs(&self, place: &Place, text: &[u8]) -> bool;
    /// A statement other than rows; includes `SET` and `USE`.
    fn statement(
        &mut self,
        place: &Place,
        item: &Item,
        kind: &StatementKind,
        text: &[u8],
    ) -> Result<ControlFlow<()>, VerifyError>;
    /// A comment between statements.
    fn comment(&mut self, text: &[u8]);
    /// Tuples of an `INSERT`, with its head.
    fn tuples(
        &mut self,
        place: &Place,
        line: u64,
        rows: (&Arc<InsertHeader>, &[u8]),
    ) -> Result<ControlFlow<()>, VerifyError>;
    /// Rows of delimited text; `names` are the columns that the file's first line lists.
    fn delimited(
        &mut self,
        place: &Place,
        line: u64,
        of: (&TableRows, &DelimitedFile),
        names: Option<&[String]>,
        text: &[u8],
    ) -> Result<ControlFlow<()>, VerifyError>;
}

/// A dump that can be walked.
pub struct Dump {
    /// The folder or file.
    pub path: std::path::PathBuf,
    /// The files of a folder or of delimited text; `None` for a single SQL file.
    pub layout: Option<Layout>,
    /// The database of a dump that names none.
    pub database: Option<String>,
    /// Whether the last line of an SQL file may be missing, and the delimiter of its last
    /// statement.
    pub may_be_open: bool,
    /// Receives how much has been read.
    pub progress: Progress,
}

impl Dump {
    /// Reads the whole dump.
    ///
    /// # Errors
    /// Errors of the walker, and files that cannot be read or are incomplete.
    pub fn walk(&self, cancel: &Cancel, walker: &mut dyn Walker) -> Result<(), VerifyError> {
        let Some(layout) = &self.layout else {
            let mut input = Input::open(&self.path).map_err(SourceError::from)?;
            let position = Arc::clone(input.raw_position());
            self.progress.set_source(input.total_bytes(), position);
            let mut place = self.place(&self.path, None);
            walker.file(&place);
            return sql(&mut input, (Ends::Client, &[]), &mut place, cancel, walker).map(drop);
        };
        let done = Arc::new(AtomicU64::new(0));
        self.progress
            .set_source(Some(layout.bytes()), Arc::clone(&done));
        for segment in &layout.segments {
            match segment {
                Segment::Database(_) | Segment::Stream(_) => {}
                Segment::Sql(file) => {
                    let mut place = self.place(&file.path, file.database.as_deref());
                    place.programs = file.ends == Ends::Line;
                    let session = [&layout.session[..], &file.session].concat();
                    enter(&mut place, session.iter());
                    walker.file(&place);
                    let empty = file.bytes().is_ok_and(|bytes| bytes == 0);
                    if !empty {
                        let mut input = file.open().map_err(SourceError::from)?;
                        let from = (file.ends, &session[..]);
                        let flow = sql(&mut input, from, &mut place, cancel, walker)?;
                        done.fetch_add(file.bytes().unwrap_or(0), Ordering::Relaxed);
                        if flow.is_break() {
                            return Ok(());
                        }
                    }
                }
                Segment::Rows(tables) => {
                    for table in tables {
                        if self.rows(layout, table, &done, cancel, walker)?.is_break() {
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn place(&self, file: &Path, database: Option<&str>) -> Place {
        Place {
            file: file.display().to_string().into(),
            in_folder: self.layout.is_some(),
            programs: false,
            may_be_open: self.may_be_open,
            database: database
                .map(str::to_owned)
                .or_else(|| self.database.clone()),
            session: Session::default(),
        }
    }

    fn rows(
        &self,
        layout: &Layout,
        table: &TableRows,
        done: &AtomicU64,
        cancel: &Cancel,
        walker: &mut dyn Walker,
    ) -> Result<ControlFlow<()>, VerifyError> {
        for file in &table.files {
            done.fetch_add(file.bytes, Ordering::Relaxed);
            if file.is_empty() {
                match file.why_not_empty() {
                    Some(why) => return Err(VerifyError::damaged(&file.path, why)),
                    None => continue,
                }
            }
            let mut place = self.place(&file.path, table.database.as_deref());
            enter(&mut place, layout.session.iter());
            walker.file(&place);
            let mut input = Input::open(&file.path).map_err(SourceError::from)?;
            let form = match &file.form {
                RowForm::Sql => {
                    let from = (Ends::Client, &layout.session[..]);
                    if sql(&mut input, from, &mut place, cancel, walker)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    continue;
                }
                RowForm::Delimited(form) => form,
            };
            enter(&mut place, form.session.iter());
            place.session.set_charset(&form.charset);
            let mut runs = Runs::new(&mut input, form);
            let mut names = None;
            while let Some(run) = runs.next(PIECE).map_err(unreadable(&file.path))? {
                check(cancel)?;
                let (line, text) = (run.line, run.text.to_vec());
                if names.is_none() {
                    names.clone_from(&runs.names);
                }
                let flow =
                    walker.delimited(&place, line, (table, form), names.as_deref(), &text)?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            if let Some((expected, by)) = &file.text
                && runs.bytes() != *expected
            {
                return Err(VerifyError::damaged(
                    &file.path,
                    format!(
                        "it has {} bytes of text, and {by} says that it has {expected}",
                        runs.bytes()
                    ),
                ));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn enter<'s>(place: &mut Place, session: impl Iterator<Item = &'s String>) {
    for statement in session {
        place.session.set(statement.as_bytes());
    }
}

/// Reads a file of SQL, which starts with this session, to its end.
fn sql(
    input: &mut Input,
    (ends, session): (Ends, &[String]),
    place: &mut Place,
    cancel: &Cancel,
    walker: &mut dyn Walker,
) -> Result<ControlFlow<()>, VerifyError> {
    input.cancel_flag(cancel.flag());
    let path = std::path::PathBuf::from(&*place.file);
    let mut items = Items::new(input, ends);
    if place.may_be_open {
        items.take_unterminated();
    }
    for text in session {
        items.start_with(text.as_bytes());
    }
    while let Some(item) = items.next_item().map_err(unreadable(&path))? {
        check(cancel)?;
        let text = items.text(&item);
        let flow = match &item.kind {
            ItemKind::Rows(rows) => {
                let rows = (&rows.header, items.rows(&rows.rows));
                walker.tuples(place, item.line, rows)?
            }
            ItemKind::Statement(_) if !walker.runs(place, text) => ControlFlow::Continue(()),
            ItemKind::Statement(kind) => {
                match kind {
                    StatementKind::Set => place.session.set(text),
                    StatementKind::Use { database } => {
                        place.database = Some(String::from_utf8_lossy(database).into_owned());
                    }
                    _ => {}
                }
                walker.statement(place, &item, kind, text)?
            }
            ItemKind::Comment(_) => {
                if item.line == 1 && text.starts_with(REFLOAT_DUMP) {
                    place.session.keep_charsets();
                }
                walker.comment(text);
                ControlFlow::Continue(())
            }
            ItemKind::ClientCommand(_) | ItemKind::Blank => ControlFlow::Continue(()),
        };
        if flow.is_break() {
            return Ok(flow);
        }
    }
    let script = items.into_script();
    let cut = if place.in_folder {
        script.is_cut_part()
    } else {
        script.is_cut()
    };
    if cut && !place.may_be_open {
        return Err(VerifyError::damaged(
            &path,
            format!("the dump is not whole: {CUT}"),
        ));
    }
    Ok(ControlFlow::Continue(()))
}

fn check(cancel: &Cancel) -> Result<(), VerifyError> {
    if cancel.is_cancelled() {
        return Err(VerifyError::interrupted(cancel));
    }
    Ok(())
}

fn unreadable(path: &Path) -> impl Fn(ItemsError) -> VerifyError {
    let path = path.to_owned();
    move |error| match error {
        ItemsError::Input(error) => SourceError::from(error).into(),
        error => VerifyError::damaged(&path, error.to_string()),
    }
}
