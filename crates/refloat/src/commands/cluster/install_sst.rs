//! `refloat cluster install-sst`: registers this program as an SST method of this machine's server.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::exit::{Exit, ProgramError};

/// The name under which servers start the program.
const NAME: &str = "wsrep_sst_refloat";
/// A script that every server with Galera has.
const BESIDE: &str = "wsrep_sst_common";
/// Where servers look for such scripts besides the search path.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/libexec"];
/// Programs that the transfer calls.
const NEEDED: [&str; 2] = ["my_print_defaults", "mariadb-backup"];
/// The folder beside the scripts of Percona's servers with the tool that the transfer calls for
/// them.
const OF_PERCONA: &str = "pxc_extra";
/// The permission bit that allows everybody to run a program or enter a folder.
const EVERYBODY: u32 = 0o001;

const AFTER_HELP: &str = "\
EXAMPLES:
  On each node, as root:
      refloat cluster install-sst

  Where the server looks elsewhere for its scripts:
      refloat cluster install-sst --dir /opt/mariadb/bin

It makes a link to this program and prints the lines for the server's option files. Nothing else is changed; \
remove the link to undo it.";

/// Make refloat an SST method of this machine's server, for full copies
///
/// Servers then accept `wsrep_sst_method=refloat`: a joiner gets another node's files through
/// several connections, compressed and encrypted. It keeps its old data until the new ones are
/// prepared, and what it already has is not sent. Both the donor and the joiner need it.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct InstallSstArgs {
    /// The folder in which the server looks for its scripts [default: where its own scripts are]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub fn run(args: &InstallSstArgs) -> anyhow::Result<Exit> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = fs::canonicalize(&program).context("cannot find this program")?;
    if let Some(closed) = closed_to_others(&program)? {
        return Err(refused(format!(
            "{} can be run only by some accounts, because of {}",
            program.display(),
            closed.display()
        ))
        .hint("The server's account must be able to run it: copy it to /usr/local/bin, and run that copy.")
        .into());
    }
    let folder = match &args.dir {
        Some(folder) => folder.clone(),
        None => find(BESIDE)
            .and_then(|script| script.parent().map(Path::to_path_buf))
            .ok_or_else(|| {
                refused(format!("there is no {BESIDE} on this machine"))
                    .hint("Install the server's package with Galera, or give --dir FOLDER.")
            })?,
    };
    let link = folder.join(NAME);
    put(&link, &program)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} leads to {}", link.display(), program.display())?;
    let is_percona = folder.join(OF_PERCONA).is_dir();
    let needed = if is_percona { &NEEDED[..1] } else { &NEEDED };
    for name in needed {
        if find(name).is_none() {
            crate::exit::print_line(
                "warning",
                &format!("there is no {name} in the search path: the server has to find it"),
                false,
            );
        }
    }
    let lines = if is_percona {
        "\n    wsrep_sst_allowed_methods = refloat,xtrabackup-v2\n\n\
         and start each of them again. It was not run on Percona XtraDB Cluster: docs/sst.md says more"
    } else {
        "\n\nor set it while the server runs: SET GLOBAL wsrep_sst_method = 'refloat'"
    };
    writeln!(
        out,
        "Once this is done on all nodes, add to the option files of each:\n\
         \n    [mysqld]\n    wsrep_sst_method = refloat{lines}"
    )?;
    Ok(Exit::Done)
}

/// Creates the link, or points it here.
fn put(link: &Path, program: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(link) {
        Ok(there) if !there.is_symlink() => {
            return Err(
                refused(format!("{} exists, and is not a link", link.display()))
                    .hint("Check what it is, and move it away.")
                    .into(),
            );
        }
        _ => {}
    }
    // Atomically, because a server may look for it at any time.
    let new = link.with_extension(format!("new-{}", std::process::id()));
    symlink(program, &new)
        .and_then(|()| fs::rename(&new, link))
        .with_context(|| format!("cannot make {}", link.display()))
}

/// What prevents other accounts from running a program: the program, or a folder above it.
fn closed_to_others(program: &Path) -> anyhow::Result<Option<PathBuf>> {
    for path in program.ancestors() {
        let mode = fs::metadata(path)
            .with_context(|| format!("cannot look at {}", path.display()))?
            .mode();
        if mode & EVERYBODY == 0 {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn refused(why: String) -> ProgramError {
    ProgramError::new(Exit::Refused, why)
}
