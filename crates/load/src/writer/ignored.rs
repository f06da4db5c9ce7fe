//! Tells the warnings of an `INSERT IGNORE` that mean a changed value from those that do not.
//!
//! In a strict session it stores what another `INSERT` is refused for, and warns of it: index 0 of
//! an `ENUM` (`empty_enum`), and generated columns whose expression gives a warning (`computed`).

use refloat_wire::{Error, Warning};

use super::Link;
use super::empty_enum::{empty_enums, is_of_enum};
use crate::chunk::Chunk;
use crate::context::remove_duplicates;

impl Link {
    /// Removes the warnings that do not mean a changed value from those about these rows, of which
    /// the server has stored so many.
    pub(super) fn remove_expected(
        &mut self,
        chunk: &Chunk,
        tuples: &[u8],
        rows: u64,
        stored: u64,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        // A row that it leaves out for a constraint, or for want of a partition, is missed.
        let complete = stored + remove_duplicates(warnings) == rows;
        let layout = chunk.table.layout().filter(|layout| layout.may_warn());
        let judgeable = complete && !warnings.is_empty() && chunk.form.delimited().is_none();
        let Some(layout) = layout.filter(|_| judgeable) else {
            return Ok(());
        };
        let of_enums = warnings.iter().filter(|one| is_of_enum(one, &layout));
        if of_enums.count() as u64 == empty_enums(chunk, &layout, tuples) {
            warnings.retain(|one| !is_of_enum(one, &layout));
        }
        let mut converted = Vec::new();
        if !warnings.is_empty()
            && self
                .judged(chunk, (tuples, rows), &mut converted)?
                .is_some()
        {
            warnings.clear();
        }
        Ok(())
    }
}
