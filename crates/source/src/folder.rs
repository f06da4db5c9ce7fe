//! The files of a folder, by name.

use std::path::{Path, PathBuf};
use std::{fs, io};

use refloat_store::Input;

use super::error::SourceError;

/// Endings of compressed files, with their point.
const COMPRESSED: &[&str] = &[".gz", ".zst", ".xz", ".bz2"];
/// Largest file that is read as a whole: what describes a dump, not the dump.
const SMALL_MAX: usize = 256 << 20;
/// Values that metadata may have whatever its size. Each costs some ten times the memory of the two bytes that it may be written in.
const VALUES_ANY: usize = 1 << 20;
/// Bytes of metadata for each value more: what tools write has more, with names, quotes and indents.
const BYTES_PER_VALUE: usize = 16;

/// A file of a folder.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where it is.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// Its name without the ending of a compressor.
    pub plain: String,
    /// Bytes.
    pub bytes: u64,
    /// Whether it is a folder itself.
    pub folder: bool,
}

impl Entry {
    /// Whether its name ends so, apart from the ending of a compressor. Tools write these ends in lower case.
    pub fn has_end(&self, end: &str) -> bool {
        self.plain.len() > end.len() && self.plain.ends_with(end)
    }
}

/// Lists a folder, by name. What is neither a file nor a folder (a pipe, a device, a link to nowhere) is named as an error.
pub fn list(folder: &Path) -> Result<Vec<Entry>, SourceError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source: io::Error| SourceError::Read { path, source }
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let meta = fs::metadata(&path).map_err(failed(&path))?;
        if fs::symlink_metadata(&path)
            .map_err(failed(&path))?
            .is_symlink()
        {
            let inside = fs::canonicalize(folder).map_err(failed(folder))?;
            let target = fs::canonicalize(&path).map_err(failed(&path))?;
            if !target.starts_with(inside) {
                return Err(SourceError::Unreadable {
                    path: path.display().to_string(),
                    reason: "it is a link that leads out of the folder".to_owned(),
                });
            }
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(SourceError::Unreadable {
                path: path.display().to_string(),
                reason: "its name is no UTF-8".to_owned(),
            });
        };
        if !meta.is_file() && !meta.is_dir() {
            return Err(SourceError::Unreadable {
                path: path.display().to_string(),
                reason: "it is neither a file nor a folder".to_owned(),
            });
        }
        entries.push(Entry {
            name: name.to_owned(),
            plain: plain_name(name).to_owned(),
            bytes: meta.len(),
            folder: meta.is_dir(),
            path,
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// A name without the ending of a compressor.
pub fn plain_name(name: &str) -> &str {
    COMPRESSED
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

/// A whole file, decompressed; an empty one is empty.
pub fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    read_up_to(path, SMALL_MAX).and_then(|(text, whole)| {
        if whole {
            Ok(text)
        } else {
            Err(SourceError::Unreadable {
                path: path.display().to_string(),
                reason: format!("it has more than {SMALL_MAX} bytes, and describes a dump"),
            })
        }
    })
}

/// Metadata in JSON. Only what `T` has a place for is kept: `T` is to be a struct, never any value at all.
///
/// # Errors
/// It is none, in words.
pub fn metadata<'a, T: serde::Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    let values = memchr::memchr_iter(b',', text).count();
    if values > VALUES_ANY.max(text.len() / BYTES_PER_VALUE) {
        return Err(format!(
            "it has more than {values} values in {} bytes, and describes a dump",
            text.len()
        ));
    }
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// The first bytes of a file, decompressed, and whether they are all.
pub fn read_up_to(path: &Path, most: usize) -> Result<(Vec<u8>, bool), SourceError> {
    let meta = fs::metadata(path).map_err(|source| SourceError::Read {
        path: path.display().to_string(),
        source,
    })?;
    let mut text = Vec::new();
    if meta.len() == 0 {
        return Ok((text, true));
    }
    let mut input = Input::open(path)?;
    while text.len() <= most {
        let want = (most + 1 - text.len()).min(1 << 20);
        if input.read_block(&mut text, want)? == 0 {
            return Ok((text, true));
        }
    }
    text.truncate(most);
    Ok((text, false))
}
