//! Reads the last bytes of a plain file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::{Compression, InputError};

/// The last `n` bytes of a plain regular file, or `None` when they are not available without
/// reading everything (compressed files, pipes, standard input).
///
/// Lets a caller check the end of a dump before changing anything: it is `-- Dump completed` if the
/// dump program finished.
pub fn tail(path: &Path, n: usize) -> Result<Option<Vec<u8>>, InputError> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let name = path.display().to_string();
    let sort = |e| InputError::from_io(&name, 0, e);
    // Checked before opening: opening a named pipe would wait for its writer.
    let meta = std::fs::metadata(path).map_err(sort)?;
    if !meta.is_file() {
        return Ok(None);
    }
    let mut file = File::open(path).map_err(sort)?;
    let mut head = Vec::with_capacity(8);
    file.by_ref().take(8).read_to_end(&mut head).map_err(sort)?;
    if Compression::detect(&head) != Compression::None {
        return Ok(None);
    }
    let length = file.metadata().map_err(sort)?.len();
    let from = length.saturating_sub(n as u64);
    file.seek(SeekFrom::Start(from)).map_err(sort)?;
    let mut last = Vec::with_capacity(usize::try_from(length - from).unwrap_or(n));
    file.take(n as u64).read_to_end(&mut last).map_err(sort)?;
    Ok(Some(last))
}
