//! `refloat man` (hidden): writes the manual pages. `make man` calls it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use crate::exit::Exit;

/// Write the manual pages into a folder
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder; it is created if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub fn run(args: &ManArgs, mut command: clap::Command) -> anyhow::Result<Exit> {
    fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make the folder {}", args.folder.display()))?;
    command.build();
    write_pages(&command, "refloat", &args.folder)?;
    Ok(Exit::Done)
}

/// Writes the page of `command` and of all its visible subcommands.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(format!("{name}.1"));
    let page = command
        .clone()
        .name(name.to_owned())
        .display_name(name.to_owned());
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), folder)?;
    }
    Ok(())
}
