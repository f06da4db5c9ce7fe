//! Servers that go away with the process that started them.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};

use crate::{Error, Instance, Result};

/// Waits until its standard input ends, which is when the process that holds the other end is gone, then kills
/// what was started with the data directory and deletes the instance. Argument: the instance's folder.
///
/// The pattern goes in by a pipe: as an argument it would find the search itself. The folder is renamed first, so
/// that nobody finds half of it.
const GUARD: &str = r#"
read -r _
for line in $(printf '%s' "--datadir=$1/data" | grep -lzxF -f - /proc/[0-9]*/cmdline 2>/dev/null); do
    pid=${line#/proc/}
    kill -9 "${pid%/cmdline}"
done
removed="${1%/*}/.removed-$$-${1##*/}"
mv -T -- "$1" "$removed" && rm -rf -- "$removed"
"#;

/// An instance that is removed when the value is dropped, and also when this process ends in any way, even by
/// SIGKILL and with the value in a `static`: a guard process waits for that.
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

    /// Removes the instance now, and says so if it cannot.
    pub fn remove(mut self) -> Result<()> {
        self.remove_once()
    }

    fn remove_once(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.removed, true) {
            return Ok(());
        }
        let done = match self.instance.clone().remove() {
            // Somebody else removed it already.
            Err(Error::NoSuchInstance { .. }) => Ok(()),
            other => other,
        };
        if done.is_ok() {
            // The guard's work is done. When it failed the guard tries again, at the end of its input.
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
