//! What happens while a node is down: running the user's program, or waiting for `--end`.

use std::process::{Child, Command};

use refloat_cluster::Work;
use refloat_run::RunDir;

/// The file in a run's folder that requests its end.
pub const END: &str = "end";
/// The environment variable that identifies the program and its children, even when nothing waits
/// for them any longer.
pub const RUN_VARIABLE: &str = "REFLOAT_RUN";
/// Server processes: if the program has started one, it is the server to be started anyway.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];

/// A program that shares Refloat's terminal.
pub struct Program<'a> {
    words: &'a [String],
    surroundings: Vec<(&'static str, String)>,
    quiet: bool,
    child: Option<Child>,
}

impl<'a> Program<'a> {
    /// `words` are the program and its arguments, `surroundings` its additional environment
    /// variables. The output of a `quiet` program goes to stderr, because stdout is for JSON.
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

/// Processes on this machine that are a run's program or its children, with number and name.
/// Servers are left out.
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
    /// Waits for the end of this run.
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
