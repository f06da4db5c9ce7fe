//! The binary log of a server that gets new files: it begins a new one, and the old one must not be
//! gone on with.

use std::fs;
use std::path::{Path, PathBuf};

use refloat_run::Refusal;

use crate::error::PhysicalError;
use crate::tool::{Version, text};

/// From here on a server of these series knows where its new binary log begins (MDEV-38147, merged
/// in July 2026). Before, it had to be given the donor's last one.
const BEGINS_ANEW: [Version; 2] = [(10, 11, 19), (11, 8, 9)];
/// Series after this one came later.
const LAST_BEFORE: (u16, u16) = (12, 3);

/// Where the binary log is.
#[derive(Debug)]
pub struct Binlog {
    folder: PathBuf,
    /// What its files' names begin with.
    base: String,
    index: PathBuf,
    /// It moves with the data.
    is_data: bool,
}

impl Binlog {
    /// That of the server, which has this version, by its `log_bin` and `log_bin_index`. `None`: it
    /// has none.
    ///
    /// # Errors
    /// The server is older than those that can begin a new one.
    pub fn of(
        datadir: &Path,
        (binlog, index): (Option<&Path>, Option<&Path>),
        version: Version,
    ) -> Result<Option<Self>, PhysicalError> {
        let Some(binlog) = binlog else {
            return Ok(None);
        };
        let series = (version.0, version.1);
        let is_able = series > LAST_BEFORE
            || BEGINS_ANEW
                .iter()
                .any(|first| (first.0, first.1) == series && version >= *first);
        if !is_able {
            return Err(PhysicalError::refused(
                Refusal::new(format!(
                    "a server of version {} that writes a binary log does not know where it goes on after a copy",
                    text(version)
                ))
                .hint("Known to do so are 10.11.19, 11.8.9 and later ones of these series: update it, or copy by wsrep_sst_method=mariabackup."),
            ));
        }
        // Paths are relative to the data directory.
        let path = datadir.join(binlog);
        let index = index.map_or_else(
            || path.with_file_name(format!("{}.index", name(&path))),
            |index| datadir.join(index),
        );
        let folder = path.parent().unwrap_or(datadir).to_owned();
        Ok(Some(Self {
            base: name(&path),
            index,
            is_data: folder.starts_with(datadir),
            folder,
        }))
    }

    /// Moves old files into a folder beside them, where they are not among the data, and makes the
    /// folders for new ones. Returns where they are.
    pub fn set_aside(&self, run: &str) -> Result<Option<PathBuf>, PhysicalError> {
        for folder in [Some(self.folder.as_path()), self.index.parent()]
            .into_iter()
            .flatten()
        {
            fs::create_dir_all(folder).map_err(PhysicalError::file(
                folder,
                "making the folder of the binary log",
            ))?;
        }
        if self.is_data {
            return Ok(None);
        }
        let failed = |doing| PhysicalError::file(&self.folder, doing);
        let listing = fs::read_dir(&self.folder).map_err(failed("listing the binary logs"))?;
        let old: Vec<PathBuf> = listing
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| self.is_of(path))
            .collect();
        if old.is_empty() {
            return Ok(None);
        }
        let aside = self.folder.join(format!(".refloat-{run}"));
        fs::create_dir(&aside).map_err(PhysicalError::file(&aside, "making the folder"))?;
        for path in old {
            fs::rename(&path, aside.join(name(&path)))
                .map_err(failed("keeping the old binary logs"))?;
        }
        Ok(Some(aside))
    }

    fn is_of(&self, path: &Path) -> bool {
        let name = name(path);
        let end = name
            .strip_prefix(&self.base)
            .and_then(|end| end.strip_prefix('.'));
        path == self.index
            || end.is_some_and(|end| {
                end == "state" || end == "index" || end.bytes().all(|b| b.is_ascii_digit())
            })
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binlog(
        datadir: &Path,
        binlog: &str,
        version: Version,
    ) -> Result<Option<Binlog>, PhysicalError> {
        Binlog::of(datadir, (Some(Path::new(binlog)), None), version)
    }

    #[test]
    fn old_binary_logs_outside_of_the_data_are_set_aside() {
        let above = tempfile::tempdir().unwrap();
        let (data, logs) = (above.path().join("data"), above.path().join("logs"));
        fs::create_dir_all(&logs).unwrap();
        for name in [
            "bin.000001",
            "bin.index",
            "bin.state",
            "bin.txt",
            "other.000001",
        ] {
            fs::write(logs.join(name), name).unwrap();
        }
        let of = |path: &str| binlog(&data, path, (11, 8, 9)).unwrap();
        let outside = of(&logs.join("bin").to_string_lossy()).unwrap();
        let aside = outside.set_aside("r1").unwrap().unwrap();
        assert!(aside.join("bin.000001").exists() && aside.join("bin.index").exists());
        assert!(logs.join("bin.txt").exists() && logs.join("other.000001").exists());
        assert_eq!(outside.set_aside("r2").unwrap(), None);
        // What lies among the data moves with them, and the folder is made again.
        let inside = of("sub/bin").unwrap();
        assert_eq!(inside.set_aside("r1").unwrap(), None);
        assert!(data.join("sub").is_dir());
    }

    #[test]
    fn servers_that_cannot_begin_a_new_one_are_refused() {
        let is_able = |version| binlog(Path::new("/d"), "bin", version).is_ok();
        for version in [(10, 11, 19), (11, 8, 9), (11, 8, 10), (12, 4, 0)] {
            assert!(is_able(version), "{version:?}");
        }
        for version in [(10, 6, 30), (10, 11, 18), (11, 4, 99), (11, 8, 8)] {
            assert!(!is_able(version), "{version:?}");
        }
    }
}
