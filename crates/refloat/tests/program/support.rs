//! Runs the program in surroundings that are the same on every machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use refloat_sandbox::Sandbox;
use refloat_testkit::{memory, servers};

use crate::time_limits::output;

/// Runs the program with an empty environment, a state directory of its own and no terminal.
pub fn refloat(args: &[&str]) -> Run {
    let state = tempfile::tempdir().expect("a temporary folder can be made");
    Run::of(command(state.path()).args(args))
}

/// The same, without arguments and with this state directory, for the caller to start.
pub fn command(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", state)
        .env("REFLOAT_STATE_DIR", state)
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    // The location of the servers depends on the machine.
    command.envs(std::env::var_os("REFLOAT_SERVERS").map(|folder| ("REFLOAT_SERVERS", folder)));
    command
}

/// The result of a run of the program.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Runs the program to its end, which must come within the limit of a test.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Self::new(output(command))
    }

    pub fn new(output: Output) -> Self {
        Self {
            code: output
                .status
                .code()
                .expect("the program was not killed by a signal"),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }

    /// Asserts that stderr contains this text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "not {text:?}: {}", self.stderr);
        self
    }

    /// Asserts the exit code, and shows all output if it differs.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }
}

/// Runs a command in a mount namespace of its own, after the shell commands `mounts`, in which `$0`
/// and `$1` are the paths.
pub fn among_own_mounts(mounts: &str, paths: [&Path; 2], here: &Command) -> Run {
    let script = format!("{mounts} && shift && exec \"$@\"");
    let mut there = Command::new("unshare");
    there.env_clear().args(["--mount", "sh", "-c", &script]);
    there.args(paths);
    there.arg(here.get_program()).args(here.get_args());
    let envs = here.get_envs();
    there.envs(envs.filter_map(|(name, value)| Some((name, value?))));
    Run::of(&mut there)
}

/// A state directory for servers that root starts and that run as another user.
pub fn state_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("refloat-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(memory::folder())
        .expect("a temporary folder can be made")
}

/// The sandbox in this state directory. Its lists of nodes have this program start and stop them.
/// Its servers begin with the initialised data that all tests share.
pub fn sandbox_in(state: &Path) -> Sandbox {
    let servers = std::env::var("REFLOAT_SERVERS").map_or_else(
        |_| String::new(),
        |folder| format!("REFLOAT_SERVERS={folder} "),
    );
    Sandbox::new(state.join("sandbox"))
        .with_cache_dir(servers::cache())
        .with_node_command(format!(
            "REFLOAT_STATE_DIR={} {servers}{} sandbox node",
            state.display(),
            env!("CARGO_BIN_EXE_refloat")
        ))
}

/// A list of nodes with these lines in place of those that say where one of them runs and how it is
/// started and stopped.
#[track_caller]
pub fn with_control(list: &str, name: &str, lines: &str) -> String {
    let is_it = format!("name = \"{name}\"\n");
    let entry = |entry: &str| {
        if !entry.contains(&is_it) {
            return entry.to_owned();
        }
        let kept = entry.lines().filter(|line| {
            !line.is_empty() && !line.starts_with("control.") && *line != "local = true"
        });
        kept.chain([lines, ""])
            .fold(String::new(), |text, line| text + line + "\n")
    };
    let changed: String = list.split_inclusive("\n\n").map(entry).collect();
    assert_ne!(changed, list);
    changed
}

/// Sends a signal (such as `-STOP`) to a process that must exist.
#[track_caller]
pub fn signal(which: &str, process: impl std::fmt::Display) {
    let sent = Command::new("kill")
        .args([which, &process.to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
}
