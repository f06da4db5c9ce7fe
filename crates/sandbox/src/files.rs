//! Folders, whole files, locks and the ends of logs.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Lines and bytes of a log that go into an error: enough for the reason, not the whole story.
const TAIL_LINES: usize = 15;
const TAIL_BYTES: u64 = 16 * 1024;
const ERROR_BYTES: u64 = 1024 * 1024;

/// Bytes of a log for somebody who looks into a failure: a node of a cluster writes some 20 KiB from its start until it is in step.
const LAST_BYTES: u64 = 40 * 1024;

/// How often a lock that somebody else holds is tried again.
const LOCK_POLL: Duration = Duration::from_millis(50);

/// Makes a folder and its parents, readable for all whatever the umask: servers run as another user.
pub fn make_folder(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    match make_new_folder(path) {
        Err(Error::Io { source, .. })
            if source.kind() == io::ErrorKind::AlreadyExists && path.is_dir() =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Makes one folder that must not exist yet.
pub fn make_new_folder(path: &Path) -> Result<()> {
    DirBuilder::new()
        .mode(0o755)
        .create(path)
        .map_err(Error::io("create", path))?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
        .map_err(Error::io("set the permissions of", path))
}

/// Writes a file whole: under a temporary name, to disk, renamed.
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

/// Deletes a folder with all that is in it; one that is not there is fine.
pub fn delete_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("delete", path)(error))
        }
        _ => Ok(()),
    }
}

/// A lock that lasts until it is dropped, or until the process ends in any way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, waiting for at most `patience`. `None`: somebody else has it still.
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

/// The length of a file in bytes; 0 when there is none.
pub fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The errors in a log from byte `from` on, and its very end: the reason for the end of a node stands far above the last
/// line, because it says goodbye to the others first.
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

/// The end of a log, from byte `from` on: for people to read, never for decisions on data.
pub fn tail(path: &Path, from: u64) -> String {
    let text = read_from(path, from, TAIL_BYTES).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// The same for somebody who looks into a failure: more of it.
pub fn long_tail(path: &Path) -> String {
    read_from(path, 0, LAST_BYTES).unwrap_or_default()
}

/// The last bytes of a file, from `from` on.
fn read_from(path: &Path, from: u64, most: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(most))))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
