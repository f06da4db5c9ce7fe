//! Fingerprints that tell one source from another.

use std::io::{self, Read as _};
use std::path::Path;

use refloat_source::layout::Layout;
use refloat_store::{Input, files};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::error::LoadError;
use crate::open_source::{OpenSource, read_error};

/// Bytes to hash at each end of a file.
const ENDS: usize = 64 << 10;

/// Identifies a source by its content, or a folder by the names and sizes of its files. The source
/// may have another name next time. Only the ends of a file are hashed. The rest is compared when
/// its loaded rows are skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Fingerprints a source without consuming any of it.
    pub fn of(source: &mut OpenSource, path: &Path) -> Result<Self, LoadError> {
        let hash = match source {
            OpenSource::Stream(input) if input.rewindable() => {
                of_file(path).map_err(|error| read_error(&path.display().to_string(), error))?
            }
            OpenSource::Stream(input) => of_pipe(input)?,
            OpenSource::Layout(layout) => of_layout(layout),
        };
        Ok(Self(format!("{hash:032x}")))
    }
}

fn of_file(path: &Path) -> io::Result<u128> {
    let bytes = files::stat(path)?.bytes;
    let mut hash = XxHash3_128::new();
    hash.write(&bytes.to_le_bytes());
    let mut buffer = vec![0; ENDS];
    for at in [0, bytes.saturating_sub(ENDS as u64)] {
        let take = usize::try_from(bytes - at).map_or(ENDS, |left| left.min(ENDS));
        files::open(path, at)?.read_exact(&mut buffer[..take])?;
        hash.write(&buffer[..take]);
    }
    Ok(hash.finish_128())
}

fn of_pipe(input: &mut Input) -> Result<u128, LoadError> {
    let mut hash = XxHash3_128::new();
    hash.write(b"pipe");
    hash.write(input.peek(ENDS)?);
    Ok(hash.finish_128())
}

fn of_layout(layout: &Layout) -> u128 {
    let mut files: Vec<(String, u64)> = layout
        .statements()
        .map(|file| {
            (
                &file.path,
                files::stat(&file.path).map_or(0, |stat| stat.bytes),
            )
        })
        .chain(
            layout
                .tables()
                .flat_map(|table| &table.files)
                .map(|file| (&file.path, file.bytes)),
        )
        .map(|(path, bytes)| {
            let below = path.strip_prefix(&layout.path).unwrap_or(path);
            (below.display().to_string(), bytes)
        })
        .collect();
    files.sort();
    let mut hash = XxHash3_128::new();
    for (name, bytes) in files {
        hash.write(name.as_bytes());
        hash.write(&[0]);
        hash.write(&bytes.to_le_bytes());
    }
    hash.finish_128()
}
