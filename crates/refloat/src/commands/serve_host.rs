//! `refloat serve-host`: reads or writes a data directory of this machine for the refloat of
//! another one, which starts it through ssh. Not for people.

use std::io::{BufRead as _, Read as _, Write as _};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use refloat_host::Copying;
use refloat_physical::{SendRequest, serve};
use refloat_run::{Cancel, CancelReason, Events, Progress, Run, RunDir};

use crate::commands::copy_status::CopyStatus;
use crate::commands::restore::elsewhere;
use crate::context::Context;
use crate::exit::Exit;

/// Work on this machine's files for the refloat that started this one
#[derive(Debug, Args)]
pub struct ServeHostArgs {
    /// What is to be done
    #[arg(value_enum, default_value_t = Work::Send)]
    work: Work,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Work {
    /// Send the files of a server.
    Send,
    /// Restore a backup from a repository that the other machine lends.
    Restore,
}

pub fn run(args: &ServeHostArgs, context: &Context) -> anyhow::Result<Exit> {
    // It holds secrets.
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .context("cannot read the request")?;
    match args.work {
        Work::Send => send(&line, context),
        Work::Restore => elsewhere::serve(&line, context),
    }
}

fn send(line: &str, context: &Context) -> anyhow::Result<Exit> {
    let request: SendRequest =
        serde_json::from_str(line).context("the request cannot be understood")?;
    let cancel = Cancel::new();
    let asked = cancel.clone();
    // Standard input ends when the other refloat or the network is gone.
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        asked.cancel(CancelReason::Failed(
            "the refloat that requested the files has ended".to_owned(),
        ));
    });
    let run = Run {
        dir: RunDir::create(context.state_dir(), "serve-host")
            .context("cannot begin the record of the run")?,
        cancel,
        events: Events::new(),
        progress: Progress::new(),
    };
    let status = CopyStatus::start(request.datadir(), Copying::COPIED, &run, |_, _| {});
    let answer = serve(&request, &run);
    status.end();
    // The result is in the answer, and in the record of the run that requested it.
    let _ = std::fs::remove_dir_all(run.dir.path());
    let text = serde_json::to_string(&answer).context("cannot write the answer")?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(Exit::Done)
}
