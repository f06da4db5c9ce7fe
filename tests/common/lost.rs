//! Cases whose source cannot be built a second time.

/// Case and reason.
const LOST: &[(&str, &str)] = &[(
    "invalid-views",
    "the server refuses to create a view that names what is not there",
)];

/// Why the source of a case cannot be rebuilt from what a server reports about it.
pub fn lost(case: &str) -> Option<&'static str> {
    let found = LOST.iter().find(|(name, _)| *name == case);
    found.map(|(_, reason)| *reason)
}
