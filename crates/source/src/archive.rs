//! Archives as sources: unpacked into a scratch folder, then laid out like any other folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use refloat_run::Cancel;
use refloat_store::{Input, InputError, LooksLike, Unpacked, files, unpack};

use super::detect::open_folder;
use super::error::SourceError;
use super::layout::{Layout, SourceFormat};
use super::options::DelimitedOptions;

/// Default scratch folder. Unpacked archives may be too large for a file system in memory, and may
/// survive a reboot.
pub const SCRATCH_DEFAULT: &str = "/var/tmp";

/// Whether the input is an archive, compressed or not.
pub fn is_archive(input: &mut Input) -> Result<bool, SourceError> {
    Ok(matches!(
        input.content()?,
        LooksLike::Tar | LooksLike::MydumperStream
    ))
}

/// The note for the user before an archive is unpacked.
pub fn announcement(input: &Input, scratch: &Path) -> String {
    let size = input.total_bytes().map_or_else(String::new, |bytes| {
        format!(" of {} MiB", bytes.div_ceil(1 << 20))
    });
    format!(
        "{}: an archive{size} is unpacked into {} first; it is removed from there at the end",
        input.name(),
        scratch.display()
    )
}

/// Unpacks an archive and lays out its content. The files live as long as the layout.
pub fn layout(
    input: Input,
    scratch: &Path,
    format: Option<SourceFormat>,
    options: &DelimitedOptions,
) -> Result<Layout, SourceError> {
    let name = input.name().to_owned();
    let unpacked = unpack(input, scratch)?;
    let mut layout = open_folder(unpacked.root(), format, options)
        .map_err(|error| error.of_archive(&name, unpacked.root()))?;
    layout.path = PathBuf::from(name);
    layout.unpacked = Some(Arc::new(unpacked));
    Ok(layout)
}

/// Unpacks a file if it is an archive; `say` receives the announcement first.
pub fn unpack_file(
    path: &Path,
    scratch: &Path,
    cancel: &Cancel,
    say: impl FnOnce(String),
) -> Result<Option<Unpacked>, SourceError> {
    if !files::is_file(path) {
        return Ok(None);
    }
    let mut input = match Input::open(path) {
        Err(InputError::Empty { .. }) => return Ok(None),
        other => other?,
    };
    input.cancel_flag(cancel.flag());
    if !is_archive(&mut input)? {
        return Ok(None);
    }
    say(announcement(&input, scratch));
    Ok(Some(unpack(input, scratch)?))
}
