//! Finds the other sandbox state directories that this user has on this machine.
//!
//! Nobody listens on the ports of a stopped server, nor on those where a node receives state
//! transfers. A sandbox with another state directory would find such a port free and take it, and
//! the server or node could not use it again. So the sandboxes of one user keep a common list.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::{self, Lock};

/// How long to wait while another sandbox chooses its ports. After that, carry on without the lock:
/// it is not worth failing for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The known state directories, one per line.
const STATES: &str = "states";

/// The meeting point of this user's sandboxes. While it is held, no other sandbox chooses ports.
#[derive(Debug)]
pub struct Neighbours {
    folder: PathBuf,
    _lock: Lock,
}

impl Neighbours {
    /// `None` if the sandboxes cannot meet: no usable temporary directory, or the lock was not free
    /// in time.
    pub fn meet() -> Option<Self> {
        let user = rustix::process::getuid().as_raw();
        Self::meet_in(std::env::temp_dir().join(format!("refloat-sandbox-{user}")))
    }

    fn meet_in(folder: PathBuf) -> Option<Self> {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => (),
        }
        // Anyone could have created this directory, or a link with this name, before us.
        let meta = fs::symlink_metadata(&folder).ok()?;
        if !meta.is_dir() || meta.uid() != rustix::process::getuid().as_raw() {
            return None;
        }
        let lock = Lock::take(&folder.join("lock"), PATIENCE).ok()??;
        Some(Self {
            folder,
            _lock: lock,
        })
    }

    /// Returns the other state directories that still exist, and adds `state_dir` to the list.
    pub fn others(&self, state_dir: &Path) -> Vec<PathBuf> {
        let path = self.folder.join(STATES);
        let known = fs::read_to_string(&path).unwrap_or_default();
        let mut others: Vec<PathBuf> = known.lines().map(PathBuf::from).collect();
        others.retain(|other| other != state_dir && other.is_dir());
        others.dedup();
        // A path with a line break or invalid UTF-8 cannot be stored; other sandboxes then do not
        // know of this one.
        let lines: Vec<&str> = others
            .iter()
            .map(PathBuf::as_path)
            .chain([state_dir])
            .filter_map(Path::to_str)
            .filter(|line| !line.contains('\n'))
            .collect();
        let text = lines.join("\n") + "\n";
        if text != known {
            let _ = files::write_whole(&path, text.as_bytes());
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_know_of_each_other_while_they_are_there() {
        let place = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| place.path().join(name));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        let meet = || Neighbours::meet_in(place.path().join("meeting")).unwrap();
        assert!(meet().others(&one).is_empty());
        assert_eq!(meet().others(&two), [one.as_path()]);
        assert_eq!(meet().others(&one), [two.as_path()]);
        fs::remove_dir(&two).unwrap();
        assert!(meet().others(&one).is_empty());
    }

    #[test]
    fn a_link_of_somebody_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(place.path(), &link).unwrap();
        assert!(Neighbours::meet_in(link).is_none());
    }
}
