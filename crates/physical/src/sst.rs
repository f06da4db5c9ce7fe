//! State transfers of Galera: a server that joins a cluster gets the files of another node.
//!
//! The servers start a script for it, `wsrep_sst_METHOD`, at both ends. The joiner's script
//! publishes where it listens, in an address that the cluster carries to the donor, together with
//! the secret of this one transfer. The donor's script first announces what follows: nothing,
//! because the write-sets that the joiner lacks are enough (IST), or a copy. A copy then works like
//! that of a [rebuild](crate::rebuild()). `docs/design/physical.md` has the reasons.

mod binlog;
mod donate;
mod join;
mod percona;
mod settings;

use std::path::PathBuf;
use std::{fmt, fs};

use refloat_host::Host;
use serde::{Deserialize, Serialize};

pub use donate::{DonateOptions, donate};
pub use join::{JoinOptions, Joined, join};
pub use percona::bundled;
pub use settings::Settings;

use crate::about::GaleraPosition;
use crate::error::PhysicalError;
pub use crate::find::version_in;
use crate::find::version_of;
use crate::tool::{ToolKind, Version};
use crate::transfer::Secret;
use refloat_run::Refusal;

/// The vendor whose server calls: each has a protocol of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Caller {
    /// MariaDB, with Galera.
    #[default]
    MariaDb,
    /// Percona `XtraDB` Cluster. The protocol was taken from its source, and has not been run.
    Percona,
}

impl Caller {
    /// The tool that copies and prepares the files of such servers.
    pub(crate) fn tool(self) -> ToolKind {
        match self {
            Self::MariaDb => ToolKind::MariadbBackup,
            Self::Percona => ToolKind::Xtrabackup,
        }
    }
}

/// The version of the protocol between the two ends.
const VERSION: &str = "1";
/// The user name in the address for the donor, and the beginning of its path.
const NAME: &str = "refloat";
/// The end of the path if the joiner identifies itself by a certificate.
const TLS: &str = "tls";

/// Where a joiner listens, as the address that the cluster carries to the donor.
///
/// It is `refloat:SECRET@HOST:PORT/refloat/1`, with `/tls` appended where certificates are
/// required. MariaDB's servers keep what comes before the last `@` out of the command lines and
/// logs of the donor. Percona's do not, and not all of them let an `@` through: there the secret
/// comes last, everybody on the donor's machine can read it, and only certificates protect the
/// copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT`.
    pub peer: String,
    /// Whether the ends identify themselves by certificates.
    pub tls: bool,
    /// The secret, if it is part of the address.
    pub secret: Option<String>,
}

impl Address {
    /// Parses the address as the donor gets it, without the secret.
    ///
    /// # Errors
    /// The joiner does not use refloat, or uses another version.
    pub fn parse(text: &str) -> Result<Self, PhysicalError> {
        let refused = |why: String| {
            PhysicalError::refused(Refusal::new(why).hint(
                "Both nodes need the same version of refloat: install it on each, and run `refloat cluster install-sst` there.",
            ))
        };
        let mut parts = text.split('/');
        let peer = parts.next().unwrap_or_default().to_owned();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(NAME), Some(VERSION), tls @ (None | Some(TLS))) => Ok(Self {
                peer,
                tls: tls.is_some(),
                secret: parts.next().map(str::to_owned),
            }),
            (Some(NAME), Some(version), _) => Err(refused(format!(
                "the joiner's refloat has version {version} of the transfer, and this one {VERSION}"
            ))),
            _ => Err(refused(format!(
                "the joiner's address {text:?} is not that of a transfer by refloat"
            ))),
        }
    }

    /// The address for the donor.
    fn with(&self, secret: &Secret, caller: Caller) -> String {
        match caller {
            Caller::MariaDb => format!("{NAME}:{}@{self}", secret.to_hex()),
            Caller::Percona => format!("{self}/{}", secret.to_hex()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{NAME}/{VERSION}", self.peer)?;
        if self.tls {
            write!(f, "/{TLS}")?;
        }
        Ok(())
    }
}

/// The version of a running server, by its process. `None`: it cannot be told.
pub fn server_version(process: u32) -> Option<Version> {
    // Its own account may be unable to read its program file, but can read its command line.
    let words = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let program = words.split(|byte| *byte == 0).next()?;
    let program = PathBuf::from(String::from_utf8_lossy(program).into_owned());
    let (version, _) = version_of(&Host::Local, &program, "").ok()?;
    Some(version)
}

/// The donor's first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Greeting {
    /// Its position in the cluster's history, as its server reported it.
    position: GaleraPosition,
    /// `wsrep_gtid_domain_id`.
    domain: u32,
    /// The copy that follows; `None`: none, because the joiner gets write-sets.
    copy: Option<Announced>,
}

/// A copy that follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Announced {
    /// The donor, as messages name it.
    host: String,
    /// Bytes of its files, roughly.
    bytes: u64,
    /// Bytes that they take on a disk; 0: not known.
    room: u64,
    /// The version of the tool that copies them.
    tool: Version,
    /// The version of its server.
    server: Option<Version>,
}

/// Parses a position in a cluster's history as servers write it: `UUID:SEQNO`. `None`: it is not
/// one.
pub fn position(text: &str) -> Option<GaleraPosition> {
    let (uuid, seqno) = text.trim().split_once(':')?;
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    Some(GaleraPosition {
        uuid: is_uuid.then(|| uuid.to_owned())?,
        seqno: seqno.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_for_the_donor_come_back_as_they_were() {
        for (peer, tls) in [("10.0.0.1:4444", false), ("[fe80::1]:4444", true)] {
            let mut address = Address {
                peer: peer.to_owned(),
                tls,
                secret: None,
            };
            let secret = Secret::random();
            let words = address.with(&secret, Caller::MariaDb);
            // The server reads lines of 511 bytes, and splits them at the last `@`.
            assert!(words.len() < 480, "{words}");
            let (auth, rest) = words.rsplit_once('@').unwrap();
            assert_eq!(auth, format!("refloat:{}", secret.to_hex()));
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:[]/".contains(c);
            assert!(rest.chars().all(allowed), "{rest}");
            assert_eq!(Address::parse(rest).unwrap(), address);
            if tls {
                let words = address.with(&secret, Caller::Percona);
                assert!(words.len() < 480 && words.chars().all(allowed), "{words}");
                address.secret = Some(secret.to_hex());
                assert_eq!(Address::parse(&words).unwrap(), address);
            }
        }
        for (text, why) in [
            (
                "10.0.0.1:4444/xtrabackup_sst//1",
                "not that of a transfer by refloat",
            ),
            ("10.0.0.1:4444/refloat/2", "version 2"),
            ("", "not that"),
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn positions_as_servers_write_them() {
        let uuid = "7a5c1d2e-0000-11f0-8000-aabbccddeeff";
        let found = position(&format!("{uuid}:42")).unwrap();
        assert_eq!((found.uuid.as_str(), found.seqno), (uuid, 42));
        for text in ["", "x:1", &format!("{uuid}:-1"), uuid] {
            assert_eq!(position(text), None, "{text}");
        }
    }
}
