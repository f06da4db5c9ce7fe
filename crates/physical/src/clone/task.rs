//! One connection's part of a copy: puts what it receives where it belongs.

use refloat_repository::BLOCK;

use crate::clone::arrivals::{Arrivals, broken};
use crate::clone::changes;
use crate::clone::protocol::{DataInfo, FileInfo, Stage};
use crate::error::PhysicalError;
use crate::stream::Blocks;

/// A block that is not full yet.
struct Open<F> {
    file: F,
    begins: u64,
    bytes: Vec<u8>,
}

/// One connection's part of a copy. It keeps at most two blocks, whatever arrives.
pub struct Task<'a, 'w, W: Blocks> {
    arrivals: &'a Arrivals<'w, W>,
    number: usize,
    /// Index of the file of the open block.
    index: u32,
    open: Option<Open<W::File>>,
    changes: Vec<u8>,
}

impl<'a, 'w, W: Blocks> Task<'a, 'w, W> {
    /// The master is number 0.
    pub fn new(arrivals: &'a Arrivals<'w, W>, number: usize) -> Self {
        Self {
            arrivals,
            number,
            index: 0,
            open: None,
            changes: Vec::new(),
        }
    }

    pub fn number(&self) -> usize {
        self.number
    }

    /// Learns of a file.
    pub fn file(&mut self, info: &FileInfo) -> Result<(), PhysicalError> {
        if self.number > 0 {
            // Only the master is told what has changed for the next stage.
            self.arrivals.reach_stage(info.stage)?;
        }
        if let Some((target, page)) = self.arrivals.file(info)? {
            self.change(target, 0, &page)?;
            // Pages that arrive later overwrite it.
            self.flush()?;
        }
        Ok(())
    }

    /// Takes bytes of a file.
    pub fn data(&mut self, info: &DataInfo, bytes: &[u8]) -> Result<(), PhysicalError> {
        if bytes.len() != info.length as usize {
            return Err(broken(format!(
                "{} bytes come instead of {}",
                bytes.len(),
                info.length
            )));
        }
        if let Some(target) = self.arrivals.place(info)? {
            self.arrivals.look(info, &target, bytes)?;
            match info.stage {
                Stage::Files => self.block(target.file, info, bytes)?,
                _ if self.arrivals.keeps(info, target.number, bytes) => {}
                _ => self.change(target.number, info.begins, bytes)?,
            }
        }
        self.arrivals.arrived(self.number, info)
    }

    /// Fills blocks of a file. Pages may be so small that several pieces make one.
    fn block(&mut self, file: W::File, info: &DataInfo, bytes: &[u8]) -> Result<(), PhysicalError> {
        let (mut begins, mut rest) = (info.begins, bytes);
        while !rest.is_empty() {
            let is_next = self.index == info.file
                && (self.open.as_ref())
                    .is_some_and(|open| open.begins + open.bytes.len() as u64 == begins);
            if !is_next {
                self.close()?;
            }
            let arrivals = self.arrivals;
            let open = self.open.get_or_insert_with(|| Open {
                file,
                begins,
                bytes: arrivals.writer.buffer(),
            });
            self.index = info.file;
            let room = BLOCK - (begins % BLOCK as u64) as usize;
            let (piece, others) = rest.split_at(room.min(rest.len()));
            open.bytes.extend_from_slice(piece);
            begins += piece.len() as u64;
            rest = others;
            if begins.is_multiple_of(BLOCK as u64) {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Hands the open block on.
    fn close(&mut self) -> Result<(), PhysicalError> {
        match self.open.take() {
            Some(open) => self.arrivals.writer.put(open.file, open.begins, open.bytes),
            None => Ok(()),
        }
    }

    /// Takes bytes that are written over a file later.
    pub fn change(&mut self, target: u32, begins: u64, bytes: &[u8]) -> Result<(), PhysicalError> {
        let mut begins = begins;
        for piece in bytes.chunks(changes::LONGEST) {
            if !changes::has_room(&self.changes, piece.len()) {
                self.put_changes()?;
            }
            changes::put(&mut self.changes, target, begins, piece);
            begins += piece.len() as u64;
        }
        Ok(())
    }

    fn put_changes(&mut self) -> Result<(), PhysicalError> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.changes, self.arrivals.writer.buffer());
        self.arrivals.put_changes(block)
    }

    /// Hands on everything that has arrived.
    pub fn flush(&mut self) -> Result<(), PhysicalError> {
        self.close()?;
        self.put_changes()
    }
}
