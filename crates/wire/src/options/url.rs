//! Parses URLs such as `mysql://user@host:port/database?key=value`.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use super::{ConnectOptions, SslMode};
use crate::secret::Secret;

/// Why a URL is not a valid server address. No variant repeats the URL, which may contain a
/// password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It starts with neither `mysql://` nor `mariadb://`.
    #[error("the URL must start with mysql:// or mariadb://")]
    Scheme,
    /// The port is not a number from 1 to 65535.
    #[error("the port in the URL is no number between 1 and 65535")]
    Port,
    /// A `%` without two hexadecimal digits after it, or bytes that are not UTF-8.
    #[error(
        "the URL has a percent sign that is not followed by two hexadecimal digits, or it does not decode to UTF-8"
    )]
    Percent,
    /// An IPv6 address lacks its closing `]`.
    #[error("the URL has an IPv6 address without its closing bracket")]
    Bracket,
    /// An unknown key. The error names the key, not its value.
    #[error("unknown option {0:?} in the URL")]
    UnknownKey(String),
    /// A value that is invalid for its key.
    #[error("the option {key:?} in the URL: {reason}")]
    Value {
        /// The key, as written in the URL.
        key: String,
        /// The values that it accepts.
        reason: String,
    },
    /// A raw delimiter before the last `@`, which makes the start of the server's address
    /// ambiguous.
    #[error(
        "the URL has a raw / or ? before an @, so that it cannot be told where the server's address begins"
    )]
    Delimiter,
    /// The URL gives both a host and a socket.
    #[error("the URL names both a host and a socket: which of the two servers is meant?")]
    HostAndSocket,
    /// The URL contains a password, which any process list would show.
    #[error(
        "the URL holds a password, which others on this machine can read; give it in an option file, in MYSQL_PWD or with --ask-password"
    )]
    Password,
}

/// Keys whose values are paths: an `@` in them does not end an account name.
const PATH_KEYS: &[&str] = &["socket", "ssl-ca", "ssl-cert", "ssl-key"];

/// The range of user name and password in a URL: up to the last `@`, raw delimiters included. In
/// `root:a/b?c@db1`, the user meant a password, although the URL is then invalid.
///
/// An `@` in the path of a key such as `socket` does not count. The scheme may be missing.
pub fn user_info(url: &str) -> Option<Range<usize>> {
    let start = match url.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => scheme.len() + 3,
        _ => 0,
    };
    url[start..]
        .rmatch_indices('@')
        .map(|(at, _)| start + at)
        .find(|end| !in_path_value(&url[start..*end]))
        .map(|end| start..end)
}

/// Whether `before` ends within the value of a key that takes a path.
fn in_path_value(before: &str) -> bool {
    let Some((_, query)) = before.split_once('?') else {
        return false;
    };
    let pair = query.rsplit('&').next().unwrap_or(query);
    let key = pair.split_once('=').map(|(key, _)| key.replace('_', "-"));
    key.is_some_and(|key| PATH_KEYS.contains(&key.as_str()))
}

/// A parsed URL. The caller decides whether to accept a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedUrl {
    /// The options from the URL, with its password, if any.
    pub options: ConnectOptions,
    /// Whether the URL contained a password.
    pub has_password: bool,
}

impl ParsedUrl {
    /// Parses a URL. User, password, host and database are percent-decoded; an IPv6 address needs
    /// brackets. The keys are `socket`, `ssl-mode`, `ssl-ca`, `ssl-cert`, `ssl-key`,
    /// `connect-timeout`, `read-timeout`, `write-timeout` (seconds), `get-server-public-key` and
    /// `max-allowed-packet` (bytes), with dashes or underscores.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
        if !["mysql", "mariadb"]
            .iter()
            .any(|s| scheme.eq_ignore_ascii_case(s))
        {
            return Err(UrlError::Scheme);
        }
        if user_info(url).is_some_and(|info| url[info].contains(['/', '?'])) {
            return Err(UrlError::Delimiter);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (account, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match account.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (account, None),
        };
        let mut options = ConnectOptions {
            user: decode(user)?,
            ..ConnectOptions::default()
        };
        let has_password = password.is_some_and(|p| !p.is_empty());
        if let Some(password) = password {
            options.password = Some(Secret::from(decode(password)?));
        }
        let (host, port) = split_address(address)?;
        if !host.is_empty() {
            options.host = Some(decode(host)?);
        }
        if let Some(port) = port {
            options.port = Some(
                port.parse()
                    .ok()
                    .filter(|p| *p != 0)
                    .ok_or(UrlError::Port)?,
            );
        }
        if !path.is_empty() {
            options.database = Some(decode(path)?);
        }
        let mut mode_given = false;
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let key = decode(key)?.replace('_', "-");
            set(&mut options, &key, &decode(value)?)?;
            mode_given |= matches!(key.as_str(), "ssl-mode" | "sslmode");
        }
        // Like the stock client: a given CA implies verification.
        if options.ssl_ca.is_some() && !mode_given {
            options.ssl_mode = SslMode::VerifyCa;
        }
        let remote = options
            .host
            .as_deref()
            .is_some_and(|h| !h.eq_ignore_ascii_case("localhost"));
        if options.socket.is_some() && (remote || options.port.is_some()) {
            return Err(UrlError::HostAndSocket);
        }
        Ok(Self {
            options,
            has_password,
        })
    }
}

fn split_address(address: &str) -> Result<(&str, Option<&str>), UrlError> {
    let port = |text: &'_ str| -> Result<(), UrlError> {
        if text.is_empty() {
            Ok(())
        } else {
            Err(UrlError::Port)
        }
    };
    if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(UrlError::Bracket)?;
        return match rest.strip_prefix(':') {
            Some(p) => Ok((host, Some(p))),
            None => port(rest).map(|()| (host, None)),
        };
    }
    Ok(match address.split_once(':') {
        Some((host, p)) => (host, Some(p)),
        None => (address, None),
    })
}

/// Sets one option by name; also used for option files.
pub(super) fn set(options: &mut ConnectOptions, key: &str, value: &str) -> Result<(), UrlError> {
    let wrong = |reason: &str| UrlError::Value {
        key: key.to_owned(),
        reason: reason.to_owned(),
    };
    let seconds = || {
        value
            .parse()
            .map(Duration::from_secs)
            .map_err(|_| wrong("it takes a number of seconds"))
    };
    match key {
        "socket" => options.socket = Some(PathBuf::from(value)),
        "ssl-mode" | "sslmode" => {
            options.ssl_mode = value.parse().map_err(|reason| UrlError::Value {
                key: key.to_owned(),
                reason,
            })?;
        }
        "ssl-ca" => options.ssl_ca = Some(PathBuf::from(value)),
        "ssl-cert" => options.ssl_cert = Some(PathBuf::from(value)),
        "ssl-key" => options.ssl_key = Some(PathBuf::from(value)),
        "connect-timeout" => options.connect_timeout = seconds()?,
        "read-timeout" => options.read_timeout = Some(seconds()?),
        "write-timeout" => options.write_timeout = Some(seconds()?),
        "max-allowed-packet" => {
            options.max_allowed_packet = Some(
                value
                    .parse()
                    .map_err(|_| wrong("it takes a number of bytes"))?,
            );
        }
        "get-server-public-key" => {
            options.get_server_public_key = match value {
                "" | "1" | "true" | "on" => true,
                "0" | "false" | "off" => false,
                _ => return Err(wrong("it takes true or false")),
            };
        }
        _ => return Err(UrlError::UnknownKey(key.to_owned())),
    }
    Ok(())
}

fn decode(text: &str) -> Result<String, UrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let digit = |b: Option<u8>| {
                b.and_then(|b| char::from(b).to_digit(16))
                    .ok_or(UrlError::Percent)
            };
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            out.push((high * 16 + low) as u8);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).map_err(|_| UrlError::Percent)
}

#[cfg(test)]
mod tests;
