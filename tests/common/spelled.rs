//! Normalises definitions that are equal but spelled differently.

use refloat_testkit::oracle::Snapshot;

/// A copy of the snapshot with definitions spelled as the server spells them after reading its own
/// text back.
pub fn spelled(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for text in snapshot.definitions.values_mut() {
        // Aria shows a default that the table did not name, and after a reload counts it as named.
        *text = text.replace("page_checksum=1 ", "");
        // MariaDB 11.8 shows this after the default, older versions before it.
        *text = text.replace(" INVISIBLE DEFAULT 7", " DEFAULT 7 INVISIBLE");
        *text = without_charset(text);
    }
    snapshot
}

/// MySQL shows a column's character set if it differs from the database's, or was named along with
/// the collation.
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
