//! Programs on a node's machine that start and stop servers of their own accord.

use crate::host::Host;

/// Their names, as the system cuts them off (15 bytes), and what they do to a server.
const KEEPERS: [(&str, &str); 11] = [
    ("pacemakerd", "a cluster manager"),
    ("monit", "starts what has ended"),
    ("supervisord", "starts what has ended"),
    ("runsvdir", "starts what has ended"),
    ("s6-svscan", "starts what has ended"),
    ("mariadbd-safe", "starts a server that has crashed"),
    ("mysqld_safe", "starts a server that has crashed"),
    ("orchestrator", "moves roles between servers"),
    ("masterha_manage", "moves roles between servers"),
    ("cmon", "ClusterControl, which recovers nodes and clusters"),
    ("kubelet", "starts containers that have ended"),
];

/// Those that run there, each with what it does. Where nobody can look, none.
pub(super) fn on(host: &Host) -> Vec<String> {
    let Ok(said) = host.run("cat /proc/[0-9]*/comm 2>/dev/null; :") else {
        return Vec::new();
    };
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let runs = |name: &str| said.lines().any(|line| line == name);
    KEEPERS
        .iter()
        .filter(|(name, _)| runs(name))
        .map(|(name, does)| format!("{name} ({does})"))
        .collect()
}
