//! Starting and stopping a node: by the sandbox, by systemd, or by commands that somebody has given.

mod asking;
mod look;
mod standalone;

use refloat_sandbox::{GaleraNode, NodeStart};

use crate::config::ControlConfig;
use crate::error::{ControlError, chain, plain};
use crate::host::Host;
pub(crate) use look::recovered;
pub use standalone::StartOption;

/// What Debian's and MariaDB's units take as a further argument of the server, for one start.
const NEW_CLUSTER: &str = "_WSREP_NEW_CLUSTER=--wsrep-new-cluster";

/// What a command that somebody has given is called in messages: a password may stand in it.
const COMMAND: &str = "by the command of the list";

/// How a node is started and stopped.
#[derive(Debug)]
pub enum Control {
    /// A node of the sandbox on this machine.
    Sandbox(Box<GaleraNode>),
    /// A unit of systemd.
    Systemd {
        /// The machine.
        host: Host,
        /// The unit.
        unit: String,
    },
    /// Commands of a shell.
    Commands {
        /// The machine.
        host: Host,
        /// Starts the node, to join.
        start: String,
        /// Stops it cleanly.
        stop: String,
        /// Starts it as the first one of a cluster.
        bootstrap: Option<String>,
        /// Starts it as a server of its own.
        standalone: Option<String>,
        /// Says by its exit code whether the node runs.
        running: Option<String>,
    },
}

/// As what a node starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAs {
    /// It joins those that run.
    Member,
    /// It begins the cluster. Whoever asks for this has proven that no other node runs.
    First,
}

impl Control {
    /// What a list of nodes says of one. `None`: it says nothing. A sandbox's node is looked up by `find`.
    ///
    /// # Errors
    /// [`ControlError`]: the sandbox has no such node.
    pub fn of(
        config: &ControlConfig,
        host: &Host,
        find: impl FnOnce(&str) -> Result<GaleraNode, refloat_sandbox::Error>,
    ) -> Result<Option<Self>, ControlError> {
        if let Some(name) = &config.sandbox {
            let node =
                find(name).map_err(|error| ControlError::new(name, "finding", chain(&error)))?;
            return Ok(Some(Self::Sandbox(Box::new(node))));
        }
        if let Some(unit) = &config.systemd {
            return Ok(Some(Self::Systemd {
                host: host.clone(),
                unit: unit.clone(),
            }));
        }
        let (Some(start), Some(stop)) = (&config.start, &config.stop) else {
            return Ok(None);
        };
        Ok(Some(Self::Commands {
            host: host.clone(),
            start: start.clone(),
            stop: stop.clone(),
            bootstrap: config.bootstrap.clone(),
            standalone: config.start_standalone.clone(),
            running: config.running.clone(),
        }))
    }

    /// What starts its server by itself when it crashes, where systemd does so. `None`: nothing, or nobody can tell.
    pub fn restarts_by_itself(&self) -> Option<String> {
        let Self::Systemd { host, unit } = self else {
            return None;
        };
        let script = format!(
            "systemctl show --property=Restart --value -- {}",
            Host::word(unit)
        );
        let said = run(host, unit, "looking at", &script).ok()?;
        let said = said.trim();
        (!said.is_empty() && said != "no").then(|| format!("unit {unit} has Restart={said}"))
    }

    /// Starts the node, and comes back when it is on its way: whether it arrives is for the caller to see.
    ///
    /// `donors` are the nodes (`wsrep_node_name`) that it should ask first. The sandbox hands them over for this one start, a unit of
    /// systemd gets them by a piece that goes with that start (see `control::asking`), and commands find them in `REFLOAT_SST_DONOR`.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub fn start(&self, as_what: StartAs, donors: &[&str]) -> Result<(), ControlError> {
        // The comma at the end: if none of them can, any other. One that has no name cannot be asked.
        let donors = donors
            .iter()
            .filter(|donor| !donor.is_empty())
            .fold(String::new(), |all, donor| all + donor + ",");
        match self {
            Self::Sandbox(node) => {
                let how = match as_what {
                    StartAs::Member if donors.is_empty() => NodeStart::join(),
                    StartAs::Member => NodeStart::join().argument("wsrep_sst_donor", donors),
                    StartAs::First => NodeStart::bootstrap(),
                };
                node.begin(&how)
                    .map_err(|error| ControlError::new(node.name(), "starting", chain(&error)))
            }
            Self::Systemd { host, unit } => {
                let unit_word = Host::word(unit);
                let script = match as_what {
                    StartAs::Member => format!(
                        "{}systemctl start --no-block -- {unit_word}",
                        asking::prepare(unit, &donors)
                    ),
                    // The environment is systemd's own: what is set there has to go again, or the next start begins a cluster too.
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
                    "no command is given that begins a cluster (bootstrap)".to_owned(),
                )),
            },
        }
    }

    /// Stops the node cleanly, and comes back when it is down.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub fn stop(&self) -> Result<(), ControlError> {
        match self {
            Self::Sandbox(node) => node
                .stop()
                .map_err(|error| ControlError::new(node.name(), "stopping", chain(&error))),
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

    /// Ends a node that is on its way at once, where that can be done. One that starts takes a request to stop only when it has its data: by
    /// then it has taken a full copy. Its tables are what they would be after a crash.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub(crate) fn end_at_once(&self) -> Result<(), ControlError> {
        match self {
            // With what it has started, as a unit is ended: what receives a copy would be in the way of the next one.
            Self::Sandbox(node) => node
                .crash()
                .map_err(|error| ControlError::new(node.name(), "ending", chain(&error))),
            Self::Systemd { host, unit } => {
                // With the order to stop before it, it is not started again.
                let unit_word = Host::word(unit);
                let script = format!(
                    "systemctl stop --no-block -- {unit_word} && systemctl kill --signal=KILL -- {unit_word} && systemctl stop -- {unit_word}"
                );
                run(host, unit, "ending", &script).map(drop)
            }
            Self::Commands { .. } => self.stop(),
        }
    }
}

/// Runs a script on the node's machine; its output.
fn run(host: &Host, what: &str, doing: &'static str, script: &str) -> Result<String, ControlError> {
    let output = host
        .run_apart(script)
        .map_err(|error| ControlError::new(what, doing, chain(&error)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .clone_into(&mut said);
    }
    Err(ControlError::new(
        what,
        doing,
        format!("on {}: {}: {}", host.name(), output.status, plain(&said)),
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
        let none = |_: &str| unreachable!("no node of the sandbox is named");
        Control::of(&config, &Host::Local, none).unwrap().unwrap()
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
            error.contains("no command is given that begins a cluster"),
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
            let none = |_: &str| unreachable!("no node of the sandbox is named");
            let control = Control::of(&config, &Host::Local, none).unwrap().unwrap();
            control.is_running().map_err(|error| error.to_string())
        };
        assert_eq!(asked("exit 0"), Ok(Some(true)));
        assert_eq!(asked("exit 1"), Ok(Some(false)));
        assert_eq!(asked("exit 3"), Ok(Some(false)));
        for unknown in ["exit 2", "no-such-command", "exit 255", "kill -9 $$"] {
            let error = asked(unknown).unwrap_err();
            assert!(error.contains("says neither"), "{unknown}: {error}");
        }
        commands("false", "true", Some("true"))
            .start(StartAs::First, &[])
            .unwrap();
    }
}
