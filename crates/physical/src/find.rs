//! Finds the tool on a machine.

use std::path::{Path, PathBuf};

use refloat_host::{Host, last_line};
use refloat_run::Refusal;

use crate::error::PhysicalError;
use crate::tool::{Tool, ToolKind, Version};

/// Folders with programs that an account's search path may lack.
pub const SEARCHED: &str = "/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin";

/// Finds the tool on a machine: this program, or the one in its search path.
///
/// # Errors
/// It is not there, or its version cannot be told.
pub fn find(host: &Host, kind: ToolKind, program: Option<&Path>) -> Result<Tool, PhysicalError> {
    let hint = match kind {
        ToolKind::MariadbBackup => {
            "Install mariadb-backup there, of the server's own series, or name it with --tool."
        }
        ToolKind::Xtrabackup | ToolKind::Clone => {
            "Install Percona XtraBackup of the server's series there, or name it with --tool."
        }
    };
    let program = program.map_or_else(|| PathBuf::from(kind.program()), Path::to_path_buf);
    let (version, _) = version_of(host, &program, hint)?;
    Ok(Tool {
        kind,
        program,
        version,
    })
}

/// The version that a program tells, and all that it says of itself. `hint` tells what to do if it
/// is not there.
///
/// # Errors
/// It is not there, or its version cannot be told.
pub fn version_of(
    host: &Host,
    program: &Path,
    hint: &str,
) -> Result<(Version, String), PhysicalError> {
    let word = Host::word(&program.to_string_lossy());
    let script = format!(
        "PATH=$PATH:{SEARCHED}; command -v {word} >/dev/null || exit 66; exec {word} --version 2>&1"
    );
    let output = host.run(&script)?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let refused = |what: &str, hint: &str| {
        let (program, host) = (program.display(), host.name());
        let message = last_line(stdout.as_bytes());
        let reason = match what {
            "" => format!("there is no {program} on {host}"),
            what => format!("{program} on {host} {what}: {message}"),
        };
        PhysicalError::refused(Refusal::new(reason).hint(hint))
    };
    match output.status.code() {
        Some(0) => {}
        Some(66) => return Err(refused("", hint)),
        _ => return Err(refused("does not run", "")),
    }
    match version_in(&stdout) {
        Some(version) => Ok((version, stdout)),
        None => Err(refused("does not report its version", "")),
    }
}

/// The version in what a tool says of itself: "mariadb-backup based on `MariaDB` server
/// 10.11.19-MariaDB …", "xtrabackup version 8.4.0-1 based on `MySQL` server 8.4.0 …".
pub fn version_in(output: &str) -> Option<Version> {
    output
        .lines()
        .flat_map(str::split_ascii_whitespace)
        .find_map(|word| {
            let mut numbers = word.split(['.', '-']);
            let mut next = || numbers.next()?.parse().ok();
            Some((next()?, next()?, next()?))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_the_tools_tell_them() {
        for (output, version) in [
            (
                "mariadb-backup based on MariaDB server 10.11.19-MariaDB debian-linux-gnu (x86_64)\n",
                Some((10, 11, 19)),
            ),
            (
                "2026-01-01T00:00:00 0 [Note] recognized server arguments: --datadir=/x\nxtrabackup version 8.4.0-1 based on MySQL server 8.4.0 Linux (x86_64) (revision id: a)",
                Some((8, 4, 0)),
            ),
            ("no version", None),
        ] {
            assert_eq!(version_in(output), version, "{output}");
        }
    }
}
