//! Small files on a machine, and scripts that change something about them.

use std::path::Path;
use std::time::Duration;

use crate::error::{HostError, plain};
use crate::host::Host;

/// How long a script may take. Adding up the size of a data directory with very many files takes
/// minutes.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Exit status of a script that refuses a change because of a running server. Its error text is
/// then only the server's process.
pub(crate) const SERVER_RUNS: i32 = 67;

impl Host {
    /// Writes a small file atomically, readable by its owner only. If its folder belongs to a
    /// server's account, that account may have put a link in its place: links are not followed.
    ///
    /// # Errors
    /// [`HostError`]: it cannot be written, or the machine cannot be reached.
    pub fn put(&self, path: &Path, text: &str) -> Result<(), HostError> {
        let script = format!(
            "umask 077; set -C; file={}; rm -f -- \"$file.new\"\n\
             printf '%s\\n' {} >\"$file.new\"; sync -- \"$file.new\"; mv -fT -- \"$file.new\" \"$file\"; sync -- \"${{file%/*}}/\"",
            word(path),
            Self::word(text)
        );
        self.change(&script, path, path.parent().unwrap_or(path))
            .map(drop)
    }

    /// Removes a file. It is no error if there is none.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn remove(&self, path: &Path) -> Result<(), HostError> {
        self.look(&format!("rm -f -- {}", word(path)), path)
            .map(drop)
    }

    /// Whether something with this name exists.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn exists(&self, path: &Path) -> Result<bool, HostError> {
        let script = format!("[ ! -e {} ] || echo yes", word(path));
        Ok(!self.look(&script, path)?.trim().is_empty())
    }

    /// Runs a script that changes something about `path`, up to the first command that fails, and
    /// returns its output. Its exit status is [`SERVER_RUNS`] if a server is in the way. A shell
    /// outlives a parent that is killed, so the next script waits for it, with a lock on `folder`.
    pub(crate) fn change(
        &self,
        script: &str,
        path: &Path,
        folder: &Path,
    ) -> Result<String, HostError> {
        let script = format!(
            "set -e; lock={}\n\
             if [ -r \"$lock\" ] && command -v flock >/dev/null; then exec 9<\"$lock\"; flock 9; fi\n{script}",
            word(folder)
        );
        let output = self.run_for(&script, PATIENCE)?;
        let (host, stderr) = (self.name().to_owned(), || {
            plain(&String::from_utf8_lossy(&output.stderr))
        });
        match output.status.code() {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            Some(SERVER_RUNS) => Err(HostError::ServerRuns {
                folder: path.to_owned(),
                host,
                process: stderr(),
            }),
            _ => Err(HostError::Change {
                path: path.to_owned(),
                host,
                reason: stderr(),
            }),
        }
    }

    /// Runs a script about `path`, and returns its output.
    pub(crate) fn look(&self, script: &str, path: &Path) -> Result<String, HostError> {
        let output = self.run_for(script, PATIENCE)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(HostError::Read {
            path: path.to_owned(),
            host: self.name().to_owned(),
            reason: plain(&String::from_utf8_lossy(&output.stderr)),
        })
    }
}

/// A path as one word for a shell.
pub fn word(path: &Path) -> String {
    Host::word(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_not_written_to_where_a_link_leads() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        for name in ["data", "elsewhere"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("outside"), "as it was").unwrap();
        symlink(path("outside"), path("data/claim.json.new")).unwrap();
        symlink(path("elsewhere"), path("data/claim.json")).unwrap();
        Host::Local.put(&path("data/claim.json"), "new").unwrap();
        assert_eq!(fs::read(path("data/claim.json")).unwrap(), b"new\n");
        assert_eq!(fs::read(path("outside")).unwrap(), b"as it was");
        assert_eq!(fs::read_dir(path("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn a_shell_that_outlived_its_program_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("claim.json");
        let mut outlived = std::process::Command::new("flock")
            .arg(folder.path())
            .args(["sh", "-c", "sleep 1; echo old >claim.json"])
            .current_dir(folder.path())
            .spawn()
            .unwrap();
        let holds = || {
            let mut other = std::process::Command::new("flock");
            let free = other.arg("-n").arg(folder.path()).arg("true").status();
            !free.unwrap().success()
        };
        while !holds() {
            std::thread::yield_now();
        }
        Host::Local.put(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new\n");
        outlived.wait().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new\n");
    }
}
