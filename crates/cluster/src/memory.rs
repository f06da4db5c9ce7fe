//! Memory of the machine of a node, within what its server's control groups allow.

use refloat_host::{Host, datadir};
use refloat_run::machine;

use crate::member::Member;
use crate::node::NodeState;

impl Member {
    /// Memory available without swapping to the node's server, in bytes. `None`: not known.
    pub fn memory_available(&self, state: Option<&NodeState>) -> Option<u64> {
        let host = self.host.as_ref()?;
        let server = datadir::server_in(host, &self.folder_by(state)).ok()?;
        Some(memory(host, server)?.1)
    }
}

/// Total memory, and memory available without swapping, to a process of a machine, in bytes. If it
/// is not known, to those that a login there starts.
pub fn memory(host: &Host, process: Option<u32>) -> Option<(u64, u64)> {
    let process = process.map_or_else(|| "self".to_owned(), |process| process.to_string());
    machine::memory(&process, |paths| host.texts(paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_what_its_groups_allow() {
        let here = machine::Machine::here().unwrap();
        for process in [None, Some(std::process::id())] {
            let (total, available) = memory(&Host::Local, process).unwrap();
            assert_eq!(total, here.memory_total);
            assert!(available > 0 && available <= total);
        }
    }
}
