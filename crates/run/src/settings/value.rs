//! Compares values of settings, and writes them as literals.

use super::provider::GCACHE_PURGE;

/// Settings of sizes that servers round to their own units (chunks of the buffer pool, pages,
/// megabytes).
const ROUNDED: &[&str] = &[
    "innodb_buffer_pool_size",
    "innodb_log_file_size",
    "innodb_redo_log_capacity",
    "max_allowed_packet",
];
/// The largest unit that a server rounds to, as a part of the value: one chunk, at most a
/// sixteenth.
const ROUNDING: f64 = 1.0 / 16.0;

/// Whether two values of a setting are the same, apart from spelling.
pub fn same(a: &str, b: &str) -> bool {
    fn plain(text: &str) -> String {
        match text.to_ascii_uppercase().as_str() {
            "1" | "ON" | "TRUE" => "1".into(),
            "0" | "OFF" | "FALSE" => "0".into(),
            other => other.to_owned(),
        }
    }
    plain(a) == plain(b)
}

/// Whether `got` is what a server may turn `asked` into: the same value, or a rounded one where
/// servers are known to round.
pub fn accepted(name: &str, asked: &str, got: &str) -> bool {
    if same(asked, got) {
        return true;
    }
    // "now" becomes the seqno of a write-set.
    if name == GCACHE_PURGE && asked == "now" {
        return got.bytes().all(|b| b.is_ascii_digit()) && !got.is_empty();
    }
    match (
        ROUNDED.contains(&name),
        asked.parse::<f64>(),
        got.parse::<f64>(),
    ) {
        (true, Ok(asked), Ok(got)) => (got - asked).abs() <= asked * ROUNDING,
        _ => false,
    }
}

/// The value as a literal for SET, or `None` if it holds anything that no value of these settings
/// holds.
pub fn literal(value: &str) -> Option<String> {
    if !value.is_empty() && value.len() < 20 && value.bytes().all(|b| b.is_ascii_digit()) {
        return Some(value.to_owned());
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b',');
    (value.len() <= 200 && value.bytes().all(plain)).then(|| format!("'{value}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_and_rounding() {
        assert!(
            same("ON", "1")
                && same("off", "0")
                && same("DETECT_ONLY", "detect_only")
                && !same("1", "2")
        );
        assert!(accepted(
            "innodb_buffer_pool_size",
            "1000000000",
            "1006632960"
        ));
        assert!(!accepted(
            "innodb_buffer_pool_size",
            "1000000000",
            "134217728"
        ));
        assert!(
            !accepted("innodb_io_capacity", "10000", "10001"),
            "no rounding is known there"
        );
        assert!(accepted(GCACHE_PURGE, "now", "4711") && !accepted(GCACHE_PURGE, "now", "-1"));
    }

    #[test]
    fn nothing_foreign_gets_into_a_statement() {
        assert_eq!(literal("17").as_deref(), Some("17"));
        assert_eq!(literal("DETECT_ONLY").as_deref(), Some("'DETECT_ONLY'"));
        for bad in ["1; DROP TABLE x", "a'b", "a\\", "a b", "`x`", "é"] {
            assert_eq!(literal(bad), None, "{bad}");
        }
    }
}
