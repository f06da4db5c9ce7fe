//! The data directory that a restore or a rebuild fills, and the server that works in it
//! afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use refloat_host::{Host, datadir, last_line};
use refloat_run::probe;
use refloat_run::progress::Phase;
use refloat_run::{Refusal, Run};
use refloat_wire::{ConnectOptions, Connection};

use crate::about::ServerFacts;
use crate::error::PhysicalError;
use crate::outside_files;
use crate::prepare;
use crate::server_options::ServerOptions;
use crate::swap::Place;
use crate::tool::{ToolKind, Version};

/// How long a start command may take: systemd's own units wait for as long as a node joins.
const START: Duration = Duration::from_secs(3600);
/// How often the new server is polled.
const POLL: Duration = Duration::from_millis(500);
/// How long the process of the new server may be missing before it counts as ended.
const GONE: Duration = Duration::from_secs(20);
/// After this time, the user is told what is being waited for.
const TELL: Duration = Duration::from_secs(10);
/// `ER_ACCESS_DENIED_ERROR`.
const ACCESS_DENIED: u16 = 1045;

/// The data directory that is to be filled, and what happens to it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that was asked for"
)]
#[derive(Debug, Clone, Default)]
pub struct TargetOptions {
    /// Its path on this machine.
    pub datadir: PathBuf,
    /// Whether what the data directory holds may be set aside.
    pub replace: bool,
    /// Whether what was set aside is removed when the new server works. It needs `check`.
    pub remove_old: bool,
    /// Whether blocks that the data directory holds already are taken from there.
    pub delta: bool,
    /// Whether files that the server kept in other directories may be put into this one.
    pub all_in_datadir: bool,
    /// The option file of the new server; `None`: those of this machine, if they name the data
    /// directory.
    pub option_file: Option<PathBuf>,
    /// The program of the tool that prepares the files; `None`: as it is found here.
    pub tool: Option<PathBuf>,
    /// Bytes of memory for applying the redo log; `None`: half of what is free.
    pub memory: Option<u64>,
    /// A command that starts the server here; `None`: it is not started.
    pub start: Option<String>,
    /// The new server, to ask whether it answers; `None`: it is not asked.
    pub check: Option<ConnectOptions>,
}

impl TargetOptions {
    /// The options of the server that is to work in a folder, and what says so. `None`: nothing
    /// does.
    fn options_of(&self, folder: &Path) -> Result<Option<(ServerOptions, String)>, PhysicalError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_here = |options: &ServerOptions| {
            let datadir = options.get("datadir").map(Path::new);
            datadir.map(|datadir| real(datadir) == folder)
        };
        let Some(path) = &self.option_file else {
            // A machine without a server lacks the program that reads them.
            let found = ServerOptions::of_server(&[]).ok();
            let found = found.filter(|options| is_here(options) == Some(true));
            return Ok(found.map(|options| (options, "this machine's option file".to_owned())));
        };
        let file = path.display().to_string();
        let options = ServerOptions::of_server(&[format!("--defaults-file={file}")])?;
        if is_here(&options) == Some(false) {
            let datadir = options.get("datadir").unwrap_or_default();
            let reason = format!(
                "{file} says datadir = {datadir}, but the files go to {}",
                folder.display()
            );
            return Err(PhysicalError::refused(
                Refusal::new(reason)
                    .hint("Name the option file of the server that is to run there."),
            ));
        }
        Ok(Some((options, file)))
    }

    /// Why the server here cannot start on the files of a server of version `its`. A tool that is
    /// named belongs to a server that is installed apart, and says nothing about where that is.
    pub(crate) fn no_server_for(&self, kind: ToolKind, its: Version) -> Option<Refusal> {
        let is_apart = self.tool.is_some() && kind != ToolKind::Clone;
        if is_apart {
            return None;
        }
        prepare::no_server_for(kind, its)
    }

    /// The objections to filling `folder` with the files of a server, and a warning about what else
    /// the new server will find.
    ///
    /// # Errors
    /// The option file of the new server cannot be read, or is of another one.
    pub(crate) fn objections(
        &self,
        server: &ServerFacts,
        folder: &Path,
    ) -> Result<(Vec<Refusal>, Option<String>), PhysicalError> {
        let (mut against, mut warning) = (Vec::new(), None);
        match self.options_of(folder)? {
            // The settings of the new server count, not those of the old one.
            Some((options, file)) => {
                against.extend(outside_files::of_new(&options, &file, folder));
                warning = outside_files::old_log(&options, folder);
            }
            None if self.all_in_datadir => {}
            None => against.extend(outside_files::settings(&server.settings, &server.datadir)),
        }
        if !self.all_in_datadir {
            against.extend(outside_files::redo(folder));
        }
        if self.check.is_some() && self.start.is_none() {
            against.push(
                Refusal::new("the new server is to be checked, but nothing starts it")
                    .hint("Give --start COMMAND as well."),
            );
        }
        if self.remove_old && self.check.is_none() {
            against.push(
                Refusal::new(
                    "old data are removed only once the new server works, but nothing checks it",
                )
                .hint("Give --start COMMAND and --check URL as well."),
            );
        }
        Ok((against, warning))
    }
}

/// Starts the server, if that is asked for, and waits until it answers and, if it is a node, until
/// it is in step. `started` becomes true.
pub fn start(
    target: &TargetOptions,
    place: &Place,
    run: &Run,
    started: &mut bool,
) -> Result<(), PhysicalError> {
    if let Some(command) = &target.start {
        run_and_ask(command, place.path(), target.check.as_ref(), run)?;
        *started = true;
    }
    run.progress.set_phase(Phase::Done);
    Ok(())
}

/// Removes the old data, if that is asked for and the new server works. Where they cannot be
/// removed, or not all of them, they count as kept.
pub fn dispose(target: &TargetOptions, aside: &mut Option<PathBuf>, run: &Run) {
    let Some(old) = aside.take_if(|_| target.remove_old) else {
        return;
    };
    let folder = old.display();
    match fs::remove_dir_all(&old) {
        Ok(()) => run
            .events
            .note(format!("the old data in {folder} are removed")),
        Err(error) => {
            let words = format!("{folder}: removing the old data failed: {error}");
            run.events.warn(words);
            *aside = Some(old);
        }
    }
}

fn run_and_ask(
    command: &str,
    folder: &Path,
    check: Option<&ConnectOptions>,
    run: &Run,
) -> Result<(), PhysicalError> {
    let failed = |what: &'static str, reason: String| PhysicalError::Start { what, reason };
    let output = Host::Local.run_apart(command, START)?;
    if !output.status.success() {
        return Err(failed("could not be started", last_line(&output.stderr)));
    }
    let Some(check) = check else { return Ok(()) };
    let (begun, mut reported) = (Instant::now(), false);
    let mut seen = Instant::now();
    loop {
        let last = match look_at(check, folder) {
            Ok(Seen::Ready) => return Ok(()),
            Ok(Seen::Joining(left)) => {
                run.progress.set_phase(Phase::CatchUp);
                run.progress.set_behind(left);
                format!("it is not in sync yet, and has {left} write-sets to apply")
            }
            // An older server may be ending only now, or the address may belong to another one.
            Ok(Seen::Another(place)) => {
                let words = format!("the server that answers at --check runs in {place}");
                if begun.elapsed() > GONE {
                    return Err(failed("is not the one that answers", words));
                }
                words
            }
            // The accounts are the donor's now.
            Err(error) if error.server_code() == Some(ACCESS_DENIED) => {
                return Err(failed(
                    "answers, and refuses this account",
                    error.to_string(),
                ));
            }
            Err(error) => refloat_host::chain(&error),
        };
        if !reported && begun.elapsed() > TELL {
            run.events
                .note(format!("waiting for the new server: {last}"));
            reported = true;
        }
        if begun.elapsed() > START {
            return Err(failed("is not ready", last));
        }
        if let Some(reason) = run.cancel.reason() {
            return Err(PhysicalError::Cancelled(reason));
        }
        if datadir::server_in(&Host::Local, folder)?.is_some() {
            seen = Instant::now();
        } else if seen.elapsed() > GONE {
            return Err(failed("has ended, or was not started", last));
        }
        run.cancel.sleep(POLL);
    }
}

/// The server that answers.
enum Seen {
    /// It works, and is in step if it is a node.
    Ready,
    /// It is not in step, and has so many write-sets to apply.
    Joining(u64),
    /// It is another server, which works in this place.
    Another(String),
}

/// Whether the server of this data directory answers.
fn look_at(check: &ConnectOptions, folder: &Path) -> Result<Seen, refloat_wire::Error> {
    let mut conn = Connection::connect(check)?;
    let identity = conn.identity();
    if probe::Place::of_data(identity).is_none_or(|its| Some(its) != probe::Place::of(folder)) {
        return Ok(Seen::Another(format!(
            "{} on {}",
            identity.datadir, identity.hostname
        )));
    }
    let rows = conn.query("SHOW GLOBAL STATUS LIKE 'wsrep_local_%'")?;
    let of = |name: &str| {
        let row = (0..rows.len()).find(|row| rows.str(*row, 0) == Some(name));
        row.and_then(|row| rows.str(row, 1)).unwrap_or_default()
    };
    let (state, queue) = (
        of("wsrep_local_state_comment"),
        of("wsrep_local_recv_queue"),
    );
    let is_ready =
        state.is_empty() || state == "Synced" || state == "Disconnected" && !is_node(&mut conn)?;
    Ok(if is_ready {
        Seen::Ready
    } else {
        Seen::Joining(queue.parse().unwrap_or_default())
    })
}

fn is_node(conn: &mut Connection) -> Result<bool, refloat_wire::Error> {
    let on = conn.query_value("SELECT @@GLOBAL.wsrep_on")?;
    Ok(on.as_deref() == Some("1"))
}
