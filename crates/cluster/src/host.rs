//! The machine that a node runs on: this one, or one that `ssh` leads to.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::HostError;

/// Nobody is asked for a password or about a key, and a machine that does not answer is given up after as many seconds.
const SSH_OPTIONS: [&str; 4] = [
    "-oBatchMode=yes",
    "-oConnectTimeout=5",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=2",
];
/// What `cat` is followed by when there is no such file: no exit status of its own.
const NO_FILE: i32 = 66;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// This one.
    Local,
    /// Another one, by the name that `ssh` takes.
    Ssh(String),
}

impl Host {
    /// What it is called in messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Local => "this machine",
            Self::Ssh(name) => name,
        }
    }

    /// The text of a small file. `None`: there is none.
    ///
    /// # Errors
    /// [`HostError`]: it cannot be read, or the machine cannot be reached.
    pub fn read(&self, path: &Path) -> Result<Option<String>, HostError> {
        let failed = |reason: String| HostError::Read {
            path: path.to_owned(),
            host: self.name().to_owned(),
            reason,
        };
        match self {
            Self::Local => match std::fs::read_to_string(path) {
                Ok(text) => Ok(Some(text)),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(failed(error.to_string())),
            },
            Self::Ssh(name) => {
                let path = quoted(&path.to_string_lossy());
                let script = format!("test -e {path} || exit {NO_FILE}; exec cat {path}");
                let output = Command::new("ssh")
                    .args(SSH_OPTIONS)
                    .args(["--", name, &script])
                    .stdin(Stdio::null())
                    .output()
                    .map_err(|source| HostError::Spawn {
                        program: "ssh".to_owned(),
                        source,
                    })?;
                match output.status.code() {
                    Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
                    Some(NO_FILE) => Ok(None),
                    _ => Err(failed(
                        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                    )),
                }
            }
        }
    }
}

/// One word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grastate.dat");
        assert_eq!(Host::Local.read(&path).unwrap(), None);
        std::fs::write(&path, "seqno: 1").unwrap();
        assert_eq!(
            Host::Local.read(&path).unwrap().as_deref(),
            Some("seqno: 1")
        );
        assert!(Host::Local.read(folder.path()).is_err());
    }

    #[test]
    fn words_for_a_shell() {
        let words = "it's; rm -rf $HOME `x` \"y\"";
        let output = Command::new("sh")
            .args(["-c", &format!("printf %s {}", quoted(words))])
            .output()
            .unwrap();
        assert_eq!(output.stdout, words.as_bytes());
    }
}
