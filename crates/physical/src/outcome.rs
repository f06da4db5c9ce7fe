//! What a backup, a restore and a check of a backup have done.

use std::collections::BTreeMap;
use std::path::PathBuf;

use refloat_repository::{Manifest, Totals};
use serde::Serialize;

use crate::about::About;
use crate::binlog::Replayed;

/// What a backup has done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BackupOutcome {
    /// Id of the run, which is the name of its folder.
    pub run: String,
    /// The server, as it was named, without secrets.
    pub source: String,
    /// URL or path of the repository.
    pub repository: String,
    /// Label that the backup has in the repository.
    pub label: String,
    /// How many files the backup has.
    pub files: u64,
    /// Bytes of its files, uncompressed.
    pub bytes: u64,
    /// Of these, bytes that the repository had already, and zeros.
    pub known: u64,
    /// Bytes that were added to the repository.
    pub added: u64,
    /// What it says of the server; `None`: there is no backup.
    pub about: Option<About>,
    /// Seconds for which commits were held up.
    pub blocked_seconds: f64,
    /// Seconds that the whole run took.
    pub seconds: f64,
    /// Settings that could not be put back.
    pub settings_left: Vec<String>,
}

impl BackupOutcome {
    /// Adds what was written so far.
    pub(crate) fn count(&mut self, totals: Totals) {
        (self.bytes, self.known, self.added) = (totals.bytes, totals.known, totals.added);
    }

    pub(crate) fn take_totals(&mut self, manifest: &Manifest) {
        self.files = manifest.files;
        self.bytes = manifest.bytes;
        self.added = manifest.added;
    }
}

/// What a restore has done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RestoreOutcome {
    /// Id of the run, which is the name of its folder.
    pub run: String,
    /// URL or path of the repository.
    pub repository: String,
    /// Label of the backup that was restored.
    pub label: String,
    /// The data directory that was to be filled.
    pub datadir: PathBuf,
    /// Where the previous data are now; `None`: there were none.
    pub aside: Option<PathBuf>,
    /// Number of files in the backup.
    pub files: u64,
    /// Bytes of its files, uncompressed.
    pub bytes: u64,
    /// Of these, bytes that were fetched from the repository.
    pub fetched: u64,
    /// What the backup says of its server.
    pub about: Option<About>,
    /// Seconds in which files were fetched from the repository.
    pub fetch_seconds: f64,
    /// Seconds in which the tool applied the redo log.
    pub prepare_seconds: f64,
    /// The binary logs that were replayed; `None`: none.
    pub replayed: Option<Replayed>,
    /// Whether the server was started.
    pub started: bool,
    /// Seconds that the whole run took.
    pub seconds: f64,
}

/// What a check of a backup has found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct VerifyOutcome {
    /// URL or path of the repository.
    pub repository: String,
    /// Labels of the backups that were read, and are whole.
    pub labels: Vec<String>,
    /// Labels of those that are not, and what is wrong with each.
    pub damaged: BTreeMap<String, String>,
    /// Labels of those that can be read, but on which no server works here, and why: they may be
    /// damaged, or this machine may be unsuitable.
    pub untried: BTreeMap<String, String>,
    /// What servers reported about those that were restored.
    pub checked: Vec<CheckedBackup>,
    /// Bytes of the files that were read, uncompressed.
    pub bytes: u64,
    /// Seconds that the whole check took.
    pub seconds: f64,
}

/// What a server reported about the tables of a backup.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CheckedBackup {
    /// Label of the backup that the server was started with.
    pub label: String,
    /// Number of tables that are whole.
    pub tables: u64,
    /// Those that are not, as `database.table`, and what the server said of each.
    pub damaged: BTreeMap<String, String>,
    /// Those that cannot be checked, and why: their engine checks nothing, or is not there.
    pub unchecked: BTreeMap<String, String>,
    /// Number of tables that were not checked, because the server had ended.
    pub left: u64,
    /// Seconds of fetch, start and check.
    pub seconds: f64,
}

/// What a rebuild has done.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RebuildOutcome {
    /// Id of the run, which is the name of its folder.
    pub run: String,
    /// The server whose files were copied, as it was named, without secrets.
    pub donor: String,
    /// The data directory that was to be filled.
    pub datadir: PathBuf,
    /// Where the previous data are now; `None`: there were none.
    pub aside: Option<PathBuf>,
    /// Number of files in the copy.
    pub files: u64,
    /// Bytes of these files, uncompressed.
    pub bytes: u64,
    /// Of these, bytes that the data directory had already.
    pub same: u64,
    /// Bytes that went over the network.
    pub sent: u64,
    /// What the copy says of its server.
    pub about: Option<About>,
    /// Seconds in which files were copied.
    pub copy_seconds: f64,
    /// Seconds for which commits waited on the donor.
    pub blocked_seconds: f64,
    /// Seconds in which the tool applied the redo log.
    pub prepare_seconds: f64,
    /// Whether the server was started.
    pub started: bool,
    /// Whether it replicates from the donor.
    pub replicates: bool,
    /// Seconds until it had replicated what the donor had written meanwhile.
    pub catch_up_seconds: f64,
    /// Seconds that the whole run took.
    pub seconds: f64,
    /// Settings of the donor that could not be put back.
    pub settings_left: Vec<String>,
}
