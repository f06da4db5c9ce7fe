//! Whether a plan and the load that follows it refuse the same.

use std::collections::BTreeSet;

use refloat_load::{LoadError, LoadFailure, LoadOptions, LoadOutcome, LoadPlan, load, plan};
use refloat_run::Run;
use refloat_testkit::chain;

/// Plans a load, then loads. Returns how the load ended, and in what the plan and it disagree.
/// What only the rows of a folder show is not expected of a plan.
pub fn planned_load(
    options: &LoadOptions,
    run: &Run,
) -> (Result<LoadOutcome, Box<LoadFailure>>, Option<String>) {
    let planned = plan(options);
    let loaded = load(options, run).map_err(Box::new);
    let error = loaded.as_ref().err().map(|failure| &failure.error);
    let disagreement = disagreement(&planned, error);
    let expected = error.is_some_and(|error| match &planned {
        Ok(_) => is_of_rows(error, is_script(options)),
        Err(plan) => comes_to_it(plan, error),
    });
    (loaded, disagreement.filter(|_| !expected))
}

fn is_script(options: &LoadOptions) -> bool {
    options.source.is_file() && options.source.extension().is_none_or(|end| end != "tar")
}

/// Whether the error may be one that only the values of rows show. A plan reads scripts to their
/// end, but no values.
fn is_of_rows(error: &LoadError, script: bool) -> bool {
    match error {
        LoadError::Stopped(_) => error.to_string().contains("current rows in the dump"),
        LoadError::Text { .. } | LoadError::Scan { .. } => !script,
        _ => false,
    }
}

/// Whether a load stops where it comes to what the plan names, or at what the server says of
/// another statement before that: only a plan has the server read every definition, and reads every
/// file of a folder; only a load runs statements.
fn comes_to_it(plan: &LoadError, load: &LoadError) -> bool {
    const SERVER: &str = "server error";
    let Some(reasons) = reasons(plan) else {
        return false;
    };
    if let LoadError::Refused(list) = load {
        let refused: BTreeSet<String> = list.iter().map(|one| one.reason.clone()).collect();
        let mut others = reasons.difference(&refused);
        return refused.is_subset(&reasons) && others.all(|one| one.contains(SERVER));
    }
    let load = chain(load);
    let mut words = reasons.iter().map(|reason| {
        let (_, words) = reason.split_once(": ").unwrap_or(("", reason.as_str()));
        words
    });
    let of_server = load.contains(SERVER) && reasons.iter().all(|one| one.contains(SERVER));
    of_server || words.any(|words| load.contains(words))
}

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
