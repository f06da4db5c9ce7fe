//! Body of the fuzz target for the files of runs and for what a server reports about its settings,
//! so that plain tests can replay its corpus. Not part of the public API.

use std::path::Path;

use crate::settings::{Grants, Journal, ProviderOptions, list, size_in_bytes};
use crate::{RunDir, RunId};

/// Separates `run.json` from `settings.json` in a seed.
const BETWEEN: &str = "\n---\n";
const RUN: &str = "20260101-000000-abcdef";

/// Reads files of a run, options of a Galera provider, or grants: the first byte decides which.
/// Files are written to `at`, which is created and removed.
///
/// # Panics
/// If the files cannot be written.
pub fn files(data: &[u8], at: &Path) {
    let [kind, bytes @ ..] = data else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    match kind % 3 {
        0 => {
            let id: RunId = RUN.parse().expect("it is the id of a run");
            let folder = at.join("runs").join(id.as_str());
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            let (run, settings) = text.split_once(BETWEEN).unwrap_or((&text, "{}"));
            std::fs::write(folder.join("run.json"), run).expect("a file can be written");
            std::fs::write(folder.join(RunDir::SETTINGS), settings).expect("a file can be written");
            if let Ok(open) = list(at) {
                assert!(open.iter().all(|run| !run.journal.closed));
            }
            if let Ok(run) = RunDir::open(at, &id) {
                drop(run.read::<Journal>(RunDir::SETTINGS));
                drop(run.read::<serde_json::Value>(RunDir::SETTINGS));
            }
            std::fs::remove_dir_all(at).expect("the folder can be removed");
        }
        1 => {
            let options = ProviderOptions::parse(&text);
            options.bytes("gcache.size");
            size_in_bytes(&text);
        }
        _ => {
            let grants = Grants::of_lines(text.lines());
            grants.may(&["SELECT"]);
            grants.on_table("SELECT", "a_b", "t");
            grants.sees_all_databases();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_what_is_like_them() {
        let scratch = tempfile::tempdir().unwrap();
        refloat_testkit::corpus::replay("runs", 3, |data| {
            files(data, &scratch.path().join("state"));
        });
    }
}
