//! Locates a server's programs and prepares commands that run them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result, ServerKind};

/// Where `scripts/install-servers` unpacks servers that the host has no packages for.
pub const DEFAULT_SERVERS_DIR: &str = "/var/lib/refloat/servers";

const HOST_PROGRAM_DIRS: [&str; 2] = ["/usr/sbin", "/usr/bin"];

/// Variables that would point a server or its client at other settings, other libraries or another
/// server.
const FOREIGN_ENVIRONMENT: [&str; 11] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MARIADB_HOME",
    "MARIADB_HOST",
    "MYSQL_GROUP_SUFFIX",
    "MYSQL_HOME",
    "MYSQL_HOST",
    "MYSQL_PWD",
    "MYSQL_TCP_PORT",
    "MYSQL_TEST_LOGIN_FILE",
    "MYSQL_UNIX_PORT",
];

/// The programs of one server kind on this machine.
///
/// A server in a package tree is run with the tree's own dynamic loader. There is no chroot: paths,
/// sockets and processes are the host's, and nothing needs mounting.
#[derive(Debug, Clone)]
pub struct Installation {
    kind: ServerKind,
    version: String,
    /// `/usr`, or the `usr` of the tree.
    base: PathBuf,
    /// The dynamic loader and its arguments; empty for the host's own programs.
    loader: Vec<OsString>,
    program_dirs: Vec<PathBuf>,
    share: PathBuf,
    client_plugins: Option<PathBuf>,
}

impl Installation {
    /// Finds the programs of a kind, and asks the server for its version.
    ///
    /// `servers_dir` is the directory of package trees, see [`DEFAULT_SERVERS_DIR`].
    ///
    /// # Errors
    /// [`Error::NotInstalled`], with the command that installs it; [`Error::WrongVersion`].
    pub fn find(kind: ServerKind, servers_dir: &Path) -> Result<Self> {
        let found = Self::locate(kind, servers_dir)?;
        let answer = run(
            found.server().args(["--no-defaults", "--version"]),
            "asking the server for its version",
        )?;
        let version = parse_version(&answer).unwrap_or_default();
        if !kind.accepts(version) {
            let program = found.program_path(found.server_name())?;
            return Err(Error::WrongVersion {
                kind,
                program,
                found: answer.trim().to_owned(),
            });
        }
        Ok(found.with_version(version))
    }

    /// Finds the programs without running any of them, so the version is left empty.
    pub(crate) fn locate(kind: ServerKind, servers_dir: &Path) -> Result<Self> {
        let found = match kind {
            ServerKind::MariaDb1011 => Self::on_host(kind)?,
            ServerKind::MariaDb118 | ServerKind::MySql97 => {
                Self::in_tree(kind, &servers_dir.join(kind.name()))?
            }
        };
        for program in found.program_names() {
            found.program_path(program)?;
        }
        Ok(found)
    }

    pub(crate) fn with_version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    fn on_host(kind: ServerKind) -> Result<Self> {
        Ok(Self {
            kind,
            version: String::new(),
            base: PathBuf::from("/usr"),
            loader: Vec::new(),
            program_dirs: HOST_PROGRAM_DIRS.map(PathBuf::from).to_vec(),
            share: find_share(kind, Path::new("/usr"))?,
            client_plugins: None,
        })
    }

    fn in_tree(kind: ServerKind, tree: &Path) -> Result<Self> {
        let base = tree.join("usr");
        let (libraries, loader) =
            find_loader(&base.join("lib")).ok_or_else(|| Error::NotInstalled {
                kind,
                missing: tree.to_path_buf(),
            })?;
        // The host's library cache points at the host's libraries, which a tree must not use.
        let loader = vec![
            loader.into_os_string(),
            "--inhibit-cache".into(),
            "--library-path".into(),
            libraries.clone().into_os_string(),
        ];
        let client_plugins = [
            libraries.join("libmariadb3/plugin"),
            base.join("lib/mysql/plugin"),
        ];
        Ok(Self {
            kind,
            version: String::new(),
            loader,
            program_dirs: vec![base.join("sbin"), base.join("bin")],
            share: find_share(kind, &base)?,
            client_plugins: client_plugins.into_iter().find(|path| path.is_dir()),
            base,
        })
    }

    /// Which server these programs belong to.
    pub const fn kind(&self) -> ServerKind {
        self.kind
    }

    /// The version that the server program reports, such as `10.11.19-MariaDB-0+deb12u1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The server program, without arguments.
    pub fn server(&self) -> Command {
        self.program(self.server_name())
    }

    /// The stock client (`mariadb` or `mysql`), without arguments.
    pub fn client(&self) -> Command {
        self.program(self.pick("mariadb", "mysql"))
    }

    /// The stock dump tool (`mariadb-dump` or `mysqldump`), without arguments.
    pub fn dump(&self) -> Command {
        self.program(self.pick("mariadb-dump", "mysqldump"))
    }

    /// The stock administration tool (`mariadb-admin` or `mysqladmin`), without arguments.
    pub fn admin(&self) -> Command {
        self.program(self.pick("mariadb-admin", "mysqladmin"))
    }

    /// Any other program of the installation, such as `mariadb-backup` or `mysqlbinlog`, without
    /// arguments.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] if the installation has no such program.
    pub fn other(&self, program: &str) -> Result<Command> {
        self.program_path(program)?;
        Ok(self.program(program))
    }

    /// Arguments that point a server program at the files of its own installation.
    pub fn server_paths(&self) -> Vec<OsString> {
        let option = |name: &str, path: PathBuf| {
            let mut text = OsString::from(name);
            text.push(path);
            text
        };
        vec![
            option("--basedir=", self.base.clone()),
            option("--lc-messages-dir=", self.share.clone()),
            option("--character-sets-dir=", self.share.join("charsets")),
            option("--plugin-dir=", self.base.join("lib/mysql/plugin")),
        ]
    }

    /// Arguments that point a client program of a tree at the tree's files. They go after
    /// `--no-defaults`.
    pub(crate) fn client_paths(&self) -> Vec<OsString> {
        if self.loader.is_empty() {
            return Vec::new();
        }
        let mut charsets = OsString::from("--character-sets-dir=");
        charsets.push(self.share.join("charsets"));
        let mut paths = vec![charsets];
        if let Some(plugins) = &self.client_plugins {
            let mut option = OsString::from("--plugin-dir=");
            option.push(plugins);
            paths.push(option);
        }
        paths
    }

    /// The directory with the SQL that fills the system tables.
    pub(crate) fn share(&self) -> &Path {
        &self.share
    }

    /// `/usr`, or the `usr` of the tree.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// The dynamic loader with its arguments. `None` for the host's programs, which need none.
    pub(crate) fn loader(&self) -> Option<&[OsString]> {
        (!self.loader.is_empty()).then_some(&self.loader)
    }

    const fn pick(&self, mariadb: &'static str, mysql: &'static str) -> &'static str {
        if self.kind.is_mariadb() {
            mariadb
        } else {
            mysql
        }
    }

    const fn server_name(&self) -> &'static str {
        self.pick("mariadbd", "mysqld")
    }

    const fn program_names(&self) -> [&'static str; 4] {
        [
            self.server_name(),
            self.pick("mariadb", "mysql"),
            self.pick("mariadb-dump", "mysqldump"),
            self.pick("mariadb-admin", "mysqladmin"),
        ]
    }

    pub(crate) fn program_path(&self, name: &str) -> Result<PathBuf> {
        let mut candidates = self.program_dirs.iter().map(|folder| folder.join(name));
        candidates
            .clone()
            .find(|path| path.is_file())
            .ok_or_else(|| Error::NotInstalled {
                kind: self.kind,
                missing: candidates.next_back().unwrap_or_default(),
            })
    }

    fn program(&self, name: &str) -> Command {
        // `locate` checked that the file exists. If it has gone since, running the command reports
        // that.
        let path = self
            .program_path(name)
            .unwrap_or_else(|_| self.base.join("bin").join(name));
        let mut words = self.loader.iter().cloned().chain([path.into_os_string()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        for name in FOREIGN_ENVIRONMENT {
            command.env_remove(name);
        }
        // `--no-defaults` does not stop the MySQL programs from reading the user's login file; this
        // does.
        command.env("MYSQL_TEST_LOGIN_FILE", "/dev/null");
        command
    }
}

/// Runs a command to its end and returns its standard output.
pub(crate) fn run(command: &mut Command, what: &str) -> Result<String> {
    let failed = |reason: String| Error::Helper {
        program: what.to_owned(),
        reason,
    };
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(format!(
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

/// The library directory and the dynamic loader in it: `usr/lib/<architecture>/ld-linux-*.so.*`.
fn find_loader(lib: &Path) -> Option<(PathBuf, PathBuf)> {
    for folder in fs::read_dir(lib)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().is_dir())
    {
        for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with("ld-linux") && file.path().is_file() {
                return Some((folder.path(), file.path()));
            }
        }
    }
    None
}

/// The directory of messages and character sets. Its name differs between packages.
fn find_share(kind: ServerKind, base: &Path) -> Result<PathBuf> {
    let names: &[&str] = if kind.is_mariadb() {
        &["mariadb", "mysql"]
    } else {
        &["mysql"]
    };
    names
        .iter()
        .map(|name| base.join("share").join(name))
        .find(|path| path.join("charsets").is_dir())
        .ok_or_else(|| Error::NotInstalled {
            kind,
            missing: base.join("share").join(names[0]),
        })
}

/// The word after `Ver` in the output of `--version`.
fn parse_version(answer: &str) -> Option<&str> {
    let mut words = answer.split_whitespace();
    words.find(|&word| word == "Ver")?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_word_after_ver() {
        let text = "mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))";
        assert_eq!(parse_version(text), Some("9.7.4-2"));
        assert_eq!(
            parse_version("mysqld: cannot open shared object file"),
            None
        );
    }

    #[test]
    fn a_missing_tree_names_the_command_that_installs_it() {
        let error =
            Installation::find(ServerKind::MariaDb118, Path::new("/nonexistent")).unwrap_err();
        assert!(
            matches!(
                error,
                Error::NotInstalled {
                    kind: ServerKind::MariaDb118,
                    ..
                }
            ),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .ends_with("scripts/install-servers mariadb-11.8"),
            "{error}"
        );
    }
}
