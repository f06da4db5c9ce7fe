//! Reads the environment, the home directory and the terminal once, at the start. The library
//! crates receive values and never look for themselves.

use std::env;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use refloat_store::storage::BucketOptions;

/// State directory for root.
const ROOT_STATE_DIR: &str = "/var/lib/refloat";

/// The environment of one invocation.
#[derive(Debug, Clone)]
pub struct Context {
    state_dir: PathBuf,
    home: Option<PathBuf>,
    servers_dir: Option<PathBuf>,
    login: Option<String>,
    mysql_pwd: Option<OsString>,
    stderr_is_terminal: bool,
    no_color: bool,
    utf8: bool,
    cluster: Arc<OnceLock<String>>,
    buckets: BucketOptions,
}

impl Context {
    /// Reads the environment.
    pub fn from_environment() -> Self {
        let var = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let home = var("HOME").map(PathBuf::from);
        let is_root = rustix::process::geteuid().is_root();
        Self {
            state_dir: state_dir(
                var("REFLOAT_STATE_DIR").map(PathBuf::from),
                var("XDG_STATE_HOME").map(PathBuf::from),
                home.as_deref(),
                is_root,
            ),
            home,
            servers_dir: var("REFLOAT_SERVERS").map(PathBuf::from),
            // The stock clients use the login name.
            login: if is_root {
                Some("root".to_owned())
            } else {
                var("USER")
                    .or_else(|| var("LOGNAME"))
                    .and_then(|name| name.into_string().ok())
            },
            // An empty MYSQL_PWD counts: it is an empty password.
            mysql_pwd: env::var_os("MYSQL_PWD"),
            stderr_is_terminal: std::io::stderr().is_terminal()
                && var("TERM").is_none_or(|term| term != "dumb"),
            no_color: var("NO_COLOR").is_some(),
            cluster: Arc::default(),
            buckets: BucketOptions::from_variables(env::vars_os().filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.into_string().ok()?))
            })),
            // The first one that is set decides, as in setlocale(3).
            utf8: var("LC_ALL")
                .or_else(|| var("LC_CTYPE"))
                .or_else(|| var("LANG"))
                .is_some_and(|locale| {
                    let locale = locale.to_string_lossy().to_ascii_lowercase();
                    locale.contains("utf-8") || locale.contains("utf8")
                }),
        }
    }

    /// Stores the flags that name this command's cluster.
    pub fn set_cluster_flags(&self, flags: String) {
        // The first call wins: a command works on one cluster.
        let _ = self.cluster.set(flags);
    }

    /// The text with those flags added to every `refloat cluster …` command in backticks, so that
    /// each can be pasted as it is.
    pub fn with_cluster(&self, text: &str) -> String {
        match self.cluster.get() {
            Some(flags) => name_cluster(text, flags),
            None => text.to_owned(),
        }
    }

    /// Where the trees of servers are, if not in the usual place. The script that installs them
    /// reads the same variable.
    pub fn servers_dir(&self) -> Option<&Path> {
        self.servers_dir.as_deref()
    }

    /// Keys, endpoints and regions of buckets.
    pub fn buckets(&self) -> &BucketOptions {
        &self.buckets
    }

    /// The folder for runs, journals and sandboxes.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The home directory, for `~/.my.cnf`.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The default account name.
    pub fn login(&self) -> Option<&str> {
        self.login.as_deref()
    }

    /// The password in `MYSQL_PWD`.
    pub fn mysql_pwd(&self) -> Option<&OsString> {
        self.mysql_pwd.as_ref()
    }

    /// Whether lines on stderr may be redrawn.
    pub fn stderr_is_terminal(&self) -> bool {
        self.stderr_is_terminal
    }

    /// Whether the terminal can show more than ASCII.
    pub fn utf8(&self) -> bool {
        self.utf8
    }

    /// Whether stderr may be coloured.
    pub fn colour(&self) -> bool {
        self.stderr_is_terminal && !self.no_color
    }
}

/// In this order: the explicit setting, root's fixed path, XDG, the home directory, or the current
/// directory if there is no home. Relative XDG paths are ignored, as the XDG base directory
/// specification requires.
fn state_dir(
    asked: Option<PathBuf>,
    xdg: Option<PathBuf>,
    home: Option<&Path>,
    is_root: bool,
) -> PathBuf {
    if let Some(dir) = asked {
        return dir;
    }
    if is_root {
        return PathBuf::from(ROOT_STATE_DIR);
    }
    if let Some(xdg) = xdg.filter(|path| path.is_absolute()) {
        return xdg.join("refloat");
    }
    match home {
        Some(home) => home.join(".local/state/refloat"),
        None => PathBuf::from(".refloat"),
    }
}

/// Adds `flags` to every `refloat cluster` command in backticks that names no cluster.
fn name_cluster(text: &str, flags: &str) -> String {
    let with = |(at, part): (usize, &str)| {
        let is_command = at % 2 == 1 && part.starts_with("refloat cluster ");
        let is_whole = part.contains("--cluster") || part.contains("--help");
        if is_command && !is_whole {
            format!("{part} {flags}")
        } else {
            part.to_owned()
        }
    };
    let parts: Vec<String> = text.split('`').enumerate().map(with).collect();
    parts.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_directory_order() {
        let home = Some(Path::new("/home/a"));
        let path = |s: &str| Some(PathBuf::from(s));
        assert_eq!(
            state_dir(path("/x"), path("/y"), home, true),
            PathBuf::from("/x")
        );
        assert_eq!(
            state_dir(None, path("/y"), home, true),
            PathBuf::from("/var/lib/refloat")
        );
        assert_eq!(
            state_dir(None, path("/y"), home, false),
            PathBuf::from("/y/refloat")
        );
        assert_eq!(
            state_dir(None, path("y"), home, false),
            PathBuf::from("/home/a/.local/state/refloat")
        );
        assert_eq!(
            state_dir(None, None, None, false),
            PathBuf::from(".refloat")
        );
    }

    #[test]
    fn commands_about_a_cluster_can_be_given_as_they_stand() {
        let text = "`refloat cluster status` shows it; `refloat cluster --help` too; `refloat settings list`; `refloat cluster rejoin n2 --allow-sst`";
        assert_eq!(
            name_cluster(text, "--cluster c.toml"),
            "`refloat cluster status --cluster c.toml` shows it; `refloat cluster --help` too; `refloat settings list`; `refloat cluster rejoin n2 --allow-sst --cluster c.toml`"
        );
    }
}
