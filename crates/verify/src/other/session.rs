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
    values: Values,
    history: bool,
    /// See [`Self::keep_charsets`].
    keeps_charsets: bool,
    /// User variables in which a dump saves values: what held when they were set.
    kept: HashMap<Vec<u8>, Values>,
}

/// What a dump sets and sets back.
#[derive(Debug, Default, Clone)]
struct Values {
    /// `character_set_client`
    client: Option<String>,
    /// `character_set_connection`, to which the server converts literals.
    connection: Option<String>,
    time_zone: Option<String>,
}

impl Session {
    /// How statements are lexed at this point.
    pub fn mode(&self) -> LexMode {
        self.modes.now()
    }

    /// The character set of the text; `binary` if each value is in that of its column, without an
    /// introducer.
    pub fn charset(&self) -> &str {
        self.values.client.as_deref().unwrap_or(CHARSET)
    }

    /// The values of the dump are in the character sets of their columns, or ASCII: that is how
    /// `refloat dump` writes SQL.
    pub fn keep_charsets(&mut self) {
        self.keeps_charsets = true;
    }

    /// See [`Self::keep_charsets`].
    pub fn keeps_charsets(&self) -> bool {
        self.keeps_charsets && self.charset() == CHARSET
    }

    /// The character set in which the server's values are compared with those of the dump;
    /// `binary` for that of each column.
    pub fn charset_of_values(&self) -> &str {
        if self.keeps_charsets() {
            "binary"
        } else {
            self.charset()
        }
    }

    /// Whether the server converts literals to another character set on their way to their columns.
    /// That changes the bytes of binary columns, and may lose characters of others.
    pub fn is_converted(&self) -> bool {
        let connection = self.values.connection.as_deref().unwrap_or(CHARSET);
        connection == UNKNOWN || !keeps(connection, self.charset())
    }

    /// The time zone of `TIMESTAMP` values, if the dump sets one.
    pub fn time_zone(&self) -> Option<&str> {
        self.values.time_zone.as_deref()
    }

    /// Whether rows carry their history (`system_versioning_insert_history`).
    pub fn history(&self) -> bool {
        self.history
    }

    /// Sets the character set of the text, whatever was set before.
    pub fn set_charset(&mut self, charset: &str) {
        let charset = Some(charset.to_ascii_lowercase());
        self.values.client.clone_from(&charset);
        self.values.connection = charset;
    }

    /// Applies a `SET` statement.
    pub fn set(&mut self, text: &[u8]) {
        for one in parse_set(text, self.modes.now()).unwrap_or_default() {
            if one.scope == SetScope::User {
                let name = one.name.to_ascii_lowercase();
                self.kept.insert(name, self.values.clone());
                continue;
            }
            let variable = one.value.strip_prefix(b"@");
            let variable = variable.filter(|name| !name.starts_with(b"@"));
            let kept = variable.map(|name| {
                let kept = self.kept.get(&name.to_ascii_lowercase());
                kept.cloned().unwrap_or_default()
            });
            let literal = one
                .literal
                .as_deref()
                .map(|value| String::from_utf8_lossy(value).to_ascii_lowercase());
            // As the dump writes it, as it was kept, or nobody knows.
            let charset = |of: fn(Values) -> Option<String>| match (&literal, &kept) {
                (Some(name), _) => Some(name.clone()),
                (None, Some(kept)) => of(kept.clone()),
                (None, None) => Some(UNKNOWN.to_owned()),
            };
            match one.name.as_slice() {
                b"names" => {
                    self.values.client = charset(|kept| kept.client);
                    self.values.connection.clone_from(&self.values.client);
                }
                // Literals go to the character set of the database.
                b"character_set" => {
                    self.values.client = charset(|kept| kept.client);
                    self.values.connection = Some(UNKNOWN.to_owned());
                }
                b"character_set_client" => self.values.client = charset(|kept| kept.client),
                b"character_set_connection" => {
                    self.values.connection = charset(|kept| kept.connection);
                }
                b"collation_connection" => {
                    let collation = charset(|kept| kept.connection);
                    let charset = |name: String| name.split('_').next().map(str::to_owned);
                    self.values.connection = collation.and_then(charset);
                }
                b"time_zone" => {
                    let literal = one.literal.as_deref().map(String::from_utf8_lossy);
                    let literal = literal.map(std::borrow::Cow::into_owned);
                    self.values.time_zone = literal.or(kept.and_then(|kept| kept.time_zone));
                }
                b"system_versioning_insert_history" => {
                    self.history = literal.is_some_and(|word| word == "1" || word == "on");
                }
                _ => {}
            }
        }
        self.modes.set(text);
    }
}

/// Whether text of one character set has the same bytes in another one, and all its characters.
fn keeps(into: &str, from: &str) -> bool {
    let family = |charset: &str| match charset {
        "utf8" => "utf8mb3".to_owned(),
        other => other.to_owned(),
    };
    let (into, from) = (family(into), family(from));
    into == from || into == "utf8mb4" && from == "utf8mb3"
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
        assert!(!session.is_converted());
        session.set(b"/*!50003 SET @saved_col_connection = @@collation_connection */");
        session.set(b"/*!50003 SET collation_connection = utf8mb4_general_ci */");
        assert!(session.is_converted());
        session.set(b"/*!50003 SET collation_connection = @saved_col_connection */");
        assert!(!session.is_converted());
        session.set(b"SET CHARACTER SET latin1");
        assert!(session.is_converted());
        session.set(b"SET NAMES utf8");
        assert!(!session.is_converted());
        session.set(b"SET character_set_connection = utf8mb4");
        assert!(!session.is_converted());
        session.set(b"/*!101100 SET system_versioning_insert_history=1 */");
        assert!(session.history());
    }
}
