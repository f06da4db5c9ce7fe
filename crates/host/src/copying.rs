//! The progress of a copy of files by refloat, which either end records beside its data.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::HostError;
use crate::host::Host;

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
        // Without a slash at its end.
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
        if let Some(total) = self.total {
            let _ = writeln!(text, "total {total}");
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
        })
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
        let said = host.run(&script)?.stdout;
        Ok(Self::parse(&String::from_utf8_lossy(&said)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let copying = Copying {
            process: 7,
            role: "joiner".to_owned(),
            step: "applies the redo log".to_owned(),
            bytes: 5,
            total: Some(9),
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
        let own = Copying {
            process: std::process::id(),
            total: None,
            ..copying
        };
        std::fs::write(path, own.to_text()).unwrap();
        assert_eq!(look(), Some(own));
        assert_eq!(Copying::parse("half a fil"), None);
    }
}
