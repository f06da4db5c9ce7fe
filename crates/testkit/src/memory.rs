//! Keeps files of tests in memory where there is plenty of it.
//!
//! Servers and `refloat` flush to disk at every definition, and tests do little else: on a busy
//! disk they wait for it a third of the time. What survives the end of a process survives in memory
//! too. Tests that cut the power bring a disk of their own.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names the folder. `scripts/test` sets it for all test programs and what they start, so that they
/// agree.
const FOLDER: &str = "REFLOAT_TEST_FOLDER";

/// The folder for data of test servers and for their dumps: the one for temporary files, unless
/// `REFLOAT_TEST_FOLDER` names another one.
pub fn folder() -> &'static Path {
    static CHOSEN: OnceLock<PathBuf> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var_os(FOLDER).map_or_else(std::env::temp_dir, PathBuf::from))
}
