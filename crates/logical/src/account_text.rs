//! What servers show of accounts, taken apart word by word: comments and names may hold any words.

use std::ops::Range;

use refloat_sqltext::{LexMode, Token, TokenKind, tokens};

/// The tokens of a text that a server shows in a session with neither `ANSI_QUOTES` nor `NO_BACKSLASH_ESCAPES`.
fn words(text: &str) -> Vec<Token> {
    tokens(text.as_bytes(), LexMode::default()).code().collect()
}

/// Where the default roles are named: clause, and roles alone.
fn default_role(text: &str) -> Option<(Range<usize>, Range<usize>)> {
    let words = words(text);
    let at = words.windows(2).position(|pair| {
        pair[0].is(text.as_bytes(), "DEFAULT") && pair[1].is(text.as_bytes(), "ROLE")
    })?;
    let roles = &words[at + 2..];
    // Names are always in quotes: the next word is the next clause.
    let until = roles
        .iter()
        .position(|word| word.kind == TokenKind::Word)
        .unwrap_or(roles.len());
    let (first, last) = (roles.first()?, roles[..until].last()?);
    Some((
        words[at].range.start..last.range.end,
        first.range.start..last.range.end,
    ))
}

/// MySQL's `CREATE USER` names default roles, which only exist for the account when they are granted.
pub fn split_default_role(text: &str) -> (String, Option<String>) {
    let Some((clause, roles)) = default_role(text) else {
        return (text.to_owned(), None);
    };
    (
        format!("{}{}", text[..clause.start].trim_end(), &text[clause.end..]),
        Some(text[roles].to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_roles_are_taken_out() {
        for (text, rest, roles) in [
            (
                "CREATE USER `a`@`%` IDENTIFIED WITH 'x' DEFAULT ROLE `r`@`%` REQUIRE NONE",
                "CREATE USER `a`@`%` IDENTIFIED WITH 'x' REQUIRE NONE",
                Some("`r`@`%`"),
            ),
            (
                "CREATE USER `a`@`%` DEFAULT ROLE `r`@`%`,`x REQUIRE `@`%`",
                "CREATE USER `a`@`%`",
                Some("`r`@`%`,`x REQUIRE `@`%`"),
            ),
            (
                r#"CREATE USER `b DEFAULT ROLE `@`%` PASSWORD EXPIRE DEFAULT ATTRIBUTE '{"a": "\' DEFAULT ROLE `x` REQUIRE NONE"}'"#,
                r#"CREATE USER `b DEFAULT ROLE `@`%` PASSWORD EXPIRE DEFAULT ATTRIBUTE '{"a": "\' DEFAULT ROLE `x` REQUIRE NONE"}'"#,
                None,
            ),
            (
                r"CREATE USER `a`@`%` DEFAULT ROLE `r`@`%` REQUIRE NONE ATTRIBUTE 'x DEFAULT ROLE y REQUIRE z'",
                r"CREATE USER `a`@`%` REQUIRE NONE ATTRIBUTE 'x DEFAULT ROLE y REQUIRE z'",
                Some("`r`@`%`"),
            ),
        ] {
            let split = split_default_role(text);
            assert_eq!(split, (rest.to_owned(), roles.map(str::to_owned)), "{text}");
        }
    }
}
