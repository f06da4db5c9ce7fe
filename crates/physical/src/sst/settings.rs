//! What the server's option files and its command line say of state transfers.

use std::path::{Path, PathBuf};

use refloat_run::Refusal;
use refloat_wire::PeerTls;

use super::Caller;
use crate::error::PhysicalError;
use crate::outside_files;
use crate::server_options::{SERVER, ServerOptions};

/// The groups of a state transfer, in order of precedence.
const GROUPS: [&str; 3] = ["sst", "mariadb-backup", "mariabackup"];
const GROUPS_OF_PERCONA: [&str; 2] = ["sst", "xtrabackup"];
/// The groups of a Percona server.
const SERVER_OF_PERCONA: [&str; 2] = ["mysqld", "server"];
/// Files by which an end identifies itself: authority, certificate, key.
type Files = [Option<String>; 3];

/// What a server's option files and its command line say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The groups of state transfers, each by itself.
    sst: Vec<ServerOptions>,
    /// The groups that the server itself reads.
    server: ServerOptions,
}

impl Settings {
    /// Reads the option files that the server was started with (`defaults` are its options that
    /// name them). `words` are the arguments of the server.
    ///
    /// # Errors
    /// The program that reads option files is missing, or cannot read them.
    pub fn read(
        caller: Caller,
        defaults: &[String],
        words: &[String],
    ) -> Result<Self, PhysicalError> {
        let (of_server, groups) = match caller {
            Caller::MariaDb => (&SERVER[..], &GROUPS[..]),
            Caller::Percona => (&SERVER_OF_PERCONA[..], &GROUPS_OF_PERCONA[..]),
        };
        let mut server = ServerOptions::read(defaults, of_server)?;
        server.add(words);
        let sst = groups
            .iter()
            .map(|group| ServerOptions::read(defaults, &[group]));
        Ok(Self {
            sst: sst.collect::<Result<_, _>>()?,
            server,
        })
    }

    /// An option of the groups of state transfers.
    pub fn of_sst(&self, name: &str) -> Option<&str> {
        self.sst.iter().find_map(|options| options.get(name))
    }

    /// An option of the server.
    pub fn of_server(&self, name: &str) -> Option<&str> {
        self.server.get(name)
    }

    /// How this end identifies itself. `None`: no certificates are required.
    ///
    /// Uses the files of the group `sst`; else those of the cluster's own traffic; else, if the
    /// group requires certificates, those of the server.
    ///
    /// # Errors
    /// Certificates are required, and there are none; or they cannot be read.
    pub fn certificates(&self) -> Result<Option<PeerTls>, PhysicalError> {
        let of_group = [
            ["tca", "ssl-ca"],
            ["tcert", "ssl-cert"],
            ["tkey", "ssl-key"],
        ]
        .map(|names| names.iter().find_map(|name| self.of_group(name)));
        let of_cluster = ["ssl_ca", "ssl_cert", "ssl_key"].map(|name| self.of_provider(name));
        let of_server =
            ["ssl-ca", "ssl-cert", "ssl-key"].map(|name| self.of_server(name).map(str::to_owned));
        let asked = self.asks_for_certificates();
        let whole = |files: &Files| files.iter().all(Option::is_some);
        let found = [Some(of_group), Some(of_cluster), asked.then_some(of_server)]
            .into_iter()
            .flatten()
            .find(whole);
        match found {
            Some([Some(ca), Some(cert), Some(key)]) => {
                load(&[ca, cert, key].map(PathBuf::from)).map(Some)
            }
            _ if asked => Err(PhysicalError::refused(
                Refusal::new("[sst] requires certificates, but there are none").hint(
                    "Name ssl-ca, ssl-cert and ssl-key in the group sst or mysqld, or leave ssl-mode and encrypt out.",
                ),
            )),
            _ => Ok(None),
        }
    }

    /// Whether both ends have to identify themselves by certificates.
    fn asks_for_certificates(&self) -> bool {
        let mode = self.of_group("ssl-mode").unwrap_or_default();
        let encrypt = self.of_group("encrypt").unwrap_or_default();
        mode.to_ascii_uppercase().starts_with("VERIFY") || encrypt == "2" || encrypt == "4"
    }

    /// Refuses a server with files outside its data directory.
    ///
    /// # Errors
    /// [`PhysicalError::Refused`].
    pub fn refuse_other_folders(&self, datadir: &Path) -> Result<(), PhysicalError> {
        let found = outside_files::elsewhere(&self.server, datadir);
        let against: Vec<Refusal> = found
            .into_iter()
            .map(|setting| {
                Refusal::new(format!(
                    "the server has {setting} set, but refloat puts all files into the data directory"
                ))
                .hint("Use the servers' own wsrep_sst_method on this node.")
            })
            .collect();
        if against.is_empty() {
            return Ok(());
        }
        Err(PhysicalError::Refused(against))
    }

    /// Builds the settings from options of the group `sst` and of the server.
    #[cfg(test)]
    pub fn of(sst: &[&str], server: &[&str]) -> Self {
        Self {
            sst: vec![ServerOptions::of(sst)],
            server: ServerOptions::of(server),
        }
    }

    fn of_group(&self, name: &str) -> Option<String> {
        self.sst
            .first()
            .and_then(|options| options.get(name))
            .map(str::to_owned)
    }

    /// An option `socket.NAME` of the provider.
    fn of_provider(&self, name: &str) -> Option<String> {
        let all = self.of_server("wsrep-provider-options")?;
        let wanted = format!("socket.{name}");
        let mut found = None;
        for part in all.split(';') {
            if let Some((key, value)) = part.split_once('=')
                && key.trim() == wanted
            {
                found = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
            }
        }
        found
    }
}

/// Reads authority, certificate and key.
pub fn load([ca, cert, key]: &[PathBuf; 3]) -> Result<PeerTls, PhysicalError> {
    PeerTls::load(ca, cert, key).map_err(|error| {
        PhysicalError::refused(Refusal::new(format!(
            "the certificates for state transfers: {}",
            refloat_host::chain(&error)
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_count_by_their_last_value_and_any_spelling() {
        let all = Settings::of(
            &["--rlimit=1m", "--rlimit=2m"],
            &["--loose-innodb_data_home_dir=/x", "--log-bin"],
        );
        assert_eq!(all.of_sst("rlimit"), Some("2m"));
        assert_eq!(all.of_server("innodb-data-home-dir"), Some("/x"));
        assert_eq!(all.of_server("log-bin"), None);
    }

    #[test]
    fn files_elsewhere_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let here = format!("--innodb-undo-directory={}/", folder.path().display());
        for (option, is_fine) in [
            ("--innodb-data-home-dir=.", true),
            (here.as_str(), true),
            ("--innodb-data-home-dir=", true),
            ("--aria_log_dir_path=/no/such", false),
            ("--innodb_data_file_path=ibdata1:12M:autoextend", true),
            ("--innodb_data_file_path=/no/such/ibdata1:12M", false),
        ] {
            let refused = Settings::of(&[], &[option]).refuse_other_folders(folder.path());
            assert_eq!(refused.is_ok(), is_fine, "{option}");
        }
    }

    #[test]
    fn certificates_are_those_of_the_group_or_of_the_cluster() {
        let outcome = |sst: &[&str], server: &[&str]| match Settings::of(sst, server).certificates()
        {
            Ok(found) => format!("{}", found.is_some()),
            Err(error) => error.to_string(),
        };
        let of_server = [
            "--ssl-ca=/no/ca",
            "--ssl-cert=/no/cert",
            "--ssl-key=/no/key",
        ];
        assert_eq!(outcome(&[], &[]), "false");
        // A plain server certificate is only for its clients.
        assert_eq!(outcome(&["--ssl-mode=REQUIRED"], &of_server), "false");
        for (sst, server) in [
            (&["--ssl-mode=VERIFY_CA"][..], &of_server[..]),
            (&["--tca=/no/ca", "--tcert=/no/cert", "--tkey=/no/key"], &[]),
            (
                &[],
                &[
                    "--wsrep_provider_options=gcache.size=1M; socket.ssl_ca=/no/ca;socket.ssl_cert = /no/cert;socket.ssl_key=/no/key",
                ],
            ),
        ] {
            let message = outcome(sst, server);
            assert!(message.contains("/no/"), "{message}");
        }
        let message = outcome(&["--encrypt=4"], &["--ssl-ca=/no/ca"]);
        assert!(message.contains("there are none"), "{message}");
    }
}
