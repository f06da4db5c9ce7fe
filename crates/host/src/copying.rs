//! The progress of a copy of files by refloat, which either end records beside its data.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::Serialize;

use crate::error::HostError;
use crate::host::Host;

/// Maximum size of the file, in bytes: more than any of its texts has.
const TEXT_MAX: u64 = 4096;

/// A state transfer (SST) or a rebuild under way, at one of its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copying {
    /// The process that makes the copy.
    pub process: u32,
    /// [`Self::JOINER`], [`Self::DONOR`], [`Self::REBUILT`] or [`Self::COPIED`].
    pub role: String,
    /// The current step, in words.
    pub step: String,
    /// Bytes of files so far.
    pub bytes: u64,
    /// Approximate total of bytes, if known.
    pub total: Option<u64>,
    /// Seconds that the files will still take, if known. The redo log and catching up come after
    /// them.
    pub left: Option<u64>,
}

impl Copying {
    /// It receives the files of a state transfer.
    pub const JOINER: &'static str = "joiner";
    /// It sends the files of a state transfer.
    pub const DONOR: &'static str = "donor";
    /// It is rebuilt from another server's files.
    pub const REBUILT: &'static str = "rebuilt";
    /// Another server is rebuilt from its files.
    pub const COPIED: &'static str = "copied";

    /// Where the progress is recorded, in order of preference. If a rebuild swaps the data
    /// directory, the file is beside that directory, if possible.
    pub fn places(datadir: &Path, role: &str) -> [PathBuf; 2] {
        const NAME: &str = ".refloat-sst";
        // Without a trailing slash.
        let datadir = datadir.components().as_path();
        let mut beside = datadir.as_os_str().to_owned();
        beside.push(NAME);
        let places = [datadir.join(NAME), PathBuf::from(beside)];
        if role == Self::REBUILT {
            let [inside, beside] = places;
            return [beside, inside];
        }
        places
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "process {}\nrole {}\nstep {}\nbytes {}\n",
            self.process, self.role, self.step, self.bytes
        );
        for (name, value) in [("total", self.total), ("left", self.left)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{name} {value}");
            }
        }
        text
    }

    /// Parses the text of the file. `None`: it is not such a file.
    pub fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        Some(Self {
            process: value("process")?.parse().ok()?,
            role: value("role")?.to_owned(),
            step: value("step")?.to_owned(),
            bytes: value("bytes")?.parse().ok()?,
            total: value("total").and_then(|text| text.parse().ok()),
            left: value("left").and_then(|text| text.parse().ok()),
        })
    }

    /// Removes the files that killed copies into or out of a data directory have left.
    pub fn remove_left(datadir: &Path) {
        for path in Self::places(datadir, Self::DONOR) {
            let found = read_here(&path).and_then(|text| Self::parse(&text));
            if found.is_some_and(|left| !left.goes_on()) {
                // The next copy writes over it otherwise.
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    /// Whether its process is there, on this machine. Its number may be another program's by now.
    fn goes_on(&self) -> bool {
        let words = std::fs::read(format!("/proc/{}/cmdline", self.process));
        let words = words.unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        ["wsrep_sst_", "refloat"]
            .iter()
            .any(|name| words.contains(name))
    }

    /// The copy into or out of a data directory. `None`: refloat makes none there now.
    ///
    /// # Errors
    /// [`HostError`]: the machine cannot be reached, or says why not.
    pub fn look(host: &Host, datadir: &Path) -> Result<Option<Self>, HostError> {
        let places = Self::places(datadir, Self::DONOR);
        let places = places.map(|path| Host::word(&path.to_string_lossy()));
        // A killed process leaves its file behind.
        let script = format!(
            "for file in {}; do [ -r \"$file\" ] || continue
             process=$(sed -n 's/^process \\([0-9]*\\)$/\\1/p' \"$file\")
             grep -qaE 'wsrep_sst_|refloat' \"/proc/${{process:-0}}/cmdline\" 2>/dev/null || continue
             cat \"$file\"; break; done",
            places.join(" ")
        );
        let stdout = host.run(&script)?.stdout;
        Ok(Self::parse(&String::from_utf8_lossy(&stdout)))
    }
}

/// Reads a file that a server's account may have put there: does not follow a link, and does not
/// wait for a pipe.
fn read_here(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let mut text = String::new();
    let is_file = file.metadata().ok()?.is_file();
    is_file.then(|| file.take(TEXT_MAX).read_to_string(&mut text).ok())??;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_copy_has_left_is_removed() {
        let above = tempfile::tempdir().unwrap();
        let datadir = above.path().join("data");
        std::fs::create_dir(&datadir).unwrap();
        let [inside, beside] = Copying::places(&datadir, Copying::DONOR);
        let copying = |process| Copying {
            process,
            role: Copying::REBUILT.to_owned(),
            step: "copies".to_owned(),
            bytes: 5,
            total: None,
            left: None,
        };
        // The tests of refloat run from a file with such a name.
        let (gone, running) = (copying(u32::MAX), copying(std::process::id()));
        let secret = above.path().join("secret");
        std::fs::write(&secret, gone.to_text()).unwrap();
        std::fs::write(&inside, running.to_text()).unwrap();
        std::fs::write(&beside, gone.to_text()).unwrap();
        Copying::remove_left(&datadir);
        assert!(inside.exists() && !beside.exists());
        // Somebody else's.
        std::fs::write(&beside, "process 1\n").unwrap();
        std::fs::remove_file(&inside).unwrap();
        std::os::unix::fs::symlink(&secret, &inside).unwrap();
        Copying::remove_left(&datadir);
        assert!(beside.exists() && inside.exists() && secret.exists());
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let copying = Copying {
            process: 7,
            role: "joiner".to_owned(),
            step: "applies the redo log".to_owned(),
            bytes: 5,
            total: Some(9),
            left: Some(41),
        };
        assert_eq!(Copying::parse(&copying.to_text()).as_ref(), Some(&copying));
        let folder = tempfile::tempdir().unwrap();
        let look = || Copying::look(&Host::Local, folder.path()).unwrap();
        assert_eq!(look(), None);
        let path = &Copying::places(folder.path(), Copying::DONOR)[0];
        // There is no such process.
        let gone = Copying {
            process: u32::MAX,
            ..copying.clone()
        };
        std::fs::write(path, gone.to_text()).unwrap();
        assert_eq!(look(), None);
        // This test's binary counts as refloat: its name begins with it.
        let record = Copying {
            process: std::process::id(),
            total: None,
            left: None,
            ..copying
        };
        std::fs::write(path, record.to_text()).unwrap();
        assert_eq!(look(), Some(record));
        assert_eq!(Copying::parse("half a fil"), None);
    }
}
