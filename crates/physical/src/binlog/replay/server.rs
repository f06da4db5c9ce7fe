//! A server that works on the files of a restore and that nobody else can reach.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use refloat_host::{Host, plain};
use refloat_run::Cancel;
use refloat_run::cancel::HookGuard;
use refloat_wire::{ConnectOptions, Connection};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::about::About;
use crate::binlog::replay::programs::Programs;
use crate::error::PhysicalError;
use crate::files::FOLDER_MODE;
use crate::folder::Building;
use crate::held::{Held, Recipient, open_file};
use crate::own_folder::OwnFolder;
use crate::server::MEANT;

/// The prefix of its own folders.
const PREFIX: &str = "refloat-replay-";
/// Scratch folder within the data directory that it works on.
const SCRATCH: &str = ".refloat-replay";
const POLL: Duration = Duration::from_millis(50);

/// A server that works on the files of a restore. It ends with this process, or when it is dropped.
pub struct Private {
    child: Child,
    name: String,
    /// Its socket and its log: the path of a socket must be short.
    folder: OwnFolder,
    /// The scratch folder, within the data directory: what a killed run leaves there disappears
    /// with the next run.
    scratch: PathBuf,
    /// The same, open.
    made: Held,
    _hook: HookGuard,
}

impl Private {
    /// Starts it, and waits until it answers.
    pub fn start(
        programs: &Programs,
        (building, about): (&Building, &About),
        (owner, memory): (Option<(u32, u32)>, u64),
        cancel: &Cancel,
    ) -> Result<Self, PhysicalError> {
        let above = tempfile::env::temp_dir();
        OwnFolder::remove_left(&above, PREFIX);
        let folder = OwnFolder::begin(&above, PREFIX)?;
        let path = folder.path();
        let name = programs.server.display().to_string();
        let failed = |error: std::io::Error| PhysicalError::Tool {
            tool: name.clone(),
            what: "could not be started".to_owned(),
            reason: error.to_string(),
        };
        let to = Recipient { owner, label: None };
        let give = |held: &Held, path: &Path| {
            let giving = PhysicalError::file(path, "giving it to the server's account");
            held.give(FOLDER_MODE, &to).map_err(giving)
        };
        let above = Held::open(path).map_err(PhysicalError::file(path, "opening the folder"))?;
        let log = above.make_file(OsStr::new("log")).map_err(failed)?;
        give(&above, path)?;
        let scratch = building.path().join(SCRATCH);
        let made = building.held().make_folder(OsStr::new(SCRATCH));
        let made = made.map_err(PhysicalError::file(&scratch, "making the folder"))?;
        give(&made, &scratch)?;
        let words: Vec<String> = options(programs, about, (building.path(), path), memory)
            .iter()
            .map(|word| Host::word(word))
            .collect();
        // It does not outlive this process: when that ends, so does the standard input of `cat`.
        let script = format!(
            "exec 3<&0\n{} {} </dev/null 3<&- & pid=$!\n\
             {{ cat <&3 >/dev/null; kill -KILL $pid; }} 2>/dev/null & watch=$!\n\
             exec 3<&-; wait $pid; code=$?; kill $watch 2>/dev/null; exit $code",
            Host::word(&name),
            words.join(" ")
        );
        let mut child = Host::Local
            .long_shell(&script)
            .stdin(Stdio::piped())
            // The child holds the lock of the folder for as long as it works there.
            .stdout(Stdio::from(building.lock()?))
            .stderr(Stdio::from(log))
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // After a cancellation its changes are worthless.
        let hook = cancel.on_cancel(move || {
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
        });
        if let Some(reason) = cancel.reason() {
            let _ = child.kill();
            return Err(PhysicalError::Cancelled(reason));
        }
        Ok(Self {
            child,
            name,
            folder,
            scratch,
            made,
            _hook: hook,
        })
    }

    /// A folder that only this program and the server read. The path leads to the one that was
    /// made, for this program and its children, even if the server's account puts a link in its
    /// place.
    pub fn scratch(&self) -> PathBuf {
        let fd = self.made.as_fd().as_raw_fd();
        PathBuf::from(format!("/proc/{}/fd/{fd}", std::process::id()))
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Waits until it answers.
    pub fn connect(&self) -> Result<Connection, PhysicalError> {
        let options = ConnectOptions {
            socket: Some(self.socket()),
            user: "root".to_owned(),
            ..ConnectOptions::default()
        };
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        loop {
            let failed = PhysicalError::server("connecting to the server that replays the logs");
            match Connection::connect(&options) {
                Ok(mut conn) => {
                    conn.set_timeouts(None, None).map_err(failed)?;
                    // Statements about accounts need the grant tables, which are not read at the
                    // start.
                    let flushing = PhysicalError::server("reading the accounts");
                    conn.exec("FLUSH PRIVILEGES").map_err(flushing)?;
                    return Ok(conn);
                }
                // The process is reaped only at the end, so its number stays valid until then.
                Err(_) if pid.is_none_or(is_over) => {
                    return Err(self.ended("ended during its start"));
                }
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    fn ended(&self, what: &str) -> PhysicalError {
        let log = self.folder.path().join("log");
        let lines = open_file(&log).map(|file| BufReader::new(file).split(b'\n'));
        // Later errors are consequences of the first.
        let first = lines.ok().and_then(|lines| {
            let lines = lines.map_while(Result::ok);
            lines
                .map(|line| plain(&String::from_utf8_lossy(&line)))
                .find(|line| line.contains("ERROR"))
        });
        PhysicalError::Tool {
            tool: format!("{}, which replays the logs,", self.name),
            what: what.to_owned(),
            reason: first.unwrap_or_else(|| "it says nothing".to_owned()),
        }
    }

    /// Stops it, and waits until everything is on disk.
    pub fn stop(mut self, mut conn: Connection, cancel: &Cancel) -> Result<(), PhysicalError> {
        let stopping = PhysicalError::server("stopping the server that replayed the logs");
        conn.exec("SHUTDOWN").map_err(stopping)?;
        drop(conn);
        // Closing it would kill the server.
        let input = self.child.stdin.take();
        let status = self.child.wait();
        drop(input);
        if let Some(reason) = cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        match status {
            Ok(status) if status.success() => fs::remove_dir_all(&self.scratch)
                .map_err(PhysicalError::file(&self.scratch, "removing it")),
            Ok(status) => Err(self.ended(&format!("did not stop cleanly ({status})"))),
            Err(error) => Err(self.ended(&format!("could not be waited for: {error}"))),
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Closing its standard input kills whatever is left of it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Whether a child process has ended. Does not reap it.
fn is_over(pid: Pid) -> bool {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = fs::read_to_string(path).unwrap_or_default();
    let state = text
        .rsplit_once(") ")
        .map(|(_, rest)| rest.as_bytes().first());
    matches!(state, None | Some(Some(b'Z')))
}

fn options(
    programs: &Programs,
    about: &About,
    (datadir, folder): (&Path, &Path),
    memory: u64,
) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut options = vec![
        "--no-defaults".to_owned(),
        format!("--datadir={}", datadir.display()),
        format!("--socket={}", path("socket")),
        format!("--pid-file={}", path("pid")),
        format!("--tmpdir={}", datadir.join(SCRATCH).display()),
        format!("--secure-file-priv={}", datadir.join(SCRATCH).display()),
        // It must not be found where another server listens.
        "--skip-networking".to_owned(),
        "--skip-grant-tables".to_owned(),
        "--skip-log-bin".to_owned(),
        "--skip-slave-start".to_owned(),
        "--event-scheduler=OFF".to_owned(),
        "--local-infile=1".to_owned(),
        "--max-allowed-packet=1G".to_owned(),
        format!("--innodb-buffer-pool-size={memory}"),
        // If it does not stop cleanly, the files are fetched again.
        "--innodb-flush-log-at-trx-commit=0".to_owned(),
        "--innodb-doublewrite=0".to_owned(),
    ];
    if rustix::process::geteuid().is_root() {
        let user =
            fs::metadata(folder).map_or(0, |meta| std::os::unix::fs::MetadataExt::uid(&meta));
        let user = if user == 0 {
            "root".to_owned()
        } else {
            user.to_string()
        };
        options.push(format!("--user={user}"));
    }
    if programs.is_mariadb {
        options.push("--loose-wsrep-on=OFF".to_owned());
    } else {
        // The logs may hold transactions with and without GTIDs.
        options.push("--gtid-mode=ON_PERMISSIVE".to_owned());
        options.push("--loose-mysqlx=OFF".to_owned());
        // The plugin reports where the binary log stood.
        options.push("--plugin-load-add=mysql_clone.so".to_owned());
    }
    for name in MEANT {
        if let Some(value) = about.server.settings.get(name) {
            options.push(format!("--loose-{}={value}", name.replace('_', "-")));
        }
    }
    options
}
