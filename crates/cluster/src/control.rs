//! Starting and stopping a node: by the sandbox, by systemd, or by commands that somebody has given.

use refloat_sandbox::{GaleraNode, NodeStart};
use serde::{Deserialize, Serialize};

use crate::config::ControlConfig;
use crate::error::{ControlError, chain};
use crate::host::Host;
use crate::join::plain;

/// A unit of systemd that says one of these does not run, and does not come up by itself.
const NOT_RUNNING: [&str; 2] = ["inactive", "failed"];
/// What Debian's and MariaDB's units take as a further argument of the server, for one start.
const NEW_CLUSTER: &str = "_WSREP_NEW_CLUSTER=--wsrep-new-cluster";

/// The piece of a unit with which it is started as a server of its own. Units of MariaDB and MySQL give the server what stands in
/// `MYSQLD_OPTS`; names that come later in the alphabet win.
const PIECE: &str = "zz-refloat-standalone.conf";

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
    },
}

/// An option of the server for one start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOption {
    /// Its name, without the dashes in front.
    pub name: String,
    /// Its value; `None`: it takes none.
    pub value: Option<String>,
}

impl StartOption {
    /// An option with a value.
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value.into()),
        }
    }

    /// An option without one.
    pub fn switch(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: None,
        }
    }

    /// The word of a command line. `None`: it has characters that units and shells take for something else.
    pub fn word(&self) -> Option<String> {
        let plain = |text: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "_-./:,".contains(c);
            !text.is_empty() && text.chars().all(known)
        };
        let word = match &self.value {
            Some(value) if plain(value) => format!("--{}={value}", self.name),
            Some(_) => return None,
            None => format!("--{}", self.name),
        };
        plain(&self.name).then_some(word)
    }
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
        }))
    }

    /// What is missing for a node to be started by itself, and as the first of a cluster. `None`: nothing.
    pub fn lacks(&self) -> Option<&'static str> {
        match self {
            Self::Commands {
                standalone: None, ..
            } => {
                Some("no command is given that starts it as a server of its own (start_standalone)")
            }
            Self::Commands {
                bootstrap: None, ..
            } => Some("no command is given that begins a cluster (bootstrap)"),
            _ => None,
        }
    }

    /// Starts the node as a server of its own, with these options behind all others. Whether it has taken them is for the caller to see.
    ///
    /// A unit of systemd gets them by a piece of its own under `/run`, so that a server that crashes is not started again as a member; they
    /// go by [`Self::end_standalone`], or when the machine starts anew. Commands find them in `REFLOAT_SERVER_OPTIONS`.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub fn start_standalone(&self, options: &[StartOption]) -> Result<(), ControlError> {
        let words = |what: &str| -> Result<String, ControlError> {
            let words: Option<Vec<String>> = options.iter().map(StartOption::word).collect();
            words.map(|words| words.join(" ")).ok_or_else(|| {
                let reason = "an option has a character that cannot be handed over".to_owned();
                ControlError::new(what, "starting", reason)
            })
        };
        match self {
            Self::Sandbox(node) => {
                let arguments = options
                    .iter()
                    .map(|option| (option.name.clone(), option.value.clone()));
                let how = NodeStart {
                    // It joins nobody: where it stands is not asked for.
                    skip_recovery: true,
                    arguments: arguments.collect(),
                    ..NodeStart::default()
                };
                node.begin(&how)
                    .map_err(|error| ControlError::new(node.name(), "starting", chain(&error)))
            }
            Self::Systemd { host, unit } => {
                let script = standalone_of_unit(unit, &words(unit)?);
                run(host, unit, "starting", &script).map(drop)
            }
            Self::Commands {
                host,
                standalone: Some(standalone),
                ..
            } => {
                let words = Host::word(&words(COMMAND)?);
                let script = format!(
                    "REFLOAT_SERVER_OPTIONS={words}; export REFLOAT_SERVER_OPTIONS\n{standalone}"
                );
                run(host, COMMAND, "starting", &script).map(drop)
            }
            Self::Commands {
                standalone: None, ..
            } => Err(ControlError::new(
                COMMAND,
                "starting",
                self.lacks().unwrap_or_default().to_owned(),
            )),
        }
    }

    /// Takes away what [`Self::start_standalone`] has left for further starts. Nothing is there: fine.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub fn end_standalone(&self) -> Result<(), ControlError> {
        match self {
            Self::Systemd { host, unit } => {
                let script = format!(
                    "{}; [ ! -e \"$piece\" ] || {{ rm -f -- \"$piece\" && systemctl daemon-reload; }}",
                    piece_of_unit(unit)
                );
                run(host, unit, "taking the options back of", &script).map(drop)
            }
            Self::Sandbox(_) | Self::Commands { .. } => Ok(()),
        }
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
    /// `donors` are the nodes (`wsrep_node_name`) that it should ask first. The sandbox hands them over for this one start, and commands
    /// find them in `REFLOAT_SST_DONOR`; a unit of systemd starts as it is, and Galera itself prefers a node that keeps what is missed.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub fn start(&self, as_what: StartAs, donors: &[&str]) -> Result<(), ControlError> {
        // The comma at the end: if none of them can, any other.
        let donors = donors
            .iter()
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
                    StartAs::Member => format!("systemctl start --no-block -- {unit_word}"),
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
            Self::Sandbox(node) => node
                .kill()
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

    /// Where a node that is down stands, by having its server look into its tables. `None`: nobody has said how that is done.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub fn recover(&self) -> Result<Option<(String, u64)>, ControlError> {
        match self {
            Self::Sandbox(node) => {
                let position = node.recover().map_err(|error| {
                    ControlError::new(node.name(), "recovering the position of", chain(&error))
                })?;
                let seqno = u64::try_from(position.seqno).ok();
                Ok(seqno.map(|seqno| (position.uuid, seqno)))
            }
            // MariaDB's own script for its unit: it prints the argument that the server is to be started with.
            Self::Systemd { host, .. } => {
                let script = "command -v galera_recovery >/dev/null || exit 0; galera_recovery";
                let said = run(host, "galera_recovery", "running", script)?;
                Ok(recovered(&said))
            }
            Self::Commands { .. } => Ok(None),
        }
    }

    /// Whether its process is there. `None`: commands cannot tell.
    ///
    /// # Errors
    /// [`ControlError`] with what was said about it.
    pub fn is_running(&self) -> Result<Option<bool>, ControlError> {
        match self {
            Self::Sandbox(node) => {
                let status = node
                    .status()
                    .map_err(|error| ControlError::new(node.name(), "looking at", chain(&error)))?;
                Ok(Some(status.is_alive()))
            }
            Self::Systemd { host, unit } => {
                // It exits with a status of its own for units that do not run.
                let script = format!("systemctl is-active -- {} || :", Host::word(unit));
                let said = run(host, unit, "looking at", &script)?;
                Ok(Some(!NOT_RUNNING.contains(&said.trim())))
            }
            Self::Commands { .. } => Ok(None),
        }
    }
}

/// The position in what `galera_recovery` prints.
pub(crate) fn recovered(said: &str) -> Option<(String, u64)> {
    let (_, position) = said.trim().split_once("--wsrep_start_position=")?;
    let (uuid, seqno) = position.trim().split_once(':')?;
    // What stands behind a comma is the server's own replication domain.
    let seqno = seqno.split(',').next()?.parse().ok()?;
    Some((uuid.to_owned(), seqno))
}

/// Finds the piece of a unit with which it is started as a server of its own; an alias is another unit's name.
fn piece_of_unit(unit: &str) -> String {
    format!(
        "unit=$(systemctl show --property=Id --value -- {}) && [ -n \"$unit\" ] || exit 1; piece=/run/systemd/system/$unit.d/{PIECE}",
        Host::word(unit)
    )
}

/// Starts a unit with further options of the server.
fn standalone_of_unit(unit: &str, words: &str) -> String {
    format!(
        "{}\nmkdir -p -- \"${{piece%/*}}\" && printf '%s\\n' '[Service]' {} >\"$piece\" && systemctl daemon-reload \\\n    && systemctl start -- \"$unit\"",
        piece_of_unit(unit),
        Host::word(&format!("Environment=\"MYSQLD_OPTS={words}\""))
    )
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

    fn commands(start: &str, stop: &str, bootstrap: Option<&str>) -> Control {
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
    fn positions_of_the_script_for_the_unit() {
        let uuid = "befd421d-e706-11f1-bc0a-a7ea195e725e";
        let said = |position: &str| recovered(&format!("--wsrep_start_position={position}\n"));
        assert_eq!(said(&format!("{uuid}:17")), Some((uuid.to_owned(), 17)));
        assert_eq!(
            said(&format!("{uuid}:17,0-1-5")),
            Some((uuid.to_owned(), 17))
        );
        assert_eq!(said(&format!("{uuid}:-1")), None);
        assert_eq!(recovered(""), None);
    }

    #[test]
    fn options_for_one_start() {
        let word = |name: &str, value: &str| StartOption::new(name, value).word();
        assert_eq!(word("wsrep-on", "OFF").as_deref(), Some("--wsrep-on=OFF"));
        assert_eq!(
            StartOption::switch("skip-log-bin").word().as_deref(),
            Some("--skip-log-bin")
        );
        for odd in ["a b", "a\"b", "$x", "", "a;b"] {
            assert_eq!(word("socket", odd), None, "{odd}");
        }
        let script = standalone_of_unit("it's", "--wsrep-on=OFF --port=1");
        assert!(
            script.contains(
                r#"printf '%s\n' '[Service]' 'Environment="MYSQLD_OPTS=--wsrep-on=OFF --port=1"' >"$piece""#
            ),
            "{script}"
        );
        let parsed = std::process::Command::new("sh")
            .args(["-n", "-c", &script])
            .status();
        assert!(parsed.unwrap().success(), "{script}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options");
        let config = ControlConfig {
            start: Some("false".to_owned()),
            stop: Some("true".to_owned()),
            start_standalone: Some(format!(
                "printf '%s|' $REFLOAT_SERVER_OPTIONS >{}",
                file.display()
            )),
            ..ControlConfig::default()
        };
        let none = |_: &str| unreachable!("no node of the sandbox is named");
        let control = Control::of(&config, &Host::Local, none).unwrap().unwrap();
        let options = [StartOption::new("port", "1"), StartOption::switch("x")];
        control.start_standalone(&options).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "--port=1|--x|");
        assert!(control.lacks().unwrap().contains("(bootstrap)"));
        assert!(
            commands("a", "b", None)
                .lacks()
                .unwrap()
                .contains("start_standalone")
        );
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
        commands("false", "true", Some("true"))
            .start(StartAs::First, &[])
            .unwrap();
    }
}
