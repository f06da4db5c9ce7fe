//! The body of a fuzz target, so that plain tests can replay its corpus. No part of the public face.

use std::ops::ControlFlow;
use std::path::Path;

use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_source::fuzzing::folder_of;

use super::options::{Endpoint, VerifyOptions};
use super::other::OtherDump;

/// A dump of another tool, that is compared: one file of SQL, or the files of a folder as [`refloat_source::fuzzing::folder`] has them.
/// They are written to `at`, which is made and removed. Says whether it was read.
///
/// # Panics
/// When they cannot be written.
pub fn other(data: &[u8], at: &Path) -> bool {
    std::fs::create_dir(at).expect("the folder can be made");
    let dump = at.join("dump");
    if data.starts_with(b"==> ") {
        std::fs::create_dir(&dump).expect("the folder can be made");
        folder_of(data, &dump);
    } else {
        std::fs::write(&dump, data).expect("the file can be written");
    }
    let run = Run {
        dir: RunDir::create(&at.join("state"), "fuzz").expect("a run can be begun"),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    };
    let endpoint = || Endpoint::Dump(dump.clone());
    let mut options = VerifyOptions::new(endpoint(), endpoint());
    options.threads = 1;
    let read = other_dump(&dump, &options, &run);
    std::fs::remove_dir_all(at).expect("the folder can be removed");
    read
}

/// Reads a dump, and the rows of each of its tables; whether it is one.
fn other_dump(path: &Path, options: &VerifyOptions, run: &Run) -> bool {
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

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::*;

    #[test]
    fn seeds_of_other_dumps_are_read() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, seed) in corpus::seeds("other") {
            assert!(other(&seed, &scratch.path().join("other")), "{name}");
        }
    }

    #[test]
    fn nothing_like_the_seeds_of_other_dumps_makes_a_panic() {
        let scratch = tempfile::tempdir().unwrap();
        corpus::replay("other", 4, |data| {
            other(data, &scratch.path().join("other"));
        });
    }
}
