//! Replays the seed corpora of the fuzz targets.

use std::path::Path;

use refloat_sqltext::fuzzing;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut seeds = 0;
    for entry in std::fs::read_dir(&folder).expect("a corpus") {
        let data = std::fs::read(entry.expect("an entry").path()).expect("a seed");
        body(&data);
        // Again, with every other mode.
        for flags in 0..=u8::MAX {
            body(&[&[flags], &data[1..]].concat());
        }
        seeds += 1;
    }
    assert!(seeds >= 3, "{} has {seeds} seeds", folder.display());
}

#[test]
fn scanner() {
    replay("scanner", fuzzing::scanner);
}

#[test]
fn values() {
    replay("values", fuzzing::values);
}

#[test]
fn ddl() {
    replay("ddl", fuzzing::ddl);
}
