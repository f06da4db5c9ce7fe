//! The repository that a command works on, from its URL and its key.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use refloat_repository::{Key, Repository, RepositoryError};
use refloat_store::storage::Storage;

use crate::context::Context;
use crate::exit::ProgramError;

/// `--repo URL` and its key.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Repository")]
pub struct RepoArgs {
    /// Where the backups lie
    ///
    /// A folder of this machine (`/PATH`), one of another machine (`ssh://USER@HOST/PATH`, by
    /// SFTP), or a bucket (`s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `gs://BUCKET/PREFIX`).
    /// Keys, endpoint and region of a bucket come from the variables that the services' own tools
    /// read, such as `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT_URL`.
    #[arg(long, value_name = "URL")]
    pub repo: String,

    /// The file with the key of an encrypted repository
    ///
    /// `refloat backups init --key-file FILE` makes both. Without this file nobody reads the
    /// backups, so keep a copy of it elsewhere.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

/// `--repo URL` of a command that works without a repository as well.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Repository")]
pub struct DumpRepoArgs {
    /// The repository that the dump is in, or goes into
    ///
    /// A folder of this machine (`/PATH`), one of another machine (`ssh://USER@HOST/PATH`), or a
    /// bucket (`s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `gs://BUCKET/PREFIX`): see `refloat
    /// backup --help`. Dumps and backups of files lie in it side by side.
    #[arg(long, value_name = "URL")]
    pub repo: Option<String>,

    /// The file with the key of an encrypted repository
    #[arg(long, value_name = "FILE", requires = "repo")]
    pub key_file: Option<PathBuf>,
}

impl DumpRepoArgs {
    /// The repository, if one was named.
    pub fn given(&self) -> Option<RepoArgs> {
        let repo = self.repo.clone()?;
        let key_file = self.key_file.clone();
        Some(RepoArgs { repo, key_file })
    }
}

impl RepoArgs {
    /// The storage that the URL names.
    pub fn storage(&self, context: &Context) -> anyhow::Result<Arc<dyn Storage>> {
        Ok(refloat_host::storage::open(&self.repo, context.buckets())?)
    }

    /// Opens the repository.
    pub fn open(&self, context: &Context) -> anyhow::Result<Repository> {
        Ok(Repository::open(self.storage(context)?, self.key()?)?)
    }

    /// The URL without secrets, and the repository; `None`: nothing is there.
    pub fn open_if_there(&self, context: &Context) -> anyhow::Result<(String, Option<Repository>)> {
        let storage = self.storage(context)?;
        let url = storage.url().to_owned();
        match Repository::open(Arc::clone(&storage), self.key()?) {
            Err(RepositoryError::Missing { .. }) if storage.list("")?.is_empty() => Ok((url, None)),
            other => Ok((url, Some(other?))),
        }
    }

    /// Opens the repository, or makes one where nothing is. Says whether it is new.
    pub fn open_or_init(&self, context: &Context) -> anyhow::Result<(Repository, bool)> {
        let (storage, key) = (self.storage(context)?, self.key()?);
        match Repository::open(Arc::clone(&storage), key.clone()) {
            Err(RepositoryError::Missing { .. }) => Ok((Repository::init(storage, key)?, true)),
            other => Ok((other?, false)),
        }
    }

    /// The key in the file.
    pub fn key(&self) -> anyhow::Result<Option<Key>> {
        let Some(path) = &self.key_file else {
            return Ok(None);
        };
        let text = fs::read_to_string(path)
            .with_context(|| format!("--key-file: cannot read {}", path.display()))?;
        let key = from_hex(text.trim()).ok_or_else(|| {
            ProgramError::usage(format!(
                "--key-file: {} does not hold a key: 64 hexadecimal digits",
                path.display()
            ))
        })?;
        Ok(Some(Key::new(key)))
    }

    /// The key in the file, which is made if it is not there.
    pub fn key_or_new(&self) -> anyhow::Result<Option<Key>> {
        let Some(path) = &self.key_file else {
            return Ok(None);
        };
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match file {
            Ok(mut file) => {
                let text = Key::random_hex();
                file.write_all(format!("{text}\n").as_bytes())
                    .and_then(|()| file.sync_all())
                    .with_context(|| format!("--key-file: cannot write {}", path.display()))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("--key-file: cannot make {}", path.display()));
            }
        }
        self.key()
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(key)
}
