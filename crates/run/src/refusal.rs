//! Why something is refused before it begins.

use std::fmt;

/// One reason why a run was refused, and what the user can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong: a fragment of a sentence, without a full stop.
    pub reason: String,
    /// What the user can do about it: sentences.
    pub hint: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
