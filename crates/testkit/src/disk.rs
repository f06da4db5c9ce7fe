//! File systems small enough to fill.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own in memory; it is unmounted when the value is dropped.
pub struct SmallDisk {
    at: PathBuf,
    // Removed after the file system is gone.
    _folder: Option<tempfile::TempDir>,
}

impl SmallDisk {
    /// One in a new folder.
    ///
    /// # Panics
    /// It cannot be mounted: that takes root.
    pub fn mount(megabytes: u32) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("full")
            .tempdir()
            .expect("a folder");
        let at = folder.path().to_owned();
        mount(&at, &format!("size={megabytes}m,mode=0755"));
        Self {
            at,
            _folder: Some(folder),
        }
    }

    /// One that hides a folder while it is there, and belongs to whom that belongs to.
    ///
    /// # Errors
    /// The folder cannot be looked at, or not given to its owner.
    ///
    /// # Panics
    /// It cannot be mounted: that takes root.
    pub fn mount_over(folder: &Path, megabytes: u32) -> io::Result<Self> {
        let owner = folder.metadata()?;
        let mode = owner.permissions().mode() & 0o7777;
        mount(folder, &format!("size={megabytes}m,mode={mode:o}"));
        let disk = Self {
            at: folder.to_owned(),
            _folder: None,
        };
        chown(folder, Some(owner.uid()), Some(owner.gid()))?;
        Ok(disk)
    }

    /// Makes it larger.
    ///
    /// # Panics
    /// It does not grow.
    pub fn grow(&self, megabytes: u32) {
        mount(&self.at, &format!("remount,size={megabytes}m"));
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.at
    }
}

fn mount(at: &Path, options: &str) {
    let status = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(at)
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "a small file system can only be mounted as root"
    );
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}
