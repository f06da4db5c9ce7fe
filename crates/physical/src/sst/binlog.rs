//! The binary log of a server that gets new files. The server must begin a new log, and not
//! continue the old one.

use std::fs;
use std::path::{Path, PathBuf};

use refloat_run::Refusal;

use crate::error::PhysicalError;
use crate::tool::{Version, text};

/// The first version of each series in which a server knows where its new binary log begins
/// (MDEV-38147, merged in July 2026). Before, it had to be given the donor's last one.
const BEGINS_ANEW: [Version; 2] = [(10, 11, 19), (11, 8, 9)];
/// The last series before that fix; all later series have it.
const LAST_BEFORE: (u16, u16) = (12, 3);

/// Where the binary log is.
#[derive(Debug)]
pub struct Binlog {
    folder: PathBuf,
    /// The common beginning of its files' names.
    base: String,
    index: PathBuf,
    /// Its folder if it is inside the data directory, with which it then moves.
    inside: Option<PathBuf>,
}

impl Binlog {
    /// The binary log of a server of this version, from its `log_bin` and `log_bin_index`. `None`:
    /// it has none.
    ///
    /// # Errors
    /// The server is older than those that can begin a new one, or its version is not known.
    pub fn of(
        datadir: &Path,
        (binlog, index): (Option<&Path>, Option<&Path>),
        version: Option<Version>,
    ) -> Result<Option<Self>, PhysicalError> {
        let Some(binlog) = binlog else {
            return Ok(None);
        };
        let Some(version) = version else {
            return Err(PhysicalError::refused(
                Refusal::new("this server writes a binary log, and its version cannot be determined")
                    .hint("Its program must answer --version when the server's account runs it; or use wsrep_sst_method=mariabackup."),
            ));
        };
        let series = (version.0, version.1);
        let is_able = series > LAST_BEFORE
            || BEGINS_ANEW
                .iter()
                .any(|first| (first.0, first.1) == series && version >= *first);
        if !is_able {
            return Err(PhysicalError::refused(
                Refusal::new(format!(
                    "a server of version {} that writes a binary log does not know where to continue after a copy",
                    text(version)
                ))
                .hint("10.11.19, 11.8.9 and later ones of these series do: update it, or use wsrep_sst_method=mariabackup."),
            ));
        }
        // Paths are relative to the data directory.
        let path = datadir.join(binlog);
        let index = index.map_or_else(
            || path.with_file_name(format!("{}.index", name(&path))),
            |index| datadir.join(index),
        );
        Ok(Some(Self::at(datadir, &path, index)))
    }

    /// The binary log of a Percona server, which continues the log that arrives from the donor.
    pub fn of_percona(datadir: &Path, binlog: &Path) -> Self {
        let path = datadir.join(binlog);
        let index = path.with_file_name(format!("{}.index", name(&path)));
        Self::at(datadir, &path, index)
    }

    fn at(datadir: &Path, path: &Path, index: PathBuf) -> Self {
        let folder = path.parent().unwrap_or(datadir).to_owned();
        // Resolves `..` and links: either path may be written in another way.
        let inside = match (folder.canonicalize(), datadir.canonicalize()) {
            (Ok(folder), Ok(datadir)) => folder.strip_prefix(datadir).ok().map(Path::to_owned),
            _ => folder.strip_prefix(datadir).ok().map(Path::to_owned),
        };
        Self {
            base: name(path),
            index,
            inside,
            folder,
        }
    }

    /// Moves old files into a folder beside them, unless they are inside the data directory, and
    /// creates the folders for new ones. Returns where the old ones are.
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
        if self.inside.is_some() {
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

    /// Turns the files of the donor's log, which arrived with the others in the folder `from`, into
    /// those of this server, under its names and in its folder. `last` is one of them. They record
    /// which transactions were executed.
    pub fn take(&self, from: &Path, last: &str) -> Result<(), PhysicalError> {
        let folder = match &self.inside {
            Some(inside) => from.join(inside),
            None => self.folder.clone(),
        };
        fs::create_dir_all(&folder).map_err(PhysicalError::file(&folder, "making the folder"))?;
        let mut lines = Vec::new();
        for number in numbers(from, last)? {
            let (base, here) = (base_of(last), format!("{}.{number}", self.base));
            // Outside the data directory, they may be on another file system.
            let (source, target) = (from.join(format!("{base}.{number}")), folder.join(&here));
            if source != target {
                fs::copy(&source, &target)
                    .and_then(|_| fs::File::open(&target)?.sync_all())
                    .and_then(|()| fs::remove_file(&source))
                    .map_err(PhysicalError::file(
                        &target,
                        "putting the binary log in place",
                    ))?;
            }
            let shown = match &self.inside {
                Some(inside) => Path::new(".").join(inside).join(&here),
                None => target,
            };
            lines.push(shown.display().to_string());
        }
        remove_index(from, last);
        lines.push(String::new());
        let index = folder.join(name(&self.index));
        fs::write(&index, lines.join("\n"))
            .map_err(PhysicalError::file(&index, "writing the list of logs"))
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

/// Removes the files of the donor's log, of which `last` is one: this server has none, or begins
/// its own.
pub fn drop_received(from: &Path, last: &str) -> Result<(), PhysicalError> {
    for number in numbers(from, last)? {
        let _ = fs::remove_file(from.join(format!("{}.{number}", base_of(last))));
    }
    remove_index(from, last);
    Ok(())
}

fn remove_index(from: &Path, last: &str) {
    let _ = fs::remove_file(from.join(format!("{}.index", base_of(last))));
}

fn base_of(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(base, _)| base)
}

/// The suffixes of the log's files in a folder, in order.
fn numbers(folder: &Path, last: &str) -> Result<Vec<String>, PhysicalError> {
    let listing = fs::read_dir(folder);
    let listing = listing.map_err(PhysicalError::file(folder, "listing the binary logs"))?;
    let number = |path: PathBuf| {
        let name = name(&path);
        let (base, number) = name.rsplit_once('.')?;
        let is_one = base == base_of(last) && number.bytes().all(|b| b.is_ascii_digit());
        is_one.then(|| number.to_owned())
    };
    let mut all: Vec<String> = listing
        .flatten()
        .filter_map(|entry| number(entry.path()))
        .collect();
    all.sort_by_key(|number| (number.len(), number.clone()));
    Ok(all)
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
        Binlog::of(datadir, (Some(Path::new(binlog)), None), Some(version))
    }

    #[test]
    fn old_binary_logs_outside_of_the_data_are_set_aside() {
        let above = tempfile::tempdir().unwrap();
        let (data, logs) = (above.path().join("data"), above.path().join("logs"));
        fs::create_dir_all(&logs).unwrap();
        fs::create_dir(&data).unwrap();
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
        fs::write(logs.join("bin.000001"), "").unwrap();
        let again = of("../logs/bin").unwrap().set_aside("r3").unwrap();
        assert!(again.is_some(), "it is not among the data");
        // What is inside the data directory moves with it, and the folder is created again.
        let inside = of("sub/bin").unwrap();
        assert_eq!(inside.set_aside("r1").unwrap(), None);
        assert!(data.join("sub").is_dir());
    }

    #[test]
    fn a_received_log_becomes_the_servers_own() {
        let above = tempfile::tempdir().unwrap();
        let (data, new) = (above.path().join("data"), above.path().join("new"));
        fs::create_dir_all(&data).unwrap();
        let fill = || {
            fs::create_dir_all(&new).unwrap();
            for name in [
                "theirs.000009",
                "theirs.000010",
                "theirs.index",
                "theirs.txt",
            ] {
                fs::write(new.join(name), name).unwrap();
            }
        };
        let text = |path: PathBuf| fs::read_to_string(path).unwrap();
        fill();
        let inside = Binlog::of_percona(&data, Path::new("ours"));
        inside.take(&new, "theirs.000010").unwrap();
        assert_eq!(
            text(new.join("ours.index")),
            "./ours.000009\n./ours.000010\n"
        );
        assert_eq!(text(new.join("ours.000010")), "theirs.000010");
        assert!(!new.join("theirs.index").exists() && new.join("theirs.txt").exists());
        // Of the same name.
        fill();
        let same = Binlog::of_percona(&data, Path::new("./theirs"));
        same.take(&new, "theirs.000010").unwrap();
        assert_eq!(text(new.join("theirs.000009")), "theirs.000009");
        fill();
        let logs = above.path().join("logs");
        let outside = Binlog::of_percona(&data, &logs.join("ours"));
        outside.take(&new, "theirs.000010").unwrap();
        let listed = text(logs.join("ours.index"));
        assert!(
            listed.starts_with(&format!("{}\n", logs.join("ours.000009").display())),
            "{listed}"
        );
        fill();
        drop_received(&new, "theirs.000010").unwrap();
        assert!(!new.join("theirs.000009").exists() && !new.join("theirs.index").exists());
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
        let data = Path::new("/d");
        assert!(Binlog::of(data, (Some(Path::new("bin")), None), None).is_err());
        assert!(Binlog::of(data, (None, None), None).unwrap().is_none());
    }
}
