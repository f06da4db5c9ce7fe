//! Compares next `AUTO_INCREMENT` values.
//!
//! A table with a lower next value assigns numbers again that the other side has already used, for
//! rows that may have been deleted since. If one side was made from the other, that is a
//! difference. Between two independent servers it need not be: a replica, or another cluster node,
//! learns numbers only from rows, and never those of transactions that were rolled back.

use refloat_schema::definition::next_auto_increment;

use super::{Comparison, Definition, Definitions};
use crate::options::Relation;
use crate::outcome::{SchemaDifference, VerifyOutcome};

/// Tables named in the note.
const NAMED: usize = 20;
/// How a column, or a table option, is marked.
const WORD: &str = " AUTO_INCREMENT";

/// Collects the tables whose next value is lower on the second side, as a note or as differences.
pub fn compare(
    comparison: &Comparison,
    (a, b): (&Definitions, &Definitions),
    relation: Relation,
    outcome: &mut VerifyOutcome,
) {
    let mut lower = Vec::new();
    for (name, of_a) in a.all.iter().filter(|(name, _)| name.0 == "table") {
        let Some(of_b) = b.all.get(name) else {
            continue;
        };
        let [next_a, next_b] = [(of_a, 0), (of_b, 1)]
            .map(|(definition, side)| next(definition, comparison.in_pieces[side]));
        if let (Some(next_a), Some(next_b)) = (next_a, next_b)
            && next_b < next_a
        {
            lower.push((name.1.as_str(), next_a, next_b));
        }
    }
    if relation == Relation::MadeOfFirst {
        for (table, next_a, next_b) in lower {
            outcome.schema_differences.push(SchemaDifference {
                about: format!("table {table}: next AUTO_INCREMENT value"),
                a: next_a.to_string(),
                b: next_b.to_string(),
            });
        }
        return;
    }
    if lower.is_empty() {
        return;
    }
    let named = lower.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|(table, next_a, next_b)| format!("{table} ({next_b}, the first has {next_a})"))
        .collect();
    let rest = match lower.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    outcome.notes.push(format!(
        "the next AUTO_INCREMENT value of these tables is lower on the second: {}{rest}. On a replica or another node of a cluster that is nothing to worry about; \
         elsewhere numbers of rows that the first has deleted are given again there, unless ALTER TABLE … AUTO_INCREMENT = … raises it",
        named.join(", ")
    ));
}

/// The next value, if it is known. Without the option it is 1, except that dumps of other tools may
/// have omitted it.
fn next(definition: &Definition, other_tool: bool) -> Option<u64> {
    let text = String::from_utf8_lossy(&definition.text);
    let silent = (!other_tool && text.contains(WORD)).then_some(1);
    next_auto_increment(&text).or(silent)
}
