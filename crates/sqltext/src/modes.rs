//! Tracks how the text of a dump must be read, from the dump alone, when there is no server to ask.

use std::collections::HashMap;

use crate::{CharsetFamily, LexMode, SetScope, parse_set};

/// Follows `sql_mode` and the character set through the `SET` statements of a dump. Dumps save the
/// old values in user variables and restore them later; this follows both.
#[derive(Debug, Default)]
pub struct Modes {
    now: State,
    kept: HashMap<Vec<u8>, State>,
}

#[derive(Debug, Default, Clone)]
struct State {
    lex: LexMode,
    sql_mode: SqlMode,
}

/// The `sql_mode` of a dump's session.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum SqlMode {
    /// The server's default: the dump has not set it.
    #[default]
    Own,
    /// This value, as the dump set it.
    Set(Vec<u8>),
    /// The result of an expression that only the server can evaluate.
    Unknown,
}

impl Modes {
    /// The lexical mode for the next statement.
    pub fn now(&self) -> LexMode {
        self.now.lex
    }

    /// The `sql_mode` in effect for the next statement.
    pub fn sql_mode(&self) -> &SqlMode {
        &self.now.sql_mode
    }

    /// Applies a `SET` statement and returns the new lexical mode. Other text has no effect.
    pub fn set(&mut self, text: &[u8]) -> LexMode {
        for one in parse_set(text, self.now.lex).unwrap_or_default() {
            if one.scope == SetScope::User {
                let before = ["@@sql_mode", "@@character_set_client"];
                if before
                    .iter()
                    .any(|name| one.value.eq_ignore_ascii_case(name.as_bytes()))
                {
                    let now = self.now.clone();
                    self.kept.insert(one.name.to_ascii_lowercase(), now);
                }
                continue;
            }
            let kept = one
                .value
                .strip_prefix(b"@")
                .and_then(|name| self.kept.get(&name.to_ascii_lowercase()));
            let charset_family = self.now.lex.charset_family;
            match one.name.as_slice() {
                b"sql_mode" => match (&one.literal, kept) {
                    (Some(literal), _) => {
                        self.now.lex = self.now.lex.with_sql_mode(literal);
                        self.now.sql_mode = SqlMode::Set(literal.clone());
                    }
                    (None, Some(kept)) => {
                        self.now = kept.clone();
                        self.now.lex.charset_family = charset_family;
                    }
                    (None, None) => self.now.sql_mode = SqlMode::Unknown,
                },
                b"names" | b"character_set_client" => match (&one.literal, kept) {
                    (Some(literal), _) => {
                        self.now.lex.charset_family = CharsetFamily::from_charset_name(literal);
                    }
                    (None, Some(kept)) => self.now.lex.charset_family = kept.lex.charset_family,
                    (None, None) => {}
                },
                _ => {}
            }
        }
        self.now.lex
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_come_and_go() {
        let mut modes = Modes::default();
        modes.set(b"/*!50003 SET @saved_sql_mode = @@sql_mode */");
        modes.set(b"/*!50003 SET @saved_cs_client = @@character_set_client */");
        modes.set(b"/*!50003 SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES' */");
        modes.set(b"SET character_set_client = sjis");
        assert!(modes.now().no_backslash_escapes && modes.now().ansi_quotes);
        let text = b"NO_BACKSLASH_ESCAPES,ANSI_QUOTES".to_vec();
        assert_eq!(modes.sql_mode(), &SqlMode::Set(text));
        assert_ne!(modes.now().charset_family, CharsetFamily::Plain);
        modes.set(b"/*!50003 SET sql_mode = @saved_sql_mode */");
        assert!(!modes.now().no_backslash_escapes && !modes.now().ansi_quotes);
        assert_eq!(modes.sql_mode(), &SqlMode::Own);
        modes.set(b"SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')");
        assert_eq!(modes.sql_mode(), &SqlMode::Unknown);
        modes.set(b"/*!50003 SET sql_mode = @saved_sql_mode */");
        assert_ne!(
            modes.now().charset_family,
            CharsetFamily::Plain,
            "that is another variable"
        );
        modes.set(b"/*!50003 SET character_set_client = @saved_cs_client */");
        assert_eq!(modes.now(), LexMode::default());
    }
}
