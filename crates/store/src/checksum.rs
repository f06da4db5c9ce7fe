//! The checksum of a stored file.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use twox_hash::XxHash3_128;

use crate::{InputError, files};

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// XXH3-128 of the stored bytes of a file, in 32 hexadecimal digits, comparable with
/// [`crate::Written::checksum`]. Setting `stop` aborts the read.
///
/// # Errors
/// The file cannot be read, or [`InputError::Cancelled`] when `stop` was set.
pub fn file_checksum(path: &Path, stop: &AtomicBool) -> Result<String, InputError> {
    let name = path.display().to_string();
    let mut at = 0;
    let mut file = files::open(path, 0).map_err(|e| InputError::from_io(&name, at, e))?;
    let mut hash = XxHash3_128::new();
    let mut piece = vec![0; PIECE];
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(InputError::Cancelled { name });
        }
        match file.read(&mut piece) {
            Ok(0) => return Ok(format!("{:032x}", hash.finish_128())),
            Ok(bytes) => {
                hash.write(&piece[..bytes]);
                at += bytes as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(InputError::from_io(&name, at, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_all_bytes_and_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let bytes = vec![7; PIECE * 2 + 5];
        std::fs::write(&path, &bytes).unwrap();
        let wanted = format!("{:032x}", XxHash3_128::oneshot(&bytes));
        assert_eq!(
            file_checksum(&path, &AtomicBool::new(false)).unwrap(),
            wanted
        );
        let stopped = file_checksum(&path, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(InputError::Cancelled { .. })));
        let missing = file_checksum(&folder.path().join("none"), &AtomicBool::new(false));
        assert!(matches!(missing, Err(InputError::NotFound { .. })));
    }
}
