//! The programs of the server that replay logs: the server itself, and its tool for binary logs.

use std::path::{Path, PathBuf};

use refloat_host::{Host, last_line};
use refloat_run::Refusal;
use serde::Serialize;

use crate::about::About;
use crate::find::version_in;
use crate::tool::{ToolKind, text};

/// Where programs of servers are besides the search path.
const PLACES: &str = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/usr/libexec";

/// The programs of a server.
#[derive(Debug, Clone, Serialize)]
pub struct Programs {
    /// `mariadbd` or `mysqld`.
    pub server: PathBuf,
    /// Its tool that prints binary logs as statements.
    pub tool: PathBuf,
    pub is_mariadb: bool,
}

impl Programs {
    /// Finds the programs that fit a backup, in a folder or in the search path.
    pub fn find(about: &About, folder: Option<&Path>) -> Result<Self, Refusal> {
        let is_mariadb = about.tool_kind() == ToolKind::MariadbBackup;
        let (servers, tools) = if is_mariadb {
            ("mariadbd mysqld", "mariadb-binlog mysqlbinlog")
        } else {
            ("mysqld", "mysqlbinlog")
        };
        let (server, server_version) = look(servers, folder)?;
        let its = version_in(&about.server.version).unwrap_or_default();
        let of_server = version_in(&server_version);
        let is_fit = of_server.is_some_and(|of_server| {
            (of_server.0, of_server.1) == (its.0, its.1)
                && of_server >= its
                && server_version.contains("MariaDB") == is_mariadb
        });
        if !is_fit {
            return Err(Refusal::new(format!(
                "{} is {}, but the backup is of {} {}",
                server.display(),
                last_line(server_version.as_bytes()),
                about.server.vendor,
                about.server.version
            ))
            .hint(format!(
                "The server that replays logs must be of the same series and not older: install {}, or name its folder with --programs.",
                text(its)
            )));
        }
        let (tool, tool_version) = look(tools, folder)?;
        // MariaDB's tool does not report the version of its server.
        let version = version_in(&tool_version);
        let is_mariadbs = version.is_none_or(|version| version.0 >= 10);
        let is_fit = is_mariadbs == is_mariadb
            && (is_mariadb || version.is_some_and(|tool| (tool.0, tool.1) >= (its.0, its.1)));
        if !is_fit {
            return Err(Refusal::new(format!(
                "{} is not of {} {}: {}",
                tool.display(),
                about.server.vendor,
                about.server.version,
                last_line(tool_version.as_bytes())
            ))
            .hint("Name the folder of the server's own programs with --programs."));
        }
        Ok(Self {
            server,
            tool,
            is_mariadb,
        })
    }
}

/// The first of these programs that exists, and what it says about its version.
fn look(names: &str, folder: Option<&Path>) -> Result<(PathBuf, String), Refusal> {
    let path = folder.map_or_else(
        || format!("$PATH:{PLACES}"),
        |folder| Host::word(&folder.to_string_lossy()),
    );
    let script = format!(
        "PATH={path}:/usr/bin:/bin\nfor name in {names}; do found=$(command -v $name) || continue; printf '%s\\n' \"$found\"; exec \"$found\" --version 2>&1; done; exit 66"
    );
    let refused = |reason: String| {
        Refusal::new(reason)
            .hint("Logs are replayed by the server's own programs: install them, or name their folder with --programs.")
    };
    let output = Host::Local
        .run(&script)
        .map_err(|error| refused(error.to_string()))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let (found, version) = stdout.split_once('\n').unwrap_or_default();
    match output.status.code() {
        Some(0) => Ok((PathBuf::from(found), version.trim().to_owned())),
        Some(66) => {
            let place = folder.map_or_else(
                || "the search path".to_owned(),
                |folder| folder.display().to_string(),
            );
            Err(refused(format!(
                "there is no {} in {place}",
                names.replace(' ', " or ")
            )))
        }
        _ => Err(refused(format!(
            "{found} does not run: {}",
            last_line(version.as_bytes())
        ))),
    }
}
