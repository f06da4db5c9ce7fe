//! Runs a real sshd on this machine, for tests of anything that uses ssh.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::systemd::Systemd;

const SSHD: &str = "/usr/sbin/sshd";
/// Privilege separation directory. Without it, sshd does not start as root.
const EMPTY_FOLDER: &str = "/run/sshd";
/// Time limit for starting.
const PATIENCE: Duration = Duration::from_secs(20);

/// An sshd that makes this machine reachable under any host name. Dropping it stops it.
///
/// SFTP starts in [`SshServer::home`], and is all that [`SshServer::SFTP_ONLY`] may do.
pub struct SshServer {
    /// `None` if it is a systemd unit, which ends with that systemd.
    child: Option<Child>,
    port: u16,
    folder: tempfile::TempDir,
}

impl SshServer {
    /// A host name whose key does not match.
    pub const STRANGER: &str = "stranger";
    /// A host name for which the client's key is one that no account accepts.
    pub const NOT_LET_IN: &str = "not-let-in";
    /// A user without a shell.
    pub const SFTP_ONLY: &str = "nobody";

    /// Starts an sshd on a free port, with new keys.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start() -> Self {
        let mut server = Self::prepared();
        let _ = fs::create_dir_all(EMPTY_FOLDER);
        let log = fs::File::create(server.path("log")).expect("a log");
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(server.path("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("sshd starts; scripts/install-servers tools installs it");
        server.child = Some(child);
        server.is_reached();
        server
    }

    /// Starts one as a unit of this systemd. Its logins become units there too.
    ///
    /// # Panics
    /// If it does not start.
    pub fn as_unit_of(systemd: &Systemd) -> Self {
        let server = Self::prepared();
        let unit = format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nRuntimeDirectory=sshd\nStandardError=file:{}\nExecStart={SSHD} -D -e -f {}\n",
            server.path("log").display(),
            server.path("sshd_config").display()
        );
        systemd.unit("machine.service", &unit).expect("a unit");
        let begun = systemd.systemctl(["start", "machine.service"]);
        assert!(begun.status.success(), "{begun:?}: {}", systemd.log());
        server.is_reached();
        server
    }

    /// Creates keys and configuration, and picks a port.
    fn prepared() -> Self {
        let folder = tempfile::tempdir().expect("a folder for sshd");
        // Other users must be able to reach what they may read.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).expect("a mode");
        let path = |name: &str| folder.path().join(name);
        for key in ["host", "client", "other"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(path(key))
                .status();
            assert!(
                made.is_ok_and(|status| status.success()),
                "ssh-keygen does not work; scripts/install-servers tools installs it"
            );
        }
        let port = {
            let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
            free.local_addr().expect("a port").port()
        };
        let write = |name: &str, text: String| fs::write(path(name), text).expect("a file");
        // Login scripts of the real home folder may take longer than the operation under test.
        let home = path("home");
        fs::create_dir(&home).expect("a folder");
        write(
            "sshd_config",
            format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
                 PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\nMaxSessions 100\n\
                 SetEnv HOME={}\nSubsystem sftp internal-sftp -d {}\nMatch User {}\n  ForceCommand internal-sftp -d {}\n",
                path("host").display(),
                path("client.pub").display(),
                home.display(),
                home.display(),
                Self::SFTP_ONLY,
                home.display()
            ),
        );
        let key = |name: &str| fs::read_to_string(path(name)).expect("a key");
        write(
            "known",
            format!(
                "here {}{} {}",
                key("host.pub"),
                Self::STRANGER,
                key("other.pub")
            ),
        );
        // Tests open hundreds of connections, and the key exchange that OpenSSH prefers takes both
        // ends 0.15 seconds of a core.
        write(
            "ssh_config",
            format!(
                "Host {}\n  HostKeyAlias {}\nHost {}\n  IdentityFile {}\nHost * !{}\n  IdentityFile {}\nHost *\n  HostKeyAlias here\n  \
                 HostName 127.0.0.1\n  Port {port}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  \
                 StrictHostKeyChecking yes\n  KexAlgorithms curve25519-sha256\n",
                Self::STRANGER,
                Self::STRANGER,
                Self::NOT_LET_IN,
                path("other").display(),
                Self::NOT_LET_IN,
                path("client").display(),
                path("known").display()
            ),
        );
        let bin = path("bin");
        fs::create_dir(&bin).expect("a folder");
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n",
            path("ssh_config").display()
        );
        write("bin/ssh", script);
        fs::set_permissions(path("bin/ssh"), fs::Permissions::from_mode(0o755)).expect("a mode");
        let child = None;
        Self {
            child,
            port,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn is_reached(&self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "sshd: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Folder with an `ssh` that connects here. Put it first in `PATH`: it runs the real ssh with
    /// suitable options.
    pub fn bin(&self) -> PathBuf {
        self.path("bin")
    }

    /// The port where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder where sessions start.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// Processes of its sessions. Empty if it is a systemd unit.
    pub fn sessions(&self) -> Vec<Pid> {
        let Some(child) = &self.child else {
            return Vec::new();
        };
        let of = |process: fs::DirEntry| {
            let pid: i32 = process.file_name().to_str()?.parse().ok()?;
            // The name, in parentheses, may contain anything.
            let stat = fs::read_to_string(process.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?;
            Some((pid, parent.parse::<i32>().ok()?))
        };
        let processes = fs::read_dir("/proc").expect("processes");
        let parents: Vec<(i32, i32)> = processes.flatten().filter_map(of).collect();
        let mut found = vec![child.id().cast_signed()];
        let mut at = 0;
        while let Some(&parent) = found.get(at) {
            found.extend(parents.iter().filter(|it| it.1 == parent).map(|it| it.0));
            at += 1;
        }
        found
            .into_iter()
            .skip(1)
            .filter_map(Pid::from_raw)
            .collect()
    }

    /// Sends a signal to all sessions: `KILL` cuts them, `STOP` makes them fall silent.
    pub fn signal_sessions(&self, signal: Signal) {
        for session in self.sessions() {
            // It may have ended in between.
            let _ = kill_process(session, signal);
        }
    }

    /// The log of this sshd so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        // Sessions are separate processes, which end with their commands, unless they are stopped.
        self.signal_sessions(Signal::KILL);
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
