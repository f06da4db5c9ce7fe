//! A server that works on a copy of a backup, for this program alone.
//!
//! The files are in a folder of their own, with the socket beside them. The server listens nowhere
//! else, replicates nothing and runs no events. Nobody else can enter the folder, so it is started
//! without accounts, and then gets one with a password that nobody else knows. It ends with this
//! program, however that ends. What a killed program leaves behind is removed by the next one.

mod process;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use refloat_host::{Host, chain};
use refloat_repository::{FileEntry, Key, Manifest, Repository, fetch};
use refloat_run::progress::Phase;
use refloat_run::{Refusal, Run};
use refloat_wire::{ConnectOptions, Connection, Vendor};

use crate::about::{About, ServerFacts};
use crate::error::PhysicalError;
use crate::find::{SEARCHED, version_in, version_of};
use crate::folder::Building;
use crate::held::Held;
use crate::own_folder::OwnFolder;
use crate::prepare;
use crate::swap::{ACCOUNT, Place, account};
use crate::tool::{Tool, Version, text};
use process::{POLL, Process, complaint};

/// Prefix of the folders' names.
const PREFIX: &str = "refloat-private-";
/// The account that the server gets.
const USER: &str = "refloat_private";
/// The longest path of a socket (`unix(7)`), in bytes.
const SOCKET_MAX: usize = 107;
/// Memory for pages, in bytes: it reads each page once or twice.
const MEMORY_MAX: u64 = 1 << 30;
/// Settings of the server that was backed up without which its files cannot be read.
const SETTINGS: [&str; 2] = ["innodb_page_size", "lower_case_table_names"];

/// Where such a server works, and with which programs.
#[derive(Debug, Clone, Default)]
pub struct PrivateOptions {
    /// The folder that its folder is made in.
    pub folder: PathBuf,
    /// The server's program; `None`: as it is found here.
    pub server: Option<PathBuf>,
    /// The program of the tool that prepares the files; `None`: as it is found here.
    pub tool: Option<PathBuf>,
    /// Bytes of memory for applying the redo log; `None`: half of what is free.
    pub memory: Option<u64>,
    /// Threads that fetch, decrypt and decompress.
    pub threads: usize,
}

/// A backup that a private server can be made of.
#[derive(Debug)]
pub struct Candidate {
    /// What the repository says of it.
    pub manifest: Manifest,
    /// What it says of its server.
    pub about: About,
    /// Its files, or those that are wanted.
    pub files: Vec<FileEntry>,
    /// Names of tables that it has, if a part of it is wanted.
    pub(crate) names: Vec<String>,
    tool: Tool,
    program: PathBuf,
}

/// A server that works on a copy of a backup. It ends, and its files are removed, when this is
/// dropped.
pub struct PrivateServer {
    connect: ConnectOptions,
    // Dropped in this order: the server ends before its files are removed.
    process: Process,
    folder: OwnFolder,
}

impl Candidate {
    /// Checks a backup, the programs and the free space, and names every objection.
    ///
    /// # Errors
    /// The objections, or the list of files cannot be read.
    pub fn look(
        options: &PrivateOptions,
        repository: &Repository,
        manifest: Manifest,
    ) -> Result<Self, PhysicalError> {
        let about = About::read(&manifest).map_err(|source| PhysicalError::Info {
            label: manifest.label.clone(),
            source,
        })?;
        let mut against = Vec::new();
        let tool = prepare::tool_for(&about, options.tool.as_deref());
        let tool = PhysicalError::gather(tool, &mut against)?;
        let program = server_for(&about, options.server.as_deref());
        let program = PhysicalError::gather(program, &mut against)?;
        let files = repository.files(&manifest)?;
        match (tool, program) {
            (Some(tool), Some(program)) => Ok(Self {
                manifest,
                about,
                files,
                names: Vec::new(),
                tool,
                program,
            }),
            _ => Err(PhysicalError::Refused(against)),
        }
    }

    /// Bytes of its files that are fetched.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(FileEntry::covered).sum()
    }

    /// Fetches the files, applies the redo log and starts the server.
    ///
    /// # Errors
    /// There is no room, the files cannot be fetched or prepared, or the server does not start.
    /// Nothing is left.
    pub fn start(
        &self,
        options: &PrivateOptions,
        repository: &Repository,
        run: &Run,
    ) -> Result<PrivateServer, PhysicalError> {
        let above = fs::canonicalize(&options.folder);
        let above = above.map_err(PhysicalError::file(&options.folder, "finding the folder"))?;
        OwnFolder::remove_left(&above, PREFIX);
        let against = self.objections(&options.folder);
        if !against.is_empty() {
            return Err(PhysicalError::Refused(against));
        }
        let folder = OwnFolder::begin(&above, PREFIX)?;
        let socket = folder.path().join("s");
        if socket.as_os_str().len() > SOCKET_MAX {
            return Err(PhysicalError::refused(
                Refusal::new(format!(
                    "the path {} is too long for a socket",
                    socket.display()
                ))
                .hint("Name a folder with a shorter path: --scratch."),
            ));
        }
        let data = folder.path().join("data");
        let place = Place::look(&data)?;
        let mut building = Building::begin(&data, repository.id(), &self.manifest.label, false)?;
        if (self.files.len() as u64) < self.manifest.files {
            building.holds_part();
        }
        run.progress.set_phase(Phase::Data);
        building.make(&self.files)?;
        let passed = Arc::new(AtomicU64::new(0));
        run.progress
            .set_source(Some(self.bytes()), Arc::clone(&passed));
        let wanted: Vec<&FileEntry> = self.files.iter().collect();
        let sink = building.sink(&self.files, &passed);
        let threads = options.threads;
        fetch(
            repository,
            &self.manifest,
            &wanted,
            threads,
            &sink,
            &run.cancel,
        )?;
        prepare::begin(&building, run);
        crate::outside_files::remove_links(&data)?;
        prepare::prepare(&self.tool, &building, options.memory, &run.cancel)?;
        let tmp = folder.path().join("tmp");
        fs::create_dir(&tmp).map_err(PhysicalError::file(&tmp, "making the folder"))?;
        let held = Held::open(folder.path());
        let held = held.map_err(PhysicalError::file(folder.path(), "opening the folder"))?;
        place.give_to_server(&held, folder.path())?;
        let memory = options
            .memory
            .unwrap_or_else(prepare::memory_here)
            .min(MEMORY_MAX);
        let root = ConnectOptions::unix(&socket, "root");
        let log = folder.path().join("log");
        let begin = |more: &str| {
            let script = self.script(folder.path(), memory, more);
            let output = held.replace_file(OsStr::new("log"));
            let output = output.map_err(PhysicalError::file(&log, "making the file"))?;
            let mut process = Process::spawn(&script, output, &run.cancel)?;
            process.wait_for(&root, &log, &run.cancel)?;
            Ok::<_, PhysicalError>(process)
        };
        if building.is_part() && is_mysql(&self.about.server) {
            // It applies the redo log only if it may skip records of missing files. That mode is
            // too lenient for reading tables.
            begin("--innodb-force-recovery=1")?.shut_down(&root, &log, &run.cancel)?;
        }
        let process = begin("")?;
        let connect = give_account(&root)?;
        Ok(PrivateServer {
            connect,
            process,
            folder,
        })
    }

    /// Why a folder has no room for it; `None`: it has.
    fn has_no_room(&self, folder: &Path) -> Option<Refusal> {
        let needed = self.about.room_for(&self.files);
        let free = Host::Local.disk_free(folder)?;
        (free < needed).then(|| {
            Refusal::new(format!(
                "{free} bytes are free in {}, but backup {} needs {needed}",
                folder.display(),
                self.manifest.label
            ))
            .hint("Name a folder with more room: --scratch.")
        })
    }

    /// The objections to creating its folder in this one.
    pub(crate) fn objections(&self, folder: &Path) -> Vec<Refusal> {
        let closed = closed(folder).map(|above| {
            Refusal::new(format!(
                "the account {ACCOUNT} cannot enter {}",
                above.display()
            ))
            .hint("The private server runs as that account. Name another folder: --scratch.")
        });
        let locked = self.about.server.encrypts().next().map(|name| {
            Refusal::new(format!(
                "the server of backup {} encrypted its files ({name}), and a private server has no keys",
                self.manifest.label
            ))
            .hint("Restore it where its keys are: `refloat restore`. `refloat backups verify` without --restore reads it back.")
        });
        let others = closed.into_iter().chain(locked);
        self.has_no_room(folder).into_iter().chain(others).collect()
    }

    /// The script that starts the server, with its messages on standard error, and kills it as soon
    /// as standard input ends.
    fn script(&self, folder: &Path, memory: u64, more: &str) -> String {
        let word = |path: &Path| Host::word(&path.to_string_lossy());
        let mut flags = vec![
            format!("--datadir={}", word(&folder.join("data"))),
            format!("--tmpdir={}", word(&folder.join("tmp"))),
            format!("--socket={}", word(&folder.join("s"))),
            format!("--pid-file={}", word(&folder.join("pid"))),
            format!("--innodb-buffer-pool-size={memory}"),
            "--skip-networking".to_owned(),
            // One connection for each thread, of which there may be hundreds.
            "--max-connections=2000".to_owned(),
            "--skip-grant-tables".to_owned(),
        ];
        // Keys and certificates that nobody uses take a second to make, which MariaDB 11.4 and
        // later do at each start.
        let of_vendor: &[&str] = if is_mysql(&self.about.server) {
            &[
                "--skip-replica-start",
                "--secure-file-priv=NULL",
                "--mysqlx=OFF",
                "--disable-log-bin",
                "--loose-auto-generate-certs=OFF",
                "--loose-sha256-password-auto-generate-rsa-keys=OFF",
                "--loose-caching-sha2-password-auto-generate-rsa-keys=OFF",
            ]
        } else {
            &["--skip-slave-start", "--skip-ssl"]
        };
        flags.extend(of_vendor.iter().map(|flag| (*flag).to_owned()));
        let settings = &self.about.server.settings;
        for name in SETTINGS {
            if let Some(value) = settings.get(name) {
                flags.push(format!("--{name}={}", Host::word(value)));
            }
        }
        if let Some(files) = settings.get("innodb_data_file_path") {
            flags.push(format!(
                "--innodb_data_file_path={}",
                Host::word(&all_here(files))
            ));
        }
        // It refuses to run as root unless it is told to.
        if rustix::process::geteuid().is_root() {
            let user = account().map_or("root", |_| ACCOUNT);
            flags.push(format!("--user={user}"));
        }
        format!(
            "PATH=$PATH:{SEARCHED}; exec 3<&0 </dev/null\n\
             {} --no-defaults {} {more} >&2 3<&- & server=$!\n\
             {{ read -r _ <&3; kill -9 \"$server\"; }} 2>/dev/null & guard=$!\n\
             exec 3<&-; wait \"$server\"; code=$?; kill -9 \"$guard\" 2>/dev/null; exit \"$code\"",
            word(&self.program),
            flags.join(" "),
        )
    }
}

impl PrivateServer {
    /// How to connect to it, with an account that has all privileges.
    pub fn connect(&self) -> &ConnectOptions {
        &self.connect
    }

    /// Its last complaint, if it has ended.
    pub(crate) fn end(&mut self) -> Option<String> {
        let ended = (0..20).any(|_| {
            let ended = self.process.has_ended();
            if !ended {
                std::thread::sleep(POLL);
            }
            ended
        });
        ended.then(|| complaint(&self.folder.path().join("log"), false))
    }
}

/// Makes it load its grant tables, which it was started without, and adds an account for this
/// program.
fn give_account(root: &ConnectOptions) -> Result<ConnectOptions, PhysicalError> {
    let failed = PhysicalError::server;
    let asked = "making an account on the private server";
    let mut conn = Connection::connect(root).map_err(failed(asked))?;
    let password = Key::random().to_hex();
    for sql in [
        "FLUSH PRIVILEGES".to_owned(),
        format!("DROP USER IF EXISTS {USER}@localhost"),
        format!("CREATE USER {USER}@localhost IDENTIFIED BY '{password}'"),
        format!("GRANT ALL ON *.* TO {USER}@localhost WITH GRANT OPTION"),
    ] {
        conn.exec(sql).map_err(failed(asked))?;
    }
    Ok(ConnectOptions {
        user: USER.to_owned(),
        password: Some(password.into()),
        ..root.clone()
    })
}

/// The folder on the path to this one that the account of servers may not enter. `None`: it may
/// enter all of them, or this program starts servers under its own account.
fn closed(folder: &Path) -> Option<PathBuf> {
    let (uid, gid) = account().filter(|_| rustix::process::geteuid().is_root())?;
    let folder = fs::canonicalize(folder).ok()?;
    let is_closed = |path: &&Path| {
        fs::metadata(path).is_ok_and(|metadata| {
            let bit = if metadata.uid() == uid {
                0o100
            } else if metadata.gid() == gid {
                0o010
            } else {
                0o001
            };
            metadata.mode() & bit == 0
        })
    };
    folder.ancestors().find(is_closed).map(Path::to_path_buf)
}

/// Finds the server's program for a backup.
fn server_for(about: &About, program: Option<&Path>) -> Result<PathBuf, PhysicalError> {
    let (vendor, name) = if is_mysql(&about.server) {
        (Vendor::MySql, "mysqld")
    } else {
        (Vendor::MariaDb, "mariadbd")
    };
    let its = version_in(&about.server.version).unwrap_or_default();
    let hint = format!(
        "Install a {vendor} server {} or a newer one of this series here, which need not run, or name its program with --server.",
        text(its)
    );
    let program = program.map_or_else(|| PathBuf::from(name), Path::to_path_buf);
    let (version, output) = version_of(&Host::Local, &program, &hint)?;
    let is_mariadb = output.contains("MariaDB");
    if is_mariadb == (vendor == Vendor::MariaDb) && fits(version, its) {
        return Ok(program);
    }
    let found = if is_mariadb {
        Vendor::MariaDb
    } else {
        Vendor::MySql
    };
    Err(PhysicalError::refused(
        Refusal::new(format!(
            "{} is {found} {}, but the backup is of {vendor} {}",
            program.display(),
            text(version),
            text(its)
        ))
        .hint(hint),
    ))
}

/// Whether a server can start with the files of one with the other version.
fn fits(version: Version, its: Version) -> bool {
    (version.0, version.1) == (its.0, its.1) && version >= its
}

fn is_mysql(server: &ServerFacts) -> bool {
    server.vendor == Vendor::MySql.to_string()
}

/// `innodb_data_file_path` with all files in one folder.
fn all_here(files: &str) -> String {
    let here = files.split(';').map(|file| {
        let (path, rest) = file.split_once(':').unwrap_or((file, ""));
        let name = path.rsplit('/').next().unwrap_or(path);
        format!("{name}:{rest}")
    });
    here.collect::<Vec<_>>().join(";")
}

/// What a server said last before a connection to it was lost, or the error itself.
pub(crate) fn why_lost(server: &mut PrivateServer, error: &refloat_wire::Error) -> String {
    match server.end() {
        Some(words) => format!("the server ended: {words}"),
        None => chain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_series_starts_with_the_files() {
        assert!(fits((10, 11, 19), (10, 11, 19)) && fits((9, 7, 5), (9, 7, 4)));
        assert!(!fits((10, 11, 18), (10, 11, 19)) && !fits((11, 8, 1), (10, 11, 19)));
    }

    #[test]
    fn files_of_the_system_tablespace_lie_in_one_folder() {
        assert_eq!(
            all_here("/disk/ibdata1:12M;ibdata2:50M:autoextend"),
            "ibdata1:12M;ibdata2:50M:autoextend"
        );
    }
}
