//! What would make full copies fail, looked for before anything is touched.

use std::time::Duration;

use refloat_cluster::advise::{AdviseOptions, Effect, Mistake, advise};

use super::members::ClusterOf;
use crate::context::Context;

/// Rates do not matter here.
const SAMPLE: Duration = Duration::from_millis(100);

/// Everything that would make a copy to this node fail, or to any of them.
pub fn fail_by(
    cluster: &ClusterOf,
    joiner: Option<&str>,
    context: &Context,
) -> anyhow::Result<Vec<Mistake>> {
    let (nodes, candidates) = cluster.candidates(context)?;
    let options = AdviseOptions {
        joiner: joiner.map(str::to_owned),
        sample: SAMPLE,
        ..AdviseOptions::default()
    };
    let mut mistakes = advise(&nodes.name, &candidates, &options)?.mistakes;
    mistakes.retain(|mistake| mistake.effect == Effect::Fails);
    Ok(mistakes)
}

/// A mistake in one line, with the nodes that it is about.
pub fn told(mistake: &Mistake) -> String {
    format!("{}: {}", mistake.nodes.join(", "), mistake.text)
}
