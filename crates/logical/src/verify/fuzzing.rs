//! Reading the dump of another tool for a fuzz target. No part of the public face.

use std::ops::ControlFlow;
use std::path::Path;

use refloat_run::Run;

use super::options::VerifyOptions;
use super::other::OtherDump;

/// Reads a dump, and the rows of each of its tables; whether it is one.
pub fn other_dump(path: &Path, options: &VerifyOptions, run: &Run) -> bool {
    let Ok(dump) = OtherDump::open(path, None, options, None, run) else {
        return false;
    };
    for table in dump.tables() {
        let mut each = |_: &[u8]| ControlFlow::Continue(());
        // What could be read once can be read twice.
        let again = dump.rows(table, options, &run.cancel, &mut each);
        assert!(again.is_ok(), "{}: {again:?}", table.label());
    }
    true
}
