//! Compares `CHECK` constraints.

use refloat_sqltext::shown;

use super::words::{Side, plain};
use super::{Found, columns};

struct Facts {
    name: Option<Vec<u8>>,
    /// The expression as [`plain`] simplifies it.
    plain: Vec<u8>,
    /// The expression as written.
    text: Vec<u8>,
    enforced: bool,
}

fn facts(side: &Side<'_>) -> Vec<Facts> {
    let mut list = Vec::new();
    for column in columns::facts(side) {
        for (name, text) in column.checks {
            list.push(Facts {
                name,
                plain: plain(text, side.mode),
                text: text.to_vec(),
                enforced: true,
            });
        }
    }
    for element in &side.table.elements {
        let refloat_sqltext::Element::Check(check) = element else {
            continue;
        };
        let mut words = side.words(&check.range);
        let mut text = None;
        let mut enforced = true;
        while words.peek().is_some() {
            if words.words(&["NOT", "ENFORCED"]) {
                enforced = false;
            } else if let Some(inner) = words.parenthesised() {
                text = text.or(Some(inner));
            } else {
                words.next();
            }
        }
        list.push(Facts {
            name: check.name.clone(),
            plain: plain(text.unwrap_or_default(), side.mode),
            text: text.unwrap_or_default().to_vec(),
            enforced,
        });
    }
    list
}

/// Compares constraints by their expressions. Those that the server writes differently are only
/// counted. Old versions ignore all of them.
pub fn compare(dump: &Side<'_>, server: &Side<'_>, found: &mut Found<'_>) {
    let mut rest = facts(server);
    let mut unmatched = Vec::new();
    for check in facts(dump) {
        let Some(place) = rest.iter().position(|other| other.plain == check.plain) else {
            unmatched.push(check);
            continue;
        };
        let other = rest.remove(place);
        if check.enforced != other.enforced {
            let word =
                |enforced: bool| if enforced { "enforced" } else { "not enforced" }.to_owned();
            let about = format!("CHECK ({})", shown(&check.text));
            found.differ(&about, word(check.enforced), word(other.enforced));
        }
    }
    // MariaDB adds one for each JSON column.
    rest.retain(|other| !other.plain.starts_with(b"json_valid"));
    if unmatched.len() > rest.len() {
        let list = |checks: &[Facts]| {
            let texts: Vec<String> = checks
                .iter()
                .map(|check| {
                    let name = check
                        .name
                        .as_deref()
                        .map_or(String::new(), |name| shown(name) + " ");
                    format!("{name}({})", shown(&check.text))
                })
                .collect();
            if texts.is_empty() {
                "none".to_owned()
            } else {
                texts.join(", ")
            }
        };
        found.differ("CHECK", list(&unmatched), list(&rest));
    }
}
