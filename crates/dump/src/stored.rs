//! Dumps into a repository: the files go into a backup as they are written, its manifest comes
//! last.

use std::path::PathBuf;
use std::sync::Arc;

use refloat_repository::{
    BackupWriter, FolderWriter, LATEST, LEVEL, Manifest as Backup, Repository, RepositoryError,
    usual_label,
};
use refloat_run::Events;
use refloat_source::manifest::{Manifest, SnapshotInfo};
use refloat_store::Folder;
use refloat_wire::{Connection, Identity};
use serde::{Deserialize, Serialize};

use super::error::DumpError;
use super::outcome::StoredDump;

/// The kind of these backups in the manifests of a repository.
pub const KIND: &str = "logical";
/// The newest format of [`About`] that this version reads.
const FORMAT: u32 = 1;

/// The repository that a dump goes into.
#[derive(Debug, Clone)]
pub struct IntoRepository {
    /// Already opened, with its key if it is encrypted.
    pub repository: Repository,
    /// Label of the backup. `None` makes one of host and time.
    pub label: Option<String>,
    /// Threads that hash, compress and encrypt.
    pub threads: usize,
}

/// What a dump in a repository records about its server and itself. It is not encrypted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Always [`KIND`]: it is no backup of files.
    pub kind: String,
    /// The format of these fields.
    pub format: u32,
    /// The server that was dumped.
    pub server: ServerFacts,
    /// The moment that the rows are from.
    pub snapshot: SnapshotInfo,
    /// Databases in the dump.
    pub databases: u64,
    /// Tables in the dump, in all databases.
    pub tables: u64,
    /// Rows in the dump, of all tables.
    pub rows: u64,
}

/// The server of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// `MariaDB` or `MySQL`.
    pub vendor: String,
    /// The version that the server reports.
    pub version: String,
    /// `@@hostname`.
    pub hostname: String,
    /// `@@port`.
    pub port: u16,
    /// `@@datadir`.
    pub datadir: String,
}

impl About {
    /// Reads it from a backup. `None` if the backup is not a dump, or has a later format.
    pub fn read(backup: &Backup) -> Option<Self> {
        let all = serde_json::Value::Object(backup.about.clone().into_iter().collect());
        let about: Self = serde_json::from_value(all).ok()?;
        (about.kind == KIND && about.format <= FORMAT).then_some(about)
    }
}

/// A dump that is being written into a repository.
pub struct Stored {
    writer: Arc<FolderWriter>,
    /// Names the dump in messages.
    pub name: PathBuf,
    label: String,
}

impl Stored {
    /// Begins the backup.
    pub fn begin(
        into: &IntoRepository,
        control: &Connection,
        events: &Events,
    ) -> Result<Self, DumpError> {
        let identity = control.identity();
        let usual = || usual_label(&identity.hostname, identity.port);
        let label = into.label.clone().unwrap_or_else(usual);
        if label == LATEST {
            return Err(DumpError::refused(
                format!("{LATEST} always means the newest backup"),
                "Choose another label.",
            ));
        }
        // A backup that cannot be read has nothing to share, and must not prevent new ones.
        let parents = parents(&into.repository, identity).unwrap_or_else(|error| {
            let words = "no blocks are shared, because earlier backups cannot be read";
            events.warn(format!("{words}: {error}"));
            Vec::new()
        });
        let writer =
            BackupWriter::begin(&into.repository, &label, &parents, (into.threads, LEVEL))?;
        for one in writer.unshared() {
            events.warn(format!("no blocks are shared with {one}"));
        }
        Ok(Self {
            writer: Arc::new(FolderWriter::new(writer)),
            name: name_of(&into.repository, &label),
            label,
        })
    }

    /// The folder whose files become those of the backup.
    pub fn folder(&self) -> Folder {
        let writer = Arc::clone(&self.writer);
        Folder::into_sink(&self.name, writer)
    }

    /// Completes the backup, which exists from then on.
    pub fn finish(self, dump: &Manifest, identity: &Identity) -> Result<StoredDump, DumpError> {
        let tables = || dump.databases.iter().flat_map(|database| &database.tables);
        let about = About {
            kind: KIND.to_owned(),
            format: FORMAT,
            server: ServerFacts {
                vendor: dump.server.vendor.clone(),
                version: dump.server.version.clone(),
                hostname: dump.server.hostname.clone(),
                port: identity.port,
                datadir: identity.datadir.clone(),
            },
            snapshot: dump.snapshot.clone(),
            databases: dump.databases.len() as u64,
            tables: tables().count() as u64,
            rows: tables().map(|table| table.rows).sum(),
        };
        #[expect(clippy::expect_used, reason = "texts and numbers are JSON")]
        let about = serde_json::to_value(about)
            .and_then(serde_json::from_value)
            .expect("it is JSON");
        // The folder is sealed, so nobody else holds the writer.
        let mut writer = Arc::into_inner(self.writer).ok_or_else(DumpError::defect)?;
        writer.wait()?;
        let known = writer.totals().known;
        let backup = writer.finish(about)?;
        Ok(StoredDump {
            label: self.label,
            bytes: backup.bytes,
            known,
            added: backup.added,
        })
    }
}

/// The path of a dump in a repository: its name in messages, and where it is mounted for reading.
pub fn name_of(repository: &Repository, label: &str) -> PathBuf {
    PathBuf::from(format!("{}::{label}", repository.storage().url()))
}

/// The newest dump of the same server, with which most blocks are shared.
fn parents(repository: &Repository, of: &Identity) -> Result<Vec<Backup>, RepositoryError> {
    let is_same = |backup: &Backup| {
        About::read(backup).is_some_and(|about| {
            let server = about.server;
            server.hostname == of.hostname && server.port == of.port && server.datadir == of.datadir
        })
    };
    let newest = repository.backups()?.into_iter().rev().find(is_same);
    Ok(newest.into_iter().collect())
}
