//! Why something is refused or cannot continue.

use std::fmt;

/// One objection to a request, and what the user can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, and where: a sentence fragment without a full stop.
    pub reason: String,
    /// What the user can do about it: sentences. Empty if the reason is enough.
    pub hint: String,
}

impl Refusal {
    /// A refusal without a hint.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: String::new(),
        }
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// All reasons, in one line.
    pub fn reasons(all: &[Self]) -> String {
        let reasons: Vec<&str> = all.iter().map(|one| one.reason.as_str()).collect();
        reasons.join("; ")
    }

    /// All hints, without duplicates.
    pub fn hints(all: &[Self]) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for Self { hint, .. } in all {
            if !hint.is_empty() && !hints.contains(hint) {
                hints.push(hint.clone());
            }
        }
        hints
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_of_several_refusals_is_given_once() {
        let wait = |reason: &str| Refusal::new(reason).hint("Wait.");
        let all = [wait("a"), "b".into(), wait("c")];
        assert_eq!(Refusal::reasons(&all), "a; b; c");
        assert_eq!(Refusal::hints(&all), ["Wait."]);
    }
}
