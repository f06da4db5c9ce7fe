//! Lists and reads the files of a folder.

use std::path::{Path, PathBuf};
use std::{fs, io};

use refloat_store::Input;
use refloat_store::files::{self, Kind};

use super::error::SourceError;

/// File name extensions of compressed files.
const COMPRESSED: &[&str] = &[".gz", ".zst", ".xz", ".bz2"];
/// Largest file that is read whole, in bytes: files that describe a dump, not its rows.
const SMALL_MAX: usize = 256 << 20;
/// Number of values that metadata may hold whatever its size. A value can be written in two bytes,
/// but takes about ten times that in memory.
const VALUES_ANY: usize = 1 << 20;
/// Beyond that, one value is allowed per this many bytes. Real metadata is less dense, with its
/// names, quotes and indentation.
const BYTES_PER_VALUE: usize = 16;

/// A file or folder within a folder.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The folder's path and the name.
    pub path: PathBuf,
    /// Name within the folder.
    pub name: String,
    /// Its name without a compression extension.
    pub plain: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it is a folder itself.
    pub folder: bool,
}

impl Entry {
    /// Whether its name, without a compression extension, ends with `end`. Tools write these
    /// suffixes in lower case.
    pub fn has_end(&self, end: &str) -> bool {
        self.plain.len() > end.len() && self.plain.ends_with(end)
    }
}

/// Lists a folder, sorted by name. Anything that is neither a file nor a folder (a pipe, a device,
/// a dangling link) is an error.
pub fn list(folder: &Path) -> Result<Vec<Entry>, SourceError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |source: io::Error| SourceError::Read { path, source }
    };
    if let Some(entries) = files::mounted_entries(folder) {
        let entries = entries.map_err(failed(folder))?;
        let entry = |(name, stat): (String, files::Stat)| Entry {
            path: folder.join(&name),
            plain: plain_name(&name).to_owned(),
            name,
            bytes: stat.bytes,
            folder: stat.kind == Kind::Folder,
        };
        return Ok(entries.into_iter().map(entry).collect());
    }
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
                reason: "its name is not UTF-8".to_owned(),
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

/// A name without its compression extension.
pub fn plain_name(name: &str) -> &str {
    COMPRESSED
        .iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}

/// Reads a whole file, decompressed. An empty file gives an empty result.
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

/// Parses JSON metadata. Unknown fields are dropped, so `T` must be a struct, not a type that
/// accepts any value.
///
/// # Errors
/// Why the text is not metadata, as a message.
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

/// The first `most` bytes of a file, decompressed, and whether they are all of it.
pub fn read_up_to(path: &Path, most: usize) -> Result<(Vec<u8>, bool), SourceError> {
    let stat = files::stat(path).map_err(|source| SourceError::Read {
        path: path.display().to_string(),
        source,
    })?;
    let mut text = Vec::new();
    if stat.bytes == 0 {
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
