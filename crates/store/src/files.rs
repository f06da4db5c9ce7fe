//! Files by their paths: those of this machine, and those that are mounted.
//!
//! A dump is named by a path wherever it lies. One that lies on a storage or in a backup is
//! [mounted](mount): from then on, for as long as the process runs, paths at and below its root
//! are read from there. What a mount holds was listed when it was made and does not change.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, or a link to one.
    File,
    /// A folder, or a link to one.
    Folder,
    /// A pipe, a device and the like.
    Other,
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it leads to.
    pub kind: Kind,
    /// Size of a file in bytes.
    pub bytes: u64,
}

impl From<&fs::Metadata> for Stat {
    fn from(meta: &fs::Metadata) -> Self {
        let kind = if meta.is_file() {
            Kind::File
        } else if meta.is_dir() {
            Kind::Folder
        } else {
            Kind::Other
        };
        let bytes = meta.len();
        Self { kind, bytes }
    }
}

/// Files that are read from elsewhere. Threads share them.
pub trait Files: Send + Sync {
    /// Opens a file from a byte to its end. A reader that reports its end has returned all of that,
    /// as it was when the files were mounted.
    ///
    /// # Errors
    /// The file cannot be read, or is another one by now.
    fn open(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>>;
}

struct Mounted {
    root: PathBuf,
    /// Sizes by name below the root; the name is empty if the root itself is a file.
    sizes: BTreeMap<String, u64>,
    files: Arc<dyn Files>,
}

static MOUNTS: RwLock<Vec<Arc<Mounted>>> = RwLock::new(Vec::new());

/// Mounts files at `root`, in place of what was mounted there. `sizes` has the bytes of each by its
/// name below the root, with `/` between parts; an empty name stands for the root itself.
pub fn mount(root: &Path, sizes: BTreeMap<String, u64>, files: Arc<dyn Files>) {
    let mut mounts = MOUNTS.write().unwrap_or_else(PoisonError::into_inner);
    mounts.retain(|mounted| mounted.root != root);
    mounts.push(Arc::new(Mounted {
        root: root.to_owned(),
        sizes,
        files,
    }));
}

/// The mount that a path is part of, and its name there.
fn find(path: &Path) -> Option<(Arc<Mounted>, String)> {
    let mounts = MOUNTS.read().unwrap_or_else(PoisonError::into_inner);
    mounts.iter().find_map(|mounted| {
        let name = path.strip_prefix(&mounted.root).ok()?.to_str()?;
        Some((Arc::clone(mounted), name.to_owned()))
    })
}

impl Mounted {
    fn stat(&self, name: &str) -> io::Result<Stat> {
        if let Some(bytes) = self.sizes.get(name) {
            return Ok(Stat {
                kind: Kind::File,
                bytes: *bytes,
            });
        }
        if name.is_empty() || self.below(name).next().is_some() {
            return Ok(Stat {
                kind: Kind::Folder,
                bytes: 0,
            });
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Names of the files in a folder and its folders, without that of the folder.
    fn below(&self, folder: &str) -> impl Iterator<Item = (&str, u64)> {
        let start = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        self.sizes
            .range(start.clone()..)
            .map_while(move |(name, bytes)| Some((name.strip_prefix(&start)?, *bytes)))
    }
}

/// Whether a path is read from elsewhere, where each byte that is read takes time and may cost
/// money.
pub fn is_mounted(path: &Path) -> bool {
    find(path).is_some()
}

/// Looks at a path; follows links.
///
/// # Errors
/// Nothing is there, or it cannot be looked at.
pub fn stat(path: &Path) -> io::Result<Stat> {
    match find(path) {
        Some((mounted, name)) => mounted.stat(&name),
        None => fs::metadata(path).map(|meta| Stat::from(&meta)),
    }
}

/// Whether a path leads to a folder.
pub fn is_folder(path: &Path) -> bool {
    stat(path).is_ok_and(|stat| stat.kind == Kind::Folder)
}

/// Whether a path leads to a regular file.
pub fn is_file(path: &Path) -> bool {
    stat(path).is_ok_and(|stat| stat.kind == Kind::File)
}

/// The names in a mounted folder; `None` if it is not mounted.
pub fn mounted_entries(folder: &Path) -> Option<io::Result<Vec<(String, Stat)>>> {
    let (mounted, folder) = find(folder)?;
    let entries = || -> io::Result<Vec<(String, Stat)>> {
        if mounted.stat(&folder)?.kind != Kind::Folder {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let mut entries: BTreeMap<String, Stat> = BTreeMap::new();
        for (name, bytes) in mounted.below(&folder) {
            let (first, kind) = match name.split_once('/') {
                Some((first, _)) => (first, Kind::Folder),
                None => (name, Kind::File),
            };
            let bytes = if kind == Kind::File { bytes } else { 0 };
            entries.insert(first.to_owned(), Stat { kind, bytes });
        }
        Ok(entries.into_iter().collect())
    };
    Some(entries())
}

/// A file that is open for reading, wherever it is.
pub enum OpenFile {
    /// One of this machine.
    Here(File),
    /// One that is mounted, with its size in bytes.
    Mounted(Box<dyn Read + Send>, u64),
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Here(file) => file.read(buffer),
            Self::Mounted(file, _) => file.read(buffer),
        }
    }
}

/// Opens a file from a byte to its end.
///
/// # Errors
/// It cannot be read.
pub fn open(path: &Path, from: u64) -> io::Result<OpenFile> {
    let Some((mounted, name)) = find(path) else {
        let mut file = File::open(path)?;
        if from > 0 {
            file.seek(SeekFrom::Start(from))?;
        }
        return Ok(OpenFile::Here(file));
    };
    let stat = mounted.stat(&name)?;
    match stat.kind {
        Kind::File => Ok(OpenFile::Mounted(
            mounted.files.open(&name, from)?,
            stat.bytes,
        )),
        _ => Err(io::ErrorKind::IsADirectory.into()),
    }
}

/// Bytes that an unprivileged process may still write to the file system of a path. `None`: the
/// path is not there, or nobody knows.
pub(crate) fn free(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;

    impl Files for Names {
        fn open(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
            let text = name.as_bytes()[from as usize..].to_vec();
            Ok(Box::new(io::Cursor::new(text)))
        }
    }

    fn mounted(root: &str, names: &[&str]) {
        let sizes = names
            .iter()
            .map(|name| ((*name).to_owned(), name.len() as u64));
        mount(Path::new(root), sizes.collect(), Arc::new(Names));
    }

    #[test]
    fn what_is_mounted_is_read_by_its_path() {
        mounted(
            "s3://b/dump",
            &["a.sql", "shop/t.tsv", "shop/u.tsv", "shop-2/t"],
        );
        let root = Path::new("s3://b/dump");
        let names = |path: &Path| -> Vec<String> {
            let entries = mounted_entries(path).unwrap().unwrap();
            entries.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(root), ["a.sql", "shop", "shop-2"]);
        assert_eq!(names(&root.join("shop")), ["t.tsv", "u.tsv"]);
        assert!(is_folder(root) && is_folder(&root.join("shop")));
        assert!(is_file(&root.join("shop/t.tsv")) && !is_folder(&root.join("a.sql")));
        for missing in ["sho", "shop/t", "a.sql/x", "../dump/a.sql"] {
            stat(&root.join(missing)).unwrap_err();
        }
        let mut text = String::new();
        let mut file = open(&root.join("shop/t.tsv"), 5).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "t.tsv");
        assert!(open(&root.join("shop"), 0).is_err());
        assert!(!is_mounted(Path::new("s3://b/dump2")));
        let folder = tempfile::tempdir().unwrap();
        assert!(mounted_entries(folder.path()).is_none() && is_folder(folder.path()));
    }

    #[test]
    fn a_single_file_may_be_mounted() {
        mounted("ssh://h/one.sql", &[""]);
        let path = Path::new("ssh://h/one.sql");
        assert!(is_file(path) && !is_folder(path));
        assert!(mounted_entries(path).unwrap().is_err());
        stat(&path.join("x")).unwrap_err();
    }
}
