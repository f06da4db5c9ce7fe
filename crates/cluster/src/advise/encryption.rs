//! Whether and how a node encrypts copies, by the rules of its scripts.

use super::facts::{ALL, NodeFacts, SST};
use super::mistake::{Effect, Found, MistakeKind};

/// Provider options that name certificates for connections within the cluster.
pub(super) const GROUP_FILES: [&str; 2] = ["socket.ssl_cert", "socket.ssl_ca"];

/// How a node encrypts copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Encryption {
    /// Not at all.
    None,
    /// With a key that all nodes share (`encrypt=1`).
    Key,
    /// By TLS: of socat or, for rsync, of stunnel.
    Tls {
        /// Whether the other side's certificate is verified.
        verified: bool,
    },
    /// The script would encrypt, but gives up; the text says why.
    Broken(String),
    /// Its method is unknown, or its files were not read.
    Unknown,
}

impl Encryption {
    pub fn words(&self) -> &'static str {
        match self {
            Self::None => "does not encrypt",
            Self::Key => "encrypts with a key",
            Self::Tls { .. } => "encrypts by TLS",
            Self::Broken(_) | Self::Unknown => "cannot be told",
        }
    }
}

/// Files of the certificate authority, certificate and key: under the old option names, or else
/// those of the server.
struct Files<'a> {
    authority: Option<&'a str>,
    certificate: Option<&'a str>,
    key: Option<&'a str>,
}

fn files<'a>(node: &'a NodeFacts, groups: &[&str]) -> Files<'a> {
    let old = Files {
        authority: node.option(SST, "tca"),
        certificate: node.option(SST, "tcert"),
        key: node.option(SST, "tkey"),
    };
    if old.authority.is_some() || old.certificate.is_some() || old.key.is_some() {
        return old;
    }
    Files {
        authority: node.option(groups, "ssl-ca"),
        certificate: node.option(groups, "ssl-cert"),
        key: node.option(groups, "ssl-key"),
    }
}

/// How a node encrypts copies with this method.
pub(super) fn of(node: &NodeFacts, method: &str) -> Encryption {
    if node.machine.is_none() {
        return Encryption::Unknown;
    }
    match method {
        "mariabackup" => of_backup(node),
        "rsync" => of_rsync(node),
        _ => Encryption::Unknown,
    }
}

fn of_backup(node: &NodeFacts) -> Encryption {
    let mode = node
        .option(ALL, "ssl-mode")
        .unwrap_or("DISABLED")
        .to_ascii_uppercase();
    let level = node
        .option(ALL, "encrypt")
        .and_then(|level| level.parse::<i64>().ok())
        .unwrap_or(0);
    let files = files(node, ALL);
    let verifies = mode.starts_with("VERIFY");
    // nc sends its input unchanged.
    if level != 1 && node.transfer() == "nc" {
        return Encryption::None;
    }
    match level {
        1 => Encryption::Key,
        0 if mode == "DISABLED" => Encryption::None,
        0 if files.certificate.is_none() || files.key.is_none() => Encryption::Broken(format!(
            "ssl-mode={mode}, but no certificate and key are named (ssl-cert, ssl-key): the script gives up"
        )),
        // The authority is checked only in the verifying modes.
        0 => readable(node, &files, verifies).unwrap_or(Encryption::Tls {
            verified: verifies && files.authority.is_some(),
        }),
        2 if files.certificate.is_none() || files.authority.is_none() => Encryption::Broken(
            "encrypt=2, but it takes both tcert and tca: the script gives up".to_owned(),
        ),
        2 => readable(node, &files, true).unwrap_or(Encryption::Tls { verified: true }),
        _ if files.certificate.is_none() || files.key.is_none() => Encryption::Broken(format!(
            "encrypt={level}, but no certificate and key are named (tcert, tkey): the script gives up"
        )),
        4 if files.authority.is_none() => Encryption::Broken(
            "encrypt=4, but no authority is named (tca): the script gives up".to_owned(),
        ),
        _ => readable(node, &files, true).unwrap_or(Encryption::Tls {
            verified: files.authority.is_some(),
        }),
    }
}

fn of_rsync(node: &NodeFacts) -> Encryption {
    let groups = ["server", "sst"];
    let files = files(node, &groups);
    let mode = match node.option(&groups, "ssl-mode") {
        Some(mode) => mode.to_ascii_uppercase(),
        None if files.authority.is_some() => "VERIFY_CA".to_owned(),
        None if files.certificate.is_some() && files.key.is_some() => "REQUIRED".to_owned(),
        None => "DISABLED".to_owned(),
    };
    if mode == "DISABLED" {
        return Encryption::None;
    }
    let verifies = mode.starts_with("VERIFY");
    if verifies && files.authority.is_none() {
        return Encryption::Broken(format!(
            "ssl-mode={mode}, but no authority is named (ssl-ca): the script gives up"
        ));
    }
    readable(node, &files, verifies).unwrap_or(Encryption::Tls { verified: verifies })
}

/// The error for the first named file that the server's account cannot read. `None`: it can read
/// all of them.
fn readable(node: &NodeFacts, files: &Files, with_authority: bool) -> Option<Encryption> {
    let machine = node.machine.as_ref()?;
    let named = [
        files.authority.filter(|_| with_authority),
        files.certificate,
        files.key,
    ];
    let bad = named
        .into_iter()
        .flatten()
        .find(|file| !machine.readable.contains(*file))?;
    Some(Encryption::Broken(format!(
        "the file {bad} for the encryption of copies is not there, or the server's account {} cannot read it",
        machine.user
    )))
}

/// Reports certificates that have expired or soon will: those for connections within the cluster,
/// those for copies, and the server's own.
pub(super) fn certificates(node: &NodeFacts, found: &mut Found) {
    let Some(machine) = &node.machine else { return };
    let group: Vec<String> = GROUP_FILES
        .iter()
        .filter_map(|name| node.provider_option(name))
        .collect();
    let copies = files(node, ALL);
    let copies = [copies.authority, copies.certificate];
    let encryption = of(node, node.method().unwrap_or_default());
    for (file, ending) in &machine.ending {
        let (what, verified) = if group.contains(file) {
            (
                "no node that starts is let in, and none that has lost its connections comes back",
                true,
            )
        } else if copies.contains(&Some(file.as_str()))
            && matches!(encryption, Encryption::Tls { .. })
        {
            let verified = matches!(encryption, Encryption::Tls { verified: true });
            ("copies that look at certificates fail", verified)
        } else {
            (
                "clients that look at the server's certificate refuse it",
                false,
            )
        };
        let (effect, when) = match ending.over {
            true if verified => (Effect::Fails, "ended at"),
            true => (Effect::Unsafe, "ended at"),
            false => (Effect::Unsafe, "ends at"),
        };
        let then = if ending.over {
            "since then"
        } else {
            "from then on"
        };
        found.add(
            MistakeKind::Certificate,
            effect,
            &[&node.name],
            format!("its certificate {file} {when} {}: {then} {what}", ending.when),
            "put a new one in its place; the server reads it when it is started again (its own also by FLUSH SSL)",
        );
    }
}

/// Programs that the encryption needs.
pub(super) fn tools(node: &NodeFacts, method: &str) -> Vec<(Vec<&'static str>, &'static str)> {
    match (of(node, method), method) {
        // A missing program is found earlier than missing certificates.
        (Encryption::Tls { .. } | Encryption::Broken(_), "rsync") => {
            vec![(
                vec!["stunnel"],
                "ssl-mode, or certificates of the server: without it the script gives up",
            )]
        }
        (Encryption::Key, "mariabackup") => match node.option(ALL, "encrypt-format") {
            Some("xbcrypt") => vec![(vec!["xbcrypt"], "encrypt-format=xbcrypt")],
            _ => vec![(vec!["openssl"], "encrypt=1")],
        },
        _ => Vec::new(),
    }
}
