//! Body of the fuzz target for text from nodes and clients, so that plain tests can replay its
//! corpus. Not part of the public API.

use std::path::Path;

use crate::config::ClusterFile;
use crate::{advise, healthd, proof};

/// Parses text that a node's machine or a client of a health check may send. The first byte selects
/// the parser.
pub fn texts(data: &[u8]) {
    let [kind, bytes @ ..] = data else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    match kind % 6 {
        0 | 3 => refloat_host::fuzzing::texts(bytes),
        1 => {
            if let Ok(file) = ClusterFile::parse(&text, Path::new("cluster.toml")) {
                assert!(!file.nodes.is_empty());
            }
        }
        2 => {
            proof::has_started(&text);
            proof::has_asked(&text);
            if let Some((begun, installed)) = proof::last_start(&text) {
                assert!(!begun.contains('\n') && installed.is_none_or(|at| !at.contains('\n')));
            }
        }
        4 => drop(advise::lines(&text)),
        _ => {
            healthd::path_of(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use refloat_testkit::corpus;

    #[test]
    fn seeds_and_what_is_like_them() {
        corpus::replay("nodes", 6, super::texts);
    }

    #[test]
    fn seeds_are_what_they_look_like() {
        let seed = |name: &str| {
            let found = corpus::seeds("nodes").into_iter().find(|one| one.0 == name);
            String::from_utf8(found.expect(name).1[1..].to_vec()).expect("text")
        };
        assert!(refloat_host::GraState::parse(&seed("grastate")).is_some());
        let path = std::path::Path::new("cluster.toml");
        assert!(crate::ClusterFile::parse(&seed("cluster-toml"), path).is_ok());
        assert!(crate::proof::has_started(&seed("log")));
        assert_eq!(
            crate::healthd::path_of(seed("http").as_bytes()).as_deref(),
            Some("/write")
        );
    }
}
