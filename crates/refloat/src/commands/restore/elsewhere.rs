//! A restore on another machine: the program there does it, and reads the repository through this
//! one.

use std::io::{self, BufRead as _, BufReader, Write};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, mpsc};

use anyhow::Context as _;
use refloat_host::Host;
use refloat_host::storage::{Borrowed, LENDER_GONE, lend};
use refloat_repository::{Access, Key, Repository};
use refloat_run::signals::install_signal_handlers;
use refloat_run::{Cancel, CancelReason, Run};
use refloat_store::storage::Storage;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::RestoreArgs;
use crate::context::Context;
use crate::exit::{Exit, ProgramError, from_code};

/// What is asked of the program on the other machine. It arrives on standard input, because it
/// holds the key.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request<A> {
    /// The version of this program: the two ends of another one may not understand each other.
    version: String,
    /// The command line.
    restore: A,
    /// The repository as messages name it.
    repo: String,
    /// The key of an encrypted repository, as hexadecimal digits.
    key: Option<String>,
    /// How many reads at the same time it serves well.
    transfers: usize,
}

/// Standard input of the program on the other machine. It ends when this is closed.
#[derive(Clone)]
struct Answers {
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    is_closed: Arc<AtomicBool>,
}

impl Answers {
    /// Waits for nothing: who writes just now closes it after that.
    fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        match self.stdin.try_lock() {
            Ok(mut stdin) => drop(stdin.take()),
            Err(TryLockError::Poisoned(poisoned)) => drop(poisoned.into_inner().take()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn with(&self, write: impl FnOnce(&mut ChildStdin) -> io::Result<()>) -> io::Result<()> {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let done = match &mut *stdin {
            Some(stdin) => write(stdin),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        drop(stdin);
        // Whoever closed it meanwhile could not take it.
        if self.is_closed.load(Ordering::SeqCst) {
            self.close();
        }
        done
    }
}

impl Write for Answers {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut count = 0;
        self.with(|stdin| {
            count = stdin.write(bytes)?;
            Ok(())
        })?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(io::Write::flush)
    }
}

/// Has the restore done on another machine.
pub fn run(args: &RestoreArgs, host: &str, repository: &Repository) -> anyhow::Result<Exit> {
    if !args.datadir.to.is_absolute() {
        let error = "--to is a path of the other machine, and has to begin with /";
        return Err(ProgramError::usage(error).into());
    }
    if args.connect.asks_for_password() {
        let error = "the other machine has no terminal on which it could ask for the password";
        return Err(ProgramError::usage(error)
            .hint("Write it into an option file there, such as ~/.my.cnf.")
            .into());
    }
    let storage = repository.storage();
    let request = Request {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        restore: args,
        repo: storage.url().to_owned(),
        key: repository.key().map(Key::to_hex),
        transfers: storage.transfers(),
    };
    let mut request = serde_json::to_vec(&request).context("cannot write the request")?;
    request.push(b'\n');
    let program = args.host_program.as_deref();
    let program = program.unwrap_or(Path::new("refloat"));
    let script = Host::serve_host(program, "restore");
    let mut child = Host::Ssh(host.to_owned())
        .long_shell(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ctrl-C in a terminal is for this program only.
        .process_group(0)
        .spawn()
        .context("cannot start ssh")?;
    let answers = Answers {
        stdin: Arc::new(Mutex::new(child.stdin.take())),
        is_closed: Arc::default(),
    };
    let cancel = Cancel::new();
    let _signals = install_signal_handlers(&cancel).context("cannot handle signals")?;
    let _hooks = [
        cancel.on_cancel({
            let answers = answers.clone();
            move || {
                answers.close();
                say("refloat: stopping the restore on the other machine");
            }
        }),
        cancel.on_hard({
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            move || {
                if let Some(group) = group {
                    // It may have ended.
                    let _ = kill_process_group(group, Signal::TERM);
                }
                say("refloat: not waiting for the other machine, where it may take a while to end");
            }
        }),
    ];
    // A program that has already ended has said why.
    let _ = answers.clone().write_all(&request);
    let mut out = io::stdout();
    let print = |text: &str| {
        // The restore goes on without a reader.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    };
    // It ends with the other program, whose exit code says how.
    let lent = match child.stdout.take() {
        Some(questions) => lend(storage, questions, answers.clone(), print),
        None => Ok(false),
    };
    // A program that made no sense is not waited for.
    answers.close();
    let was_reached = lent.unwrap_or(true);
    let is_cancelled = matches!(cancel.reason(), Some(CancelReason::Signal(_)));
    finish(child, (host, program), (is_cancelled, was_reached))
}

/// Prints a line on standard error, if there still is one.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Waits for the end of ssh, and turns it into that of this program.
fn finish(
    mut child: Child,
    (host, program): (&str, &Path),
    (is_cancelled, was_reached): (bool, bool),
) -> anyhow::Result<Exit> {
    let status = child.wait().context("cannot wait for ssh")?;
    match status.code() {
        code if is_cancelled && code != Some(0) => Ok(Exit::Interrupted),
        // It has printed why.
        Some(2) if !was_reached => {
            let error = format!("refloat on {host} does not understand the request");
            Err(ProgramError::new(Exit::Refused, error)
                .hint("Install this version there, or name it with --host-program.")
                .into())
        }
        Some(127) => {
            let error = format!("there is no {} on {host}", program.display());
            Err(ProgramError::new(Exit::Refused, error)
                .hint("Install refloat there, of this version; --host-program says where it is.")
                .into())
        }
        // It is that of ssh; the program has no such exit code.
        Some(255) | None => {
            let (what, hint) = if was_reached {
                (
                    "was lost",
                    "Run the same command again: it resumes.".to_owned(),
                )
            } else {
                let hint = format!("`ssh {host} true` has to work without a password.");
                ("could not be made", hint)
            };
            let error = format!("the connection to {host} {what}");
            Err(ProgramError::new(Exit::Failed, error).hint(hint).into())
        }
        code => Ok(from_code(code)),
    }
}

/// Does the restore that another machine asks for in this line, with the repository that it lends
/// through standard input and output.
pub fn serve(line: &str, context: &Context) -> anyhow::Result<Exit> {
    let request = understood(line)?;
    let key = request.key.map(|key| {
        let key = Key::from_hex(&key);
        key.context("the key in the request is damaged")
    });
    let (ended, end) = mpsc::channel::<()>();
    // What this program starts must not hold it: ssh waits for everybody who does.
    let questions = io::stdout().as_fd().try_clone_to_owned();
    let questions = questions.context("cannot use standard output")?;
    let borrowed = Arc::new(Borrowed::new(
        (request.repo, request.transfers),
        io::stdin(),
        std::fs::File::from(questions),
        move || drop(ended),
    ));
    let printing = print_through(&borrowed)?;
    let storage: Arc<dyn Storage> = Arc::<Borrowed>::clone(&borrowed);
    let access = Access::from(key.transpose()?);
    let begun = |run: &Run| {
        let cancel = run.cancel.clone();
        std::thread::spawn(move || {
            // Nothing is sent: it fails when the other one has ended.
            let _ = end.recv();
            cancel.cancel(CancelReason::Failed(LENDER_GONE.to_owned()));
        });
    };
    let args = &request.restore;
    let done = args.options(context).and_then(|options| {
        let repository = Repository::open(storage, &access)?;
        super::fill((args, &options), &repository, context, begun)
    });
    // The last writer to the pipe goes, and with it whoever reads it.
    io::stdout().flush().context("cannot print")?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).context("cannot print")?;
    let _ = printing.join();
    done
}

fn understood(line: &str) -> anyhow::Result<Request<RestoreArgs>> {
    let here = env!("CARGO_PKG_VERSION");
    let request: serde_json::Value =
        serde_json::from_str(line).context("the request cannot be understood")?;
    let there = request["version"].as_str().unwrap_or_default();
    if there != here {
        let error = format!("refloat {there} asks for a restore, but this machine has {here}");
        return Err(ProgramError::new(Exit::Refused, error)
            .hint("Install the same version on both, or name it with --host-program.")
            .into());
    }
    serde_json::from_value(request).context("the request cannot be understood")
}

/// Has everything that goes to standard output printed by the lender.
fn print_through(lender: &Arc<Borrowed>) -> anyhow::Result<std::thread::JoinHandle<()>> {
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    rustix::stdio::dup2_stdout(&writer).context("cannot redirect standard output")?;
    let lender = Arc::clone(lender);
    Ok(std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            // Nobody reads it when the lender has ended.
            let _ = lender.print(std::mem::take(&mut line));
        }
    }))
}
