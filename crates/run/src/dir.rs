//! The folder of a run and the files in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Owner, RunId};

/// Folder under the state directory that holds all runs.
const RUNS: &str = "runs";
/// Identifies the run and its process; written first.
const RUN: &str = "run.json";

/// What can go wrong with a run's folder.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// A file or folder could not be created, read or written.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of a run does not contain what it should.
    #[error("{} is not a file of a run: {source}", path.display())]
    Json {
        /// The file that cannot be parsed.
        path: PathBuf,
        /// What is wrong with its content.
        source: serde_json::Error,
    },
}

/// Content of `run.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunInfo {
    /// It also names the run's folder.
    pub id: RunId,
    /// Name of the command, such as `load`.
    pub command: String,
    /// When the run began, RFC 3339.
    pub started: String,
    /// The process that executes the run.
    pub owner: Owner,
}

/// The folder of one run: `STATE/runs/ID`, mode 0700, its files 0600.
///
/// The files are `run.json` (who runs it), `settings.json` (the journal of changed
/// settings), `events.jsonl`, and `outcome.json`, which is written last. Every file except
/// `events.jsonl` appears whole or not at all.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
    info: RunInfo,
}

impl RunDir {
    /// The journal of changed settings.
    pub const SETTINGS: &'static str = "settings.json";
    /// The recorded events.
    pub const EVENTS: &'static str = "events.jsonl";
    /// How the run ended.
    pub const OUTCOME: &'static str = "outcome.json";

    /// Creates the folder of a new run under the state directory, which is created if missing.
    pub fn create(state_dir: &Path, command: &str) -> Result<Self, RunDirError> {
        let runs = state_dir.join(RUNS);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(&runs)
            .map_err(|e| io_error("making", &runs, e))?;
        let info = RunInfo {
            id: RunId::new(),
            command: command.to_owned(),
            started: jiff::Timestamp::now().to_string(),
            owner: Owner::this(),
        };
        // Created under a temporary name, so that no run's folder is ever visible without its
        // run.json.
        let temporary = runs.join(format!(".new-{}", info.id));
        let path = runs.join(info.id.as_str());
        DirBuilder::new()
            .mode(0o700)
            .create(&temporary)
            .map_err(|e| io_error("making", &temporary, e))?;
        write_json(&temporary, RUN, &info)?;
        fs::rename(&temporary, &path).map_err(|e| io_error("naming", &path, e))?;
        sync_dir(&runs)?;
        Ok(Self { path, info })
    }

    /// Opens the folder of an earlier run.
    pub fn open(state_dir: &Path, id: &RunId) -> Result<Self, RunDirError> {
        let path = state_dir.join(RUNS).join(id.as_str());
        let info = read_json(&path.join(RUN))?;
        Ok(Self { path, info })
    }

    /// All runs under a state directory, oldest first. Folders that cannot be read are skipped. A
    /// missing state directory holds no runs.
    pub fn list(state_dir: &Path) -> Result<Vec<Self>, RunDirError> {
        Self::list_where(state_dir, |_| true)
    }

    /// Like [`Self::list`], of the runs that have a file of this name. The others are not read:
    /// years of runs lie in a state directory.
    pub fn list_with(state_dir: &Path, name: &str) -> Result<Vec<Self>, RunDirError> {
        Self::list_where(state_dir, |run| run.join(name).exists())
    }

    fn list_where(
        state_dir: &Path,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Result<Vec<Self>, RunDirError> {
        let runs = state_dir.join(RUNS);
        let entries = match fs::read_dir(&runs) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io_error("reading", &runs, e)),
        };
        let mut ids: Vec<RunId> = entries
            .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        ids.sort();
        Ok(ids
            .iter()
            .filter(|id| is_wanted(&runs.join(id.as_str())))
            .filter_map(|id| Self::open(state_dir, id).ok())
            .collect())
    }

    /// The id, which also names the folder.
    pub fn id(&self) -> &RunId {
        &self.info.id
    }

    /// Content of the run's `run.json`.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// The run's own folder, with its `run.json`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state directory that holds the run's folder.
    pub fn state_dir(&self) -> Option<&Path> {
        self.path.parent()?.parent()
    }

    /// Writes a file of the run atomically; it is on disk when this returns.
    pub fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), RunDirError> {
        write_json(&self.path, name, value)
    }

    /// Reads a file of the run.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, RunDirError> {
        read_json(&self.path.join(name))
    }

    /// Reads a file that records how far the run has come, with the version of its format in
    /// `format`. `None`: there is none, or it has another format because another version of this
    /// program wrote it.
    pub fn state<T: DeserializeOwned>(
        &self,
        name: &str,
        format: u32,
    ) -> Result<Option<T>, RunDirError> {
        if !self.has(name) {
            return Ok(None);
        }
        let value: serde_json::Value = self.read(name)?;
        if value["format"] != format {
            return Ok(None);
        }
        serde_json::from_value(value)
            .map(Some)
            .map_err(|source| RunDirError::Json {
                path: self.path.join(name),
                source,
            })
    }

    /// Whether the run has a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Opens a file for appending, creating it if it is missing.
    pub fn append(&self, name: &str) -> Result<File, RunDirError> {
        let path = self.path.join(name);
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| io_error("opening", &path, e))
    }
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> RunDirError {
    RunDirError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RunDirError> {
    let bytes = fs::read(path).map_err(|e| io_error("reading", path, e))?;
    serde_json::from_slice(&bytes).map_err(|source| RunDirError::Json {
        path: path.to_owned(),
        source,
    })
}

/// Writes to a temporary name in the same folder, syncs, renames, and syncs the folder.
fn write_json<T: Serialize>(dir: &Path, name: &str, value: &T) -> Result<(), RunDirError> {
    let path = dir.join(name);
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|source| RunDirError::Json {
        path: path.clone(),
        source,
    })?;
    bytes.push(b'\n');
    let temporary = dir.join(format!(".{name}.new"));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()
        });
    written.map_err(|e| io_error("writing", &temporary, e))?;
    fs::rename(&temporary, &path).map_err(|e| io_error("naming", &path, e))?;
    sync_dir(dir)
}

fn sync_dir(dir: &Path) -> Result<(), RunDirError> {
    File::open(dir)
        .and_then(|d| d.sync_all())
        .map_err(|e| io_error("syncing", dir, e))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_is_private_and_found_again() {
        let state = tempfile::tempdir().unwrap();
        let base = state.path().join("deep/state");
        assert!(RunDir::list(&base).unwrap().is_empty());
        let run = RunDir::create(&base, "load").unwrap();
        run.write("rest.json", &["a", "b"]).unwrap();
        run.write("rest.json", &["c"]).unwrap();
        run.append("events.jsonl")
            .unwrap()
            .write_all(b"{}\n")
            .unwrap();
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(run.path()), 0o700);
        for name in ["run.json", "rest.json", "events.jsonl"] {
            assert_eq!(mode(&run.path().join(name)), 0o600, "{name}");
        }
        fs::create_dir(base.join("runs/.new-half")).unwrap();
        let runs = RunDir::list(&base).unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].id(), run.id());
        let with = |name| RunDir::list_with(&base, name).unwrap().len();
        assert_eq!((with("rest.json"), with(RunDir::SETTINGS)), (1, 0));
        assert_eq!(runs[0].read::<Vec<String>>("rest.json").unwrap(), ["c"]);
        assert_eq!(runs[0].info().owner.alive(), Some(true));
        let names: Vec<_> = fs::read_dir(run.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 3, "no temporary file stays: {names:?}");
    }
    #[test]
    fn the_state_of_another_version_is_not_read() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct State {
            format: u32,
            seqno: u64,
        }
        let base = tempfile::tempdir().unwrap();
        let run = RunDir::create(base.path(), "cluster restore").unwrap();
        let read = || run.state::<State>("restore.json", 2);
        assert_eq!(read().unwrap(), None);
        run.write(
            "restore.json",
            &serde_json::json!({ "format": 1, "seqno": "?" }),
        )
        .unwrap();
        assert_eq!(read().unwrap(), None);
        let state = State {
            format: 2,
            seqno: u64::MAX,
        };
        run.write("restore.json", &state).unwrap();
        assert_eq!(read().unwrap(), Some(state));
        run.write("restore.json", &serde_json::json!({ "format": 2 }))
            .unwrap();
        assert!(read().unwrap_err().to_string().contains("restore.json"));
    }
}
