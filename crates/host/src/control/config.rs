//! The section of a node list on starting and stopping a node.

use serde::Deserialize;

/// How to start and stop a node: with systemd, or commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlConfig {
    /// Name of a systemd unit.
    pub systemd: Option<String>,
    /// Command that starts the node so that it joins its cluster.
    pub start: Option<String>,
    /// Command that stops it cleanly.
    pub stop: Option<String>,
    /// Command that starts it as the first node of a cluster.
    pub bootstrap: Option<String>,
    /// Command that starts it standalone, with the server options in `REFLOAT_SERVER_OPTIONS`.
    pub start_standalone: Option<String>,
    /// Command that reports whether the node runs. Exit code 0: it runs; 1 or 3: it does not; any
    /// other: unknown.
    pub running: Option<String>,
    /// Command that kills it at once, with everything that it started. Default: the stop command.
    pub kill: Option<String>,
    /// Command that prints the position of a stopped node, `UUID:SEQNO`; the last one counts. With
    /// this, the start command must recover the node's position too.
    pub recover: Option<String>,
}

impl ControlConfig {
    /// Checks that exactly one way is configured, and is complete.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let commands = [
            &self.start,
            &self.stop,
            &self.bootstrap,
            &self.start_standalone,
            &self.running,
            &self.kill,
            &self.recover,
        ];
        let mut given = commands.iter().copied().flatten();
        if given.any(|command| command.trim().is_empty()) {
            return Err("a command of control is empty: leave its key out".to_owned());
        }
        let commands = commands.into_iter().any(Option::is_some);
        let ways = [self.systemd.is_some(), commands];
        match ways.iter().filter(|way| **way).count() {
            0 => Err("control is empty: give systemd, or start and stop".to_owned()),
            1 if commands && (self.start.is_none() || self.stop.is_none()) => {
                Err("control needs both start and stop".to_owned())
            }
            1 => Ok(()),
            _ => Err("control takes systemd or commands, not both".to_owned()),
        }
    }
}
