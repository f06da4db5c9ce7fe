//! Reads the head of a view, trigger, routine or event, up to its body.

use refloat_sqltext::{LexMode, Token, TokenKind, tokens};

/// Longest head that is examined, in tokens.
const HEAD_TOKENS: usize = 256;

/// An account, or a role if the host is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Name of the user or role.
    pub user: String,
    /// Host; empty for a role.
    pub host: String,
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.is_empty() {
            write!(f, "'{}'", self.user)
        } else {
            write!(f, "'{}'@'{}'", self.user, self.host)
        }
    }
}

/// The account that a `DEFINER` clause names; `None` without one, and for `CURRENT_USER`.
pub fn definer(text: &[u8], mode: LexMode) -> Option<Account> {
    let list = head(text, mode);
    let at = list.iter().position(|token| token.is(text, "DEFINER"))?;
    if !list.get(at + 1)?.is_punct(b'=') {
        return None;
    }
    let first = list.get(at + 2)?;
    let is = |word| first.is(text, word);
    if is("CURRENT_USER") || is("CURRENT_ROLE") {
        return None;
    }
    let user = name(first, text)?;
    let host = if list.get(at + 3).is_some_and(|token| token.is_punct(b'@')) {
        name(list.get(at + 4)?, text)?
    } else {
        String::new()
    };
    Some(Account { user, host })
}

/// Whether a function declares neither that it is deterministic nor that it does not modify data;
/// `false` if its text is cut off before that can be seen.
pub fn is_undeclared(text: &[u8], mode: LexMode) -> bool {
    let list = head(text, mode);
    let is = |at: usize, word: &str| list.get(at).is_some_and(|token| token.is(text, word));
    let Some(returns) = (0..list.len()).find(|at| is(*at, "RETURNS")) else {
        return false;
    };
    let body = (returns + 1..list.len()).find(|at| is(*at, "BEGIN") || is(*at, "RETURN"));
    let Some(body) = body else {
        return false;
    };
    !(returns..body).any(|at| {
        (is(at, "DETERMINISTIC") && !is(at - 1, "NOT"))
            || (is(at, "NO") && is(at + 1, "SQL"))
            || (is(at, "READS") && is(at + 1, "SQL"))
    })
}

fn head(text: &[u8], mode: LexMode) -> Vec<Token> {
    tokens(text, mode).code().take(HEAD_TOKENS).collect()
}

/// The name that the token is, with or without quotes.
fn name(token: &Token, text: &[u8]) -> Option<String> {
    let raw = &text[token.range.clone()];
    let bytes = match token.kind {
        TokenKind::Text if raw.len() >= 2 => {
            let quote = char::from(raw[0]).to_string();
            let inner = String::from_utf8_lossy(&raw[1..raw.len() - 1]);
            return Some(inner.replace(&quote.repeat(2), &quote));
        }
        _ => token.name(text)?,
    };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definer_of(text: &str) -> Option<String> {
        definer(text.as_bytes(), LexMode::default()).map(|account| account.to_string())
    }

    #[test]
    fn definers_in_all_their_dress() {
        let root = Some("'root'@'localhost'".to_owned());
        for text in [
            "CREATE DEFINER=`root`@`localhost` PROCEDURE `p`()\nBEGIN END",
            "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET @a=1 */",
            "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`localhost` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS SELECT 1 */",
            "create definer = 'root'@localhost event e on schedule every 1 day do select 1",
        ] {
            assert_eq!(definer_of(text), root, "{text}");
        }
        assert_eq!(
            definer_of("CREATE DEFINER=admin PROCEDURE p() BEGIN END").as_deref(),
            Some("'admin'")
        );
        assert_eq!(
            definer_of("CREATE DEFINER=CURRENT_USER() PROCEDURE p() BEGIN END"),
            None
        );
        assert_eq!(
            definer_of("CREATE SQL SECURITY DEFINER VIEW v AS SELECT 1"),
            None
        );
        assert_eq!(definer_of("CREATE PROCEDURE p() BEGIN END"), None);
    }

    #[test]
    fn functions_that_say_nothing_of_themselves() {
        let undeclared = |text: &str| is_undeclared(text.as_bytes(), LexMode::default());
        assert!(undeclared("CREATE FUNCTION f() RETURNS int\nRETURN 1"));
        assert!(undeclared(
            "CREATE FUNCTION f() RETURNS int NOT DETERMINISTIC MODIFIES SQL DATA BEGIN RETURN 1; END"
        ));
        assert!(undeclared(
            "CREATE FUNCTION f() RETURNS int BEGIN DECLARE deterministic int; END"
        ));
        assert!(!undeclared(
            "CREATE FUNCTION f() RETURNS int\n    DETERMINISTIC\nRETURN 1"
        ));
        assert!(!undeclared(
            "CREATE FUNCTION f() RETURNS int READS SQL DATA BEGIN RETURN 1; END"
        ));
        assert!(!undeclared(
            "CREATE FUNCTION f() RETURNS int NO SQL RETURN 1"
        ));
        assert!(!undeclared("CREATE FUNCTION f() RETURNS int COMMENT 'cut"));
    }
}
