//! How far a state transfer by refloat is: it writes that into the data directory.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::error::HostError;
use crate::host::Host;

/// A state transfer (SST) under way, at one of its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copying {
    /// The process that does it.
    pub process: u32,
    /// `joiner` or `donor`.
    pub role: String,
    /// What is being done.
    pub step: String,
    /// Bytes of files so far.
    pub bytes: u64,
    /// Bytes of files in all, roughly, if known.
    pub total: Option<u64>,
}

impl Copying {
    /// The file in the data directory.
    pub const FILE: &'static str = ".refloat-sst";

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

    /// Reads the text of the file. `None`: it is not one.
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

    /// The transfer into or out of a data directory. `None`: refloat does none there now.
    ///
    /// # Errors
    /// [`HostError`]: the machine cannot be reached, or says why not.
    pub fn look(host: &Host, datadir: &Path) -> Result<Option<Self>, HostError> {
        let Some(text) = host.read(&datadir.join(Self::FILE))? else {
            return Ok(None);
        };
        let Some(found) = Self::parse(&text) else {
            return Ok(None);
        };
        // One that was killed leaves its file behind.
        let script = format!("grep -qa wsrep_sst_ /proc/{}/cmdline", found.process);
        let runs = host.run(&script)?.status.success();
        Ok(runs.then_some(found))
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
        // This process is none of a server's.
        let own = Copying {
            process: std::process::id(),
            total: None,
            ..copying
        };
        std::fs::write(folder.path().join(Copying::FILE), own.to_text()).unwrap();
        assert_eq!(look(), None);
        assert_eq!(Copying::parse("half a fil"), None);
    }
}
