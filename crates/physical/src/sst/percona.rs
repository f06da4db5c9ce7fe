//! What is particular to Percona `XtraDB` Cluster.

use std::fs;
use std::path::{Path, PathBuf};

use refloat_run::Refusal;
use refloat_wire::PeerTls;

use super::settings::{Settings, load};
use crate::error::PhysicalError;
use crate::tool::{Version, text};

/// Options that give a server the keys of encrypted tablespaces.
const KEYRINGS: [&str; 2] = ["keyring-file-data", "keyring-vault-config"];
/// The file that tells a server about such a keyring, in its data directory or beside its program.
const MANIFEST: &str = "mysqld.my";
/// The certificate files that a server creates itself if none are configured.
const FILES: [(&str, &str); 3] = [
    ("ssl-ca", "ca.pem"),
    ("ssl-cert", "server-cert.pem"),
    ("ssl-key", "server-key.pem"),
];

/// The xtrabackup that comes with servers of a version such as `8.4.3-3.1`, in one of the folders
/// of a search path. `None`: there is none, so the usual one is taken.
pub fn bundled(version: &str, path: &str) -> Option<PathBuf> {
    let mut numbers = version.split('.');
    let series = format!("{}.{}", numbers.next()?, numbers.next()?);
    let of = |folder: &str| {
        let root = Path::new(folder).join("pxc_extra");
        root.join(format!("pxb-{series}")).join("bin/xtrabackup")
    };
    path.split(':').map(of).find(|program| program.is_file())
}

/// Why a server of this version cannot use the files of the donor: nothing upgrades them before it
/// starts.
pub fn does_not_fit(joiner: Option<Version>, donor: Option<Version>) -> Option<Refusal> {
    let (joiner, its) = (joiner.unwrap_or_default(), donor.unwrap_or_default());
    if (joiner.0, joiner.1) == (its.0, its.1) && joiner >= its {
        return None;
    }
    let why = format!(
        "this server is {}, and the donor {}",
        text(joiner),
        text(its)
    );
    Some(Refusal::new(why).hint("It must be of the same series as the donor, and not older."))
}

impl Settings {
    /// How this end identifies itself: by the server's certificates, unless
    /// `pxc-encrypt-cluster-traffic` is off; then by those of the group `sst` or of the cluster.
    ///
    /// # Errors
    /// There are none, or they cannot be read: without them, everybody on the donor's machine could
    /// intercept the copy.
    pub fn percona_certificates(&self, datadir: &Path) -> Result<PeerTls, PhysicalError> {
        let traffic = self.of_server("pxc-encrypt-cluster-traffic");
        let is_off = traffic.is_some_and(|value| {
            ["0", "off", "false"].contains(&value.to_ascii_lowercase().as_str())
        });
        let found = if is_off {
            self.certificates()?
        } else {
            let files =
                FILES.map(|(option, name)| datadir.join(self.of_server(option).unwrap_or(name)));
            Some(load(&files)?)
        };
        found.ok_or_else(|| {
            PhysicalError::refused(
                Refusal::new("copies of Percona XtraDB Cluster need certificates, and there are none")
                    .hint("Turn pxc_encrypt_cluster_traffic on, or name ssl-ca, ssl-cert and ssl-key in the group sst."),
            )
        })
    }

    /// Refuses a server with encrypted tablespaces: their keys do not come with the files.
    ///
    /// # Errors
    /// [`PhysicalError::Refused`].
    pub fn refuse_keyrings(&self, datadir: &Path, basedir: &Path) -> Result<(), PhysicalError> {
        let option = KEYRINGS.iter().find(|name| self.of_server(name).is_some());
        let folders = [
            datadir.to_owned(),
            basedir.join("bin"),
            basedir.join("sbin"),
        ];
        let mut files = folders.iter().map(|folder| folder.join(MANIFEST));
        let found = option.map(|name| (*name).to_owned()).or_else(|| {
            let file = files.find(|file| fs::exists(file).unwrap_or(true))?;
            Some(file.display().to_string())
        });
        let Some(found) = found else {
            return Ok(());
        };
        Err(PhysicalError::refused(
            Refusal::new(format!(
                "this server has a keyring ({found}), and refloat does not copy its keys"
            ))
            .hint("Use wsrep_sst_method=xtrabackup-v2 on all nodes."),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_is_that_of_the_servers_series() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("pxc_extra/pxb-8.4/bin");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("xtrabackup"), "").unwrap();
        let path = format!("/no/such:{}", above.path().display());
        let found = bundled("8.4.3-3.1", &path).unwrap();
        assert_eq!(found, folder.join("xtrabackup"));
        assert_eq!(bundled("8.0.41-32.1", &path), None);
    }

    #[test]
    fn certificates_are_the_servers_and_have_to_be_there() {
        let data = tempfile::tempdir().unwrap();
        let message = |server: &[&str]| {
            let all = Settings::of(&[], server);
            let error = all.percona_certificates(data.path()).err();
            error.map_or_else(String::new, |error| error.to_string())
        };
        let certificate = message(&[]);
        assert!(
            certificate.contains(&data.path().join("ca.pem").display().to_string()),
            "{certificate}"
        );
        let named = message(&["--ssl-ca=/no/ca", "--pxc-encrypt-cluster-traffic=ON"]);
        assert!(named.contains("/no/ca"), "{named}");
        let off = message(&["--pxc_encrypt_cluster_traffic=OFF"]);
        assert!(off.contains("need certificates"), "{off}");
    }

    #[test]
    fn servers_of_another_series_or_older_are_refused() {
        let fits = |joiner, its| does_not_fit(Some(joiner), Some(its)).is_none();
        assert!(fits((8, 0, 42), (8, 0, 36)) && fits((8, 4, 3), (8, 4, 3)));
        assert!(!fits((8, 0, 36), (8, 0, 42)) && !fits((8, 4, 3), (8, 0, 42)));
        assert!(does_not_fit(None, Some((8, 0, 36))).is_some());
    }

    #[test]
    fn keyrings_are_refused() {
        let data = tempfile::tempdir().unwrap();
        let refused = |server: &[&str]| {
            let all = Settings::of(&[], server);
            all.refuse_keyrings(data.path(), Path::new("/no/such"))
                .is_err()
        };
        assert!(!refused(&[]));
        assert!(refused(&["--keyring_vault_config=/v"]));
        fs::write(data.path().join(MANIFEST), "{}").unwrap();
        assert!(refused(&[]));
    }
}
