//! Applies the redo log to the files of a backup, with the tool that made it.

use std::fs;
use std::path::Path;

use refloat_host::Host;
use refloat_run::machine::Machine;
use refloat_run::progress::Phase;
use refloat_run::{Cancel, Refusal, Run};
use refloat_wire::Vendor;

use crate::about::About;
use crate::clone::changes;
use crate::error::PhysicalError;
use crate::find::{find, version_of};
use crate::folder::Building;
use crate::option_file;
use crate::producer::{FAILED, Input, Producer};
use crate::tool::{Tool, ToolKind, Version, text};
use crate::tool_bugs;

/// The tools' own default, in bytes.
const MEMORY_MIN: u64 = 96 << 20;
/// More memory does not help with a redo log of usual size.
const MEMORY_MAX: u64 = 16 << 30;
/// The redo log as mariadb-backup names it, and as xtrabackup does.
const REDO: [&str; 2] = ["ib_logfile0", "xtrabackup_logfile"];
/// What the tools write into `xtrabackup_checkpoints` when they are done.
const PREPARED: [&str; 2] = ["log-applied", "full-prepared"];

/// Finds the tool that can prepare a backup.
///
/// # Errors
/// There is none of the same series as the one that made the backup, or it is known to damage what
/// it prepares.
pub fn tool_for(about: &About, program: Option<&Path>) -> Result<Tool, PhysicalError> {
    if about.tool_kind() == ToolKind::Clone {
        return Ok(about.tool.clone());
    }
    let tool = find(&Host::Local, about.tool_kind(), program)?;
    let (version, its) = (tool.version, about.tool.version);
    let mut against = tool_bugs::for_prepare(&tool);
    if (version.0, version.1) != (its.0, its.1) || version < its {
        let name = tool.kind.program();
        against.push(
            Refusal::new(format!(
                "{name} is {} here, but the backup was made with {}",
                text(version),
                text(its)
            ))
            .hint(format!(
                "It must be of the same series and not older: install {name} {}, or name it with --tool.",
                text(its)
            )),
        );
    }
    if against.is_empty() {
        Ok(tool)
    } else {
        Err(PhysicalError::Refused(against))
    }
}

/// Why the server that is installed here cannot start on the files of a server of version `its`,
/// which are prepared by a tool of this kind. `None`: it can, or there is none here.
pub fn no_server_for(kind: ToolKind, its: Version) -> Option<Refusal> {
    let is_mariadb = kind == ToolKind::MariadbBackup;
    let (program, vendor) = if is_mariadb {
        ("mariadbd", Vendor::MariaDb)
    } else {
        ("mysqld", Vendor::MySql)
    };
    let (version, output) = version_of(&Host::Local, Path::new(program), "").ok()?;
    // MariaDB has a program called mysqld, too.
    if output.contains("MariaDB") != is_mariadb {
        return None;
    }
    let is_of_series = (version.0, version.1) == (its.0, its.1);
    let (is_fit, why) = if kind == ToolKind::Clone {
        let why =
            "The server applies the redo log itself: it must be of the same series and not older.";
        (is_of_series && version >= its, why)
    } else {
        let why = "It would upgrade the files irreversibly, or not start on them. Start a server of the same series first, and upgrade that one.";
        (is_of_series, why)
    };
    let refusal = Refusal::new(format!(
        "{program} is {} here, but the files are of {vendor} {}",
        text(version),
        text(its)
    ));
    (!is_fit).then(|| {
        refusal.hint(format!(
            "{why} If another one will start on the files, put its folder first in PATH."
        ))
    })
}

/// Whether a file of a backup is the redo log that its tool has copied.
pub fn is_redo(name: &Path) -> bool {
    REDO.iter().any(|redo| name == Path::new(redo))
}

/// Enters the phase in which files are prepared.
pub fn begin(building: &Building, run: &Run) {
    let size = |name: &&str| fs::metadata(building.path().join(name)).ok();
    if let Some(found) = REDO.iter().find_map(size) {
        run.progress.set_redo(found.len());
    }
    run.progress.set_phase(Phase::Prepare);
}

/// Prepares the files in a folder.
///
/// # Errors
/// The tool failed, or does not report success.
pub fn prepare(
    tool: &Tool,
    building: &Building,
    memory: Option<u64>,
    cancel: &Cancel,
) -> Result<(), PhysicalError> {
    prepare_so(tool, building, (memory, ""), cancel)
}

/// The same for a node of a cluster. Nobody would finish transactions that were prepared but not
/// yet ordered in the cluster. mariadb-backup rolls them back anyway.
pub fn prepare_node(
    tool: &Tool,
    building: &Building,
    memory: Option<u64>,
    cancel: &Cancel,
) -> Result<(), PhysicalError> {
    let more = match tool.kind {
        ToolKind::Xtrabackup => " --rollback-prepared-trx",
        ToolKind::MariadbBackup | ToolKind::Clone => "",
    };
    prepare_so(tool, building, (memory, more), cancel)
}

fn prepare_so(
    tool: &Tool,
    building: &Building,
    (memory, more): (Option<u64>, &str),
    cancel: &Cancel,
) -> Result<(), PhysicalError> {
    if tool.kind == ToolKind::Clone {
        // The server itself applies the redo log when it starts.
        return changes::apply(building.path(), building.is_part(), cancel);
    }
    let memory = memory.unwrap_or_else(memory_here);
    let folder = building.path();
    let word = |path: &Path| Host::word(&path.to_string_lossy());
    let file = folder.join(option_file::NAME);
    // The machine's own option files belong to its server, which may be of another kind.
    let (flag, options) = if file.exists() {
        let options = its_own(&file)?;
        (format!("--defaults-file={}", word(&file)), options)
    } else {
        ("--no-defaults".to_owned(), String::new())
    };
    let script = format!(
        "umask 077; PATH=$PATH:/usr/local/bin:/usr/bin; exec {} {flag} --prepare --target-dir={} --use-memory={memory}{more} 1>&2",
        word(&tool.program),
        word(folder)
    );
    let (producer, _) = Producer::start(
        &Host::Local,
        tool,
        &script,
        &Input::Held(building.lock()?),
        cancel,
    )?;
    producer
        .finish(cancel)
        .map_err(|error| with_keys(error, &options))?;
    let names = ["xtrabackup_checkpoints", "mariadb_backup_checkpoints"];
    let checkpoints = names
        .iter()
        .find_map(|name| fs::read_to_string(folder.join(name)).ok());
    let is_prepared = checkpoints
        .as_ref()
        .is_some_and(|checkpoints| PREPARED.iter().any(|word| checkpoints.contains(word)));
    if is_prepared {
        return Ok(());
    }
    Err(PhysicalError::Incomplete {
        tool: tool.kind.program().to_owned(),
        reason: "its checkpoints do not say that the redo log is applied".to_owned(),
    })
}

/// Adds to the error of a tool where the keys of the files have to be, as its options name it.
fn with_keys(error: PhysicalError, options: &str) -> PhysicalError {
    match (error, option_file::keys(options)) {
        // A tool that was stopped, because the disk was full, lacks no keys.
        (PhysicalError::Tool { tool, what, reason }, Some(keys)) if what.starts_with(FAILED) => {
            PhysicalError::Tool {
                tool,
                what,
                reason: format!(
                    "{reason} (the files are encrypted: {keys} here must hold the keys of the server that they are from)"
                ),
            }
        }
        (error, _) => error,
    }
}

/// The text of an option file. Refuses one with anything that the tool which made the backup would
/// not write, or that names what is not here.
fn its_own(path: &Path) -> Result<String, PhysicalError> {
    let text = fs::read(path).map_err(PhysicalError::file(path, "reading it"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let against = option_file::objections(&text);
    if against.is_empty() {
        Ok(text)
    } else {
        Err(PhysicalError::Refused(against))
    }
}

/// Half of the free memory of this machine, within the limits of a container.
pub fn memory_here() -> u64 {
    let free = Machine::here().map_or(0, |machine| machine.memory_available);
    (free / 2).clamp(MEMORY_MIN, MEMORY_MAX)
}
