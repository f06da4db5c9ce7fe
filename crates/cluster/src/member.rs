//! A node in a list: how to reach it, and how to look at it.

use std::path::PathBuf;
use std::time::Duration;

use refloat_host::Host;
use refloat_wire::ConnectOptions;

use crate::node::NodeState;

/// How long a node may take to accept a connection and log in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long it may take to answer a query.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The server's default data directory.
const DEFAULT_DATADIR: &str = "/var/lib/mysql";

/// A node in a list.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name, chosen by the user.
    pub name: String,
    /// How to connect to it.
    pub connect: ConnectOptions,
    /// The machine that its files are on. `None`: not known, so its files are not looked at.
    pub host: Option<Host>,
    /// Its data directory, if the list gives it.
    pub datadir: Option<PathBuf>,
    /// Its error log, if the list gives it.
    pub log: Option<PathBuf>,
    /// The only option file that its server reads, if the list gives one.
    pub defaults_file: Option<PathBuf>,
}

impl Member {
    /// Data directory of a node that does not answer: as the list gives it, else as its machine's
    /// option files say, else the default.
    pub(crate) fn folder(&self) -> PathBuf {
        let by_options = || self.option("datadir");
        self.datadir
            .clone()
            .or_else(by_options)
            .unwrap_or_else(|| DEFAULT_DATADIR.into())
    }

    /// A path in the option files that its server reads.
    fn option(&self, name: &str) -> Option<PathBuf> {
        self.host
            .as_ref()?
            .option(name, self.defaults_file.as_deref())
    }

    /// Data directory: as the list gives it, else as the server reports it, else as for a node that
    /// does not answer.
    pub(crate) fn folder_by(&self, state: Option<&NodeState>) -> PathBuf {
        let said = state.map(|state| state.datadir.as_str());
        let said = said.filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let known = self.datadir.clone().or(said);
        known.unwrap_or_else(|| self.folder())
    }

    /// Error log according to the option files of its machine. They are ignored if they name
    /// another data directory than the node's: a machine may have more than one server.
    pub(crate) fn log_by_options(&self) -> Option<PathBuf> {
        let log = self.option("log-error")?;
        let datadir = self
            .option("datadir")
            .unwrap_or_else(|| DEFAULT_DATADIR.into());
        let here = self.datadir.as_ref().is_none_or(|own| *own == datadir);
        here.then(|| datadir.join(log))
    }
}

/// Whether to look for tables that Galera has trouble with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WantedTables {
    /// Only if there are not too many tables.
    #[default]
    WhereCheap,
    /// However many tables there are.
    Always,
    /// Not at all.
    Never,
}

/// How to look at nodes.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// How long rates are measured.
    pub sample: Duration,
    /// Whether to look for tables that Galera has trouble with.
    pub tables: WantedTables,
    /// Bytes per second that a full copy moves, for estimates. `None`: not measured.
    pub sst_bytes_per_second: Option<f64>,
}

impl Default for Observation {
    fn default() -> Self {
        Self {
            sample: Duration::from_secs(1),
            tables: WantedTables::default(),
            sst_bytes_per_second: None,
        }
    }
}

/// The same options with the short timeouts of a look.
pub(crate) fn impatient(connect: &ConnectOptions) -> ConnectOptions {
    ConnectOptions {
        connect_timeout: connect.connect_timeout.min(CONNECT_TIMEOUT),
        read_timeout: Some(
            connect
                .read_timeout
                .map_or(ANSWER_TIMEOUT, |own| own.min(ANSWER_TIMEOUT)),
        ),
        write_timeout: Some(ANSWER_TIMEOUT),
        database: None,
        ..connect.clone()
    }
}
