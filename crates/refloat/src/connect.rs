//! How every command is told which server to talk to: a URL, and the options and files that people know from the
//! stock clients.
//!
//! What is said more closely wins: URL, then options, then environment, then option files. A URL that names a host is
//! never led elsewhere by a `socket` or `port` in an option file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::exit::ProgramError;

/// `--to URL` and everything about the connection.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct TargetArgs {
    /// The server to work on
    ///
    /// mysql://USER@HOST:PORT/ or mariadb://USER@HOST:PORT/, with options after a question mark:
    /// ?socket=PATH for a unix socket, ?ssl-mode=MODE. An IPv6 address goes in brackets. Characters such as @ or / in a
    /// user name are written percent-encoded. A password in the URL is refused: it would show in the process list.
    #[arg(long = "to", value_name = "URL")]
    pub to: String,

    #[command(flatten)]
    pub options: ConnectArgs,
}

/// Connection options that are the same for every command and every URL.
#[derive(Debug, Clone, Default, Args)]
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

    /// How far TLS is used and the server's certificate is checked
    #[arg(long, value_name = "MODE", value_enum)]
    pub ssl_mode: Option<SslMode>,

    /// File of the certificate authorities to trust, in PEM form
    #[arg(long, value_name = "FILE")]
    pub ssl_ca: Option<PathBuf>,

    /// File of the client's own certificate, in PEM form
    #[arg(long, value_name = "FILE", requires = "ssl_key")]
    pub ssl_cert: Option<PathBuf>,

    /// File of the key that belongs to --ssl-cert, in PEM form
    #[arg(long, value_name = "FILE", requires = "ssl_cert")]
    pub ssl_key: Option<PathBuf>,
}

/// The modes that the stock clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SslMode {
    /// Never use TLS
    Disabled,
    /// Use TLS where the server has it, without checking its certificate
    Preferred,
    /// Insist on TLS, without checking the certificate
    Required,
    /// Insist on TLS and on a certificate of an authority that is trusted
    VerifyCa,
    /// As verify-ca, and the certificate must name the host
    VerifyIdentity,
}

/// Refuses a URL of the command line that carries a password, without repeating it.
///
/// # Errors
/// [`ProgramError`] with the exit code for usage errors.
pub fn refuse_password_in_url(url: &str) -> Result<(), ProgramError> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = &authority[..authority.find(['/', '?']).unwrap_or(authority.len())];
    let in_user_part = authority
        .rsplit_once('@')
        .is_some_and(|(user, _)| user.contains(':'));
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let in_query = query.split(['&', ';']).any(|pair| {
        let name = pair.split('=').next().unwrap_or("").to_ascii_lowercase();
        matches!(name.as_str(), "password" | "passwd" | "pwd" | "pass")
    });
    if !in_user_part && !in_query {
        return Ok(());
    }
    Err(ProgramError::usage("a password in a URL on the command line is refused: everybody on this machine could read it")
        .hint("Leave it out of the URL and put it in ~/.my.cnf (`[client]`, `password=…`, mode 600), in the environment variable MYSQL_PWD, or give --ask-password."))
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
            "mariadb://h/?password=x",
            "mysql://u@h/?a=b&PWD=x",
            "u:p@h",
        ] {
            let error = refuse_password_in_url(url).expect_err(url).to_string();
            assert!(!error.contains(url), "{error}");
        }
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
