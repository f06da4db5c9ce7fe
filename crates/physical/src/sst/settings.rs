//! What the server's option files and its command line say of state transfers.

use std::path::{Path, PathBuf};
use std::process::Command;

use refloat_run::Refusal;
use refloat_wire::PeerTls;

use super::Caller;
use crate::apart::{DIRECTORIES, has_file_outside};
use crate::error::PhysicalError;

/// Prints the options in a server's files, as the server reads them.
const PROGRAM: &str = "my_print_defaults";
/// The groups of a state transfer, the first one first.
const GROUPS: [&str; 3] = ["sst", "mariadb-backup", "mariabackup"];
const GROUPS_OF_PERCONA: [&str; 2] = ["sst", "xtrabackup"];
/// What the program calls the groups of a server.
const SERVER: [&str; 1] = ["--mysqld"];
const SERVER_OF_PERCONA: [&str; 2] = ["mysqld", "server"];
/// Files with which an end proves itself: authority, certificate, key.
type Files = [Option<String>; 3];

/// Options by name, with `-` for `_`; the last one of a name counts.
type Options = Vec<(String, String)>;

/// What a server's option files and its command line say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Of the groups of state transfers.
    sst: Vec<Options>,
    /// Of the server.
    server: Options,
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
        let print = |groups: &[&str]| -> Result<Options, PhysicalError> {
            let failed = |reason: String| PhysicalError::Tool {
                tool: PROGRAM.to_owned(),
                what: "cannot read the server's option files".to_owned(),
                reason,
            };
            let output = Command::new(PROGRAM)
                .args(defaults)
                .args(groups)
                .output()
                .map_err(|error| failed(error.to_string()))?;
            if !output.status.success() {
                return Err(failed(refloat_host::last_line(&output.stderr)));
            }
            let said = String::from_utf8_lossy(&output.stdout);
            Ok(said.lines().filter_map(option).collect())
        };
        let (of_server, groups) = match caller {
            Caller::MariaDb => (&SERVER[..], &GROUPS[..]),
            Caller::Percona => (&SERVER_OF_PERCONA[..], &GROUPS_OF_PERCONA[..]),
        };
        let mut server = print(of_server)?;
        server.extend(words.iter().filter_map(|word| option(word)));
        Ok(Self {
            sst: groups
                .iter()
                .map(|group| print(&[group]))
                .collect::<Result<_, _>>()?,
            server,
        })
    }

    /// An option of the groups of state transfers.
    pub fn of_sst(&self, name: &str) -> Option<&str> {
        self.sst.iter().find_map(|options| last(options, name))
    }

    /// An option of the server.
    pub fn of_server(&self, name: &str) -> Option<&str> {
        last(&self.server, name)
    }

    /// What this end proves itself with. `None`: nothing is asked for.
    ///
    /// These are the files of the group `sst`; else those of the cluster's own traffic; else, if
    /// the group asks for certificates, those of the server.
    ///
    /// # Errors
    /// Certificates are asked for, and there are none; or they cannot be read.
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
                Refusal::new("[sst] asks for certificates, and there are none").hint(
                    "Name ssl-ca, ssl-cert and ssl-key in the group sst or mysqld, or leave ssl-mode and encrypt out.",
                ),
            )),
            _ => Ok(None),
        }
    }

    /// Whether both ends have to prove themselves by certificates.
    fn asks_for_certificates(&self) -> bool {
        let mode = self.of_group("ssl-mode").unwrap_or_default();
        let encrypt = self.of_group("encrypt").unwrap_or_default();
        mode.to_ascii_uppercase().starts_with("VERIFY") || encrypt == "2" || encrypt == "4"
    }

    /// Refuses a server whose files do not all lie in its data directory.
    ///
    /// # Errors
    /// [`PhysicalError::Refused`].
    pub fn refuse_other_folders(&self, datadir: &Path) -> Result<(), PhysicalError> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut against = Vec::new();
        for name in DIRECTORIES.map(|name| name.replace('_', "-")) {
            let name = name.as_str();
            // As the server does, from its data directory.
            let folder = self.of_server(name).map(|folder| datadir.join(folder));
            if let Some(folder) = folder.filter(|folder| real(folder) != real(datadir)) {
                against.push(
                    Refusal::new(format!(
                        "{name} is {}, and refloat puts all files into the data directory",
                        folder.display()
                    ))
                    .hint("Copy by the servers' own wsrep_sst_method on this node."),
                );
            }
        }
        if let Some(files) = self
            .of_server("innodb-data-file-path")
            .filter(|files| has_file_outside(datadir, files))
        {
            against.push(
                Refusal::new(format!(
                    "innodb-data-file-path is {files}, and refloat puts all files into the data directory"
                ))
                .hint("Copy by the servers' own wsrep_sst_method on this node."),
            );
        }
        if against.is_empty() {
            return Ok(());
        }
        Err(PhysicalError::Refused(against))
    }

    /// Of these options of the group `sst` and of the server.
    #[cfg(test)]
    pub fn of(sst: &[&str], server: &[&str]) -> Self {
        let all = |words: &[&str]| words.iter().filter_map(|word| option(word)).collect();
        Self {
            sst: vec![all(sst)],
            server: all(server),
        }
    }

    fn of_group(&self, name: &str) -> Option<String> {
        self.sst
            .first()
            .and_then(|options| last(options, name))
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

fn last<'o>(options: &'o Options, name: &str) -> Option<&'o str> {
    let found = options.iter().rfind(|(key, _)| key == name)?;
    Some(found.1.as_str()).filter(|value| !value.is_empty())
}

/// An option as `--name=value` or `--name`.
fn option(word: &str) -> Option<(String, String)> {
    let word = word.strip_prefix("--")?;
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let name = name.replace('_', "-");
    let name = name.strip_prefix("loose-").unwrap_or(&name).to_owned();
    (!name.is_empty()).then(|| (name, value.to_owned()))
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
        let says = |sst: &[&str], server: &[&str]| match Settings::of(sst, server).certificates() {
            Ok(found) => format!("{}", found.is_some()),
            Err(error) => error.to_string(),
        };
        let of_server = [
            "--ssl-ca=/no/ca",
            "--ssl-cert=/no/cert",
            "--ssl-key=/no/key",
        ];
        assert_eq!(says(&[], &[]), "false");
        // A server's certificate is one for clients.
        assert_eq!(says(&["--ssl-mode=REQUIRED"], &of_server), "false");
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
            let said = says(sst, server);
            assert!(said.contains("/no/"), "{said}");
        }
        let said = says(&["--encrypt=4"], &["--ssl-ca=/no/ca"]);
        assert!(said.contains("there are none"), "{said}");
    }
}
