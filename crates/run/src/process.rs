//! Identifies the process of a run and tells whether it is still alive.

use serde::{Deserialize, Serialize};

/// A process of one host and boot, so that a reused process id is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot (field 22 of `/proc/PID/stat`); 0 if
    /// unknown.
    pub pid_start: u64,
    /// The boot that both belong to (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Name of the host, which [`Owner::alive`] compares.
    pub host: String,
    /// Id of the machine (`/etc/machine-id`), because two machines may have the same name. `None`
    /// where there is none, as in many containers.
    pub machine: Option<String>,
}

impl Owner {
    /// The current process.
    pub fn this() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            pid_start: start_of(pid).unwrap_or(0),
            boot_id: boot_id(),
            host: rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
            machine: machine_id(),
        }
    }

    /// Whether the process is still running. `None` if it ran on another host or in another
    /// container, where that cannot be seen.
    pub fn alive(&self) -> Option<bool> {
        let here = rustix::system::uname().nodename().to_string_lossy() == self.host.as_str();
        if self.boot_id != boot_id() {
            // Same host after a reboot: nothing from before is alive. Another host, even of the
            // same name: unknown.
            let machines = self.machine.as_ref().zip(machine_id());
            let same = here && machines.is_none_or(|(theirs, ours)| *theirs == ours);
            return same.then_some(false);
        }
        if !here {
            return None;
        }
        Some(start_of(self.pid).is_some_and(|start| self.pid_start == 0 || start == self.pid_start))
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|t| t.trim().to_owned())
        .unwrap_or_default()
}

fn machine_id() -> Option<String> {
    let text = std::fs::read_to_string("/etc/machine-id").ok()?;
    let id = text.trim();
    // systemd writes a word there until it has generated an id.
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// Start time of a process; `None` if it does not exist or is a zombie.
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = after_name(&stat)?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // Field 22; the state is field 3.
    fields.nth(18)?.parse().ok()
}

/// What follows the name in parentheses, which may itself contain spaces and parentheses.
pub(crate) fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_others_do_not() {
        let mut owner = Owner::this();
        assert_eq!(owner.alive(), Some(true));
        owner.pid_start += 1;
        assert_eq!(
            owner.alive(),
            Some(false),
            "the same number, another process"
        );
        owner.pid_start -= 1;
        owner.boot_id = "another".into();
        assert_eq!(owner.alive(), Some(false));
        // Another machine of the same name, about which nothing is known. If one side has no id,
        // the name decides.
        let ours = owner.machine.replace("0".repeat(32));
        assert_eq!(owner.alive(), ours.is_none().then_some(false));
        owner.machine = None;
        assert_eq!(owner.alive(), Some(false));
        owner.host = "elsewhere".into();
        assert_eq!(owner.alive(), None);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut owner = Owner::this();
        owner.pid = child.id();
        owner.pid_start = start_of(child.id()).unwrap();
        assert_eq!(owner.alive(), Some(true));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(owner.alive(), Some(false));
    }
}
