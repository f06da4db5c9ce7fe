//! Detects the kind of a source from its files.

use std::path::Path;

use super::error::SourceError;
use super::layout::{Layout, SourceFormat};
use super::options::DelimitedOptions;
use super::{folder, mydumper, native, shell, tab};

/// Lays out a folder. `format` is the kind that the caller named, if any; `options` say how its
/// data files are written.
///
/// # Errors
/// A folder that no known tool wrote, or files that cannot be read.
pub fn open_folder(
    path: &Path,
    format: Option<SourceFormat>,
    options: &DelimitedOptions,
) -> Result<Layout, SourceError> {
    let entries = folder::list(path)?;
    options.check().map_err(|reason| SourceError::Unreadable {
        path: path.display().to_string(),
        reason,
    })?;
    let format = match format {
        Some(format) => Some(format),
        None if native::is_here(&entries) => Some(SourceFormat::Refloat),
        None if mydumper::is_here(&entries) => Some(SourceFormat::Mydumper),
        None if shell::is_here(&entries) => Some(SourceFormat::Shell),
        None if tab::is_tab(&entries) || tab::is_dir(&entries)? => Some(SourceFormat::Tab),
        None => None,
    };
    let mut layout = match format {
        // The manifest states the size of each file, so there are no lost files to look for.
        Some(SourceFormat::Refloat) => return native::layout(path),
        Some(SourceFormat::Mydumper) => mydumper::layout(path, &entries)?,
        Some(SourceFormat::Shell) => shell::layout(path, entries)?,
        Some(SourceFormat::Tab) => tab::layout(path, entries, options)?,
        _ => return Err(SourceError::Unknown {
            path: path.display().to_string(),
            reason: "no manifest.json (refloat; written last, so a dump that was not finished has none), no file `metadata` beside *-schema.sql (mydumper), no @.json (MySQL Shell), no TABLE.txt beside TABLE.sql (mysqldump --tab), no such folders (mariadb-dump --dir)".to_owned(),
        }),
    };
    layout.look_for_lost();
    Ok(layout)
}
