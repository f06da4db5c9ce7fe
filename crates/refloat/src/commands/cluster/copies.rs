//! Looks for what would make full copies fail, before anything is touched.

use std::time::Duration;

use refloat_cluster::advise::{Advice, AdviseOptions, advise};

use super::members::ClusterOf;
use crate::context::Context;

/// As short as possible: rates do not matter here.
const SAMPLE: Duration = Duration::from_millis(100);

/// Collects the facts about the nodes' machines, and judges a full copy to `joiner`, or to any
/// node.
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
