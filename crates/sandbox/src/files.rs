//! Directories, atomic file writes, locks and log tails.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How much of a log goes into an error: enough to show the reason, not the whole story.
const TAIL_LINES: usize = 15;
const TAIL_BYTES: u64 = 16 * 1024;
const ERROR_BYTES: u64 = 1024 * 1024;

/// How much of a log to show someone who investigates a failure, in bytes. A cluster node writes
/// about 20 KiB between its start and being synced.
const LAST_BYTES: u64 = 40 * 1024;

/// Modes of directories: what all may read, what only its owner lists, what is its owner's alone.
const OPEN: u32 = 0o755;
const PASSABLE: u32 = 0o711;
const CLOSED: u32 = 0o700;

const LOCK_POLL: Duration = Duration::from_millis(50);

/// Creates a directory and its parents, readable by all whatever the umask: servers run as another
/// user.
pub fn make_folder(path: &Path) -> Result<()> {
    make_folders(path, OPEN)
}

/// Creates the state directory and its parents. Only the owner lists them; other accounts pass
/// through on their way to a server's files if `passable`.
pub fn make_state(path: &Path, passable: bool) -> Result<()> {
    make_folders(path, if passable { PASSABLE } else { CLOSED })
}

fn make_folders(path: &Path, mode: u32) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_folders(parent, mode)?;
    }
    match make_with(path, mode) {
        Err(Error::Io { source, .. })
            if source.kind() == io::ErrorKind::AlreadyExists && path.is_dir() =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Creates one directory, which must not exist yet.
pub fn make_new_folder(path: &Path) -> Result<()> {
    make_with(path, OPEN)
}

/// Creates one directory with this mode, whatever the umask.
fn make_with(path: &Path, mode: u32) -> Result<()> {
    DirBuilder::new()
        .mode(mode)
        .create(path)
        .map_err(Error::io("create", path))?;
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(Error::io("set the permissions of", path))
}

/// Writes a file atomically: to a temporary name, synced, then renamed.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary).map_err(Error::io("create", &temporary))?;
    file.write_all(content)
        .map_err(Error::io("write", &temporary))?;
    file.sync_all().map_err(Error::io("write", &temporary))?;
    fs::rename(&temporary, path).map_err(Error::io("rename", &temporary))?;
    if let Some(folder) = path.parent() {
        File::open(folder)
            .and_then(|f| f.sync_all())
            .map_err(Error::io("write", folder))?;
    }
    Ok(())
}

/// Deletes a directory and its contents. It is not an error if there is none.
pub fn delete_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("delete", path)(error))
        }
        _ => Ok(()),
    }
}

/// A file lock, held until it is dropped or the process ends, however that happens.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, waiting at most `patience`. `None` if another process still holds it.
    pub fn take(path: &Path, patience: Duration) -> Result<Option<Self>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(Error::io("open", path))?;
        let deadline = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_POLL);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
            }
        }
    }
}

/// The length of a file in bytes; 0 if it cannot be read.
pub fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The errors in a log from byte `from` on, and its last lines. The reason why a node ended is far
/// above the last line, because the node first leaves the group.
pub fn errors_and_tail(path: &Path, from: u64) -> String {
    let text = read_from(path, from, ERROR_BYTES).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let (before, end) = lines.split_at(lines.len().saturating_sub(TAIL_LINES / 2));
    let errors: Vec<&str> = before
        .iter()
        .copied()
        .filter(|line| line.contains("ERROR"))
        .collect();
    let errors = &errors[errors.len().saturating_sub(TAIL_LINES)..];
    [errors, end].concat().join("\n")
}

/// The end of a log, from byte `from` on. For people to read; never base a decision about data on
/// it.
pub fn tail(path: &Path, from: u64) -> String {
    let text = read_from(path, from, TAIL_BYTES).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// More of the log, for someone who investigates a failure.
pub fn long_tail(path: &Path) -> String {
    read_from(path, 0, LAST_BYTES).unwrap_or_default()
}

/// The last bytes of a file: at most `most`, and none before `from`.
fn read_from(path: &Path, from: u64, most: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(most))))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_lists_the_state_directory() {
        let folder = tempfile::tempdir().unwrap();
        for (name, passable, mode) in [("own", false, 0o700), ("of-root", true, 0o711)] {
            let made = folder.path().join(name).join("sandbox");
            make_state(&made, passable).unwrap();
            for path in [made.as_path(), made.parent().unwrap()] {
                let is = fs::metadata(path).unwrap().permissions().mode() & 0o777;
                assert_eq!(is, mode, "{}", path.display());
            }
        }
    }
}
