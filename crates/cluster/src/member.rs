//! A node in a list: how to reach it, and how to observe it.

use std::path::PathBuf;
use std::time::Duration;

use refloat_host::{Host, HostError, chain};
use refloat_run::Refusal;
use refloat_wire::ConnectOptions;

use crate::node::NodeState;

/// How long a node may take to accept a connection and log in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a node may take to answer a query.
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
    /// The machine of its files. `None`: unknown, so its files are not read.
    pub host: Option<Host>,
    /// Its data directory, if the list names it.
    pub datadir: Option<PathBuf>,
    /// Its error log, if the list names it.
    pub log: Option<PathBuf>,
    /// The only option file that its server reads, if the list names one.
    pub defaults_file: Option<PathBuf>,
}

impl Member {
    /// Data directory of a node that does not answer: from the list, else from its machine's option
    /// files, else the default.
    pub(crate) fn folder(&self) -> PathBuf {
        self.known_folder()
            .unwrap_or_else(|_| DEFAULT_DATADIR.into())
    }

    /// Like [`Self::folder`], but without a guess if the list names an option file.
    ///
    /// # Errors
    /// That file cannot be read, or sets no data directory. The default directory may belong to
    /// another server on the machine.
    pub(crate) fn known_folder(&self) -> Result<PathBuf, Refusal> {
        if let Some(folder) = &self.datadir {
            return Ok(folder.clone());
        }
        let unknown = |why: String| {
            Refusal::new(why).hint(format!("Write the datadir of {} into the list.", self.name))
        };
        match (self.option("datadir"), &self.defaults_file, &self.host) {
            (Ok(Some(folder)), ..) => Ok(folder),
            (Ok(None), Some(file), Some(host)) => Err(unknown(format!(
                "{} on {} gives no datadir",
                file.display(),
                host.name()
            ))),
            (Err(error), Some(_), _) => Err(unknown(chain(&error))),
            _ => Ok(DEFAULT_DATADIR.into()),
        }
    }

    /// A path from the option files that its server reads.
    fn option(&self, name: &str) -> Result<Option<PathBuf>, HostError> {
        let file = self.defaults_file.as_deref();
        match &self.host {
            Some(host) => host.option(name, file),
            None => Ok(None),
        }
    }

    /// Data directory: from the list, else as the server reports it, else as for a node that does
    /// not answer.
    pub(crate) fn folder_by(&self, state: Option<&NodeState>) -> PathBuf {
        let reported = state.map(|state| state.datadir.as_str());
        let reported = reported
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from);
        let known = self.datadir.clone().or(reported);
        known.unwrap_or_else(|| self.folder())
    }

    /// Error log according to the option files of its machine. Files that the list does not name
    /// are ignored if they set another data directory than the node's: a machine may have more than
    /// one server.
    pub(crate) fn log_by_options(&self) -> Option<PathBuf> {
        let option = |name| self.option(name).ok().flatten();
        let (log, known_datadir) = (option("log-error")?, self.datadir.as_ref());
        let default = || PathBuf::from(DEFAULT_DATADIR);
        if self.defaults_file.is_some() {
            let datadir = known_datadir.cloned().or_else(|| option("datadir"));
            return Some(datadir.unwrap_or_else(default).join(log));
        }
        let datadir = option("datadir").unwrap_or_else(default);
        known_datadir
            .is_none_or(|known| *known == datadir)
            .then(|| datadir.join(log))
    }
}

/// Whether to look for tables that do not work well with Galera.
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

/// How to observe nodes.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// How long to measure rates.
    pub sample: Duration,
    /// Whether to look for tables that do not work well with Galera.
    pub tables: WantedTables,
    /// Rate of a full copy in bytes per second, for estimates. `None`: not measured.
    pub sst_bytes_per_second: Option<f64>,
    /// Whether to look for rebuilds on nodes that show no sign of one.
    pub rebuilds: bool,
}

impl Default for Observation {
    fn default() -> Self {
        Self {
            sample: Duration::from_secs(1),
            tables: WantedTables::default(),
            sst_bytes_per_second: None,
            rebuilds: false,
        }
    }
}

/// The same options with the short timeouts of an observation.
pub(crate) fn impatient(connect: &ConnectOptions) -> ConnectOptions {
    ConnectOptions {
        connect_timeout: connect.connect_timeout.min(CONNECT_TIMEOUT),
        read_timeout: Some(
            connect
                .read_timeout
                .map_or(ANSWER_TIMEOUT, |limit| limit.min(ANSWER_TIMEOUT)),
        ),
        write_timeout: Some(ANSWER_TIMEOUT),
        database: None,
        ..connect.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::ask;

    #[test]
    fn a_named_option_file_without_a_data_directory_leads_to_no_guess() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my.cnf");
        let name = file.display().to_string();
        let mut member = Member {
            name: "n2".to_owned(),
            connect: ConnectOptions::tcp("127.0.0.1", 1, "root"),
            host: Some(Host::Local),
            datadir: None,
            log: None,
            defaults_file: Some(file.clone()),
        };
        let unread = member.known_folder().unwrap_err();
        assert!(
            unread
                .reason
                .starts_with(&format!("cannot read {name} on this machine: "))
        );
        std::fs::write(&file, "[mysqld]\nlog_error=n2.err\n").unwrap();
        let none = member.known_folder().unwrap_err();
        assert_eq!(
            none.reason,
            format!("{name} on this machine gives no datadir")
        );
        assert_eq!(none.hint, "Write the datadir of n2 into the list.");
        let seen = ask(&member, &Observation::default());
        assert_eq!(seen.files_unreadable, Some(none.reason));
        // The list takes precedence, and the named file is the node's own.
        member.datadir = Some("/srv/n2".into());
        assert_eq!(member.known_folder().unwrap(), PathBuf::from("/srv/n2"));
        assert_eq!(member.log_by_options(), Some("/srv/n2/n2.err".into()));
        member.datadir = None;
        std::fs::write(&file, "[mysqld]\ndatadir=/srv/b\nlog_error=n2.err\n").unwrap();
        assert_eq!(member.known_folder().unwrap(), PathBuf::from("/srv/b"));
        assert_eq!(member.log_by_options(), Some("/srv/b/n2.err".into()));
    }
}
