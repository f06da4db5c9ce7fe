//! Dumps that are not on this machine: in a repository, on another machine, in a bucket.

use std::path::{Path, PathBuf};

use refloat_dump::{KIND, name_of};
use refloat_host::storage::{is_elsewhere, mount};

use crate::context::Context;
use crate::repo::RepoArgs;

/// The path from which a dump is read. With a repository, `source` is a label in it, or a label and
/// a file of that dump (`LABEL/users.sql`); without one, a path, or the URL of a file or folder
/// elsewhere.
pub fn path_of(
    source: &Path,
    repo: Option<&RepoArgs>,
    context: &Context,
) -> anyhow::Result<PathBuf> {
    let text = source.to_string_lossy();
    if let Some(repo) = repo {
        let repository = repo.open(context)?;
        let (label, file) = text.split_once('/').unwrap_or((&text, ""));
        let backup = repository.find(label, Some(KIND))?;
        let path = name_of(&repository, &backup.label);
        refloat_repository::mount(&repository, &backup, &path)?;
        return Ok(if file.is_empty() {
            path
        } else {
            path.join(file)
        });
    }
    if let Some(path) = text.strip_prefix("file://") {
        // Opening looks at nothing, and knows what such a URL may hold.
        let storage = refloat_host::storage::open(&format!("file://{path}"), context.buckets())?;
        return Ok(PathBuf::from(storage.url()));
    }
    if is_elsewhere(&text) {
        return Ok(mount(&text, context.buckets())?);
    }
    Ok(source.to_owned())
}
