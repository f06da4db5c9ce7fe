//! What is known of the nodes of a cluster before a state transfer: what their servers say, and what their machines look like.

use std::collections::{BTreeMap, BTreeSet};

use refloat_run::settings::ProviderOptions;
use serde::Serialize;

use super::candidate::Shown;
use crate::node::NodeState;

/// Groups in which the scripts look for an option, in their order: the first that has a value counts.
pub(crate) const SST: &[&str] = &["sst"];
/// Those for what mariadb-backup is told.
pub(crate) const BACKUP: &[&str] = &["sst", "xtrabackup", "mariabackup"];
/// Those for encryption and threads. `server` are all groups that the server itself reads.
pub(crate) const ALL: &[&str] = &["server", "sst", "xtrabackup", "mariabackup"];

/// The port of a state transfer when nobody says otherwise.
pub(crate) const SST_PORT: u16 = 4444;

/// No text of a server or a machine is longer, in characters, and none that is made of several.
pub(crate) const TEXT_MOST: usize = 1000;

/// What is known of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeFacts {
    /// What people call it.
    pub name: String,
    /// Why its server could not be asked; `None`: it was.
    pub unreachable: Option<String>,
    /// What its server says.
    #[serde(skip)]
    pub state: Option<NodeState>,
    /// Settings of its server that copies depend on, by name.
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
    /// How many write-sets could be applied at the same time, on average: `wsrep_cert_deps_distance`.
    #[serde(skip)]
    pub deps_distance: Option<f64>,
    /// What its machine looks like.
    pub machine: Option<MachineFacts>,
    /// What could not be looked at, and why.
    pub unseen: Vec<String>,
}

/// What a machine looks like to the scripts of a state transfer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MachineFacts {
    /// The machine's name.
    pub hostname: String,
    /// The process of the server; `None`: it does not run, or may not be looked at.
    pub pid: Option<u32>,
    /// The account that the server runs as.
    pub user: String,
    /// `--defaults-file` of the server.
    pub defaults_file: Option<String>,
    /// The search path of its process.
    #[serde(skip)]
    pub path: Option<String>,
    /// Bytes of memory.
    pub memory: Memory,
    /// Processors.
    pub cores: Option<u64>,
    /// The file system of the data directory.
    pub space: Space,
    /// Programs that the scripts would find, and where.
    pub programs: BTreeMap<String, String>,
    /// What they say of their versions.
    pub versions: BTreeMap<String, String>,
    /// Whether its server is known to have its programs elsewhere than they were looked for.
    #[serde(skip)]
    pub programs_elsewhere: bool,
    /// Options of the server's files, as the scripts see them.
    pub options: Options,
    /// Methods, and options that their scripts have words for: older ones have fewer.
    #[serde(skip)]
    pub knows: BTreeSet<(String, String)>,
    /// Files of certificates and keys that can be read.
    #[serde(skip)]
    pub readable: BTreeSet<String>,
    /// Certificates that are over or soon will be, by the names that their files have in options.
    #[serde(skip)]
    pub ending: BTreeMap<String, Ending>,
    /// Addresses of the server's network; empty: they could not be told.
    pub addresses: BTreeSet<String>,
    /// Who listens at the port of state transfers; empty: nobody.
    pub listens: Vec<Listener>,
    /// What an earlier state transfer has left in the data directory.
    pub leftovers: Vec<String>,
    /// Scripts of an earlier state transfer that still run: their processes, and the files that name them.
    pub running: Vec<String>,
    /// Whether the account for copies may log in; `None`: not tried.
    pub account: Option<Account>,
    /// The unit of systemd that starts the server; `None`: none is known.
    pub unit: Option<Unit>,
}

/// When a certificate ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// Whether it has.
    pub over: bool,
    /// As `openssl` says it.
    pub when: String,
}

/// A unit of systemd, as `systemctl show` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// Its `Type`.
    pub kind: String,
    /// Whose messages it takes: `NotifyAccess`.
    pub notify_access: String,
    /// How long a start may take: `TimeoutStartUSec`, such as `1min 30s` or `infinity`.
    pub start_timeout: String,
    /// The version of systemd.
    pub manager: Option<u64>,
}

impl Unit {
    /// Its name with what kind of unit it is.
    pub(crate) fn file(&self) -> String {
        if self.name.ends_with(".service") {
            self.name.clone()
        } else {
            format!("{}.service", self.name)
        }
    }
}

/// Bytes of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// All of it, or what the server's control group allows.
    pub total: Option<u64>,
    /// What programs can have now.
    pub available: Option<u64>,
    /// What the server has now. It has far less of it while it receives a copy.
    pub server: Option<u64>,
}

/// Bytes on the file system of a data directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Size of the file system.
    pub size: Option<u64>,
    /// What is free.
    pub free: Option<u64>,
    /// What the data directory takes.
    pub used: Option<u64>,
    /// Of that, what a state transfer neither brings over nor deletes: write-sets, logs, certificates.
    pub kept: Option<u64>,
    /// Whether the file for write-sets is there already.
    pub has_gcache: bool,
}

impl Space {
    /// Bytes that a copy of this data directory takes.
    pub fn data(&self) -> Option<u64> {
        Some(self.used?.saturating_sub(self.kept.unwrap_or(0)))
    }
}

/// Somebody who listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// Its process, where that may be seen.
    pub pid: Option<u32>,
    /// Its program.
    pub program: String,
}

/// How the account for copies fares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Whether the option files name it for the server (`wsrep_sst_auth`), else for the backup program, else nowhere.
    pub from: AccountFrom,
    /// Why it was refused; `None`: it was let in.
    pub refused: Option<String>,
    /// What it may do: the text of `SHOW GRANTS` between `GRANT` and `TO`.
    pub grants: Vec<String>,
}

/// Where the account for copies is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountFrom {
    /// Nowhere: the backup program logs in under the name of the system's account.
    #[default]
    Nowhere,
    /// `wsrep_sst_auth`.
    SstAuth,
    /// `user` of the backup program's or the clients' groups.
    BackupOptions,
}

/// Options by group and name. Secrets are there as `set`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Options(pub BTreeMap<String, BTreeMap<String, String>>);

impl Options {
    /// The value of an option in the first of some groups that has one.
    pub fn get(&self, groups: &[&str], name: &str) -> Option<&str> {
        groups.iter().find_map(|group| {
            let value = self.0.get(*group)?.get(name)?.trim();
            (!value.is_empty()).then_some(value)
        })
    }
}

impl NodeFacts {
    /// What its server shows of itself as long as it runs.
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

    /// Whether it can give a copy.
    pub(crate) fn can_give(&self) -> bool {
        self.state
            .as_ref()
            .is_some_and(|state| state.primary && state.ready)
    }

    /// An option of its files.
    pub(crate) fn option(&self, groups: &[&str], name: &str) -> Option<&str> {
        self.machine.as_ref()?.options.get(groups, name)
    }

    /// The group of its files in which an option of the first of some groups counts, or else one to put it into.
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

    /// The container of its copies: mbstream, which is also called xbstream, or else tar.
    pub(super) fn container(&self) -> &'static str {
        match self.option(SST, "streamfmt") {
            None | Some("mbstream" | "xbstream") => "mbstream",
            Some(_) => "tar",
        }
    }

    /// The program that carries its copies.
    pub(super) fn transfer(&self) -> &'static str {
        match self.option(SST, "transferfmt") {
            Some("nc") => "nc",
            _ => "socat",
        }
    }

    /// An option of the provider: what the server says, or else what its files do.
    pub(super) fn provider_option(&self, name: &str) -> Option<String> {
        let options = self.setting("wsrep_provider_options")?;
        let options = ProviderOptions::parse(options.trim_matches(['"', '\'']));
        let value = options.get(name).filter(|value| !value.is_empty());
        value.map(str::to_owned)
    }

    /// A setting: what the server says, or else what its files do.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let said = self.variables.get(name).map(String::as_str);
        said.or_else(|| self.option(&["server"], &name.replace('_', "-")))
    }

    /// Its segment (`gmcast.segment`), by what it says or else by its option files. `None`: neither can be read.
    pub fn segment(&self) -> Option<u64> {
        if let Some(state) = &self.state {
            return Some(state.segment);
        }
        let options = &self.machine.as_ref()?.options;
        // Files of a node say something; where nothing is known of them, neither is this.
        options.0.get("server")?;
        // As the provider has it that is told nothing.
        let Some(options) = options.get(&["server"], "wsrep-provider-options") else {
            return Some(0);
        };
        let options = ProviderOptions::parse(options.trim_matches(['"', '\'']));
        options
            .get("gmcast.segment")
            .map_or(Some(0), |segment| segment.parse().ok())
    }

    /// How it receives a copy.
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

    /// What it is called in its cluster: the name that `wsrep_sst_donor` takes.
    pub(crate) fn cluster_name(&self) -> &str {
        let own = self.state.as_ref().map(|state| state.node_name.as_str());
        own.or_else(|| self.option(&["server"], "wsrep-node-name"))
            .filter(|name| !name.is_empty())
            .unwrap_or(&self.name)
    }

    /// Where it receives a copy. The host is `None` when it is left to the server.
    pub(crate) fn receives_at(&self) -> (Option<String>, u16) {
        let said = match &self.state {
            Some(state) => state.sst.receive_address.clone(),
            None => self
                .option(&["server"], "wsrep-sst-receive-address")
                .map(str::to_owned),
        };
        receives_at(said.as_deref(), self.setting("wsrep_node_address"))
    }

    /// Bytes of its data: of its files where they were looked at, or else of its tablespaces.
    pub(crate) fn data_bytes(&self) -> Option<u64> {
        let files = self
            .machine
            .as_ref()
            .and_then(|machine| machine.space.data());
        files.or_else(|| self.state.as_ref()?.sst.bytes)
    }

    /// Whether its scripts would find a program. `None`: nobody has looked.
    pub(crate) fn has(&self, program: &str) -> Option<bool> {
        let machine = self
            .machine
            .as_ref()
            .filter(|one| !one.programs_elsewhere)?;
        Some(machine.programs.contains_key(program))
    }
}

/// Where a node receives a copy, by `wsrep_sst_receive_address` and `wsrep_node_address`. The host is `None` when it is left to the server.
pub(crate) fn receives_at(receive: Option<&str>, own: Option<&str>) -> (Option<String>, u16) {
    let (host, port) = receive
        .filter(|address| !address.eq_ignore_ascii_case("AUTO"))
        .map_or((None, None), host_and_port);
    let host = host.or_else(|| host_and_port(own?).0);
    (host, port.unwrap_or(SST_PORT))
}

/// `10.0.0.1:4444`, `[fe80::1]:4444`, `db1`, and what may stand behind a slash.
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
    // What is no host's name is not given to any program.
    let host = (!host.is_empty() && !host.starts_with('-') && host.chars().all(plain))
        .then(|| host.to_owned());
    (host, port)
}

/// Bytes as people say them.
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

/// A text of a server or a machine, for people: no control characters, and no longer than so many.
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
