//! The repository that a command works on, from its URL and its key.

use std::fs;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use refloat_repository::{Access, Identity, Key, Recipient, Repository, RepositoryError};
use refloat_store::storage::Storage;

use crate::context::Context;
use crate::exit::ProgramError;

/// `--repo URL` and its key.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Repository")]
pub struct RepoArgs {
    /// Where the backups lie
    ///
    /// A folder of this machine (`/PATH`), one of another machine (`ssh://USER@HOST/PATH`, by
    /// SFTP), or a bucket (`s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, `gs://BUCKET/PREFIX`).
    /// Keys, endpoint and region of a bucket come from the variables that the services' own tools
    /// read, such as `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT_URL`. `refloat backup` takes `-`, too:
    /// a stream to stdout, for `refloat backups import`.
    #[arg(long, value_name = "URL")]
    pub repo: String,

    /// The file with the key of an encrypted repository
    ///
    /// `refloat backups init --key-file FILE` makes both. Without this file, or an identity that
    /// opens the key, nobody can read the backups: keep a copy of it elsewhere.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// The file with an age identity that opens the key of an encrypted repository
    ///
    /// As `age-keygen` writes it; see `refloat backups init --recipient`.
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    pub identity: Option<PathBuf>,
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

    /// The file with an age identity that opens the key of an encrypted repository
    #[arg(
        long,
        value_name = "FILE",
        requires = "repo",
        conflicts_with = "key_file"
    )]
    pub identity: Option<PathBuf>,
}

/// Whom the key of a new repository is wrapped for.
#[derive(Debug, Clone, Args)]
pub struct RecipientArgs {
    /// Wrap the key for this age recipient, as `age-keygen` prints it; may be repeated
    #[arg(long = "recipient", value_name = "age1…")]
    recipients: Vec<String>,

    /// Wrap the key for the age recipients in this file, one a line; may be repeated
    #[arg(long = "recipient-file", value_name = "FILE")]
    recipient_files: Vec<PathBuf>,
}

impl RecipientArgs {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.recipients.is_empty() && self.recipient_files.is_empty()
    }

    /// The recipients, without duplicates.
    pub fn read(&self) -> anyhow::Result<Vec<Recipient>> {
        let mut found: Vec<Recipient> = Vec::new();
        let mut add = |place: &str, text: &str| {
            let recipient = text.parse().map_err(|what: String| {
                // The text may be a secret that was given by mistake.
                ProgramError::usage(format!("{place} {what}"))
            })?;
            if !found.contains(&recipient) {
                found.push(recipient);
            }
            anyhow::Ok(())
        };
        for text in &self.recipients {
            add("--recipient", text)?;
        }
        for path in &self.recipient_files {
            let text = fs::read_to_string(path)
                .with_context(|| format!("--recipient-file: cannot read {}", path.display()))?;
            for (number, line) in (1..).zip(text.lines().map(str::trim)) {
                if !line.is_empty() && !line.starts_with('#') {
                    add(&format!("{}, line {number}:", path.display()), line)?;
                }
            }
        }
        Ok(found)
    }
}

impl DumpRepoArgs {
    /// The repository, if one was named.
    pub fn given(&self) -> Option<RepoArgs> {
        let repo = self.repo.clone()?;
        Some(RepoArgs {
            repo,
            key_file: self.key_file.clone(),
            identity: self.identity.clone(),
        })
    }
}

impl RepoArgs {
    /// Whether it is a stream to stdout.
    pub fn is_stream(&self) -> bool {
        self.repo == "-"
    }

    /// The storage that the URL names.
    pub fn storage(&self, context: &Context) -> anyhow::Result<Arc<dyn Storage>> {
        if self.is_stream() {
            return Err(ProgramError::usage("--repo - is a stream, which only `refloat backup` writes")
                .hint("`refloat backups import --repo REPO < FILE` puts a stream into a repository; everything else is done there. A folder of that name is ./-.")
                .into());
        }
        Ok(refloat_host::storage::open(&self.repo, context.buckets())?)
    }

    /// The repository, opened with its key.
    pub fn open(&self, context: &Context) -> anyhow::Result<Repository> {
        Ok(Repository::open(self.storage(context)?, &self.access()?)?)
    }

    /// The storage, and the repository in it. `None`: there is none.
    pub fn open_if_there(
        &self,
        context: &Context,
    ) -> anyhow::Result<(Arc<dyn Storage>, Option<Repository>)> {
        let storage = self.storage(context)?;
        match Repository::open(Arc::clone(&storage), &self.access()?) {
            Err(RepositoryError::Missing { .. })
                if self.identity.is_none() && storage.list("")?.is_empty() =>
            {
                Ok((storage, None))
            }
            other => Ok((storage, Some(other?))),
        }
    }

    /// Opens the repository, or creates one if there is none. Returns whether it is new.
    pub fn open_or_init(&self, context: &Context) -> anyhow::Result<(Repository, bool)> {
        let storage = self.storage(context)?;
        match Repository::open(Arc::clone(&storage), &self.access()?) {
            // An identity alone gives no key for a new repository.
            Err(RepositoryError::Missing { .. }) if self.identity.is_none() => {
                Ok((Repository::init(storage, self.key()?)?, true))
            }
            other => Ok((other?, false)),
        }
    }

    /// How to open the repository: with the key or the identities in the given file.
    pub fn access(&self) -> anyhow::Result<Access> {
        let Some(path) = &self.identity else {
            return Ok(self.key()?.into());
        };
        let text = fs::read_to_string(path)
            .with_context(|| format!("--identity: cannot read {}", path.display()))?;
        let identities = Identity::parse_file(&text).map_err(|what| {
            ProgramError::usage(format!("--identity: {} {what}", path.display()))
        })?;
        Ok(Access::Identities(identities))
    }

    /// The key in the file.
    pub fn key(&self) -> anyhow::Result<Option<Key>> {
        let Some(path) = &self.key_file else {
            return Ok(None);
        };
        let text = fs::read_to_string(path)
            .with_context(|| format!("--key-file: cannot read {}", path.display()))?;
        let key = Key::from_hex(&text).ok_or_else(|| {
            ProgramError::usage(format!(
                "--key-file: {} does not hold a key: 64 hexadecimal digits",
                path.display()
            ))
        })?;
        Ok(Some(key))
    }

    /// The key in the file, which is created if it is missing.
    pub fn key_or_new(&self) -> anyhow::Result<Option<Key>> {
        let Some(path) = &self.key_file else {
            return Ok(None);
        };
        match write_key(path, &Key::random()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.with_context(|| format!("--key-file: cannot make {}", path.display()))?,
        }
        self.key()
    }
}

/// Stdout as a stream of bytes: refuses a terminal, and is not line-buffered.
pub fn stdout_for_stream() -> anyhow::Result<Box<dyn std::io::Write + Send>> {
    let out = std::io::stdout();
    if out.is_terminal() {
        return Err(ProgramError::usage("a stream is not written to a terminal")
            .hint("Send it into a file or another program: `… > FILE`.")
            .into());
    }
    let out = out.as_fd().try_clone_to_owned();
    let out = out.context("cannot write to standard output")?;
    Ok(Box::new(fs::File::from(out)))
}

/// Writes a key to a new file that only its owner can read.
pub fn write_key(path: &Path, key: &Key) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(format!("{}\n", key.to_hex()).as_bytes())?;
    file.sync_all()
}
