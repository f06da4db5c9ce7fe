//! Finds programs on a node's machine that start and stop servers on their own.

use refloat_host::Host;

/// Their names, cut off at 15 bytes as the kernel does, and what they do to a server.
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

/// The keepers that run on this machine, each with what it does. Empty if the processes are not
/// visible.
pub(super) fn on(host: &Host) -> Vec<String> {
    let Ok(output) = host.run("cat /proc/[0-9]*/comm 2>/dev/null; :") else {
        return Vec::new();
    };
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let runs = |name: &str| names.lines().any(|line| line == name);
    KEEPERS
        .iter()
        .filter(|(name, _)| runs(name))
        .map(|(name, does)| format!("{name} ({does})"))
        .collect()
}
