//! What would make full copies fail, looked for before anything is touched.

use std::time::Duration;

use refloat_cluster::advise::{Advice, AdviseOptions, advise};

use super::members::ClusterOf;
use crate::context::Context;

/// Rates do not matter here.
const SAMPLE: Duration = Duration::from_millis(100);

/// What is known of the nodes' machines, and what follows from it for a copy to this node, or to any of them.
pub fn look(
    cluster: &ClusterOf,
    joiner: Option<&str>,
    context: &Context,
) -> anyhow::Result<Advice> {
    let (nodes, candidates) = cluster.candidates(context)?;
    let options = AdviseOptions {
        joiner: joiner.map(str::to_owned),
        sample: SAMPLE,
        ..AdviseOptions::default()
    };
    Ok(advise(&nodes.name, &candidates, &options)?)
}
