//! Takes apart what servers show of accounts, token by token: comments and names may contain any
//! words.

use std::ops::Range;

use refloat_sqltext::{LexMode, Token, TokenKind, tokens};

/// Tokens of a text that a server shows in a session with neither `ANSI_QUOTES` nor
/// `NO_BACKSLASH_ESCAPES`.
fn words(text: &str) -> Vec<Token> {
    tokens(text.as_bytes(), LexMode::default()).code().collect()
}

/// Where the default roles are: the whole clause, and the roles alone.
fn default_role(text: &str) -> Option<(Range<usize>, Range<usize>)> {
    let words = words(text);
    let at = words.windows(2).position(|pair| {
        pair[0].is(text.as_bytes(), "DEFAULT") && pair[1].is(text.as_bytes(), "ROLE")
    })?;
    let roles = &words[at + 2..];
    // Names are always quoted, so the next bare word starts the next clause.
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

/// Splits the default roles off MySQL's `CREATE USER`: the account only has them once they are
/// granted.
pub fn split_default_role(text: &str) -> (String, Option<String>) {
    let Some((clause, roles)) = default_role(text) else {
        return (text.to_owned(), None);
    };
    (
        format!("{}{}", text[..clause.start].trim_end(), &text[clause.end..]),
        Some(text[roles].to_owned()),
    )
}

/// Reduces a grant to what is granted. MariaDB repeats parts of the account's definition in it: a
/// password here counts as a new one, which is no longer expired, and it would change existing
/// accounts.
pub fn grant_alone(grant: &str) -> String {
    let bytes = grant.as_bytes();
    let words = words(grant);
    let is = |word: &Token, keyword| word.is(bytes, keyword);
    let Some(to) = words.iter().position(|word| is(word, "TO")) else {
        return grant.to_owned();
    };
    let name = &words[to + 1..];
    let tail = match name {
        [_, at, _, tail @ ..] if at.is_punct(b'@') => tail,
        [_, tail @ ..] => tail,
        [] => return grant.to_owned(),
    };
    let defines = |word: &Token| {
        ["IDENTIFIED", "REQUIRE"].iter().any(|one| is(word, one))
            || (word.kind == TokenKind::Word && bytes[word.range.clone()].starts_with(b"MAX_"))
    };
    if !tail.iter().any(defines) {
        return grant.to_owned();
    }
    let end = name[name.len() - tail.len() - 1].range.end;
    let passes_on = tail
        .windows(2)
        .any(|pair| is(&pair[0], "GRANT") && is(&pair[1], "OPTION"));
    let option = if passes_on { " WITH GRANT OPTION" } else { "" };
    format!("{}{option}", &grant[..end])
}

/// A grant on one table or some of its columns.
#[derive(Debug, PartialEq, Eq)]
pub struct Granted {
    /// Database of the table.
    pub database: String,
    /// Name of the table, or of a view or sequence in its place.
    pub table: String,
    /// Columns that are named, for any of the privileges.
    pub columns: Vec<String>,
    /// Whether the grant includes the privilege to create the table.
    pub creates: bool,
}

/// What a grant is on, as servers show it. `None` if it is not on a table but on a database, a
/// routine, a role or an account.
pub fn granted(grant: &str) -> Option<Granted> {
    let bytes = grant.as_bytes();
    let words = words(grant);
    let on = words.iter().position(|word| word.is(bytes, "ON"))?;
    let name = |word: &Token| match word.kind {
        TokenKind::QuotedName => String::from_utf8(word.name(bytes)?).ok(),
        _ => None,
    };
    let [database, point, table, ..] = &words[on + 1..] else {
        return None;
    };
    if !words.first()?.is(bytes, "GRANT") || !point.is_punct(b'.') {
        return None;
    }
    let privileges = &words[1..on];
    let is = |at: usize, keyword| {
        privileges
            .get(at)
            .is_some_and(|word| word.is(bytes, keyword))
    };
    // CREATE VIEW and the like are other privileges. ALL PRIVILEGES stands for all of them.
    let creates = (0..privileges.len()).any(|at| {
        let next = privileges.get(at + 1);
        is(at, "ALL") || is(at, "CREATE") && next.is_none_or(|next| next.kind != TokenKind::Word)
    });
    Some(Granted {
        database: name(database)?,
        table: name(table)?,
        columns: privileges.iter().filter_map(name).collect(),
        creates,
    })
}

/// The account of a `CREATE USER IF NOT EXISTS`.
#[derive(Debug, PartialEq, Eq)]
pub struct Creation {
    /// Name of the account as the statement writes it; the first of several.
    pub name: String,
    /// The statement as servers show it, without the condition.
    pub definition: String,
}

/// Parses a `CREATE USER IF NOT EXISTS`; `None` for other statements.
pub fn created_if_not_there(text: &[u8], mode: LexMode) -> Option<Creation> {
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<Token> = tokens(text.as_bytes(), mode).code().collect();
    let (head, name) = words.split_at_checked(5)?;
    let keywords = ["CREATE", "USER", "IF", "NOT", "EXISTS"];
    if !(head.iter().zip(keywords)).all(|(word, keyword)| word.is(text.as_bytes(), keyword)) {
        return None;
    }
    let (range, _) = account_name(name)?;
    Some(Creation {
        name: text[range.clone()].to_owned(),
        definition: format!("CREATE USER {}", text[range.start..].trim_end()),
    })
}

/// The account whose definition an `ALTER USER` changes, as the statement writes its name; the
/// first of several. `None` for other statements, and for those that only concern default roles.
pub fn altered(text: &[u8], mode: LexMode) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<Token> = tokens(text.as_bytes(), mode).code().collect();
    let is = |word: &Token, keyword| word.is(text.as_bytes(), keyword);
    let [alter, user, rest @ ..] = words.as_slice() else {
        return None;
    };
    if !is(alter, "ALTER") || !is(user, "USER") {
        return None;
    }
    let (name, rest) = account_name(match rest {
        [condition, exists, rest @ ..] if is(condition, "IF") && is(exists, "EXISTS") => rest,
        _ => rest,
    })?;
    match rest {
        [default, role, ..] if is(default, "DEFAULT") && is(role, "ROLE") => None,
        _ => Some(text[name].to_owned()),
    }
}

/// Where the name of an account is, with its host if there is one, and the tokens after it.
fn account_name(words: &[Token]) -> Option<(Range<usize>, &[Token])> {
    let first = words.first()?;
    let (last, rest) = match words {
        [_, at, host, rest @ ..] if at.is_punct(b'@') => (host, rest),
        _ => (first, &words[1..]),
    };
    Some((first.range.start..last.range.end, rest))
}

/// Escapes the name of a certificate that follows `word`: MySQL shows such names as they are,
/// whatever quotes they contain.
pub fn with_literal(definition: &str, word: &str, value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('\'', "\\'");
    definition.replacen(
        &format!("{word} '{value}'"),
        &format!("{word} '{escaped}'"),
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_say_nothing_of_the_account() {
        for (grant, alone) in [
            (
                "GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*x'",
                "GRANT USAGE ON *.* TO `a`@`%`",
            ),
            (
                "GRANT RELOAD ON *.* TO `a IDENTIFIED `@`%` IDENTIFIED VIA x USING 'WITH GRANT OPTION' OR y REQUIRE SSL",
                "GRANT RELOAD ON *.* TO `a IDENTIFIED `@`%`",
            ),
            (
                "GRANT RELOAD ON *.* TO `a`@`%` REQUIRE SUBJECT 'it''s' WITH GRANT OPTION MAX_USER_CONNECTIONS 7",
                "GRANT RELOAD ON *.* TO `a`@`%` WITH GRANT OPTION",
            ),
            (
                "GRANT USAGE ON *.* TO `a`@`%` WITH MAX_USER_CONNECTIONS 7",
                "GRANT USAGE ON *.* TO `a`@`%`",
            ),
            (
                "GRANT `r TO x` TO `a`@`%` WITH ADMIN OPTION",
                "GRANT `r TO x` TO `a`@`%` WITH ADMIN OPTION",
            ),
            (
                "GRANT SELECT ON `d`.* TO PUBLIC",
                "GRANT SELECT ON `d`.* TO PUBLIC",
            ),
            (
                "GRANT PROXY ON ``@`%` TO `root`@`localhost` WITH GRANT OPTION",
                "GRANT PROXY ON ``@`%` TO `root`@`localhost` WITH GRANT OPTION",
            ),
            (
                "REVOKE SELECT ON `d`.* FROM `a`@`%`",
                "REVOKE SELECT ON `d`.* FROM `a`@`%`",
            ),
        ] {
            assert_eq!(grant_alone(grant), alone);
        }
    }

    #[test]
    fn creations_name_their_account() {
        for (text, wanted) in [
            (
                "CREATE USER IF NOT EXISTS `a@b`@`%` IDENTIFIED BY 'x' ",
                Some(("`a@b`@`%`", "CREATE USER `a@b`@`%` IDENTIFIED BY 'x'")),
            ),
            (
                "create user if not exists 'it''s', b@c",
                Some(("'it''s'", "CREATE USER 'it''s', b@c")),
            ),
            ("CREATE USER a@b", None),
            ("CREATE ROLE IF NOT EXISTS a", None),
            ("CREATE USER IF NOT EXISTS", None),
            ("GRANT USAGE ON *.* TO a", None),
        ] {
            let creation = created_if_not_there(text.as_bytes(), LexMode::default());
            let wanted = wanted.map(|(name, definition)| Creation {
                name: name.to_owned(),
                definition: definition.to_owned(),
            });
            assert_eq!(creation, wanted, "{text}");
        }
    }

    #[test]
    fn grants_name_their_table() {
        let of = |columns: &[&str], creates| {
            Some(Granted {
                database: "d ON".to_owned(),
                table: "t".to_owned(),
                columns: columns.iter().map(|&name| name.to_owned()).collect(),
                creates,
            })
        };
        for (grant, wanted) in [
            (
                "GRANT SELECT (`i`, `ON`), INSERT ON `d ON`.`t` TO `a`@`b`",
                of(&["i", "ON"], false),
            ),
            (
                "GRANT SELECT, CREATE VIEW ON `d ON`.`t` TO PUBLIC",
                of(&[], false),
            ),
            (
                "GRANT SELECT, CREATE, DROP ON `d ON`.`t` TO PUBLIC",
                of(&[], true),
            ),
            ("GRANT ALL PRIVILEGES ON `d ON`.`t` TO `a`", of(&[], true)),
            ("GRANT SELECT ON `d`.* TO `a`@`b`", None),
            ("GRANT USAGE ON *.* TO `a`@`b`", None),
            ("GRANT EXECUTE ON PROCEDURE `d`.`p` TO `a`@`b`", None),
            ("GRANT PROXY ON `a`@`b` TO `c`@`d`", None),
            ("GRANT `r`@`%` TO `a`@`b`", None),
            ("REVOKE SELECT ON `d`.* FROM `a`@`b`", None),
        ] {
            assert_eq!(granted(grant), wanted, "{grant}");
        }
    }

    #[test]
    fn alterations_name_their_account() {
        for (text, wanted) in [
            (
                "ALTER USER `a b`@`%` PASSWORD EXPIRE NEVER",
                Some("`a b`@`%`"),
            ),
            ("alter user if exists 'x' account lock", Some("'x'")),
            ("ALTER USER a@b DEFAULT ROLE r", None),
            ("ALTER USER", None),
            ("ALTER TABLE user ADD x INT", None),
            ("CREATE USER a@b", None),
        ] {
            let altered = altered(text.as_bytes(), LexMode::default());
            assert_eq!(altered.as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn names_of_certificates_are_literals() {
        assert_eq!(
            with_literal(
                "… REQUIRE SUBJECT '/CN=it's \\' ISSUER 'x'",
                "SUBJECT",
                "/CN=it's \\"
            ),
            "… REQUIRE SUBJECT '/CN=it\\'s \\\\' ISSUER 'x'"
        );
        // If the server already writes it as a literal, it stays.
        let literal = "… REQUIRE SUBJECT 'it\\'s'";
        assert_eq!(with_literal(literal, "SUBJECT", "it's"), literal);
    }

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
