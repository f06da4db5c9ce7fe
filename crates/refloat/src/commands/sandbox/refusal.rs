//! Maps the sandbox's errors to the program's exit codes and hints.

use refloat_sandbox::Error;

use crate::exit::{Exit, ProgramError};

/// Maps an error of the sandbox to an exit code and a hint.
pub fn refusal(error: Error) -> anyhow::Error {
    let exit = match &error {
        Error::BadName { .. }
        | Error::BadOption { .. }
        | Error::ReservedOption { .. }
        | Error::NoGalera { .. }
        | Error::BadCluster { .. } => Exit::Usage,
        Error::NotInstalled { .. }
        | Error::WrongVersion { .. }
        | Error::NameTaken { .. }
        | Error::NoSuchInstance { .. }
        | Error::NoSuchCluster { .. }
        | Error::NotANode { .. }
        | Error::NodeOfCluster { .. }
        | Error::MissingProgram { .. }
        | Error::NeedsRoot
        | Error::NotIsolated { .. }
        | Error::NoSafeNode { .. }
        | Error::Frozen { .. }
        | Error::Running { .. }
        | Error::NotRunning { .. }
        | Error::HalfStarted { .. }
        | Error::Unreachable { .. }
        | Error::NoUser { .. }
        | Error::SocketPathTooLong { .. } => Exit::Refused,
        _ => return error.into(),
    };
    let hint = match &error {
        Error::NameTaken { name } => Some(format!(
            "Give another --name, or: refloat sandbox remove {name} (restart has it up again when it is stopped)"
        )),
        Error::NodeOfCluster { cluster, .. } => Some(format!(
            "Remove the cluster with: refloat sandbox remove {cluster}"
        )),
        Error::NotIsolated { .. } => Some(
            "Start one whose nodes can be cut off with: refloat sandbox start --galera 3 --isolated"
                .to_owned(),
        ),
        Error::Frozen { name } => Some(format!(
            "Resume it with: refloat sandbox node thaw {name}"
        )),
        Error::Running { name } => {
            Some(format!("Stop it with: refloat sandbox stop {name}"))
        }
        Error::NoSafeNode { cluster } => Some(format!(
            "Compare `refloat sandbox node recover` of all nodes, set safe_to_bootstrap in the \
             grastate.dat of the one that is farthest, and: refloat sandbox node start {cluster}-N --bootstrap"
        )),
        Error::NoSuchInstance { .. } | Error::NoSuchCluster { .. } => Some("See what there is: refloat sandbox list".to_owned()),
        Error::HalfStarted { name } => {
            Some(format!("Remove it with: refloat sandbox remove {name}"))
        }
        Error::Unreachable { .. } | Error::SocketPathTooLong { .. } => {
            Some("Choose another state folder with REFLOAT_STATE_DIR.".to_owned())
        }
        _ => None,
    };
    let refusal = ProgramError::new(exit, error.to_string());
    match hint {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
    .into()
}
