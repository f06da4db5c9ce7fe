//! File systems for tests: small enough to fill, or losing what is not on their disk.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::{NamedTempFile, TempPath};

use crate::wait_until;

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

/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH` (fs/ext4/ext4.h of Linux): the file
/// system is dead from then on, and its journal receives nothing more.
const SHUT_DOWN: &str = r#"my $flags = pack("L", 2); open(my $file, "<", $ARGV[0]) or die "$ARGV[0]: $!"; ioctl($file, 0x8004587D, $flags) or die "ioctl: $!""#;
/// Size of a disk in bytes. Its image takes no more than what is written.
const DISK: u64 = 1 << 30;

/// A separate disk (an image behind a loop device), mounted on a folder, that can lose its power:
/// then it holds only what programs have brought to the disk.
pub struct LossyDisk {
    image: TempPath,
    at: PathBuf,
}

impl LossyDisk {
    /// Makes a disk, mounts it on a folder and moves the folder's content to it.
    ///
    /// # Panics
    /// If that fails. Mounting needs root.
    pub fn below(folder: &Path) -> Self {
        let image = NamedTempFile::new().expect("an image");
        image.as_file().set_len(DISK).expect("a sparse file");
        let aside = folder.with_extension("aside");
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F"])
            .arg(image.path()));
        fs::rename(folder, &aside).expect("the folder moves");
        fs::create_dir(folder).expect("a mount point");
        let disk = Self {
            image: image.into_temp_path(),
            at: folder.to_owned(),
        };
        disk.mount();
        fs::remove_dir(folder.join("lost+found")).expect("ext4 makes it");
        // Write all blocks of the redo log once, as on a server that has run for a while. New
        // blocks would go through the file system's journal, and each sync of the log would then
        // sync everything else.
        run(Command::new("cp")
            .args(["-a", "--sparse=never"])
            .arg(aside.join("."))
            .arg(folder));
        run(Command::new("sync").arg("-f").arg(folder));
        fs::remove_dir_all(aside).expect("the old content goes");
        disk
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// Mounts it with a long commit interval: by default, the kernel would write unsynced data
    /// every five seconds.
    fn mount(&self) {
        run(Command::new("mount")
            .args(["-o", "loop,commit=300"])
            .arg(&self.image)
            .arg(&self.at));
    }

    /// Cuts the power, losing everything that is not on the disk. `end` ends the processes that use
    /// it. Then what the disk has is mounted again.
    ///
    /// That is a copy of the image: any mount namespace created meanwhile (other tests create some)
    /// keeps the dead file system alive, and mounting the same image again would give that one.
    ///
    /// # Panics
    /// If the disk stays in use, or cannot be mounted.
    pub fn cut(&mut self, end: impl FnOnce()) {
        run(Command::new("perl").args(["-e", SHUT_DOWN]).arg(&self.at));
        end();
        wait_until("nobody uses the disk", || {
            let mut umount = Command::new("umount");
            umount
                .arg(&self.at)
                .status()
                .is_ok_and(|status| status.success())
        });
        let copy = NamedTempFile::new().expect("an image").into_temp_path();
        run(Command::new("cp")
            .arg("--sparse=always")
            .arg(&self.image)
            .arg(&copy));
        self.image = copy;
        self.mount();
    }
}

impl Drop for LossyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
}
