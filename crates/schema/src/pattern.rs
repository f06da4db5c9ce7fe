//! Names of databases and tables: the server's own ones, and patterns with `*` and `?`.

const SYSTEM_DATABASES: &[&str] = &["mysql", "sys", "information_schema", "performance_schema"];

/// Whether a database belongs to the server itself.
pub fn is_system_database(name: &str) -> bool {
    SYSTEM_DATABASES
        .iter()
        .any(|system| system.eq_ignore_ascii_case(name))
}

/// Whether one of `patterns` (`table` or `db.table`) matches a table.
pub fn matches_any(patterns: &[String], database: &str, table: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.split_once('.') {
            Some((db, name)) => {
                matches(db.as_bytes(), database.as_bytes())
                    && matches(name.as_bytes(), table.as_bytes())
            }
            None => matches(pattern.as_bytes(), table.as_bytes()),
        })
}

/// Whether these patterns may choose a table of this database. No patterns choose everything.
pub fn may_choose_in(patterns: &[String], database: &str) -> bool {
    let mut all = patterns.iter();
    patterns.is_empty()
        || all.any(|pattern| match pattern.split_once('.') {
            Some((db, _)) => matches(db.as_bytes(), database.as_bytes()),
            None => true,
        })
}

/// Whether `pattern` matches all of `text`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // Glob matching with a single step back: to the last `*`, which then takes one more byte.
    let (mut p, mut t) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, t));
                p += 1;
            }
            Some(b'?') => (p, t) = (p + 1, t + 1),
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    (p, t) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_with_and_without_database() {
        let yes =
            |pattern: &str, db: &str, table: &str| matches_any(&[pattern.to_owned()], db, table);
        assert!(yes("orders", "shop", "orders"));
        assert!(!yes("orders", "shop", "orders2"));
        assert!(yes("ord*", "shop", "orders"));
        assert!(yes("shop.*", "shop", "x"));
        assert!(!yes("shop.*", "shop2", "x"));
        assert!(yes("*.log_????", "a", "log_2024"));
        assert!(yes("*a*b*", "x", "xxaxxbxx"));
        assert!(!yes("*a*b*", "x", "xxbxxaxx"));
    }

    #[test]
    fn a_database_that_cannot_be_looked_into_may_hold_what_is_wanted() {
        let mut patterns = Vec::new();
        assert!(may_choose_in(&patterns, "other"));
        patterns.push("shop.items".to_owned());
        assert!(!may_choose_in(&patterns, "other"));
        patterns.push("more".to_owned());
        assert!(may_choose_in(&patterns, "other"));
    }
}
