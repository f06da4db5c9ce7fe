//! A suggestion: a setting, why it would be better, and its expected gain.

use serde::Serialize;

use super::facts::{NodeFacts, TEXT_MOST, clean};

/// A setting for which another value would be better.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Names of the nodes that it concerns.
    pub nodes: Vec<String>,
    /// Group of the option file.
    pub group: &'static str,
    /// As it is written in the option file.
    pub option: String,
    /// Its current value. `None`: it is not set.
    pub now: Option<String>,
    /// The suggested value.
    pub better: String,
    /// Why that is better.
    pub reason: String,
    /// The expected gain.
    pub gain: Gain,
    /// Whether it can be set right away. Otherwise a person must first decide or do something.
    pub sure: bool,
    /// What to do on a running server, now and afterwards.
    pub running: Option<String>,
    /// Its line in an option file.
    pub line: String,
}

/// The expected gain of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gain {
    /// The gain, in words.
    pub text: String,
    /// How the gain is known.
    pub source: GainSource,
}

/// How a gain is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GainSource {
    /// Measured, on another machine.
    Measured,
    /// The documentation or the scripts say so.
    Documented,
    /// Expected, but nobody has measured it.
    NotMeasured,
}

impl Suggestion {
    pub(super) fn new(
        node: &NodeFacts,
        group: &'static str,
        option: &str,
        now: Option<&str>,
        better: impl Into<String>,
    ) -> Self {
        let better = clean(&better.into(), TEXT_MOST);
        Self {
            nodes: vec![node.name.clone()],
            group,
            option: option.to_owned(),
            now: now.map(|now| clean(now, TEXT_MOST)),
            line: assignment(option, &better),
            better,
            reason: String::new(),
            gain: Gain {
                text: String::new(),
                source: GainSource::NotMeasured,
            },
            sure: true,
            running: None,
        }
    }

    pub(super) fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = clean(&reason.into(), TEXT_MOST);
        self
    }

    pub(super) fn gains(mut self, source: GainSource, text: impl Into<String>) -> Self {
        self.gain = Gain {
            text: text.into(),
            source,
        };
        self
    }

    pub(super) fn if_decided(mut self) -> Self {
        self.sure = false;
        self
    }
}

/// A line of an option file that gives exactly this value.
pub(super) fn assignment(option: &str, value: &str) -> String {
    let value: String = value.chars().filter(|c| !c.is_control()).collect();
    let plain = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, ' ' | '-' | '_' | '.' | ',' | '/' | ':' | '=' | '+' | '@')
    };
    if value.chars().all(plain) && value.trim() == value {
        return format!("{option}={value}");
    }
    format!(
        "{option}=\"{}\"",
        value.replace('\\', r"\\").replace('"', "\\\"")
    )
}
