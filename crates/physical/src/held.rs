//! Folders that a server's account may write to, held open.
//!
//! That account can put a link in the place of any file there, at any moment. What root then does
//! by a path, it does to the file that the link leads to. So a folder is opened once, names are
//! looked up in the open folder, and a link is never followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Uid,
    XattrFlags, fchmod, fchown, fsetxattr, fstat, mkdirat, openat, openat2, readlinkat, renameat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::files::{FILE_MODE, FOLDER_MODE, LABEL};

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A file, without waiting for the other end if it is a pipe.
const FILE: OFlags = READ.union(OFlags::NOFOLLOW);
/// The same, but follows a link.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Permissions of files that belong to nobody else yet.
const OWN: u32 = 0o600;

/// An open folder.
#[derive(Debug)]
pub struct Held(File);

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<File> for Held {
    fn from(folder: File) -> Self {
        Self(folder)
    }
}

/// Who is to own files, and with which label; `None`: they stay as they are.
#[derive(Debug, Clone, Default)]
pub struct Recipient {
    /// User and group.
    pub owner: Option<(u32, u32)>,
    pub label: Option<Vec<u8>>,
}

impl Held {
    /// Opens a folder, but not one that a link leads to.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER, Mode::empty())?.into()))
    }

    /// Opens a folder in it.
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(openat(self, name, FOLDER, Mode::empty())?.into()))
    }

    /// Creates a folder in it that only this account may enter, and opens it.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<Self> {
        mkdirat(self, name, Mode::from(FOLDER_MODE))?;
        self.folder(name)
    }

    /// Removes an empty folder in it.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(self, name, AtFlags::REMOVEDIR)?)
    }

    /// Opens a file in it for reading.
    pub fn file(&self, name: &OsStr) -> io::Result<File> {
        regular(openat(self, name, FILE, Mode::empty())?.into())
    }

    /// Creates a file in it; fails if something has that name.
    pub fn make_file(&self, name: &OsStr) -> io::Result<File> {
        Ok(openat(self, name, NEW, Mode::from(OWN))?.into())
    }

    /// Creates a file in it, and replaces what had its name.
    pub fn replace_file(&self, name: &OsStr) -> io::Result<File> {
        match unlinkat(self, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => self.make_file(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves an entry into another folder.
    pub fn move_to(&self, name: &OsStr, other: &Self) -> io::Result<()> {
        Ok(renameat(self, name, other, name)?)
    }

    /// Whether it has an empty folder of this name.
    pub fn has_empty_folder(&self, name: &OsStr) -> bool {
        let entries = self.folder(name).and_then(|folder| folder.entries());
        entries.is_ok_and(|entries| entries.is_empty())
    }

    /// Moves an entry into another folder, and the empty folder of its name that is there into this
    /// one: in one step where the file system can, or in several, the first and the last of which
    /// concern the empty folder only.
    pub fn change_places(&self, name: &OsStr, other: &Self) -> io::Result<()> {
        match renameat_with(self, name, other, name, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS) => {
                other.remove_folder(name)?;
                self.move_to(name, other)?;
                self.make_folder(name).map(drop)
            }
            result => Ok(result?),
        }
    }

    /// The names in it, each with what it is.
    pub fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(self)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = statat(self, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
            entries.push((name, FileType::from_raw_mode(kind)));
        }
        Ok(entries)
    }

    pub fn status(&self) -> io::Result<Stat> {
        Ok(fstat(self)?)
    }

    /// Gives it and everything in it to an account. The folder itself gets this mode, and is given
    /// away last: until then, its new owner cannot change what is in it.
    pub fn give(&self, mode: u32, to: &Recipient) -> io::Result<()> {
        for (name, kind) in self.entries()? {
            match kind {
                FileType::Directory => self.folder(&name)?.give(FOLDER_MODE, to)?,
                FileType::RegularFile => give(&self.file(&name)?, FILE_MODE, to)?,
                _ => {}
            }
        }
        give(self, mode, to)
    }

    /// Takes it and the files and folders in it back from an account that could write to it, and
    /// removes what leads elsewhere. The folder itself comes first: from then on, nobody else can
    /// change what is in it.
    pub fn take_back(&self) -> io::Result<()> {
        let account = (rustix::process::geteuid(), rustix::process::getegid());
        fchown(self, Some(account.0), Some(account.1))?;
        fchmod(self, Mode::from(FOLDER_MODE))?;
        for (name, kind) in self.entries()? {
            if kind == FileType::Directory {
                self.folder(&name)?.take_back()?;
                continue;
            }
            let file = (kind == FileType::RegularFile).then(|| self.file(&name));
            match file.transpose()? {
                // A file with a second name may also be elsewhere.
                Some(file) if fstat(&file)?.st_nlink == 1 => {
                    fchown(&file, Some(account.0), Some(account.1))?;
                    fchmod(&file, Mode::from(OWN))?;
                }
                _ => unlinkat(self, &name, AtFlags::empty())?,
            }
        }
        Ok(())
    }

    /// Copies a file of another folder into it. For a link, copies the file that it leads to if
    /// that is in the other folder, and otherwise the link, wherever it leads. Existing files stay.
    pub fn copy_from(&self, other: &Self, name: &OsStr) -> io::Result<()> {
        let has = |folder: &Self| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        if has(self).is_ok() {
            return Ok(());
        }
        match FileType::from_raw_mode(has(other)?.st_mode) {
            FileType::Symlink => {
                let beneath = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
                let inside = openat2(other, name, READ, Mode::empty(), beneath);
                // Kernels before 5.6 lack the call.
                if let Ok(inside) = inside
                    && let Ok(mut inside) = regular(inside.into())
                {
                    io::copy(&mut inside, &mut self.make_file(name)?)?;
                    return Ok(());
                }
                let target = readlinkat(other, name, Vec::new())?;
                symlinkat(OsStr::from_bytes(target.as_bytes()), self, name)?;
            }
            FileType::RegularFile => {
                let mut from = other.file(name)?;
                io::copy(&mut from, &mut self.make_file(name)?)?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn give(what: impl AsFd, mode: u32, to: &Recipient) -> io::Result<()> {
    if let Some((uid, gid)) = to.owner {
        fchown(&what, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    fchmod(&what, Mode::from(mode))?;
    if let Some(label) = &to.label {
        // If that is not permitted, the label inherited from the folder stays.
        let _ = fsetxattr(what, LABEL, label, XattrFlags::empty());
    }
    Ok(())
}

/// Opens a regular file for reading: does not follow a link, and refuses pipes and devices.
pub fn open_file(path: &Path) -> io::Result<File> {
    regular(openat(CWD, path, FILE, Mode::empty())?.into())
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{RenameFlags, renameat_with};

    use super::*;

    const NOBODY: u32 = 65534;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn nothing_outside_is_given_away_while_its_folder_changes() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        fs::create_dir_all(path("data/shop")).unwrap();
        fs::create_dir(path("outside")).unwrap();
        fs::write(path("outside/secret"), "secret").unwrap();
        symlink(path("outside"), path("data/link")).unwrap();
        for name in ["outside", "outside/secret"] {
            fs::set_permissions(path(name), fs::Permissions::from_mode(0o444)).unwrap();
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (one, other) = (path("data/shop"), path("data/link"));
                while !over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            for _ in 0..2000 {
                let held = Held::open(&path("data")).unwrap();
                // It may find the link where it has just seen a folder.
                let _ = held.give(FOLDER_MODE, &Recipient::default());
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(mode(&path("outside")), 0o444);
        assert_eq!(mode(&path("outside/secret")), 0o444);
        assert_eq!(mode(&path("data")), FOLDER_MODE);
    }

    #[test]
    fn what_comes_back_leads_nowhere() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        fs::create_dir_all(path("data/shop")).unwrap();
        for name in ["secret", "data/shop/t.ibd"] {
            fs::write(path(name), "as it was").unwrap();
        }
        symlink(path("secret"), path("data/ibdata1")).unwrap();
        symlink(above.path(), path("data/mysql")).unwrap();
        fs::hard_link(path("secret"), path("data/shop/u.ibd")).unwrap();
        fs::set_permissions(path("secret"), fs::Permissions::from_mode(0o444)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            for name in ["data", "data/shop", "data/shop/t.ibd"] {
                chown(path(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        Held::open(&path("data")).unwrap().take_back().unwrap();
        assert_eq!(fs::read(path("secret")).unwrap(), b"as it was");
        assert_eq!(mode(&path("secret")), 0o444);
        for name in ["data/ibdata1", "data/mysql", "data/shop/u.ibd"] {
            fs::symlink_metadata(path(name)).unwrap_err();
        }
        for name in ["data", "data/shop", "data/shop/t.ibd"] {
            let owner = fs::metadata(path(name)).unwrap().uid();
            assert_eq!(owner, rustix::process::geteuid().as_raw(), "{name}");
        }
    }

    #[test]
    fn only_files_are_read() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        fs::write(path("file"), "text").unwrap();
        symlink(path("file"), path("link")).unwrap();
        std::process::Command::new("mkfifo")
            .arg(path("pipe"))
            .status()
            .unwrap();
        open_file(&path("file")).unwrap();
        for name in ["link", "pipe", ".", "none"] {
            open_file(&path(name)).unwrap_err();
        }
        let held = Held::open(above.path()).unwrap();
        held.replace_file(OsStr::new("link")).unwrap();
        assert_eq!(fs::read(path("file")).unwrap(), b"text");
        Held::open(&path("file")).unwrap_err();
    }
}
