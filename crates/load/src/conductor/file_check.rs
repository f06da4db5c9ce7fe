//! Checks each file of rows before sending any of its rows, so that no row of a misplaced or
//! damaged file gets into a table. The next file is read in the meantime, which also brings it into
//! memory. A mounted file is read only once, and checked at its last row.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use refloat_source::layout::RowFile;
use refloat_store::{InputError, file_checksum, files};

/// Largest file, in bytes, to read twice. A larger one might have to come from disk both times, so
/// its checksum is compared only after its last row. Files of `refloat dump` hold 64 MiB of text by
/// default.
const READ_TWICE: u64 = 256 << 20;

/// Checks the files of a table, one after another.
#[derive(Default)]
pub struct FileCheck(Option<Looking>);

/// A file that is being read through.
struct Looking {
    path: PathBuf,
    thread: JoinHandle<Result<String, InputError>>,
}

impl FileCheck {
    /// Checks that `file` is the one that was written, if its source has a checksum, and starts
    /// reading `next`. `stop` ends the reading early.
    ///
    /// # Errors
    /// [`InputError::Checksum`] if the file is another one or damaged; otherwise the reason it
    /// cannot be read.
    pub fn check(
        &mut self,
        file: &RowFile,
        next: Option<&RowFile>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), InputError> {
        let begun = self.0.take().filter(|looking| looking.path == file.path);
        if let Some(next) = next.filter(|next| checksum_of(next).is_some()) {
            let (path, stop) = (next.path.clone(), Arc::clone(stop));
            let look = {
                let path = path.clone();
                move || file_checksum(&path, &stop)
            };
            // If no thread can be started, the file is checked when its turn comes.
            let thread = thread::Builder::new().spawn(look).ok();
            self.0 = thread.map(|thread| Looking { path, thread });
        }
        let Some(expected) = checksum_of(file) else {
            return Ok(());
        };
        let found = begun.and_then(|looking| looking.thread.join().ok());
        let found = found.unwrap_or_else(|| file_checksum(&file.path, stop))?;
        if found.eq_ignore_ascii_case(expected) {
            return Ok(());
        }
        Err(InputError::Checksum {
            name: file.path.display().to_string(),
        })
    }
}

/// The checksum that a file must have, if it is to be checked in advance.
fn checksum_of(file: &RowFile) -> Option<&str> {
    let known = file.checksum.as_deref();
    let twice = file.bytes <= READ_TWICE && !files::is_mounted(&file.path);
    known.filter(|_| twice && !file.is_empty())
}
