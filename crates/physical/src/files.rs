//! Operations on files and folders that several modules need: names, labels, free space, syncing.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use refloat_host::Host;
use refloat_run::Refusal;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

/// Permissions of a data directory and of folders in it: those that servers give.
pub const FOLDER_MODE: u32 = 0o700;
/// Permissions of files: those that servers give.
pub const FILE_MODE: u32 = 0o660;

/// Makes a folder, and those above it that are missing, for files that only a server may read.
pub fn make_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)
}

/// The wanted names in a folder.
pub fn names(folder: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if wanted(&name.to_string_lossy()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The label by which `SELinux` tells what a server may work with. Tests use another attribute.
#[cfg(not(test))]
pub const LABEL: &str = "security.selinux";
#[cfg(test)]
pub const LABEL: &str = "user.refloat-test";
/// Longer than any label.
const LABEL_MAX: usize = 4096;

/// The label of a file or folder. `None`: it has none.
pub fn label_of(path: &Path) -> Option<Vec<u8>> {
    let mut label = vec![0; LABEL_MAX];
    let length = rustix::fs::lgetxattr(path, LABEL, label.as_mut_slice()).ok()?;
    label.truncate(length);
    Some(label)
}

/// Whether a directory is a mount point, even one of the file system that its parent is on (`mount
/// --bind`). Kernels before 5.8 do not say.
pub fn is_mount_root(path: &Path) -> io::Result<bool> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE)?;
    let attributes = found.stx_attributes & found.stx_attributes_mask;
    Ok(attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Syncs the names in a folder, or the content of a file, to disk.
pub fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Whether a folder has too little room for new files of this many bytes.
pub fn lacks_room(folder: &Path, bytes: u64) -> Option<Refusal> {
    let free = Host::Local.disk_free(folder).filter(|free| *free < bytes)?;
    let folder = folder.display();
    Some(
        Refusal::new(format!(
            "{free} bytes are free in {folder}, but the files need {bytes}"
        ))
        .hint("The old data stay until the new are in place: make room, or choose another file system."),
    )
}
