//! Keeps an empty data directory from becoming a new server while its files are being restored.
//!
//! Images of containers and start scripts of packages make a new server in a data directory that
//! has no folder `mysql`. Started again by its supervisor while a restore is under way, or after
//! one was interrupted, such a container has an empty server that looks healthy; in a Galera
//! cluster it may even become a donor. So an empty data directory has a folder of that name with a
//! note in it until its files come: then no script makes a server there, and no server starts.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::held::Held;

/// The folder by which scripts tell that a server is there.
pub const FOLDER: &str = "mysql";
/// The note, which is all that it holds.
const NOTE: &str = "REFLOAT-IS-RESTORING";
const TEXT: &str =
    "refloat is restoring the files of this data directory, or was interrupted while it did.
This folder keeps servers and their start scripts from making a new, empty server here.
The same refloat command resumes; it removes this folder. To give up, remove this folder yourself.
";

/// Whether a data directory has the folder with the note, and nothing else in it.
pub fn is_in(datadir: &Path) -> bool {
    let folder = datadir.join(FOLDER);
    let is_folder = fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir());
    is_folder
        && fs::read_dir(&folder).is_ok_and(|mut all| {
            let only = |entry: io::Result<fs::DirEntry>| {
                entry.is_ok_and(|entry| entry.file_name() == NOTE)
            };
            all.next().is_some_and(only) && all.next().is_none()
        })
}

/// Puts the folder into a data directory that has none of that name.
pub fn put(datadir: &Held) -> io::Result<()> {
    let folder = match datadir.make_folder(OsStr::new(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        folder => folder?,
    };
    let mut note = folder.make_file(OsStr::new(NOTE))?;
    note.write_all(TEXT.as_bytes())
}

/// Removes it, if it is there.
pub fn remove(datadir: &Path) -> io::Result<()> {
    if !is_in(datadir) {
        return Ok(());
    }
    let folder = datadir.join(FOLDER);
    fs::remove_file(folder.join(NOTE))?;
    fs::remove_dir(folder)
}
