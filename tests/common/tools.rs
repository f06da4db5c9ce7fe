//! The tools that dump a source, or take it to its target.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_dump::{DumpFormat, DumpOptions, dump};
use refloat_run::{Cancel, Events, Progress, Run, RunDir};
use refloat_sandbox::{Ephemeral, ServerKind};
use refloat_testkit::{chain, oracle, servers};

/// Databases of the server are left out.
const MYDUMPER_REGEX: &str = r"^(?!(mysql|sys|performance_schema|information_schema)\.)";
/// Longest that mydumper may take, in seconds: it may wait for itself for ever.
const PATIENCE: &str = "30";

/// What makes a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// `mysqldump` or `mariadb-dump` of the source.
    Stock,
    /// mydumper 0.10.
    Mydumper,
    /// `refloat dump`.
    Refloat,
    /// `refloat dump --format sql`, given to the target's own client.
    Sql,
    /// `refloat copy`, from server to server: it leaves nothing to be loaded.
    Copy,
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Stock,
        Self::Mydumper,
        Self::Refloat,
        Self::Sql,
        Self::Copy,
    ];

    /// Its name, as files of expectations spell it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Mydumper => "mydumper",
            Self::Refloat => "refloat",
            Self::Sql => "sql",
            Self::Copy => "copy",
        }
    }

    /// Dumps everything that is not the server's own; the result is what a load takes.
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

/// A run that keeps its records in a folder.
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
        let said = String::from_utf8_lossy(&made.stderr);
        // It goes on after most errors, and counts them at its end only sometimes.
        if made.status.success() && !said.contains("CRITICAL") {
            return Ok(());
        }
        return Err(said.trim().to_owned());
    }
}
