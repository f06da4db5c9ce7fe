//! Whether a plan and the load that follows it refuse the same.

use std::collections::BTreeSet;

use refloat_load::{LoadError, LoadPlan};
use refloat_testkit::chain;

/// In what a plan and its load disagree; `None` if they do not. Errors that only running a
/// statement can bring (the server's own) are no business of a plan.
pub fn disagreement(
    planned: &Result<LoadPlan, LoadError>,
    loaded: Option<&LoadError>,
) -> Option<String> {
    match (planned, loaded) {
        (Ok(_), None) => None,
        (Err(plan), None) => Some(format!(
            "the plan refuses what the load does: {}",
            chain(plan)
        )),
        (Ok(_), Some(load)) => reasons(load)
            .map(|_| format!("the plan approves what the load refuses: {}", chain(load))),
        (Err(plan), Some(load)) => match (reasons(plan), reasons(load)) {
            (Some(plan), Some(load)) if plan == load => None,
            (Some(plan), Some(load)) => Some(format!(
                "plan and load refuse for other reasons: only the plan: {:?}; only the load: {:?}",
                plan.difference(&load).collect::<Vec<_>>(),
                load.difference(&plan).collect::<Vec<_>>()
            )),
            _ if chain(plan) == chain(load) => None,
            // A load knows that nothing commits a transaction only at the end of the file.
            (Some(_), None) if ends_open(plan) && ends_open(load) => None,
            _ => Some(format!(
                "the plan ends with {:?}, the load with {:?}",
                chain(plan),
                chain(load)
            )),
        },
    }
}

fn ends_open(error: &LoadError) -> bool {
    chain(error).contains("the file ends in the transaction that begins here")
}

/// Why the load was refused, reason by reason; `None` for errors of another kind.
fn reasons(error: &LoadError) -> Option<BTreeSet<String>> {
    match error {
        LoadError::Refused(list) | LoadError::Stopped(list) => {
            Some(list.iter().map(|one| one.reason.clone()).collect())
        }
        LoadError::MissingTrailer { .. }
        | LoadError::NoSuchTable { .. }
        | LoadError::Source(_)
        | LoadError::Text { .. }
        | LoadError::Scan { .. } => Some(BTreeSet::from([error.to_string()])),
        _ => None,
    }
}
