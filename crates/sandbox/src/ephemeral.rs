//! Servers that are removed when the process that started them ends.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};

use crate::{Error, Instance, Result};

/// A guard script. It waits for end-of-file on standard input, which comes when the process at the
/// other end is gone. It then kills every process started with the data directory, and deletes the
/// instance. Argument: the instance's directory.
///
/// The pattern is passed through a pipe: as an argument it would make the search match itself. The
/// directory is renamed first, so that nobody sees it half deleted.
const GUARD: &str = r#"
read -r _
for line in $(printf '%s' "--datadir=$1/data" | grep -lzxF -f - /proc/[0-9]*/cmdline 2>/dev/null); do
    pid=${line#/proc/}
    kill -9 "${pid%/cmdline}"
done
removed="${1%/*}/.removed-$$-${1##*/}"
mv -T -- "$1" "$removed" && rm -rf -- "$removed"
"#;

/// An instance that is removed when the value is dropped. It is also removed when this process ends
/// in any other way, even by SIGKILL or with the value in a `static`: a guard process waits for
/// that.
#[derive(Debug)]
pub struct Ephemeral {
    instance: Instance,
    guard: Child,
    removed: bool,
}

impl Ephemeral {
    pub(crate) fn guard(instance: Instance) -> Result<Self> {
        let guard = Command::new("setsid")
            .args(["sh", "-c", GUARD, "sh"])
            .arg(instance.folder())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match guard {
            Ok(guard) => Ok(Self {
                instance,
                guard,
                removed: false,
            }),
            Err(error) => {
                let _ = instance.remove();
                Err(Error::Helper {
                    program: "setsid".to_owned(),
                    reason: error.to_string(),
                })
            }
        }
    }

    /// Removes the instance now, and reports an error if that fails.
    pub fn remove(mut self) -> Result<()> {
        self.remove_once()
    }

    fn remove_once(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.removed, true) {
            return Ok(());
        }
        let done = match self.instance.clone().remove() {
            // Already removed by another process.
            Err(Error::NoSuchInstance { .. }) => Ok(()),
            other => other,
        };
        if done.is_ok() {
            // The guard is no longer needed. If the removal failed, the guard retries it at the end
            // of its input.
            let _ = self.guard.kill();
        }
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        done
    }
}

impl Deref for Ephemeral {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}

impl DerefMut for Ephemeral {
    fn deref_mut(&mut self) -> &mut Instance {
        &mut self.instance
    }
}

impl Drop for Ephemeral {
    fn drop(&mut self) {
        let _ = self.remove_once();
    }
}
