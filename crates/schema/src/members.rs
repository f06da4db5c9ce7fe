//! Looks at the members of an `ENUM` or `SET` in its type text as the server shows it:
//! `enum('a','it''s')`.

use std::collections::HashSet;

/// The members, in order; empty if the type has none, or the text is not as servers show it.
pub fn members(type_text: &str) -> Vec<String> {
    let list = type_text.split_once('(').map_or("", |(_, list)| list);
    let mut members = Vec::new();
    let mut rest = list;
    while let Some(text) = rest.strip_prefix('\'') {
        let mut member = String::new();
        let mut from = text;
        loop {
            let Some((part, after)) = from.split_once('\'') else {
                return Vec::new();
            };
            member.push_str(part);
            let Some(more) = after.strip_prefix('\'') else {
                rest = after.strip_prefix(',').unwrap_or(after);
                break;
            };
            member.push('\'');
            from = more;
        }
        members.push(member);
    }
    // Servers show a backslash as it is, and dumps escape it.
    if rest.starts_with(')') && !list.contains('\\') {
        members
    } else {
        Vec::new()
    }
}

/// Whether one of the members is the empty string. Sometimes also true if one only looks like it.
pub fn has_empty_member(type_text: &str) -> bool {
    ["('',", "('')", ",'',", ",'')"]
        .iter()
        .any(|empty| type_text.contains(empty))
}

/// Whether two members may be the same text in this collation. The server only warns about that if
/// its mode is not strict, and then takes the first one for both. Beyond ASCII only the server
/// knows which characters are alike, so they may be.
pub fn has_equal_members(type_text: &str, collation: &str) -> bool {
    let by_code = collation.is_empty() || collation.ends_with("_bin") || collation == "binary";
    let plain = |c: char| c.is_ascii() && !c.is_ascii_control();
    if !by_code && !type_text.chars().all(plain) && type_text.contains("','") {
        return true;
    }
    // A member of an ENUM that contains the separator is cut in two, so the answer may be a
    // needless yes.
    let members = type_text
        .trim_start_matches("set(")
        .trim_start_matches("enum(")
        .trim_end_matches(')');
    let mut seen = HashSet::new();
    members
        .split("','")
        .map(|member| member.trim_matches('\'').trim_end().to_lowercase())
        .any(|member| !seen.insert(member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_in_order() {
        assert_eq!(members("set('b','a')"), ["b", "a"]);
        assert_eq!(
            members("enum('it''s','','a,b','''') foo"),
            ["it's", "", "a,b", "'"]
        );
        for other in ["int(11)", "enum('a", "set('a' 'b')", "set('a\\'b')", "json"] {
            assert!(members(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn members_that_are_empty() {
        assert!(has_empty_member("enum('','b')"));
        assert!(has_empty_member("enum('a','')"));
        assert!(has_empty_member("enum('')"));
        assert!(!has_empty_member("enum('it''s','b')"));
        assert!(!has_empty_member("enum('a''','b')"));
    }

    #[test]
    fn members_that_look_alike() {
        let alike = |members: &str| has_equal_members(members, "utf8mb4_general_ci");
        assert!(alike("set('a','b','A')"));
        assert!(alike("set('a','a ')"));
        assert!(!alike("set('a','b')"));
        assert!(alike("enum('16','b','16')"));
        assert!(!alike("enum('a','enum(','b')"));
        assert!(alike("enum('e','é')"));
        assert!(!alike("enum('é')"));
        assert!(!has_equal_members("enum('e','é')", "utf8mb4_bin"));
        assert!(has_equal_members("enum('é','é')", "utf8mb4_bin"));
    }
}
