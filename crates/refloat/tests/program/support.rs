//! Runs the program in surroundings that are the same on every machine.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::limits::output;

/// The program, with an empty environment, a state directory of its own and no terminal.
pub fn refloat(args: &[&str]) -> Run {
    let state = tempfile::tempdir().expect("a temporary folder can be made");
    Run::of(command(state.path()).args(args))
}

/// The same without arguments, with this state directory, to be started by the caller.
pub fn command(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refloat"));
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", state)
        .env("REFLOAT_STATE_DIR", state)
        .env("COLUMNS", "100")
        .stdin(Stdio::null());
    // Where the servers are is a matter of the machine.
    command.envs(std::env::var_os("REFLOAT_SERVERS").map(|folder| ("REFLOAT_SERVERS", folder)));
    command
}

/// What a run of the program left behind.
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Run {
    /// Runs the program to its end, which must come within the limit of a test.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Self::new(output(command))
    }

    /// What this output says.
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

    /// Asserts that stderr has this text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "not {text:?}: {}", self.stderr);
        self
    }

    /// Asserts the exit code, and shows everything when it is another.
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

/// Runs a command where these mounts (a shell's words) are made beforehand, which nobody else sees. `$0` and `$1` in them are the paths.
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

/// A state directory whose servers may run as another user than root, who starts them.
pub fn state_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("refloat-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .expect("a temporary folder can be made")
}

/// Sends a signal (`-STOP`) to a process that is there.
#[track_caller]
pub fn signal(which: &str, process: impl std::fmt::Display) {
    let sent = Command::new("kill")
        .args([which, &process.to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
}
