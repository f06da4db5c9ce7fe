//! Suggestions as a fragment of an option file, with the reasons as comments.

use std::fmt::Write as _;

use super::{Advice, Effect, GainSource, Suggestion};

/// Widest comment line, in characters.
const WIDTH: usize = 96;
/// Option groups, in the order in which they are written.
const GROUPS: [&str; 4] = ["mysqld", "sst", "xtrabackup", "mariabackup"];

/// Writes the suggestions of an advice as a fragment of an option file. What a person must decide
/// first, and what differs between nodes, is commented out.
pub fn fragment(advice: &Advice) -> String {
    let mut text = String::new();
    let whose = match &advice.joiner {
        Some(name) => format!("of cluster {}, for copies to {name}", advice.cluster),
        None => format!("of cluster {}, for copies to any node", advice.cluster),
    };
    comment(
        &mut text,
        &format!("Settings for state transfers (SST) {whose}, by refloat cluster advise."),
    );
    comment(
        &mut text,
        "Lines that begin with #option= are for you to decide. Running servers read their options \
        at the next start.",
    );
    for mistake in &advice.mistakes {
        let grade = match mistake.effect {
            Effect::Fails => "FAILS",
            Effect::Unsafe => "unsafe",
        };
        comment(
            &mut text,
            &format!(
                "{grade}: {}: {}. Remedy: {}.",
                mistake.nodes.join(", "),
                mistake.text,
                mistake.remedy
            ),
        );
    }
    for group in GROUPS {
        let of_group: Vec<&Suggestion> = advice
            .suggestions
            .iter()
            .filter(|one| one.group == group)
            .collect();
        if of_group.is_empty() {
            continue;
        }
        let _ = write!(text, "\n[{group}]\n");
        for one in &of_group {
            let key = |one: &Suggestion| one.line.split('=').next().unwrap_or_default().to_owned();
            let differs = of_group
                .iter()
                .any(|other| key(other) == key(one) && other.line != one.line);
            suggestion(&mut text, one, differs);
        }
    }
    text
}

fn suggestion(text: &mut String, one: &Suggestion, differs: bool) {
    text.push('\n');
    comment(
        text,
        &format!(
            "For {}. Now: {}. {}.",
            one.nodes.join(", "),
            one.now.as_deref().unwrap_or("not set"),
            one.reason
        ),
    );
    let source = match one.gain.source {
        GainSource::Measured => "measured elsewhere",
        GainSource::Documented => "by the documentation",
        GainSource::NotMeasured => "not measured",
    };
    comment(text, &format!("Gain ({source}): {}.", one.gain.text));
    if let Some(running) = &one.running {
        comment(text, &format!("While it runs: {running}."));
    }
    if differs {
        comment(
            text,
            "The nodes need different values: take the line of each.",
        );
    }
    let mark = if one.sure && !differs { "" } else { "#" };
    let _ = writeln!(text, "{mark}{}", one.line);
}

/// Adds comment lines. Their text may come from servers, and must never begin a line.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > 1 {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
