//! Runs a real systemd in separate namespaces, for nodes that are units.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Time limit for starting and stopping.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts systemd in its own process, mount and cgroup namespaces. It sees the machine's files and
/// network, but none of its units.
///
/// `$1` is the cgroup to create. `$2` is the cgroup version: `v2`, or `v1` with systemd's own
/// hierarchy.
const BEGIN: &str = r#"
set -e
mkdir "$1"
echo $$ >"$1/cgroup.procs"
exec unshare --pid --fork --kill-child --mount --propagation private --ipc --uts --cgroup --mount-proc sh -c '
set -e
if [ "$0" = v2 ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
fi
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=755 units /etc/systemd/system
mkdir -p /run/systemd/system
if [ -e /etc/machine-id ]; then
    echo 0123456789abcdef0123456789abcdef >/run/machine-id
    mount --bind /run/machine-id /etc/machine-id
fi
printf "[Unit]\nDefaultDependencies=no\n" >/run/systemd/system/nothing.target
container=refloat
export container
exec /lib/systemd/systemd --system --unit=nothing.target --log-target=console --show-status=no
' "$2"
"#;

/// A separate systemd. Dropping it ends everything that it runs.
pub struct Systemd {
    child: Child,
    init: u32,
    group: PathBuf,
    folder: tempfile::TempDir,
}

impl Systemd {
    /// Starts a systemd without units.
    ///
    /// # Panics
    /// If it does not start. It needs root, the systemd package and cgroups.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder for systemd");
        let root = Path::new("/sys/fs/cgroup");
        let (hierarchy, version) = if root.join("cgroup.procs").exists() {
            (root.to_owned(), "v2")
        } else {
            (root.join("systemd"), "v1")
        };
        let name = folder.path().file_name().expect("a name").to_string_lossy();
        let group = hierarchy.join(format!("refloat{}", name.replace('.', "-")));
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        let child = Command::new("sh")
            .args(["-c", BEGIN, "sh"])
            .arg(&group)
            .arg(version)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("a shell");
        let mut systemd = Self {
            child,
            init: 0,
            group,
            folder,
        };
        let begun = Instant::now();
        while !systemd.is_up() {
            assert!(
                begun.elapsed() < PATIENCE,
                "systemd does not start: {}",
                systemd.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let journal = systemd.systemctl(["start", "systemd-journald.service"]);
        assert!(journal.status.success(), "{journal:?}: {}", systemd.log());
        systemd
    }

    fn is_up(&mut self) -> bool {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let first = children.unwrap_or_default();
        let Some(init) = first.split_whitespace().next() else {
            return false;
        };
        self.init = init.parse().expect("a process");
        let state = self.systemctl(["is-system-running"]);
        let state = String::from_utf8_lossy(&state.stdout).into_owned();
        ["running", "degraded"].contains(&state.trim())
    }

    /// A command that runs in the namespaces of the units, where `systemctl` reaches this systemd.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.init.to_string(), "--mount", "--pid", "--"])
            .arg(program);
        command
    }

    /// Runs `systemctl` and returns its output.
    ///
    /// # Panics
    /// If `systemctl` cannot be run.
    pub fn systemctl<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Output {
        let output = self.command("systemctl").args(args).output();
        output.expect("systemctl can be run")
    }

    /// Creates a unit.
    ///
    /// # Errors
    /// The unit file cannot be written.
    ///
    /// # Panics
    /// If systemd does not accept it.
    pub fn unit(&self, name: &str, text: &str) -> io::Result<()> {
        let here = self.folder.path().join(name);
        fs::write(&here, text)?;
        let status = self
            .command("cp")
            .arg(here)
            .arg("/run/systemd/system/")
            .status()?;
        assert!(status.success(), "a unit cannot be written");
        let output = self.systemctl(["daemon-reload"]);
        assert!(output.status.success(), "{output:?}: {}", self.log());
        Ok(())
    }

    /// The log of this systemd so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // When the first process of a PID namespace ends, all others do.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let begun = Instant::now();
        while !remove_cgroup(&self.group) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Removes a cgroup and those within it. Returns whether it is gone.
fn remove_cgroup(group: &Path) -> bool {
    let inner = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_cgroup(&entry.path());
    }
    let _ = fs::remove_dir(group);
    !group.exists()
}
