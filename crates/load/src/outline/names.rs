//! Names of collations, character sets and SQL modes in a dump's statements, to ask the server
//! whether it knows them.
//!
//! Only names that cannot be anything else count. One that is missed here fails when its statement
//! runs; one that is mistaken for a collation would cause a good dump to be refused.

use refloat_sqltext::{
    LexMode, ONLY_MYSQL, SetScope, StatementKind, Token, TokenKind, parse_set, tokens,
};

/// The kind of thing that is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A character set.
    Charset,
    /// A collation, such as `utf8mb4_0900_ai_ci`.
    Collation,
    /// A word of `sql_mode`.
    SqlMode,
}

/// Words that may stand in place of a name.
const NO_NAMES: &[&str] = &["default", "null", "any", "global", "session", "local"];

/// The names in a statement, in lower case; words of `sql_mode` in upper case.
pub fn names(kind: &StatementKind, text: &[u8], mode: LexMode) -> Vec<(Named, String)> {
    let set = matches!(kind, StatementKind::Set);
    let program = matches!(
        kind,
        StatementKind::CreateView { .. }
            | StatementKind::CreateTrigger { .. }
            | StatementKind::CreateRoutine { .. }
            | StatementKind::CreateEvent { .. }
    );
    let definition = matches!(
        kind,
        StatementKind::CreateTable { .. }
            | StatementKind::CreateDatabase { .. }
            | StatementKind::AlterDatabase { .. }
            | StatementKind::AlterTable { .. }
    );
    if !(set || program || definition) {
        return Vec::new();
    }
    let list = for_all_servers(text, mode);
    let word = |at: Option<usize>, keyword: &str| {
        at.and_then(|at| list.get(at))
            .is_some_and(|token| token.is(text, keyword))
    };
    let mut found = Vec::new();
    for (at, token) in list.iter().enumerate() {
        let Some(name) = plain_name(token, text) else {
            continue;
        };
        let equals = at > 0 && list[at - 1].is_punct(b'=');
        let before = |back: usize| at.checked_sub(back + usize::from(equals));
        let named = if word(before(1), "COLLATE") {
            Named::Collation
        } else if set {
            match of_assignment(&list, text, at, equals) {
                Some(named) => named,
                None => continue,
            }
        } else if definition
            && (word(before(1), "SET") && word(before(2), "CHARACTER")
                || equals && word(before(1), "CHARSET") && word(before(2), "DEFAULT"))
        {
            Named::Charset
        } else {
            continue;
        };
        found.push((named, name));
    }
    if set {
        let words = modes(text, mode, &list).into_iter();
        found.extend(words.map(|word| (Named::SqlMode, word)));
    }
    found
}

/// The words of each `sql_mode` that a `SET` assigns as a literal.
fn modes(text: &[u8], mode: LexMode, list: &[Token]) -> Vec<String> {
    let mut words = Vec::new();
    for one in parse_set(text, mode).unwrap_or_default() {
        let runs = |token: &Token| {
            token.kind == TokenKind::Text && text[token.range.clone()] == one.value[..]
        };
        if one.scope != SetScope::Session || one.name != b"sql_mode" || !list.iter().any(runs) {
            continue;
        }
        let literal = one.literal.unwrap_or_default().to_ascii_uppercase();
        let plain = |word: &&str| {
            let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
            !word.is_empty() && word.bytes().all(letter)
        };
        let literal = String::from_utf8_lossy(&literal);
        words.extend(literal.split(',').filter(plain).map(str::to_owned));
    }
    words
}

/// What kind of name a `SET` assigns here, if any.
fn of_assignment(list: &[Token], text: &[u8], at: usize, equals: bool) -> Option<Named> {
    if !equals {
        let names = at >= 2 && list[at - 1].is(text, "NAMES") && list[at - 2].is(text, "SET");
        return names.then_some(Named::Charset);
    }
    let variable = list.get(at.checked_sub(2)?)?;
    let variable = text[variable.range.clone()].to_ascii_lowercase();
    if variable.starts_with(b"collation_") {
        Some(Named::Collation)
    } else {
        variable
            .starts_with(b"character_set_")
            .then_some(Named::Charset)
    }
}

/// The tokens outside conditional comments that only some servers run (for MariaDB, and from
/// MySQL 5.7 on): whether this server will run them is not known here.
fn for_all_servers(text: &[u8], mode: LexMode) -> Vec<Token> {
    let mut depth = 0_usize;
    let mut hidden = None;
    let mut list = Vec::new();
    for token in tokens(text, mode) {
        match token.kind {
            TokenKind::OpenConditional => {
                depth += 1;
                let opening = &text[token.range.clone()];
                let digits: String = opening
                    .iter()
                    .map(|byte| char::from(*byte))
                    .filter(char::is_ascii_digit)
                    .collect();
                let version: u32 = digits.parse().unwrap_or(0);
                if hidden.is_none() && (version >= *ONLY_MYSQL.start() || opening.contains(&b'M')) {
                    hidden = Some(depth);
                }
            }
            TokenKind::CloseConditional => {
                if hidden == Some(depth) {
                    hidden = None;
                }
                depth = depth.saturating_sub(1);
            }
            _ if hidden.is_none() => list.push(token),
            _ => {}
        }
    }
    list
}

/// The name in lower case, if this token can be such a name.
fn plain_name(token: &Token, text: &[u8]) -> Option<String> {
    let raw = &text[token.range.clone()];
    let raw = match token.kind {
        TokenKind::Word => raw,
        TokenKind::Text | TokenKind::QuotedName if raw.len() > 2 => &raw[1..raw.len() - 1],
        _ => return None,
    };
    let plain = raw
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let name = std::str::from_utf8(raw).ok()?.to_ascii_lowercase();
    (plain && !NO_NAMES.contains(&name.as_str())).then_some(name)
}

#[cfg(test)]
mod tests {
    use refloat_sqltext::classify;

    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mode = LexMode::default();
        let kind = classify(text.as_bytes(), mode);
        names(&kind, text.as_bytes(), mode)
            .into_iter()
            .map(|(_, name)| name)
            .collect()
    }

    #[test]
    fn names_where_they_can_be_nothing_else() {
        assert_eq!(
            found(
                "CREATE TABLE t (a text CHARACTER SET latin1 COLLATE latin1_bin) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"
            ),
            ["latin1", "latin1_bin", "utf8mb4", "utf8mb4_0900_ai_ci"]
        );
        assert_eq!(
            found(
                "CREATE DATABASE d /*!40100 DEFAULT CHARACTER SET latin1 */ /*!80016 COLLATE x */"
            ),
            ["latin1"]
        );
        assert_eq!(found("SET NAMES utf8mb4"), ["utf8mb4"]);
        assert_eq!(
            found("SET character_set_client = 'sjis', collation_connection = sjis_bin"),
            ["sjis", "sjis_bin"]
        );
        assert_eq!(
            found("/*!50003 SET sql_mode = 'ANSI,NO_AUTO_CREATE_USER' */"),
            ["ANSI", "NO_AUTO_CREATE_USER"]
        );
        assert_eq!(
            found("/*!80000 SET @@SESSION.sql_mode = 'TIME_TRUNCATE_FRACTIONAL' */"),
            [""; 0]
        );
        assert_eq!(
            found("SET @OLD_SQL_MODE = 'one', sql_mode = @@sql_mode, SQL_MODE = ''"),
            [""; 0]
        );
        assert_eq!(
            found("SET @OLD=@@CHARACTER_SET_CLIENT, character_set_results = NULL"),
            [""; 0]
        );
        assert_eq!(
            found("SET character_set_client = @saved_cs_client"),
            [""; 0]
        );
        assert_eq!(
            found("CREATE VIEW v AS SELECT a COLLATE utf8mb4_bin FROM t WHERE charset = other"),
            ["utf8mb4_bin"]
        );
        assert_eq!(
            found("CREATE TABLE t (charset varchar(9), KEY charset (charset))"),
            [""; 0]
        );
        assert_eq!(
            found("CREATE PROCEDURE p() BEGIN SET charset = x; END"),
            [""; 0]
        );
    }
}
