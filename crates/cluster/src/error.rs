//! Errors in the node list and in discovery.

use std::path::PathBuf;

use refloat_wire::Error;

/// Why a `cluster.toml` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file that was to list the nodes.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It is not TOML, or has unknown keys.
    #[error("{path}: {reason}")]
    Syntax {
        /// The file that cannot be parsed.
        path: PathBuf,
        /// Line, column and what is wrong there, in the parser's words.
        reason: String,
    },
    /// It is valid TOML, but its values make no sense.
    #[error("{path}: {reason}")]
    Meaning {
        /// The file with those values.
        path: PathBuf,
        /// What is wrong, and with which node.
        reason: String,
    },
}

/// Why the nodes of a cluster could not be found from one of them.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// The server could not be queried.
    #[error("cannot ask {node} for the nodes of its cluster")]
    Server {
        /// The node that was given.
        node: String,
        /// The cause.
        source: Error,
    },
    /// The server is not a node of a Galera cluster.
    #[error("{node} is not a node of a Galera cluster: {reason}")]
    NoGalera {
        /// The server that was given.
        node: String,
        /// What it reports about itself.
        reason: String,
    },
}
