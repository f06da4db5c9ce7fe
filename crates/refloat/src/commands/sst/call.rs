//! A server's call for a transfer: its arguments, and the secrets that it passes in other ways.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use refloat_physical::sst::{Caller, Settings};

/// The end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Joiner,
    Donor,
}

impl Role {
    /// As the server spells it after `--role`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joiner => "joiner",
            Self::Donor => "donor",
        }
    }
}

/// A server's call for a transfer.
#[derive(Debug, Clone)]
pub struct Call {
    pub role: Role,
    pub caller: Caller,
    /// Joiner: where to listen. Donor: the address and parameters that the joiner printed.
    pub address: String,
    pub datadir: PathBuf,
    /// Passed by Percona's servers. Empty: not passed.
    pub basedir: PathBuf,
    /// The version of the server, if passed (by Percona's servers).
    pub version: Option<String>,
    /// The process of the server. Not passed to donors.
    pub parent: Option<u32>,
    pub socket: Option<PathBuf>,
    /// `UUID:SEQNO`.
    pub gtid: Option<String>,
    pub domain: u32,
    /// The joiner gets write-sets instead of a copy.
    pub bypass: bool,
    /// Whether the server wants progress reports.
    pub progress: bool,
    pub binlog: Option<PathBuf>,
    pub binlog_index: Option<PathBuf>,
    /// Options that name the server's option files.
    pub defaults: Vec<String>,
    /// The server's own arguments.
    pub words: Vec<String>,
}

/// Only Percona's servers pass this. `MariaDB` passes the server's own arguments instead.
const OF_PERCONA: &str = "--mysqld-version";

/// The vendor of the server that passes these arguments.
pub fn caller(words: &[String]) -> Caller {
    if words.iter().any(|word| word == OF_PERCONA) {
        Caller::Percona
    } else {
        Caller::MariaDb
    }
}

impl Call {
    /// Parses the arguments. Unknown ones are ignored.
    ///
    /// # Errors
    /// A required one is missing.
    pub fn parse(words: &[String]) -> anyhow::Result<Self> {
        let of_server = words.iter().position(|word| word == "--mysqld-args");
        let (words, server) = words.split_at(of_server.unwrap_or(words.len()));
        let value = |name: &str| {
            let at = words.iter().position(|word| word == name)?;
            words.get(at + 1).map(|value| value.trim().to_owned())
        };
        let needed = |name: &str| value(name).with_context(|| format!("there is no {name}"));
        let role = match needed("--role")?.as_str() {
            "joiner" => Role::Joiner,
            "donor" => Role::Donor,
            other => bail!("unknown role {other:?}"),
        };
        let defaults = [
            "--defaults-file",
            "--defaults-extra-file",
            "--defaults-group-suffix",
        ];
        let defaults = defaults
            .iter()
            .filter_map(|name| Some((name, value(name).filter(|value| !value.is_empty())?)))
            .map(|(name, value)| format!("{name}={value}"));
        let path = |names: [&str; 2]| {
            let found = names.iter().find_map(|name| value(name));
            found.filter(|path| !path.is_empty()).map(PathBuf::from)
        };
        let version = value(OF_PERCONA);
        Ok(Self {
            role,
            caller: caller(words),
            version,
            basedir: path(["--basedir", "--basedir"]).unwrap_or_default(),
            address: needed("--address")?,
            datadir: PathBuf::from(needed("--datadir")?),
            parent: value("--parent").and_then(|text| text.parse().ok()),
            socket: path(["--socket", "--socket"]),
            gtid: value("--gtid"),
            domain: value("--gtid-domain-id")
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            bypass: words.iter().any(|word| word == "--bypass"),
            progress: value("--progress").is_some_and(|text| text != "0"),
            binlog: path(["--binlog", "--log-bin"]),
            binlog_index: path(["--binlog-index", "--log-bin-index"]),
            defaults: defaults.collect(),
            words: server.iter().skip(1).cloned().collect(),
        })
    }
}

/// What a donor's server does not pass as arguments, which anybody could read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    pub user: Option<String>,
    pub password: Option<String>,
    /// The secret of the transfer, chosen by the joiner.
    pub transfer: String,
}

impl Secrets {
    /// Reads them from the environment (10.11) or from standard input (11.8). The account may also
    /// be in the option files.
    pub fn read(settings: &Settings) -> anyhow::Result<Self> {
        let var = |name: &str| std::env::var(name).ok();
        let mut found = match var("WSREP_SST_OPT_REMOTE_AUTH") {
            Some(remote) => {
                Self::of_variables(&remote, &var("WSREP_SST_OPT_AUTH").unwrap_or_default())
            }
            None if std::io::stdin().is_terminal() => Self::default(),
            None => {
                let lines = std::io::stdin().lock().lines();
                let lines: Vec<String> = lines
                    .collect::<Result<_, _>>()
                    .context("cannot read what the server says")?;
                Self::of_lines(&lines)
            }
        };
        if found.user.is_none() {
            let auth = settings.of_sst("wsrep-sst-auth").unwrap_or_default();
            (found.user, found.password) = account(auth);
        }
        if found.user.is_none() {
            found.user = settings.of_sst("user").map(str::to_owned);
            found.password = settings.of_sst("password").map(str::to_owned);
        }
        Ok(found)
    }

    fn of_variables(remote: &str, auth: &str) -> Self {
        let (user, password) = account(auth);
        Self {
            user,
            password,
            transfer: account(remote).1.unwrap_or_default(),
        }
    }

    fn of_lines(lines: &[String]) -> Self {
        let value = |name: &str| {
            let found = lines.iter().find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key == name).then(|| value.to_owned())
            });
            found.filter(|value| !value.is_empty())
        };
        Self {
            user: value("sst_user"),
            password: value("sst_password"),
            transfer: value("sst_remote_password").unwrap_or_default(),
        }
    }
}

/// Splits `user:password`. Servers write `(null)` for a missing part.
fn account(text: &str) -> (Option<String>, Option<String>) {
    let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    match text.split_once(':') {
        _ if text == "(null)" => (None, None),
        Some((user, password)) => (known(user), known(password)),
        None => (known(text), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_server_calls_its_joiner_and_its_donor() {
        let joiner = "--role joiner --address 10.0.0.2:4444 --datadir /d/ --defaults-file /f \
            --defaults-group-suffix .1 --parent 7 --progress 0 --binlog mysql-bin \
            --mysqld-args --role=no --socket /x";
        let call = Call::parse(&words(joiner)).unwrap();
        assert_eq!(
            (call.role, call.bypass, call.progress),
            (Role::Joiner, false, false)
        );
        assert_eq!(call.address, "10.0.0.2:4444");
        assert_eq!(
            call.defaults,
            ["--defaults-file=/f", "--defaults-group-suffix=.1"]
        );
        assert_eq!(call.parent, Some(7));
        assert_eq!((call.binlog, call.socket), (Some("mysql-bin".into()), None));
        assert_eq!(call.words, ["--role=no", "--socket", "/x"]);
        let donor = "--role donor --address 10.0.0.2:4444/refloat/1 --local-port 3306 --socket /s \
            --progress 1 --datadir /d --gtid a:1 --gtid-domain-id 9 --bypass";
        let call = Call::parse(&words(donor)).unwrap();
        assert_eq!(
            (call.role, call.bypass, call.progress),
            (Role::Donor, true, true)
        );
        assert_eq!((call.domain, call.gtid.as_deref()), (9, Some("a:1")));
        assert_eq!(call.socket, Some("/s".into()));
        for (text, why) in [
            ("--role both --address a --datadir /d", "unknown role"),
            ("--role donor --datadir /d", "no --address"),
        ] {
            let error = Call::parse(&words(text)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_server_of_perconas_calls_its_joiner_and_its_donor() {
        // As the shell passes it on: values in quotation marks, some of them empty.
        let word = |words: &[&str]| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        let joiner = word(&[
            "--role",
            "joiner",
            "--address",
            "10.0.0.2",
            "--datadir",
            "/d/",
            "--basedir",
            "/usr/",
            "--plugindir",
            "/p/",
            "--defaults-file",
            "/f",
            "--defaults-group-suffix",
            "",
            "--parent",
            "7",
            "--mysqld-version",
            "8.4.3-3.1",
            "--binlog",
            "binlog",
        ]);
        let call = Call::parse(&joiner).unwrap();
        assert_eq!((call.caller, call.role), (Caller::Percona, Role::Joiner));
        assert_eq!(call.version.as_deref(), Some("8.4.3-3.1"));
        assert_eq!((call.parent, call.progress), (Some(7), false));
        assert_eq!(call.defaults, ["--defaults-file=/f"]);
        assert_eq!(
            (call.basedir, call.binlog),
            ("/usr/".into(), Some("binlog".into()))
        );
        let donor = word(&[
            "--role",
            "donor",
            "--address",
            "10.0.0.2:4444/refloat/1/tls/00ff",
            "--socket",
            "/s",
            "--datadir",
            "/d/",
            "--basedir",
            "/usr/",
            "--plugindir",
            "/p/",
            "--defaults-file",
            "",
            "--defaults-group-suffix",
            "",
            "--mysqld-version",
            "8.0.41-32.1",
            "",
            "",
            "--gtid",
            "a:1",
            "--bypass",
        ]);
        let call = Call::parse(&donor).unwrap();
        assert_eq!((call.caller, call.role), (Caller::Percona, Role::Donor));
        assert_eq!((call.binlog, call.parent), (None, None));
        assert_eq!((call.bypass, call.defaults.len()), (true, 0));
        let lines = word(&["sst_user=mysql.pxc.sst.user", "sst_password=yx9!A-q="]);
        let secrets = Secrets::of_lines(&lines);
        assert_eq!(secrets.user.as_deref(), Some("mysql.pxc.sst.user"));
        assert_eq!(secrets.password.as_deref(), Some("yx9!A-q="));
        assert_eq!(secrets.transfer, "");
    }

    #[test]
    fn secrets_come_by_either_way() {
        let wanted = |user: Option<&str>| Secrets {
            user: user.map(str::to_owned),
            password: user.map(|_| "p:w".to_owned()),
            transfer: "00ff".to_owned(),
        };
        assert_eq!(
            Secrets::of_variables("refloat:00ff", "sst:p:w"),
            wanted(Some("sst"))
        );
        assert_eq!(
            Secrets::of_variables("refloat:00ff", "(null)"),
            wanted(None)
        );
        let lines =
            "sst_user=sst\nsst_password=p:w\nsst_remote_user=refloat\nsst_remote_password=00ff";
        let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        assert_eq!(Secrets::of_lines(&lines), wanted(Some("sst")));
    }
}
