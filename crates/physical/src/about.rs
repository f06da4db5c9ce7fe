//! What a backup says of the server that it is of, and of itself.
//!
//! The tools leave it in small text files at the end of the stream: `xtrabackup_checkpoints` and
//! `xtrabackup_info` (`MariaDB` up to 10.11), or `mariadb_backup_checkpoints` and
//! `mariadb_backup_info` (later), and others that exist only where there is something to say.
//! Source: `extra/mariabackup`, `xtrabackup.h` and `backup_mysql.cc` (`write_xtrabackup_info`,
//! `write_binlog_info`, `write_galera_info`).

use std::collections::BTreeMap;

use refloat_repository::{FileEntry, Manifest};
use refloat_wire::Identity;
use serde::{Deserialize, Serialize};

use crate::tool::{Tool, ToolKind};

/// The kind of these backups in the manifests of a repository.
pub const KIND: &str = "physical";
/// The latest format that this version reads.
const FORMAT: u32 = 2;
/// The format of backups whose files a tool must prepare, as the tools' own backups are.
const FORMAT_OF_TOOLS: u32 = 1;
/// Prefixes of these files' names: those of all old tools, and MariaDB's current one.
const PREFIXES: [&str; 2] = ["xtrabackup_", "mariadb_backup_"];
/// Other names for the position of a Galera node.
const GALERA: [&str; 1] = ["donor_galera_info"];

/// What can be wrong with a backup's description of itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InfoError {
    /// The backup is not physical: it is a dump, or something else.
    #[error("it is not a physical backup")]
    AnotherKind,
    /// Made by a later version of this program.
    #[error("it has format {found}, and this version reads up to {FORMAT}")]
    Format {
        /// The format that the backup was written in.
        found: u32,
    },
    /// Its description is no valid JSON, or lacks a field.
    #[error("its description cannot be read: {0}")]
    Damaged(#[from] serde_json::Error),
}

/// What a backup says of the server that it is of, and of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `physical`.
    pub kind: String,
    /// The format of these fields.
    pub format: u32,
    /// The server whose files were copied.
    pub server: ServerFacts,
    /// The program that copied them, or the clone plugin.
    pub tool: Tool,
    /// Log sequence numbers of `InnoDB`.
    pub lsn: Lsn,
    /// Its position in the binary log; `None`: it has none, or it is known only once a server has
    /// started on the backup.
    pub binlog: Option<BinlogPosition>,
    /// Its position in the binary log when the copy began, where the position of the copy itself is
    /// not known beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binlog_began: Option<BinlogPosition>,
    /// Its position in the history of its Galera cluster; `None`: it is not a node of one.
    pub galera: Option<GaleraPosition>,
    /// What the tool says about the source that this server replicates from, as `CHANGE MASTER` or
    /// `CHANGE REPLICATION SOURCE`; empty: it replicates, and its own files have the source.
    pub replica: Option<String>,
    /// Bytes that its files take on a disk, without what compressed pages leave of their places.
    /// `None`: that was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<u64>,
}

/// What is needed to start a server on these files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerFacts {
    /// `MariaDB` or `MySQL`.
    pub vendor: String,
    /// The version that the server reports.
    pub version: String,
    /// `@@hostname`.
    pub hostname: String,
    /// `@@port`.
    pub port: u16,
    /// `@@server_uuid`, or `@@server_uid` of `MariaDB`, which has one since 10.5.26, 10.6.19 and
    /// 10.11.9.
    pub uuid: Option<String>,
    /// `@@datadir`.
    pub datadir: String,
    /// Settings with which its files were made; another server needs the same.
    pub settings: BTreeMap<String, String>,
    /// A tablespace that it encrypted (`MariaDB`), whatever its settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<String>,
}

impl ServerFacts {
    /// What shows that it encrypted files with keys that are not among them (`MariaDB`): settings,
    /// and one of its tablespaces.
    pub fn encrypts(&self) -> impl Iterator<Item = &str> {
        let is_on = |name: &&str| {
            let value = self.settings.get(*name);
            value.is_some_and(|value| !value.eq_ignore_ascii_case("off"))
        };
        ["innodb_encrypt_tables", "innodb_encrypt_log"]
            .into_iter()
            .filter(is_on)
            .chain(self.encrypted.as_deref())
    }
}

impl ServerFacts {
    /// What distinguishes the server from others, as seen by a connection.
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            uuid: self.uuid.clone(),
            hostname: self.hostname.clone(),
            port: self.port,
            datadir: self.datadir.clone(),
            version: self.version.clone(),
        }
    }
}

/// Log sequence numbers of `InnoDB`, in bytes of its redo log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lsn {
    /// The checkpoint from which on the redo log is applied.
    pub checkpoint: u64,
    /// The end of the redo log that was copied.
    pub end: u64,
}

/// A position in a binary log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinlogPosition {
    /// Name of the log file, without its folder.
    pub file: String,
    /// Offset in this file, in bytes.
    pub position: u64,
    /// GTIDs up to there, in the vendor's own form; empty: none.
    pub gtid: String,
}

/// A position in the history of a Galera cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GaleraPosition {
    /// UUID of the history, as in `wsrep_cluster_state_uuid`.
    pub uuid: String,
    /// Number of the last write-set that the data include.
    pub seqno: u64,
}

/// The small files of a backup by name, which [`About`] is read from.
pub type InfoFiles = BTreeMap<String, Vec<u8>>;

/// Whether a file at the top of a stream is one of these small files.
pub fn is_info(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || GALERA.contains(&name)
}

impl About {
    /// Reads the files that the tool left.
    ///
    /// # Errors
    /// What is missing or contradictory, in words.
    pub(crate) fn of(files: &InfoFiles, server: ServerFacts, tool: Tool) -> Result<Self, String> {
        let text = |name: &str| {
            let found = PREFIXES
                .iter()
                .find_map(|prefix| files.get(&format!("{prefix}{name}")));
            found.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        let checkpoints = text("checkpoints").ok_or("it has no xtrabackup_checkpoints")?;
        let kind = value(&checkpoints, "backup_type").unwrap_or_default();
        // `full-prepared` and `log-applied` are the kinds of a folder that was prepared already.
        if kind != "full-backuped" {
            return Err(format!("xtrabackup_checkpoints says {kind:?}"));
        }
        let number = |key: &str| {
            let found = value(&checkpoints, key).and_then(|text| text.parse::<u64>().ok());
            found.ok_or_else(|| format!("xtrabackup_checkpoints has no {key}"))
        };
        let lsn = Lsn {
            checkpoint: number("to_lsn")?,
            end: number("last_lsn")?,
        };
        if lsn.end < lsn.checkpoint {
            return Err(format!(
                "its redo log ends at {}, before its checkpoint at {}",
                lsn.end, lsn.checkpoint
            ));
        }
        let info = text("info").ok_or("it has no xtrabackup_info")?;
        if value(&info, "partial").is_some_and(|partial| partial != "N") {
            return Err("xtrabackup_info says that it is partial".to_owned());
        }
        let galera = text("galera_info")
            .or_else(|| {
                let found = GALERA.iter().find_map(|name| files.get(*name));
                found.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            })
            .and_then(|text| GaleraPosition::parse(&text));
        Ok(Self {
            kind: KIND.to_owned(),
            format: FORMAT_OF_TOOLS,
            server,
            tool,
            lsn,
            binlog: text("binlog_info").and_then(|text| BinlogPosition::parse(&text)),
            binlog_began: None,
            galera,
            replica: text("slave_info").map(|text| text.trim().to_owned()),
            room: None,
        })
    }

    /// Describes a copy that the clone plugin has sent.
    pub(crate) fn cloned(
        (server, is_replica): (ServerFacts, bool),
        tool: Tool,
        lsn: Lsn,
        binlog_began: Option<BinlogPosition>,
    ) -> Self {
        Self {
            kind: KIND.to_owned(),
            format: FORMAT,
            server,
            tool,
            lsn,
            binlog: None,
            binlog_began,
            galera: None,
            replica: is_replica.then(String::new),
            room: None,
        }
    }

    /// What the manifest of a backup says.
    ///
    /// # Errors
    /// It is not a physical backup, or was made by a later version.
    pub fn read(manifest: &Manifest) -> Result<Self, InfoError> {
        let about = &manifest.about;
        if manifest.kind() != KIND {
            return Err(InfoError::AnotherKind);
        }
        let format = about.get("format").and_then(serde_json::Value::as_u64);
        let found = format.and_then(|format| u32::try_from(format).ok());
        if let Some(found) = found.filter(|found| *found > FORMAT) {
            return Err(InfoError::Format { found });
        }
        let all = about.clone().into_iter().collect();
        Ok(serde_json::from_value(serde_json::Value::Object(all))?)
    }

    /// As the manifest keeps it.
    pub(crate) fn into_map(self) -> Result<BTreeMap<String, serde_json::Value>, InfoError> {
        let value = serde_json::to_value(self)?;
        Ok(serde_json::from_value(value)?)
    }

    /// Bytes that these files of the backup take on a disk, at most.
    pub(crate) fn room_for(&self, files: &[FileEntry]) -> u64 {
        let covered = files.iter().map(FileEntry::covered).sum();
        self.room.map_or(covered, |room| room.min(covered))
    }

    /// The tool that prepares it.
    pub fn tool_kind(&self) -> ToolKind {
        self.tool.kind
    }
}

impl BinlogPosition {
    /// File, byte and GTIDs, which are separated by tabs. GTID sets of `MySQL` may span lines.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.trim_end().splitn(3, ['\t', ' ']);
        let file = words.next().filter(|file| !file.is_empty())?.to_owned();
        let position = words.next()?.trim().parse().ok()?;
        let gtid: String = words
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        Some(Self {
            file,
            position,
            gtid,
        })
    }
}

impl GaleraPosition {
    /// `UUID:SEQNO`, and from 10.6 on the domain of the cluster's GTIDs behind a space.
    fn parse(text: &str) -> Option<Self> {
        let first = text.split_ascii_whitespace().next()?;
        let (uuid, seqno) = first.rsplit_once(':')?;
        Some(Self {
            uuid: uuid.to_owned(),
            seqno: seqno.parse().ok()?,
        })
    }
}

/// The value of `key = value`.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn about(files: &[(&str, &str)]) -> Result<About, String> {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
            .collect();
        let tool = Tool {
            kind: ToolKind::MariadbBackup,
            program: PathBuf::from("mariadb-backup"),
            version: (10, 11, 19),
        };
        About::of(&files, ServerFacts::default(), tool)
    }

    const CHECKPOINTS: &str =
        "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 44404\nlast_lsn = 44760\n";
    const INFO: &str = "tool_name = mariadb-backup\npartial = N\n";

    #[test]
    fn holes_need_no_room() {
        let mut about = about(&[
            ("xtrabackup_checkpoints", CHECKPOINTS),
            ("xtrabackup_info", INFO),
        ])
        .unwrap();
        let extent = |begins| refloat_repository::Extent {
            begins,
            length: 1000,
            pack: 0,
            at: 0,
            stored: 0,
            hash: refloat_repository::Hash([0; 32]),
        };
        let file = FileEntry {
            path: "a".to_owned(),
            size: 1 << 40,
            extents: vec![extent(0), extent(1 << 39)],
        };
        let files = [file.clone(), file];
        assert_eq!(about.room_for(&files), 4000);
        about.room = Some(3000);
        // Some of the files may be enough.
        let rooms = (about.room_for(&files), about.room_for(&files[..1]));
        assert_eq!(rooms, (3000, 2000));
    }

    #[test]
    fn what_the_tools_leave_is_read() {
        let old = about(&[
            ("xtrabackup_checkpoints", CHECKPOINTS),
            ("xtrabackup_info", INFO),
            ("xtrabackup_binlog_info", "bin.000007\t4242\t0-1-99\n"),
            (
                "donor_galera_info",
                "5a2e6f6e-0000-11f1-8cd0-02fc00000001:17 0\n",
            ),
        ])
        .unwrap();
        let expected = Lsn {
            checkpoint: 44404,
            end: 44760,
        };
        assert_eq!(old.lsn, expected);
        let binlog = old.binlog.clone().unwrap();
        assert_eq!(
            (binlog.file.as_str(), binlog.position, binlog.gtid.as_str()),
            ("bin.000007", 4242, "0-1-99")
        );
        assert_eq!(old.galera.clone().unwrap().seqno, 17);
        let new = about(&[
            ("mariadb_backup_checkpoints", CHECKPOINTS),
            ("mariadb_backup_info", INFO),
        ])
        .unwrap();
        assert_eq!((new.lsn, new.binlog, new.galera), (expected, None, None));
        let mut manifest = Manifest {
            label: "a".to_owned(),
            began: 0,
            began_nanos: 0,
            ended: 0,
            about: old.clone().into_map().unwrap(),
            files: 0,
            bytes: 0,
            added: 0,
            packs: Vec::new(),
            list_bytes: 0,
            list: Vec::new(),
        };
        assert_eq!(About::read(&manifest).unwrap(), old);
        manifest.about.insert("format".to_owned(), 3.into());
        let error = About::read(&manifest).unwrap_err();
        assert!(matches!(error, InfoError::Format { found: 3 }), "{error}");
        manifest.about.insert("kind".to_owned(), "dump".into());
        assert!(matches!(
            About::read(&manifest),
            Err(InfoError::AnotherKind)
        ));
    }

    #[test]
    fn a_backup_that_is_not_whole_is_no_backup() {
        for (files, why) in [
            (vec![("xtrabackup_info", INFO)], "no xtrabackup_checkpoints"),
            (
                vec![("xtrabackup_checkpoints", CHECKPOINTS)],
                "no xtrabackup_info",
            ),
            (
                vec![
                    ("xtrabackup_checkpoints", "backup_type = log-applied\n"),
                    ("xtrabackup_info", INFO),
                ],
                "log-applied",
            ),
            (
                vec![
                    (
                        "xtrabackup_checkpoints",
                        "backup_type = full-backuped\nto_lsn = 9\nlast_lsn = 8\n",
                    ),
                    ("xtrabackup_info", INFO),
                ],
                "before its checkpoint",
            ),
            (
                vec![
                    ("xtrabackup_checkpoints", CHECKPOINTS),
                    ("xtrabackup_info", "partial = Y"),
                ],
                "partial",
            ),
        ] {
            let error = about(&files).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
