//! The tools that dump a source or copy it to its target.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_dump::{DumpFormat, DumpOptions, dump};
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{chain, oracle, servers};

/// Excludes the server's own databases.
const MYDUMPER_REGEX: &str = r"^(?!(mysql|sys|performance_schema|information_schema)\.)";
/// The longest that mydumper may take, in seconds: it can deadlock with itself.
const PATIENCE: &str = "30";

/// A tool that makes dumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `mysqldump` or `mariadb-dump` of the source.
    Stock,
    /// mydumper 0.10.
    Mydumper,
    /// `refloat dump`.
    Refloat,
    /// `refloat dump --format sql`, loaded with the target's own client.
    Sql,
    /// `refloat copy`, from server to server: there is no dump to load.
    Copy,
}

impl Tool {
    /// Every tool.
    pub const ALL: [Self; 5] = [
        Self::Stock,
        Self::Mydumper,
        Self::Refloat,
        Self::Sql,
        Self::Copy,
    ];

    /// The tool's name in files of expectations.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Mydumper => "mydumper",
            Self::Refloat => "refloat",
            Self::Sql => "sql",
            Self::Copy => "copy",
        }
    }

    /// Dumps everything but the server's own databases. Returns what a load takes as its source.
    pub fn dump(
        self,
        kind: ServerKind,
        server: &Ephemeral,
        folder: &Path,
    ) -> Result<PathBuf, String> {
        let out = folder.join(format!("{kind}-{}", self.word()));
        match self {
            Self::Stock => stock(kind, server, &out)?,
            Self::Mydumper => mydumper(server, &out)?,
            Self::Copy => {}
            Self::Refloat | Self::Sql => {
                let mut options = DumpOptions::new(servers::target(server), &out);
                if self == Self::Sql {
                    options.format = DumpFormat::Sql;
                }
                dump(&options, &run(folder, "dump")).map_err(|failure| chain(&failure.error))?;
            }
        }
        Ok(out)
    }
}

/// A run that keeps its records in `state`.
pub fn run(state: &Path, command: &str) -> Run {
    Run {
        dir: RunDir::create(state, command).unwrap(),
        cancel: Cancel::new(),
        events: Events::new(),
        progress: Progress::new(),
    }
}

fn stock(kind: ServerKind, server: &Ephemeral, out: &Path) -> Result<(), String> {
    let databases = oracle::databases(&mut servers::connect(server)).unwrap();
    let mut command = server.dump_command().unwrap();
    if !kind.is_mariadb() {
        command.arg("--set-gtid-purged=OFF");
    }
    command.args(["--routines", "--events", "--triggers", "--databases"]);
    let made = command.args(databases).output().unwrap();
    fs::write(out, &made.stdout).unwrap();
    if made.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&made.stderr).into_owned())
}

fn mydumper(server: &Ephemeral, out: &Path) -> Result<(), String> {
    let mut tries = 0;
    loop {
        let made = Command::new("timeout")
            .args([PATIENCE, "mydumper", "--user", "root", "--socket"])
            .arg(server.socket())
            .args(["--triggers", "--events", "--routines", "--regex"])
            .args([MYDUMPER_REGEX, "--outputdir"])
            .arg(out)
            .output()
            .unwrap();
        tries += 1;
        if made.status.code() == Some(124) && tries < 3 {
            let _ = fs::remove_dir_all(out);
            continue;
        }
        let stderr = String::from_utf8_lossy(&made.stderr);
        // mydumper carries on after most errors, and only sometimes reflects them in its exit
        // status.
        if made.status.success() && !stderr.contains("CRITICAL") {
            return Ok(());
        }
        return Err(stderr.trim().to_owned());
    }
}
