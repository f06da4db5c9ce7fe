//! The folder in which a backup becomes a data directory, and which of its blocks are already
//! right.
//!
//! A file in it records the progress. So an interrupted restore is resumed: blocks that are already
//! right, by their hash, are not fetched again. The same comparison with an older data directory
//! fetches only what has changed since.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use refloat_repository::{BLOCK, Extent, FileEntry, Repository, Sink};
use refloat_run::{Cancel, Refusal};
use rustix::fs::{FlockOperation, Stat, flock, fsync, renameat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::PhysicalError;
use crate::files::make_folders;
use crate::held::{Held, open_file};
use crate::sparse;

/// The file in the folder that records the progress.
pub const STATE: &str = ".refloat-restore.json";
/// Marks a folder of a rebuild, in place of a repository's id.
pub const REBUILD: &str = "rebuild";
/// Longer than any state, in bytes.
const STATE_MAX: u64 = 1 << 16;
/// Blocks of one file that a thread compares at a time.
const RUN: usize = 64;

/// How far the work in a folder has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Files are being fetched.
    Fetching,
    /// The tool is working on them: none of them is as in the backup any more.
    Preparing,
    /// They are ready to take the place of the data directory.
    Prepared,
    /// The old files are moving out of the data directory, which cannot be renamed.
    Clearing,
    /// The new files are moving into it.
    Filling,
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    format: u32,
    /// Id of the repository.
    repository: String,
    label: String,
    step: Step,
    /// File and byte up to which binary logs were replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<String>,
}

/// The folder in which a backup becomes a data directory.
#[derive(Debug)]
pub struct Building {
    path: PathBuf,
    state: State,
    /// The folder, open and locked.
    lock: Held,
    is_part: bool,
}

/// Whether the folder exists and holds nothing but a state file that was not completely written.
fn is_unbegun(path: &Path) -> bool {
    let begun = format!("{STATE}.new");
    fs::read_dir(path).is_ok_and(|mut all| {
        all.all(|entry| entry.is_ok_and(|entry| entry.file_name() == begun.as_str()))
    })
}

impl Building {
    /// Begins a folder, or resumes one of the same backup.
    ///
    /// # Errors
    /// There is something else at this path.
    pub fn begin(
        path: &Path,
        repository: &str,
        label: &str,
        restart: bool,
    ) -> Result<Self, PhysicalError> {
        let fresh = State {
            format: 1,
            repository: repository.to_owned(),
            label: label.to_owned(),
            step: Step::Fetching,
            replayed: None,
        };
        let mut lock = if path.exists() {
            Some(locked(path)?)
        } else {
            None
        };
        let found = read_state(path)?;
        match found {
            Some(state)
                if state.format == 1
                    && state.repository == repository
                    && state.label == label
                    && !restart =>
            {
                let lock = lock.take().map_or_else(|| locked(path), Ok)?;
                return Ok(Self {
                    path: path.to_owned(),
                    state,
                    lock,
                    is_part: false,
                });
            }
            Some(state) if !restart => {
                return Err(unfinished(path, &state, repository));
            }
            Some(state) if state.step >= Step::Clearing => {
                return Err(PhysicalError::refused(
                    Refusal::new(format!(
                        "an earlier restore of backup {} had begun to put its files in place",
                        state.label
                    ))
                    .hint("Let it finish first: run the same command without --restart."),
                ));
            }
            Some(_) => fs::remove_dir_all(path)
                .map_err(PhysicalError::file(path, "removing an unfinished restore"))?,
            // It belongs to a run that ended before it had recorded what the folder is.
            None if is_unbegun(path) => fs::remove_dir_all(path)
                .map_err(PhysicalError::file(path, "removing what is empty"))?,
            None if path.exists() => {
                return Err(PhysicalError::refused(
                    Refusal::new(format!(
                        "{} exists, and does not come from a restore",
                        path.display()
                    ))
                    .hint("Move it away: restores build their data directories there."),
                ));
            }
            None => {}
        }
        DirBuilder::new()
            .mode(0o700)
            .create(path)
            .map_err(PhysicalError::file(path, "making the folder"))?;
        let lock = locked(path)?;
        let is_own = |status: Stat| status.st_uid == rustix::process::geteuid().as_raw();
        if !lock.status().is_ok_and(is_own) {
            let reason = format!("another account has put a folder at {}", path.display());
            return Err(PhysicalError::refused(Refusal::new(reason)));
        }
        let mut building = Self {
            path: path.to_owned(),
            state: fresh,
            lock,
            is_part: false,
        };
        building.reach(Step::Fetching)?;
        Ok(building)
    }

    /// Whether a folder belongs to a restore of this backup.
    pub fn is_of(path: &Path, repository: &str, label: &str) -> Result<bool, PhysicalError> {
        let state = read_state(path)?;
        Ok(state.is_some_and(|state| state.repository == repository && state.label == label))
    }

    /// Whether a folder's files are already moving into place.
    pub fn is_filling(path: &Path) -> Result<bool, PhysicalError> {
        Ok(read_state(path)?.is_some_and(|state| state.step >= Step::Clearing))
    }

    /// Whether a folder of this backup is ready to take its place, or is already doing so.
    pub fn is_prepared(path: &Path, repository: &str, label: &str) -> Result<bool, PhysicalError> {
        let state = read_state(path)?;
        let state = state.filter(|state| state.repository == repository && state.label == label);
        Ok(state.is_some_and(|state| state.step >= Step::Prepared))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock, for a tool to hold as well. So nobody else works in the folder while a tool of an
    /// earlier run still does.
    pub fn lock(&self) -> Result<File, PhysicalError> {
        let lock = self.lock.as_fd().try_clone_to_owned();
        lock.map(File::from)
            .map_err(PhysicalError::file(&self.path, "locking the folder"))
    }

    /// The folder itself, whatever is at its path by now.
    pub fn held(&self) -> &Held {
        &self.lock
    }

    /// Takes it back from the server's account, to which an earlier run may have given it, and
    /// which may have put links to files elsewhere into it.
    pub fn take_back(&self) -> Result<(), PhysicalError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        self.lock.take_back().map_err(PhysicalError::file(
            &self.path,
            "taking it back from the server's account",
        ))
    }

    /// Records that it holds only part of the backup, so redo log records of missing files do not
    /// matter.
    pub fn holds_part(&mut self) {
        self.is_part = true;
    }

    /// Whether it holds only part of the backup.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    pub fn step(&self) -> Step {
        self.state.step
    }

    /// Whether it can take its place, with binary logs replayed up to a file and byte; `None`: with
    /// none replayed.
    pub fn is_ready(&self, replayed: Option<&str>) -> bool {
        let state = &self.state;
        state.step > Step::Prepared
            || state.step == Step::Prepared && state.replayed.as_deref() == replayed
    }

    /// Remembers up to where binary logs were replayed. The next call of [`Self::reach`] records
    /// it.
    pub fn replayed(&mut self, end: Option<String>) {
        self.state.replayed = end;
    }

    /// Records this step. What was written to the folder before is on disk then.
    pub fn reach(&mut self, step: Step) -> Result<(), PhysicalError> {
        self.state.step = step;
        let text = serde_json::to_vec(&self.state).unwrap_or_default();
        let path = self.path.join(STATE);
        let new = format!("{STATE}.new");
        // The folder may already belong to the server's account.
        let write = || -> io::Result<()> {
            rustix::fs::syncfs(&self.lock)?;
            let mut file = self.lock.replace_file(OsStr::new(&new))?;
            file.write_all(&text)?;
            file.sync_all()?;
            renameat(&self.lock, &new, &self.lock, STATE)?;
            Ok(fsync(&self.lock)?)
        };
        if !is_at(&self.lock, &self.path) {
            let moved = io::Error::new(io::ErrorKind::NotFound, "it is another one now");
            return Err(PhysicalError::file(&self.path, "working in the folder")(
                moved,
            ));
        }
        write().map_err(PhysicalError::file(
            &path,
            "recording the progress of the restore",
        ))
    }

    /// Removes what is not a file of the backup, such as leftovers of a tool that was killed, and
    /// folders without such files: to a server, each is a database.
    pub fn keep_only(&self, entries: &[FileEntry]) -> Result<(), PhysicalError> {
        let wanted: BTreeSet<PathBuf> = entries
            .iter()
            .map(|entry| self.path.join(&entry.path))
            .chain([self.path.join(STATE)])
            .collect();
        keep_in(&self.path, &wanted).map(drop)
    }

    /// Creates all files with their sizes, and clears whatever is in them that is not in the
    /// backup.
    pub fn make(&self, entries: &[FileEntry]) -> Result<(), PhysicalError> {
        for entry in entries {
            let path = self.path.join(confined(&entry.path)?);
            if let Some(folder) = path.parent() {
                make_folders(folder).map_err(PhysicalError::file(folder, "making the folder"))?;
            }
            let make = || -> io::Result<()> {
                let file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600)
                    .open(&path)?;
                if file.metadata()?.len() > 0 {
                    punch_gaps(&file, entry)?;
                }
                file.set_len(entry.size)
            };
            make().map_err(PhysicalError::file(&path, "making the file"))?;
        }
        Ok(())
    }

    /// Finds the blocks that are not right yet. Those that `old`, a data directory, has at the same
    /// place are copied from there first. Returns the files with only the blocks that are missing.
    pub fn missing(
        &self,
        repository: &Repository,
        entries: &[FileEntry],
        old: Option<&Path>,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Vec<FileEntry>, PhysicalError> {
        let runs: Vec<(usize, &[Extent])> = entries
            .iter()
            .enumerate()
            .flat_map(|(file, entry)| entry.extents.chunks(RUN).map(move |run| (file, run)))
            .collect();
        let next = AtomicUsize::new(0);
        let over = AtomicBool::new(false);
        let missing: Mutex<Vec<(usize, Extent)>> = Mutex::default();
        let failed: Mutex<Option<PhysicalError>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    let mut block = vec![0; BLOCK];
                    while let Some((file, run)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if over.load(Ordering::Relaxed) || cancel.is_cancelled() {
                            return;
                        }
                        let path = &entries[*file].path;
                        match self.compare(repository, path, run, old, &mut block) {
                            Ok(found) => missing
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .extend(found.into_iter().map(|extent| (*file, extent))),
                            Err(error) => {
                                over.store(true, Ordering::Relaxed);
                                failed
                                    .lock()
                                    .unwrap_or_else(PoisonError::into_inner)
                                    .get_or_insert(error);
                            }
                        }
                    }
                });
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        if let Some(reason) = cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        let mut left: Vec<FileEntry> = entries
            .iter()
            .map(|entry| FileEntry {
                extents: Vec::new(),
                ..entry.clone()
            })
            .collect();
        for (file, extent) in missing.into_inner().unwrap_or_else(PoisonError::into_inner) {
            left[file].extents.push(extent);
        }
        left.retain(|entry| !entry.extents.is_empty());
        Ok(left)
    }

    /// The blocks of a run that are neither right nor copied from the old file.
    fn compare(
        &self,
        repository: &Repository,
        path: &str,
        run: &[Extent],
        old: Option<&Path>,
        block: &mut [u8],
    ) -> Result<Vec<Extent>, PhysicalError> {
        let target = self.path.join(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&target)
            .map_err(PhysicalError::file(&target, "opening the file"))?;
        let old = old.and_then(|old| open_file(&old.join(path)).ok());
        let mut missing = Vec::new();
        for extent in run {
            let bytes = &mut block[..extent.length as usize];
            let mut is_in = |file: &File| {
                file.read_exact_at(bytes, extent.begins).is_ok()
                    && repository.hash(bytes) == extent.hash
            };
            if is_in(&file) {
                continue;
            }
            if old.as_ref().is_some_and(&mut is_in) {
                sparse::write(&file, extent.begins, bytes)
                    .map_err(PhysicalError::file(&target, "writing to the file"))?;
                continue;
            }
            missing.push(*extent);
        }
        Ok(missing)
    }

    /// Takes the blocks of these files.
    pub fn sink<'a>(&'a self, entries: &'a [FileEntry], passed: &'a AtomicU64) -> impl Sink + 'a {
        FolderSink {
            folder: &self.path,
            entries,
            passed,
        }
    }
}

struct FolderSink<'a> {
    folder: &'a Path,
    entries: &'a [FileEntry],
    passed: &'a AtomicU64,
}

impl Sink for FolderSink<'_> {
    // Opened for each block: a backup may have more files than a process may have open, and
    // handling a block takes a hundred times as long as opening a file.
    fn write(&self, file: usize, begins: u64, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(&self.entries[file].path);
        let file = OpenOptions::new().write(true).open(path)?;
        sparse::write(&file, begins, bytes)?;
        self.passed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Removes what is not wanted in a folder. Whether something is left there.
fn keep_in(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<bool, PhysicalError> {
    let mut is_kept = false;
    let listing =
        fs::read_dir(folder).map_err(PhysicalError::file(folder, "listing the folder"))?;
    for entry in listing {
        let entry = entry.map_err(PhysicalError::file(folder, "listing the folder"))?;
        let path = entry.path();
        let kind = entry
            .file_type()
            .map_err(PhysicalError::file(&path, "looking at it"))?;
        if kind.is_dir() {
            if keep_in(&path, wanted)? {
                is_kept = true;
            } else {
                fs::remove_dir(&path).map_err(PhysicalError::file(&path, "removing it"))?;
            }
        } else if wanted.contains(&path) {
            is_kept = true;
        } else {
            fs::remove_file(&path).map_err(PhysicalError::file(&path, "removing it"))?;
        }
    }
    Ok(is_kept)
}

/// Refuses to work in a folder in which something else was begun.
fn unfinished(path: &Path, state: &State, repository: &str) -> PhysicalError {
    let what = match state.repository.as_str() {
        REBUILD => "rebuild from",
        _ => "restore of backup",
    };
    let hint = match repository {
        REBUILD => "Run that one again, or remove the folder: it holds nothing else.",
        _ => {
            "Run that one again to resume it, or give --restart to start over: what it has fetched is then removed."
        }
    };
    let path = path.display();
    let reason = format!("{path} holds an unfinished {what} {}", state.label);
    PhysicalError::refused(Refusal::new(reason).hint(hint))
}

/// How long to wait for a lock. One that was just released can seem held: until a process that is
/// being started becomes another program, it has a copy of every open file.
const PATIENCE: Duration = Duration::from_secs(1);

/// Locks a folder for as long as the file that it returns is open.
pub fn locked(path: &Path) -> Result<Held, PhysicalError> {
    let begun = Instant::now();
    loop {
        if let Some(lock) = try_locked(path)? {
            return Ok(lock);
        }
        if begun.elapsed() > PATIENCE {
            return Err(PhysicalError::refused(
                Refusal::new(format!("another run is working in {}", path.display()))
                    .hint("Wait until it has ended, and its tool too."),
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Locks a folder, if nobody else has locked it.
pub fn try_locked(path: &Path) -> Result<Option<Held>, PhysicalError> {
    let failed = || PhysicalError::file(path, "locking the folder");
    let folder = Held::open(path).map_err(failed())?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        // The previous holder may have moved the folder away, or put another one in its place.
        Ok(()) => Ok(is_at(&folder, path).then_some(folder)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed()(error.into())),
    }
}

/// Whether an open folder is the one at this path.
fn is_at(open: &Held, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (open.status(), fs::symlink_metadata(path)) else {
        return false;
    };
    (open.st_dev, open.st_ino) == (there.dev(), there.ino())
}

/// The path of a file of a backup, if it stays within the folder.
pub fn confined(path: &str) -> Result<&Path, PhysicalError> {
    let relative = Path::new(path);
    let is_plain = !path.is_empty()
        && !path.contains('\0')
        && relative != Path::new(STATE)
        && relative
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    if is_plain {
        Ok(relative)
    } else {
        Err(PhysicalError::refused(Refusal::new(format!(
            "the backup has a file {path:?}, which lies outside the data directory"
        ))))
    }
}

/// Fills what no block covers with zeros.
fn punch_gaps(file: &File, entry: &FileEntry) -> io::Result<()> {
    let mut at = 0;
    let ends = entry
        .extents
        .iter()
        .map(|extent| (extent.begins, extent.begins + u64::from(extent.length)))
        .chain([(entry.size, entry.size)]);
    for (begins, end) in ends {
        if begins > at {
            sparse::zero(file, at, begins - at)?;
        }
        at = end;
    }
    Ok(())
}

/// Whether a server has worked in a prepared folder since, so that the recorded state is obsolete.
fn was_used(folder: &Path, state: &Path) -> bool {
    let time = |path: &Path| {
        fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    let Some(written) = time(state) else {
        return false;
    };
    ["ibdata1", "ib_logfile0", "aria_log_control"]
        .iter()
        .filter_map(|name| time(&folder.join(name)))
        .any(|time| time > written)
}

/// The state that a folder records. `None`: it records none.
fn read_state(folder: &Path) -> Result<Option<State>, PhysicalError> {
    let path = folder.join(STATE);
    let read = || -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        open_file(&path)?.take(STATE_MAX).read_to_end(&mut text)?;
        Ok(text)
    };
    match read() {
        Ok(text) => {
            let state = serde_json::from_slice(&text).map_err(io::Error::from);
            let state: State = state.map_err(PhysicalError::file(
                &path,
                "reading the progress of the restore",
            ))?;
            let is_used = state.step == Step::Prepared && was_used(folder, &path);
            Ok((!is_used).then_some(state))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PhysicalError::file(
            &path,
            "reading the progress of the restore",
        )(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_about_to_go_is_waited_for() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("folder");
        fs::create_dir(&path).unwrap();
        let theirs = locked(&path).unwrap();
        let release = thread::spawn({
            let path = path.clone();
            move || {
                thread::sleep(PATIENCE / 4);
                // Whoever works there starts over.
                fs::remove_dir(&path).unwrap();
                fs::create_dir(&path).unwrap();
                drop(theirs);
            }
        });
        let ours = locked(&path).unwrap();
        release.join().unwrap();
        // The lock is on the new folder, and stays held.
        assert!(try_locked(&path).unwrap().is_none());
        locked(&path).unwrap_err();
        drop(ours);
    }

    #[test]
    fn a_resumed_folder_writes_to_nothing_that_the_servers_account_links_to() {
        let above = tempfile::tempdir().unwrap();
        let (path, outside) = (above.path().join("new"), above.path().join("outside"));
        drop(Building::begin(&path, "r", "l", false).unwrap());
        fs::write(&outside, "as it was").unwrap();
        for name in ["ibdata1".to_owned(), format!("{STATE}.new")] {
            std::os::unix::fs::symlink(&outside, path.join(name)).unwrap();
        }
        let mut building = Building::begin(&path, "r", "l", false).unwrap();
        building.reach(Step::Fetching).unwrap();
        building.take_back().unwrap();
        let entries = [FileEntry {
            path: "ibdata1".to_owned(),
            size: 40_000,
            extents: Vec::new(),
        }];
        building.keep_only(&entries).unwrap();
        if rustix::process::geteuid().is_root() {
            building.make(&entries).unwrap();
            let made = fs::symlink_metadata(path.join("ibdata1")).unwrap();
            assert!(made.is_file() && made.len() == 40_000);
        }
        assert_eq!(fs::read(&outside).unwrap(), b"as it was");
        // The folder itself is replaced.
        fs::rename(&path, above.path().join("old")).unwrap();
        std::os::unix::fs::symlink(above.path().join("old"), &path).unwrap();
        building.reach(Step::Preparing).unwrap_err();
        Building::begin(&path, "r", "l", false).unwrap_err();
    }

    #[test]
    fn files_stay_within_the_folder() {
        for path in ["a", "db/t.ibd", "#innodb_redo/#ib_redo1"] {
            confined(path).unwrap();
        }
        for path in ["", "/a", "../a", "db/../../a", "./a", STATE, "a\0b"] {
            confined(path).unwrap_err();
        }
    }

    #[test]
    fn gaps_of_an_older_file_become_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![7; 40_000]).unwrap();
        let extent = |begins, length| Extent {
            begins,
            length,
            pack: 0,
            at: 0,
            stored: 0,
            hash: refloat_repository::Hash([0; 32]),
        };
        let entry = FileEntry {
            path: "a".to_owned(),
            size: 40_000,
            extents: vec![extent(100, 10_000), extent(20_000, 5)],
        };
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        punch_gaps(&file, &entry).unwrap();
        let now = fs::read(&path).unwrap();
        for (at, byte) in now.iter().enumerate() {
            let covered = (100..10_100).contains(&at) || (20_000..20_005).contains(&at);
            assert_eq!(*byte, if covered { 7 } else { 0 }, "{at}");
        }
    }
}
