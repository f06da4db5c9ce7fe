//! Caches initialised data directories, so that the next server of the same version starts from a
//! copy.
//!
//! Everything in the cache can be rebuilt. Its directory may be deleted whenever no server is
//! starting.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::installation::run;
use crate::options::{argument, for_initialisation};
use crate::user::ServerUser;
use crate::{Error, Installation, Result, files, tls};

/// Part of every name in the cache. Raise it when the contents of entries change.
const LAYOUT: &str = "v1";

/// How long another process may take to build the same entry. Initialising takes seconds; on a busy
/// disk, a minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// Holds the server's identity (its UUID). No two servers may share one.
const IDENTITY: &str = "auto.cnf";

/// All servers have the same accounts: root without a password, over the socket and from 127.0.0.1,
/// and nobody else. The second one is for servers with `skip_name_resolve`, where 127.0.0.1 is not
/// `localhost`.
const MARIADB_ACCOUNTS: &str = "\nUSE mysql;\n\
    DELETE FROM global_priv WHERE User = '' OR (User = 'root' AND Host NOT IN ('localhost', '127.0.0.1'));\n\
    DELETE FROM proxies_priv WHERE Host <> 'localhost';\n";
const MYSQL_ACCOUNTS: &str = "CREATE USER 'root'@'127.0.0.1';\n\
    GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n\
    GRANT PROXY ON ''@'' TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n";

#[derive(Debug)]
pub struct Cache<'a> {
    pub folder: &'a Path,
    pub user: Option<&'a ServerUser>,
}

impl Cache<'_> {
    /// A fresh data directory for this server, initialised with those options that must be set at
    /// that point.
    pub fn data_directory(
        &self,
        server: &Installation,
        options: &[(String, Option<String>)],
    ) -> Result<PathBuf> {
        let options = for_initialisation(options);
        let mut name = format!("{}-{}-{LAYOUT}", server.kind(), server.version());
        for (key, value) in &options {
            name = format!("{name}-{key}={}", value.as_deref().unwrap_or_default());
        }
        let name: String = name
            .chars()
            .map(|c| if c == '/' { '_' } else { c })
            .collect();
        self.entry(&name, |folder| {
            if let Some(user) = self.user {
                user.make_owner_of(folder)?;
            }
            let arguments: Vec<OsString> = options
                .iter()
                .map(|(key, value)| argument(key, value.as_deref()).into())
                .collect();
            if server.kind().is_mariadb() {
                initialise_mariadb(server, folder, self.user, &arguments)?;
            } else {
                initialise_mysql(server, folder, self.user, &arguments)?;
            }
            match fs::remove_file(folder.join(IDENTITY)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(Error::io("delete", folder)(error))
                }
                _ => Ok(()),
            }
        })
    }

    /// The directory with the sandbox's own CA and server certificate.
    pub fn certificates(&self) -> Result<PathBuf> {
        self.entry(&format!("tls-{LAYOUT}"), tls::generate)
    }

    /// Returns an entry, and builds it first if it is missing. It appears whole or not at all.
    fn entry(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let wanted = self.folder.join(name);
        if wanted.is_dir() {
            return Ok(wanted);
        }
        let lock = self.folder.join(format!("{name}.lock"));
        let Some(_lock) = files::Lock::take(&lock, PATIENCE)? else {
            return Err(Error::Busy {
                name: name.to_owned(),
            });
        };
        if wanted.is_dir() {
            return Ok(wanted);
        }
        let making = self.folder.join(format!("{name}.making"));
        files::delete_folder(&making)?;
        files::make_new_folder(&making)?;
        if let Err(error) = make(&making) {
            let _ = files::delete_folder(&making);
            return Err(error);
        }
        fs::rename(&making, &wanted).map_err(Error::io("rename", &making))?;
        Ok(wanted)
    }
}

/// Copies the contents of a directory, keeping owners and times. Shares blocks where the file
/// system can.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    command
        .args(["-a", "--reflink=auto", "--"])
        .arg(from.join("."))
        .arg(to);
    run(&mut command, "cp").map(drop)
}

fn initialise_mysql(
    server: &Installation,
    folder: &Path,
    user: Option<&ServerUser>,
    options: &[OsString],
) -> Result<()> {
    let accounts = folder.with_extension("sql");
    fs::write(&accounts, MYSQL_ACCOUNTS).map_err(Error::io("write", &accounts))?;
    if let Some(user) = user {
        user.make_owner_of(&accounts)?;
    }
    let mut init_file = OsString::from("--init-file=");
    init_file.push(&accounts);
    let mut command = server_command(server, folder, user, options);
    command
        .args([
            "--initialize-insecure",
            "--mysqlx=OFF",
            "--secure-file-priv=",
        ])
        .arg(init_file);
    let done = supervise(server, command, folder, user, |_| Ok(()));
    let _ = fs::remove_file(&accounts);
    done
}

/// Does what `mariadb-install-db` does. That script would run a tree's programs with the host's
/// loader.
fn initialise_mariadb(
    server: &Installation,
    folder: &Path,
    user: Option<&ServerUser>,
    options: &[OsString],
) -> Result<()> {
    let mut sql =
        b"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"
            .to_vec();
    let renamed = ["system_tables", "performance_tables", "system_tables_data"];
    let parts = renamed
        .iter()
        .map(|part| [format!("mariadb_{part}.sql"), format!("mysql_{part}.sql")])
        .chain(
            ["fill_help_tables.sql", "maria_add_gis_sp_bootstrap.sql"]
                .map(|name| [name.into(), name.into()]),
        )
        .chain([[
            "mariadb_sys_schema.sql".into(),
            "mysql_sys_schema.sql".into(),
        ]]);
    for names in parts {
        let paths = names.map(|name| server.share().join(name));
        let path = paths
            .iter()
            .find(|path| path.is_file())
            .unwrap_or(&paths[0]);
        sql.extend(fs::read(path).map_err(Error::io("read", path))?);
        sql.push(b'\n');
    }
    sql.extend_from_slice(MARIADB_ACCOUNTS.as_bytes());
    let mut command = server_command(server, folder, user, options);
    command.args([
        "--bootstrap",
        "--silent-startup",
        "--innodb-flush-log-at-trx-commit=0",
    ]);
    supervise(server, command, folder, user, move |input| {
        input.write_all(&sql)
    })
}

fn server_command(
    server: &Installation,
    folder: &Path,
    user: Option<&ServerUser>,
    options: &[OsString],
) -> Command {
    let mut command = server.server();
    command.arg("--no-defaults").args(server.server_paths());
    let mut datadir = OsString::from("--datadir=");
    datadir.push(folder);
    command.arg(datadir).args(options);
    if let Some(user) = user {
        command.arg(format!("--user={}", user.name));
    }
    command
}

/// Runs a server that initialises a data directory and exits. Its output is kept for the error.
fn supervise(
    server: &Installation,
    mut command: Command,
    folder: &Path,
    user: Option<&ServerUser>,
    feed: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    // A starting MariaDB server deletes temporary tables in its tmpdir, even those of other
    // servers.
    let temporary = folder.with_extension("tmp");
    fs::create_dir_all(&temporary).map_err(Error::io("create", &temporary))?;
    if let Some(user) = user {
        user.make_owner_of(&temporary)?;
    }
    let mut tmpdir = OsString::from("--tmpdir=");
    tmpdir.push(&temporary);
    command.arg(tmpdir);
    let done = initialise_with(server, command, folder, feed);
    let _ = fs::remove_dir_all(&temporary);
    done
}

fn initialise_with(
    server: &Installation,
    mut command: Command,
    folder: &Path,
    feed: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let log = folder.with_extension("log");
    let output = File::create(&log).map_err(Error::io("create", &log))?;
    let failed = |reason: String| Error::Initialise {
        kind: server.kind(),
        reason,
        log: files::tail(&log, 0),
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    // A server that gives up early closes its standard input. Its exit status and log say more than
    // the broken pipe.
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut input| feed(&mut input));
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    written.map_err(|error| failed(error.to_string()))?;
    let _ = fs::remove_file(&log);
    Ok(())
}
