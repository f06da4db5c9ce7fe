//! Connection options: where to connect, as whom, and how.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::secret::Secret;

mod files;
mod url;

pub use files::{FileOption, OptionFiles, OptionFilesError, load_option_files, read_groups};
pub use url::{ParsedUrl, UrlError, user_info};

/// Default TCP port of both vendors.
pub const DEFAULT_PORT: u16 = 3306;
/// Socket paths of the common distributions.
const DEFAULT_SOCKETS: &[&str] = &[
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
];
/// Default timeout for connecting and for each wait during login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How strictly TLS is required; named like the values of MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SslMode {
    /// Never use TLS.
    Disabled,
    /// Use TLS if the server offers it, without checking its certificate.
    ///
    /// Never on a unix socket.
    #[default]
    Preferred,
    /// Require TLS, without checking the certificate.
    Required,
    /// Require TLS and a certificate from a trusted authority.
    ///
    /// That is one of `ssl-ca`, or of the system if none is given.
    #[cfg_attr(feature = "clap", value(alias = "verify_ca"))]
    VerifyCa,
    /// As verify-ca, and the certificate must name the host.
    ///
    /// Or the address, if that was used to connect.
    #[cfg_attr(feature = "clap", value(alias = "verify_identity"))]
    VerifyIdentity,
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Preferred => "preferred",
            Self::Required => "required",
            Self::VerifyCa => "verify-ca",
            Self::VerifyIdentity => "verify-identity",
        })
    }
}

impl FromStr for SslMode {
    type Err = String;

    /// Accepts the names in any case, with dashes or underscores.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.to_ascii_lowercase().replace('_', "-").as_str() {
            "disabled" | "disable" => Self::Disabled,
            "preferred" | "prefer" => Self::Preferred,
            "required" | "require" => Self::Required,
            "verify-ca" => Self::VerifyCa,
            "verify-identity" | "verify-full" => Self::VerifyIdentity,
            _ => {
                return Err(format!(
                    "unknown ssl-mode {text:?}: it is one of disabled, preferred, required, verify-ca, verify-identity"
                ));
            }
        })
    }
}

/// Destination of a connection, as [`ConnectOptions::target`] determines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host name or address, and a port.
    Tcp(String, u16),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Options for opening a connection. `Debug` and [`ConnectOptions::describe`] hide the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Host name or address; see [`ConnectOptions::target`].
    pub host: Option<String>,
    /// TCP port. Setting one implies TCP, even for `localhost`.
    pub port: Option<u16>,
    /// Path of a unix socket; see [`ConnectOptions::target`].
    pub socket: Option<PathBuf>,
    /// Account name, without its host part.
    pub user: String,
    /// Password of the account; `None` and an empty one are the same.
    pub password: Option<Secret>,
    /// Default database of the session.
    pub database: Option<String>,
    /// How strictly TLS is required.
    pub ssl_mode: SslMode,
    /// CA certificates to which the server's certificate must chain, PEM.
    pub ssl_ca: Option<PathBuf>,
    /// Client certificate chain for accounts that require one, PEM.
    pub ssl_cert: Option<PathBuf>,
    /// Private key of `ssl_cert`, PEM.
    pub ssl_key: Option<PathBuf>,
    /// Timeout for opening the socket, and for each answer until the login is complete.
    pub connect_timeout: Duration,
    /// Timeout for each later wait for the server. `None` waits indefinitely: a long index build
    /// sends nothing.
    pub read_timeout: Option<Duration>,
    /// Timeout for each wait until the server accepts data.
    pub write_timeout: Option<Duration>,
    /// Upper bound on the session's `max_allowed_packet`, in bytes, even if the server allows more.
    pub max_allowed_packet: Option<usize>,
    /// On a plain TCP connection, ask the server for the RSA key that encrypts the password. A man
    /// in the middle could answer with a key of its own, as it could with a certificate in the
    /// modes that do not verify certificates.
    pub get_server_public_key: bool,
    /// Counts the possible commits of connections with these options, or with copies of them.
    pub commits: Option<CommitCounter>,
}

/// Counts server answers after which something may have been committed: those that leave no
/// transaction open and return no rows. This includes statements that only change the session; a
/// procedure that commits several times counts once.
#[derive(Debug, Clone, Default)]
pub struct CommitCounter(Arc<AtomicU64>);

impl CommitCounter {
    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl PartialEq for CommitCounter {
    /// Whether both are the same counter, regardless of the count.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CommitCounter {}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            host: None,
            port: None,
            socket: None,
            user: String::new(),
            password: None,
            database: None,
            ssl_mode: SslMode::default(),
            ssl_ca: None,
            ssl_cert: None,
            ssl_key: None,
            connect_timeout: CONNECT_TIMEOUT,
            read_timeout: None,
            write_timeout: None,
            max_allowed_packet: None,
            get_server_public_key: true,
            commits: None,
        }
    }
}

impl ConnectOptions {
    /// Parses a URL such as `mysql://user@host:3306/db?ssl-mode=required` and rejects one with a
    /// password. Use [`ParsedUrl`] to accept passwords.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let parsed = ParsedUrl::parse(url)?;
        if parsed.has_password {
            Err(UrlError::Password)
        } else {
            Ok(parsed.options)
        }
    }

    /// Connects through the unix socket at this path, without a password.
    pub fn unix(socket: impl Into<PathBuf>, user: impl Into<String>) -> Self {
        Self {
            socket: Some(socket.into()),
            user: user.into(),
            ..Self::default()
        }
    }

    /// Connects by TCP, without a password.
    pub fn tcp(host: impl Into<String>, port: u16, user: impl Into<String>) -> Self {
        Self {
            host: Some(host.into()),
            port: Some(port),
            user: user.into(),
            ..Self::default()
        }
    }

    /// Chooses between socket and TCP, the same way for every connection:
    ///
    /// 1. A host other than `localhost` means TCP to it, whatever `socket` says (an option file may
    ///    set one).
    /// 2. Without a host, or with `localhost`, a given socket path is used.
    /// 3. Otherwise a given port means TCP to `localhost`.
    /// 4. Otherwise the first usual socket path that exists is used, else TCP to `localhost`.
    ///
    /// Rule 3 differs from the stock clients and keeps `localhost:3307` from ending up on the
    /// server at port 3306.
    pub fn target(&self) -> Target {
        let port = self.port.unwrap_or(DEFAULT_PORT);
        match &self.host {
            Some(host) if !host.eq_ignore_ascii_case("localhost") => {
                return Target::Tcp(host.clone(), port);
            }
            _ => {}
        }
        if let Some(socket) = &self.socket {
            return Target::Unix(socket.clone());
        }
        if self.port.is_none()
            && let Some(found) = DEFAULT_SOCKETS.iter().find(|path| Path::new(path).exists())
        {
            return Target::Unix(PathBuf::from(found));
        }
        Target::Tcp("localhost".to_owned(), port)
    }

    /// `user@host:port`, or `user@` and the socket path; never the password.
    pub fn describe(&self) -> String {
        format!("{}@{}", self.user, self.target())
    }

    /// The name that the certificate must carry with [`SslMode::VerifyIdentity`].
    pub(crate) fn tls_name(&self) -> &str {
        self.host.as_deref().unwrap_or("localhost")
    }
}
