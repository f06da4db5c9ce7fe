//! A maintenance in two steps. `--begin` leaves a background process that watches what is held.
//! `--end` tells it to continue, or takes over if it is dead.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use refloat_cluster::{MaintainPhase, MaintainState, Maintenance};
use refloat_run::events::Outcome;
use refloat_run::signals::install_signal_handlers;
use refloat_run::{Cancel, Run, RunDir};

use super::super::busy::unfinished_maintenances;
use super::super::lock::ClusterLock;
use super::work::{END, left_running};
use super::{MaintainArgs, finish, limits, offer_comparison};
use crate::context::Context;
use crate::exit::{self, Exit, ProgramError};
use crate::watch::{Show, Watch};

/// How often to check on the background process.
const POLL: Duration = Duration::from_millis(100);
/// File in the run's folder that receives the output of the background process.
const LOG: &str = "output.log";

/// Starts a background process that does everything, and follows it until the node is down.
pub fn begin(args: &MaintainArgs, context: &Context) -> anyhow::Result<Exit> {
    if args.cluster.options.asks_for_password() {
        return Err(ProgramError::usage(
            "--begin leaves a process in the background, which cannot ask for a password",
        )
        .hint("Put the password into an option file, and name that with --defaults-extra-file.")
        .into());
    }
    let cancel = Cancel::new();
    let _signals = install_signal_handlers(&cancel).context("cannot handle signals")?;
    let log = log_path(context)?;
    let mut child = spawn(&log)?;
    let mut tail = Tail::new(&log);
    loop {
        tail.print();
        let ended = child
            .try_wait()
            .context("cannot wait for the process in the background")?;
        let open = unfinished_maintenances(context)?
            .into_iter()
            .find(|(dir, _)| dir.info().owner.pid == child.id());
        if let Some(status) = ended {
            tail.print();
            let _ = std::fs::remove_file(&log);
            // The process has reported the problem already.
            return Ok(exit::from_code(status.code()));
        }
        if let Some((dir, state)) = open
            && state.phase == MaintainPhase::Away
        {
            tail.print();
            // From now on its output belongs to its run.
            std::fs::rename(&log, dir.path().join(LOG))
                .context("cannot keep what the process in the background says")?;
            let node = &state.plan.node;
            writeln!(
                std::io::stdout(),
                "{node} is down, and what it misses is kept; process {} watches that, for {} s at the most.\n\
                 When you are done: refloat cluster maintain {node} {} --end",
                child.id(),
                limits(&args.hold, &state.plan).hold.as_secs(),
                args.cluster.flags()
            )?;
            return Ok(Exit::Done);
        }
        if cancel.sleep(POLL) {
            let node = &args.node;
            return Err(ProgramError::new(
                Exit::Interrupted,
                format!("process {} continues in the background", child.id()),
            )
            .hint(format!(
                "Its log is {}. `refloat cluster maintain {node} {} --end` ends it, and brings the node back.",
                log.display(),
                args.cluster.flags()
            ))
            .into());
        }
    }
}

/// Runs the same command line in a session of its own, so that it outlives the terminal.
fn spawn(log: &Path) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let arguments = std::env::args_os().skip(1);
    let out = OpenOptions::new()
        .create_new(true)
        .append(true)
        .mode(0o600)
        .open(log)
        .with_context(|| format!("cannot create {}", log.display()))?;
    let again = out.try_clone().context("cannot share the log")?;
    Command::new("setsid")
        .arg(program)
        .args(arguments.map(|word| {
            if word == "--begin" {
                "--until-end".into()
            } else {
                word
            }
        }))
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(again)
        .spawn()
        .context("cannot start a process in the background (setsid)")
}

fn log_path(context: &Context) -> anyhow::Result<PathBuf> {
    let folder = context.state_dir();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder.join(format!("maintain-{}.log", std::process::id())))
}

/// Tells the background process to continue and follows it to the end, or takes over if it is dead.
pub fn end(args: &MaintainArgs, context: &Context) -> anyhow::Result<Exit> {
    let nodes = args.cluster.nodes(context)?;
    let mine = |state: &MaintainState| state.cluster == nodes.name && state.plan.node == args.node;
    let Some((dir, mut state)) = unfinished_maintenances(context)?
        .into_iter()
        .rev()
        .find(|(_, state)| mine(state))
    else {
        return Err(ProgramError::new(
            Exit::Refused,
            format!(
                "no maintenance of {} has been begun on this machine",
                args.node
            ),
        )
        .hint("It ends where it was begun: the folder of its run is there (REFLOAT_STATE_DIR).")
        .into());
    };
    let named = |at: usize| nodes.members.get(at).map(|member| member.name.as_str());
    let plan = &state.plan;
    let mut places = plan.holders.iter().map(|holder| (holder.at, &holder.name));
    if named(plan.at) != Some(&plan.node) || places.any(|(at, name)| named(at) != Some(name)) {
        return Err(ProgramError::new(
            Exit::Refused,
            "the list names other nodes, or in another order, than when this was begun",
        )
        .hint("Use the list as it was then.")
        .into());
    }
    let owner = &dir.info().owner;
    if owner.alive().is_none() {
        return Err(ProgramError::new(
            Exit::Refused,
            format!(
                "it was begun on {} (process {}), and whether it is still working cannot be seen from here",
                owner.host, owner.pid
            ),
        )
        .hint("Run the command there.")
        .into());
    }
    if owner.alive() == Some(true) && !dir.has(LOG) {
        return Err(ProgramError::new(
            Exit::Refused,
            format!(
                "process {} runs a command for it, and ends when that does",
                owner.pid
            ),
        )
        .into());
    }
    if owner.alive() == Some(true) {
        let mut tail = Tail::at_end(&dir.path().join(LOG));
        drop(dir.append(END)?);
        return follow(&dir, &mut tail);
    }
    // A command that still runs works on the files of the server that is about to be started.
    let left = left_running(dir.id().as_str());
    if !left.is_empty() && !args.hold.ignore_advice {
        return Err(ProgramError::new(
            Exit::Refused,
            format!(
                "the command that {} was down for still runs: {}",
                args.node,
                left.join(", ")
            ),
        )
        .hint("Nothing was started. Wait until it has ended, or end it; --ignore-advice starts the node beside it.")
        .into());
    }
    let control = nodes.control(&args.node)?;
    let _lock = ClusterLock::take(&nodes.name, context)?;
    let watch = Watch::start(Show::Lines, context)?;
    let run = Run {
        dir,
        cancel: watch.cancel.clone(),
        events: watch.events.clone(),
        progress: watch.progress.clone(),
    };
    run.events
        .note("the process that watched it is gone: taking over from it".to_owned());
    let maintenance = Maintenance {
        members: &nodes.members,
        control,
        state_dir: context.state_dir(),
        run: &run,
        limits: limits(&args.hold, &state.plan),
    };
    let result = maintenance.finish(&mut state);
    let ended = finish(result, &run, watch, false, context)?;
    offer_comparison(&Vec::from_iter(ended.back), &args.cluster)?;
    Ok(ended.exit)
}

fn follow(dir: &RunDir, tail: &mut Tail) -> anyhow::Result<Exit> {
    loop {
        tail.print();
        let alive = dir.info().owner.alive() == Some(true);
        if dir.has(RunDir::OUTCOME) && !alive {
            tail.print();
            let outcome: Outcome = dir.read(RunDir::OUTCOME)?;
            return Ok(exit::of_result(outcome.result));
        }
        if !alive {
            return Err(ProgramError::new(
                Exit::Failed,
                "the process that watched it has ended without saying how",
            )
            .hint("Run the same command again to take over from it.")
            .into());
        }
        thread::sleep(POLL);
    }
}

/// Prints whatever is appended to a file.
struct Tail {
    file: Option<File>,
}

impl Tail {
    fn new(path: &Path) -> Self {
        Self {
            file: File::open(path).ok(),
        }
    }

    fn at_end(path: &Path) -> Self {
        let mut tail = Self::new(path);
        if let Some(file) = &mut tail.file {
            let _ = file.seek(SeekFrom::End(0));
        }
        tail
    }

    fn print(&mut self) {
        let mut text = Vec::new();
        if let Some(file) = &mut self.file
            && file.read_to_end(&mut text).is_ok()
        {
            let _ = std::io::stderr().write_all(&text);
        }
    }
}
