//! Whether a node runs, and the position of one that does not.

use std::time::Duration;

use super::{Control, run, run_within};
use crate::error::{ControlError, chain, plain};
use crate::host::Host;
use crate::position::Position;

/// States of a systemd unit that is down and is not being started.
const NOT_RUNNING: [&str; 2] = ["inactive", "failed"];
/// Limit on the recovery of a position: the server replays its whole redo log first.
const RECOVERY: Duration = Duration::from_secs(3600);
/// Stands for the command that prints the position of a node in messages.
const RECOVER: &str = "by the command of the list (recover)";
/// Stands for the command that reports whether a node runs in messages.
const RUNNING: &str = "by the command of the list (running)";
/// Its exit code when the node runs.
const RUNS: i32 = 0;
/// Its exit codes when the node does not run: that of `pgrep` and `kill -0`, and that of init
/// scripts and `systemctl is-active`. All others, such as those of `ssh` and of a shell that does
/// not find the command, say nothing about the node.
const RUNS_NOT: [i32; 2] = [1, 3];

impl Control {
    /// The position of a stopped node, recovered from its tables by its server. `None`: no way to
    /// do so is known.
    ///
    /// # Errors
    /// [`ControlError`] with the reason.
    pub fn recover(&self) -> Result<Option<(String, u64)>, ControlError> {
        self.recover_within(RECOVERY)
    }

    fn recover_within(&self, limit: Duration) -> Result<Option<(String, u64)>, ControlError> {
        match self {
            // MariaDB's own script for its unit prints the argument to start the server with.
            Self::Systemd { host, .. } => {
                let script = "command -v galera_recovery >/dev/null || exit 0; galera_recovery";
                let output = run_within(host, "galera_recovery", "running", script, limit)?;
                Ok(recovered(&output))
            }
            Self::Commands {
                host,
                recover: Some(recover),
                ..
            } => {
                let doing = "recovering the position of the node";
                let output = run_within(host, RECOVER, doing, recover, limit)?;
                Ok(recovered(&output))
            }
            Self::Commands { recover: None, .. } => Ok(None),
        }
    }

    /// Whether its process exists. `None`: it is controlled by commands, and there is no `running`
    /// command.
    ///
    /// # Errors
    /// [`ControlError`] with the reason.
    pub fn is_running(&self) -> Result<Option<bool>, ControlError> {
        match self {
            Self::Systemd { host, unit } => {
                // `is-active` fails for units that do not run.
                let script = format!("systemctl is-active -- {} || :", Host::word(unit));
                let state = run(host, unit, "looking at", &script)?;
                Ok(Some(!NOT_RUNNING.contains(&state.trim())))
            }
            Self::Commands {
                host,
                running: Some(running),
                ..
            } => runs_by(host, running).map(Some),
            Self::Commands { running: None, .. } => Ok(None),
        }
    }
}

/// Whether a node runs, by the exit code of a command.
///
/// # Errors
/// [`ControlError`]: the command could not be run, or its exit code says neither.
fn runs_by(host: &Host, running: &str) -> Result<bool, ControlError> {
    let unknown = |reason: String| ControlError::new(RUNNING, "looking at the node", reason);
    let output = host.run(running).map_err(|error| unknown(chain(&error)))?;
    match output.status.code() {
        Some(RUNS) => Ok(true),
        Some(code) if RUNS_NOT.contains(&code) => Ok(false),
        _ => Err(unknown(format!(
            "on {}: {}, which says neither that it runs (0) nor that it does not (1 or 3): {}",
            host.name(),
            output.status,
            plain(&String::from_utf8_lossy(&output.stderr))
        ))),
    }
}

/// The last position in the output, if it is known: `UUID:SEQNO`, alone, in a line of the server's
/// log, or as the argument to start the server with, as `galera_recovery` prints it.
pub fn recovered(output: &str) -> Option<(String, u64)> {
    let words = output.split_whitespace();
    let mut positions = words.filter_map(|word| word.rsplit('=').next()?.parse().ok());
    let Position { uuid, seqno } = positions.next_back()?;
    Some((uuid, u64::try_from(seqno).ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::recovered;
    use crate::control::{Control, ControlConfig};
    use crate::host::Host;

    #[test]
    fn a_recovery_that_does_not_end_is_killed() {
        let config = ControlConfig {
            start: Some("true".to_owned()),
            stop: Some("true".to_owned()),
            recover: Some("sleep 60".to_owned()),
            ..ControlConfig::default()
        };
        let control = Control::of(&config, &Host::Local).unwrap();
        let begun = Instant::now();
        let error = control.recover_within(Duration::from_millis(200));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("did not finish within"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn positions_as_servers_and_scripts_print_them() {
        let uuid = "befd421d-e706-11f1-bc0a-a7ea195e725e";
        let recovered_from =
            |position: &str| recovered(&format!("--wsrep_start_position={position}\n"));
        assert_eq!(
            recovered_from(&format!("{uuid}:17")),
            Some((uuid.to_owned(), 17))
        );
        assert_eq!(
            recovered_from(&format!("{uuid}:17,0-1-5")),
            Some((uuid.to_owned(), 17))
        );
        assert_eq!(recovered_from(&format!("{uuid}:-1")), None);
        let log = format!(
            "2026-01-01 0 [Note] WSREP: Recovered position: {uuid}:5\n2026-01-01 0 [Note] x: y\n"
        );
        assert_eq!(recovered(&log), Some((uuid.to_owned(), 5)));
        assert_eq!(recovered(&format!("{log}n1: {uuid}:-1")), None);
        assert_eq!(recovered(""), None);
    }
}
