//! Ids of runs.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Id of a run: `20261121-203000-abc123`, the UTC second it began and six random hex digits.
///
/// Ids sort by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// The error for a text that is not a run id.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not a run id: it would look like 20261121-203000-abc123")]
pub struct NoRunId {
    /// The text that was parsed.
    pub text: String,
}

impl RunId {
    /// A new id for the current time.
    pub fn new() -> Self {
        let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
        // `RandomState` takes its keys from the system's random source.
        let random = RandomState::new().hash_one(std::process::id()) & 0xff_ffff;
        Self(format!("{now}-{random:06x}"))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for RunId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = NoRunId;

    fn from_str(text: &str) -> Result<Self, NoRunId> {
        let good = text.len() == 22
            && text.bytes().enumerate().all(|(i, b)| match i {
                8 | 15 => b == b'-',
                0..=14 => b.is_ascii_digit(),
                _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
            });
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(NoRunId {
                text: text.to_owned(),
            })
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = NoRunId;

    fn try_from(text: String) -> Result<Self, NoRunId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back_and_nothing_else_is() {
        let id = RunId::new();
        assert_eq!(id.as_str().parse::<RunId>().unwrap(), id);
        assert_ne!(RunId::new(), RunId::new());
        for bad in [
            "",
            "../../etc",
            "20261121-203000-abc12",
            "20261121-203000-abc12G",
            "20261121_203000-abc123",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
