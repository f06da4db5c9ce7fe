//! `cluster.toml`: the nodes of a cluster, how to reach them, and how to start and stop them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use refloat_host::ControlConfig;
use serde::Deserialize;

use crate::ConfigError;

/// The content of a `cluster.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterFile {
    /// Name of the cluster, chosen by the user.
    pub name: String,
    /// Its nodes, in the order in which they are shown.
    #[serde(rename = "node")]
    pub nodes: Vec<NodeConfig>,
}

/// One `[[node]]` table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Name of the node, chosen by the user.
    pub name: String,
    /// `mysql://USER@HOST:PORT/`, without a password.
    pub url: String,
    /// The machine it runs on, as `ssh` takes it. Default: this machine.
    pub ssh: Option<String>,
    /// Data directory. Default: what the server reports, or its option files while it is down.
    pub datadir: Option<PathBuf>,
    /// Error log. Default: what the server reports, its option files while it is down, or systemd's
    /// journal.
    pub log: Option<PathBuf>,
    /// Option file of its server, if it reads only that one (`--defaults-file`).
    pub defaults_file: Option<PathBuf>,
    /// Whether it runs on this machine, whatever its URL says: a container has an address of its
    /// own.
    #[serde(default)]
    pub local: bool,
    /// How to start and stop it. Without this, the node can only be observed.
    pub control: Option<ControlConfig>,
}

impl ClusterFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`] with the file, and the line or the node.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path)
    }

    /// Like [`ClusterFile::read`], but from text; `path` is for messages.
    ///
    /// # Errors
    /// As [`ClusterFile::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let file: Self = toml::from_str(text).map_err(|error| ConfigError::Syntax {
            path: path.to_owned(),
            reason: describe(&error, text),
        })?;
        file.check().map_err(|reason| ConfigError::Meaning {
            path: path.to_owned(),
            reason,
        })?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        if self.nodes.is_empty() {
            return Err("it names no node: write one [[node]] for each".to_owned());
        }
        let (mut names, mut urls) = (HashSet::new(), HashSet::new());
        for node in &self.nodes {
            if node.name.is_empty() || node.name.chars().any(char::is_control) {
                return Err("a node needs a name".to_owned());
            }
            if !names.insert(&node.name) {
                return Err(format!("two nodes are called {}", node.name));
            }
            if !urls.insert(&node.url) {
                return Err(format!("node {} has the url of another one", node.name));
            }
            // ssh would take a name that begins with a dash as an option.
            if node
                .ssh
                .as_deref()
                .is_some_and(|ssh| ssh.is_empty() || ssh.starts_with('-'))
            {
                return Err(format!("node {}: ssh names no machine", node.name));
            }
            if node.local && node.ssh.is_some() {
                return Err(format!(
                    "node {}: it is local, or reached by ssh",
                    node.name
                ));
            }
            if let Some(control) = &node.control {
                control
                    .check()
                    .map_err(|reason| format!("node {}: {reason}", node.name))?;
            }
        }
        Ok(())
    }
}

/// What is wrong and where, but not the line itself, which may hold a password.
fn describe(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!(
            "line {}: {}",
            before.matches('\n').count() + 1,
            error.message()
        ),
        None => error.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ClusterFile, String> {
        ClusterFile::parse(text, Path::new("c.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_with_all_ways_of_control() {
        let file = parse(
            r#"
            name = "shop"
            [[node]]
            name = "n1"
            url = "mysql://root@10.0.0.1/"
            ssh = "admin@10.0.0.1"
            datadir = "/data/mysql"
            log = "/var/log/mysql/error.log"
            control = { systemd = "mariadb" }
            [[node]]
            name = "n2"
            url = "mysql://root@10.0.0.2/"
            control = { start = "run me", stop = "end me", running = "see me" }
            [[node]]
            name = "n3"
            url = "mysql://root@127.0.0.1:3307/"
            local = true
            defaults_file = "/srv/c-3/my.cnf"
            control = { start = "run me", stop = "end me", kill = "end me now", recover = "find me" }
            [[node]]
            name = "n4"
            url = "mysql://root@10.0.0.4/"
            "#,
        )
        .unwrap();
        assert_eq!(file.nodes.len(), 4);
        assert_eq!(file.nodes[0].ssh.as_deref(), Some("admin@10.0.0.1"));
        assert_eq!(file.nodes[3].control, None);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_node() {
        let node = |more: &str| {
            format!(
                "name='c'\n[[node]]\nname='a'\nurl='mysql://a/'\n[[node]]\nname='b'\nurl='mysql://b/'\n{more}\n"
            )
        };
        for (text, words) in [
            (String::new(), "missing field `name`"),
            ("name='c'\nnode=[]".to_owned(), "names no node"),
            (node("name='b'"), "duplicate key"),
            (node("sssh='x'"), "line 8: unknown field `sssh`"),
            (
                node("ssh='-oProxyCommand=x'"),
                "node b: ssh names no machine",
            ),
            (node("control={}"), "node b: control is empty"),
            (node("control={start='x'}"), "node b: control needs both"),
            (node("control={running='x'}"), "node b: control needs both"),
            (
                node("control={systemd='x',start='y',stop='z'}"),
                "node b: control takes systemd or commands",
            ),
            (node("control={sandbox='b'}"), "unknown field `sandbox`"),
            (
                node("local=true\nssh='b'"),
                "node b: it is local, or reached by ssh",
            ),
            (
                node("[[node]]\nname='a'\nurl='mysql://c/'"),
                "two nodes are called a",
            ),
            (
                node("[[node]]\nname='c'\nurl='mysql://a/'"),
                "node c has the url",
            ),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(!error.contains("mysql://"), "{error}");
            assert!(
                error.contains(words) && error.starts_with("c.toml: "),
                "{error}"
            );
        }
    }
}
