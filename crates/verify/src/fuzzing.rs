//! The body of a fuzz target, here so that plain tests can replay its corpus. Not part of the
//! public API.

use std::ops::ControlFlow;
use std::path::Path;

use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_source::fuzzing::folder_of;

use super::options::{Endpoint, VerifyOptions};
use super::other::OtherDump;

/// Opens a dump of another tool and reads the rows of its tables. The dump is one SQL file, or the
/// files of a folder as [`refloat_source::fuzzing::folder`] encodes them. They are written to `at`,
/// which is created and removed. Returns whether the dump could be read.
///
/// # Panics
/// If the files cannot be written.
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

/// Opens a dump and reads the rows of each of its tables. Returns whether it could be opened.
fn other_dump(path: &Path, options: &VerifyOptions, run: &Run) -> bool {
    let Ok(dump) = OtherDump::open(path, None, options, None, run) else {
        return false;
    };
    for table in dump.tables() {
        let mut each = |_: &[u8]| ControlFlow::Continue(());
        // A second read must succeed where the first one did.
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
