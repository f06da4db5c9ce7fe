//! Determines the server a command works on, from a URL and the options and option files of the
//! stock clients.
//!
//! The more specific setting wins: URL, then options, then option files, then environment. If a URL
//! names a host, a `socket` or `port` in an option file never leads elsewhere.

mod ask;

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use refloat_wire::options::{ParsedUrl, UrlError, load_option_files, user_info};
use refloat_wire::{ConnectOptions, Secret, SslMode};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::exit::ProgramError;

/// URL parameters from which other programs take a password, in lower case.
pub const PASSWORD_KEYS: &[&str] = &["password", "passwd", "pwd", "pass"];
/// Hint for a delimiter in the wrong place.
const PERCENT_HINT: &str =
    "In names of users and databases write / as %2F, ? as %3F, @ as %40 and : as %3A.";

/// `--to URL` and everything about the connection.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct TargetArgs {
    /// The server to work on
    ///
    /// mysql://USER@HOST:PORT/ or mariadb://USER@HOST:PORT/, with options after a question mark:
    /// ?socket=PATH for a unix socket, ?ssl-mode=MODE. An IPv6 address goes in brackets. Characters
    /// such as @ or / in a user name are written percent-encoded. A password in the URL is refused:
    /// it would show in the process list.
    #[arg(long = "to", value_name = "URL")]
    pub to: String,

    #[command(flatten)]
    pub options: ConnectArgs,
}

/// `--from URL` and everything about the connection.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct SourceArgs {
    /// The server to read
    ///
    /// mysql://USER@HOST:PORT/ or mariadb://USER@HOST:PORT/, with options after a question mark:
    /// ?socket=PATH for a unix socket, ?ssl-mode=MODE. A password in the URL is refused: it would
    /// show in the process list.
    #[arg(long = "from", value_name = "URL")]
    pub from: String,

    #[command(flatten)]
    pub options: ConnectArgs,
}

impl ConnectArgs {
    /// The options that were given, as written on a command line.
    pub fn given(&self) -> Vec<(&'static str, Option<String>)> {
        let mut given = Vec::new();
        let paths = [
            ("defaults-file", &self.defaults_file),
            ("defaults-extra-file", &self.defaults_extra_file),
            ("ssl-ca", &self.ssl_ca),
            ("ssl-cert", &self.ssl_cert),
            ("ssl-key", &self.ssl_key),
        ];
        for (flag, path) in paths {
            if let Some(path) = path {
                given.push((flag, Some(path.display().to_string())));
            }
        }
        if let Some(mode) = self.ssl_mode {
            given.push(("ssl-mode", Some(mode.to_string())));
        }
        for (flag, is_set) in [
            ("no-defaults", self.no_defaults),
            ("ask-password", self.ask_password),
        ] {
            if is_set {
                given.push((flag, None));
            }
        }
        given
    }

    /// Whether the user must type a password.
    pub const fn asks_for_password(&self) -> bool {
        self.ask_password
    }
}

impl SourceArgs {
    /// The connection options that result from `--from` and the related flags.
    ///
    /// # Errors
    /// As for [`TargetArgs::resolve`].
    pub fn resolve(&self, context: &Context) -> anyhow::Result<ConnectOptions> {
        self.options.resolve_flag("--from", &self.from, context)
    }
}

/// Connection options that are the same for every command and every URL.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Read only this option file, in place of /etc/my.cnf, ~/.my.cnf and the others
    #[arg(long, value_name = "FILE", conflicts_with = "no_defaults")]
    pub defaults_file: Option<PathBuf>,

    /// Read this option file too, after the global ones and before ~/.my.cnf
    #[arg(long, value_name = "FILE", conflicts_with = "no_defaults")]
    pub defaults_extra_file: Option<PathBuf>,

    /// Read no option file at all
    #[arg(long)]
    pub no_defaults: bool,

    /// Ask for the password on the terminal, without showing it
    #[arg(long)]
    pub ask_password: bool,

    /// Whether to use TLS, and how far to check the server's certificate
    #[arg(long, value_name = "MODE", value_enum, ignore_case = true)]
    #[serde(with = "crate::as_text")]
    pub ssl_mode: Option<SslMode>,

    /// PEM file of the certificate authorities to trust
    #[arg(long, value_name = "FILE")]
    pub ssl_ca: Option<PathBuf>,

    /// PEM file of the client's own certificate
    #[arg(long, value_name = "FILE", requires = "ssl_key")]
    pub ssl_cert: Option<PathBuf>,

    /// PEM file of the key for --ssl-cert
    #[arg(long, value_name = "FILE", requires = "ssl_cert")]
    pub ssl_key: Option<PathBuf>,
}

impl TargetArgs {
    /// The connection options that result from `--to` and the related flags.
    ///
    /// # Errors
    /// The URL is invalid or contains a password, an option file cannot be read, or there is no
    /// terminal to ask for a password.
    pub fn resolve(&self, context: &Context) -> anyhow::Result<ConnectOptions> {
        self.options.resolve(&self.to, context)
    }
}

impl ConnectArgs {
    /// The connection options that result from `url` and these options: URL, then options, then
    /// option files, then environment.
    ///
    /// # Errors
    /// As for [`TargetArgs::resolve`].
    pub fn resolve(&self, url: &str, context: &Context) -> anyhow::Result<ConnectOptions> {
        self.resolve_flag("--to", url, context)
    }

    /// Like [`Self::resolve`], for the URL of another flag.
    ///
    /// # Errors
    /// As for [`TargetArgs::resolve`].
    pub fn resolve_flag(
        &self,
        flag: &str,
        url: &str,
        context: &Context,
    ) -> anyhow::Result<ConnectOptions> {
        refuse_password_in_url(url)?;
        let parsed = ParsedUrl::parse(url).map_err(|error| {
            let form = "Write it as mysql://USER@HOST:PORT/ or, for a unix socket, mysql://USER@localhost/?socket=PATH";
            ProgramError::usage(format!("{flag}: {error}")).hint(match error {
                UrlError::Delimiter => PERCENT_HINT,
                _ => form,
            })
        })?;
        // A password in an option file wins, as in both vendors' stock clients, whose library uses
        // MYSQL_PWD only if no password was given otherwise.
        let mut options = ConnectOptions {
            password: context.mysql_pwd().map(|text| Secret::new(text.as_bytes())),
            ..ConnectOptions::default()
        };
        if !self.no_defaults {
            load_option_files(
                self.defaults_file.as_deref(),
                self.defaults_extra_file.as_deref(),
                context.home(),
                None,
            )
            .and_then(|files| files.apply(&mut options))
            .context("cannot use the option files")?;
        }
        self.set_flags(&mut options);
        set_url(url, &parsed.options, &mut options);
        if options.user.is_empty()
            && let Some(user) = context.login()
        {
            user.clone_into(&mut options.user);
        }
        if self.ask_password {
            let prompt = format!("Password for {}: ", options.describe());
            options.password = Some(ask::password(&prompt).context("cannot ask for the password")?);
        }
        Ok(options)
    }

    /// Applies the flags.
    fn set_flags(&self, options: &mut ConnectOptions) {
        for (flag, place) in [
            (&self.ssl_ca, &mut options.ssl_ca),
            (&self.ssl_cert, &mut options.ssl_cert),
            (&self.ssl_key, &mut options.ssl_key),
        ] {
            if flag.is_some() {
                place.clone_from(flag);
            }
        }
        if let Some(mode) = self.ssl_mode {
            options.ssl_mode = mode;
        } else if self.ssl_ca.is_some() {
            // As in the stock clients: naming a CA means that the certificate is to be verified.
            options.ssl_mode = options.ssl_mode.max(SslMode::VerifyCa);
        }
    }
}

/// Applies the URL. An address in it counts as a whole: no option file can lead to another server.
fn set_url(url: &str, from_url: &ConnectOptions, options: &mut ConnectOptions) {
    if from_url.host.is_some() || from_url.port.is_some() || from_url.socket.is_some() {
        options.host.clone_from(&from_url.host);
        options.port = from_url.port;
        options.socket.clone_from(&from_url.socket);
    }
    if !from_url.user.is_empty() {
        options.user.clone_from(&from_url.user);
    }
    options.database.clone_from(&from_url.database);
    let named = |key: &str| url_names(url, key);
    if named("ssl-mode") || named("sslmode") || named("ssl-ca") {
        options.ssl_mode = from_url.ssl_mode;
    }
    for (place, value) in [
        (&mut options.ssl_ca, &from_url.ssl_ca),
        (&mut options.ssl_cert, &from_url.ssl_cert),
        (&mut options.ssl_key, &from_url.ssl_key),
    ] {
        if value.is_some() {
            place.clone_from(value);
        }
    }
    if named("connect-timeout") {
        options.connect_timeout = from_url.connect_timeout;
    }
    options.read_timeout = from_url.read_timeout.or(options.read_timeout);
    options.write_timeout = from_url.write_timeout.or(options.write_timeout);
    options.max_allowed_packet = from_url.max_allowed_packet.or(options.max_allowed_packet);
    if named("get-server-public-key") {
        options.get_server_public_key = from_url.get_server_public_key;
    }
}

/// Whether the query part of `url` has `key`, spelled with dashes or underscores.
fn url_names(url: &str, key: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query
        .split('&')
        .any(|pair| pair.split('=').next().unwrap_or("").replace('_', "-") == key)
}

/// Refuses a command-line URL that contains a password, without repeating it.
///
/// # Errors
/// [`ProgramError`] with the exit code for usage errors.
pub fn refuse_password_in_url(url: &str) -> Result<(), ProgramError> {
    let in_user_part = user_info(url)
        .map(|info| &url[info])
        .filter(|info| info.contains(':'));
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let in_query = query.split(['&', ';']).any(|pair| {
        let name = pair.split('=').next().unwrap_or("");
        PASSWORD_KEYS
            .iter()
            .any(|key| name.eq_ignore_ascii_case(key))
    });
    if in_user_part.is_none() && !in_query {
        return Ok(());
    }
    let error = ProgramError::usage("a password in a URL on the command line is refused: everybody on this machine could read it")
        .hint("Leave it out of the URL and put it in ~/.my.cnf (`[client]`, `password=…`, mode 600), in the environment variable MYSQL_PWD, or give --ask-password.");
    // `h:3306/a@b` is most likely an address and a database, but could just as well contain a
    // password. So it is refused, with a hint.
    Err(match in_user_part {
        Some(info) if info.contains(['/', '?']) => error.hint(PERCENT_HINT),
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_a_password_are_refused() {
        for url in [
            "mysql://u:p@h/",
            "mysql://u:@h",
            "mysql://u:a@b@h/",
            "mysql://u:a/b@h/",
            "mysql://u:12/b@127.0.0.1/",
            "mysql://u:a?b@h/",
            "mysql://u:a/b@c?d@h/",
            "u:a/b@h",
            "mariadb://h/?password=x",
            "mysql://u@h/?a=b&PWD=x",
            "u:p@h",
        ] {
            let error = refuse_password_in_url(url).expect_err(url).to_string();
            assert!(!error.contains(url), "{error}");
        }
    }

    #[test]
    fn modes_of_tls_are_read_as_the_mysql_clients_write_them() {
        for word in [
            "REQUIRED",
            "required",
            "VERIFY_CA",
            "verify-ca",
            "VERIFY_IDENTITY",
        ] {
            let read = <SslMode as clap::ValueEnum>::from_str(word, true);
            assert!(read.is_ok(), "{word}");
        }
    }

    /// The options for `url` with these flags, on top of what an option file has set.
    fn resolved(url: &str, flags: &ConnectArgs, from_file: ConnectOptions) -> ConnectOptions {
        let mut options = from_file;
        flags.set_flags(&mut options);
        set_url(
            url,
            &ParsedUrl::parse(url).expect("the URL is good").options,
            &mut options,
        );
        options
    }

    #[test]
    fn the_url_wins_over_flags_and_flags_over_files() {
        let flags = ConnectArgs {
            ssl_mode: Some(SslMode::Required),
            ssl_ca: Some("flag.pem".into()),
            ..ConnectArgs::default()
        };
        let file = || ConnectOptions {
            user: "file".to_owned(),
            ssl_mode: SslMode::Disabled,
            ssl_ca: Some("file.pem".into()),
            ssl_cert: Some("file-cert.pem".into()),
            ..ConnectOptions::default()
        };
        let options = resolved("mysql://h/", &flags, file());
        assert_eq!(options.user, "file");
        assert_eq!(options.ssl_mode, SslMode::Required);
        assert_eq!(options.ssl_ca, Some("flag.pem".into()));
        assert_eq!(options.ssl_cert, Some("file-cert.pem".into()));
        let options = resolved(
            "mysql://u@h/?ssl_mode=disabled&ssl-ca=url.pem",
            &flags,
            file(),
        );
        assert_eq!(options.user, "u");
        assert_eq!(options.ssl_mode, SslMode::Disabled);
        assert_eq!(options.ssl_ca, Some("url.pem".into()));
        let options = resolved("mysql://u@h/", &ConnectArgs::default(), file());
        assert_eq!(options.ssl_mode, SslMode::Disabled);
    }

    #[test]
    fn an_option_file_never_leads_a_url_to_another_server() {
        let file = || ConnectOptions {
            host: Some("other".to_owned()),
            port: Some(3399),
            socket: Some("/run/other.sock".into()),
            ..ConnectOptions::default()
        };
        let target = |url| {
            resolved(url, &ConnectArgs::default(), file())
                .target()
                .to_string()
        };
        assert_eq!(target("mysql://db1/"), "db1:3306");
        assert_eq!(target("mysql://127.0.0.1:3307/"), "127.0.0.1:3307");
        assert_eq!(target("mysql://localhost:3307/"), "localhost:3307");
        assert_eq!(
            target("mysql://u@/?socket=/run/mine.sock"),
            "/run/mine.sock"
        );
        assert_eq!(target("mysql://"), "other:3399");
    }

    #[test]
    fn urls_without_one_pass() {
        for url in [
            "mysql://u@h:3306/db",
            "mysql://[::1]:3306/",
            "mysql://u@[fe80::1]/",
            "mysql://h/?socket=/run/a:b@c.sock",
            "mysql://",
        ] {
            assert!(refuse_password_in_url(url).is_ok(), "{url}");
        }
    }
}
