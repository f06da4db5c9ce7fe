//! Compares the partitions of a table.

use refloat_sqltext::shown;

use super::Found;
use super::words::{Side, Words, names_agree, split_commas};

struct Facts {
    /// `LINEAR KEY`, `RANGE COLUMNS`, …
    method: String,
    /// Number of partitions, if given.
    count: Option<u64>,
    /// Names of the partitions that are listed.
    names: Vec<Vec<u8>>,
    subpartitions: Option<String>,
}

impl Facts {
    fn shown(&self) -> String {
        let count = self.count();
        let count = count.map_or(String::new(), |count| format!(", {count} partitions"));
        let sub = self
            .subpartitions
            .as_ref()
            .map_or(String::new(), |sub| format!(", subpartitions by {sub}"));
        let names: Vec<String> = self.names.iter().map(|name| shown(name)).collect();
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(": {}", names.join(", "))
        };
        format!("by {}{count}{sub}{names}", self.method)
    }

    fn count(&self) -> Option<u64> {
        if self.names.is_empty() {
            self.count
        } else {
            Some(self.names.len() as u64)
        }
    }
}

fn facts(side: &Side<'_>) -> Option<Facts> {
    let mut words = side.words(side.table.partition.as_ref()?);
    words.words(&["PARTITION", "BY"]);
    let mut facts = Facts {
        method: method(&mut words),
        count: None,
        names: Vec::new(),
        subpartitions: None,
    };
    while words.peek().is_some() {
        if words.word("PARTITIONS") {
            facts.count = words.value().and_then(|count| shown(&count).parse().ok());
        } else if words.words(&["SUBPARTITION", "BY"]) {
            facts.subpartitions = Some(method(&mut words));
        } else if let Some(inner) = words.parenthesised() {
            if Words::new(inner, side.mode).is("PARTITION") {
                facts.names = names(inner, side);
            }
        } else {
            words.next();
        }
    }
    Some(facts)
}

fn method(words: &mut Words<'_>) -> String {
    let mut list = Vec::new();
    for word in [
        "LINEAR",
        "HASH",
        "KEY",
        "RANGE",
        "LIST",
        "SYSTEM_TIME",
        "COLUMNS",
    ] {
        if words.word(word) {
            list.push(word);
        }
    }
    list.join(" ")
}

fn names(list: &[u8], side: &Side<'_>) -> Vec<Vec<u8>> {
    let name = |part: &[u8]| {
        let mut words = Words::new(part, side.mode);
        words.word("PARTITION");
        words.name()
    };
    split_commas(list, side.mode)
        .into_iter()
        .filter_map(name)
        .collect()
}

/// Compares method, number and names, but not expressions and values, which the server writes its
/// own way.
pub fn compare(dump: &Side<'_>, server: &Side<'_>, found: &mut Found<'_>) {
    let Some(wanted) = facts(dump) else {
        return;
    };
    let Some(present) = facts(server) else {
        found.differ("partitions", wanted.shown(), "none".to_owned());
        return;
    };
    let moving = wanted.method.contains("SYSTEM_TIME");
    let counts = match (wanted.count(), present.count()) {
        (Some(one), Some(other)) => one == other || moving,
        _ => true,
    };
    let named = wanted.names.is_empty() || present.names.is_empty() || moving || {
        let mut pairs = wanted.names.iter().zip(&present.names);
        pairs.all(|(one, other)| names_agree(one, dump.mode, other))
    };
    let same = wanted.method == present.method && wanted.subpartitions == present.subpartitions;
    if !(counts && named && same) {
        found.differ("partitions", wanted.shown(), present.shown());
    }
}
