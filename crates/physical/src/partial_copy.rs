//! The files that an interrupted transfer left in a folder.
//!
//! They have no names yet, or are partly prepared. Their blocks are reported to the next sender,
//! which sends only the others.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use refloat_run::Events;

use crate::error::PhysicalError;
use crate::files::lacks_room;
use crate::folder::{Building, Step};

/// The folder for them, inside the one that files arrive in.
const EARLIER: &str = ".refloat-earlier";

/// Begins a folder. If there is one of the same transfer, it is started over, and its contents are
/// set aside inside the new one.
///
/// The old folder may have been given to the server's account, which may have put anything in it.
/// So a new folder takes its place, and the old one is moved into it as a whole.
///
/// # Errors
/// As for [`Building::begin`], to which `restart` is passed.
pub fn begin_again(
    path: &Path,
    (repository, label): (&str, &str),
    restart: bool,
) -> Result<Building, PhysicalError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push("-earlier");
    let aside = PathBuf::from(aside);
    let failed = || PhysicalError::file(path, "keeping the files of an earlier transfer");
    let is_ours = Building::is_of(path, repository, label)? && !Building::is_filling(path)?;
    if is_ours && !aside.exists() {
        // Held until it is out of the way: a tool of an earlier run may still be working in it.
        let old = Building::begin(path, repository, label, false)?;
        // Another run may have held it until now.
        if old.step() <= Step::Prepared {
            fs::rename(path, &aside).map_err(failed())?;
        }
    }
    // If it is ours, it was begun after the old one was set aside.
    let building = Building::begin(path, repository, label, restart || is_ours)?;
    if aside.exists() {
        let earlier = path.join(EARLIER);
        DirBuilder::new()
            .mode(0o700)
            .create(&earlier)
            .and_then(|()| fs::rename(&aside, earlier.join("0")))
            .map_err(failed())?;
    }
    Ok(building)
}

/// Where it lies. `None`: there is nothing.
pub fn in_folder(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(EARLIER)).filter(|earlier| earlier.is_dir())
}

/// Removes it.
///
/// # Errors
/// The file system's.
pub fn remove(folder: &Path) -> Result<(), PhysicalError> {
    let Some(earlier) = in_folder(folder) else {
        return Ok(());
    };
    fs::remove_dir_all(&earlier).map_err(PhysicalError::file(&earlier, "removing the folder"))
}

/// Makes sure that there is room for this many bytes beside it, and removes it if there is not.
///
/// # Errors
/// There is too little room even without it, or it cannot be removed.
pub fn make_room(building: &Building, bytes: u64, events: &Events) -> Result<(), PhysicalError> {
    let folder = building.path();
    if lacks_room(folder, bytes).is_none() {
        return Ok(());
    }
    if in_folder(folder).is_some() {
        remove(folder)?;
        events.note(
            "the files of an earlier transfer are removed: there is no room for both".to_owned(),
        );
    }
    lacks_room(folder, bytes).map_or(Ok(()), |refusal| Err(PhysicalError::refused(refusal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_is_kept_until_all_has() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("new");
        let begin = || begin_again(&path, ("r", "l"), true).unwrap();
        drop(begin());
        assert_eq!(in_folder(&path), None);
        for name in ["a", "b"] {
            fs::write(path.join(name), name).unwrap();
            let building = begin();
            assert_eq!(building.step(), Step::Fetching);
            assert!(!path.join(name).exists());
        }
        // The previous folder is inside the latest one.
        let last = in_folder(&path).unwrap().join("0");
        assert!(last.join("b").exists() && last.join(EARLIER).join("0/a").exists());
        // A run was killed between the two steps.
        let aside = above.path().join("new-earlier");
        fs::rename(&path, &aside).unwrap();
        let building = begin();
        make_room(&building, 1, &Events::new()).unwrap();
        assert!(in_folder(&path).is_some());
        // No disk has that much room.
        make_room(&building, u64::MAX, &Events::new()).unwrap_err();
        assert_eq!(in_folder(&path), None);
        drop(building);
        fs::write(path.join("c"), "c").unwrap();
        // It belongs to another transfer, so it is removed.
        drop(begin_again(&path, ("r", "another"), true).unwrap());
        assert!(!path.join("c").exists() && in_folder(&path).is_none());
    }
}
