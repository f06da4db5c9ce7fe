//! A node as it is listed: how it is reached, and how it is looked at.

use std::path::PathBuf;
use std::time::Duration;

use refloat_wire::ConnectOptions;

use crate::host::Host;
use crate::node::NodeState;

/// How long a node may take to accept a connection and log in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long it may take to answer a question.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Where servers keep their data when nobody says otherwise.
const DEFAULT_DATADIR: &str = "/var/lib/mysql";

/// A node to be asked.
#[derive(Debug, Clone)]
pub struct Member {
    /// What people call it.
    pub name: String,
    /// How it is reached.
    pub connect: ConnectOptions,
    /// The machine that its files are on. `None`: unknown, so files are not looked at.
    pub host: Option<Host>,
    /// Its data directory, where somebody has said it.
    pub datadir: Option<PathBuf>,
    /// Its error log, where somebody has said it.
    pub log: Option<PathBuf>,
}

impl Member {
    /// Where its data are, of a node that does not answer: where somebody has said it, as the option files of its machine say, or where
    /// servers keep them when nobody says otherwise.
    pub(crate) fn folder(&self) -> PathBuf {
        let by_options = || self.host.as_ref()?.option("datadir");
        self.datadir
            .clone()
            .or_else(by_options)
            .unwrap_or_else(|| DEFAULT_DATADIR.into())
    }

    /// Where its data are: where somebody has said it, as it says itself, or as of one that does not answer.
    pub(crate) fn folder_by(&self, state: Option<&NodeState>) -> PathBuf {
        let said = state.map(|state| state.datadir.as_str());
        let said = said.filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let known = self.datadir.clone().or(said);
        known.unwrap_or_else(|| self.folder())
    }

    /// Its error log, as the option files of its machine say, where those are of the server that has its data there: a machine may have more
    /// than one.
    pub(crate) fn log_by_options(&self) -> Option<PathBuf> {
        let host = self.host.as_ref()?;
        let log = host.option("log-error")?;
        let datadir = host
            .option("datadir")
            .unwrap_or_else(|| DEFAULT_DATADIR.into());
        let here = self.datadir.as_ref().is_none_or(|own| *own == datadir);
        here.then(|| datadir.join(log))
    }
}

/// Whether tables without a primary key are looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WantedTables {
    /// Where there are not too many tables.
    #[default]
    WhereCheap,
    /// However many tables there are.
    Always,
    /// Not at all.
    Never,
}

/// How nodes are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// How long rates are measured.
    pub sample: Duration,
    /// Whether tables without a primary key are looked for.
    pub tables: WantedTables,
    /// Bytes per second that a full copy moves, for estimates; `None`: nobody has measured it.
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

/// The options of a look: it gives up soon.
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
