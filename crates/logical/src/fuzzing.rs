//! Bodies of the fuzz targets for what is compared, so that plain tests can replay their corpora. No part of the public face; those for what
//! is loaded are in [`refloat_source::fuzzing`].

use std::path::Path;

use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_schema::definition::{
    ServerVersion, differences, fingerprint, without_auto_increment, written_for,
};
use refloat_sqltext::LexMode;
use refloat_wire::Vendor;

use crate::verify::fuzzing::other_dump;
use crate::verify::{Endpoint, VerifyOptions};
use refloat_source::fuzzing::folder_of;

/// What stands between two definitions, on a line of its own.
const BETWEEN: &[u8] = b"\n-- is compared with --\n";
/// Servers that definitions are for.
const SERVERS: [ServerVersion; 4] = [
    server(Vendor::MariaDb, (10, 11, 8)),
    server(Vendor::MariaDb, (11, 8, 2)),
    server(Vendor::MySql, (5, 7, 44)),
    server(Vendor::MySql, (9, 7, 0)),
];

const fn server(vendor: Vendor, version: (u16, u16, u16)) -> ServerVersion {
    ServerVersion { vendor, version }
}

/// Two definitions of a table: what a dump says, and what a server has made of it. The first byte chooses the server and how the dump is
/// read.
pub fn definitions(data: &[u8]) {
    let [choice, text @ ..] = data else {
        return;
    };
    let between = memchr::memmem::find(text, BETWEEN);
    let (dump, create) = between.map_or((text, text), |at| {
        (&text[..at], &text[at + BETWEEN.len()..])
    });
    let create = String::from_utf8_lossy(create);
    let server = SERVERS[usize::from(*choice) % SERVERS.len()];
    let mode = LexMode {
        ansi_quotes: choice & 0x40 != 0,
        no_backslash_escapes: choice & 0x80 != 0,
        ..LexMode::default()
    };
    drop(differences(server, "d.t", dump, mode, &create));
    drop(written_for(dump, mode, server));
    let without = without_auto_increment(&create);
    assert!(without.len() <= create.len());
    fingerprint(&create);
}

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

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::*;

    #[test]
    fn seeds_of_definitions_and_what_is_like_them() {
        corpus::replay("definitions", 4, definitions);
    }

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
