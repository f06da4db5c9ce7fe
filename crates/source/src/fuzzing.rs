//! Bodies of the fuzz targets, so that ordinary tests can replay their corpora. Not part of the
//! public API.

use std::path::Path;

use super::{DelimitedOptions, SourceFormat, inspect};

/// Starts a file within the fuzz input, before its name.
const MARK: &[u8] = b"==> ";
/// Formats that the folder is read as; `None` detects the format.
const FORMATS: [Option<SourceFormat>; 5] = [
    None,
    Some(SourceFormat::Refloat),
    Some(SourceFormat::Mydumper),
    Some(SourceFormat::Shell),
    Some(SourceFormat::Tab),
];

/// Inspects a folder that a tool may have written: manifests, indexes, definitions. `data` holds
/// its files one after another, each after a line `==> NAME`. They are written to `at`, which is
/// created and removed. Returns how many formats can read it.
///
/// # Panics
/// If the files cannot be written.
pub fn folder(data: &[u8], at: &Path) -> usize {
    std::fs::create_dir(at).expect("the folder can be made");
    folder_of(data, at);
    let options = DelimitedOptions::default();
    let ways = FORMATS
        .iter()
        .filter(|format| inspect(at, **format, &options, at, true).is_ok())
        .count();
    std::fs::remove_dir_all(at).expect("the folder can be removed");
    ways
}

/// Writes the files into a folder.
pub fn folder_of(data: &[u8], at: &Path) {
    let mut file: Option<(String, Vec<u8>)> = None;
    let write = |file: Option<(String, Vec<u8>)>| {
        if let Some((name, content)) = file {
            std::fs::write(at.join(name), content).expect("a file can be written");
        }
    };
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if let Some(name) = line.strip_prefix(MARK) {
            write(file.take());
            file = plain(name).map(|name| (name, Vec::new()));
        } else if let Some((_, content)) = &mut file {
            content.extend_from_slice(line);
        }
    }
    write(file);
}

/// A safe file name, without folders.
fn plain(line: &[u8]) -> Option<String> {
    let name = String::from_utf8_lossy(line).trim().to_owned();
    let part = |c: char| c.is_ascii_alphanumeric() || "@._-=+".contains(c);
    let fine = !name.is_empty() && name.len() < 100 && name.chars().all(part);
    (fine && name != "." && name != "..").then_some(name)
}

/// Inspects a single file: SQL, compressed or not, a tar archive, or a mydumper stream. It is
/// written to `at`, which is created and removed. Returns 1 if the file can be read, otherwise 0.
///
/// # Panics
/// If the file cannot be written.
pub fn file(data: &[u8], at: &Path) -> usize {
    std::fs::create_dir(at).expect("the folder can be made");
    let path = at.join("dump");
    std::fs::write(&path, data).expect("the file can be written");
    let inspected = inspect(&path, None, &DelimitedOptions::default(), at, true);
    std::fs::remove_dir_all(at).expect("the folder can be removed");
    usize::from(inspected.is_ok())
}

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    use super::*;

    type Body = fn(&[u8], &Path) -> usize;
    const BODIES: [(&str, Body); 2] = [("folder", folder), ("file", file)];

    #[test]
    fn seeds_of_folders_are_what_they_look_like() {
        let scratch = tempfile::tempdir().unwrap();
        for (target, body) in BODIES {
            for (name, seed) in corpus::seeds(target) {
                assert!(body(&seed, &scratch.path().join(target)) > 0, "{name}");
            }
        }
    }

    #[test]
    fn nothing_like_the_seeds_makes_a_panic() {
        let scratch = tempfile::tempdir().unwrap();
        for (target, body) in BODIES {
            corpus::replay(target, 4, |data| {
                body(data, &scratch.path().join(target));
            });
        }
    }
}
