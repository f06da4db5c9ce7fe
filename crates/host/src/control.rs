//! Starting and stopping a node: with systemd, or commands that the user gives.

mod asking;
mod config;
mod look;
mod standalone;

use std::time::Duration;

use crate::error::{ControlError, chain, plain};
use crate::host::Host;
pub use config::ControlConfig;
pub use look::recovered;
pub use standalone::StartOption;

/// A variable that the units of Debian and MariaDB pass to the server as an extra argument.
const NEW_CLUSTER: &str = "_WSREP_NEW_CLUSTER=--wsrep-new-cluster";

/// Stands for a user's command in messages, because the command itself may hold a password.
const COMMAND: &str = "by the command of the list";

/// How a node is started and stopped.
#[derive(Debug)]
pub enum Control {
    /// By `systemctl`, as a unit.
    Systemd {
        /// The machine that the unit is on.
        host: Host,
        /// Name of the unit, as `systemctl` takes it.
        unit: String,
    },
    /// By shell commands that the user gave.
    Commands {
        /// The machine that they run on.
        host: Host,
        /// Starts the node so that it joins.
        start: String,
        /// Stops it cleanly, and returns once it is down.
        stop: String,
        /// Starts it as the first node of a cluster.
        bootstrap: Option<String>,
        /// Starts it as a standalone server.
        standalone: Option<String>,
        /// Reports by its exit code whether the node runs.
        running: Option<String>,
        /// Kills it at once, with everything that it started.
        kill: Option<String>,
        /// Prints the position of a node that is down.
        recover: Option<String>,
    },
}

/// The role in which a node starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAs {
    /// It joins the nodes that run.
    Member,
    /// It bootstraps the cluster. The caller has proven that no other node runs.
    First,
}

impl Control {
    /// The control of a node according to the node list. `None`: the list gives none.
    pub fn of(config: &ControlConfig, host: &Host) -> Option<Self> {
        if let Some(unit) = &config.systemd {
            return Some(Self::Systemd {
                host: host.clone(),
                unit: unit.clone(),
            });
        }
        let (Some(start), Some(stop)) = (&config.start, &config.stop) else {
            return None;
        };
        Some(Self::Commands {
            host: host.clone(),
            start: start.clone(),
            stop: stop.clone(),
            bootstrap: config.bootstrap.clone(),
            standalone: config.start_standalone.clone(),
            running: config.running.clone(),
            kill: config.kill.clone(),
            recover: config.recover.clone(),
        })
    }

    /// The machine where it starts and stops the node.
    pub fn host(&self) -> &Host {
        match self {
            Self::Systemd { host, .. } | Self::Commands { host, .. } => host,
        }
    }

    /// Whether a start recovers the position of a node that has not written it down.
    pub fn recovers(&self) -> bool {
        match self {
            Self::Systemd { .. } => true,
            Self::Commands { recover, .. } => recover.is_some(),
        }
    }

    /// What restarts the server after a crash, if systemd does. `None`: nothing does, or it is
    /// unknown.
    pub fn restarts_by_itself(&self) -> Option<String> {
        let Self::Systemd { host, unit } = self else {
            return None;
        };
        let script = format!(
            "systemctl show --property=Restart --value -- {}",
            Host::word(unit)
        );
        let policy = run(host, unit, "looking at", &script).ok()?;
        let policy = policy.trim();
        (!policy.is_empty() && policy != "no").then(|| format!("unit {unit} has Restart={policy}"))
    }

    /// Starts the node and returns once it is starting. The caller checks whether it comes up.
    ///
    /// `donors` are the nodes (`wsrep_node_name`) that it should prefer as donors. A systemd unit
    /// gets them in a drop-in that is removed after that start (see `control::asking`). Commands
    /// find them in `REFLOAT_SST_DONOR`.
    ///
    /// # Errors
    /// [`ControlError`] with the reason.
    pub fn start(&self, as_what: StartAs, donors: &[&str]) -> Result<(), ControlError> {
        // The trailing comma allows any other node as donor if none of these can. A node without a
        // name cannot be requested.
        let donors = donors
            .iter()
            .filter(|donor| !donor.is_empty())
            .fold(String::new(), |all, donor| all + donor + ",");
        match self {
            Self::Systemd { host, unit } => {
                let unit_word = Host::word(unit);
                let script = match as_what {
                    StartAs::Member => format!(
                        "{}systemctl start --no-block -- {unit_word}",
                        asking::prepare(unit, &donors)
                    ),
                    // This is systemd's own environment: the variable must be removed again, or the
                    // next start bootstraps a cluster too.
                    StartAs::First => format!(
                        "systemctl set-environment {NEW_CLUSTER} && {{ systemctl start -- {unit_word}; status=$?; \
                         systemctl unset-environment _WSREP_NEW_CLUSTER; exit $status; }}"
                    ),
                };
                run(host, unit, "starting", &script).map(drop)
            }
            Self::Commands {
                host,
                start,
                bootstrap,
                ..
            } => match (as_what, bootstrap) {
                (StartAs::Member, _) => {
                    let donors = Host::word(&donors);
                    let script =
                        format!("REFLOAT_SST_DONOR={donors}; export REFLOAT_SST_DONOR\n{start}");
                    run(host, COMMAND, "starting", &script).map(drop)
                }
                (StartAs::First, Some(bootstrap)) => {
                    run(host, COMMAND, "starting", bootstrap).map(drop)
                }
                (StartAs::First, None) => Err(ControlError::new(
                    COMMAND,
                    "starting",
                    "no command is given that bootstraps a cluster (bootstrap)".to_owned(),
                )),
            },
        }
    }

    /// Stops the node cleanly and returns once it is down.
    ///
    /// # Errors
    /// [`ControlError`] with the reason.
    pub fn stop(&self) -> Result<(), ControlError> {
        match self {
            Self::Systemd { host, unit } => run(
                host,
                unit,
                "stopping",
                &format!("systemctl stop -- {}", Host::word(unit)),
            )
            .map(drop),
            Self::Commands { host, stop, .. } => run(host, COMMAND, "stopping", stop).map(drop),
        }
    }

    /// Kills a starting node if possible. A starting node obeys a normal request to stop only once
    /// it has its data, and by then it has taken a full copy. Its tables are left as after a crash.
    ///
    /// # Errors
    /// [`ControlError`] with the reason.
    pub fn end_at_once(&self) -> Result<(), ControlError> {
        match self {
            Self::Systemd { host, unit } => {
                // Stop the unit first, so that systemd does not restart it.
                let unit_word = Host::word(unit);
                let script = format!(
                    "systemctl stop --no-block -- {unit_word} && systemctl kill --signal=KILL -- {unit_word} && systemctl stop -- {unit_word}"
                );
                run(host, unit, "ending", &script).map(drop)
            }
            Self::Commands {
                host,
                kill: Some(kill),
                ..
            } => run(host, COMMAND, "ending", kill).map(drop),
            Self::Commands { kill: None, .. } => self.stop(),
        }
    }
}

/// Runs a script on the node's machine and returns its output.
fn run(host: &Host, what: &str, doing: &'static str, script: &str) -> Result<String, ControlError> {
    run_within(host, what, doing, script, Duration::MAX)
}

/// Like [`run`], with a time limit.
fn run_within(
    host: &Host,
    what: &str,
    doing: &'static str,
    script: &str,
    limit: Duration,
) -> Result<String, ControlError> {
    let output = host
        .run_apart(script, limit)
        .map_err(|error| ControlError::new(what, doing, chain(&error)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.is_empty() {
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .clone_into(&mut message);
    }
    Err(ControlError::new(
        what,
        doing,
        format!("on {}: {}: {}", host.name(), output.status, plain(&message)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn commands(start: &str, stop: &str, bootstrap: Option<&str>) -> Control {
        let config = ControlConfig {
            start: Some(start.to_owned()),
            stop: Some(stop.to_owned()),
            bootstrap: bootstrap.map(str::to_owned),
            ..ControlConfig::default()
        };
        Control::of(&config, &Host::Local).unwrap()
    }

    #[test]
    fn commands_run_in_a_shell_and_say_why_they_failed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("it's there");
        let path = Host::word(file.to_str().unwrap());
        let control = commands(
            &format!("touch {path}"),
            "echo no such luck >&2; exit 3",
            None,
        );
        control.start(StartAs::Member, &[]).unwrap();
        assert!(file.exists());
        let asks = commands(
            &format!("printf %s $REFLOAT_SST_DONOR > {path}"),
            "true",
            None,
        );
        asks.start(StartAs::Member, &["a", "b"]).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a,b,");
        let error = control.stop().unwrap_err().to_string();
        assert!(
            error.contains("stopping") && error.contains("no such luck") && error.contains('3'),
            "{error}"
        );
        let error = control.start(StartAs::First, &[]).unwrap_err().to_string();
        assert!(
            error.contains("no command is given that bootstraps a cluster"),
            "{error}"
        );
        assert_eq!(control.is_running().unwrap(), None);
        let asked = |running: &str| {
            let config = ControlConfig {
                start: Some("true".to_owned()),
                stop: Some("true".to_owned()),
                running: Some(running.to_owned()),
                ..ControlConfig::default()
            };
            let control = Control::of(&config, &Host::Local).unwrap();
            control.is_running().map_err(|error| error.to_string())
        };
        assert_eq!(asked("exit 0"), Ok(Some(true)));
        assert_eq!(asked("exit 1"), Ok(Some(false)));
        assert_eq!(asked("exit 3"), Ok(Some(false)));
        for unknown in ["exit 2", "no-such-command", "exit 255", "kill -9 $$"] {
            let error = asked(unknown).unwrap_err();
            assert!(error.contains("says neither"), "{unknown}: {error}");
        }
        assert!(!control.recovers() && control.recover().unwrap().is_none());
        let config = ControlConfig {
            start: Some("true".to_owned()),
            stop: Some("false".to_owned()),
            kill: Some(format!("rm {path}")),
            recover: Some("echo n1: befd421d-e706-11f1-bc0a-a7ea195e725e:17".to_owned()),
            ..ControlConfig::default()
        };
        let control = Control::of(&config, &Host::Local).unwrap();
        control.end_at_once().unwrap();
        assert!(!file.exists());
        assert!(control.recovers());
        assert_eq!(control.recover().unwrap().unwrap().1, 17);
        commands("false", "true", Some("true"))
            .start(StartAs::First, &[])
            .unwrap();
    }
}
