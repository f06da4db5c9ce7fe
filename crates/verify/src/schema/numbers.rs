//! Next `AUTO_INCREMENT` values.
//!
//! A table whose next value is lower gives numbers again that the other has given, and whose rows may have been deleted since. Where one
//! side was made of the other that is a difference. Of two servers that live apart it need not be one: a replica, or another node of a
//! cluster, learns of numbers by their rows only, not of those whose transactions were rolled back.

use refloat_schema::definition::next_auto_increment;

use super::{Comparison, Definition, Definitions};
use crate::options::Relation;
use crate::outcome::{SchemaDifference, VerifyOutcome};

/// Tables named in the note.
const NAMED: usize = 20;
/// How a column, or an option of a table, says it.
const WORD: &str = " AUTO_INCREMENT";

/// Notes the tables whose next value is lower on the second side, or counts them as differences.
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

/// The next value, where a definition says it: dumps of other tools may have left it out.
fn next(definition: &Definition, other_tool: bool) -> Option<u64> {
    let text = String::from_utf8_lossy(&definition.text);
    let silent = (!other_tool && text.contains(WORD)).then_some(1);
    next_auto_increment(&text).or(silent)
}
