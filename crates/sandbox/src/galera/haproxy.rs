//! A real `HAProxy` in front of a cluster.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::record::HaproxyRecord;
use super::{ClusterFolder, GaleraNode, programs};
use crate::process::{ProcessId, find_with};
use crate::user::ServerUser;
use crate::{Error, Result, files};

/// The program's name; the package has the same one.
pub const PROGRAM: &str = "haproxy";

/// The proxy accepts connections within a moment of its start, or not at all.
const START_PATIENCE: Duration = Duration::from_secs(10);
const END_PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Writes the configuration and starts the proxy. Returns once it accepts connections.
pub fn start(
    folder: &ClusterFolder,
    record: &HaproxyRecord,
    nodes: &[GaleraNode],
    user: Option<&ServerUser>,
) -> Result<ProcessId> {
    let config = folder.haproxy_config();
    files::write_whole(&config, text(folder, record, nodes, user).as_bytes())?;
    let path = folder.haproxy_log();
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(Error::io("open", &path))?;
    let again = log.try_clone().map_err(Error::io("open", &path))?;
    let log_start = files::length(&path);
    let failed = |reason: String| Error::Helper {
        program: PROGRAM.to_owned(),
        reason: format!("{reason}\n{}", files::tail(&path, log_start)),
    };
    let mut child = Command::new("setsid")
        .arg(programs::find_on_host(PROGRAM)?)
        .args(["-db", "-f"])
        .arg(&config)
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(again)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let process = ProcessId::now(child.id());
    let deadline = Instant::now() + START_PATIENCE;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(status.to_string()));
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, record.port)).is_ok() {
            return process.ok_or_else(|| failed("it ended at once".to_owned()));
        }
        if Instant::now() > deadline {
            end(folder);
            return Err(failed("it takes no connections".to_owned()));
        }
        thread::sleep(POLL);
    }
}

pub fn runs(folder: &ClusterFolder, record: &HaproxyRecord) -> bool {
    let mark = mark(folder);
    record
        .process
        .is_some_and(|process| process.runs_with(&mark))
}

/// Kills every proxy that runs with this cluster's configuration. Returns `false` if one is still
/// there.
pub fn end(folder: &ClusterFolder) -> bool {
    let mark = mark(folder);
    let deadline = Instant::now() + END_PATIENCE;
    for process in find_with(&mark) {
        process.signal(&mark, Signal::KILL);
        while process.holds_on(&mark) || !process.reap() {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(POLL);
        }
    }
    true
}

/// The argument that identifies this cluster's proxy.
fn mark(folder: &ClusterFolder) -> String {
    folder.haproxy_config().display().to_string()
}

fn text(
    folder: &ClusterFolder,
    record: &HaproxyRecord,
    nodes: &[GaleraNode],
    user: Option<&ServerUser>,
) -> String {
    let mut text = format!(
        "global\n    maxconn 2000\n    nbthread 1\n    stats socket {} mode 600 level admin\n",
        folder.haproxy_socket().display()
    );
    if let Some(user) = user {
        let _ = writeln!(text, "    uid {}\n    gid {}", user.uid(), user.gid());
    }
    text.push_str(
        "\ndefaults\n    mode tcp\n    timeout connect 2s\n    timeout check 2s\n    timeout client 1h\n    timeout server 1h\n",
    );
    let _ = writeln!(
        text,
        "\nlisten galera\n    bind {}:{}\n    balance roundrobin\n    option redispatch",
        Ipv4Addr::LOCALHOST,
        record.port
    );
    let ports = &record.options.http_check_ports;
    let agents = &record.options.agent_check_ports;
    if !ports.is_empty() {
        let path = if agents.is_empty() { "/" } else { "/alive" };
        let _ = writeln!(text, "    option httpchk GET {path}");
    }
    text.push_str("    default-server inter 500ms fall 2 rise 1");
    if ports.is_empty() {
        // A node that refuses connections serves no clients, so they should move on at once. A node
        // that fails a health check may be a donor, which can finish the work it has begun.
        text.push_str(" on-marked-down shutdown-sessions");
    }
    text.push('\n');
    for (index, node) in nodes.iter().enumerate() {
        let port = ports
            .get(index)
            .map_or(String::new(), |port| format!(" port {port}"));
        let agent = agents.get(index).map_or(String::new(), |port| {
            format!(" agent-check agent-port {port} agent-inter 500ms")
        });
        let _ = writeln!(
            text,
            "    server {} {}:{} check{port}{agent}",
            node.name(),
            node.host(),
            node.port()
        );
    }
    text
}

/// Removes the socket that a killed proxy leaves behind.
pub fn forget(folder: &ClusterFolder) {
    let _ = fs::remove_file(folder.haproxy_socket());
}
