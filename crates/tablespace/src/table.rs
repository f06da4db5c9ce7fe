//! Builds all indexes of a table from its rows.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::description::{Description, StoredIndex};
use crate::index::{IndexBuilder, PartBuilder};
use crate::level::Part;
use crate::order::{Collation, Order, UnknownOrder};
use crate::record::{Record, Row, RowError, Shape, ShapeError};
use crate::sort::{Run, Runs, SortedRun};
use crate::space::{Pages, TemplateError};

/// Why an index cannot be built here.
#[derive(Debug, thiserror::Error)]
pub enum CannotBuild {
    /// Its records cannot be made.
    #[error("index {index}: {source}")]
    Shape {
        /// The index.
        index: String,
        /// What is wrong.
        source: ShapeError,
    },
    /// Its order is not known.
    #[error("index {index}: {source}")]
    Order {
        /// The index.
        index: String,
        /// What is wrong.
        source: UnknownOrder,
    },
    /// The template is not as expected.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Rows are stored in the oldest form.
    #[error("the table has ROW_FORMAT=REDUNDANT")]
    Redundant,
    /// It is for full text or spatial.
    #[error("index {0} is not a plain one")]
    Kind(String),
}

/// Why a table cannot be built of its rows.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file cannot be written or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A row cannot be stored.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A row does not come after the one before it.
    #[error("its rows are not in the order of the primary key")]
    NotInOrder,
    /// Two rows have the same key.
    #[error("two rows have the same value in the unique index {0}")]
    Duplicate(String),
    /// A part failed or was given up before, so rows are missing.
    #[error("not all parts of the table were built")]
    Unfinished,
}

/// An index and how it is built.
struct Planned {
    name: String,
    shape: Shape,
    order: Order,
    builder: IndexBuilder,
}

/// Builds a table. Its rows come in parts, which may be built at the same time.
pub struct TableBuilder {
    pages: Arc<Pages>,
    roots: Vec<u32>,
    clustered: Planned,
    others: Vec<Planned>,
    /// How many columns a row has.
    columns: usize,
    /// Memory for the records of another index in a part, in bytes.
    memory: usize,
    joined: Mutex<Joined>,
}

/// What the parts have come to.
struct Joined {
    /// Parts that are being built.
    open: usize,
    /// Whether one failed.
    has_failed: bool,
    /// The number of the next part.
    next: usize,
    /// Parts that are finished before an earlier one.
    waiting: BTreeMap<usize, Finished>,
    rows: Option<Part>,
    /// Key of the last row.
    last: Vec<u8>,
    /// The records of the other indexes.
    others: Vec<Runs>,
    count: u64,
}

/// A part whose rows are all there.
struct Finished {
    rows: Option<Part>,
    first: Vec<u8>,
    last: Vec<u8>,
    count: u64,
}

/// A part keeps this share of the memory of an index before it hands records on.
const OF_PART: usize = 8;

impl TableBuilder {
    /// Begins a table as its server describes it, with all its indexes. `collations` knows how the
    /// collation of a number compares. `memory` is for sorting, in bytes for each index but that of
    /// the rows, and an eighth of it more for each part that is being built; what has no room goes
    /// to a file in `folder`.
    ///
    /// # Errors
    /// An index cannot be built here.
    pub fn new(
        table: &Description,
        pages: Pages,
        collations: impl Fn(u32) -> Option<Collation>,
        memory: usize,
        folder: &Path,
    ) -> Result<Self, CannotBuild> {
        let wrong = |what| CannotBuild::from(TemplateError { page: 0, what });
        if table.page_size as usize != pages.format.page_size {
            return Err(wrong("its pages are not as large as the description says"));
        }
        if table.is_redundant() {
            return Err(CannotBuild::Redundant);
        }
        let pages = Arc::new(pages);
        let plan = |index: &StoredIndex| {
            let (shape, order) = planned(table, index, &collations)?;
            let builder = IndexBuilder::new(&pages, index, &shape)?;
            Ok(Planned {
                name: index.name.clone(),
                shape,
                order,
                builder,
            })
        };
        let mut planned = table
            .indexes
            .iter()
            .map(plan)
            .collect::<Result<Vec<_>, CannotBuild>>()?;
        if table.indexes.first().is_none_or(|one| !one.is_clustered()) {
            return Err(wrong("the first index does not hold the rows"));
        }
        let clustered = planned.remove(0);
        Ok(Self {
            pages,
            roots: table.indexes.iter().map(|index| index.root).collect(),
            clustered,
            joined: Mutex::new(Joined {
                open: 0,
                has_failed: false,
                next: 0,
                waiting: BTreeMap::new(),
                rows: None,
                last: Vec::new(),
                others: planned
                    .iter()
                    .map(|_| Runs::new(memory, folder.to_owned()))
                    .collect(),
                count: 0,
            }),
            columns: table
                .columns
                .iter()
                .filter(|column| !column.is_system())
                .count(),
            others: planned,
            memory: memory / OF_PART,
        })
    }

    /// Whether an index of a table can be built here, as far as its description says.
    ///
    /// # Errors
    /// It cannot.
    pub fn plan(
        table: &Description,
        index: &StoredIndex,
        collations: impl Fn(u32) -> Option<Collation>,
    ) -> Result<(), CannotBuild> {
        planned(table, index, &collations).map(drop)
    }

    /// Begins a part, whose rows all come after those of the parts before it. Parts are numbered
    /// from 0. `first` is the number of its first row in the table, from 0: in a table without a
    /// key, this is what it is found by. Numbers may be left out.
    pub fn part(self: &Arc<Self>, number: usize, first: u64) -> TablePart {
        self.joined().open += 1;
        TablePart {
            number,
            next: first + 1,
            rows: self.clustered.builder.part(),
            runs: self.others.iter().map(|_| Run::default()).collect(),
            first: Vec::new(),
            last: Vec::new(),
            count: 0,
            is_broken: false,
            record: Record::default(),
            key: Vec::new(),
            table: Arc::clone(self),
        }
    }

    fn joined(&self) -> MutexGuard<'_, Joined> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a part, and joins all that now follow each other.
    fn join(&self, number: usize, part: Finished, runs: Vec<SortedRun>) -> Result<(), BuildError> {
        let mut joined = self.joined();
        // Until all is done.
        let had_failed = std::mem::replace(&mut joined.has_failed, true);
        let is_new = number >= joined.next && !joined.waiting.contains_key(&number);
        if had_failed || !is_new {
            return Err(BuildError::Unfinished);
        }
        for (all, run) in joined.others.iter_mut().zip(runs) {
            all.add(run)?;
        }
        joined.waiting.insert(number, part);
        loop {
            let next = joined.next;
            let Some(part) = joined.waiting.remove(&next) else {
                break;
            };
            joined.next += 1;
            joined.count += part.count;
            let Some(rows) = part.rows else { continue };
            if joined.rows.is_some() && joined.last >= part.first {
                return Err(BuildError::NotInOrder);
            }
            joined.last = part.last;
            match &mut joined.rows {
                Some(before) => before.append(rows, &self.pages)?,
                none => *none = Some(rows),
            }
        }
        joined.open -= 1;
        joined.has_failed = false;
        Ok(())
    }

    /// Builds what is left when all parts are finished. Returns the number of rows and the size of
    /// the file in bytes. It is not on the disk yet.
    ///
    /// # Errors
    /// Rows are missing, two of them have the same key, or the file cannot be written.
    pub fn finish(&self) -> Result<(u64, u64), BuildError> {
        let (rows, others, count) = {
            let mut joined = self.joined();
            let has_failed = std::mem::replace(&mut joined.has_failed, true);
            if has_failed || joined.open > 0 || !joined.waiting.is_empty() {
                return Err(BuildError::Unfinished);
            }
            let others = std::mem::take(&mut joined.others);
            (joined.rows.take(), others, joined.count)
        };
        self.clustered.builder.finish(rows)?;
        for (index, runs) in self.others.iter().zip(others) {
            let mut part = index.builder.part();
            let mut last: Vec<u8> = Vec::new();
            let mut merged = 0;
            runs.merge(|key, unique, record| {
                if unique > 0 {
                    if key[..unique] == last[..] {
                        return Err(BuildError::Duplicate(index.name.clone()));
                    }
                    last.clear();
                    last.extend_from_slice(&key[..unique]);
                }
                merged += 1;
                Ok(part.push(record)?)
            })?;
            if merged != count {
                return Err(BuildError::Unfinished);
            }
            index.builder.finish(part.finish()?)?;
        }
        Ok((count, self.pages.finish(&self.roots)?))
    }
}

/// How the records of an index are made and ordered.
fn planned(
    table: &Description,
    index: &StoredIndex,
    collations: &impl Fn(u32) -> Option<Collation>,
) -> Result<(Shape, Order), CannotBuild> {
    let name = || index.name.clone();
    if !index.is_plain() {
        return Err(CannotBuild::Kind(name()));
    }
    let shape = Shape::of(table, index).map_err(|source| CannotBuild::Shape {
        index: name(),
        source,
    })?;
    let order = Order::of(table, index, collations).map_err(|source| CannotBuild::Order {
        index: name(),
        source,
    })?;
    Ok((shape, order))
}

/// A part of the rows of a table. One that is dropped before it is finished leaves the table
/// unfinished.
pub struct TablePart {
    table: Arc<TableBuilder>,
    number: usize,
    /// Number of the next row.
    next: u64,
    rows: PartBuilder,
    /// The records of the other indexes.
    runs: Vec<Run>,
    /// Keys of the first and the last row.
    first: Vec<u8>,
    last: Vec<u8>,
    count: u64,
    /// Whether a row is only in some of the indexes.
    is_broken: bool,
    record: Record,
    key: Vec<u8>,
}

impl TablePart {
    /// Begins the next row.
    pub fn begin(&mut self, row: &mut Row) {
        row.clear(self.next);
        self.next += 1;
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.count
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The row cannot be stored here or comes too early: then the part may be finished without it.
    /// After any other error, it cannot be finished.
    pub fn push(&mut self, row: &Row) -> Result<(), BuildError> {
        if self.is_broken {
            return Err(BuildError::Unfinished);
        }
        if row.columns() != self.table.columns {
            return Err(RowError::Unexpected(row.columns()).into());
        }
        let Planned { shape, order, .. } = &self.table.clustered;
        shape.record(row, &mut self.record)?;
        self.key.clear();
        order.key(shape, row, &mut self.key);
        if self.count == 0 {
            self.first.clone_from(&self.key);
        } else if self.key <= self.last {
            return Err(BuildError::NotInOrder);
        }
        self.is_broken = true;
        std::mem::swap(&mut self.last, &mut self.key);
        self.rows.push_row(shape, row, &mut self.record)?;
        for (at, (index, run)) in self.table.others.iter().zip(&mut self.runs).enumerate() {
            self.key.clear();
            index.shape.record(row, &mut self.record)?;
            let unique = index.order.key(&index.shape, row, &mut self.key);
            run.push(&self.key, unique, &self.record);
            if run.held() > self.table.memory {
                let run = std::mem::take(run).sorted();
                let mut joined = self.table.joined();
                let all = joined.others.get_mut(at);
                all.ok_or(BuildError::Unfinished)?.add(run)?;
            }
        }
        self.count += 1;
        self.is_broken = false;
        Ok(())
    }

    /// Ends the part.
    ///
    /// # Errors
    /// Its rows do not come after those of the part before it, or a file cannot be written.
    pub fn finish(self) -> Result<(), BuildError> {
        if self.is_broken {
            return Err(BuildError::Unfinished);
        }
        let finished = Finished {
            rows: self.rows.finish()?,
            first: self.first,
            last: self.last,
            count: self.count,
        };
        let runs = self.runs.into_iter().map(Run::sorted).collect();
        self.table.join(self.number, finished, runs)
    }
}
