//! The option file of a node.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{GaleraOptions, SstMethod};
use crate::record::{Folder, NodeRecord};
use crate::user::ServerUser;
use crate::{Error, Result, Tls};

/// Three nodes must start fast on a small machine. An option on the command line can override each
/// of these.
const SMALL: &str = "innodb_buffer_pool_size=64M\n\
    innodb_log_file_size=32M\n\
    innodb_flush_log_at_trx_commit=0\n\
    key_buffer_size=1M\n\
    aria_pagecache_buffer_size=4M\n\
    performance_schema=OFF\n\
    max_connections=100\n";

/// Provider options that those of the user override. By default, the provider's ring buffer takes
/// 128M of disk on every node, and nodes look for each other so rarely that each start takes a
/// second more.
const SMALL_PROVIDER: [(&str, &str); 4] = [
    ("gcache.size", "32M"),
    ("evs.inactive_check_period", "PT0.1S"),
    ("evs.keepalive_period", "PT0.3S"),
    ("pc.announce_timeout", "PT1S"),
];

/// The account that mariadb-backup uses to read the donor's data.
pub const SST_ACCOUNT: &str = "sst";

/// A random password for [`SST_ACCOUNT`]. Nobody needs to know it.
pub fn password() -> String {
    let half = |salt: &str| RandomState::new().hash_one((salt, std::process::id()));
    format!("{:016x}{:016x}", half("first"), half("second"))
}

/// Writes a node's option file. It contains a password, so only the server can read it.
pub fn write(
    folder: &Folder,
    options: &GaleraOptions,
    node: &NodeRecord,
    members: &[String],
    provider: &Path,
    password: &str,
    user: Option<&ServerUser>,
) -> Result<()> {
    let path = folder.config();
    let text = text(options, node, members, provider, password);
    fs::write(&path, "").map_err(Error::io("write", &path))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))
        .map_err(Error::io("protect", &path))?;
    fs::write(&path, text).map_err(Error::io("write", &path))?;
    user.map_or(Ok(()), |user| user.make_owner_of(&path))
}

fn text(
    options: &GaleraOptions,
    node: &NodeRecord,
    members: &[String],
    provider: &Path,
    password: &str,
) -> String {
    let host = node.host;
    let mut text = String::from("[mysqld]\n");
    let mut line = |key: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{key}={value}");
    };
    line("wsrep_on", &"ON");
    line("wsrep_provider", &provider.display());
    line("wsrep_cluster_name", &node.cluster);
    line(
        "wsrep_cluster_address",
        &format!("gcomm://{}", members.join(",")),
    );
    line(
        "wsrep_node_name",
        &format!("{}-{}", node.cluster, node.number),
    );
    line("wsrep_node_address", &host);
    line("wsrep_sst_method", &options.sst);
    line(
        "wsrep_sst_receive_address",
        &format!("{host}:{}", node.sst_port),
    );
    if options.sst == SstMethod::Mariabackup {
        line("wsrep_sst_auth", &format!("{SST_ACCOUNT}:{password}"));
    }
    line(
        "wsrep_provider_options",
        &format!("\"{}\"", provider_options(options, node)),
    );
    line("binlog_format", &"ROW");
    line("default_storage_engine", &"InnoDB");
    line("innodb_autoinc_lock_mode", &"2");
    text.push_str(SMALL);
    // Without `sockopt`, socat would listen on every address of the machine. Without `ssl-mode`,
    // the rsync script requires stunnel as soon as the server has a certificate.
    let _ = write!(text, "\n[sst]\nsockopt=bind={host}\nssl-mode=DISABLED\n");
    if options.tls == Tls::Off {
        // From 11.4 on, clients require TLS even over a socket.
        text.push_str("\n[client]\nskip-ssl\n\n[mariadb-backup]\nskip-ssl\n");
    }
    text
}

fn provider_options(options: &GaleraOptions, node: &NodeRecord) -> String {
    let NodeRecord {
        host,
        group_port,
        ist_port,
        ..
    } = node;
    let small = SMALL_PROVIDER.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut all: BTreeMap<String, String> = BTreeMap::from(small);
    all.extend(options.provider_options_of(node.number).cloned());
    for (key, value) in [
        ("base_host", host.to_string()),
        ("base_port", group_port.to_string()),
        ("gmcast.listen_addr", format!("tcp://{host}:{group_port}")),
        ("ist.recv_addr", format!("{host}:{ist_port}")),
    ] {
        all.insert(key.to_owned(), value);
    }
    let all: Vec<String> = all
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    all.join(";")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::ServerKind;

    #[test]
    fn a_node_knows_all_members_and_its_own_address() {
        let options = GaleraOptions::new(ServerKind::MariaDb1011, 2)
            .sst(SstMethod::Mariabackup)
            .provider_option("gcache.size", "16M");
        let node = NodeRecord {
            cluster: "c".to_owned(),
            number: 2,
            host: Ipv4Addr::LOCALHOST,
            group_port: 5,
            sst_port: 6,
            ist_port: 7,
            namespace: None,
            programs: "bin".into(),
            starting: false,
            cut: false,
            log_start: 0,
        };
        let members = ["127.0.0.1:4".to_owned(), "127.0.0.1:5".to_owned()];
        let text = text(&options, &node, &members, Path::new("p.so"), "secret");
        for line in [
            "wsrep_cluster_address=gcomm://127.0.0.1:4,127.0.0.1:5",
            "wsrep_node_name=c-2",
            "wsrep_sst_receive_address=127.0.0.1:6",
            "wsrep_sst_auth=sst:secret",
            "wsrep_provider_options=\"base_host=127.0.0.1;base_port=5;evs.inactive_check_period=PT0.1S;evs.keepalive_period=PT0.3S;gcache.size=16M;gmcast.listen_addr=tcp://127.0.0.1:5;ist.recv_addr=127.0.0.1:7;pc.announce_timeout=PT1S\"",
            "sockopt=bind=127.0.0.1",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}
