//! Observes all nodes at once until they are as wanted.

use std::time::{Duration, Instant};

use refloat_cluster::{ClusterView, Member, Observation, WantedTables, observe};

/// Limit for every wait.
pub const LONG: Duration = Duration::from_secs(90);

/// Observes once, measuring rates over `sample`.
pub fn look_for(members: &[Member], sample: Duration, tables: WantedTables) -> ClusterView {
    let how = Observation {
        sample,
        tables,
        ..Observation::default()
    };
    observe("test", members, &how)
}

/// Observes until the view is as wanted.
pub fn until(
    what: &str,
    look: impl Fn() -> ClusterView,
    wanted: impl Fn(&ClusterView) -> bool,
) -> ClusterView {
    let begun = Instant::now();
    loop {
        let view = look();
        if wanted(&view) {
            return view;
        }
        assert!(begun.elapsed() < LONG, "{what}: {view:#?}");
    }
}
