//! What is done while a node is down: a program of the user's, or waiting until somebody says that it is done.

use std::process::{Child, Command};

use refloat_cluster::Work;
use refloat_run::RunDir;

/// The file in a run's folder by which its end is asked for.
pub const END: &str = "end";
/// The environment variable by which the program and what it starts are known again, when nobody waits for them any more.
pub const RUN_VARIABLE: &str = "REFLOAT_RUN";
/// Servers: one that the program has started is what is to be started.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];

/// A program with the terminal of ours.
pub struct Program<'a> {
    words: &'a [String],
    surroundings: Vec<(&'static str, String)>,
    quiet: bool,
    child: Option<Child>,
}

impl<'a> Program<'a> {
    /// The program and its arguments, and what it finds in its environment besides ours. What a `quiet` one prints goes to standard
    /// error: ours is for another program.
    pub const fn new(
        words: &'a [String],
        surroundings: Vec<(&'static str, String)>,
        quiet: bool,
    ) -> Self {
        Self {
            words,
            surroundings,
            quiet,
            child: None,
        }
    }
}

impl Work for Program<'_> {
    fn begin(&mut self) -> Result<(), String> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(self.surroundings.iter().map(|(name, value)| (name, value)));
        if self.quiet {
            command.stdout(std::io::stderr());
        }
        let child = command
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        self.child = Some(child);
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        let Some(child) = &mut self.child else {
            return Some(Ok(()));
        };
        match child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) if status.success() => Some(Ok(())),
            Ok(Some(status)) => Some(Err(format!("{}: {status}", self.words[0]))),
            Err(error) => Some(Err(error.to_string())),
        }
    }
}

/// Processes of this machine that the program of a run was, or has started: number and name of each.
pub fn left_running(run: &str) -> Vec<String> {
    let marked = format!("{RUN_VARIABLE}={run}");
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let named = processes.filter_map(Result::ok).filter_map(|process| {
        let surroundings = std::fs::read(process.path().join("environ")).ok()?;
        let mut variables = surroundings.split(|byte| *byte == 0);
        variables.find(|one| *one == marked.as_bytes())?;
        let name = std::fs::read_to_string(process.path().join("comm")).ok()?;
        let name = name.trim();
        let number = process.file_name().into_string().ok()?;
        (!SERVERS.contains(&name)).then(|| format!("process {number} ({name})"))
    });
    named.collect()
}

/// Waits for `--end`.
pub struct UntilEnd(RunDir);

impl UntilEnd {
    /// The run whose end is waited for.
    pub fn new(dir: &RunDir) -> Self {
        Self(dir.clone())
    }
}

impl Work for UntilEnd {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        self.0.has(END).then_some(Ok(()))
    }

    fn ends_when_asked(&self) -> bool {
        true
    }
}
