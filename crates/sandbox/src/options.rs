//! What to start, and which server options may be given.

use serde::{Deserialize, Serialize};

use crate::{Error, Result, ServerKind};

/// Options that keep instances apart, or that would make the server do something other than serve.
const RESERVED: [&str; 17] = [
    "basedir",
    "bind-address",
    "bootstrap",
    "daemonize",
    "datadir",
    "defaults-extra-file",
    "defaults-file",
    "help",
    "initialize",
    "initialize-insecure",
    "log-error",
    "mysqlx",
    "no-defaults",
    "pid-file",
    "port",
    "socket",
    "user",
];

/// Reserved options that a single start of a node may set: a standalone server has an address of
/// its own.
const ELSEWHERE: [&str; 2] = ["port", "socket"];

/// Options that are fixed when a data directory is initialised. A server refuses to change them
/// later.
const AT_INITIALISATION: [&str; 4] = [
    "innodb-checksum-algorithm",
    "innodb-data-file-path",
    "innodb-page-size",
    "lower-case-table-names",
];

/// Which certificates the server has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// What the server makes by itself; on MariaDB 10.11, which makes none, the same as generated.
    ///
    /// MySQL: a self-signed CA and certificate in files. MariaDB 11.8: a certificate in memory, and
    /// no CA file.
    #[default]
    Usual,
    /// A CA of the sandbox, and a certificate for localhost and 127.0.0.1.
    ///
    /// It names `::1` too.
    Generated,
    /// None: the server offers no TLS.
    Off,
}

/// Describes the server to start.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// Which server to start.
    pub kind: ServerKind,
    /// The instance's name. `None`: the name of the kind, with a number appended if it is taken.
    pub name: Option<String>,
    /// Options for the server's command line, in order: name without dashes, and value. Kept for
    /// restarts.
    pub options: Vec<(String, Option<String>)>,
    /// Which certificates the server has.
    pub tls: Tls,
}

impl StartOptions {
    /// A server with its own default settings.
    pub const fn new(kind: ServerKind) -> Self {
        Self {
            kind,
            name: None,
            options: Vec::new(),
            tls: Tls::Usual,
        }
    }

    /// Sets the instance's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds an option with a value to the server's command line.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), Some(value.into())));
        self
    }

    /// Adds an option without a value to the server's command line.
    #[must_use]
    pub fn flag(mut self, key: impl Into<String>) -> Self {
        self.options.push((key.into(), None));
        self
    }

    /// Sets which certificates the server has.
    #[must_use]
    pub const fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }
}

/// Splits `key=value`, or `key`, as typed by a person. Leading dashes are allowed.
///
/// # Errors
/// [`Error::BadOption`] if there is no key; [`Error::ReservedOption`].
pub fn parse_server_option(text: &str) -> Result<(String, Option<String>)> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    let key = key.trim_start_matches("--");
    check_option(key)?;
    Ok((key.to_owned(), value))
}

/// Like [`parse_server_option`], for one start of a node, which may then listen elsewhere.
///
/// # Errors
/// As [`parse_server_option`].
pub fn parse_start_option(text: &str) -> Result<(String, Option<String>)> {
    match parse_server_option(text) {
        Err(Error::ReservedOption { key }) if ELSEWHERE.contains(&plain_name(&key).as_str()) => {
            let value = text.split_once('=').map(|(_, value)| value.to_owned());
            Ok((key, value))
        }
        other => other,
    }
}

/// Rejects text that is not an option name, and options that the sandbox sets itself.
pub fn check_option(key: &str) -> Result<()> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !key.starts_with(|c: char| c.is_ascii_alphanumeric()) || !key.chars().all(word) {
        return Err(Error::BadOption {
            text: key.to_owned(),
        });
    }
    let plain = plain_name(key);
    // Servers accept any unambiguous prefix of an option's name.
    if RESERVED
        .iter()
        .any(|reserved| reserved.starts_with(plain.as_str()))
    {
        return Err(Error::ReservedOption {
            key: key.to_owned(),
        });
    }
    Ok(())
}

/// The options that must be set when a data directory is initialised.
pub fn for_initialisation(options: &[(String, Option<String>)]) -> Vec<(String, Option<String>)> {
    options
        .iter()
        .map(|(key, value)| (plain_name(key), value.clone()))
        .filter(|(key, _)| AT_INITIALISATION.contains(&key.as_str()))
        .collect()
}

/// The option as a single command-line argument.
pub fn argument(key: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("--{key}={value}"),
        None => format!("--{key}"),
    }
}

/// The name in the form that the server looks up: dashes for underscores, without `loose-`.
pub fn plain_name(key: &str) -> String {
    let name = key.replace('_', "-").to_ascii_lowercase();
    name.strip_prefix("loose-")
        .map_or(name.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_split_at_the_first_equals_sign() {
        let parsed = parse_server_option("init_connect=SET @a=1").unwrap();
        assert_eq!(
            parsed,
            ("init_connect".to_owned(), Some("SET @a=1".to_owned()))
        );
        assert_eq!(
            parse_server_option("--log-bin").unwrap(),
            ("log-bin".to_owned(), None)
        );
        for bad in ["", "=1", "a b=1", "-x", "--"] {
            assert!(
                matches!(parse_server_option(bad), Err(Error::BadOption { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn what_keeps_instances_apart_cannot_be_given() {
        for bad in [
            "datadir=/x",
            "--datad=/x",
            "pid_file=/x",
            "LOOSE_port=1",
            "defaults-file=/x",
            "user=root",
        ] {
            assert!(
                matches!(parse_server_option(bad), Err(Error::ReservedOption { .. })),
                "{bad}"
            );
        }
        assert!(parse_server_option("port-open-timeout=1").is_ok());
        assert!(parse_start_option("--datadir=/x").is_err());
        assert_eq!(
            parse_start_option("--port=1").unwrap(),
            ("port".to_owned(), Some("1".to_owned()))
        );
    }

    #[test]
    fn options_of_the_data_directory_are_known_in_every_spelling() {
        let options = [
            ("lower_case_table_names".to_owned(), Some("1".to_owned())),
            ("max_connections".to_owned(), Some("9".to_owned())),
        ];
        let found = for_initialisation(&options);
        assert_eq!(
            found,
            [("lower-case-table-names".to_owned(), Some("1".to_owned()))]
        );
    }
}
