//! Comparing table definitions.

use refloat_sqltext::LexMode;
use refloat_sqltext::ddl::{CreateTable, Element, KeyKind, parse_create_table};
use twox_hash::XxHash3_128;

use super::outcome::ProofDifference;

/// Fingerprint of a `SHOW CREATE TABLE` text without the next `AUTO_INCREMENT` value, which rows move.
pub fn fingerprint(create: &str) -> u128 {
    XxHash3_128::oneshot(without_auto_increment(create).as_bytes())
}

/// The text without ` AUTO_INCREMENT=n` among the table's options.
pub fn without_auto_increment(create: &str) -> String {
    let Some((start, end)) = auto_increment_range(create) else {
        return create.to_owned();
    };
    format!("{}{}", &create[..start], &create[end..])
}

/// Whether the server has another table than the dump asked for: columns, keys, foreign keys, checks or engine missing or
/// more. `None` when they agree, or when one of the texts cannot be split (the server took it; what it made of it then is
/// what the stock client would have got).
pub fn difference(
    table: &str,
    dump: &[u8],
    mode: LexMode,
    server: &str,
) -> Option<ProofDifference> {
    let wanted = parse_create_table(dump, mode).ok()?;
    let found = parse_create_table(server.as_bytes(), LexMode::default()).ok()?;
    let about = |what: &str| format!("table {table}: {what}");
    for (what, list) in [
        ("columns", columns as fn(&CreateTable) -> Vec<String>),
        ("keys", keys),
        ("foreign keys", foreign_keys),
    ] {
        let (expected, present) = (list(&wanted), list(&found));
        // The server adds a key for a foreign key that has none, so more keys than asked for are no difference.
        let same = if what == "keys" {
            expected.iter().all(|key| present.contains(key))
        } else {
            expected == present
        };
        if !same {
            return Some(ProofDifference {
                about: about(what),
                expected: expected.join(", "),
                found: present.join(", "),
            });
        }
    }
    let engine = |table: &CreateTable| {
        let option = table
            .options
            .iter()
            .find(|option| option.name == "ENGINE")?;
        Some(String::from_utf8_lossy(&option.value).to_ascii_lowercase())
    };
    if let (Some(expected), Some(present)) = (engine(&wanted), engine(&found))
        && expected != present
    {
        return Some(ProofDifference {
            about: about("engine"),
            expected,
            found: present,
        });
    }
    None
}

fn columns(table: &CreateTable) -> Vec<String> {
    let name = |element: &Element| {
        if let Element::Column(column) = element {
            Some(shown(&column.name))
        } else {
            None
        }
    };
    table.elements.iter().filter_map(name).collect()
}

fn keys(table: &CreateTable) -> Vec<String> {
    let mut keys: Vec<String> = table
        .elements
        .iter()
        .filter_map(|element| {
            let Element::Key(key) = element else {
                return None;
            };
            let kind = match key.kind {
                KeyKind::Primary => "primary",
                KeyKind::Unique => "unique",
                KeyKind::Fulltext => "fulltext",
                KeyKind::Spatial => "spatial",
                _ => "key",
            };
            let parts: Vec<String> = key
                .parts
                .iter()
                .map(|part| {
                    part.column
                        .as_deref()
                        .map_or_else(|| "expression".to_owned(), shown)
                })
                .collect();
            Some(format!("{kind}({})", parts.join(",")))
        })
        .collect();
    keys.sort();
    keys
}

fn foreign_keys(table: &CreateTable) -> Vec<String> {
    let mut keys: Vec<String> = table
        .elements
        .iter()
        .filter_map(|element| {
            let Element::ForeignKey(key) = element else {
                return None;
            };
            let list = |names: &[Vec<u8>]| {
                names
                    .iter()
                    .map(|name| shown(name))
                    .collect::<Vec<_>>()
                    .join(",")
            };
            Some(format!(
                "({}) to {}({})",
                list(&key.columns),
                shown(&key.ref_table.name),
                list(&key.ref_columns)
            ))
        })
        .collect();
    keys.sort();
    keys
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

fn auto_increment_range(create: &str) -> Option<(usize, usize)> {
    // The server writes options behind the line that closes the columns, and ENGINE first among them.
    let options = create.rfind("\n) ENGINE=")?;
    let word = " AUTO_INCREMENT=";
    let start = options + create[options..].find(word)?;
    let digits = start + word.len();
    let end = digits
        + create[digits..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
    (end > digits).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: &str = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT COMMENT ' AUTO_INCREMENT=7',\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=12 DEFAULT CHARSET=utf8mb4";

    #[test]
    fn only_the_table_option_is_left_out() {
        let without = without_auto_increment(CREATE);
        assert!(without.contains("COMMENT ' AUTO_INCREMENT=7'"));
        assert!(!without.contains("=12"));
        assert_eq!(
            fingerprint(CREATE),
            fingerprint(&CREATE.replace("=12", "=13"))
        );
        assert_ne!(
            fingerprint(CREATE),
            fingerprint(&CREATE.replace("int", "bigint"))
        );
    }
}
