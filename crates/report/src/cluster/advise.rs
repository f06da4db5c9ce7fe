//! The text of `refloat cluster advise`.

use std::fmt::Write as _;

use refloat_cluster::advise::{
    AccountFrom, Advice, Effect, GainSource, MachineFacts, NodeFacts, Suggestion,
};

use super::{UNKNOWN, table};
use crate::human;

/// The page that `refloat cluster advise` prints.
pub fn advise(advice: &Advice) -> String {
    let mut page = String::new();
    let whose = match &advice.joiner {
        Some(name) => format!("copies (SST) to {name}"),
        None => "copies (SST) to any node".to_owned(),
    };
    let _ = writeln!(page, "Cluster {}: {whose}", advice.cluster);
    machines(&mut page, advice);
    unseen(&mut page, advice);
    mistakes(&mut page, advice);
    suggestions(&mut page, advice);
    page
}

fn machines(page: &mut String, advice: &Advice) {
    let bytes = |count: Option<u64>| count.map_or(UNKNOWN.to_owned(), human::bytes);
    let rows: Vec<Vec<String>> = advice
        .nodes
        .iter()
        .filter_map(|node| Some((node, node.machine.as_ref()?)))
        .map(|(node, machine)| {
            vec![
                node.name.clone(),
                bytes(machine.memory.total),
                bytes(machine.memory.available),
                machine
                    .cores
                    .map_or(UNKNOWN.to_owned(), |count| count.to_string()),
                bytes(machine.space.data()),
                bytes(machine.space.free),
                account(machine),
                packers(machine),
            ]
        })
        .collect();
    if !rows.is_empty() {
        page.push('\n');
        let head = [
            "NODE",
            "MEMORY",
            "AVAILABLE",
            "CORES",
            "DATA",
            "FREE SPACE",
            "ACCOUNT",
            "COMPRESSORS",
        ];
        table(page, &head, rows.into_iter());
    }
}

fn account(machine: &MachineFacts) -> String {
    match &machine.account {
        None => UNKNOWN.to_owned(),
        Some(account) if account.refused.is_some() => "refused".to_owned(),
        Some(account) if account.from == AccountFrom::Nowhere => {
            format!("{} (none set)", account.name)
        }
        Some(account) => account.name.clone(),
    }
}

fn packers(machine: &MachineFacts) -> String {
    let there = ["zstd", "pigz", "lz4", "gzip", "qpress"]
        .into_iter()
        .filter(|name| machine.programs.contains_key(*name));
    let there: Vec<&str> = there.collect();
    if there.is_empty() {
        UNKNOWN.to_owned()
    } else {
        there.join(" ")
    }
}

fn unseen(page: &mut String, advice: &Advice) {
    let silent = |node: &NodeFacts| {
        node.unreachable
            .as_ref()
            .map(|why| format!("its server: {why}"))
    };
    let mut text = String::new();
    for node in &advice.nodes {
        for what in silent(node).iter().chain(&node.unseen) {
            let _ = writeln!(text, "  {}: {what}", node.name);
        }
    }
    if !text.is_empty() {
        let _ = write!(page, "\nNot looked at\n{text}");
    }
}

fn mistakes(page: &mut String, advice: &Advice) {
    if advice.mistakes.is_empty() {
        page.push_str("\nNothing found that would make a copy fail or be unsafe.\n");
        return;
    }
    page.push('\n');
    for mistake in &advice.mistakes {
        let grade = match mistake.effect {
            Effect::Fails => "fails",
            Effect::Unsafe => "unsafe",
        };
        let _ = writeln!(
            page,
            "{grade:6}  {}: {}",
            mistake.nodes.join(", "),
            mistake.text
        );
        let _ = writeln!(page, "        remedy: {}", mistake.remedy);
    }
}

fn suggestions(page: &mut String, advice: &Advice) {
    if advice.suggestions.is_empty() {
        page.push_str("\nNo setting is known that would be better.\n");
        return;
    }
    page.push_str("\nSettings that would be better\n");
    for one in &advice.suggestions {
        let _ = writeln!(
            page,
            "  [{}] {}={}  (now {}; {}){}",
            one.group,
            one.option,
            one.better,
            one.now.as_deref().unwrap_or("not set"),
            one.nodes.join(", "),
            if one.sure { "" } else { "  to be decided" },
        );
        let _ = writeln!(page, "      why: {}", one.reason);
        let _ = writeln!(page, "      gain, {}: {}", source(one), one.gain.text);
        if let Some(running) = &one.running {
            let _ = writeln!(page, "      while it runs: {running}");
        }
    }
}

fn source(one: &Suggestion) -> &'static str {
    match one.gain.source {
        GainSource::Measured => "measured elsewhere",
        GainSource::Documented => "by the documentation",
        GainSource::NotMeasured => "not measured",
    }
}
