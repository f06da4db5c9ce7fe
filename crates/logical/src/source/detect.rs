//! What a folder is, by what is in it.

use std::path::Path;

use super::error::SourceError;
use super::folder;
use super::layout::{Layout, SourceFormat};
use super::mydumper;

/// Lays a folder out. `format` is what the caller says that it is.
///
/// # Errors
/// A folder that no known tool wrote, and what cannot be read.
pub fn open_folder(path: &Path, format: Option<SourceFormat>) -> Result<Layout, SourceError> {
    let entries = folder::list(path)?;
    match format {
        Some(SourceFormat::Mydumper) => mydumper::layout(path, entries),
        None if mydumper::is_here(&entries) => mydumper::layout(path, entries),
        _ => Err(SourceError::Unknown {
            path: path.display().to_string(),
            reason: "a file `metadata` beside *-schema.sql (mydumper)".to_owned(),
        }),
    }
}
