//! Members of an `ENUM` or a `SET`, looked for in the text of its type as the server shows it: `enum('a','it''s')`.

use std::collections::HashSet;

/// Whether one of the members is the empty text; sometimes also when one only looks so.
pub(crate) fn has_empty_member(type_text: &str) -> bool {
    ["('',", "('')", ",'',", ",'')"]
        .iter()
        .any(|empty| type_text.contains(empty))
}

/// Whether two members of a `SET` look alike, case aside: the server warns of that where its mode is not strict.
pub(crate) fn has_equal_members(type_text: &str) -> bool {
    // No member of a SET has a comma in it.
    let members = type_text.trim_start_matches("set(").trim_end_matches(')');
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
    fn members_that_are_empty() {
        assert!(has_empty_member("enum('','b')"));
        assert!(has_empty_member("enum('a','')"));
        assert!(has_empty_member("enum('')"));
        assert!(!has_empty_member("enum('it''s','b')"));
        assert!(!has_empty_member("enum('a''','b')"));
    }

    #[test]
    fn members_that_look_alike() {
        assert!(has_equal_members("set('a','b','A')"));
        assert!(has_equal_members("set('a','a ')"));
        assert!(!has_equal_members("set('a','b')"));
    }
}
