//! Builds the B-tree of an index from records in its order.

use std::io;
use std::sync::Arc;

use crate::description::StoredIndex;
use crate::elsewhere;
use crate::format::{
    NEXT_AT, NO_PAGE, SEGMENTS, SEGMENTS_AT, TYPE_AT, TYPE_INDEX, get_u16, get_u32, get_u64,
};
use crate::level::{
    COMPACT, FIRST_HEAP_NUMBER, HEAP_AT, INDEX_AT, LEVEL_AT, Level, LevelOf, LevelWriter, Part,
    RECORDS_AT,
};
use crate::record::{Elsewhere, REFERENCE, Record, Row, Shape};
use crate::space::{Pages, SegmentId, TemplateError};

/// An index that is being built, in parts of which each has greater keys than those before it.
pub struct IndexBuilder {
    pages: Arc<Pages>,
    root: u32,
    /// What its root says of its segments.
    segments: [u8; SEGMENTS],
    upper: SegmentId,
    of: LevelOf,
}

/// A part of the lowest level of an index.
pub struct PartBuilder {
    pages: Arc<Pages>,
    segment: SegmentId,
    level: LevelWriter,
}

impl IndexBuilder {
    /// Begins an index whose empty root is a page of the template.
    ///
    /// # Errors
    /// The page is not an empty root.
    pub fn new(
        pages: &Arc<Pages>,
        index: &StoredIndex,
        shape: &Shape,
    ) -> Result<Self, TemplateError> {
        let [lowest, upper] = pages.segments(index.root)?;
        let mut segments = [0; SEGMENTS];
        let root = pages.of_template(index.root)?;
        check_root(root, index)?;
        segments.copy_from_slice(&root[SEGMENTS_AT..SEGMENTS_AT + SEGMENTS]);
        Ok(Self {
            pages: Arc::clone(pages),
            root: index.root,
            segments,
            upper,
            of: LevelOf {
                index: index.id,
                space: pages.space,
                level: 0,
                segment: lowest,
                is_clustered: index.is_clustered(),
                nulls: shape.null_bytes(),
            },
        })
    }

    /// Begins a part of the lowest level. Parts can be built at the same time.
    pub fn part(&self) -> PartBuilder {
        PartBuilder {
            pages: Arc::clone(&self.pages),
            segment: self.of.segment,
            level: LevelWriter::new(self.of, self.pages.format),
        }
    }

    /// Builds the upper levels over the lowest one and writes the root. `None`: it has no record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, mut lowest: Option<Part>) -> io::Result<()> {
        let mut of = self.of;
        loop {
            let Some(part) = lowest else {
                let page = self.pages.of_template(self.root);
                return self.pages.write(self.root, page.map_err(io::Error::other)?);
            };
            match part.finish(&self.pages)? {
                Level::One(mut page) => {
                    page[SEGMENTS_AT..SEGMENTS_AT + SEGMENTS].copy_from_slice(&self.segments);
                    self.pages.complete(&mut page, self.root, NO_PAGE, NO_PAGE);
                    return self.pages.write(self.root, &page);
                }
                Level::More(entries) => {
                    of.level += 1;
                    of.segment = self.upper;
                    let mut level = LevelWriter::new(of, self.pages.format);
                    for (head, data) in entries.iter() {
                        level.push_entry(head, data, &self.pages)?;
                    }
                    lowest = level.finish(&self.pages)?;
                }
            }
        }
    }
}

/// Whether a root is that of an index without records.
fn check_root(page: &[u8], index: &StoredIndex) -> Result<(), TemplateError> {
    let is_empty = get_u16(page, TYPE_AT) == TYPE_INDEX
        && get_u64(page, INDEX_AT) == index.id
        && get_u16(page, LEVEL_AT) == 0
        && get_u16(page, RECORDS_AT) == 0
        && get_u16(page, HEAP_AT) == COMPACT | FIRST_HEAP_NUMBER
        && get_u32(page, NEXT_AT) == NO_PAGE;
    is_empty.then_some(()).ok_or(TemplateError {
        page: index.root,
        what: "it is not the root of an index without records",
    })
}

impl PartBuilder {
    /// Adds the next record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        self.level.push(record, &self.pages)
    }

    /// Adds the record of the next row, of which values may be stored elsewhere.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push_row(&mut self, shape: &Shape, row: &Row, record: &mut Record) -> io::Result<()> {
        for at in 0..record.elsewhere.len() {
            let Elsewhere { column, at, .. } = record.elsewhere[at];
            let value = shape.rest(row, column);
            let reference =
                elsewhere::write(value, self.segment, &mut self.level.lane, &self.pages)?;
            record.data[at..at + REFERENCE].copy_from_slice(&reference);
        }
        self.push(record)
    }

    /// Ends the part; `None` if it has no record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> io::Result<Option<Part>> {
        self.level.finish(&self.pages)
    }
}
