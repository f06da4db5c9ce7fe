//! All nodes at once, looked at until they are as wanted.

use std::time::{Duration, Instant};

use refloat_cluster::{ClusterView, Member, Observation, WantedTables, observe};

/// Nothing takes longer.
pub const LONG: Duration = Duration::from_secs(90);

/// One look, with rates measured for so long.
pub fn look_for(members: &[Member], sample: Duration, tables: WantedTables) -> ClusterView {
    let how = Observation {
        sample,
        tables,
        ..Observation::default()
    };
    observe("test", members, &how)
}

/// Looks until it is as wanted.
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
