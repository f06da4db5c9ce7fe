//! Cases whose source nobody can build a second time.

/// By name, with the reason.
const LOST: &[(&str, &str)] = &[(
    "invalid-views",
    "the server refuses to create a view that names what is not there",
)];

/// Why the source of a case cannot be built again from what a server tells of it.
pub fn lost(case: &str) -> Option<&'static str> {
    let found = LOST.iter().find(|(name, _)| *name == case);
    found.map(|(_, reason)| *reason)
}
