//! What a backup or a restore reports as done is on the disk.

use std::fs;
use std::path::Path;

use refloat_physical::verify;
use refloat_sandbox::ServerKind;
use refloat_testkit::disk::LossyDisk;

use crate::common::{Place, TABLES};

/// The files below a folder with their content.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.push((path.display().to_string(), content));
            }
        }
    }
    found.sort();
    found
}

// Hazard of files: P-18 the power goes at the moment a backup or a restore is done, in a directory
//   that is exchanged and in a mount point: every block and file is there
#[test]
fn what_is_done_survives_an_outage() {
    let mut place = Place::new(ServerKind::MariaDb1011);
    place.sql(TABLES);
    let expected = place.snapshot();
    let mut disk = LossyDisk::below(&place.folder.path().join("repository"));
    place.back_up("one").unwrap();
    disk.cut(|| {});
    let backups = place.repository.backups().unwrap();
    let read = verify(&place.repository, &backups, None, 2, &place.run("verify")).unwrap();
    assert_eq!((read.labels.len(), read.damaged.len()), (1, 0), "{read:?}");

    place.server.stop().unwrap();
    let above = place.folder.path().join("above");
    fs::create_dir(&above).unwrap();
    let mut below = LossyDisk::below(&above);
    let mut options = place.restoring("one");
    options.target.datadir = above.join("data");
    place.restore(&options).unwrap();
    let there = files(&above);
    below.cut(|| {});
    let left = files(&above);
    let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        let of = |(name, content): &(String, Vec<u8>)| format!("{name} {}", content.len());
        files.iter().map(of).collect()
    };
    assert_eq!(names(&left), names(&there));
    assert!(left == there, "files have changed");

    let mut disk = LossyDisk::below(&place.server.datadir());
    let restored = place.restore(&place.restoring("one")).unwrap();
    disk.cut(|| {});
    // The server takes a folder in its data directory for a database.
    fs::remove_dir_all(restored.aside.unwrap()).unwrap();
    place.server.restart().unwrap();
    place.assert_holds(&expected);
    place.server.stop().unwrap();
}
