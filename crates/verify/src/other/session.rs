//! The session that a dump sets up, as far as it affects the meaning of its rows.

use std::collections::HashMap;

use refloat_sqltext::{LexMode, Modes, SetScope, parse_set};

/// Character set of a client that has set none.
const CHARSET: &str = "utf8mb4";

/// Stands for an unknown character set; no real one has this name.
const UNKNOWN: &str = "?";

/// The session, as the `SET` statements so far leave it.
#[derive(Debug, Default)]
pub struct Session {
    modes: Modes,
    charset: Option<String>,
    time_zone: Option<String>,
    history: bool,
    /// User variables in which a dump saves values: the character set and time zone at the time
    /// they were set.
    kept: HashMap<Vec<u8>, (Option<String>, Option<String>)>,
}

impl Session {
    /// How statements are lexed at this point.
    pub fn mode(&self) -> LexMode {
        self.modes.now()
    }

    /// The character set of the text; `binary` if each value is in that of its column.
    pub fn charset(&self) -> &str {
        self.charset.as_deref().unwrap_or(CHARSET)
    }

    /// The time zone of `TIMESTAMP` values, if the dump sets one.
    pub fn time_zone(&self) -> Option<&str> {
        self.time_zone.as_deref()
    }

    /// Whether rows carry their history (`system_versioning_insert_history`).
    pub fn history(&self) -> bool {
        self.history
    }

    /// Sets the character set of the text, whatever was set before.
    pub fn set_charset(&mut self, charset: &str) {
        self.charset = Some(charset.to_ascii_lowercase());
    }

    /// Applies a `SET` statement.
    pub fn set(&mut self, text: &[u8]) {
        for one in parse_set(text, self.modes.now()).unwrap_or_default() {
            if one.scope == SetScope::User {
                let name = one.name.to_ascii_lowercase();
                let now = (self.charset.clone(), self.time_zone.clone());
                self.kept.insert(name, now);
                continue;
            }
            let kept = one.value.strip_prefix(b"@").map(|name| {
                let kept = self.kept.get(&name.to_ascii_lowercase());
                kept.cloned().unwrap_or_default()
            });
            let literal = one
                .literal
                .as_deref()
                .map(|value| String::from_utf8_lossy(value).into_owned());
            match one.name.as_slice() {
                b"names" | b"character_set_client" | b"character_set" => {
                    self.charset = match (literal, kept) {
                        (Some(name), _) => Some(name.to_ascii_lowercase()),
                        (None, Some((charset, _))) => charset,
                        (None, None) => Some(UNKNOWN.to_owned()),
                    };
                }
                b"time_zone" => {
                    self.time_zone = literal.or(kept.and_then(|(_, zone)| zone));
                }
                b"system_versioning_insert_history" => {
                    self.history =
                        literal.is_some_and(|word| word == "1" || word.eq_ignore_ascii_case("on"));
                }
                _ => {}
            }
        }
        self.modes.set(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dump_sets_for_a_while_goes_back() {
        let mut session = Session::default();
        assert_eq!((session.charset(), session.time_zone()), ("utf8mb4", None));
        session.set(b"/*!40101 SET NAMES latin1 */");
        session.set(b"/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */");
        session.set(b"/*!40103 SET TIME_ZONE='+00:00' */");
        session.set(b"/*!40101 SET @saved_cs_client = @@character_set_client */");
        session.set(b"/*!50503 SET character_set_client = utf8mb4 */");
        assert_eq!(session.charset(), "utf8mb4");
        session.set(b"/*!40101 SET character_set_client = @saved_cs_client */");
        assert_eq!(
            (session.charset(), session.time_zone()),
            ("latin1", Some("+00:00"))
        );
        session.set(b"/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */");
        assert_eq!(session.time_zone(), None);
        session.set(b"/*!101100 SET system_versioning_insert_history=1 */");
        assert!(session.history());
    }
}
