//! Files of rows are looked at before any of their rows is sent: none of a file that is in the place of another one, or is damaged, gets
//! into a table. The next file is read meanwhile, which also brings it into memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use refloat_store::{InputError, file_checksum};

use refloat_source::layout::RowFile;

/// Bytes of a file that is read twice. A larger one might have to come from the disk both times: what is wrong with it is found when its
/// last row was read. Files of `refloat dump` hold 64 MiB of text, unless somebody asked for other ones.
const READ_TWICE: u64 = 256 << 20;

/// Looks at the files of a table, one after the other.
#[derive(Default)]
pub struct Ahead(Option<Looking>);

/// A file that is being read through.
struct Looking {
    path: PathBuf,
    thread: JoinHandle<Result<String, InputError>>,
}

impl Ahead {
    /// Makes sure that `file` is the one that was written, where its source says so, and begins with the one that is read after it.
    /// `stop` ends the reading early.
    ///
    /// # Errors
    /// [`InputError::Checksum`] when it is another one, or damaged; what keeps it from being read.
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
            // Without a thread it is looked at when its turn comes.
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

/// The checksum that a file must have, if it is to be looked at beforehand.
fn checksum_of(file: &RowFile) -> Option<&str> {
    let known = file.checksum.as_deref();
    known.filter(|_| file.bytes <= READ_TWICE && !file.is_empty())
}
