//! Mounts file systems small enough to fill.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs that is unmounted when dropped.
pub struct SmallDisk {
    at: PathBuf,
    // Dropped after the file system is unmounted.
    _folder: Option<tempfile::TempDir>,
}

impl SmallDisk {
    /// Mounts one in a new folder.
    ///
    /// # Panics
    /// If it cannot be mounted. Mounting needs root.
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

    /// Mounts one over an existing folder, with the same owner and mode. It hides the folder until
    /// dropped.
    ///
    /// # Errors
    /// The folder's metadata cannot be read, or its owner cannot be set.
    ///
    /// # Panics
    /// If it cannot be mounted. Mounting needs root.
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

    /// Grows the file system to `megabytes`.
    ///
    /// # Panics
    /// If it cannot be remounted.
    pub fn grow(&self, megabytes: u32) {
        mount(&self.at, &format!("remount,size={megabytes}m"));
    }

    /// Leaves this much free, in megabytes, whatever is in use.
    ///
    /// # Panics
    /// If it cannot be measured or remounted.
    pub fn leave(&self, megabytes: u32) {
        let now = rustix::fs::statvfs(&self.at).expect("a mounted file system has a size");
        let used = (now.f_blocks - now.f_bfree) * now.f_frsize;
        self.grow(used.div_ceil(1 << 20) as u32 + megabytes);
    }

    /// The mount point.
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
