//! Definitions that are the same, spelled the same.

use refloat_testkit::oracle::Snapshot;

/// A snapshot in which definitions are spelled as the server spells them once it has read its own text again.
pub fn spelled(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for text in snapshot.definitions.values_mut() {
        // Aria shows the default of a table that did not name it, and then calls it named.
        *text = text.replace("page_checksum=1 ", "");
        // MariaDB 11.8 shows this behind the default, older ones before it.
        *text = text.replace(" INVISIBLE DEFAULT 7", " DEFAULT 7 INVISIBLE");
        *text = without_charset(text);
    }
    snapshot
}

/// MySQL shows the character set of a column where it is not the database's, or was named beside its collation.
fn without_charset(text: &str) -> String {
    const WORDS: &str = "CHARACTER SET ";
    let mut parts = text.split(WORDS);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part
            .trim_start_matches(|c: char| c.is_ascii_alphanumeric())
            .strip_prefix(" COLLATE");
        if let Some(rest) = after {
            out.push_str("COLLATE");
            out.push_str(rest);
        } else {
            out.push_str(WORDS);
            out.push_str(part);
        }
    }
    out
}
