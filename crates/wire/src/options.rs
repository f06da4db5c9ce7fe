//! Where to connect, as whom, and how.

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

/// The port of both vendors.
pub const DEFAULT_PORT: u16 = 3306;
/// Where the servers of the common distributions put their socket.
const DEFAULT_SOCKETS: &[&str] = &[
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
];
/// How long opening and logging in may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How much TLS is asked for; the words are those of MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SslMode {
    /// Never.
    Disabled,
    /// If the server offers it, without checking who it is. On a unix socket: never.
    #[default]
    Preferred,
    /// Refuse a server without it; still without checking who it is.
    Required,
    /// The certificate must lead to `ssl-ca`, or to the roots of the system if none is given.
    VerifyCa,
    /// As before, and the certificate must carry the name or address that was connected to.
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

    /// Accepts the words in any case, with dashes or underscores.
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

/// Where the connection goes, after [`ConnectOptions::target`] has decided.
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

/// Everything that is needed to open a connection. `Debug` and [`ConnectOptions::describe`] do not show the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Host name or address; see [`ConnectOptions::target`].
    pub host: Option<String>,
    /// TCP port; giving one means TCP, also for `localhost`.
    pub port: Option<u16>,
    /// Path of a unix socket.
    pub socket: Option<PathBuf>,
    /// Account name.
    pub user: String,
    /// Its password; none and an empty one mean the same.
    pub password: Option<Secret>,
    /// Default database of the session.
    pub database: Option<String>,
    /// How much TLS is asked for.
    pub ssl_mode: SslMode,
    /// Certificates that the server's one must lead to, PEM.
    pub ssl_ca: Option<PathBuf>,
    /// Our own certificate chain, PEM, for accounts that require one.
    pub ssl_cert: Option<PathBuf>,
    /// The key of `ssl_cert`, PEM.
    pub ssl_key: Option<PathBuf>,
    /// Limit for opening the socket and for each answer until the login is done.
    pub connect_timeout: Duration,
    /// Limit for each wait for the server afterwards; none: wait for ever (a long index build sends nothing).
    pub read_timeout: Option<Duration>,
    /// Limit for each wait until the server takes data.
    pub write_timeout: Option<Duration>,
    /// Take no more than this as the session's `max_allowed_packet`, in bytes, even if the server allows more.
    pub max_allowed_packet: Option<usize>,
    /// On a plain TCP connection, ask the server for the RSA key that the password is encrypted with. A server in the middle could
    /// answer with a key of its own, as it could with a certificate where those are not checked.
    pub get_server_public_key: bool,
    /// Counts what connections with these options, and with copies of them, may have committed.
    pub commits: Option<CommitCounter>,
}

/// Counts answers of servers after which something may have been committed: those that leave no transaction open and brought no rows. What only
/// changes the session is among them, and a procedure that commits several times counts once.
#[derive(Debug, Clone, Default)]
pub struct CommitCounter(Arc<AtomicU64>);

impl CommitCounter {
    /// How many there were so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl PartialEq for CommitCounter {
    /// Whether it is the same counter, whatever it has counted.
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
    /// Reads a URL such as `mysql://user@host:3306/db?ssl-mode=required`. A password in it is refused: see [`ParsedUrl`] for a caller
    /// that wants to decide itself.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let parsed = ParsedUrl::parse(url)?;
        if parsed.has_password {
            Err(UrlError::Password)
        } else {
            Ok(parsed.options)
        }
    }

    /// Options for a unix socket.
    pub fn unix(socket: impl Into<PathBuf>, user: impl Into<String>) -> Self {
        Self {
            socket: Some(socket.into()),
            user: user.into(),
            ..Self::default()
        }
    }

    /// Options for TCP.
    pub fn tcp(host: impl Into<String>, port: u16, user: impl Into<String>) -> Self {
        Self {
            host: Some(host.into()),
            port: Some(port),
            user: user.into(),
            ..Self::default()
        }
    }

    /// Decides between socket and TCP, and never changes its mind afterwards:
    ///
    /// 1. A host other than `localhost` means TCP to that host, whatever `socket` says (an option file may name one).
    /// 2. For `localhost` or no host, a given socket path is used.
    /// 3. Otherwise a given port means TCP to `localhost`.
    /// 4. Otherwise the first of the usual socket paths that exists is used, else TCP to `localhost`.
    ///
    /// Unlike the stock clients, rule 3 keeps `localhost:3307` from ending up on the server of port 3306.
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

    /// `user@host:port`, or `user@` and the path of the socket; never the password.
    pub fn describe(&self) -> String {
        format!("{}@{}", self.user, self.target())
    }

    /// The name that a certificate must carry in [`SslMode::VerifyIdentity`].
    pub(crate) fn tls_name(&self) -> &str {
        self.host.as_deref().unwrap_or("localhost")
    }
}
