//! Starting a node standalone, with options for that one start.

use serde::{Deserialize, Serialize};

use super::{COMMAND, Control, run};
use crate::error::ControlError;
use crate::host::Host;

/// Drop-in for starting a unit standalone. The units of MariaDB and MySQL pass `MYSQLD_OPTS` to the
/// server. Drop-ins with alphabetically later names win.
const PIECE: &str = "zz-refloat-standalone.conf";

/// A server option for one start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOption {
    /// Name, without the leading dashes.
    pub name: String,
    /// Value. `None`: the option takes none.
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

    /// An option without a value.
    pub fn switch(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: None,
        }
    }

    /// The option as one word of a command line. `None`: it has characters that units or shells
    /// interpret.
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

impl Control {
    /// What is missing to start the node standalone and to bootstrap a cluster from it. `None`:
    /// nothing.
    pub fn lacks(&self) -> Option<&'static str> {
        match self {
            Self::Commands {
                standalone: None, ..
            } => {
                Some("no command is given that starts it as a standalone server (start_standalone)")
            }
            Self::Commands {
                bootstrap: None, ..
            } => Some("no command is given that bootstraps a cluster (bootstrap)"),
            _ => None,
        }
    }

    /// Starts the node standalone, with these options after all others. The caller checks that the
    /// options are in force.
    ///
    /// A systemd unit gets them in a drop-in under `/run`, so that a server that crashes does not
    /// restart as a member. [`Self::end_standalone`] or a reboot removes the drop-in. Commands find
    /// the options in `REFLOAT_SERVER_OPTIONS`.
    ///
    /// # Errors
    /// [`ControlError`] with the reason.
    pub fn start_standalone(&self, options: &[StartOption]) -> Result<(), ControlError> {
        let words = |what: &str| -> Result<String, ControlError> {
            let words: Option<Vec<String>> = options.iter().map(StartOption::word).collect();
            words.map(|words| words.join(" ")).ok_or_else(|| {
                let reason = "an option has a character that cannot be handed over".to_owned();
                ControlError::new(what, "starting", reason)
            })
        };
        match self {
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

    /// Removes what [`Self::start_standalone`] left for later starts. It is no error if there is
    /// nothing to remove.
    ///
    /// # Errors
    /// [`ControlError`] with the reason.
    pub fn end_standalone(&self) -> Result<(), ControlError> {
        match self {
            Self::Systemd { host, unit } => {
                let script = format!(
                    "{}; [ ! -e \"$piece\" ] || {{ rm -f -- \"$piece\" && systemctl daemon-reload; }}",
                    piece_of_unit(unit)
                );
                run(host, unit, "taking the options back of", &script).map(drop)
            }
            Self::Commands { .. } => Ok(()),
        }
    }
}

/// A command that finds the drop-in for starting a unit standalone. An alias counts as the unit it
/// points to.
fn piece_of_unit(unit: &str) -> String {
    format!("{} || exit 1", piece_called(unit, PIECE))
}

/// A command that sets `$piece` to the path of a unit's drop-in of this name, and `$unit` to the
/// unit's own name.
pub(super) fn piece_called(unit: &str, name: &str) -> String {
    format!(
        "unit=$(systemctl show --property=Id --value -- {}) && [ -n \"$unit\" ] && piece=/run/systemd/system/$unit.d/{name}",
        Host::word(unit)
    )
}

/// A command that starts a unit with further server options.
fn standalone_of_unit(unit: &str, words: &str) -> String {
    format!(
        "{}\nmkdir -p -- \"${{piece%/*}}\" && printf '%s\\n' '[Service]' {} >\"$piece\" && systemctl daemon-reload \\\n    && systemctl start -- \"$unit\"",
        piece_of_unit(unit),
        Host::word(&format!("Environment=\"MYSQLD_OPTS={words}\""))
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::commands;
    use super::*;
    use crate::ControlConfig;

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
        let control = Control::of(&config, &Host::Local).unwrap();
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
}
