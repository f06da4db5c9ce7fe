//! Folders for the duration of a run. If the run is killed, the next one removes them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tempfile::TempDir;

use crate::error::PhysicalError;
use crate::files::FOLDER_MODE;
use crate::folder::{locked, try_locked};
use crate::held::Held;

/// Number of random letters and digits at the end of the names.
const RANDOM: usize = 6;

/// Whether a name is one that this program gives to its own folders.
fn is_own(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|random| {
        random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// A folder of this process, locked. It is removed when this is dropped.
#[derive(Debug)]
pub struct OwnFolder {
    // Dropped in this order: nobody can begin to work there until it is removed.
    folder: TempDir,
    _lock: Held,
}

impl OwnFolder {
    /// Creates a folder in `above`, with a name that begins with `prefix`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(above: &Path, prefix: &str) -> Result<Self, PhysicalError> {
        loop {
            let mut builder = tempfile::Builder::new();
            let folder = builder.prefix(prefix).rand_bytes(RANDOM).tempdir_in(above);
            let folder = folder.map_err(PhysicalError::file(above, "making a folder in it"))?;
            // Another run that found it before it was locked takes it for a leftover.
            match locked(folder.path()) {
                Ok(lock) => {
                    return Ok(Self {
                        folder,
                        _lock: lock,
                    });
                }
                Err(error) if folder.path().exists() => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes folders with such names that killed programs have left in a folder.
    pub fn remove_left(above: &Path, prefix: &str) {
        let Ok(all) = fs::read_dir(above) else {
            return;
        };
        let account = rustix::process::geteuid();
        for entry in all.flatten() {
            let path = entry.path();
            // In a folder that is open to everybody, others may have created something of this
            // name. The folder of a private server belongs to the server's account, and nobody else
            // may enter it.
            let is_folder = entry.metadata().is_ok_and(|found| {
                let is_closed = found.mode() & 0o777 == FOLDER_MODE;
                found.is_dir()
                    && is_closed
                    && (account.is_root() || found.uid() == account.as_raw())
            });
            if !is_folder || !is_own(&entry.file_name().to_string_lossy(), prefix) {
                continue;
            }
            // Nobody works there if both locks are free: that of the program, and that of a tool
            // that works on data there. They are held until the folder is removed, so nobody begins
            // to work there meanwhile.
            let data = path.join("data");
            let locks = (try_locked(&path), data.exists().then(|| try_locked(&data)));
            if let (Ok(Some(_)), None | Some(Ok(Some(_)))) = &locks {
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::DirBuilderExt as _;

    use super::*;

    #[test]
    fn nobody_removes_a_folder_that_is_just_made() {
        let above = tempfile::tempdir().unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        let is_over = || over.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over() {
                    OwnFolder::remove_left(above.path(), "own-");
                }
            });
            let made = (0..1000).try_for_each(|_| {
                let folder = OwnFolder::begin(above.path(), "own-");
                let folder = folder.map_err(|error| error.to_string())?;
                let file = fs::write(folder.path().join("file"), "");
                file.map_err(|error| error.to_string())
            });
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            made.unwrap();
        });
    }

    #[test]
    fn what_a_killed_program_has_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let people = ["own-logs", "own-2026-11", "own-shared", "other"];
        for name in ["own-aaaaaa", "own-bbbbbb", "own-cccccc"]
            .iter()
            .chain(&people)
        {
            let mode = if *name == "own-shared" { 0o755 } else { 0o700 };
            fs::DirBuilder::new().mode(mode).create(path(name)).unwrap();
            fs::create_dir(path(name).join("data")).unwrap();
        }
        std::os::unix::fs::symlink(path("other"), path("own-dddddd")).unwrap();
        // One is used by a program, the other by a tool that has outlived its program.
        let used = [path("own-bbbbbb"), path("own-cccccc/data")];
        let _locks = used.map(|used| locked(&used).unwrap());
        OwnFolder::remove_left(folder.path(), "own-");
        assert!(!path("own-aaaaaa").exists());
        for name in ["own-bbbbbb", "own-cccccc", "own-dddddd"]
            .iter()
            .chain(&people)
        {
            assert!(path(name).exists(), "{name}");
        }
    }
}
