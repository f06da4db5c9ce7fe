//! Keeps files of tests in memory if there is enough of it.
//!
//! Servers and `refloat` flush to disk at every definition, and tests do little else: on a busy
//! disk, they wait for it a third of the time. Files in memory survive the end of a process too.
//! Tests that simulate a power failure use a disk of their own.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names the folder. `scripts/test` sets it for all test programs and their children, so that they
/// use the same folder.
const FOLDER: &str = "REFLOAT_TEST_FOLDER";

/// The folder for the data of test servers and for their dumps: `REFLOAT_TEST_FOLDER`, or else the
/// folder for temporary files.
pub fn folder() -> &'static Path {
    static CHOSEN: OnceLock<PathBuf> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var_os(FOLDER).map_or_else(std::env::temp_dir, PathBuf::from))
}
