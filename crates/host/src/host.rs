//! The machine that a node runs on: this one, or one reached by `ssh`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{HostError, plain};

/// Time limit of a query of a machine.
const LOOK: Duration = Duration::from_secs(120);

/// `ssh` must never prompt for a password or a key, and give up within seconds on a machine that
/// does not answer.
pub(crate) const SSH_OPTIONS: [&str; 4] = [
    "-oBatchMode=yes",
    "-oConnectTimeout=5",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=2",
];
/// The same for a program that works for hours: it survives a minute without the network. If an
/// option is given twice, `ssh` uses the first.
const PATIENT: [&str; 2] = ["-oServerAliveInterval=15", "-oServerAliveCountMax=4"];
/// Stands for the option files that a server reads by default in messages.
const OPTION_FILES: &str = "the option files";
/// Exit status for a missing file. `cat` does not use it.
const NO_FILE: i32 = 66;

/// A machine that commands are run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// This machine, without `ssh`.
    Local,
    /// Another machine, by the name that `ssh` takes.
    Ssh(String),
}

impl Host {
    /// Its name in messages.
    pub fn name(&self) -> &str {
        match self {
            Self::Local => "this machine",
            Self::Ssh(name) => name,
        }
    }

    /// Reads a small text file. `None`: there is no such file.
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
            Self::Ssh(_) => {
                let path = Self::word(&path.to_string_lossy());
                let output = self.run(&format!(
                    "test -e {path} || exit {NO_FILE}; exec cat {path}"
                ))?;
                match output.status.code() {
                    Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
                    Some(NO_FILE) => Ok(None),
                    _ => Err(failed(last_line(&output.stderr))),
                }
            }
        }
    }

    /// The TCP ports with visible listeners.
    pub fn listening(&self) -> BTreeSet<u16> {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let texts = tables.map(|path| self.read(Path::new(path)).ok().flatten());
        texts
            .iter()
            .flatten()
            .flat_map(|text| listening(text))
            .collect()
    }

    /// Free bytes on the file system of this folder. `None`: unknown.
    pub fn disk_free(&self, folder: &Path) -> Option<u64> {
        let folder = Self::word(&folder.to_string_lossy());
        let output = self.run(&format!("df -Pk -- {folder}")).ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let kib: u64 = text
            .lines()
            .nth(1)?
            .split_ascii_whitespace()
            .nth(3)?
            .parse()
            .ok()?;
        kib.checked_mul(1024)
    }

    /// A path that the machine's option files set for the server with this option, written with
    /// dashes. Reads `only` this file, or else those that a server reads by default. `None`: they
    /// do not set it.
    ///
    /// # Errors
    /// [`HostError`]: they cannot be read, or the machine cannot be reached.
    pub fn option(&self, name: &str, only: Option<&Path>) -> Result<Option<PathBuf>, HostError> {
        let either = name.replace('-', "[-_]");
        let file = only.map_or_else(String::new, |file| {
            Self::word(&format!("--defaults-file={}", file.display()))
        });
        let script = format!(
            "PATH=$PATH:/usr/sbin:/usr/local/bin; command -v my_print_defaults >/dev/null || {{ echo 'there is no my_print_defaults' >&2; exit 1; }}\n\
             options=$(my_print_defaults {file} --mysqld 2>/dev/null || my_print_defaults {file} mysqld server) || exit 1\n\
             printf '%s\\n' \"$options\" | sed -n 's/^--{either}=//p' | tail -n 1"
        );
        let value = self.look(&script, only.unwrap_or(Path::new(OPTION_FILES)))?;
        let value = value.trim_end_matches('\n');
        Ok((!value.is_empty()).then(|| PathBuf::from(value)))
    }

    /// The names in a folder, including hidden ones. `None`: it cannot be read.
    pub fn names(&self, folder: &Path) -> Option<Vec<String>> {
        let folder = Self::word(&folder.to_string_lossy());
        let output = self.run(&format!("ls -A -- {folder}/")).ok()?;
        let names = String::from_utf8_lossy(&output.stdout);
        let names = names.lines().map(str::to_owned).collect();
        output.status.success().then_some(names)
    }

    /// Runs a read-only script with `sh` and no input. Ctrl-C in a terminal does not end it.
    ///
    /// # Errors
    /// [`HostError::Spawn`]: the shell, or `ssh`, could not be started. [`HostError::Slow`]: it did
    /// not end in time, and was killed. A failure of the script itself shows in its output.
    pub fn run(&self, script: &str) -> Result<Output, HostError> {
        self.run_for(script, LOOK)
    }

    /// Runs a script that may leave a server behind, for no longer than `limit`. Its output goes to
    /// files: a server in the background keeps its output open for as long as it runs, and the
    /// caller must not wait for that.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub fn run_apart(&self, script: &str, limit: Duration) -> Result<Output, HostError> {
        let script = Self::word(script);
        self.run_for(
            &format!(
                "out=$(mktemp) && err=$(mktemp) || exit 1; sh -c {script} >\"$out\" 2>\"$err\"; code=$?; \
                 cat \"$out\"; cat \"$err\" >&2; rm -f \"$out\" \"$err\"; exit \"$code\""
            ),
            limit,
        )
    }

    /// Like [`Host::run`], with a different time limit.
    ///
    /// # Errors
    /// As [`Host::run`].
    pub fn run_for(&self, script: &str, limit: Duration) -> Result<Output, HostError> {
        let (program, mut command) = self.shell(script);
        let failed = |source| HostError::Spawn {
            program: program.to_owned(),
            source,
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            // After the time limit, nothing receives it.
            let _ = sender.send(child.wait_with_output());
        });
        if let Ok(output) = output.recv_timeout(limit) {
            return output.map_err(failed);
        }
        if let Some(group) = group {
            // It may have ended in between.
            let _ = kill_process_group(group, Signal::KILL);
        }
        Err(HostError::Slow {
            host: self.name().to_owned(),
            seconds: limit.as_secs(),
        })
    }

    /// A command that runs a script there, and its name for messages. Standard input and output are
    /// the script's, so data can stream through them.
    pub fn shell(&self, script: &str) -> (&'static str, Command) {
        self.shell_with(&[], script)
    }

    /// Like [`Self::shell`], for a program that works for hours: it survives up to a minute without
    /// the network.
    pub fn long_shell(&self, script: &str) -> Command {
        self.shell_with(&PATIENT, script).1
    }

    /// Like [`Self::long_shell`], and ssh forwards connections to a port on the other machine to
    /// `here`. It reports the port on standard error: see [`forwarded_port`]. `None`: this is the
    /// local machine.
    pub fn forwarding_shell(&self, script: &str, here: SocketAddr) -> Option<Command> {
        let forward = format!("127.0.0.1:0:{here}");
        // With a shared connection, its master process would report the port.
        let options = [
            "-oControlPath=none",
            "-oExitOnForwardFailure=yes",
            "-oLogLevel=INFO",
            "-R",
            forward.as_str(),
        ];
        let options = [&PATIENT[..], &options].concat();
        match self {
            Self::Local => None,
            Self::Ssh(_) => Some(self.shell_with(&options, script).1),
        }
    }

    fn shell_with(&self, options: &[&str], script: &str) -> (&'static str, Command) {
        match self {
            Self::Local => {
                let mut command = Command::new("sh");
                command.args(["-c", script]);
                ("sh", command)
            }
            Self::Ssh(name) => {
                let mut command = Command::new("ssh");
                // The remote account may have any shell.
                command.args(options).args(SSH_OPTIONS).args([
                    "--",
                    name,
                    &format!("exec sh -c {}", Self::word(script)),
                ]);
                ("ssh", command)
            }
        }
    }

    /// Quotes a text as one word for a shell.
    pub fn word(text: &str) -> String {
        format!("'{}'", text.replace('\'', r"'\''"))
    }

    /// The script that runs `refloat serve-host` there, with these words behind it. The search path
    /// of a shell that is not for people often lacks `/usr/local/bin`.
    pub fn serve_host(program: &Path, words: &str) -> String {
        let program = Self::word(&program.to_string_lossy());
        format!("PATH=$PATH:/usr/local/bin; exec {program} serve-host {words}")
    }
}

/// The forwarded port of the other machine, from the line in which ssh reports it
/// (`client_loop.c`).
pub fn forwarded_port(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("Allocated port ")?;
    rest.split_once(' ')?.0.parse().ok()
}

/// The last line of a failed program's output. For an unknown host key, `ssh` prints a page whose
/// last line says what is wrong.
pub fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let mut lines = text.lines().rev();
    plain(
        lines
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it says nothing"),
    )
}

/// Ports that something listens on, from the kernel's socket table (`proc(5)`: `/proc/net/tcp`).
pub fn listening(table: &str) -> impl Iterator<Item = u16> {
    const LISTEN: &str = "0A";
    table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (_, port) = local.rsplit_once(':')?;
        (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_waits_a_minute_for_what_works_for_hours() {
        let host = Host::Ssh("db1".to_owned());
        let place = |command: &Command, option: &str| {
            let mut words = command.get_args();
            words.position(|word| word.to_string_lossy().contains(option))
        };
        let (short, long) = (host.shell("true").1, host.long_shell("true"));
        assert_eq!(place(&short, "Interval=15"), None);
        assert!(place(&long, "Interval=15") < place(&long, "Interval=5"));
        assert!(place(&long, "CountMax=4") < place(&long, "CountMax=2"));
    }

    #[test]
    fn ports_at_which_something_listens_are_seen() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        // A connection has a port too, but does not listen on it.
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let client_port = client.local_addr().unwrap().port();
        let ports = Host::Local.listening();
        assert!(
            ports.contains(&port) && !ports.contains(&client_port),
            "{ports:?}"
        );
        let server6 = std::net::TcpListener::bind("[::1]:0");
        if let Ok(server6) = server6 {
            let port = server6.local_addr().unwrap().port();
            assert!(Host::Local.listening().contains(&port));
        }
    }

    #[test]
    fn a_script_that_does_not_end_is_killed() {
        let begun = std::time::Instant::now();
        let error = Host::Local
            .run_for("sleep 30 & wait", Duration::from_millis(200))
            .unwrap_err();
        assert!(
            error.to_string().contains("did not finish within"),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn nobody_waits_for_what_a_script_leaves_running() {
        let begun = std::time::Instant::now();
        let output = Host::Local
            .run_apart(
                "echo said; echo sorry >&2; sleep 20 & exit 3",
                Duration::MAX,
            )
            .unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout, b"said\n");
        assert_eq!(output.stderr, b"sorry\n");
        let quoted = Host::Local
            .run_apart("printf %s \"it's\"", Duration::MAX)
            .unwrap();
        assert_eq!(quoted.stdout, b"it's");
    }

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
        assert_eq!(
            Host::Local.names(folder.path()),
            Some(vec!["grastate.dat".to_owned()])
        );
        assert_eq!(Host::Local.names(&path), None);
    }

    #[test]
    fn an_option_is_looked_up_in_the_only_file_that_the_server_reads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it's my.cnf");
        std::fs::write(&file, "[mysqld]\ndatadir=/srv/a\nlog_error=b.err\n").unwrap();
        let option = |name: &str| Host::Local.option(name, Some(&file)).unwrap();
        assert_eq!(option("datadir"), Some("/srv/a".into()));
        assert_eq!(option("log-error"), Some("b.err".into()));
        assert_eq!(option("tmpdir"), None);
        let missing = folder.path().join("no.cnf");
        let error = Host::Local.option("datadir", Some(&missing)).unwrap_err();
        assert!(error.to_string().contains("no.cnf"), "{error}");
    }

    #[test]
    fn words_for_a_shell() {
        let words = "it's; rm -rf $HOME `x` \"y\"";
        let output = Command::new("sh")
            .args(["-c", &format!("printf %s {}", Host::word(words))])
            .output()
            .unwrap();
        assert_eq!(output.stdout, words.as_bytes());
    }
}
