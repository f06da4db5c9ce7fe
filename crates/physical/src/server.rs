//! What has to be known about a server before its files are copied.

use std::collections::BTreeMap;
use std::path::PathBuf;

use refloat_host::{Host, datadir, last_line};
use refloat_run::Refusal;
use refloat_wire::{Connection, ServerInfo, Vendor};

use crate::about::ServerFacts;
use crate::error::PhysicalError;

/// Settings that a backup records besides [`MEANT`]: where files and binary logs are, how they are
/// written, and whether the logs include what a replica receives.
const SETTINGS: [&str; 10] = [
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_checksum_algorithm",
    "innodb_encrypt_tables",
    "innodb_encrypt_log",
    "aria_log_dir_path",
    "log_bin_basename",
    "log_slave_updates",
    "log_replica_updates",
];
/// Settings that the files depend on, or the meaning of statements that do not say otherwise.
pub const MEANT: [&str; 13] = [
    "innodb_page_size",
    "innodb_data_file_path",
    "innodb_undo_tablespaces",
    "lower_case_table_names",
    "innodb_default_row_format",
    "innodb_file_per_table",
    "innodb_strict_mode",
    "default_storage_engine",
    "explicit_defaults_for_timestamp",
    "character_set_server",
    "collation_server",
    "system_versioning_alter_history",
    "default_table_encryption",
];

/// A server that is to be backed up.
#[derive(Debug, Clone)]
pub struct Server {
    pub info: ServerInfo,
    pub facts: ServerFacts,
    /// `@@wsrep_on`, and the server is a node.
    pub is_node: bool,
    /// It replicates from another server.
    pub is_replica: bool,
    /// `@@log_bin`.
    pub has_binlog: bool,
    /// Tables that lie outside of its data directory, as `database/table`.
    pub tables_outside: Vec<String>,
    /// Variables as the server shows them, by name.
    variables: BTreeMap<String, String>,
}

impl Server {
    /// Asks the server.
    pub fn look(conn: &mut Connection) -> Result<Self, PhysicalError> {
        let info = conn.server().clone();
        let identity = conn.identity().clone();
        let rows = conn
            .query("SHOW GLOBAL VARIABLES")
            .map_err(PhysicalError::server("asking for its variables"))?;
        let mut variables = BTreeMap::new();
        for row in 0..rows.len() {
            if let (Some(name), Some(value)) = (rows.str(row, 0), rows.str(row, 1)) {
                variables.insert(name.to_ascii_lowercase(), value.to_owned());
            }
        }
        let replicas = if info.is_mysql_since((8, 0, 22)) {
            "SHOW REPLICA STATUS"
        } else {
            "SHOW SLAVE STATUS"
        };
        // Without the privilege to ask, it may still be a replica. The preflight of MariaDB's tool
        // names that privilege.
        let is_replica = conn.query(replicas).map(|answer| !answer.is_empty());
        let is_replica = is_replica.unwrap_or(info.vendor == Vendor::MySql);
        // MySQL's backup tools handle their own; without PROCESS, the preflight names that.
        let outside = "SELECT NAME FROM information_schema.INNODB_SYS_TABLESPACES WHERE FILENAME LIKE '/%' AND NAME LIKE '%/%' ORDER BY NAME";
        let tables_outside = match info.vendor {
            Vendor::MariaDb => conn.query(outside).ok(),
            Vendor::MySql => None,
        };
        let tables_outside = tables_outside
            .map(|rows| rows.texts(0).map(str::to_owned).collect())
            .unwrap_or_default();
        let encrypted = "SELECT NAME FROM information_schema.INNODB_TABLESPACES_ENCRYPTION WHERE CURRENT_KEY_VERSION > 0 ORDER BY NAME LIMIT 1";
        let encrypted = match info.vendor {
            Vendor::MariaDb => conn.query_value(encrypted).ok().flatten(),
            Vendor::MySql => None,
        };
        let of = |name: &str| variables.get(name).cloned();
        let settings = SETTINGS
            .iter()
            .chain(&MEANT)
            .filter_map(|name| Some(((*name).to_owned(), of(name)?)))
            .collect();
        let is_on = |name: &str| {
            of(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("on"))
        };
        let provider =
            of("wsrep_provider").is_some_and(|value| !value.is_empty() && value != "none");
        Ok(Self {
            facts: ServerFacts {
                vendor: info.vendor.to_string(),
                version: info.version_string.clone(),
                hostname: identity.hostname.clone(),
                port: identity.port,
                uuid: identity.uuid.clone(),
                datadir: identity.datadir.clone(),
                settings,
                encrypted,
            },
            is_node: is_on("wsrep_on") && provider,
            is_replica,
            has_binlog: is_on("log_bin"),
            tables_outside,
            info,
            variables,
        })
    }

    /// It replicates, and its binary logs do not have what it receives.
    pub fn logs_own_only(&self) -> bool {
        self.is_replica && logs_only_own_changes(&self.facts.settings)
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub fn datadir(&self) -> PathBuf {
        PathBuf::from(&self.facts.datadir)
    }
}

/// Whether the binary logs of a server do not have what it receives as a replica.
pub fn logs_only_own_changes(settings: &BTreeMap<String, String>) -> bool {
    ["log_slave_updates", "log_replica_updates"]
        .iter()
        .find_map(|name| settings.get(*name))
        .is_some_and(|value| value == "0" || value.eq_ignore_ascii_case("off"))
}

/// What a data directory holds that a backup copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Volume {
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes that they take on a disk: those of page-compressed tables have holes.
    pub room: u64,
    /// Number of tablespaces, which the tool keeps open at the same time.
    pub tablespaces: u64,
    /// Files that a process of the account may have open.
    pub open_files: u64,
    /// Number of Aria tables, without those of the server itself.
    pub aria: u64,
    /// Number of files of Mroonga.
    pub mroonga: u64,
}

/// Adds up the files of a data directory that a backup copies: not binary logs, relay logs, the
/// write-set cache and the redo log, and not what refloat keeps there (`swap::INSIDE`).
pub fn volume(host: &Host, folder: &str) -> Result<Volume, PhysicalError> {
    let word = Host::word(folder);
    let script = format!(
        "cd -- {word} || exit 1; find -L . -name '.refloat-*' -prune -o -type f \\( -name '*.ibd' -o -name 'ibdata*' -o -name 'undo*' -o -name '*.MA[DI]' -o -name '*.MY[DI]' -o -name '*.frm' -o -name '*.mrn*' \\) -printf '%s %b %P\\n' 2>/dev/null | awk '{{ bytes += $1; disk = $2 * 512; room += disk < $1 ? disk : $1 }} /[.]ibd$/ {{ spaces++ }} /[.]MAD$/ && ! /^[0-9]+ [0-9]+ (mysql|sys)\\// {{ aria++ }} /[.]mrn[^\\/]*$/ {{ mroonga++ }} END {{ printf \"%.0f %.0f %d %d %d\\n\", bytes, room, spaces, aria, mroonga }}'; ulimit -Hn"
    );
    let output = host.run(&script)?;
    if !output.status.success() {
        return Err(PhysicalError::refused(
            Refusal::new(format!(
                "{folder} cannot be read on {}: {}",
                host.name(),
                last_line(&output.stderr)
            ))
            .hint("The account that makes the backup must be root, or the server's own."),
        ));
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let mut words = stdout.split_ascii_whitespace();
    let mut number = || {
        let word = words.next();
        word.map_or(0, |word| word.parse().unwrap_or(u64::MAX))
    };
    let (bytes, room) = (number(), number());
    let (tablespaces, aria, mroonga) = (number(), number(), number());
    Ok(Volume {
        bytes,
        room,
        tablespaces,
        open_files: number(),
        aria,
        mroonga,
    })
}

/// Why the server that was asked is not the one whose files are on this machine. `None`: as far as
/// can be seen, it is. Every machine may have a server in the same directory.
pub fn elsewhere(host: &Host, server: &Server) -> Result<Option<String>, PhysicalError> {
    let folder = server.datadir();
    let Some(pid) = datadir::server_in(host, &folder)? else {
        let folder = folder.display();
        return Ok(Some(format!(
            "no server is running in {folder} on {}",
            host.name()
        )));
    };
    let output = host.run("uname -n")?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if name != server.facts.hostname {
        return Ok(Some(format!(
            "the server runs on {}, and {} is {name}",
            server.facts.hostname,
            host.name()
        )));
    }
    let file = server.variable("pid_file").unwrap_or_default();
    let file = folder.join(file);
    let written = host.read(&file).ok().flatten();
    let written = written.and_then(|text| text.trim().parse::<u32>().ok());
    if let Some(recorded) = written.filter(|recorded| *recorded != pid) {
        return Ok(Some(format!(
            "the server is process {recorded}, but another one, process {pid}, is running in {}",
            folder.display()
        )));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_read_is_not_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("a.ibd"), [0; 77]).unwrap();
        let holes = std::fs::File::create(folder.path().join("holes.ibd")).unwrap();
        holes.set_len(1 << 20).unwrap();
        for name in [
            "mysql/db.MAD",
            "shop/a b.MAD",
            "shop/mysql.MAD",
            "shop.mrn.001",
            ".refloat-20261130-000000-abcdef/old.ibd",
        ] {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, [0; 1]).unwrap();
        }
        let found = volume(&Host::Local, path).unwrap();
        assert_eq!((found.bytes, found.tablespaces), (81 + (1 << 20), 2));
        assert_eq!(found.room, 81);
        assert_eq!((found.aria, found.mroonga), (2, 1));
        assert!(found.open_files > 0);
        let error = volume(&Host::Local, &format!("{path}/none")).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }

    #[test]
    fn a_replica_may_log_its_own_changes_only() {
        let of = |name: &str, value: &str| {
            logs_only_own_changes(&[(name.to_owned(), value.to_owned())].into())
        };
        assert!(of("log_slave_updates", "OFF") && of("log_replica_updates", "0"));
        assert!(!of("log_slave_updates", "ON") && !of("log_bin_basename", "OFF"));
    }
}
