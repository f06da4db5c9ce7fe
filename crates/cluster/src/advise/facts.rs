//! Facts about the nodes of a cluster before a state transfer, from their servers and their
//! machines.

use std::collections::{BTreeMap, BTreeSet};

use refloat_run::settings::ProviderOptions;
use serde::Serialize;

use super::candidate::Shown;
use crate::node::NodeState;

/// Option groups of the scripts' own options, in the order in which the scripts search them. The
/// first group that sets an option wins.
pub(crate) const SST: &[&str] = &["sst"];
/// Option groups of the options that the scripts pass to mariadb-backup.
pub(crate) const BACKUP: &[&str] = &["sst", "xtrabackup", "mariabackup"];
/// Option groups for encryption and threads. `server` stands for all groups that the server reads.
pub(crate) const ALL: &[&str] = &["server", "sst", "xtrabackup", "mariabackup"];

/// The default port of a state transfer.
pub(crate) const SST_PORT: u16 = 4444;

/// Maximum length of a text from a server or a machine, and of a text composed of several, in
/// characters.
pub(crate) const TEXT_MOST: usize = 1000;

/// What one node, its machine and its option files report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeFacts {
    /// Its name, chosen by the user.
    pub name: String,
    /// Why its server could not be queried. `None`: it was.
    pub unreachable: Option<String>,
    /// What its server reports.
    #[serde(skip)]
    pub state: Option<NodeState>,
    /// Server variables that affect copies, by name.
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
    /// `wsrep_cert_deps_distance`: how many write-sets could be applied in parallel, on average.
    #[serde(skip)]
    pub deps_distance: Option<f64>,
    /// Facts about its machine. `None`: it was not examined.
    pub machine: Option<MachineFacts>,
    /// What could not be examined, and why.
    pub unseen: Vec<String>,
}

/// What the scripts of a state transfer find on a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MachineFacts {
    /// Host name of the machine.
    pub hostname: String,
    /// Process of the server. `None`: it is not running, or not visible.
    pub pid: Option<u32>,
    /// The system account that the server runs as.
    pub user: String,
    /// `--defaults-file` of the server.
    pub defaults_file: Option<String>,
    /// The `PATH` of its process.
    #[serde(skip)]
    pub path: Option<String>,
    /// Memory of the machine and of the server.
    pub memory: Memory,
    /// Number of processors.
    pub cores: Option<u64>,
    /// The file system of the data directory.
    pub space: Space,
    /// Programs that the scripts would find, with their paths.
    pub programs: BTreeMap<String, String>,
    /// Version lines of these programs.
    pub versions: BTreeMap<String, String>,
    /// Whether the server is known to have its programs outside the places searched.
    #[serde(skip)]
    pub programs_elsewhere: bool,
    /// Options in the server's files, as the scripts see them.
    pub options: Options,
    /// Methods, each with an option that its script supports. Older scripts support fewer.
    #[serde(skip)]
    pub knows: BTreeSet<(String, String)>,
    /// Certificate and key files that the server's account can read.
    #[serde(skip)]
    pub readable: BTreeSet<String>,
    /// Certificates that have expired or will soon, by the file names in the options.
    #[serde(skip)]
    pub ending: BTreeMap<String, Ending>,
    /// Addresses in the server's network namespace. Empty: unknown.
    pub addresses: BTreeSet<String>,
    /// The listeners on the port for state transfers. Empty: none.
    pub listens: Vec<Listener>,
    /// Files that an earlier state transfer left in the data directory.
    pub leftovers: Vec<String>,
    /// Scripts of an earlier state transfer that are still running: their processes, and the files
    /// that name them.
    pub running: Vec<String>,
    /// Whether the account for copies can log in. `None`: not tried.
    pub account: Option<Account>,
    /// The systemd unit that starts the server. `None`: none is known.
    pub unit: Option<Unit>,
}

/// When a certificate expires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// Whether it has expired.
    pub over: bool,
    /// The time, in the words of `openssl`.
    pub when: String,
}

/// A systemd unit, as `systemctl show` describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// As systemd names it, such as `mariadb.service`.
    pub name: String,
    /// Its `Type`.
    pub kind: String,
    /// `NotifyAccess`: the processes whose messages it accepts.
    pub notify_access: String,
    /// `TimeoutStartUSec`: how long a start may take, such as `1min 30s` or `infinity`.
    pub start_timeout: String,
    /// Version of systemd.
    pub manager: Option<u64>,
}

impl Unit {
    /// Its name with the suffix `.service`.
    pub(crate) fn file(&self) -> String {
        if self.name.ends_with(".service") {
            self.name.clone()
        } else {
            format!("{}.service", self.name)
        }
    }
}

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// The memory of the machine, or the limit of the server's control group.
    pub total: Option<u64>,
    /// Memory available to programs now.
    pub available: Option<u64>,
    /// Memory that the server uses now. It uses far less while it receives a copy.
    pub server: Option<u64>,
}

/// Space on the file system of a data directory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Size of the file system.
    pub size: Option<u64>,
    /// Free space.
    pub free: Option<u64>,
    /// Size of the data directory.
    pub used: Option<u64>,
    /// The part of `used` that a state transfer neither copies nor deletes: write-sets, logs,
    /// certificates.
    pub kept: Option<u64>,
    /// Whether the gcache file already exists.
    pub has_gcache: bool,
}

impl Space {
    /// Bytes that a copy of this data directory takes.
    pub fn data(&self) -> Option<u64> {
        Some(self.used?.saturating_sub(self.kept.unwrap_or(0)))
    }
}

/// A program that listens on a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// Its process. `None`: not visible.
    pub pid: Option<u32>,
    /// Its command, from `/proc/PID/comm`.
    pub program: String,
}

/// The result of a login with the account for copies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// The user that the donor's script logs in as.
    pub name: String,
    /// Where the option files name it.
    pub from: AccountFrom,
    /// Why the login was refused. `None`: it was accepted.
    pub refused: Option<String>,
    /// Its privileges: the text of `SHOW GRANTS` between `GRANT` and `TO`.
    pub grants: Vec<String>,
}

/// Where the account for copies is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountFrom {
    /// Nowhere: the backup program logs in under the name of the system account.
    #[default]
    Nowhere,
    /// `wsrep_sst_auth`.
    SstAuth,
    /// `user` in the groups of the backup program or of the clients.
    BackupOptions,
}

/// Options by group and name. Secrets are replaced with `set`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Options(pub BTreeMap<String, BTreeMap<String, String>>);

impl Options {
    /// The value of an option in the first of these groups that sets it.
    pub fn get(&self, groups: &[&str], name: &str) -> Option<&str> {
        groups.iter().find_map(|group| {
            let value = self.0.get(*group)?.get(name)?.trim();
            (!value.is_empty()).then_some(value)
        })
    }
}

impl NodeFacts {
    /// What its server reveals about itself only while it runs.
    pub(super) fn shown(&self) -> Shown {
        let machine = self
            .machine
            .as_ref()
            .filter(|machine| machine.pid.is_some());
        Shown {
            defaults_file: machine.and_then(|machine| machine.defaults_file.clone()),
            basedir: self.variables.get("basedir").cloned(),
            path: machine.and_then(|machine| machine.path.clone()),
        }
    }

    /// Whether it can be a donor.
    pub(crate) fn can_give(&self) -> bool {
        self.state
            .as_ref()
            .is_some_and(|state| state.primary && state.ready)
    }

    /// An option in its files.
    pub(crate) fn option(&self, groups: &[&str], name: &str) -> Option<&str> {
        self.machine.as_ref()?.options.get(groups, name)
    }

    /// The first of these groups that sets the option in its files. If none does, `usual`.
    pub(crate) fn group(
        &self,
        groups: &[&'static str],
        name: &str,
        usual: &'static str,
    ) -> &'static str {
        let mut groups = groups.iter().copied();
        match groups.find(|group| self.option(&[*group], name).is_some()) {
            Some("server") => "mysqld",
            Some(group) => group,
            None => usual,
        }
    }

    /// The container format of its copies: mbstream (also called xbstream) or tar.
    pub(super) fn container(&self) -> &'static str {
        match self.option(SST, "streamfmt") {
            None | Some("mbstream" | "xbstream") => "mbstream",
            Some(_) => "tar",
        }
    }

    /// The program that transfers its copies.
    pub(super) fn transfer(&self) -> &'static str {
        match self.option(SST, "transferfmt") {
            Some("nc") => "nc",
            _ => "socat",
        }
    }

    /// A provider option, from the server or else from its option files.
    pub(super) fn provider_option(&self, name: &str) -> Option<String> {
        let options = self.setting("wsrep_provider_options")?;
        let options = ProviderOptions::parse(options.trim_matches(['"', '\'']));
        let value = options.get(name).filter(|value| !value.is_empty());
        value.map(str::to_owned)
    }

    /// A server setting, from the server or else from its option files.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let reported = self.variables.get(name).map(String::as_str);
        reported.or_else(|| self.option(&["server"], &name.replace('_', "-")))
    }

    /// Its segment (`gmcast.segment`), from the server or else from its option files. `None`:
    /// neither can be read.
    pub fn segment(&self) -> Option<u64> {
        if let Some(state) = &self.state {
            return Some(state.segment);
        }
        let options = &self.machine.as_ref()?.options;
        // Option files always set something for the server. If nothing is set, they could not be
        // read.
        options.0.get("server")?;
        // The provider's default.
        let Some(options) = options.get(&["server"], "wsrep-provider-options") else {
            return Some(0);
        };
        let options = ProviderOptions::parse(options.trim_matches(['"', '\'']));
        options
            .get("gmcast.segment")
            .map_or(Some(0), |segment| segment.parse().ok())
    }

    /// Its SST method as joiner.
    pub(crate) fn method(&self) -> Option<&str> {
        if let Some(state) = &self.state {
            return Some(&state.sst.method)
                .filter(|method| !method.is_empty())
                .map(String::as_str);
        }
        let machine = self.machine.as_ref()?;
        Some(
            machine
                .options
                .get(&["server"], "wsrep-sst-method")
                .unwrap_or("rsync"),
        )
    }

    /// Its name in the cluster, as `wsrep_sst_donor` takes it.
    pub(crate) fn cluster_name(&self) -> &str {
        let running = self.state.as_ref().map(|state| state.node_name.as_str());
        running
            .or_else(|| self.option(&["server"], "wsrep-node-name"))
            .filter(|name| !name.is_empty())
            .unwrap_or(&self.name)
    }

    /// Where it receives a copy. No host: the server chooses.
    pub(crate) fn receives_at(&self) -> (Option<String>, u16) {
        let address = match &self.state {
            Some(state) => state.sst.receive_address.clone(),
            None => self
                .option(&["server"], "wsrep-sst-receive-address")
                .map(str::to_owned),
        };
        receives_at(address.as_deref(), self.setting("wsrep_node_address"))
    }

    /// Bytes of its data: of its files if they were examined, else of its tablespaces.
    pub(crate) fn data_bytes(&self) -> Option<u64> {
        let files = self
            .machine
            .as_ref()
            .and_then(|machine| machine.space.data());
        files.or_else(|| self.state.as_ref()?.sst.bytes)
    }

    /// Whether its scripts would find a program. `None`: not searched for.
    pub(crate) fn has(&self, program: &str) -> Option<bool> {
        let machine = self
            .machine
            .as_ref()
            .filter(|one| !one.programs_elsewhere)?;
        Some(machine.programs.contains_key(program))
    }
}

/// Where a node receives a copy, by `wsrep_sst_receive_address` and `wsrep_node_address`. No host:
/// the server chooses.
pub(crate) fn receives_at(
    receive: Option<&str>,
    node_address: Option<&str>,
) -> (Option<String>, u16) {
    let (host, port) = receive
        .filter(|address| !address.eq_ignore_ascii_case("AUTO"))
        .map_or((None, None), host_and_port);
    let host = host.or_else(|| host_and_port(node_address?).0);
    (host, port.unwrap_or(SST_PORT))
}

/// Host and port of `10.0.0.1:4444`, `[fe80::1]:4444` or `db1`, without what may follow a slash.
pub(crate) fn host_and_port(address: &str) -> (Option<String>, Option<u16>) {
    let address = address.split('/').next().unwrap_or_default().trim();
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, port.parse().ok())
        }
        _ => (address, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '%');
    // Only a valid host name may reach another program.
    let host = (!host.is_empty() && !host.starts_with('-') && host.chars().all(plain))
        .then(|| host.to_owned());
    (host, port)
}

/// Formats a number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} bytes");
    }
    let (mut value, mut at) = (bytes as f64 / 1024.0, 0);
    while value >= 1023.5 && at + 1 < UNITS.len() {
        value /= 1024.0;
        at += 1;
    }
    let decimals = usize::from(value < 9.95);
    format!("{value:.decimals$} {}", UNITS[at])
}

/// Makes a text from a server or a machine safe to show: without control characters, and with at
/// most `most` characters.
pub(crate) fn clean(text: &str, most: usize) -> String {
    let plain = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut text: String = plain.take(most).collect();
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_with_a_value_counts() {
        let mut options = Options::default();
        let group = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        options.0.insert("sst".to_owned(), group("use-memory", " "));
        options
            .0
            .insert("mariabackup".to_owned(), group("use-memory", "2G"));
        assert_eq!(options.get(BACKUP, "use-memory"), Some("2G"));
        assert_eq!(options.get(SST, "use-memory"), None);
    }

    #[test]
    fn addresses_sizes_and_texts() {
        let address = |text| {
            let (host, port) = host_and_port(text);
            (host.unwrap_or_default(), port)
        };
        assert_eq!(address("10.0.0.1:5"), ("10.0.0.1".to_owned(), Some(5)));
        assert_eq!(address("[fe80::1]:5/x"), ("fe80::1".to_owned(), Some(5)));
        assert_eq!(address("fe80::1"), ("fe80::1".to_owned(), None));
        assert_eq!(address("-oProxy:5"), (String::new(), Some(5)));
        assert_eq!(address("$(reboot):5"), (String::new(), Some(5)));
        assert_eq!(
            [size(512), size(1536), size(10 << 30), size(1 << 40)],
            ["512 bytes", "1.5 KiB", "10 GiB", "1.0 TiB"]
        );
        assert_eq!(clean("a\x1b[31m\nb", 5), "a [31");
    }
}
